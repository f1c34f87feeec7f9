/*
 * Programs that shut themselves in by seccomp (sandbox.c).
 *
 * Called by calls.c and the agent's start.  Context: control, on the program's thread.
 */
#ifndef AGENT_SANDBOX_H
#define AGENT_SANDBOX_H

#include <stdbool.h>
#include <stdint.h>

/* Changes by the agent before a thread enters a sandbox; undone if the thread does not enter it. */
struct agent_shut {
	bool entered;	    /* this is the first sandbox that matters; the fields below hold */
	bool filters;	    /* it is a filter, which programs that are executed have, too */
	bool away;	    /* the control thread has ended */
	bool spare_calls;   /* the filter lets those pass that can be done without */
	bool probe_calls;   /* the filter lets the probes' calls pass */
	bool control_calls; /* the filter lets the control thread's calls pass, and those that start one */
	bool look_calls;    /* the filter lets calls pass that read another filter */
	bool giving_calls;  /* the filter lets the call pass that gives the rings' memory back */
	bool handled_calls; /* the filter lets calls pass that handled functions take */
	bool all_threads;   /* the filter is for the control thread, too; else for forked children's */
};

/*
 * Call these before and after the program's call. program: the filter (struct sock_fprog) in the program's memory, or
 * NULL: no call of this thread's passes;
 * all_threads: SECCOMP_FILTER_FLAG_TSYNC; done: the call was successful.
 */
void agent_shut_begin(struct agent_shut *shut, const void *program, bool all_threads);
void agent_shut_end(const struct agent_shut *shut, bool done);

/*
 * True if this image was started in a sandbox of which nothing is known but that the tool is not in it: any call of the
 * agent's could be the program's end. filters: how many the tool is in.
 */
bool sandbox_is_foreign(uint32_t filters);

/*
 * The calling thread is about to lose the right to read the clock (strict
 * mode, PR_TSC_SIGSEGV), and would die of it: recording ends before.
 */
void agent_clock_lost(void);

#endif
