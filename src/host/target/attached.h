/*
 * What the files of a process that was attached to share: attached.c,
 * attached_apply.c, attached_heads.c, attached_places.c, attached_release.c, attached_stacks.c.
 * Context: host, under the session's lock.
 */
#ifndef HOST_TARGET_ATTACHED_H
#define HOST_TARGET_ATTACHED_H

#include <host/session/session.h>

#define ATTACHED_TRIES 25 /* to find no thread where it must not be */

/* Let the program get on before the next try. */
void attached_pause(uint64_t least_ns);
/* attached_pause() without the session's lock, which the caller holds: meanwhile the drainer takes records. */
void attached_rest(struct session *session, uint64_t least_ns);
/* Stops that serve one purpose follow: their given up tries, and waits for transfers, are counted together. */
void attached_begin_stops(const struct session *session, struct target *target);
/* Stop all threads but the agent's; what is wrong is noted for the user.  The session is not locked for a while. */
int attached_stop(struct session *session, const struct target *target, struct attach_stop **stop)
	__attribute__((warn_unused_result));
/* Let all go, and note how long they were stopped: over all tries, in ns. */
uint64_t attached_resume(struct session *session, struct attach_stop *stop);
/* Note the times of a stop for the summary. */
void attached_note_times(struct session *session, const struct attach_times *times);
/*
 * Ask the agent while the threads are stopped; message NULL: only wait.  0 when
 * *answer is there; -ETIMEDOUT, or what happened to the connection.
 */
int attached_ask(struct session *session, struct target *target, const void *message, size_t size, uint32_t answer_type,
		 void *answer, size_t answer_size) __attribute__((warn_unused_result));
/* In a pinned stop, behind a request that was sent: wait for the answer, and tell the stop of it (attach_asked()). */
int attached_await(struct session *session, struct target *target, struct attach_stop *stop, uint32_t answer_type,
		   void *answer, size_t answer_size) __attribute__((warn_unused_result));

/* attached_places.c */
/* Where the process has code of files with that in their path; returns how many ranges, at most max. */
int attached_text_of(pid_t pid, const char *name, struct attach_range *ranges, size_t max);
/* Open the memory of the target's process; -ESRCH. */
int attached_open_memory(const struct target *target) __attribute__((warn_unused_result));
/* Where a thread must not be when the agent's memory goes. */
enum attached_place {
	ATTACHED_IN_STUBS,
	ATTACHED_IN_AGENT,
	ATTACHED_IN_UNWINDER,
	ATTACHED_NEAR_UNWINDER, /* in an object that has one among other things */
};

struct attached_places {
	struct attach_range *ranges; /* sorted */
	enum attached_place *kinds;
	size_t count;
};

/* Freed by attached_places_free(), whatever is returned. */
int attached_find_places(struct attached_places *places, const struct target *target)
	__attribute__((warn_unused_result));
/* Add the unwinders' functions that the agent has told of. */
int attached_add_unwinders(struct attached_places *places, const struct target *target,
			   const struct calltap_msg_unwinders_told *told) __attribute__((warn_unused_result));
/* False: the address is in none. */
bool attached_place_of(const struct attached_places *places, uint64_t address, enum attached_place *kind);
void attached_places_free(struct attached_places *places);

/*
 * attached_heads.c.  True if the jump at a head that the target's plans have would lie around the context's pc, or
 * around a system call in front of it that is made again.
 */
bool attached_is_in_jump(const struct target *target, const struct attach_context *context, uint64_t *head);
/*
 * Where in a block a thread goes on that stands within a head, and the other way round; mem: the process' memory.
 * False: nowhere.  The text there is not the file's, part of an instruction's moved form is done, or the thread is
 * asleep.
 */
bool attached_into_block(const struct target *target, int mem, const struct attach_thread *thread, uint64_t *pc);
bool attached_out_of_block(const struct target *target, int mem, const struct attach_thread *thread, uint64_t *pc);

/* attached_stacks.c: unwind the stacks that were copied, in a thread of its own, and write them to the file. */
void attached_tell_stacks(struct session *session, const struct target *target, struct attach_stacks *stacks,
			  uint64_t ticks);

#endif
