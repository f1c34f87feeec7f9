/* The parts of handled.h and the programs with handlers that depend on the CPU: x86-64. */
#ifndef TEST_PROG_CPU_HANDLED_CPU_H
#define TEST_PROG_CPU_HANDLED_CPU_H

/* A handler that is registered with GENERAL. */
#define BY_GENERALS UNTRACED __attribute__((target("general-regs-only")))

/* The stack pointer at an entry, modulo 16. */
#define STACK_AT_ENTRY	    8
#define SECOND_RESULT(call) ((call)->registers.rdx)
/* Are the real parts of a structure with a word in vector registers, and those of variable arguments? */
#define MIXED_IN_VECTORS    1
#define VARIADIC_IN_VECTORS 1
/* General registers that a long double takes. */
#define LONG_DOUBLE_WORDS 0

UNTRACED __attribute__((target("avx512f"))) static void change_512(void)
{
	__asm__ volatile("vpternlogd $0xff, %%zmm0, %%zmm0, %%zmm0\n\tvmovdqa64 %%zmm0, %%zmm1\n\t"
			 "vmovdqa64 %%zmm0, %%zmm2\n\tvmovdqa64 %%zmm0, %%zmm7\n\tvmovdqa64 %%zmm0, %%zmm15\n\t"
			 "vmovdqa64 %%zmm0, %%zmm16\n\tvmovdqa64 %%zmm0, %%zmm31\n\tkxnorw %%k1, %%k1, %%k1\n\t"
			 "kmovw %%k1, %%k7"
			 :
			 :
			 : "xmm0", "xmm1", "xmm2", "xmm7", "xmm15", "xmm16", "xmm31", "k1", "k7");
}

UNTRACED __attribute__((target("avx"))) static void change_256(void)
{
	__asm__ volatile(
		"vxorps %%ymm0, %%ymm0, %%ymm0\n\tvcmpps $15, %%ymm0, %%ymm0, %%ymm0\n\tvmovaps %%ymm0, %%ymm1\n\t"
		"vmovaps %%ymm0, %%ymm2\n\tvmovaps %%ymm0, %%ymm7\n\tvmovaps %%ymm0, %%ymm15"
		:
		:
		: "xmm0", "xmm1", "xmm2", "xmm7", "xmm15");
}

/* More than a function may change: the control words, too. */
UNTRACED static void change_vectors(void)
{
	static const unsigned short x87 = 0x0c7f;
	static const unsigned mxcsr = 0x7fbf;

	__asm__ volatile(
		"pcmpeqd %%xmm0, %%xmm0\n\tmovdqa %%xmm0, %%xmm1\n\tmovdqa %%xmm0, %%xmm2\n\tmovdqa %%xmm0, %%xmm3\n\t"
		"movdqa %%xmm0, %%xmm4\n\tmovdqa %%xmm0, %%xmm5\n\tmovdqa %%xmm0, %%xmm6\n\tmovdqa %%xmm0, %%xmm7\n\t"
		"movdqa %%xmm0, %%xmm8\n\tmovdqa %%xmm0, %%xmm15\n\t"
		"fninit\n\tfldpi\n\tfldz\n\tfldl2t\n\tfldcw %0\n\tldmxcsr %1"
		:
		: "m"(x87), "m"(mxcsr)
		: "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm15");
	if (__builtin_cpu_supports("avx512f"))
		change_512();
	else if (__builtin_cpu_supports("avx"))
		change_256();
}

BY_GENERALS static void change_generals(void)
{
	__asm__ volatile(
		"mov $-1, %%rax\n\tmov %%rax, %%rcx\n\tmov %%rax, %%rdx\n\tmov %%rax, %%rsi\n\tmov %%rax, %%rdi\n\t"
		"mov %%rax, %%r8\n\tmov %%rax, %%r9\n\tmov %%rax, %%r10\n\tmov %%rax, %%r11\n\tadd %%rax, %%rax"
		:
		:
		: "rax", "rcx", "rdx", "rsi", "rdi", "r8", "r9", "r10", "r11", "cc");
}

BY_GENERALS static void of_instruction(void)
{
	__asm__ volatile("ud2");
}

static const volatile int of_zero = 0;

BY_GENERALS static void of_division(void)
{
	__asm__ volatile("xor %%edx, %%edx\n\tmov $1, %%eax\n\tidivl %0" : : "m"(of_zero) : "rax", "rdx", "cc");
}

BY_GENERALS static void of_privilege(void)
{
	__asm__ volatile("hlt");
}

BY_GENERALS static void of_address(void)
{
	(void)*(volatile int *)0x8000000000000010ul;
}

/* All that it may is gone when it faults. */
BY_GENERALS static void of_registers(void)
{
	__asm__ volatile("mov $0x5555, %%eax\n\tmov %%rax, %%rbx\n\tmov %%rax, %%rcx\n\tmov %%rax, %%rdx\n\t"
			 "mov %%rax, %%rsi\n\tmov %%rax, %%rdi\n\tmov %%rax, %%rbp\n\tmov %%rax, %%r8\n\t"
			 "mov %%rax, %%r9\n\tmov %%rax, %%r10\n\tmov %%rax, %%r11\n\tmov %%rax, %%r12\n\t"
			 "mov %%rax, %%r13\n\tmov %%rax, %%r14\n\tmov %%rax, %%r15\n\tstd\n\tmov %%rax, (%%rax)"
			 :
			 :
			 : "rax", "rbx", "rcx", "rdx", "rsi", "rdi", "r8", "r9", "r10", "r11", "r12", "r13", "r14",
			   "r15", "memory", "cc");
}

/* The vectors hold other values when it faults. */
UNTRACED static void of_vectors(void)
{
	__asm__ volatile(
		"pcmpeqd %%xmm0, %%xmm0\n\tmovdqa %%xmm0, %%xmm1\n\tmovdqa %%xmm0, %%xmm7\n\tfldpi\n\tfldpi\n\t"
		"movl $0x7f80, -8(%%rsp)\n\tldmxcsr -8(%%rsp)\n\tmovl %%eax, (%1)"
		:
		: "a"(1), "r"(8l)
		: "xmm0", "xmm1", "xmm7", "memory");
}

/* Faults that other CPUs have not, or another way. */
#define FAULTS_OF_CPU                                                                                                  \
	{"address", of_address, SIGSEGV, 0, 0}, {"division", of_division, SIGFPE, -1, 0},                              \
		{"privilege", of_privilege, SIGSEGV, 0, 0},

UNTRACED static int goes_backward(void)
{
	return (__builtin_ia32_readeflags_u64() & 0x400) != 0;
}

/* How reals are computed: MXCSR without its flags. */
UNTRACED static unsigned vectors_control(void)
{
	return __builtin_ia32_stmxcsr() & 0xffc0;
}

UNTRACED static void set_action(int signal, const struct sigaction *action)
{
	sigaction(signal, action, NULL);
}

#endif
