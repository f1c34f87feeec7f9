/*
 * A target: a process that the session traces, the conversation with its agent, and the objects that it has mapped.
 *
 * Callers: the rooms session, target, instance and hook.  Context: host, under the session's lock but where said.
 */
#ifndef HOST_TARGET_TARGET_H
#define HOST_TARGET_TARGET_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include <calltap/abi/control.h>
#include <calltap/abi/file.h>
#include <calltap/abi/ring.h>
#include <calltap/diag.h>
#include <host/attach/attach.h>
#include <host/instance/instance.h>

#include "images.h"

struct attachee;
struct session;
struct settings;
struct space;
struct trace_writer;

/* An object that a target has mapped. */
struct target_map {
	uint64_t base, dynamic, identity; /* as in struct calltap_msg_object */
	struct image *image;
	uint64_t region;     /* address of the stub region in the target, 0 = none */
	uint64_t blocks;     /* address of the region of blocks in the target, 0 = none */
	uint32_t moves;	     /* how often a place for the blocks was not free */
	uint32_t variant;    /* the image's variant that the region has stubs of */
	uint32_t generation; /* images.generation when the plan was sent */
	bool sent;	     /* its plan was sent, and has not failed */
	bool later;	     /* its functions were chosen while the target ran: no report led to the plan */
	bool waits;	     /* the agent is to write the sites when all threads are stopped (APPLY), and has not */
	bool stubs;	     /* the region was sent alone (CALLTAP_PLAN_STUBS): an earlier map has the sites */
	bool mapped;	     /* the last report had the object */
	bool lacks;	     /* of a forked child: its parent has got the plan, the child had not got it at the fork */
	bool asked;	     /* of a forked child: a missing plan was sent, or tried to be (forked.c) */
	bool torn;	     /* of a forked child: some of the sites are written, and some are not */
};

/* How many answers a target's agent owes, by message. */
struct owed {
	uint32_t plans;	    /* to PLAN, but for CALLTAP_PLAN_STUBS */
	uint32_t stubs;	    /* to PLAN with CALLTAP_PLAN_STUBS, and of functions that are chosen later */
	uint32_t applies;   /* to APPLY, which the server thread is to send (additions.c) */
	uint32_t switches;  /* to SWITCH */
	uint32_t handlers;  /* to HANDLERS and HANDLERS_WAIT */
	uint32_t instances; /* to INSTANCE */
	bool programs;	    /* to PROGRAMS */
};

/* A report of the objects that a target has mapped (OBJECT, OBJECTS_END). */
struct report {
	struct calltap_msg_object **list; /* objects of the report that is coming in */
	uint32_t count;
	struct calltap_msg_objects_end told; /* end of the last report */
	bool moved;			     /* the last report does not agree with /proc/PID/maps */
	uint32_t stale;			     /* how often APPLY found other objects than the plans were for (-ESTALE) */
};

/* The table of rows (handlers.c) in a target. */
struct handled {
	bool told;   /* the table was sent to the target */
	uint64_t at; /* address of the target's struct calltap_handlers that was sent with it, 0 = none */
	int error;   /* the last answer to HANDLERS or HANDLERS_WAIT: 0 or -errno */
};

/* The state of a target that ran already when the tool came (attached.c). */
struct attached {
	bool applied;		  /* the sites are written; objects that come later are held in dlopen */
	bool released;		  /* the agent has let go of everything */
	bool heads_are_own;	  /* heads have their own bytes again */
	uint64_t hook_at;	  /* a place of the loader that has a hook; 0 = none */
	bool littered;		  /* the code that brought the agent in is still in the target */
	uint32_t given_up_before; /* result.stops_given_up when the present stop of all threads began */
	uint64_t spare_until_ns;  /* until then its stops wait for a moment without a transfer */
};

/* A forked child has told this of its plans (forked.c). */
struct had {
	struct calltap_had_plan *list;
	uint32_t count;
	bool stopped; /* it was stopped to have sites written, and is not again before the next change */
	bool fixed;   /* it is not to be stopped for that at all */
	bool told;    /* the user will be told that calls are missing */
};

