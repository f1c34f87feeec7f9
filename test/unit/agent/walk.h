/*
 * A simulated thread on its way through a stub, one instruction after the other; each CPU's walk.c knows the effects
 * of the instructions in its stubs.
 *
 * Callers: the tests of stubs and of their unwind table.
 */
#ifndef TEST_UNIT_AGENT_WALK_H
#define TEST_UNIT_AGENT_WALK_H

#include <stdbool.h>
#include <stdint.h>

struct walk {
	/* The caller's part, filled in before walk_begin(). */
	uint64_t slot;	      /* slot of the frame */
	bool call;	      /* a stub of the tracer "function" */
	bool leaf;	      /* the unit of a leaf, which goes on to the body without a frame */
	uint32_t caller_code; /* the instruction at the caller's address */
	uint64_t site;	      /* address behind the site, which the jump there may keep in a register */
	/* The thread. */
	const uint8_t *code; /* the bytes at the pc */
	uint64_t pc;
	uint64_t regs[64];  /* by DWARF's numbers */
	uint64_t slot_word; /* contents of the slot */
	bool mirrored;	    /* the caller's address lies in the slot's mirror */
	/* Places that the thread came by; 0 = not yet. */
	uint64_t gate;	     /* address of the gate, if the thread pointer is 0 */
	uint64_t gate_body;  /* place where threads go on that the gate lets by */
	uint64_t entry;	     /* address of the pointer to the entry's recorder */
	uint64_t body;	     /* address at which the body is called or jumped to */
	const uint8_t *back; /* code that the body returns to */
	uint64_t exit;	     /* address of the pointer to the exit's recorder */
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
/* Bytes of a leaf's unit, in front of its other stub; 0 = this CPU has none. */
extern const unsigned walk_leaf_unit;
/* Offsets of a gate from the thread pointer: a near one, and one far away. */
extern const int64_t walk_gates[2];

/* Begin at the stub's first instruction, which runs at pc, in a call from `caller`. */
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
