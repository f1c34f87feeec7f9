/* Registers around calls of handled functions, and faults, AArch64 (handled.h). */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <ucontext.h>

#include <cmocka.h>

#include "handled.h"
#include "registers_text.h"

const int fault_kinds[] = {SIGSEGV, SIGBUS, SIGILL};
const unsigned fault_kinds_count = sizeof(fault_kinds) / sizeof(fault_kinds[0]);
const uint32_t vectors_controls[2] = {0, 1 << 22}; /* FPCR, with another rounding */

__asm__(REGISTERS_MACROS "callee callee_call\n"
			 "callee callee_both\n" REGISTERS_CALL);

void check_shown(const struct calltap_registers *shown, uint64_t base)
{
	for (uint64_t n = 0; n < 30; n++)
		if (n < 16 || n > 17)
			assert_int_equal(shown->x[n], base + (n < 16 ? n : n - 2));
}

#define EACH_PAIR(op)                                                                                                  \
	op(0, 1) op(2, 3) op(4, 5) op(6, 7) op(8, 9) op(10, 11) op(12, 13) op(14, 15) op(16, 17) op(18, 19) op(20, 21) \
		op(22, 23) op(24, 25) op(26, 27) op(28, 29) op(30, 31)
#define LOAD(n, next)  "ldp q" #n ", q" #next ", [x0, #16 * " #n "]\n\t"
#define STORE(n, next) "stp q" #n ", q" #next ", [x1, #16 * " #n "]\n\t"
#define ONES(n, next)  "movi v" #n ".16b, #255\n\tmovi v" #next ".16b, #255\n\t"
#define NAME(n, next)  "v" #n, "v" #next,

void spoil_vectors(void)
{
	__asm__ volatile(EACH_PAIR(ONES) "msr fpcr, %0\n\tmsr fpsr, %0"
			 :
			 : "r"((uint64_t)3 << 22)
			 : EACH_PAIR(NAME) "memory");
}

void call_with_vectors(const struct vectors *in, struct vectors *out)
{
	register const struct vectors *from __asm__("x0") = in;
	register struct vectors *to __asm__("x1") = out;
	uint64_t own;

	__asm__ volatile("mrs %0, fpcr" : "=r"(own));
	__asm__ volatile(
		EACH_PAIR(LOAD) "ldr w9, [x0, #512]\n\tmsr fpcr, x9\n\tstp x29, x1, [sp, #-32]!\n\t"
				"str x18, [sp, #16]\n\tbl callee_both\n\tldr x18, [sp, #16]\n\t"
				"ldp x29, x1, [sp], #32\n\t" EACH_PAIR(STORE) "mrs x9, fpcr\n\tstr w9, [x1, #512]\n\t"
		: "+r"(from), "+r"(to)
		:
		: EACH_PAIR(NAME) "memory", "cc", "x2", "x3", "x4", "x5", "x6", "x7", "x8", "x9", "x10", "x11", "x12",
		  "x13", "x14", "x15", "x16", "x17", "x19", "x20", "x21", "x22", "x23", "x24", "x25", "x26", "x27",
		  "x28", "x30");
	__asm__ volatile("msr fpcr, %0" : : "r"(own));
}

__attribute__((noinline)) void fault_now(int signal, bool vectors, void *hole)
{
	register int64_t number __asm__("x0");
	register void *there __asm__("x1");

	if (vectors)
		spoil_vectors();
	number = signal; /* not before that call */
	there = hole;
	__asm__ volatile(
		".irp n, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 19, 20, 21, 22, 23, 24, 25, 26,"
		" 27, 28, 29, 30\n\t"
		"mov x\\n, #-1\n\t"
		".endr\n\t"
		"cmp x0, #11\n\tb.ne 1f\n\tmov x2, #0x1234\n\tstr w0, [x2]\n"
		"1: cmp x0, #7\n\tb.ne 2f\n\tstr w0, [x1]\n"
		"2: udf #0\n"
		:
		: "r"(number), "r"(there)
		: "memory", "cc", "x2", "x3", "x4", "x5", "x6", "x7", "x8", "x9", "x10", "x11", "x12", "x13", "x14",
		  "x15", "x16", "x17", "x19", "x20", "x21", "x22", "x23", "x24", "x25", "x26", "x27", "x28", "x30");
	__builtin_unreachable(); /* nor is x29 what it was */
}

/* The record of the vector registers is not there. */
void piece_frame(uint64_t *words, uint64_t sp)
{
	ucontext_t *left = (ucontext_t *)words;

	left->uc_mcontext.sp = sp;
	sigaddset(&left->uc_sigmask, SIGUSR1);
}
