/*
 * AArch64's part of what the portable rooms in the target need from a CPU.
 *
 * Included by base, ring, probe, patch and agent (probe and control contexts) as <arch.h>; the build picks the CPU's
 * directory. generic/runtime/contract.h tells the meaning of each name.
 */
#ifndef ARCH_AARCH64_RUNTIME_ARCH_H
#define ARCH_AARCH64_RUNTIME_ARCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <offsets.h>

#define ARCH_ADDRESS_BITS   48
#define ARCH_FRAME_REGISTER 29
#define ARCH_FRAME_PAIR	    0

#define ARCH_ELF_MACHINE 183
#define ARCH_AUDIT	 0xc00000b7u /* AUDIT_ARCH_AARCH64 */

/* How to unwind from stubs (generic/runtime/link_unwind.c). */
#define ARCH_DWARF_RETURN   30
#define ARCH_DWARF_SP	    31
#define ARCH_SIGRETURN_CODE 0xd2801168u /* mov x8, #139 */

/*
 * The bits of an address that a signature (PAC) leaves alone depend on how wide the kernel's addresses are; xpaclri
 * takes off the signature of x30, and on a CPU without does nothing.
 */
static inline uint64_t arch_pointer_mask(void)
{
	register uint64_t address __asm__("x30") = ((uint64_t)1 << 55) - 1;

	__asm__("hint #7" : "+r"(address));
	return address;
}
#define ARCH_POINTER_MASK arch_pointer_mask()
#define ARCH_BACK_AFTER	  STUB_BACK
#include <arch/generic/runtime/link_frame.h>

/* There is no trap flag that a program could set. */
static inline bool arch_is_stepped(void)
{
	return false;
}

static inline void arch_step(bool on)
{
	(void)on;
}

/*
 * Without an isb: the order of records is that of their slots, and a read that
 * runs some instructions ahead is off by less than the counter's tick.
 */
static inline uint64_t arch_clock(void)
{
	uint64_t ticks;

	__asm__ volatile("mrs %0, cntvct_el0" : "=r"(ticks));
	return ticks;
}

/* A branch that waits for the load, and an isb, behind which the counter is read anew (ARM ARM, the generic timer). */
static inline void arch_clock_behind(uint64_t loaded)
{
	__asm__ volatile("cbz %0, 1f\n1:	isb" : : "r"(loaded) : "memory");
}

static inline uint64_t arch_clock_hz(void)
{
	uint64_t hz;

	__asm__("mrs %0, cntfrq_el0" : "=r"(hz));
	return hz;
}

/*
 * Add to a word of this thread.  A signal handler in between makes the store
 * fail: taking an exception and returning from it clears the exclusive monitor.  Not
 * by LSE's single instruction: there are CPUs without, and no flag to ask here.
 */
static inline uint64_t arch_local_add(uint64_t *word, uint64_t add)
{
	uint64_t old, sum;
	uint32_t failed;

	__asm__ volatile("1:	ldxr %0, %3\n\tadd %1, %0, %4\n\tstxr %w2, %1, %3\n\tcbnz %w2, 1b"
			 : "=&r"(old), "=&r"(sum), "=&r"(failed), "+Q"(*word)
			 : "r"(add)
			 : "memory");
	return old;
}

#include <arch/generic/runtime/plain_words.h>

static inline unsigned arch_first_bit(uint32_t word)
{
	return (unsigned)__builtin_ctz(word);
}

/* Compare and swap on a word of this thread, with the same guarantee. */
static inline int arch_local_cas(uint64_t *word, uint64_t expected, uint64_t desired)
{
	uint64_t old;
	uint32_t failed;

	__asm__ volatile("1:	ldxr %0, %2\n\tcmp %0, %3\n\tb.ne 2f\n\tstxr %w1, %4, %2\n\tcbnz %w1, 1b\n2:"
			 : "=&r"(old), "=&r"(failed), "+Q"(*word)
			 : "r"(expected), "r"(desired)
			 : "memory", "cc");
	return old == expected;
}

/* For loops that wait for another CPU. */
static inline void arch_pause(void)
{
	__asm__ volatile("yield");
}

