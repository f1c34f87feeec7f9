/*
 * A thread on its way through a stub, one instruction after the other, as the tests of stubs and of their unwind table
 * send it; each CPU's walk.c knows what the instructions of its stubs do.
 */
#ifndef TEST_UNIT_AGENT_WALK_H
#define TEST_UNIT_AGENT_WALK_H

#include <stdbool.h>
#include <stdint.h>

struct walk {
	/* To be filled in first. */
	uint64_t slot;	      /* of the frame */
	bool call;	      /* a stub of the tracer "function" */
	uint32_t caller_code; /* at the caller's address */
	uint64_t site;	      /* address behind its site, which the jump there may keep in a register */
	/* The thread. */
	const uint8_t *code; /* the bytes at the pc */
	uint64_t pc;
	uint64_t regs[64];  /* by DWARF's numbers */
	uint64_t slot_word; /* what lies in the slot */
	bool mirrored;	    /* the caller's address lies in the slot's mirror */
	/* Where it came by; 0 = not yet. */
	uint64_t gate;	     /* where the gate lies, if the thread pointer is 0 */
	uint64_t gate_body;  /* where those go that the gate lets by */
	uint64_t entry;	     /* where the pointer to the recorder of the entry lies */
	uint64_t body;	     /* where the body is called, or gone to */
	const uint8_t *back; /* code that the body returns to */
	uint64_t exit;	     /* where the pointer to the recorder of the exit lies */
};

/* DWARF's number of the stack pointer. */
extern const unsigned walk_sp;
/*
 * The instruction that a signal handler returns to, where libgcc knows such frames by that and takes the CFA of the
 * handler's for their place; 0 = by a table.
 */
extern const uint32_t walk_sigreturn;
/* In a region where some stubs have gates, so many bytes are left free before those that have none. */
extern const unsigned walk_unused_gate;
/* Where a gate may lie, from the thread pointer: near it, and far away. */
extern const int64_t walk_gates[2];

/* At the stub's first instruction, which runs at pc, when its function was called from `caller`. */
void walk_begin(struct walk *walk, const uint8_t *code, uint64_t pc, uint64_t caller);
#define WALK_ROOM 64
/*
 * At the first instruction of another stub that leads to this one.  What of that stub a thread comes by is written to
 * the room, WALK_ROOM bytes in front of the code.  False: on this CPU stubs lead to no others.
 */
bool walk_begin_led(struct walk *walk, uint8_t *room, uint64_t pc, uint64_t caller);
/* After one instruction, and what it calls, recorder or body; false: it has left the stub for good. */
bool walk_step(struct walk *walk);

#endif
