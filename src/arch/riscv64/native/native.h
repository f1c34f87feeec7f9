/*
 * The CPU that the tool itself runs on: RISC-V, 64 bits.  The build picks the
 * CPU's directory.  Context: host.
 */
#ifndef ARCH_RISCV64_NATIVE_NATIVE_H
#define ARCH_RISCV64_NATIVE_NATIVE_H

#include <stdint.h>

#define NATIVE_MACHINE 243 /* EM_RISCV */

/* The counter that arch_clock() reads in a target. */
static inline uint64_t native_clock(void)
{
	uint64_t ticks;

	__asm__ volatile("rdtime %0" : "=r"(ticks));
	return ticks;
}

#endif
