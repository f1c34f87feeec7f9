/*
 * Doing what triggers are for, in a thread of its own: no drainer and no target waits for a snapshot to be written or a
 * command to end (triggers.h).
 *
 * The actor lives in the process of who asked for the instance: the tool itself for the first one, `calltap attach` for
 * a further one.  So a command runs with the rights, in the folder and on the terminal of its user.  The session's
 * process sends it a packet for each deed.  Callers: watch.c, the commands.  Context: host.
 */
#ifndef HOST_HOOK_ACTOR_H
#define HOST_HOOK_ACTOR_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include <calltap/diag.h>
#include <host/core/history.h>

#define DEED_TEXT 640 /* bytes */

struct actor;
struct attach_times;
struct triggers;

/* A trigger has fired.  One packet; the sender is the session's process. */
struct deed {
	uint32_t size;	  /* sizeof(struct deed): both ends are of one build */
	uint32_t trigger; /* place in the list of the instance's triggers */
	pid_t pid; /* in the tool's pid namespace; 0 = of no process that is traced, or of one with threads' ids of its
		      own */
	uint32_t tid, told_pid; /* as the target knows them */
	uint64_t duration_ns;
	uint64_t happened_ns;	  /* CLOCK_MONOTONIC */
	struct history_call call; /* exit_ticks is 0: it has not ended, or one of its times is not known */
	char function[256];
	char text[DEED_TEXT]; /* one clause: what happened */
};

/* Part of an actor's work that differs between the two processes. */
struct actor_ops {
	/*
	 * Write a snapshot of the instance to path; *records: how many it has.  history_ns: only records that are
	 * younger; 0 = all there are.  -ESRCH: the recording is over.
	 */
	int (*snapshot)(void *context, const struct deed *deed, const char *path, uint64_t history_ns,
			uint64_t *records, struct calltap_diag *diag);
	/* The instance records from now on, or no more. */
	int (*tracing)(void *context, bool on, struct calltap_diag *diag);
	/* All threads of a process were stopped. */
	void (*stopped)(void *context, const struct attach_times *times);
};

struct actor_options {
	const struct actor_ops *ops;
	void *context;		   /* of the ops */
	struct triggers *triggers; /* the caller's, for as long as the actor lives */
	const char *output;	   /* snapshots are called after it; NULL = calltap.data */
	int deeds;		   /* socket that packets come from; the caller's, not closed before actor_end() */
	bool tells;		   /* what was done is told on standard error */
	bool progress;		   /* there may be a line of progress */
};

int actor_start(struct actor **out, const struct actor_options *options) __attribute__((warn_unused_result));
/*
 * No more packets are taken; those that have come are done, but for a few seconds at the most.  Returns how many were
 * not. actor: may be NULL.
 */
uint64_t actor_end(struct actor *actor);

#endif
