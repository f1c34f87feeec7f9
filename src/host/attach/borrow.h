/*
 * Borrowing a thread of the target: choosing one, and sending it away.
 * Between inject.c and borrow.c.  Context: host.
 */
#ifndef HOST_ATTACH_BORROW_H
#define HOST_ATTACH_BORROW_H

#include <calltap/abi/attach.h>

#include "impl.h"

struct borrow {
	pid_t pid, alive;
	const char *what;		    /* the thing to be loaded, in words for a sentence */
	bool library;			    /* load a library, not an agent */
	char file[1024];		    /* the file to load: the agent for the program's libc, or the library */
	const struct attach_placed *placed; /* the agent of a static program; else NULL */
	struct space space;
	struct libs libs;
	struct unwinder *unwinder;
	struct slack slack;
	struct native_errand errand;
	uint64_t main_thread; /* thread pointer of the initial thread */
	bool main_known;
	bool dispatches; /* a thread's system calls may be the program's own to answer */
	size_t others;	 /* threads tried so far that waited for no event */
	pid_t tid;	 /* the borrowed thread; the tool reads and writes memory by it */
	bool in_time;	 /* the thread was told to go on while it surely waited for that */
	uint64_t stop_ns;
	uint64_t spare_until_ns; /* threads in a transfer are not stopped before */
	uint32_t cut_short;	 /* transfers that ended early because they were, after that */
	bool guest;		 /* the thread has just executed the program: there is no session of an attach's */
	bool (*gives_up)(void *context); /* of struct attach_options */
	void *gives_up_context;
	const char *why; /* why the last thread could not be had */
};

/* Send a thread on its errand; it runs when this returns.  -EAGAIN: none could be had within the patience. */
int borrow_thread(struct borrow *borrow, uint32_t patience_ms, struct calltap_diag *diag)
	__attribute__((warn_unused_result));

/*
 * Send the initial thread, which waits in open() for the tool's answer, on its errand when it has that.  -EAGAIN: it
 * could not be had there.
 */
int borrow_caught(struct borrow *borrow, const struct attach_caught *caught, struct calltap_diag *diag)
	__attribute__((warn_unused_result));

/*
 * Tracer: send a stopped thread on its errand, once it is let go of.  False: it was not, and is as it was; `why` says
 * why.
 */
bool borrow_send(struct borrow *borrow, struct held *held) __attribute__((warn_unused_result));

#endif
