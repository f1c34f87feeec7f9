/* What triggers.c and trigger_actions.c share (triggers.h). */
#ifndef HOST_HOOK_TRIGGERS_IMPL_H
#define HOST_HOOK_TRIGGERS_IMPL_H

#include <pthread.h>
#include <sys/types.h>

#include <host/core/history.h>

#include "triggers.h"

#define STUCK_ROUNDS  100   /* of the drainer, for an event that is begun and not finished */
#define TRIGGER_SLOTS 1024u /* events that may wait for the drainer */
#define TRIGGER_QUEUE 64    /* deeds that wait for the actor */
#define TRIGGER_TEXT  640   /* of what is said of one */
#define TRIGGER_CALLS 1024  /* that are kept for snapshots */

struct calltap_event;
struct calltap_triggers;
struct filter_set;

struct trigger {
	enum trigger_action action;
	uint32_t kind; /* enum calltap_event_kind */
	struct filter_set *functions;
	char *text, *command;
	uint64_t longer_ns, window_ns;
	uint32_t often;
	uint64_t last_ns; /* of its last action */
	uint32_t count;
};

/* What is to be done for an event; the names are copies. */
struct deed {
	struct trigger *trigger;
	pid_t pid; /* as we see it; 0 = of no process that we trace, or of one that names its threads otherwise */
	uint32_t tid, told_pid;
	uint64_t duration_ns;
	uint64_t happened_ns, seen_ns; /* CLOCK_MONOTONIC */
	struct history_call call;      /* exit_ticks is 0: it has not ended, or one of its times is not known */
	char function[256];
	char text[TRIGGER_TEXT]; /* one clause: what happened */
};

struct triggers {
	struct trigger *list;
	size_t count;
	uint64_t gap_ns, after_ns, history_ns;
	uint32_t most;
	struct session *session;
	double ticks_per_ns;
	int fd;
	struct calltap_triggers *memory; /* shared with the targets */
	uint64_t size;
	uint32_t functions; /* our own word on it */
	uint64_t read;
	uint32_t stuck;
	/* The actor's: */
	pthread_t actor;
	bool actor_runs, ending;
	uint64_t until_ns;    /* CLOCK_MONOTONIC: when it ends, nothing is waited for any longer */
	pthread_mutex_t lock; /* innermost */
	pthread_cond_t wake;
	struct deed queue[TRIGGER_QUEUE];
	uint32_t queued;
	struct history_call calls[TRIGGER_CALLS]; /* the last ones that have ended */
	uint64_t calls_seen;
	uint64_t dropped; /* that found the queue full */
	uint32_t actions; /* done so far */
	uint32_t snapshots;
};

bool trigger_names(const struct trigger *trigger, struct object *object, const struct object_site *site);
/* Does the target count the function's calls as this one, which is of kind OFTEN, wants it? */
bool trigger_is_counted(const struct triggers *triggers, const struct trigger *trigger, uint32_t id);

#endif
