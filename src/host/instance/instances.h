/*
 * Further instances of a session: filters, a tracer, rings and a trace file of
 * their own, on the same targets (doc/design/instances.md).
 *
 * further.c keeps one; instances.c begins, changes and ends them when they are
 * asked for.
 * Context: host, under the session's lock but where said.
 */
#ifndef HOST_INSTANCE_INSTANCES_H
#define HOST_INSTANCE_INSTANCES_H

#include <stdio.h>

#include <host/session/session.h>

/* A request for a further instance. */
struct instance_wish {
	struct settings settings; /* its filters go to the instance, or are destroyed with the wish */
	char name[32];
	char output[256];     /* for `calltap status` */
	char buffer_dir[256]; /* absolute; "" = the buffers have no names */
	const char *options;  /* as typed, for the file */
	bool allow_no_match;
	bool frames; /* record_options.frames */
	bool follow; /* the asker reads the file while it is written (record_options.follow) */
	uint64_t threshold_ticks;
	struct triggers *triggers; /* NULL = none; go to the instance, or are destroyed with the wish */
	const int *fds;		   /* the asker's: the trace file, empty, and the socket for the deeds of triggers */
};

/* further.c */
/*
 * With a file that says what there is so far, and without shares; the wish's
 * filters and triggers are its own from here on, also on error.
 */
int further_create(struct instance **out, struct session *session, uint32_t set, struct instance_wish *wish,
		   struct calltap_diag *diag) __attribute__((warn_unused_result));
/* Have it record that target, which can be told. */
int further_add(struct instance *instance, struct target *target) __attribute__((warn_unused_result));
/* CALLTAP_INSTANCE_*, as the settings ask for. */
uint32_t further_flags(const struct instance *instance, const struct settings *settings);
/* The instance's triggers, NULL = none. */
struct triggers *further_triggers(const struct instance *instance);
/* Free the instance's place in the session and in the targets. */
void further_detach(struct instance *instance);
/* Take what its rings hold, and see to it that the drainer knows it no more; gives up the lock meanwhile. */
void further_take_out(struct instance *instance);
/* Nobody else knows it: complete its file, without the lock. */
int further_finish(struct instance *instance) __attribute__((warn_unused_result));
void further_destroy(struct instance *instance);

/* instances.c */
/* A process that comes in, behind SETUP. */
int instances_welcome(struct session *session, struct target *target) __attribute__((warn_unused_result));
int instances_answer(struct session *session, struct target *target, const struct calltap_msg_instance_done *done)
	__attribute__((warn_unused_result));
/* With the turn and the lock: have it record by these settings; -ETIMEDOUT: not all targets have answered. */
int instances_set(struct instance *instance, const struct settings *next, struct calltap_diag *diag)
	__attribute__((warn_unused_result));
/* The session is over, and nobody else is left to do anything: complete and destroy them. */
void instances_finish(struct session *session);

/* For those that ask, without the lock.  *out: for instances_end(). */
int instances_begin(struct session *session, const struct setting_change *words, size_t count, const int *fds,
		    FILE *answer, struct instance **out, struct calltap_diag *diag) __attribute__((warn_unused_result));
int instances_end(struct instance *instance, FILE *answer, struct calltap_diag *diag)
	__attribute__((warn_unused_result));
/* The instance of that name; NULL with a sentence. */
struct instance *instances_find(struct session *session, const char *name, struct calltap_diag *diag);
/* Their names, in one line. */
void instances_names(const struct session *session, char *text, size_t size);

#endif
