/* The parts of handled.h and the programs with handlers that depend on the CPU: AArch64. */
#ifndef TEST_PROG_CPU_HANDLED_CPU_H
#define TEST_PROG_CPU_HANDLED_CPU_H

/* A handler that is registered with GENERAL.  clang has no such attribute here, and no use for these registers either.
 */
#if defined(__clang__)
#define BY_GENERALS UNTRACED
#else
#define BY_GENERALS UNTRACED __attribute__((target("general-regs-only")))
#endif

/* The stack pointer at an entry, modulo 16. */
#define STACK_AT_ENTRY	    0
#define SECOND_RESULT(call) ((call)->registers.x[1])
/* Are the real parts of a structure with a word in vector registers, and those of variable arguments? */
#define MIXED_IN_VECTORS    0
#define VARIADIC_IN_VECTORS 1
/* General registers that a long double takes. */
#define LONG_DOUBLE_WORDS 0

#define EACH_VECTOR                                                                                                    \
	"v0", "v1", "v2", "v3", "v4", "v5", "v6", "v7", "v8", "v9", "v10", "v11", "v12", "v13", "v14", "v15", "v16",   \
		"v17", "v18", "v19", "v20", "v21", "v22", "v23", "v24", "v25", "v26", "v27", "v28", "v29", "v30",      \
		"v31"
#define CHANGE_VECTORS                                                                                                 \
	".irp n, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, "   \
	"27, 28, 29, 30, 31\n\tmovi v\\n\\().16b, #255\n\t.endr\n\t"

/* More than a function may change: the control word, too. */
UNTRACED static void change_vectors(void)
{
	__asm__ volatile(CHANGE_VECTORS "msr fpcr, %0\n\tmsr fpsr, %1" : : "r"(3ul << 22), "r"(0x9ful) : EACH_VECTOR);
}

#define EACH_GENERAL                                                                                                   \
	"x0", "x1", "x2", "x3", "x4", "x5", "x6", "x7", "x8", "x9", "x10", "x11", "x12", "x13", "x14", "x15", "x16",   \
		"x17"

BY_GENERALS static void change_generals(void)
{
	__asm__ volatile(".irp n, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17\n\t"
			 "mov x\\n, #-1\n\t.endr\n\tcmp x0, #1"
			 :
			 :
			 : EACH_GENERAL, "cc");
}

BY_GENERALS static void of_instruction(void)
{
	__asm__ volatile("udf #0");
}

/* All that it may is gone when it faults; the frame pointer, too, which nobody needs any more. */
BY_GENERALS static void of_registers(void)
{
	__asm__ volatile("mov x0, #0x5555\n\t"
			 ".irp n, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 19, 20, 21, 22, 23, 24, "
			 "25, 26, 27, 28, 29, 30\n\tmov x\\n, x0\n\t.endr\n\tstr x0, [x0]"
			 :
			 :
			 : EACH_GENERAL, "x19", "x20", "x21", "x22", "x23", "x24", "x25", "x26", "x27", "x28", "x30",
			   "memory", "cc");
}

/* The vectors hold other values when it faults. */
UNTRACED static void of_vectors(void)
{
	__asm__ volatile(CHANGE_VECTORS "msr fpcr, %0\n\tstr w1, [%1]"
			 :
			 : "r"(1ul << 22), "r"(8l)
			 : EACH_VECTOR, "memory");
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

	__asm__ volatile("mrs %0, fpcr" : "=r"(control));
	return (unsigned)control;
}

UNTRACED static void set_action(int signal, const struct sigaction *action)
{
	sigaction(signal, action, NULL);
}

#endif
