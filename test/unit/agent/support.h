/*
 * A target in the test's own process: a fake arena in plain memory, and small functions on an executable page.
 *
 * Callers: the tests of ring, probe and patch, and test/stress.
 */
#ifndef TEST_UNIT_AGENT_SUPPORT_H
#define TEST_UNIT_AGENT_SUPPORT_H

#include <patch/sites.h>
#include <probe/thread.h>

struct fake_arena {
	struct calltap_arena *arena;
	size_t size;
};

/* Rings in zeroed memory, as the tool makes them. */
void fake_arena_create(struct fake_arena *fake, enum calltap_mode mode, uint32_t rings, uint32_t sub_size,
		       uint32_t sub_count);
void fake_arena_destroy(struct fake_arena *fake);
struct calltap_ring *fake_ring(const struct fake_arena *fake, uint32_t index);
const struct calltap_subbuf *fake_sub(const struct calltap_ring *ring, uint64_t number);

/* Switch the probes on with this arena, as the agent's start does; and off. */
void fake_start(const struct fake_arena *fake);
void fake_stop(void);

#define CODE_STEP 64 /* bytes from one function to the next */

typedef int (*code_function)(int);

/* Sites as compilers leave them.  On a CPU without SHORT or STUBBORN sites those are USUAL ones. */
enum code_kind {
	CODE_USUAL,    /* no-ops at the entry */
	CODE_SHORT,    /* too short for a jump to the stub, with no-ops before it */
	CODE_STUBBORN, /* only a new copy of its page can restore it */
};

/* <cpu>/code.c: the length of such a site. */
uint8_t code_length(enum code_kind kind);
/*
 * <cpu>/code.c: write function number n at `at`, with a site of that kind:
 * x -> x + n, by way of a call of `inner` when it is given.  Fills the site in,
 * and returns the function.
 */
code_function code_write(uint8_t *at, int n, enum code_kind kind, code_function inner, struct calltap_site *site);
/* <cpu>/code.c: the target of the site's code in memory; 0 = the body, or none. */
uint64_t code_target(const struct calltap_site *site);
/* <cpu>/code.c: a debugger's breakpoint; returns its size. */
size_t code_breakpoint(uint8_t bytes[4]);
/* Make pages that code_write() filled executable. */
void code_seal(void *pages, size_t size);

#endif
