/*
 * The CPU that the tool itself runs on: x86-64.  The build picks the CPU's
 * directory.  Context: host.
 */
#ifndef ARCH_X86_64_NATIVE_NATIVE_H
#define ARCH_X86_64_NATIVE_NATIVE_H

#include <stdint.h>

#define NATIVE_MACHINE 62 /* EM_X86_64 */

/* The counter that arch_clock() reads in a target. */
static inline uint64_t native_clock(void)
{
	return __builtin_ia32_rdtsc();
}

#endif
