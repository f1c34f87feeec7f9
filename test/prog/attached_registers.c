/*
 * Loops that keep a value in every register and in the red zone, and check each value: a thread that the tool borrows
 * in between must not notice. x86-64 only.  Ends when its standard input does.
 */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <unistd.h>

static int over, wrong;
static unsigned long rounds;

/* 0, or the number of the check that failed. */
int keep_registers(uint64_t seed);

__asm__(".text\n"
	".globl keep_registers\n"
	".type keep_registers, @function\n"
	"keep_registers:\n"
	".cfi_startproc\n"
	"	push %rbx\n"
	"	.cfi_adjust_cfa_offset 8\n"
	"	.cfi_offset %rbx, -16\n"
	"	push %rbp\n"
	"	.cfi_adjust_cfa_offset 8\n"
	"	.cfi_offset %rbp, -24\n"
	"	push %r12\n"
	"	.cfi_adjust_cfa_offset 8\n"
	"	.cfi_offset %r12, -32\n"
	"	push %r13\n"
	"	.cfi_adjust_cfa_offset 8\n"
	"	.cfi_offset %r13, -40\n"
	"	push %r14\n"
	"	.cfi_adjust_cfa_offset 8\n"
	"	.cfi_offset %r14, -48\n"
	"	push %r15\n"
	"	.cfi_adjust_cfa_offset 8\n"
	"	.cfi_offset %r15, -56\n"
	"	push $0x7f80\n" /* MXCSR: another rounding */
	"	.cfi_adjust_cfa_offset 8\n"
	"	ldmxcsr (%rsp)\n"
	"	movl $0x0c7f, (%rsp)\n" /* x87: another rounding */
	"	fldcw (%rsp)\n"
	"	fldpi\n"
	"	lea 1(%rdi), %rax\n"
	"	lea 2(%rdi), %rbx\n"
	"	lea 4(%rdi), %rdx\n"
	"	lea 5(%rdi), %rsi\n"
	"	lea 6(%rdi), %rbp\n"
	"	lea 7(%rdi), %r8\n"
	"	lea 8(%rdi), %r9\n"
	"	lea 9(%rdi), %r10\n"
	"	lea 10(%rdi), %r11\n"
	"	lea 11(%rdi), %r12\n"
	"	lea 12(%rdi), %r13\n"
	"	lea 13(%rdi), %r14\n"
	"	lea 14(%rdi), %r15\n"
	"	movq %rax, %xmm0\n"
	"	movq %rbx, %xmm1\n"
	"	movq %rdx, %xmm7\n"
	"	movq %r8, %xmm15\n"
	"	mov %rax, -8(%rsp)\n"
	"	mov %rbx, -64(%rsp)\n"
	"	mov %rdx, -128(%rsp)\n"
	"	mov $200000, %ecx\n"
	"	cmp %rcx, %rcx\n"
	"	stc\n" /* CF and ZF are set, and stay so: lea and jrcxz touch no flag */
	"1:	lea -1(%rcx), %rcx\n"
	"	jrcxz 2f\n"
	"	jmp 1b\n"
	"2:	jnc 9f\n"
	"	jnz 9f\n"
	"	inc %ecx\n"
	"	lea 1(%rdi), %rcx\n"
	"	cmp %rcx, %rax\n"
	"	jne 9f\n"
	"	cmp %rcx, -8(%rsp)\n"
	"	jne 9f\n"
	"	movq %xmm0, %rax\n"
	"	cmp %rcx, %rax\n"
	"	jne 9f\n"
	"	inc %rcx\n"
	"	cmp %rcx, %rbx\n"
	"	jne 9f\n"
	"	cmp %rcx, -64(%rsp)\n"
	"	jne 9f\n"
	"	movq %xmm1, %rax\n"
	"	cmp %rcx, %rax\n"
	"	jne 9f\n"
	"	add $2, %rcx\n"
	"	cmp %rcx, %rdx\n"
	"	jne 9f\n"
	"	cmp %rcx, -128(%rsp)\n"
	"	jne 9f\n"
	"	movq %xmm7, %rax\n"
	"	cmp %rcx, %rax\n"
	"	jne 9f\n"
	"	inc %rcx\n"
	"	cmp %rcx, %rsi\n"
	"	jne 9f\n"
	"	inc %rcx\n"
	"	cmp %rcx, %rbp\n"
	"	jne 9f\n"
	"	inc %rcx\n"
	"	cmp %rcx, %r8\n"
	"	jne 9f\n"
	"	movq %xmm15, %rax\n"
	"	cmp %rcx, %rax\n"
	"	jne 9f\n"
	"	inc %rcx\n"
	"	cmp %rcx, %r9\n"
	"	jne 9f\n"
	"	inc %rcx\n"
	"	cmp %rcx, %r10\n"
	"	jne 9f\n"
	"	inc %rcx\n"
	"	cmp %rcx, %r11\n"
	"	jne 9f\n"
	"	inc %rcx\n"
	"	cmp %rcx, %r12\n"
	"	jne 9f\n"
	"	inc %rcx\n"
	"	cmp %rcx, %r13\n"
	"	jne 9f\n"
	"	inc %rcx\n"
	"	cmp %rcx, %r14\n"
	"	jne 9f\n"
	"	inc %rcx\n"
	"	cmp %rcx, %r15\n"
	"	jne 9f\n"
	"	stmxcsr (%rsp)\n"
	"	mov (%rsp), %ecx\n"
	"	and $0xffc0, %ecx\n"
	"	cmp $0x7f80, %ecx\n"
	"	jne 9f\n"
	"	fnstcw (%rsp)\n"
	"	cmpw $0x0c7f, (%rsp)\n"
	"	jne 9f\n"
	"	fldpi\n"
	"	fcomip %st(1), %st\n"
	"	jne 9f\n"
	"	xor %eax, %eax\n"
	"	jmp 8f\n"
	"9:	mov $1, %eax\n"
	"8:	fninit\n"
	"	movl $0x1f80, (%rsp)\n"
	"	ldmxcsr (%rsp)\n"
	"	add $8, %rsp\n"
	"	.cfi_adjust_cfa_offset -8\n"
	"	pop %r15\n"
	"	.cfi_adjust_cfa_offset -8\n"
	"	pop %r14\n"
	"	.cfi_adjust_cfa_offset -8\n"
	"	pop %r13\n"
	"	.cfi_adjust_cfa_offset -8\n"
	"	pop %r12\n"
	"	.cfi_adjust_cfa_offset -8\n"
	"	pop %rbp\n"
	"	.cfi_adjust_cfa_offset -8\n"
	"	pop %rbx\n"
	"	.cfi_adjust_cfa_offset -8\n"
	"	ret\n"
	".cfi_endproc\n"
	".size keep_registers, . - keep_registers\n");

static void *spin(void *argument)
{
	uint64_t seed = 0x1234567800000000ull * ((uintptr_t)argument + 3);

	while (!__atomic_load_n(&over, __ATOMIC_RELAXED)) {
		if (keep_registers(seed += 0x9e3779b97f4a7c15ull))
			__atomic_store_n(&wrong, 1, __ATOMIC_RELAXED);
		__atomic_fetch_add(&rounds, 1, __ATOMIC_RELAXED);
	}
	return NULL;
}

/* The initial thread spins; another waits for the end of the input. */
static void *wait_for_end(void *argument)
{
	char byte;

	while (read(0, &byte, 1) > 0)
		;
	__atomic_store_n(&over, 1, __ATOMIC_RELAXED);
	return NULL;
}

int main(void)
{
	pthread_t thread, other;

	setvbuf(stdout, NULL, _IOLBF, 0);
	printf("ready\n");
	if (pthread_create(&thread, NULL, wait_for_end, NULL) || pthread_create(&other, NULL, spin, (void *)1))
		return 2;
	spin(NULL);
	pthread_join(other, NULL);
	printf("%s %lu\n", wrong ? "wrong" : "ok", rounds);
	return wrong;
}
