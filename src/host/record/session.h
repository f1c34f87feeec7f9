/*
 * A recording session's inside: shared by the files of this room only.
 *
 * Two threads: the server (session.c: sockets, plans, the command's end) and
 * the drainer (drain.c: rings to file).  `lock` guards everything here but
 * what is marked; the drainer gives it up between processes.
 */
#ifndef HOST_RECORD_SESSION_H
#define HOST_RECORD_SESSION_H

#include <pthread.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/types.h>

#include <calltap/abi/control.h>
#include <calltap/abi/file.h>
#include <calltap/abi/ring.h>
#include <host/trace/memory.h>
#include <host/trace/writer.h>

#include "clock.h"
#include "emulator.h"
#include "images.h"
#include "profile.h"
#include "record.h"
#include "settings.h"

/* A thread of a target as long as it holds a ring; the table goes to the file. */
struct target_thread {
	struct calltap_file_thread row;
	uint64_t next_number; /* of its next DATA chunk */
	uint32_t owner;	      /* struct calltap_ring.owner of its rings, without CALLTAP_OWNER_MOVED */
	bool dirty;	      /* row differs from what the file has */
};

/* The tool's side of a ring. */
struct ring_reader {
	uint64_t drained;   /* sub-buffers below this are in the file */
	uint32_t owner;	    /* struct calltap_ring.owner that `thread` stands for */
	uint32_t thread;    /* index in session->threads, UINT32_MAX = none */
	uint64_t lost_told; /* of struct calltap_ring.lost: what LOST records have told */
	uint64_t wait_told; /* likewise of its wait_ticks */
	/* Of an open sub-buffer, what is in the file already (record_options.follow). */
	uint64_t part_number;
	uint64_t part_ticks;
	uint32_t part_words;
};

struct target_arena {
	struct calltap_arena *arena; /* shared with the target: trust nothing */
	size_t size;
	uint32_t ring_count;
	uint64_t ring_stride;
	uint32_t sub_size, sub_count;
	bool retired; /* its rings are of a size that is not wanted now */
	uint32_t starved_seen;
	uint32_t request_seen;
	struct ring_reader *rings;
	int fd;	       /* of the memory, in mode CALLTAP_MODE_PROFILE; else -1 */
	uint32_t file; /* its number, when it has a name (buffers.c); else 0 */
};

static inline struct calltap_ring *ring_of(const struct target_arena *arena, uint32_t index)
{
	return (void *)((char *)arena->arena + CALLTAP_PAGE + index * arena->ring_stride);
}

/* By its word in the arena's head: it is a thread's. */
static inline bool ring_is_claimed(uint32_t state)
{
	return state != CALLTAP_RING_FREE && state < CALLTAP_RING_OUT;
}

#define TARGET_ARENAS 32

struct target_map {
	uint64_t base, dynamic, identity; /* as in OBJECT */
	struct image *image;
	uint64_t region;     /* its stub region in the target, 0 = none */
	uint32_t variant;    /* of the image: which stubs those are */
	uint32_t generation; /* of what its plan said is on (images.h) */
	bool stubs;	     /* another map has the sites that come here (CALLTAP_PLAN_STUBS) */
	bool mapped;	     /* in the last report */
};