/* A target: a process, and the conversation with its agent. */
struct target {
	struct target *next;
	int socket;
	uint64_t since_ns; /* of the connection, CLOCK_MONOTONIC */
	uint64_t heard_ns; /* CLOCK_MONOTONIC of the agent's last message */
	pid_t pid;	   /* as the tool sees it */
	uint32_t index;
	uint64_t image_id;
	struct calltap_file_process row;
	char *exe;	   /* path of the program, NULL = not known */
	uint64_t asked_ns; /* CLOCK_MONOTONIC of a CLOCK that is not answered yet, 0 = none */
	bool greeted, dormant;
	bool welcome;	/* SETUP was sent */
	bool untraced;	/* returns_take() has said so */
	bool foreign;	/* the program is for another CPU than the session's, and not traced */
	bool detaching; /* DETACH was sent */
	bool executed;	/* the process has executed another program in a sandbox, where the agent stays out */
	bool parted;	/* the agent has said that the conversation ends (DETACHED, FAULT) */
	bool alone;	/* the agent has let go of the connection, and runs on: `socket` is a pidfd */
	bool ended;	/* the connection is over; the drainer takes what is left in the rings */
	bool settled;	/* GO was sent, and no RESCAN since */
	bool perf_map;	/* the tool has written /tmp/perf-PID.map */
	bool other_ids; /* the process is in another pid namespace: its threads have other ids there than here */
	bool began;	/* GO was sent at least once */
	struct attachee *attachee; /* NULL: the process was traced from its start */
	struct attached attach;
	struct owed owed;
	bool behind;  /* a forked child that does not have all that the session has changed (forked.c) */
	bool silent;  /* an owed answer did not come in time */
	bool watched; /* TRIGGERS was sent (hook/watch.h) */
	struct handled handled;
	struct report report;
	struct had had;
	struct {
		uint64_t left;	  /* what its cgroup left it before the first plan; 0 = not looked at */
		uint64_t planned; /* what plans take of that */
		bool told;	  /* some were left out, and the user knows */
		bool squeezed;	  /* its buffers are smaller than was asked for */
	} memory;
	struct target_map *maps;
	uint32_t map_count;
	struct share *shares[CALLTAP_INSTANCES]; /* by set; NULL: that instance does not record the target */
	struct calltap_msg_hello hello;		 /* last: the type ends with a path, of which `exe` is a copy */
};

/* The target's first arena, whose head has counters of the whole process; NULL = the target has none (any more). */
static inline struct calltap_arena *target_head(const struct target *target)
{
	const struct share *first = target->shares[0];

	return first && first->arena_count ? first->arenas[0].arena : NULL;
}

/* target.c: can the agent be sent messages about what is recorded? */
bool live_can_be_told(const struct target *target);
/* True until the sites of what is mapped at the attach are written. */
bool attached_is_open(const struct target *target);
/* The target has ended, and all that it left is in the files. */
bool target_is_drained(const struct target *target);
/* Note what the user is to be told of a process: of an attachee with what became of it, of any other at the end. */
void target_diagnose(struct session *session, const struct target *target, const char *format, ...)
	__attribute__((format(printf, 3, 4)));
/* Write the process's row to a file. */
int target_write(struct target *target, struct trace_writer *writer) __attribute__((warn_unused_result));
/* Tell the user of an agent's complaint. */
void target_tell_fault(struct session *session, const struct target *target, const struct calltap_msg_fault *fault);
/* To be called before the tool ends a connection: the agent leaves the rings as they are. */
void targets_read_on(const struct target *target);

/* targets.c: take in who connects; end a connection; end those who say nothing. */
void targets_accept(struct session *session);
void targets_end(struct session *session, struct target *target);
void targets_end_silent(struct session *session);
/* The recording ends: targets that run on get their text back; an agent that does not answer in time does that alone.
 */
void targets_let_go(struct session *session);

/* conversation.c: the conversation with one target. */
int target_create(struct target **out, struct session *session, int socket) __attribute__((warn_unused_result));
/* Read and answer one message; not 0: the conversation is over. */
int target_serve(struct session *session, struct target *target) __attribute__((warn_unused_result));
/* Answer a message that was read already. */
int target_answer(struct session *session, struct target *target, const void *message, uint32_t size)
	__attribute__((warn_unused_result));
/* The second half of a greeting: SETUP is sent when all is known that it takes. */
int target_set_up(struct session *session, struct target *target) __attribute__((warn_unused_result));
/* The conversation has ended with this error: note what the user is to be told. */
void target_tell_end(struct session *session, const struct target *target, int error);
void target_destroy(struct target *target);

