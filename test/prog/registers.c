/*
 * Fills every register (general, vector, mask, x87, control), calls a traced function that does nothing but look at
 * what it got and leave something else in each, and looks at what came back.  Prints what was not kept, for a traced
 * call may change nothing but flags: callers know more of their callees than the platform's convention says.
 *
 * The traced function and its caller are in assembler; the C code only fills and compares.
 */
#include <stdint.h>

#include "truth.h"

enum { CALLS = 3000, X87_TAG = 8, X87_STACK = 28 };

/* Offsets are used below. */
struct state {
	uint64_t general[16]; /* rax, rbx, rcx, rdx, rsi, rdi, rbp, rsp, r8 to r15 */
	uint64_t flags;
	uint32_t mxcsr, unused;
	uint64_t masks[8];
	uint64_t padding[6];
	uint8_t vectors[32][64];
	uint8_t x87[128]; /* as fnsave stores it */
} __attribute__((aligned(64)));

_Static_assert(__builtin_offsetof(struct state, vectors) == 256 && __builtin_offsetof(struct state, x87) == 2304,
	       "the offsets in the assembler code");

__attribute__((used)) struct state given, seen, left, got;
__attribute__((used)) int vector_level; /* 0 xmm, 1 ymm, 2 zmm and masks */

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

void call_with_given(void);

/* The compiler adds the site, and nothing else. */
__attribute__((naked, used)) TRACED void probed(void)
{
	__asm__("jmp look_and_leave");
}

/* Something else in each register, and a full x87 stack. */
UNTRACED static void fill(struct state *state, uint64_t seed)
{
	static const double numbers[8] = {1.5, -2.25, 3.125, -4.5, 5.75, -6.875, 7.0625, -8.5};
	uint8_t *bytes = (uint8_t *)state;

	for (size_t i = 0; i < sizeof(*state); i++)
		bytes[i] = (uint8_t)((seed += 0x9e3779b97f4a7c15u) >> 56);
	for (int i = 0; i < 8; i++)
		state->masks[i] &= 0xffff;
	state->mxcsr = 0x1f80 | (uint32_t)(seed >> 40 & 3) << 13; /* another rounding */
	__asm__ volatile("fninit" ::: "memory");
	for (int i = 0; i < 8; i++)
		__asm__ volatile("fldl %0" ::"m"(numbers[(i + seed) % 8]));
	__asm__ volatile("fnsave %0" : "=m"(state->x87));
	state->x87[1] |= (uint8_t)(seed >> 40 & 3) << 2;
}

/* 1 when they differ. */
UNTRACED static int differs(const void *a, const void *b, size_t size, const char *what, int number, const char *when)
{
	if (!memcmp(a, b, size))
		return 0;
	printf("%s %d is not the same %s\n", what, number, when);
	return 1;
}

UNTRACED static int compare(const struct state *before, const struct state *after, const char *when)
{
	size_t width = 16 << vector_level;
	int count = vector_level == 2 ? 32 : 16, bad = 0;

	for (int i = 0; i < 16; i++)
		bad += i != 7 && differs(&before->general[i], &after->general[i], 8, "general register", i, when);
	for (int i = 0; i < count; i++)
		bad += differs(before->vectors[i], after->vectors[i], width, "vector register", i, when);
	for (int i = 0; i < 8 && vector_level == 2; i++)
		bad += differs(&before->masks[i], &after->masks[i], 2, "mask register", i, when);
	bad += differs(&before->mxcsr, &after->mxcsr, 4, "mxcsr", 0, when);
	for (int i = 0; i <= X87_TAG; i += 4)
		bad += differs(before->x87 + i, after->x87 + i, 2, "x87 control at", i, when);
	bad += differs(before->x87 + X87_STACK, after->x87 + X87_STACK, 80, "x87 stack", 0, when);
	if (after->flags & 1 << 10)
		bad += printf("the direction flag is set %s\n", when) > 0;
	return bad;
}

int main(void)
{
	int bad = 0;

	vector_level = __builtin_cpu_supports("avx512f") ? 2 : __builtin_cpu_supports("avx") ? 1 : 0;
	for (int i = 0; i < CALLS && bad < 20; i++) {
		fill(&given, (uint64_t)i);
		fill(&left, ~(uint64_t)i);
		call_with_given();
		bad += compare(&given, &seen, "in the function");
		bad += compare(&left, &got, "after the call");
		if (seen.general[7] + 8 != got.general[7])
			bad += printf("the stack pointer is not the same\n") > 0;
	}
	printf("%d differences\n", bad);
	return bad != 0;
}
