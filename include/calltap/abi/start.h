/*
 * What the tool tells the agent that it has mapped into a static program.
 *
 * The structure lies in the target's memory beside the agent, and stays there: calltap_agent_start() gets its address.
 * The tool and the agent are of one build: the agent exports calltap_agent_version (uint32_t), CALLTAP_ABI_VERSION.
 */
#ifndef CALLTAP_ABI_START_H
#define CALLTAP_ABI_START_H

#include <stdint.h>

#define CALLTAP_START_FUNCTIONS 24u

/* A function of the program whose first bytes lead to the agent's function of that name. */
struct calltap_start_function {
	char name[24];
	uint64_t behind; /* address of code that does what the program's function did */
};

struct calltap_start {
	uint32_t musl;	 /* libc is musl's */
	uint32_t libgcc; /* what unwinds stacks in the program is libgcc */
	uint32_t function_count;
	uint32_t reserved;
	uint64_t environment; /* address of the environment's pointers */
	uint64_t base;	      /* where the program's ELF address 0 lies */
	uint64_t within;      /* an address within the program's file */
	int64_t id_offset;    /* from the thread pointer to where libc notes a thread's id (uint32_t) */
	struct calltap_start_function functions[CALLTAP_START_FUNCTIONS];
};

#endif
