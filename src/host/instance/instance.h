/*
 * An instance: one recording of a session's targets, with a tracer, filters,
 * limits, buffers and a trace file of its own (the kernel's trace_array).
 *
 * A session has any of them at the places 0 .. CALLTAP_INSTANCES - 1; the one
 * that `calltap record` or `attach` begins with is at place 0.  In each target
 * that it records an instance has a share: rings, in which the target's threads
 * write, and what of them is in the file.
 *
 * Context: host, under the session's lock.
 */
#ifndef HOST_INSTANCE_INSTANCE_H
#define HOST_INSTANCE_INSTANCE_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <calltap/abi/file.h>
#include <calltap/abi/ring.h>
#include <host/hook/profile.h>
#include <host/session/record.h>
#include <host/trace/memory.h>
#include <host/trace/writer.h>

#include "peek.h"
#include "settings.h"

struct target;
struct marks;
struct record_encoder;
struct session;
struct target_map;

/* A thread of a target, for the file's table of threads. */
struct target_thread {
	struct calltap_file_thread row;
	uint64_t next_number; /* number of the thread's next DATA chunk */
	uint32_t owner;	      /* struct calltap_ring.owner of the thread's rings, without CALLTAP_OWNER_MOVED */
	bool dirty;	      /* the row differs from what the file has */
};

/* The tool's side of a ring. */
struct ring_reader {
	uint64_t drained;    /* sub-buffers below this are in the file */
	uint32_t owner;	     /* struct calltap_ring.owner that `thread` stands for */
	uint32_t thread;     /* index in instance->threads, UINT32_MAX = none */
	uint64_t lost_told;  /* part of struct calltap_ring.lost that LOST records have told */
	uint64_t lost_ahead; /* of the rest, what the thread's row has already */
	uint64_t wait_told;  /* part of struct calltap_ring.wait_ticks that WAIT records have told */
	/* With record_options.follow: how far the open sub-buffer is in the file. */
	uint64_t part_number; /* the sub-buffer's number */
	uint64_t part_ticks;  /* time of the last record that was taken */
	uint32_t part_words;  /* words that were taken */
	uint32_t gone; /* of a flight recorder: the ring's state, once its thread has ended while the process runs on */
	struct brief_calls *calls; /* brief/brief.h; NULL = none */
	struct peek_ring look;	   /* of a flight recorder */
	struct peek_pace pace;	   /* of a ring that is drained */
};

struct target_arena {
	struct calltap_arena *arena; /* shared with the target: trust nothing */
	size_t size;
	uint32_t ring_count;
	uint64_t ring_stride;
	uint32_t sub_size, sub_count;
	bool retired; /* the rings have a size that is not wanted now */
	uint32_t starved_seen;
	uint32_t request_seen;
	struct ring_reader *rings;
	int fd;	       /* descriptor of the memory in mode CALLTAP_MODE_PROFILE; else -1 */
	uint32_t file; /* number of the file that the memory is (buffers.c); 0 = memory without a name */
};

static inline struct calltap_ring *ring_of(const struct target_arena *arena, uint32_t index)
{
	return (void *)((char *)arena->arena + CALLTAP_PAGE + index * arena->ring_stride);
}

/* Does a thread hold the ring with that state? */
static inline bool ring_is_claimed(uint32_t state)
{
	return state != CALLTAP_RING_FREE && state < CALLTAP_RING_OUT;
}

#define TARGET_ARENAS	     32
#define INSTANCE_FIRST_RINGS 16 /* rings that a target begins with; a forked child has fewer */

/* An instance's part in a target: rings there, and how far they are in the file. */
struct share {
	struct share *next; /* of the same instance */
	struct instance *instance;
	struct target *target;
	struct target_arena arenas[TARGET_ARENAS];
	uint32_t arena_count;	  /* 0: no arena yet, or all that will come is in the file */
	uint64_t untraced;	  /* untraced calls of the set when the target's first arena, which counts them, went */
	uint64_t untraced_before; /* untraced calls of the set when this instance began */
	uint32_t tables_told;	  /* struct trace_memory.generation of the tables that the target has */
	bool no_reserve;	  /* the target cannot have more rings, or only when it asks */
	bool refused;		  /* the target's agent has refused the instance */
};

/* The folder of --buffer-dir. */
struct buffers {
	int folder;	/* descriptor, -1 = the rings have no files */
	char *path;	/* NULL = the rings have no files */
	uint32_t count; /* files of arenas that were made */
};

