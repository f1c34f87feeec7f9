/*
 * The CPU that the tool itself runs on: AArch64.  The build picks the CPU's
 * directory.  Context: host.
 */
#ifndef ARCH_AARCH64_NATIVE_NATIVE_H
#define ARCH_AARCH64_NATIVE_NATIVE_H

#include <stdint.h>

#define NATIVE_MACHINE 183 /* EM_AARCH64 */

/* The counter that arch_clock() reads in a target. */
static inline uint64_t native_clock(void)
{
	uint64_t ticks;

	__asm__ volatile("mrs %0, cntvct_el0" : "=r"(ticks));
	return ticks;
}

#endif