struct process {
	struct process *next;
	const struct process *of; /* of an instance: the session's entry, which this one follows; else NULL */
	int socket;
	uint64_t since_ns; /* of the connection, CLOCK_MONOTONIC */
	uint64_t heard_ns; /* when it said something last */
	pid_t pid;	   /* as we see it */
	uint32_t index;
	uint64_t image_id;
	struct calltap_file_process row;
	char *exe;	   /* path of its program, NULL = not known */
	uint64_t asked_ns; /* when it was sent a CLOCK that it has not answered, 0 = it has */
	bool greeted, dormant;
	bool welcome;		  /* SETUP was sent */
	bool foreign;		  /* a program for another CPU than the session's: not traced */
	bool detaching;		  /* DETACH was sent */
	bool executed;		  /* another program in a sandbox, where the agent does not go */
	bool parted;		  /* its agent said that it ends the conversation, or why */
	bool alone;		  /* its agent has let go of the connection: `socket` is a pidfd */
	bool ended;		  /* its connection is over; the drainer takes what is left */
	bool drained;		  /* and has taken it; the arenas are gone */
	bool settled;		  /* GO was sent, and no RESCAN since */
	bool perf_map;		  /* its perf map is ours */
	bool other_ids;		  /* in a pid namespace: its threads' ids are not ours, its rings its own affair */
	bool began;		  /* GO was sent once */
	bool attached;		  /* the agent came into it while it ran */
	bool applied;		  /* and its sites are written; objects that come later are held as ever */
	bool released;		  /* and it has let go of everything */
	bool littered;		  /* what brought an agent in still lies behind its code */
	uint32_t given_up_before; /* tries to stop all, before what is being done with it now */
	uint32_t plans_open;	  /* PLANs without PLAN_DONE, but: */
	uint32_t stubs_open;	  /* those of CALLTAP_PLAN_STUBS */
	uint32_t switches_open;	  /* SWITCHes without SWITCH_DONE */
	uint32_t handlers_open;	  /* HANDLERS and HANDLERS_WAITs without HANDLERS_DONE */
	int handlers_error;	  /* of the last one */
	bool handlers_told;	  /* it has the table of rows */
	uint64_t handlers_at;	  /* address of its own handlers that it was told, 0 = none */
	uint32_t instances_open;  /* INSTANCEs without INSTANCE_DONE */
	uint32_t tables_told;	  /* struct trace_memory.generation of the tables that it has */
	struct calltap_msg_objects_end told; /* with the last report */
	bool moved;			     /* the last report was not of what is mapped */
	uint32_t stale;			    /* how often it had mapped others than its plans were for when APPLY came */
	bool silent;			    /* some of which were waited for in vain */
	struct calltap_msg_object **report; /* objects of the report that is coming in */
	uint32_t report_count;
	struct target_map *maps;
	uint32_t map_count;
	struct target_arena arenas[TARGET_ARENAS];
	uint32_t arena_count;
	uint64_t untraced[CALLTAP_INSTANCES]; /* by set: calls that it had counted when its arenas went */
	uint64_t untraced_before;	      /* of an instance: what its set had counted when it began */
	bool no_reserve;		      /* it can have no more rings, or not unasked */
	struct calltap_msg_hello hello;	      /* last: its type ends with a path, which `exe` has */
};

#define CALIBRATE_MS	5 /* to know the rate of our own counter */
#define SESSION_SIGNALS 5 /* that the tool handles in its own way */

struct remote;
struct unread;
struct family;

