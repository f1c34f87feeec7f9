/* The registers that handled.h counts on x86-64. */
#ifndef TEST_UNIT_AGENT_X86_64_HANDLED_REGISTERS_H
#define TEST_UNIT_AGENT_X86_64_HANDLED_REGISTERS_H

#define REGISTERS     15
#define VECTORS_BYTES 256
#define VECTORS_AT    CALLTAP_CALL_VECTORS_XMM
/* From what a frame is known by to the stack pointer at its entry. */
#define STACK_ABOVE_SLOT 0
/* Callers are found from so many traps of test_handlers.c at least; a call of callee_both has n. */
#define FOUND_LEAST(n) 300

#endif
