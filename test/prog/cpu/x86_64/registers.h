/*
 * All registers of x86-64, for registers.c: general, vector, mask, x87 and control.  A call keeps every one of them,
 * and no flag but the direction.
 */
#ifndef TEST_PROG_CPU_REGISTERS_H
#define TEST_PROG_CPU_REGISTERS_H

#include <stddef.h>
#include <stdint.h>

#include "../../truth.h"

/* Offsets are used below. */
struct state {
	uint64_t general[16]; /* rax, rbx, rcx, rdx, rsi, rdi, rbp, rsp, r8 to r15 */
	uint64_t direction;   /* the flag */
	uint32_t mxcsr, unused;
	uint64_t masks[8];
	uint64_t padding[6];
	uint8_t vectors[32][64];
	uint8_t x87[128]; /* as fnsave stores it: control, status and tag word, ... and the stack */
} __attribute__((aligned(64)));

_Static_assert(offsetof(struct state, vectors) == 256 && offsetof(struct state, x87) == 2304,
	       "the offsets in the assembler code");

/* How far the stack pointer of a function that begins is below its caller's. */
enum { STATE_PUSHED = 8 };
#define STATE_SP(state) ((state)->general[7])

/* By vector_level: xmm, ymm, zmm and masks. */
enum { XMM = 1, YMM = 2, ZMM = 4, ANY = XMM | YMM | ZMM };

#define STATE_PARTS                                                                                                    \
	{"general register", offsetof(struct state, general), 8, 8, 7, 0, ANY, IN | OUT},                              \
		{"general register", offsetof(struct state, general[8]), 8, 8, 8, 8, ANY, IN | OUT},                   \
		{"direction flag", offsetof(struct state, direction), 8, 8, 1, 0, ANY, IN | OUT},                      \
		{"mxcsr", offsetof(struct state, mxcsr), 4, 4, 1, 0, ANY, IN | OUT},                                   \
		{"mask register", offsetof(struct state, masks), 2, 8, 8, 0, ZMM, IN | OUT},                           \
		{"vector register", offsetof(struct state, vectors), 16, 64, 16, 0, XMM, IN | OUT},                    \
		{"vector register", offsetof(struct state, vectors), 32, 64, 16, 0, YMM, IN | OUT},                    \
		{"vector register", offsetof(struct state, vectors), 64, 64, 32, 0, ZMM, IN | OUT},                    \
		{"x87 control word", offsetof(struct state, x87), 2, 4, 3, 0, ANY, IN | OUT},                          \
		{"x87 stack", offsetof(struct state, x87) + 28, 80, 80, 1, 0, ANY, IN | OUT},

__attribute__((used)) struct state given, seen, left, got;
__attribute__((used)) int vector_level;

#define TO_7  "0, 1, 2, 3, 4, 5, 6, 7"
#define TO_15 TO_7 ", 8, 9, 10, 11, 12, 13, 14, 15"
#define TO_31 TO_15 ", 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31"