struct session {
	const struct record_options *options;
	struct record_result *result;
	pthread_mutex_t lock;	 /* by session_lock() */
	pthread_mutex_t next;	 /* held by who gets it next */
	pthread_cond_t answered; /* a SWITCH_DONE has come, or a target has ended */
	struct family *family;	 /* attached: processes as they were then; a command's: those that are not followed */
	uint64_t family_look_ns; /* when they are looked for again */
	uint64_t family_gap_ns;
	uint32_t family_seen;  /* process_count then */
	struct unread *unread; /* objects whose files cannot be read */
	uint64_t switched, switch_failed;
	bool steering; /* somebody changes what is recorded, and waits for answers */
	struct trace_writer *writer;
	struct images images;
	struct process *processes; /* all there were */
	uint32_t process_count, thread_count, thread_room;
	struct target_thread *threads;
	struct calltap_board *board; /* shared */
	int board_fd;
	int listener, epoll;
	int drained_fd;			       /* eventfd: the drainer has finished a process */
	char name[64];			       /* of the socket */
	uint64_t key;			       /* that a HELLO must bring */
	int spare_fd;			       /* given up when there is no other to take a target in with */
	struct rlimit files;		       /* the limit that the command gets back */
	struct sigaction old[SESSION_SIGNALS]; /* and the dispositions of signals (signals.c) */
	pid_t command;			       /* the command's pid, 0 = reaped */
	int ending_fd; /* pidfd of the command, or of a process that was attached to and whose agent is awaited */
	/* The programs that are recorded, and their clock (timing.c). */
	const struct machine *machine;
	char *program; /* path of the command's file */
	char *agent;   /* of the agent for that machine; NULL: the command is no program that we can read */
	struct emulator emulator;
	bool emulated;		/* their counter is not ours to read */
	struct clock_line line; /* what they tell of it */
	uint32_t clock_cost;	/* struct calltap_msg_hello.clock_cost of the first */
	uint64_t began_ns, next_sample_ns, sample_step_ns;
	uint64_t threshold_ticks;
	uint32_t sub_size, sub_count; /* of rings from now on; the first is the same for all of the session */
	uint64_t patch_ticks;
	uint64_t strays_until_ns; /* how long they are waited for, 0 = not yet */
	uint64_t overwritten;	  /* sub-buffers that their writers took back before they were read */
	uint64_t holes;		  /* slots that were taken and never written, or hold nonsense */
	bool dlopen_missed;	  /* in some process, what dlopen brings in is not seen */
	bool letting_go;	  /* the recording ends, whatever goes on */
	uint32_t end_asked;	  /* atomic: how often it was asked to end */
	uint64_t traced_ns;	  /* when the first process was told to go on; 0 = not yet */
	uint64_t awaited_ns;	  /* until when the agent of an attached process may call in, 0 = it need not */
	/* A flight recorder's (tables.c, snapshot.c); without locks of their own but this: */
	pthread_mutex_t snapshot_lock; /* of who writes one; taken before the session's */
	struct trace_memory tables;    /* the file without records; .tables = NULL in other modes */
	uint64_t tables_key;
	int buffers; /* folder of their files (--buffer-dir), or -1 */
	char *buffers_path;
	uint32_t buffers_count;
	uint32_t snapshots;
	/* Of the tracer `profile` (profile.c). */
	struct profile_shape profile;
	struct profile_sums profile_ended; /* of processes that have ended */
	/* The drainer's. */
	pthread_t drainer;
	bool drainer_runs;
	pthread_t teller; /* attached_stacks.c */
	bool teller_runs;
	bool output_taken; /* the file is ours: */
	bool older_kept;   /* and an older trace was put aside for it */
	bool stop;	   /* atomic: the drainer ends after one more round */
	struct record_encoder *encoder;
	struct remote *remote;		/* where other processes ask, or NULL */
	struct settings settings;	/* as they are now */
	struct filter_set *own_filters; /* of settings that were changed; NULL = options->filters are in use */
	uint64_t began_real_ns;
	char diagnosis[200]; /* first thing to tell the user at the end, "" = none */
	/*
	 * Further instances (instances.c): each is a session of its own for the drainer and for what is
	 * written, with entries that follow those of this one, and under the lock of this one.
	 */
	struct session *owner; /* of an instance: the session that it is part of; else NULL */
	struct session *instances[CALLTAP_INSTANCES - 1];
	struct session *draining; /* the instance that the drainer is at, or NULL */
	uint32_t set;		  /* of an instance: its rings in the targets; 0 = it is none */
	const char *instance_name;
	bool ending;		  /* of an instance: it takes no more part */
	int refused;		  /* likewise: -errno, why a process would not have it; 0 = each has it */
	uint32_t instances_ended; /* with the session, not before it */
};

static inline struct session *session_root(struct session *session)
{
	return session->owner ? session->owner : session;
}

