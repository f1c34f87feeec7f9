/* The registers that handled.h counts on AArch64: x0 to x15, x18 to x29; v0 to v31. */
#ifndef TEST_UNIT_AGENT_AARCH64_HANDLED_REGISTERS_H
#define TEST_UNIT_AGENT_AARCH64_HANDLED_REGISTERS_H

#define REGISTERS     28
#define VECTORS_BYTES 512
#define VECTORS_AT    CALLTAP_CALL_VECTORS_FLOATS
/* From what a frame is known by to the stack pointer at its entry. */
#define STACK_ABOVE_SLOT 8
/* Callers are found from so many traps of test_handlers.c at least: of two calls, each, and a call of callee_both has
 * n. */
#define FOUND_LEAST(n) (2 * (n))

#endif
