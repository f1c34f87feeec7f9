/*
 * What the tool tells the agent that it has mapped into a static program.
 *
 * The structure lies in the target's memory beside the agent, and stays there: calltap_agent_start() gets its address,
 * calltap_agent_place() finds it in struct calltap_attach.  The agent exports calltap_agent_version (uint32_t), which
 * is CALLTAP_ABI_VERSION (control.h), and calltap_agent_start_version, CALLTAP_START_VERSION.
 */
#ifndef CALLTAP_ABI_START_H
#define CALLTAP_ABI_START_H

#include <stdint.h>

#define CALLTAP_START_FUNCTIONS 24u

#define CALLTAP_START_MAGIC   0x2e1acedca117a900ull
#define CALLTAP_START_VERSION 4u

/*
 * A function of the program whose first bytes lead to the agent's function of that name.  At a command's start the tool
 * has led them there, else the agent does; it is the agent that gives them back.  `length` is 0 for a further name of
 * one function.
 */
struct calltap_start_function {
	char name[24];
	uint64_t behind; /* address of code that does what the program's function did */
	uint64_t head;	 /* address of the first bytes */
	uint8_t length, reserved[7];
	uint8_t old[8], jump[8]; /* the program's bytes, and those that lead to the agent: `length` of each */
};

struct calltap_start {
	uint64_t magic;	  /* CALLTAP_START_MAGIC: a tool that comes later knows the agent by it */
	uint32_t version; /* CALLTAP_START_VERSION */
	uint32_t musl;	  /* libc is musl's */
	uint32_t libgcc;  /* what unwinds stacks in the program is libgcc */
	uint32_t function_count;
	uint64_t entry;	      /* address of calltap_agent_place(), for a tool that comes later */
	uint64_t environment; /* address of the environment's pointers; 0: the agent comes when the program has run */
	uint64_t base;	      /* where the program's ELF address 0 lies */
	uint64_t within;      /* an address within the program's file */
	int64_t id_offset;    /* from the thread pointer to where libc notes a thread's id (uint32_t) */
	struct calltap_start_function functions[CALLTAP_START_FUNCTIONS];
};

#endif
