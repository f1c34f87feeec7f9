/* What handled.h counts, riscv64: t2, s0, s1, a0 to a7, s2 to s11; f0 to f31. */
#ifndef TEST_UNIT_AGENT_RISCV64_HANDLED_REGISTERS_H
#define TEST_UNIT_AGENT_RISCV64_HANDLED_REGISTERS_H

#define REGISTERS     21
#define VECTORS_BYTES 256
#define VECTORS_AT    0
/* From what a frame is known by to the stack pointer at its entry. */
#define STACK_ABOVE_SLOT 8
/* Callers are found from so many traps of test_handlers.c at least: of two calls, each, and a call of callee_both has
 * n. */
#define FOUND_LEAST(n) (2 * (n))

#endif
