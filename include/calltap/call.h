/*
 * A call as a handler sees it (calltap.h): what the agent in the process
 * hands to the functions that libcalltap.so was given.  Both are in one process, and
 * this layout is all that they have in common, so it only ever grows at
 * `reserved`.
 *
 * Everything here is to be read while the handler runs, and no longer.
 */
#ifndef CALLTAP_CALL_H
#define CALLTAP_CALL_H

#include <stdint.h>

#define CALLTAP_CALL_EXIT 1u /* the function returned; else it was called */
#define CALLTAP_CALL_TAIL 2u /* with EXIT: it ended by a jump to another function, whose result is not known yet */

/*
 * x86-64: the general registers but the stack pointer, at the function's first
 * instruction, or where it has returned to.  To be read, not written.
 */
struct calltap_registers {
	uint64_t r15, r14, r13, r12, rbp, rbx, r11, r10, r9, r8, rax, rcx, rdx, rsi, rdi;
};

struct calltap_call {
	uint64_t function; /* address of its first instruction */
	uint64_t caller;   /* its return address */
	uint64_t stack;	   /* the stack pointer when it was called: where the return address was put */
	uint32_t id;	   /* the session's number for it */
	uint32_t flags;	   /* CALLTAP_CALL_* */
	uint64_t data; /* from the entry handler to the exit handler of this call, if it was asked for; 0 at first */
	const void *vectors;  /* an XSAVE area, of which the first 512 bytes are always there; NULL: not asked for */
	uint64_t reserved[2]; /* of no meaning yet */
	struct calltap_registers registers;
};

#define CALLTAP_CALL_VECTORS_MXCSR 24u	/* where MXCSR lies in vectors */
#define CALLTAP_CALL_VECTORS_XMM   160u /* and xmm0, 16 bytes each up to xmm15 */

typedef char calltap_call_layout[sizeof(struct calltap_call) == 184 ? 1 : -1];

#endif
