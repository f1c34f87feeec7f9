/*
 * A recording session's inside: shared by the files of this room only.
 *
 * Two threads: the server (session.c: sockets, plans, the command's end) and
 * the drainer (drain.c: rings to file).  `lock` guards everything here but
 * what is marked; the drainer holds it for one ring at a time.
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
	pid_t pid; /* as we see it */
	uint32_t index;
	uint64_t image_id;
	struct calltap_file_process row;
	char exe[4096];
	bool greeted, dormant;
	bool ended;			    /* its connection is over; the drainer takes what is left */
	bool drained;			    /* and has taken it; the arenas are gone */
	bool settled;			    /* GO was sent once */
	uint32_t plans_open;		    /* PLANs without PLAN_DONE */
	struct calltap_msg_object **report; /* objects of the report that is coming in */
	uint32_t report_count;
	struct target_map *maps;
	uint32_t map_count;
	struct target_arena arenas[TARGET_ARENAS];
	uint32_t arena_count;
};

struct session {
	const struct record_options *options;
	struct record_result *result;
	pthread_mutex_t lock;
	struct trace_writer *writer;
	struct images images;
	struct process *processes; /* all there were */
	uint32_t process_count, thread_count, thread_room;
	struct target_thread *threads;
	struct calltap_board *board; /* shared */
	int board_fd;
	int listener, epoll;
	int drained_fd;			    /* eventfd: the drainer has finished a process */
	char name[64];			    /* of the socket */
	struct rlimit files;		    /* the limit that the command gets back */
	struct sigaction old_int, old_quit; /* and the dispositions */
	pid_t command;			    /* the command's pid, 0 = reaped */
	int command_fd;			    /* its pidfd */
	uint64_t threshold_ticks;
	uint32_t sub_size, sub_count;
	uint64_t patch_ticks;
	uint64_t overwritten; /* sub-buffers that their writers took back before they were read */
	uint64_t holes;	      /* slots that were taken and never written, or hold nonsense */
	bool dlopen_missed;   /* in some process, what dlopen brings in is not seen */
	/* The drainer's. */
	pthread_t drainer;
	bool drainer_runs;
	bool stop; /* atomic: the drainer ends after one more round */
	struct record_encoder *encoder;
	char diagnosis[200]; /* first thing to tell the user at the end, "" = none */
};

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

/* clock.c */
struct calltap_file_clock clock_sample(void);
double clock_ticks_per_ns(unsigned calibrate_ms);

/* precheck.c: is there anything to trace, does every filter match?  Before the command runs. */
int precheck_command(struct session *session, struct calltap_diag *diag) __attribute__((warn_unused_result));

/* describe.c: INFO and tables at the start, and what is known only at the end. */
int describe_start(struct session *session) __attribute__((warn_unused_result));
int describe_end(struct session *session) __attribute__((warn_unused_result));

/* spawn.c */
int spawn_command(struct session *session, struct calltap_diag *diag) __attribute__((warn_unused_result));

/* progress.c */
void progress_show(struct session *session, bool last);

#endif
