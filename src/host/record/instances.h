/*
 * Further instances of a session: filters, a tracer, rings and a trace file of
 * their own, on the same targets (doc/design/instances.md).
 *
 * instance.c keeps one: a session of its own for the drainer and the file,
 * whose processes follow those of the session that it is part of.
 * instances.c begins, changes and ends them when they are asked for.
 * Context: host, under the session's lock but where said.
 */
#ifndef HOST_RECORD_INSTANCES_H
#define HOST_RECORD_INSTANCES_H

#include <stdio.h>

#include "session.h"

/* What begins one. */
struct instance_wish {
	struct settings settings; /* its filters go to the instance, or are destroyed with the wish */
	char name[32];
	char output[256];    /* for `calltap status` */
	const char *options; /* as typed, for the file */
	bool allow_no_match;
	uint64_t threshold_ticks;
	int fd; /* of its trace file, empty; the asker's */
};

/* instance.c */
/*
 * With a file that says what there is so far, and without processes; settings'
 * filters are its own from here on, also on error.
 */
int instance_create(struct session **out, struct session *owner, uint32_t set, struct instance_wish *wish)
	__attribute__((warn_unused_result));
/* Have it record that process, which can be told. */
int instance_add(struct session *instance, struct process *of) __attribute__((warn_unused_result));
/* Bring an entry of an instance in line with the one that it follows. */
void instance_follow(const struct session *instance, struct process *process);
/* Take what its rings hold, and see to it that the drainer knows it no more; gives up the lock meanwhile. */
void instance_take_out(struct session *instance);
/* Nobody else knows it: complete its file, without the lock. */
int instance_finish(struct session *instance) __attribute__((warn_unused_result));
void instance_destroy(struct session *instance);
/* The map of a process of the owner's goes to the instance's file, which has the object. */
void instance_write_map(struct session *instance, const struct process *process, const struct target_map *map);

/* instances.c */
/* A process that comes in, behind SETUP. */
int instances_welcome(struct session *session, struct process *process) __attribute__((warn_unused_result));
int instances_answer(struct session *session, struct process *process, const struct calltap_msg_instance_done *done)
	__attribute__((warn_unused_result));
void instances_note_map(struct session *session, const struct process *process, const struct target_map *map,
			bool known);
/* The session is over, and nobody else is left to do anything: complete and destroy them. */
void instances_finish(struct session *session);

/* For those that ask, without the lock.  *out: for instances_end(). */
int instances_begin(struct session *session, const struct setting_change *words, size_t count, int fd, FILE *answer,
		    struct session **out, struct calltap_diag *diag) __attribute__((warn_unused_result));
int instances_end(struct session *instance, FILE *answer, struct calltap_diag *diag)
	__attribute__((warn_unused_result));
int instances_set(struct session *instance, const struct setting_change *list, size_t count, struct calltap_diag *diag)
	__attribute__((warn_unused_result));
/* The instance of that name, which may be the session itself; NULL with a sentence. */
struct session *instances_find(struct session *session, const char *name, struct calltap_diag *diag);
/* Their names, in one line. */
void instances_names(const struct session *session, char *text, size_t size);

#endif
