/*
 * The inside of struct triggers and struct watch, for conditions.c, watch.c, actor.c and further.c (triggers.h).
 */
#ifndef HOST_HOOK_TRIGGERS_IMPL_H
#define HOST_HOOK_TRIGGERS_IMPL_H

#include <pthread.h>

#include <calltap/abi/profile.h>
#include <calltap/abi/ring.h>
#include <host/core/history.h>

#include "triggers.h"

#define TRIGGER_CALLS	1024	   /* calls that are kept for snapshots */
#define WATCH_FUNCTIONS (1u << 20) /* ids that may have a trigger; memory is taken for those that have one */
#define WATCH_SLOTS	1024u	   /* events that may wait for the drainer */
#define WATCH_STUCK	100	   /* rounds of the drainer that an unfinished event is waited for */

struct actor;
struct filter_set;
struct object;
struct object_site;
struct session;

struct trigger {
	enum trigger_action action;
	uint32_t kind; /* enum calltap_event_kind */
	struct filter_set *functions;
	char *text;    /* the condition */
	char *command; /* TRIGGER_RUN: for the shell; NULL = another process runs it */
	uint64_t longer_ns, window_ns;
	uint32_t often;
	uint32_t number; /* CALLTAP_EVENT_CHOSEN: of the question (values_ask()) */
	/* In the session's process. */
	uint64_t last_ns; /* CLOCK_MONOTONIC at the last deed, 0 = there was none */
	uint32_t count;	  /* deeds so far */
};

struct triggers {
	struct trigger *list;
	size_t count;
	uint64_t gap_ns, after_ns, history_ns;
	uint32_t most;
	/* In the session's process. */
	int deeds;				  /* where struct deed goes, packet by packet (actor.h); -1 = nowhere */
	uint32_t sent;				  /* deeds */
	uint64_t dropped;			  /* deeds for which there was no room: the actor is too far behind */
	pthread_mutex_t lock;			  /* of the two below; no other lock is taken with it */
	struct history_call calls[TRIGGER_CALLS]; /* the last ones that have ended */
	uint64_t calls_seen;
};

struct watch {
	struct session *session;
	double ticks_per_ns;
	int fd;
	struct calltap_triggers *memory; /* shared with the targets */
	uint64_t size;
	uint64_t read;				/* events that were taken */
	uint32_t stuck;				/* rounds for which the next event has been unfinished */
	struct triggers *of[CALLTAP_INSTANCES]; /* by set */
	struct actor *actor;			/* of the first instance */
	int actor_end;				/* its end of the socket for deeds, -1 = none */
};

bool trigger_names(const struct trigger *trigger, struct object *object, const struct object_site *site);

#endif