/*
 * A mutex alone goes to whoever asks first once it is free, and that is the drainer, which has just let go of it:
 * steering and the server's turn would wait as long as there are records.  Who waits for it holds `next`, so the
 * drainer comes behind.
 */
static inline void session_lock(struct session *session)
{
	struct session *root = session_root(session);

	pthread_mutex_lock(&root->next);
	pthread_mutex_lock(&root->lock);
	pthread_mutex_unlock(&root->next);
}

static inline void session_unlock(struct session *session)
{
	pthread_mutex_unlock(&session_root(session)->lock);
}

/* session_base.c: how large the rings are, by the options. */
void session_shape_rings(struct session *session);
/* End the recording soon; for any thread, without the lock. */
void session_end(struct session *session);
/* Have the server thread see when there is something to read; what: what session_handle() knows it by. */
int session_watch(struct session *session, int fd, void *what) __attribute__((warn_unused_result));
/* Note the first thing that the user is to be told at the end. */
void session_diagnose(struct session *session, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* loop.c: serve until the command and everything traced have ended, or the user insists (a second ^C). */
void session_serve(struct session *session);
/* Something is to be read at what session_watch() was told. */
void session_handle(struct session *session, void *what);
/* Do not watch the end of the command, or of the process, any more. */
void session_forget_ending(struct session *session);

/* targets.c: take in who connects; end a connection; end those who say nothing. */
void targets_accept(struct session *session);
void targets_end(struct session *session, struct process *process);
/* To be called before the tool ends a connection: its agent leaves the rings as they are. */
void targets_read_on(const struct process *process);
void targets_end_silent(struct session *session);
/* The recording ends: processes that run on get their text back; who does not answer in time does so by himself. */
void targets_let_go(struct session *session);

/* process.c: the conversation with one target */
int process_create(struct process **out, struct session *session, int socket) __attribute__((warn_unused_result));
/* Read and answer one message; not 0: the conversation is over. */
int process_serve(struct session *session, struct process *process) __attribute__((warn_unused_result));
void process_destroy(struct session *session, struct process *process);
/* Tell the user of an agent's complaint. */
void process_tell_fault(struct session *session, const struct process *process, const struct calltap_msg_fault *fault);
/* Write a process row to the file. */
int process_write(struct session *session, struct process *process) __attribute__((warn_unused_result));

/* plan.c: what a report of objects leads to */
int plan_report(struct session *session, struct process *process) __attribute__((warn_unused_result));
/* Send the plan of an object of the process, or of another variant of the object at that place in process->maps. */
int plan_send(struct session *session, struct process *process, struct target_map *map, enum calltap_plan_live live)
	__attribute__((warn_unused_result));
int plan_send_variant(struct session *session, struct process *process, uint32_t map, uint32_t variant)
	__attribute__((warn_unused_result));

/* attached.c: a process that ran already; steps of the conversation that others do not have. */
/* Is there anything to trace in it, and will it let us in?  Before anything is touched. */
int attached_check(struct session *session, struct calltap_diag *diag) __attribute__((warn_unused_result));
/* Put the agent in; it calls in at the session's socket by itself. */
int attached_begin(struct session *session, struct calltap_diag *diag) __attribute__((warn_unused_result));
/* True until the sites of what is mapped at the attach are written. */
bool attached_is_open(const struct process *process);
/* Tell the agent the pointers of an object of that process, whose file is open. */
int attached_pointers(const struct process *process, int fd, const struct calltap_msg_object *object)
	__attribute__((warn_unused_result));
/* All plans are prepared: stop the threads, have the sites written, let them go on. */
int attached_apply(struct session *session, struct process *process) __attribute__((warn_unused_result));
/* The text is restored: stop the threads, have the agent let go of everything, let them go on. */
void attached_release(struct session *session, struct process *process);
/* The agent has leftovers of a session that no release ended: only the stops and questions of a release. */
int attached_let_go(struct session *session, struct process *process) __attribute__((warn_unused_result));
/* Until what was open at the attach is in the file. */
void attached_stacks_wait(struct session *session);

/* steer.c: what other processes ask of the session (host/remote); without it there is none of that. */
/* What is recorded is decided by these from now on. */
void steer_take(struct session *session, const struct settings *settings);
/* Tracing on or off, as `calltap set` has it; by a thread that holds no lock. */
void steer_tracing(struct session *session, bool on);
/*
 * Carry out what is decided now in all processes; with the turn
 * (live_turn_begin()).  -ETIMEDOUT: not all have answered, and it is theirs as
 * soon as they go on; any other error: nothing was changed.
 */
int steer_apply(struct session *session, struct calltap_diag *diag) __attribute__((warn_unused_result));
int steer_begin(struct session *session, pid_t pid, struct calltap_diag *diag) __attribute__((warn_unused_result));
void steer_end(struct session *session);

/* family.c: relatives of the session's processes that it does not follow; the result's `children`, `strangers` tell. */
void family_begin(struct session *session);
void family_end(struct session *session);
/* Little was recorded of the process that was attached to: others may do its work. */
void family_hint(struct session *session);
/* Now and then, without the lock; for how long to wait for other things meanwhile. */
void family_look(struct session *session);
int family_due_ms(const struct session *session, int at_most) __attribute__((warn_unused_result));

/* unread.c: the file of a mapping of this process cannot be opened (space_open()); of each object it is told once. */
struct map;
struct space;
void unread_note(struct session *session, pid_t pid, const struct space *space, const struct map *map, int error);
/* The object that could not be read by the sentence that says so; false: all could be. */
bool unread_diag(const struct session *session, struct calltap_diag *diag);
void unread_clear(struct session *session);

/* verify.c: compare the process' text with its files; the result's `verified` and `differing` tell. */
void verify_text(struct session *session, const struct process *process);

/* The function was left alone, as its bytes were not the file's: its name is told at the end. */
void plan_note_failed(struct session *session, uint32_t id);
/* A row of the file: the map's object lies there from then on, or has gone (mapped). */
struct calltap_file_map plan_map_row(const struct process *process, const struct target_map *map, uint64_t ticks);
/* Say so in the file, and in those of the instances. */
int plan_write_map(struct session *session, struct process *process, const struct target_map *map)
	__attribute__((warn_unused_result));

/* perfmap.c: name the stubs of an object of the process, if that is wanted. */
void perfmap_add(struct session *session, struct process *process, const struct target_map *map);
void perfmap_add_all(struct session *session, struct process *process);

/* live.c: let others change this session, until live_detach(). */
void live_attach(struct session *session);
void live_detach(struct session *session);
bool live_can_be_told(const struct process *process);
/* Switch the chosen sites of one image in all processes that have it; -ETIMEDOUT: somebody did not answer. */
int live_switch_image(struct session *session, struct image *image, bool on, const bool *chosen)
	__attribute__((warn_unused_result));
/*
 * Between these one thread changes what is recorded, and may give up the lock
 * to wait for answers.  -EAGAIN: a process is being attached to, and that takes
 * long.  Not for the server thread.
 */
int live_turn_begin(struct session *session) __attribute__((warn_unused_result));
void live_turn_end(struct session *session);
/* Until all have answered what was sent; not for the server thread. */
int live_wait(struct session *session) __attribute__((warn_unused_result));
/* What the process owes of these will not come any more, or by another connection. */
void live_forgive(struct session *session, struct process *process);
/* For other threads: the session, locked, until live_leave(); NULL = nothing is being recorded, and nothing is held. */
struct session *live_enter(struct record_live *live);
void live_leave(struct record_live *live, struct session *session);
/* Make an object's sites what they are to be now; nothing where other stubs than the map's are in use. */
int live_catch_up(struct process *process, const struct target_map *map) __attribute__((warn_unused_result));
/* Switch in an object that was just patched what has been switched in the session since its plan was sent. */
int live_apply(const struct session *session, struct process *process, const struct target_map *map)
	__attribute__((warn_unused_result));
/* Likewise in all objects of a forked child, whose text is its parent's of some time ago. */
int live_apply_all(const struct session *session, struct process *process) __attribute__((warn_unused_result));
int live_answer(struct session *session, struct process *process, const struct calltap_msg_switch_done *done)
	__attribute__((warn_unused_result));

/* arena.c */
int arena_add(struct session *session, struct process *process, uint32_t rings, int *fd)
	__attribute__((warn_unused_result));
/* keep: its file, if it is one, stays. */
void arena_destroy(struct session *session, struct target_arena *arena, bool keep);
int board_create(struct session *session) __attribute__((warn_unused_result));
/* A memfd that neither side can shrink or grow, and where it is mapped; -errno: there is neither. */
int arena_sealed(const char *name, size_t size, int *fd, void **memory) __attribute__((warn_unused_result));

/* rings.c: what the process has counted: calls that got no place in the rings of that set. */
uint64_t rings_counted(const struct process *process, uint32_t set);
/*
 * The calls of the process that got no place in the session's rings.  A further instance's are counted in the arena of
 * the session that it is beside.
 */
uint64_t rings_untraced(const struct session *session, const struct process *process);
/* Threads of it as the kernel lists them; more rather than fewer. */
uint32_t rings_threads(const struct process *process);
/* Rings for that many threads, and a reserve, before the first of them is wanted.  -errno: it cannot be told. */
int rings_prepare(struct session *session, struct process *process, uint32_t threads)
	__attribute__((warn_unused_result));
/* More, once a thread has asked or the reserve is low. */
int rings_supply(struct session *session, struct process *process) __attribute__((warn_unused_result));
/* The number of rings, claimed ones or free ones, in arenas that are retired or in those that are not. */
uint32_t rings_count(const struct process *process, bool retired, bool claimed);

/* resize.c: rings of another size, while threads write to those they have; only in modes that lose nothing by it. */
/* For all processes; bytes becomes what it is.  -errno: nothing was changed. */
int resize_rings(struct session *session, uint64_t *bytes) __attribute__((warn_unused_result));
/* A ring that nobody writes to, in state CALLTAP_RING_OUT: it is free, or its memory is given back. */
void resize_put_back(const struct target_arena *arena, uint32_t index);
/* Retired rings that are free are taken out of use, once the process has others. */
void resize_collect(const struct process *process);
/* What a trace's thread is that had another ring before; UINT32_MAX = it is none that is known. */
uint32_t resize_find_thread(const struct session *session, const struct process *process, uint32_t owner);

/* drain.c */
int drain_start(struct session *session) __attribute__((warn_unused_result));
/* Wait until all is written of the processes that have ended, with progress; who asks the session is answered. */
void drain_finish(struct session *session);
void drain_stop(struct session *session);
void drain_wake(struct session *session);

/*
 * pending.c: records in its rings that are not in the file; of a flight
 * recorder, all that were written since it was last emptied.
 */
uint64_t pending_records(const struct process *process, const struct record_options *options);

/* threads.c */
int threads_add(struct session *session, const struct process *process, uint32_t tid, uint64_t ticks, uint32_t *index)
	__attribute__((warn_unused_result));
/* Name a thread as the kernel does, or better; true: that is new. */
bool threads_name_row(const struct session *session, const struct process *process, struct calltap_file_thread *row,
		      const char *kernel_name);
void threads_name(const struct session *session, const struct process *process, struct target_thread *thread,
		  const char *kernel_name);
/* Threads rename themselves after their first call: the kernel knows the name of one that lives. */
int threads_kernel_name(const struct process *process, uint32_t tid, char *name, size_t size)
	__attribute__((warn_unused_result));
void threads_refresh(const struct session *session, const struct process *process, struct target_thread *thread);
int threads_write(struct session *session, struct target_thread *thread) __attribute__((warn_unused_result));

/* tables.c: what a flight recorder keeps in memory beside its rings. */
/* In overwrite mode, once the writer is there and before anything is written. */
int tables_create(struct session *session) __attribute__((warn_unused_result));
void tables_destroy(struct session *session);
/* CALLTAP_SETUP_* for a target. */
uint32_t tables_flags(const struct session *session);
/* Give them to a process that has none yet, or not those that have taken their place. */
int tables_tell(struct session *session, struct process *process) __attribute__((warn_unused_result));

/* buffers.c: the files of --buffer-dir. */
int buffers_create(struct session *session, struct calltap_diag *diag) __attribute__((warn_unused_result));
int buffers_tables(const struct session *session); /* a new file for the tables; -1: they have none; or -errno */
int buffers_arena(struct session *session, struct target_arena *arena, int *fd, void **memory)
	__attribute__((warn_unused_result));
void buffers_forget(const struct session *session, const struct target_arena *arena);
void buffers_destroy(struct session *session, bool keep);

/* snapshot.c: a process has ended; what its rings hold goes to the session's file. */
int snapshot_of_ended(struct session *session, struct process *process) __attribute__((warn_unused_result));

/* channel.c */
int channel_send(int socket, const void *message, size_t size, const int *fds, unsigned fd_count)
	__attribute__((warn_unused_result));
int channel_receive(int socket, void *message, size_t size) __attribute__((warn_unused_result)); /* bytes or -errno */

/* timing.c: what the targets' clock shows; ticks are 0 as long as that is not known. */
struct calltap_file_clock timing_now(const struct session *session);
double timing_rate(const struct session *session); /* ticks in a nanosecond, 0 = not known */
/* Take what a HELLO says of it. */
void timing_greet(struct session *session, const struct calltap_msg_hello *hello);
/* Ask a process, if it has answered before; take its answer. */
int timing_ask(struct process *process) __attribute__((warn_unused_result));
int timing_told(struct session *session, struct process *process, const struct calltap_msg_clock_told *told)
	__attribute__((warn_unused_result));
/* It has to be known better before a target can be told a threshold. */
bool timing_is_vague(const struct session *session, const struct process *process);
/* Now and then: a sample for the file. */
void timing_tick(struct session *session, uint64_t now_ns);

/* precheck.c: is there anything to trace, does every filter match?  Before the command runs. */
int precheck_command(struct session *session, struct calltap_diag *diag) __attribute__((warn_unused_result));

/* strays.c: note that a process whose agent is gone runs another program now, which is not traced. */
void strays_note_executed(struct session *session, struct process *process);
/* True while a process of the session may still call in, for the first time. */
bool strays_may_come(struct session *session) __attribute__((warn_unused_result));

/* describe.c: INFO and tables at the start, and what is known only at the end. */
int describe_start(struct session *session) __attribute__((warn_unused_result));
int describe_end(struct session *session) __attribute__((warn_unused_result));
/* An announced object whose source lines the session's file lacks, which are its caller's to write now; or NULL. */
struct image *describe_next_without_lines(struct session *session);
/* The latter as far as it is known while the session goes on; takes the lock. */
int describe_snapshot(struct session *session, struct trace_writer *writer) __attribute__((warn_unused_result));

/* signals.c */
void signals_take(struct session *session);
void signals_give_back(const struct session *session); /* in the command, before exec */
bool signals_ask_end(void);			       /* the command is to end */
bool signals_any(void);				       /* there was a signal that ends a recording of no command's */
bool signals_insist(void);			       /* so is the recording, whatever goes on */

/* spawn.c */
uint64_t spawn_filters(void); /* seccomp filters that the tool itself is under */
int spawn_command(struct session *session, struct calltap_diag *diag) __attribute__((warn_unused_result));

/* progress.c */
void progress_show(struct session *session, bool last);

#endif
