/* What handled.h and the programs with handlers know of RISC-V 64. */
#ifndef TEST_PROG_CPU_HANDLED_CPU_H
#define TEST_PROG_CPU_HANDLED_CPU_H

#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

/* A handler that is registered with GENERAL: compilers have no flag for it here, and no use for the others in these. */
#define BY_GENERALS UNTRACED

/* The stack pointer at an entry, modulo 16. */
#define STACK_AT_ENTRY	    0
#define SECOND_RESULT(call) ((call)->registers.x[11])
/* Are the real parts of a structure with a word in floating-point registers, and those of variable arguments? */
#define MIXED_IN_VECTORS    1
#define VARIADIC_IN_VECTORS 0
/* General registers that a long double takes. */
#define LONG_DOUBLE_WORDS 2

#define EACH_VECTOR                                                                                                    \
	"f0", "f1", "f2", "f3", "f4", "f5", "f6", "f7", "f8", "f9", "f10", "f11", "f12", "f13", "f14", "f15", "f16",   \
		"f17", "f18", "f19", "f20", "f21", "f22", "f23", "f24", "f25", "f26", "f27", "f28", "f29", "f30",      \
		"f31"
#define CHANGE_VECTORS                                                                                                 \
	".irp n, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, "   \
	"27, 28, 29, 30, 31\n\tfmv.d.x f\\n, %0\n\t.endr\n\t"

/* More than a function may change: the control word, too. */
UNTRACED static void change_vectors(void)
{
	__asm__ volatile(CHANGE_VECTORS "fscsr %1" : : "r"(-1l), "r"(0x7fl) : EACH_VECTOR);
}

#define EACH_GENERAL "t0", "t1", "t2", "t3", "t4", "t5", "t6", "a0", "a1", "a2", "a3", "a4", "a5", "a6", "a7"

BY_GENERALS static void change_generals(void)
{
	__asm__ volatile(".irp reg, t0, t1, t2, t3, t4, t5, t6, a0, a1, a2, a3, a4, a5, a6, a7\n\t"
			 "li \\reg, -1\n\t.endr"
			 :
			 :
			 : EACH_GENERAL);
}

BY_GENERALS static void of_instruction(void)
{
	__asm__ volatile(".4byte 0");
}

/* All that it may is gone when it faults. */
BY_GENERALS static void of_registers(void)
{
	__asm__ volatile("li a0, 0x5555\n\t"
			 ".irp reg, ra, t0, t1, t2, t3, t4, t5, t6, a1, a2, a3, a4, a5, a6, a7, s1, s2, s3, s4, s5, "
			 "s6, s7, s8, s9, s10, s11, s0\n\tmv \\reg, a0\n\t.endr\n\tsd a0, 0(a0)"
			 :
			 :
			 : EACH_GENERAL, "ra", "s1", "s2", "s3", "s4", "s5", "s6", "s7", "s8", "s9", "s10", "s11",
			   "memory");
}

/* The registers hold other values when it faults. */
UNTRACED static void of_vectors(void)
{
	__asm__ volatile(CHANGE_VECTORS "fsrm %0\n\tsw %0, 0(%1)" : : "r"(1l), "r"(8l) : EACH_VECTOR, "memory");
}

/* Faults that other CPUs have not, or another way. */
#define FAULTS_OF_CPU

UNTRACED static int goes_backward(void)
{
	return 0;
}

/* How reals are computed. */
UNTRACED static unsigned vectors_control(void)
{
	unsigned long control;

	__asm__ volatile("frrm %0" : "=r"(control));
	return (unsigned)control;
}

/*
 * The kernel has the mask behind the flags, and libc writes no more.  QEMU 7.2 has a word between the two, which it
 * does not use: there libc's masks come to nothing.
 */
UNTRACED static void set_action(int signal, const struct sigaction *action)
{
	uint64_t words[4] = {(uint64_t)action->sa_sigaction, (uint64_t)action->sa_flags};

	memcpy(&words[2], &action->sa_mask, sizeof(words[2]));
	words[3] = words[2];
	syscall(SYS_rt_sigaction, signal, words, NULL, sizeof(words[2]));
}

#endif
