/*
 * The tool's side of a conversation with an agent that comes into a running process, played by hand: a function for
 * each step, which also checks the agent's answer.
 *
 * The process is attached.h's; it stops its own threads when the test orders it to.
 */
#ifndef TEST_UNIT_AGENT_TOOLSIDE_H
#define TEST_UNIT_AGENT_TOOLSIDE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <arch.h>
#include <calltap/abi/attach.h>
#include <calltap/abi/control.h>
#include <calltap/abi/record.h>
#include <calltap/abi/ring.h>

#include "attached.h"

#define PAGE	 4096u
#define RINGS	 16u
#define SUB	 8192u
#define SUBS	 4u
#define PATIENCE 10000 /* ms */

struct tool {
	pid_t pid;
	int listener, socket;
	char *arena_memory;
	size_t arena_size;
	uint64_t identity;   /* identity of the object in plans and pointers, 0 = an object that cannot go */
	uint64_t plan_moved; /* added to the addresses in plans, as if the object lay so far up */
	char message[CALLTAP_MSG_MAX];
	struct calltap_msg_hello hello; /* last: its type ends with a path */
};

/* AGENT [FILTER] of the command line: for all tests, once.  False: there is no memory to share. */
bool tool_take_arguments(int argc, char **argv);
/* Start and end the process, and give it orders; order_only: without waiting until the order is done. */
void tool_start(struct tool *tool);
void tool_finish(struct tool *tool);
void tool_order(const struct tool *tool, enum order what);
void tool_order_only(enum order what);
void tool_await(const struct tool *tool);
void tool_park(bool on);
/* Wait until each worker has called all functions 20 times more, and rightly. */
void tool_run_on(const struct tool *tool);

void tool_tell(struct tool *tool, const void *message, const int *fds, unsigned count);
/* Receive the next message, which has to be of that type; or the connection's end. */
void *tool_hear(struct tool *tool, uint32_t type);
void tool_hear_end(struct tool *tool);

/* The steps of a session, in their order. */
void tool_attach(struct tool *tool, uint32_t flags);
void tool_accept(struct tool *tool, uint32_t flags);
void tool_set_up(struct tool *tool, uint32_t flags);
unsigned tool_hear_objects(struct tool *tool);
void tool_send_pointers(struct tool *tool);
/* Send the plan of all functions: outer, middle, inner and waits; tell: without waiting for the answer. */
void tool_tell_plan(struct tool *tool, uint64_t id, uint32_t live, const uint16_t flags[4]);
void tool_send_plan(struct tool *tool, uint64_t id, uint32_t live, const uint16_t flags[4]);
/* Lead all sites to that plan's stubs, or to none; the two halves of that. */
void tool_lead_to(struct tool *tool, uint64_t plan, bool on);
void tool_tell_switch(struct tool *tool, uint64_t plan, bool on);
void tool_hear_switch(struct tool *tool);
void tool_set(struct tool *tool, uint32_t depth_max, uint32_t tree_filter);
struct calltap_msg_apply_done tool_apply(struct tool *tool, uint32_t flags, uint64_t skip);
void tool_detach(struct tool *tool, uint32_t flags);
/* The two halves of that. */
void tool_tell_detach(struct tool *tool, uint32_t flags);
void tool_hear_detached(struct tool *tool);
void tool_tell_release(struct tool *tool);
struct calltap_msg_released tool_release(struct tool *tool);
/* All steps from the objects until functions are recorded. */
void tool_begin(struct tool *tool);
/* All steps of a session's beginning: the process is started, attached to, and recorded. */
void tool_begin_all(struct tool *tool, uint32_t setup_flags);
/* Detach from the recorded process, which lets go of everything. */
void tool_let_go(struct tool *tool);

/* A memfd of zeros with these seals. */
int tool_memory(size_t size, int seals);
uint64_t tool_site(uint64_t function);
const struct calltap_ring *tool_ring(const struct tool *tool, uint32_t index);
uint64_t tool_recorded(const struct tool *tool);

#endif
