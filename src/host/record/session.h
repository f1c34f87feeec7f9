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
#include <host/trace/writer.h>

#include "clock.h"
#include "emulator.h"
#include "images.h"
#include "record.h"

/* A thread of a target as long as it holds a ring; the table goes to the file. */
struct target_thread {
	struct calltap_file_thread row;
	uint64_t next_number; /* of its next DATA chunk */
	bool dirty;	      /* row differs from what the file has */
};

/* The tool's side of a ring. */
struct ring_reader {
	uint64_t drained;   /* sub-buffers below this are in the file */
	uint32_t owner;	    /* struct calltap_ring.owner that `thread` stands for */
	uint32_t thread;    /* index in session->threads, UINT32_MAX = none */
	uint64_t lost_told; /* of struct calltap_ring.lost: what LOST records have told */
	uint64_t wait_told; /* likewise of its wait_ticks */
};

struct target_arena {
	struct calltap_arena *arena; /* shared with the target: trust nothing */
	size_t size;
	uint32_t ring_count;
	uint64_t ring_stride;
	uint32_t starved_seen;
	uint32_t request_seen;
	struct ring_reader *rings;
};

#define TARGET_ARENAS 32

struct target_map {
	uint64_t base, dynamic;
	struct image *image;
	uint64_t region; /* its stub region in the target, 0 = none */
	bool mapped;	 /* in the last report */
};

struct process {
	struct process *next;
	int socket;
	uint64_t since_ns; /* of the connection, CLOCK_MONOTONIC */
	pid_t pid;	   /* as we see it */
	uint32_t index;
	uint64_t image_id;
	struct calltap_file_process row;
	char *exe; /* path of its program, NULL = not known */
	struct calltap_msg_hello hello;
	uint64_t asked_ns; /* when it was sent a CLOCK that it has not answered, 0 = it has */
	bool greeted, dormant;
	bool welcome;		/* SETUP was sent */
	bool foreign;		/* a program for another CPU than the session's: not traced */
	bool detaching;		/* DETACH was sent */
	bool executed;		/* another program in a sandbox, where the agent does not go */
	bool parted;		/* its agent said that it ends the conversation, or why */
	bool alone;		/* its agent has let go of the connection: `socket` is a pidfd */
	bool ended;		/* its connection is over; the drainer takes what is left */
	bool drained;		/* and has taken it; the arenas are gone */
	bool settled;		/* GO was sent, and no RESCAN since */
	bool perf_map;		/* its perf map is ours */
	bool other_ids;		/* in a pid namespace: its threads' ids are not ours, its rings its own affair */
	bool began;		/* GO was sent once */
	uint32_t plans_open;	/* PLANs without PLAN_DONE */
	uint32_t switches_open; /* SWITCHes without SWITCH_DONE */
	bool silent;		/* some of which were waited for in vain */
	struct calltap_msg_object **report; /* objects of the report that is coming in */
	uint32_t report_count;
	struct target_map *maps;
	uint32_t map_count;
	struct target_arena arenas[TARGET_ARENAS];
	uint32_t arena_count;
};

#define SESSION_SIGNALS 5 /* that the tool handles in its own way */

struct session {
	const struct record_options *options;
	struct record_result *result;
	pthread_mutex_t lock;
	pthread_cond_t answered; /* a SWITCH_DONE has come, or a target has ended */
	uint64_t switched, switch_failed;
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
	int command_fd;			       /* its pidfd */
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
	uint32_t sub_size, sub_count;
	uint64_t patch_ticks;
	uint64_t strays_until_ns; /* how long they are waited for, 0 = not yet */
	uint64_t overwritten;	  /* sub-buffers that their writers took back before they were read */
	uint64_t holes;		  /* slots that were taken and never written, or hold nonsense */
	bool dlopen_missed;	  /* in some process, what dlopen brings in is not seen */
	bool letting_go;	  /* the recording ends, whatever goes on */
	/* The drainer's. */
	pthread_t drainer;
	bool drainer_runs;
	bool output_taken; /* the file is ours: */
	bool older_kept;   /* and an older trace was put aside for it */
	bool stop;	   /* atomic: the drainer ends after one more round */
	struct record_encoder *encoder;
	char diagnosis[200]; /* first thing to tell the user at the end, "" = none */
};

/* session.c: note the first thing that the user is to be told at the end. */
void session_diagnose(struct session *session, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* process.c: the conversation with one target */
int process_create(struct process **out, struct session *session, int socket) __attribute__((warn_unused_result));
/* Read and answer one message; not 0: the conversation is over. */
int process_serve(struct session *session, struct process *process) __attribute__((warn_unused_result));
void process_destroy(struct process *process);
/* Write a process row to the file. */
int process_write(struct session *session, struct process *process) __attribute__((warn_unused_result));

/* plan.c: what a report of objects leads to */
int plan_report(struct session *session, struct process *process) __attribute__((warn_unused_result));

/* Say in the file that the process has this object mapped. */
int plan_write_map(struct session *session, struct process *process, const struct target_map *map)
	__attribute__((warn_unused_result));

/* perfmap.c: name the stubs of an object of the process, if that is wanted. */
void perfmap_add(struct session *session, struct process *process, const struct target_map *map);
void perfmap_add_all(struct session *session, struct process *process);

/* live.c: let others change this session, until live_detach(). */
void live_attach(struct session *session);
void live_detach(struct session *session);
/* Switch off in an object that was just patched what is switched off in the session. */
int live_apply(struct process *process, const struct target_map *map) __attribute__((warn_unused_result));
/* Likewise in all objects of a forked child, whose text is its parent's of some time ago. */
int live_apply_all(struct process *process) __attribute__((warn_unused_result));
int live_answer(struct session *session, struct process *process, const struct calltap_msg_switch_done *done)
	__attribute__((warn_unused_result));

/* arena.c */
int arena_add(struct session *session, struct process *process, uint32_t rings, int *fd)
	__attribute__((warn_unused_result));
void arena_destroy(struct target_arena *arena);
int board_create(struct session *session) __attribute__((warn_unused_result));

/* drain.c */
int drain_start(struct session *session) __attribute__((warn_unused_result));
void drain_stop(struct session *session);
void drain_wake(struct session *session);

/* channel.c */
int channel_send(int socket, const void *message, size_t size, const int *fds, unsigned fd_count)
	__attribute__((warn_unused_result));
int channel_receive(int socket, void *message, size_t size) __attribute__((warn_unused_result)); /* bytes or -errno */

/* timing.c: what the targets' clock shows; ticks are 0 as long as that is not known. */
struct calltap_file_clock timing_now(const struct session *session);
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

/* signals.c */
void signals_take(struct session *session);
void signals_give_back(const struct session *session); /* in the command, before exec */
bool signals_ask_end(void);			       /* the command is to end */
bool signals_insist(void);			       /* so is the recording, whatever goes on */

/* spawn.c */
int spawn_command(struct session *session, struct calltap_diag *diag) __attribute__((warn_unused_result));

/* progress.c */
void progress_show(struct session *session, bool last);

#endif
