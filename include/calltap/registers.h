/*
 * The registers of a call, as a handler sees them (call.h), on each CPU: a program and the agent in it are of one CPU,
 * so each CPU has its own layout.
 *
 * Handlers may read the registers, not write them, while they run.  Sources for the places of arguments and results:
 * System V psABI x86-64 3.2.3, AAPCS64 6.8, RISC-V psABI 2.1.
 */
#ifndef CALLTAP_REGISTERS_H
#define CALLTAP_REGISTERS_H

#include <stdint.h>

/*
 * struct calltap_registers: the general registers at the function's first
 * instruction, or right after its return.
 *
 * CALLTAP_CALL_ARGUMENTS       indices of the words with the integer arguments, in order
 * CALLTAP_CALL_RESULT          index of the word with the result
 * CALLTAP_CALL_RESULT_SECOND   index of the word with its upper half, if it takes two
 * CALLTAP_CALL_STACK_WORDS     words from calltap_call.stack to the first argument on the stack
 * CALLTAP_CALL_VECTORS_FLOATS  bytes in calltap_call.vectors before the first argument of type double, and the result
 * CALLTAP_CALL_VECTORS_STEP    bytes from there to the next
 */
#if defined(__aarch64__)

/* At the entry x16 and x17 hold values of the dispatcher; x30 is the caller's address, at the exit, too. */
struct calltap_registers {
	uint64_t x[31];
};
#define CALLTAP_CALL_ARGUMENTS	    0, 1, 2, 3, 4, 5, 6, 7
#define CALLTAP_CALL_RESULT	    0
#define CALLTAP_CALL_RESULT_SECOND  1
#define CALLTAP_CALL_STACK_WORDS    0
#define CALLTAP_CALL_VECTORS_FLOATS 0u /* v0, 16 bytes each up to v31 */
#define CALLTAP_CALL_VECTORS_STEP   16u
#define CALLTAP_CALL_VECTORS_FPSR   512u /* 4 bytes; FPCR follows */

#elif defined(__riscv)

/*
 * The integer registers by number: x[0] is 0, x[2] the stack pointer, x[10] a0.  At the entry of a call the temporaries
 * but t2 hold values of the dispatcher. x[1] is the caller's address, at the entry and at the exit.
 */
struct calltap_registers {
	uint64_t x[32];
};
#define CALLTAP_CALL_ARGUMENTS	    10, 11, 12, 13, 14, 15, 16, 17
#define CALLTAP_CALL_RESULT	    10
#define CALLTAP_CALL_RESULT_SECOND  11
#define CALLTAP_CALL_STACK_WORDS    0
#define CALLTAP_CALL_VECTORS_FLOATS 80u /* fa0, which is f10: 8 bytes each from f0 to f31 */
#define CALLTAP_CALL_VECTORS_STEP   8u
#define CALLTAP_CALL_VECTORS_FCSR   256u /* 4 bytes */

#else

/* The registers of x86-64, without the stack pointer. */
struct calltap_registers {
	uint64_t r15, r14, r13, r12, rbp, rbx, r11, r10, r9, r8, rax, rcx, rdx, rsi, rdi;
};
#define CALLTAP_CALL_ARGUMENTS	    14, 13, 12, 11, 9, 8
#define CALLTAP_CALL_RESULT	    10
#define CALLTAP_CALL_RESULT_SECOND  12
#define CALLTAP_CALL_STACK_WORDS    1
#define CALLTAP_CALL_VECTORS_FLOATS CALLTAP_CALL_VECTORS_XMM
#define CALLTAP_CALL_VECTORS_STEP   16u
#define CALLTAP_CALL_VECTORS_MXCSR  24u	 /* where MXCSR lies in vectors */
#define CALLTAP_CALL_VECTORS_XMM    160u /* and xmm0, 16 bytes each up to xmm15 */

#endif

#endif