static inline long arch_syscall(long nr, long a, long b, long c, long d, long e, long f)
{
	register long x8 __asm__("x8") = nr;
	register long x0 __asm__("x0") = a;
	register long x1 __asm__("x1") = b;
	register long x2 __asm__("x2") = c;
	register long x3 __asm__("x3") = d;
	register long x4 __asm__("x4") = e;
	register long x5 __asm__("x5") = f;

	__asm__ volatile("svc #0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4), "r"(x5) : "memory");
	return x0;
}

/*
 * Does valgrind run the program?  Its client request RUNNING_ON_VALGRIND (valgrind.h); the rotations add up to
 * nothing on a real CPU.
 */
static inline int arch_in_valgrind(void)
{
	const uint64_t request[6] = {0x1001};
	register uint64_t depth __asm__("x3") = 0;
	register const uint64_t *asked __asm__("x4") = request;

	__asm__ volatile("ror x12, x12, #3\n\tror x12, x12, #13\n\tror x12, x12, #51\n\tror x12, x12, #61\n\t"
			 "orr x10, x10, x10"
			 : "+r"(depth)
			 : "r"(asked)
			 : "cc", "memory");
	return depth != 0;
}

/*
 * The stack pointer that a longjmp to env will set.  glibc keeps it mixed
 * with a secret of the loader's (PTR_MANGLE), musl as it is, at the same
 * place; with another libc's layout the result is no stack's address.
 */
extern const uint64_t __pointer_chk_guard __attribute__((weak));
static inline uint64_t arch_jump_sp(const void *env, bool mixed)
{
	uint64_t sp = ((const uint64_t *)env)[13];

	(void)mixed;
	return &__pointer_chk_guard ? sp ^ __pointer_chk_guard : sp;
}

/* stub.c: the exit record's word of the stub that back lies in, 0 = none. */
uint32_t arch_stub_word(uint64_t back);

/* Clean to the point of unification, then invalidate, line by line; CTR_EL0 says what the caches do by themselves. */
static inline void arch_text_written(uint64_t lo, size_t size)
{
	uint64_t caches, data_line, code_line;

	__asm__("mrs %0, ctr_el0" : "=r"(caches));
	data_line = (uint64_t)4 << (caches >> 16 & 15);
	code_line = (uint64_t)4 << (caches & 15);
	for (uint64_t at = lo & ~(data_line - 1); !(caches >> 28 & 1) && at < lo + size; at += data_line) /* IDC */
		__asm__ volatile("dc cvau, %0" : : "r"(at) : "memory");
	__asm__ volatile("dsb ish" : : : "memory");
	for (uint64_t at = lo & ~(code_line - 1); !(caches >> 29 & 1) && at < lo + size; at += code_line) /* DIC */
		__asm__ volatile("ic ivau, %0" : : "r"(at) : "memory");
	__asm__ volatile("dsb ish\n\tisb" : : : "memory");
}

/* Instructions for all cores there are none for; the kernel's other calls do it by accident, if at all. */
static inline int arch_text_sync(void)
{
	return -38; /* ENOSYS */
}

/* As rt_sigaction takes it. */
struct arch_action {
	uint64_t handler, flags, restorer, mask;
};

#define ARCH_CONTROL_CALL                                                                                              \
	{                                                                                                              \
		SYS_exit,                                                                                              \
		{                                                                                                      \
			0                                                                                              \
		}                                                                                                      \
	} /* none of its own */

/* How far a site's jump reaches. */
#define ARCH_REACH ((uint64_t)0x07ff0000)

/* A site is one instruction: `b stub` or `nop` (doc/design/aarch64.md). */
#define ARCH_SITE_MIN	4
#define ARCH_SITE_MAX	4
#define ARCH_SITE_ALIGN 4
#define ARCH_STEPS_MAX	1
#define ARCH_HOOK_BYTES 4
#define ARCH_LEAD_BYTES 4
#define ARCH_ISLAND_MAX 0
#define ARCH_HOOK_REACH ARCH_REACH

#define ARCH_VENEER_BYTES 0 /* sites lead to other stubs by themselves */

static inline bool arch_site_is_short(uint8_t length)
{
	(void)length;
	return false;
}

#define ARCH_VECTORS_BYTES 520 /* v0 to v31, FPSR, FPCR */

/* stub.c: does the body of that stub (of a region) return by way of the dispatcher? */
bool arch_stub_is_handled(uint64_t back, uint64_t region);

#include <arch/generic/runtime/link_handled.h>
#include <arch/generic/runtime/contract.h>

#endif