struct instance {
	struct session *session;
	uint32_t set; /* the instance's place in the session, and its number in the targets */
	const char *name;
	const struct record_options *options; /* from the instance's start */
	struct settings settings;	      /* as they are now */
	struct filter_set *own_filters;	      /* filters of changed settings; NULL = options->filters are in use */
	struct record_result *result;
	char diagnosis[480]; /* the first thing to tell the user at the end, "" = none */
	bool ending;	     /* the instance ends: what its rings hold now is all that comes */
	int refused;	     /* -errno of a target's agent that has refused the instance; 0 = none has */

	uint32_t sub_size, sub_count; /* for rings that are made from now on; sub_size never changes */
	uint64_t threshold_ticks;
	struct share *shares; /* in all targets, also in those that have ended */
	uint32_t process_count;
	struct target_thread *threads;
	uint32_t thread_count, thread_room;

	struct trace_writer *writer;
	struct record_encoder *encoder;
	uint64_t began_real_ns; /* CLOCK_REALTIME */
	uint64_t overwritten;	/* sub-buffers that their writers took back before they were read */
	uint64_t holes;		/* slots that were taken and never written, or hold nonsense */

	/* For flight recorders (tables.c, snapshot.c). */
	pthread_mutex_t snapshot_lock; /* held by the thread that writes a snapshot; taken before session.lock */
	struct trace_memory tables;    /* the file without records; .tables = NULL in other modes */
	uint64_t tables_key;
	struct buffers buffers;
	uint32_t snapshots;
	struct brief *brief; /* with `--time adaptive`: which calls have no times; the session's, or its own */
	struct peek peek;    /* likewise */
	struct marks *marks; /* marks that `calltap mark` has made; NULL = none so far */

	/* For the tracer `profile` (profile.c). */
	struct profile_shape profile;
	struct profile_sums profile_ended; /* sums of targets that have ended */
};

/*
 * instance.c: make an instance without file and shares, with settings by its options.  options and result stay the
 * caller's and must last as long as the instance.
 */
void instance_init(struct instance *instance, struct session *session, uint32_t set,
		   const struct record_options *options, struct record_result *result);