/* Open a file of the process in /proc; -1: it cannot be. */
int target_open_in_proc(const struct target *target, const char *name, int flags);

/* Let the program go on. */
int target_go(struct session *session, struct target *target) __attribute__((warn_unused_result));

#define FORKED_PLANS_MAX 65536u /* that a child may have */

/* True while the forked child has not told of all plans that it has; SETUP comes after that. */
static inline bool forked_is_telling(const struct target *target)
{
	return target->hello.flags & CALLTAP_HELLO_FORKED && !target->welcome &&
	       target->had.count < target->hello.plans;
}
/*
 * forked.c: the process that the child comes from, for the user; and the one whose numbers the child's plans have,
 * which may be farther up.
 */
struct target *forked_from(struct session *session, const struct target *child);
struct target *forked_origin(struct session *session, const struct target *child);
/* Take a PLANS. */
int forked_plans(struct target *target, const struct calltap_msg_plans *message, uint32_t size)
	__attribute__((warn_unused_result));
/* A forked child has its parent's objects, patched as it has told. */
int forked_inherit(struct target *target, const struct target *parent) __attribute__((warn_unused_result));
/* After SETUP: forked_go_on() gives the child what it lacks, and GO. */
void forked_begin(struct target *target);
/* The agent has answered a plan that no report led to. */
void forked_answered(struct session *session, const struct target *target);
/* The agent was away and is back; what it was sent then is lost. */
void forked_is_back(struct target *target);
/* forked_steps.c: the server thread is in the midst of nothing else, and children that are behind are given what they
 * lack. */
void forked_go_on(struct session *session);
/* A change is made: children that called in meanwhile may lack a part of it.  On any thread. */
void forked_turn_ends(struct session *session);
/* True while some child does not have yet all that the session has changed. */
bool forked_any_behind(const struct session *session);

/* plan.c: what a report of objects leads to */
int plan_report(struct session *session, struct target *target) __attribute__((warn_unused_result));
/* Send the plan of an object of the process, or of another variant of the object at that place in target->maps. */
int plan_send(struct session *session, struct target *target, struct target_map *map, enum calltap_plan_live live)
	__attribute__((warn_unused_result));
int plan_send_variant(struct session *session, struct target *target, uint32_t map, uint32_t variant)
	__attribute__((warn_unused_result));
/* A map of an addition at the place of target->maps[map]; its plan is to be sent later. */
int plan_add_later(struct target *target, uint32_t map, struct image *addition) __attribute__((warn_unused_result));
/* Send the plan of a map while the target runs: it waits for APPLY. */
int plan_send_later(struct session *session, struct target *target, struct target_map *map, const struct space *space)
	__attribute__((warn_unused_result));

#define PLAN_MOVES 16u /* places that are tried for an object's blocks */
/* Something else had come to the place of the object's blocks: choose another one and send the plan again. */
int plan_send_elsewhere(struct session *session, struct target *target, struct target_map *map)
	__attribute__((warn_unused_result));
/* place.c: a free place for the blocks of an object; 0 = there is none. */
uint64_t place_blocks_near(const struct target *target, const struct target_map *map, const struct space *space);

/* The agent has left the function alone, as its bytes were not the file's: note its name for the summary. */
void plan_note_failed(struct session *session, uint32_t id);
/* Write the map to the files of all instances. */
int plan_write_map(struct session *session, struct target *target, const struct target_map *map)
	__attribute__((warn_unused_result));

/* perfmap.c: name the stubs of an object of the process, if that is wanted. */
void perfmap_add(struct session *session, struct target *target, const struct target_map *map);
void perfmap_add_all(struct session *session, struct target *target);

/* channel.c */
int channel_send(int socket, const void *message, size_t size, const int *fds, unsigned fd_count)
	__attribute__((warn_unused_result));
int channel_receive(int socket, void *message, size_t size) __attribute__((warn_unused_result)); /* bytes or -errno */

/* timing.c: what the targets' clock shows; ticks are 0 as long as that is not known. */
struct calltap_file_clock timing_now(const struct session *session);
double timing_rate(const struct session *session); /* ticks in a nanosecond, 0 = not known */
/* A time in ticks; in those of the tool's own clock while the rate of the targets' is not known.  Takes a moment. */
uint64_t timing_ticks(const struct session *session, uint64_t ns);
/* Take what a HELLO says of the clock. */
void timing_greet(struct session *session, const struct calltap_msg_hello *hello);
/* Ask a target for a sample of its clock, if it has answered the last question; take its answer. */
int timing_ask(struct target *target) __attribute__((warn_unused_result));
int timing_told(struct session *session, struct target *target, const struct calltap_msg_clock_told *told)
	__attribute__((warn_unused_result));
