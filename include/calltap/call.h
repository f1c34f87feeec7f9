/*
 * A call as a handler sees it (calltap.h): the structure that the agent in the process hands to the functions that
 * libcalltap.so was given.  Agent and library are in one process, and have this layout alone in common, so it only ever
 * grows at `reserved`.
 *
 * Everything here is to be read while the handler runs, and no longer.
 */
#ifndef CALLTAP_CALL_H
#define CALLTAP_CALL_H

#include <stdint.h>

#include <calltap/registers.h>

#define CALLTAP_CALL_EXIT 1u /* the function returned; else it was called */
#define CALLTAP_CALL_TAIL 2u /* with EXIT: the function ended by a jump to another, whose result is not known yet */

struct calltap_call {
	uint64_t function; /* address of its first instruction */
	uint64_t caller;   /* the call's return address */
	uint64_t stack;	   /* the stack pointer at its first instruction: x86-64 has put the return address there */
	uint32_t id;	   /* the session's number for it */
	uint32_t flags;	   /* CALLTAP_CALL_* */
	uint64_t data; /* from the entry handler to the exit handler of this call, if it was asked for; 0 at first */
	const void *vectors; /* vector registers (registers.h); x86-64: an XSAVE area's first 512 bytes; NULL: not asked
				for */
	uint64_t reserved[2]; /* of no meaning yet */
	struct calltap_registers registers;
};

typedef char calltap_call_layout[sizeof(struct calltap_call) == 64 + sizeof(struct calltap_registers) ? 1 : -1];

#endif
