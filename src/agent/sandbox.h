/*
 * Programs that shut themselves in by seccomp (sandbox.c).
 * Context: control, on the program's thread.
 */
#ifndef AGENT_SANDBOX_H
#define AGENT_SANDBOX_H

#include <stdbool.h>
#include <stdint.h>

/* What is done about a sandbox before a thread goes into it, to be undone if it does not. */
struct agent_shut {
	bool entered;	    /* this is the first sandbox that matters */
	bool away;	    /* the control thread has ended */
	bool probe_calls;   /* the filter lets the probes' calls pass */
	bool control_calls; /* likewise the control thread's, and those that start one */
	bool look_calls;    /* likewise those by which we look at a filter */
	bool giving_calls;  /* likewise what gives the rings' memory back */
	bool handled_calls; /* likewise those that it takes to have handled functions */
	bool all_threads;   /* it is the control thread's, too; else a forked child's */
};

/*
 * Before and after the call.  program: the filter (struct sock_fprog) in the
 * program's memory; all_threads: SECCOMP_FILTER_FLAG_TSYNC.
 */
void agent_shut_begin(struct agent_shut *shut, const void *program, bool all_threads);
void agent_shut_end(const struct agent_shut *shut, bool done);

/*
 * True if this image was started in a sandbox of which nothing is known but
 * that the tool is not in it: any call of ours could be the program's end.
 * filters: how many the tool is in.
 */
bool sandbox_is_foreign(uint32_t filters);

/*
 * The calling thread is about to lose the right to read the clock (strict
 * mode, PR_TSC_SIGSEGV), and would die of it: recording ends before.
 */
void agent_clock_lost(void);

#endif