/* Is the rate of the clock too vague yet to tell the target a threshold? */
bool timing_is_vague(const struct session *session, const struct target *target);
/* Write a sample of the clock to the files, if one is due. */
void timing_tick(struct session *session, uint64_t now_ns);

/*
 * unread.c: the file of a mapping of this process cannot be opened (space_open()); of each object it is told once.
 * False: the mapping is not of an object whose file is gone.
 */
struct map;
bool unread_note(struct session *session, pid_t pid, const struct space *space, const struct map *map, int error);
void unread_clear(struct session *session);

/* verify.c: compare the process' text with its files; the result's `verified` and `differing` tell. */
void verify_text(struct session *session, const struct target *target);

/*
 * additions.c: functions that are chosen while targets run, and that no plan has yet.  Decide on them, after filters,
 * handlers or instances have changed.
 */
int additions_decide(struct session *session) __attribute__((warn_unused_result));
/* Only look at the files of libraries that are named now, and were not; with the turn. */
int additions_look(struct session *session) __attribute__((warn_unused_result));
/*
 * Have them patched in all targets, whose threads are stopped for it; with the turn (live_turn_begin()).  -ETIMEDOUT:
 * not everywhere, or not yet; session.steering.unpatched says which.
 */
int additions_carry_out(struct session *session) __attribute__((warn_unused_result));
/* Can the target's threads be stopped to have sites written, now or as soon as it has begun? */
bool additions_can_stop(const struct session *session, const struct target *target);
/* Maps for functions that were chosen since the target's objects were reported. */
int additions_add_maps(struct target *target) __attribute__((warn_unused_result));
/* The server thread's part: stop the targets that wait for it. */
void additions_go_on(struct session *session);

/* attached.c: a process that ran already; steps of the conversation that others do not have. */
struct found;
/* Where the agent's code is mapped, 0 = nowhere. */
uint64_t attached_agent_of(pid_t pid);
/* Check if there is anything to trace in the process, and if it can be attached to, before anything is touched. */
int attached_check(struct session *session, pid_t pid, struct found *found, struct calltap_diag *diag)
	__attribute__((warn_unused_result));
/* Put the agent in; it calls in at the session's socket by itself. */
int attached_begin(struct session *session, struct attachee *attachee, struct calltap_diag *diag)
	__attribute__((warn_unused_result));
/* Tell the agent the pointers of an object of that process, whose file is open. */
int attached_pointers(const struct target *target, int fd, const struct calltap_msg_object *object)
	__attribute__((warn_unused_result));
/* All plans are prepared: stop the threads, have the sites written, let them go on. */
int attached_apply(struct session *session, struct target *target) __attribute__((warn_unused_result));
/* The same for functions that were chosen later, in a target that runs; not 0: the conversation is over. */
int attached_apply_later(struct session *session, struct target *target) __attribute__((warn_unused_result));
/*
 * The text is restored: stop the threads, have the agent let go of everything, let them go on.  Of a process that was
 * attached to, and of a child that was forked from one.
 */
void attached_release(struct session *session, struct target *target);
/* The agent has leftovers of a session that no release ended: only the stops and questions of a release. */
int attached_let_go(struct session *session, struct target *target) __attribute__((warn_unused_result));
/* Wait until the calls that were open at the attach are in the file. */
void attached_stacks_wait(struct session *session);

/* apply.c: what is recorded is decided by these settings from now on. */
void apply_take(struct session *session, const struct settings *settings);
/*
 * Carry out what is decided now in all targets; with the turn (live_turn_begin()).  -ETIMEDOUT: not all have answered,
 * and they do it as soon as they go on; any other error: nothing was changed.
 */
int apply_all(struct session *session, struct calltap_diag *diag) __attribute__((warn_unused_result));
/* Decide on all functions, and carry nothing out: for rows of values, which are written then. */
void apply_judge(struct session *session);
/* apply_all() by other settings of the first instance, limits among them. */
int apply_settings(struct session *session, const struct settings *next, struct calltap_diag *diag)
	__attribute__((warn_unused_result));

#endif
