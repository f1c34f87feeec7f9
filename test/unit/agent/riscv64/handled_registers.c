/* Registers around calls of handled functions, and faults, riscv64 (handled.h). */
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
const uint32_t vectors_controls[2] = {0, 1 << 5}; /* fcsr, with another rounding */

__asm__(REGISTERS_MACROS "callee callee_call\n"
			 "callee callee_both\n" REGISTERS_CALL);

static const unsigned numbers[REGISTERS] = {7,	8,  9,	10, 11, 12, 13, 14, 15, 16, 17,
					    18, 19, 20, 21, 22, 23, 24, 25, 26, 27};

void check_shown(const struct calltap_registers *shown, uint64_t base)
{
	for (uint64_t i = 0; i < REGISTERS; i++)
		assert_int_equal(shown->x[numbers[i]], base + i);
}

#define EACH                                                                                                           \
	"0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, "   \
	"29, 30, 31"
#define EACH_NAME                                                                                                      \
	"f0", "f1", "f2", "f3", "f4", "f5", "f6", "f7", "f8", "f9", "f10", "f11", "f12", "f13", "f14", "f15", "f16",   \
		"f17", "f18", "f19", "f20", "f21", "f22", "f23", "f24", "f25", "f26", "f27", "f28", "f29", "f30",      \
		"f31"

void spoil_vectors(void)
{
	__asm__ volatile(".irp n, " EACH "\n\tfmv.d.x f\\n, %0\n\t.endr\n\tfscsr %1"
			 :
			 : "r"(-1l), "r"(0x7fl)
			 : EACH_NAME);
}

void call_with_vectors(const struct vectors *in, struct vectors *out)
{
	register const struct vectors *from __asm__("a0") = in;
	register struct vectors *to __asm__("a1") = out;
	uint64_t own;

	__asm__ volatile("frcsr %0" : "=r"(own));
	__asm__ volatile(".irp n, " EACH "\n\tfld f\\n, 8 * \\n(a0)\n\t.endr\n\t"
			 "lw t1, 256(a0)\n\tfscsr t1\n\taddi sp, sp, -16\n\tsd a1, 0(sp)\n\tsd s0, 8(sp)\n\t"
			 "call callee_both\n\tld a1, 0(sp)\n\tld s0, 8(sp)\n\taddi sp, sp, 16\n\t"
			 ".irp n, " EACH "\n\tfsd f\\n, 8 * \\n(a1)\n\t.endr\n\tfrcsr t1\n\tsw t1, 256(a1)"
			 : "+r"(from), "+r"(to)
			 :
			 : EACH_NAME, "memory", "ra", "t0", "t1", "t2", "t3", "t4", "t5", "t6", "a2", "a3", "a4", "a5",
			   "a6", "a7", "s1", "s2", "s3", "s4", "s5", "s6", "s7", "s8", "s9", "s10", "s11");
	__asm__ volatile("fscsr %0" : : "r"(own));
}

__attribute__((noinline)) void fault_now(int signal, bool vectors, void *hole)
{
	register int64_t number __asm__("a0");
	register void *there __asm__("a1");

	if (vectors)
		spoil_vectors();
	number = signal; /* not before that call */
	there = hole;
	__asm__ volatile(
		".irp reg, ra, t0, t1, t2, t3, t4, t5, t6, a3, a4, a5, a6, a7, s1, s2, s3, s4, s5, s6, s7, s8, s9, "
		"s10, s11, s0\n\tli \\reg, -1\n\t.endr\n\t"
		"li a2, 11\n\tbne a0, a2, 1f\n\tli a2, 0x1234\n\tsw a0, 0(a2)\n"
		"1:	li a2, 7\n\tbne a0, a2, 2f\n\tsw a0, 0(a1)\n"
		"2:	.4byte 0\n"
		:
		: "r"(number), "r"(there)
		: "memory", "ra", "t0", "t1", "t2", "t3", "t4", "t5", "t6", "a2", "a3", "a4", "a5", "a6", "a7", "s1",
		  "s2", "s3", "s4", "s5", "s6", "s7", "s8", "s9", "s10", "s11");
	__builtin_unreachable(); /* nor is s0 what it was */
}

/* The thread pointer and the pc are not there. */
void piece_frame(uint64_t *words, uint64_t sp)
{
	ucontext_t *left = (ucontext_t *)words;

	left->uc_mcontext.__gregs[2] = sp;
	sigaddset(&left->uc_sigmask, SIGUSR1);
}
