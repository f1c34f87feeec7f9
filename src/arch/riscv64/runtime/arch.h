/*
 * What the portable rooms in the target ask of a CPU: riscv64's answers.
 *
 * Included by base, ring, probe, patch and agent (probe and control contexts)
 * as <arch.h>; the build picks the CPU's directory.  What each name means:
 * generic/runtime/contract.h.  Needs the extensions I, M and A.
 */
#ifndef ARCH_RISCV64_RUNTIME_ARCH_H
#define ARCH_RISCV64_RUNTIME_ARCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <offsets.h>

/* Sv39 has 38, Sv48 47, and with Sv57 Linux gives no more unless asked for. */
#define ARCH_ADDRESS_BITS   47
#define ARCH_FRAME_REGISTER 8
#define ARCH_FRAME_PAIR	    16

#define ARCH_ELF_MACHINE 243
#define ARCH_AUDIT	 0xc00000f3u /* AUDIT_ARCH_RISCV64 */

/* How to unwind from stubs (generic/runtime/link_unwind.c). */
#define ARCH_DWARF_RETURN   1
#define ARCH_DWARF_SP	    2
#define ARCH_SIGRETURN_CODE 0x08b00893u /* li a7, 139 */

#define ARCH_POINTER_MASK (~(uint64_t)0) /* return addresses are not signed */
#define ARCH_BACK_AFTER	  4		 /* jalr ra, 0(t0) */
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

static inline uint64_t arch_clock(void)
{
	uint64_t ticks;

	__asm__ volatile("rdtime %0" : "=r"(ticks));
	return ticks;
}

/* To fences a read of a counter is a device's input (Zicsr, "CSR Access Ordering"). */
static inline void arch_clock_behind(uint64_t loaded)
{
	(void)loaded;
	__asm__ volatile("fence r, i" : : : "memory");
}

/* The rate stands in the device tree, which an emulator's counter need not follow. */
static inline uint64_t arch_clock_hz(void)
{
	return 0;
}

static inline uint64_t arch_local_add(uint64_t *word, uint64_t add)
{
	uint64_t before;

	__asm__ volatile("amoadd.d %0, %2, %1" : "=r"(before), "+A"(*word) : "r"(add) : "memory");
	return before;
}

#include <arch/generic/runtime/plain_words.h>

/* Without Zbb there is no instruction for it, and gcc's builtin would be a call. */
static inline unsigned arch_first_bit(uint32_t word)
{
	unsigned bit = 0;

	for (; !(word & 1); word >>= 1)
		bit++;
	return bit;
}

/* The kernel drops the reservation when it starts a handler and when it ends. */
static inline int arch_local_cas(uint64_t *word, uint64_t expected, uint64_t desired)
{
	uint64_t found, failed;

	__asm__ volatile("1:	lr.d %0, %2\n\t"
			 "	bne %0, %3, 2f\n\t"
			 "	sc.d %1, %4, %2\n\t"
			 "	bnez %1, 1b\n"
			 "2:"
			 : "=&r"(found), "=&r"(failed), "+A"(*word)
			 : "r"(expected), "r"(desired)
			 : "memory");
	return found == expected;
}

static inline void arch_pause(void)
{
	__asm__ volatile(".4byte 0x0100000f"); /* pause: a hint, which older assemblers do not know */
}

static inline long arch_syscall(long nr, long a, long b, long c, long d, long e, long f)
{
	register long a0 __asm__("a0") = a;
	register long a1 __asm__("a1") = b;
	register long a2 __asm__("a2") = c;
	register long a3 __asm__("a3") = d;
	register long a4 __asm__("a4") = e;
	register long a5 __asm__("a5") = f;
	register long a7 __asm__("a7") = nr;

	__asm__ volatile("ecall" : "+r"(a0) : "r"(a1), "r"(a2), "r"(a3), "r"(a4), "r"(a5), "r"(a7) : "memory");
	return a0;
}

#define ARCH_FLUSH_ICACHE 259
/* As rt_sigaction takes it; emulators write a word more than the kernel. */
struct arch_action {
	uint64_t handler, flags, mask, spare;
};

#define ARCH_CONTROL_CALL                                                                                              \
	{                                                                                                              \
		ARCH_FLUSH_ICACHE,                                                                                     \
		{                                                                                                      \
			ANY, ANY, 0                                                                                    \
		}                                                                                                      \
	}

/*
 * riscv_flush_icache(): fence.i on every hart that runs the process, and on others before they do.  A fence.i of our
 * own would reach one hart only, which need not be ours any more when it is over.
 */
static inline void arch_text_written(uint64_t lo, size_t size)
{
	arch_syscall(ARCH_FLUSH_ICACHE, (long)lo, (long)(lo + size), 0, 0, 0, 0);
}

static inline int arch_text_sync(void)
{
	return (int)arch_syscall(ARCH_FLUSH_ICACHE, 0, 0, 0, 0, 0, 0);
}

/* Valgrind's client request RUNNING_ON_VALGRIND (valgrind.h); the shifts go nowhere on a real CPU. */
static inline int arch_in_valgrind(void)
{
	const uint64_t request[6] = {0x1001};
	register uint64_t depth __asm__("a3") = 0;
	register const uint64_t *arguments __asm__("a4") = request;

	__asm__ volatile(".option push\n\t.option norvc\n\t"
			 "srli zero, zero, 3\n\tsrli zero, zero, 13\n\tsrli zero, zero, 51\n\tsrli zero, zero, 61\n\t"
			 "or a0, a0, a0\n\t.option pop"
			 : "+r"(depth)
			 : "r"(arguments)
			 : "memory");
	return depth != 0;
}

/* glibc: pc, s0 to s11, sp, unmixed.  With another libc's layout the result is no stack's address. */
static inline uint64_t arch_jump_sp(const void *env, bool mixed)
{
	(void)mixed;
	return ((const uint64_t *)env)[13];
}

/* stub.c */
uint32_t arch_stub_word(uint64_t back);

/* auipc and jalr: 2 GiB, less what rounding takes. */
#define ARCH_REACH ((uint64_t)0x7fff0000)

/*
 * A site is auipc, written once, and a second instruction that is a jump or a
 * no-op: one aligned store from one to the other (doc/design/riscv64.md).
 */
#define ARCH_SITE_MIN	8
#define ARCH_SITE_MAX	8
#define ARCH_SITE_ALIGN 4
#define ARCH_STEPS_MAX	3
#define ARCH_HOOK_BYTES 4
#define ARCH_LEAD_BYTES 8
#define ARCH_ISLAND_MAX 8
#define ARCH_HOOK_REACH ((uint64_t)0xff000) /* jal */

/* In front of a stub, and with its first instruction: veneer.c. */
#define ARCH_VENEER_BYTES    24
#define ARCH_STUB_HEAD_BYTES 28

static inline bool arch_site_is_short(uint8_t length)
{
	return length < ARCH_SITE_MIN;
}

#define ARCH_VECTORS_BYTES 260 /* f0 to f31, fcsr */

/* stub.c: does the body of that stub (of a region) return by way of the dispatcher? */
bool arch_stub_is_handled(uint64_t back, uint64_t region);

#include <arch/generic/runtime/link_handled.h>
#include <arch/generic/runtime/contract.h>

#endif