__asm__(".text\n"
	".macro each_general operation, state\n"
	"	\\operation rax, \\state\n"
	"	\\operation rbx, \\state+8\n"
	"	\\operation rcx, \\state+16\n"
	"	\\operation rdx, \\state+24\n"
	"	\\operation rsi, \\state+32\n"
	"	\\operation rdi, \\state+40\n"
	"	\\operation rbp, \\state+48\n"
	"	\\operation r8, \\state+64\n"
	"	\\operation r9, \\state+72\n"
	"	\\operation r10, \\state+80\n"
	"	\\operation r11, \\state+88\n"
	"	\\operation r12, \\state+96\n"
	"	\\operation r13, \\state+104\n"
	"	\\operation r14, \\state+112\n"
	"	\\operation r15, \\state+120\n"
	".endm\n"
	".macro to_memory register, place\n	mov %\\register, \\place(%rip)\n.endm\n"
	".macro from_memory register, place\n	mov \\place(%rip), %\\register\n.endm\n"
	".macro store_all state\n"
	"	each_general to_memory, \\state\n"
	"	mov	%rsp, \\state+56(%rip)\n"
	"	pushfq\n"
	"	pop	%rax\n"
	"	and	$0x400, %rax\n"
	"	mov	%rax, \\state+128(%rip)\n"
	"	stmxcsr	\\state+136(%rip)\n"
	"	fnsave	\\state+2304(%rip)\n"
	"	cmpl	$1, vector_level(%rip)\n"
	"	je	2f\n"
	"	ja	3f\n"
	"	.irp i, " TO_15 "\n	movups	%xmm\\i, \\state+256+64*\\i(%rip)\n	.endr\n"
	"	jmp	4f\n"
	"2:	.irp i, " TO_15 "\n	vmovups	%ymm\\i, \\state+256+64*\\i(%rip)\n	.endr\n"
	"	jmp	4f\n"
	"3:	.irp i, " TO_31 "\n	vmovups	%zmm\\i, \\state+256+64*\\i(%rip)\n	.endr\n"
	"	.irp i, " TO_7 "\n	kmovw	%k\\i, \\state+144+8*\\i(%rip)\n	.endr\n"
	"4:\n"
	".endm\n"
	".macro load_all state\n"
	"	cmpl	$1, vector_level(%rip)\n"
	"	je	2f\n"
	"	ja	3f\n"
	"	.irp i, " TO_15 "\n	movups	\\state+256+64*\\i(%rip), %xmm\\i\n	.endr\n"
	"	jmp	4f\n"
	"2:	.irp i, " TO_15 "\n	vmovups	\\state+256+64*\\i(%rip), %ymm\\i\n	.endr\n"
	"	jmp	4f\n"
	"3:	.irp i, " TO_31 "\n	vmovups	\\state+256+64*\\i(%rip), %zmm\\i\n	.endr\n"
	"	.irp i, " TO_7 "\n	kmovw	\\state+144+8*\\i(%rip), %k\\i\n	.endr\n"
	"4:	frstor	\\state+2304(%rip)\n"
	"	ldmxcsr	\\state+136(%rip)\n"
	"	each_general from_memory, \\state\n"
	".endm\n"
	".globl call_with_given\n"
	".type call_with_given, @function\n"
	"call_with_given:\n"
	"	.irp register, rbx, rbp, r12, r13, r14, r15, rax\n	push	%\\register\n	.endr\n"
	"	stmxcsr	(%rsp)\n"
	"	load_all given\n"
	"	call	probed\n"
	"	store_all got\n"
	"	fninit\n"
	"	ldmxcsr	(%rsp)\n"
	"	.irp register, rax, r15, r14, r13, r12, rbp, rbx\n	pop	%\\register\n	.endr\n"
	"	ret\n"
	".size call_with_given, . - call_with_given\n"
	".globl look_and_leave\n"
	".type look_and_leave, @function\n"
	"look_and_leave:\n"
	"	store_all seen\n"
	"	load_all left\n"
	"	ret\n"
	".size look_and_leave, . - look_and_leave\n");

/* The compiler adds the site, and nothing else. */
__attribute__((naked, used)) TRACED void probed(void)
{
	__asm__("jmp look_and_leave");
}

UNTRACED static void state_learn(void)
{
	vector_level = __builtin_cpu_supports("avx512f") ? 2 : __builtin_cpu_supports("avx") ? 1 : 0;
}

/* Makes of any bytes what the registers can hold, with another rounding and a full x87 stack. */
UNTRACED static void state_make_valid(struct state *state, uint64_t seed)
{
	static const double numbers[8] = {1.5, -2.25, 3.125, -4.5, 5.75, -6.875, 7.0625, -8.5};

	state->direction = 0;
	for (int i = 0; i < 8; i++)
		state->masks[i] &= 0xffff;
	state->mxcsr = 0x1f80 | (uint32_t)(seed >> 40 & 3) << 13;
	__asm__ volatile("fninit" ::: "memory");
	for (int i = 0; i < 8; i++)
		__asm__ volatile("fldl %0" ::"m"(numbers[(i + seed) % 8]));
	__asm__ volatile("fnsave %0" : "=m"(state->x87));
	state->x87[1] |= (uint8_t)(seed >> 40 & 3) << 2;
}

#endif
