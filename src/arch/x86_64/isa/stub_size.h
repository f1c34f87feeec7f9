/*
 * x86-64: how arch_stub_build() lays a stub out.  The tool gives the stubs
 * their places in a region, the agent writes them there, and the region's
 * unwind rules tell by an address alone at which instruction it is: all three
 * take the numbers from here.
 *
 * Each stub has a unit of its own, at a multiple of its size.  A region in which
 * some stub has a gate has larger ones: X86_STUB_GATE bytes for the gate come
 * first, and stay unused where there is none.  A leaf (doc/design/clock.md) has two units in a region without gates.
 */
#ifndef ARCH_X86_64_ISA_STUB_SIZE_H
#define ARCH_X86_64_ISA_STUB_SIZE_H

enum {
	X86_STUB_UNIT = 32,
	X86_STUB_UNIT_GATED = 64,

	X86_STUB_CALL = 17,  /* bytes, CALLTAP_SITE_CALL: the entry alone */
	X86_STUB_GRAPH = 27, /* entry and exit */
	X86_STUB_GATE = 16,  /* more, with CALLTAP_SITE_GATED */
	X86_STUB_LEAF = 32,  /* more, with CALLTAP_SITE_LEAF: a unit, in front of the stub that all have */

	/* Places of instructions, behind the gate.  No two that differ in what a stub has done to the stack share one.
	 */
	X86_STUB_AT_ENTRY = 5,	    /* call *ENTRY */
	X86_STUB_AT_CALL_ENTRY = 6, /* call *ENTRY of CALLTAP_SITE_CALL */
	X86_STUB_AT_BODY = 11,	    /* call body */
	X86_STUB_AT_BACK = 16,	    /* push $exit_word: what the body returns to */
	X86_STUB_AT_EXIT = 21,	    /* jmp *EXIT */
	/* In a leaf's unit, whose call *LEAF_ENTRY is at X86_STUB_AT_CALL_ENTRY: */
	X86_STUB_AT_LEAF_BODY = 13, /* call body */
	X86_STUB_AT_LEAF_BACK = 18, /* jmp *LEAF_EXIT: what the body returns to */
	X86_STUB_LEAF_EXIT = 28,    /* LEAF_EXIT's place in the table at the region's head */
};

#endif
