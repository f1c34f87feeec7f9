/*
 * Coming into a process that runs: memory in it that the tool, the thread that the tool borrows, and the agent share.
 *
 * The thread maps CALLTAP_BORROWED_SIZE bytes at a place that the tool chose, says CALLTAP_ATTACH_READY in `state`, and
 * waits until the tool has filled in the rest and says CALLTAP_ATTACH_GO, for about 0.5 s.  It runs on the upper part
 * while it loads the agent and calls calltap_agent_attach(), goes back to its own stack, and sets `left`.  The agent's
 * control thread unmaps the memory after that.  A library that is no agent is loaded in the same way: there is nothing
 * to call then, and the thread unmaps the memory itself. doc/design/attach.md.
 *
 * Into a static program the thread brings the agent without a loader: it maps the parts that `parts` lists of the memfd
 * that it has made, and that the tool has written the agent into, relocated for that place; then it calls
 * calltap_agent_place().  doc/design/loaderless.md.
 *
 * A forked child has its parent's agent, which calls in by itself at the child's first traced call.  The tool makes it
 * call in before that, in the same way (`calls_in`).
 */
#ifndef CALLTAP_ABI_ATTACH_H
#define CALLTAP_ABI_ATTACH_H

#include <stdint.h>

#define CALLTAP_BORROWED_SIZE (256u << 10) /* bytes; the first page is struct calltap_attach */

enum calltap_attach_state {
	CALLTAP_ATTACH_NONE = 0,
	CALLTAP_ATTACH_READY = 1,  /* by the thread: the memory is there */
	CALLTAP_ATTACH_GO = 2,	   /* by the tool: all is filled in */
	CALLTAP_ATTACH_LOADED = 3, /* by the thread: the agent has been called, `result` holds */
	CALLTAP_ATTACH_FAILED = 4, /* by the thread: the loader refused, `error` holds */
};

/* calltap_attach.result: a library is loaded, nothing was called; or the child has called in by itself. */
#define CALLTAP_ATTACH_ALONE 1
#define CALLTAP_ATTACH_PARTS 16u

/* A part of the agent's memory: what mmap() is told. */
struct calltap_attach_part {
	uint64_t address; /* 0 = there are no more parts */
	uint64_t size, offset;
	uint32_t protection, flags;
};

struct calltap_attach {
	uint32_t version; /* CALLTAP_ABI_VERSION */
	uint32_t state;	  /* enum calltap_attach_state */
	uint32_t left;	  /* 1: the thread is on its own stack again */
	int32_t result;	  /* result of calltap_agent_attach(), or CALLTAP_ATTACH_ALONE */
	int32_t memfd; /* descriptor, from the thread, for an agent that the process cannot open by path; or -errno */
	uint32_t calls_in; /* 1: a forked child of the session's, which has not called in, is to do that now */
	uint64_t memory, memory_size; /* the borrowed memory: its address, and CALLTAP_BORROWED_SIZE */
	uint64_t main_thread;	      /* thread pointer of the initial thread, 0 = it has ended */
	uint64_t main_stack_end;      /* first address above the initial thread's stack */
	uint64_t filters;	      /* seccomp filters that the tool itself runs under */
	char session[128];	      /* NAME:KEY (control.h) */
	char agent[1024];	      /* path for the loader */
	char error[512];	      /* the loader's words */
	uint32_t naps;		      /* written by the thread: naps that it will wait yet */
	uint32_t reserved_2;
	uint64_t start; /* address of struct calltap_start (start.h); 0 = the program has a loader */
	struct calltap_attach_part parts[CALLTAP_ATTACH_PARTS]; /* of an agent that no loader maps, the whole first */
};

_Static_assert(sizeof(struct calltap_attach) <= 4096, "ABI");

#endif