/* Free all that the instance has.  Returns the first error of its file. */
int instance_clear(struct instance *instance);
/* Note the first thing that the user is to be told of the instance at its end. */
void instance_diagnose(struct instance *instance, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Make a share without rings in the target, and describe the process and its objects in the file. */
int instance_take(struct share **out, struct instance *instance, struct target *target)
	__attribute__((warn_unused_result));
/* Will nothing more come from the target for the instance than the rings hold? */
bool share_is_over(const struct share *share);
/* Write to the file that the target has the map's object, or has it no more. */
void instance_write_map(struct instance *instance, const struct target *target, const struct target_map *map);

/* arena.c: make a further arena of a share, with so many rings; *fd: descriptor of its memory, the caller's to close.
 */
int arena_add(struct share *share, uint32_t rings, int *fd) __attribute__((warn_unused_result));
/* keep: the arena's file, if it is one, stays. */
void arena_destroy(struct instance *instance, struct target_arena *arena, bool keep);

/* rings.c: how many calls got no place in the rings of that set, as the target has counted. */
uint64_t rings_counted(const struct target *target, uint32_t set);
/* How many of these have come since the share's instance began. */
uint64_t rings_untraced(const struct share *share);
/* The number of the process's threads, as the kernel lists them; more rather than fewer. */
uint32_t rings_threads(const struct target *target);
/*
 * How many rings of the wanted ones a process may have: fewer, or none, where its memory has a limit (ulimit -v, -d, a
 * cgroup), of which most of what is left is there for the program.  beside: bytes that come with them (rings_beside()).
 */
uint32_t rings_room(const struct instance *instance, struct target *target, uint32_t wanted, uint64_t beside);
/* True if the target's memory has a limit (ulimit -v, -d, a cgroup). */
bool rings_are_limited(const struct target *target);
/* How many sub-buffers such rings have: those of the instance, or fewer where a limit leaves little. */
uint32_t rings_subs(const struct instance *instance, struct target *target, uint32_t wanted);
/* Bytes of address space that values, handlers and --time adaptive take in a target beside its rings. */
uint64_t rings_beside(const struct session *session);
/* Give the target rings for that many threads, and a reserve, in advance.  -errno: the target cannot be told. */
int rings_prepare(struct share *share, uint32_t threads) __attribute__((warn_unused_result));
/* Give the target more rings, if a thread has asked or the reserve is low. */
int rings_supply(struct share *share) __attribute__((warn_unused_result));
/* The number of rings, claimed ones or free ones, in arenas that are retired or in those that are not. */
uint32_t rings_count(const struct share *share, bool retired, bool claimed);

/*
 * resize.c: give all targets rings of another size, while threads write to those that they have; only in modes that
 * lose nothing by it.  *bytes: the size that is wanted, and then the one that it is.  -errno: nothing was changed.
 */
int resize_rings(struct instance *instance, uint64_t *bytes) __attribute__((warn_unused_result));
/* Put back a ring in state CALLTAP_RING_OUT, to which nobody writes: it becomes free, or its memory is given back. */
void resize_put_back(const struct target_arena *arena, uint32_t index);
/* Take retired rings that are free out of use, once the target has others. */
void resize_collect(const struct share *share);
/* The index of a trace's thread that had another ring before; UINT32_MAX = none that is known. */
uint32_t resize_find_thread(const struct instance *instance, const struct target *target, uint32_t owner);

/*
 * pending.c: records in the share's rings that are not in the file; of a flight
 * recorder, all that were written since it was last emptied.
 */
uint64_t pending_records(const struct share *share);

/* threads.c */
int threads_add(struct instance *instance, const struct target *target, uint32_t tid, uint64_t ticks, uint32_t *index)
	__attribute__((warn_unused_result));
/* Name a thread as the kernel does, or better; true: that is new. */
bool threads_name_row(const struct session *session, const struct target *target, struct calltap_file_thread *row,
		      const char *kernel_name);
void threads_name(const struct session *session, const struct target *target, struct target_thread *thread,
		  const char *kernel_name);
/* Threads rename themselves after their first call: the kernel knows the name of one that lives. */
int threads_kernel_name(const struct target *target, uint32_t tid, char *name, size_t size)
	__attribute__((warn_unused_result));
void threads_refresh(const struct session *session, const struct target *target, struct target_thread *thread);
int threads_write(struct instance *instance, struct target_thread *thread) __attribute__((warn_unused_result));

/* tables.c: what a flight recorder keeps in memory beside its rings. */
/* Make the tables, in overwrite mode: call it once there is a writer and before anything is written. */
int tables_create(struct instance *instance) __attribute__((warn_unused_result));
void tables_destroy(struct instance *instance);
/* CALLTAP_SETUP_* for a target. */
uint32_t tables_flags(const struct instance *instance);
/* Send the tables to a target that has not got them, or only older ones. */
int tables_tell(struct share *share) __attribute__((warn_unused_result));

/* buffers.c: the files of --buffer-dir. */
int buffers_create(struct instance *instance, struct calltap_diag *diag) __attribute__((warn_unused_result));
int buffers_tables(const struct instance *instance); /* a new file for the tables; -1: they have none; or -errno */
int buffers_arena(struct instance *instance, struct target_arena *arena, int *fd, void **memory)
	__attribute__((warn_unused_result));
void buffers_forget(const struct instance *instance, const struct target_arena *arena);
void buffers_destroy(struct instance *instance, bool keep);

/* marks.c: write a mark into the trace, as of now; a flight recorder keeps it. */
int marks_write(struct instance *instance, const char *text, struct calltap_diag *diag)
	__attribute__((warn_unused_result));
/* Write the kept marks to the instance's file, at its end. */
int marks_write_kept(struct instance *instance) __attribute__((warn_unused_result));
/*
 * Write the kept marks from that time on to a snapshot, as threads with these numbers, which are counted up.  *records:
 * their number is added.
 */
int marks_copy(const struct instance *instance, struct trace_writer *writer, uint64_t from_ticks, uint32_t *next_thread,
	       uint64_t *records) __attribute__((warn_unused_result));

/* snapshot.c: write what the rings of a process that has ended hold to the instance's file. */
int snapshot_of_ended(struct share *share) __attribute__((warn_unused_result));

/* describe.c: INFO and tables at the start, and what is known only at the end. */
int describe_start(struct instance *instance) __attribute__((warn_unused_result));
/*
 * The agent of the process that was attached to has gone without being told to, and the process has not: another
 * program has taken its place.
 */
void describe_replaced(struct session *session);
/* Write what is known only at the end; takes the session's lock. */
int describe_end(struct instance *instance) __attribute__((warn_unused_result));
/* An announced object whose source lines the instance's file lacks, for the caller to write; NULL = there is none. */
struct image *describe_next_without_lines(struct instance *instance);
/* describe_end() for a snapshot: as far as it is known while the session goes on; takes the session's lock. */
int describe_snapshot(struct instance *instance, struct trace_writer *writer) __attribute__((warn_unused_result));

#endif
