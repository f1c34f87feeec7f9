/*
 * Coming into a process that runs, and holding its threads: the only code of the tool that uses ptrace.
 *
 * Any thread of the tool may call these functions: each operation has a tracer of its own behind it, which ends with
 * it.  Killing the tool at any instant lets the target's threads go on, with the registers and the signal mask that
 * they had. doc/design/attach.md.  Caller: record.  Context: host; the target chooses what the tool reads of it.
 */
#ifndef HOST_ATTACH_ATTACH_H
#define HOST_ATTACH_ATTACH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include <calltap/diag.h>

/* Check if the process can be attached to: 0, or the refusal in one sentence with its remedy. */
int attach_check(pid_t pid, struct calltap_diag *diag) __attribute__((warn_unused_result));

/*
 * A program that a process ran at some time: its file, and the end of the stack that it was given. known: both could be
 * read.
 */
struct attach_program {
	uint64_t device, inode, stack;
	bool known;
};
void attach_program_of(struct attach_program *program, pid_t pid);
/*
 * An attach has failed with this error and diag.  If the process has ended since, is ending, or runs another program,
 * that was the cause, and diag says so.  Returns the error to go on with.
 */
int attach_explain(const struct attach_program *program, pid_t pid, int error, struct calltap_diag *diag)
	__attribute__((warn_unused_result));
/* True if the process has executed another program since. */
bool attach_has_executed(const struct attach_program *program, pid_t pid);
/* True if a thread of the process has a seccomp filter that the tool does not run in. */
bool attach_is_shut_in(pid_t pid);
/* attach_check() for attach_load(), which may load into a process that is being traced by calltap. */
int attach_check_load(pid_t pid, struct calltap_diag *diag) __attribute__((warn_unused_result));

/*
 * A close-on-exec Unix socket of that type in the process' network namespace,
 * neither bound nor listening: the descriptor, or -errno.  Abstract names
 * belong to the namespace that the socket was made in.
 */
int attach_socket(pid_t pid, int type, struct calltap_diag *diag) __attribute__((warn_unused_result));

/* Whether the process can reach the sockets that attach_socket() makes for the other one. */
bool attach_reaches(pid_t pid, pid_t other);
/* Is the process in another mount namespace than the tool?  False also where nobody can tell. */
bool attach_has_own_mounts(pid_t pid);

/* The agent for a static program, which no loader maps (doc/design/loaderless.md). */
struct calltap_attach_part;
struct attach_placed {
	bool musl;		    /* the program's libc is musl */
	uint64_t start;		    /* address of struct calltap_start in the target */
	uint64_t entry_offset;	    /* of calltap_agent_place() behind the first part */
	const unsigned char *bytes; /* of the agent and all that belongs to it; NULL: the target has it already */
	size_t size;
	const struct calltap_attach_part *parts; /* CALLTAP_ATTACH_PARTS of them, the last with address 0 */
};

/*
 * A process whose initial thread waits in open() of the tool's own file system.  The kernel does not stop such a thread
 * before it has the tool's answer.  So it is interrupted first; then it is answered, with EINTR; it stops on its way
 * back to user code, and is borrowed; and it makes that call again, whatever comes of it.
 */
struct attach_caught {
	/*
	 * Both are called by the tracer, which may outlive the tool.  begins: from now on the thread is not to be
	 * answered before it is interrupted; false: it was answered already, and is left alone.
	 */
	bool (*begins)(void *context);
	void (*interrupted)(void *context); /* it is to be answered with EINTR */
	void *context;
};

struct attach_options {
	size_t size;		 /* of this struct */
	const char *agent_path;	 /* the agent's file, as the tool sees it */
	const char *session;	 /* NAME:KEY (abi/control.h) */
	uint64_t filters;	 /* seccomp filters that the tool itself runs under */
	uint64_t resident_entry; /* calltap_agent_attach() in the target, 0 = look for it in what is mapped */
	uint32_t patience_ms;	 /* wait for a thread that can be borrowed; 0 = 5 s */
	const struct attach_placed *placed; /* NULL: the program has a loader */
	/*
	 * NULL, or called before anything is done, while no other tool can attach: it may set placed and
	 * resident_entry.
	 */
	int (*prepare)(void *context, pid_t pid, struct attach_options *options, struct calltap_diag *diag);
	void *context;
	bool leave_code; /* leave the thread's code there: the caller will call attach_slack_restore() in a stop */
	bool calls_in; /* the process is a forked child with the session's agent, which is to call in (abi/attach.h) */
	/* NULL, or asked between two looks for a thread: true, the patience is over. */
	bool (*gives_up)(void *context);
	void *gives_up_context;
	/* NULL, or the initial thread is borrowed as it comes back from open(), with one try; patience_ms is not used.
	 */
	const struct attach_caught *caught;
};

struct attach_result {
	pid_t tid;	  /* the borrowed thread */
	bool resident;	  /* the agent was there already: nothing was loaded */
	bool memfd;	  /* the agent came from a memfd: the process cannot open its path */
	uint64_t stop_ns; /* time for which ptrace held the thread */
	/*
	 * System calls that returned a part of their data because of that, as stops see it: a thread that is stopped
	 * again before it has gone on is at the same call's end.
	 */
	uint32_t cut_short;
	uint64_t borrow_ns; /* time until the thread was back where it had been */
	uint64_t entry;	    /* calltap_agent_attach() in the target, 0 = not known */
};

/*
 * Put the agent into the process: one of its threads loads it and calls calltap_agent_attach(), which must not wait for
 * an answer of the tool's.  Returns when that thread is where it was: 0; -EAGAIN: no thread could be borrowed in time;
 * else diag has the words of the loader or the agent.
 */
int attach_inject(pid_t pid, const struct attach_options *options, struct attach_result *result,
		  struct calltap_diag *diag) __attribute__((warn_unused_result));

/*
 * A thread that asks to be held while it executes a static program, or makes a child that does, which is let go of on
 * its way to the agent (doc/design/loaderless.md).  All is called by the tracer, except where said.
 */
struct attach_launch;
struct attach_guest {
	bool spawns;				  /* its child, made by vfork, executes */
	bool (*held)(void *context);		  /* it is: false: it does not execute any more, and is let go of */
	void (*made)(void *context, pid_t child); /* it has made the child, which is held instead */
	bool (*goes_on)(void *context);		  /* asked again and again until it has executed; false: as above */
	void (*over)(void *context);		  /* it has executed, or will not, and is not held then */
	/* Called with the program held at its start (attach_launch_reach_guest()): set options->placed, or refuse with
	 * diag. */
	int (*prepare)(void *context, const struct attach_launch *launch, struct attach_options *options,
		       struct calltap_diag *diag);
	void *context;
};
/*
 * Put the agent into the program that the thread is about to execute, or its child.  0: it is in, and the program runs.
 * -ESRCH, -EAGAIN, -EPERM: it executed none, or cannot be held.  Other errors, with diag: the program runs untraced.
 */
int attach_inject_guest(pid_t tid, const struct attach_options *options, const struct attach_guest *guest,
			struct calltap_diag *diag) __attribute__((warn_unused_result));

/*
 * Load any library into the process as attach_inject() loads the agent. library: its path, as the tool sees it.  It
 * stays there. patience_ms: 0 = 5 s. -ELIBACC: the loader refuses, with its words in diag.
 */
int attach_load(pid_t pid, const char *library, uint32_t patience_ms, struct attach_result *result,
		struct calltap_diag *diag) __attribute__((warn_unused_result));

/* Whether the process has an agent, in use or left there by a session that is over. */
bool attach_has_agent(pid_t pid);

/*
 * Find the agent that an attach has mapped into a static program: copy struct calltap_start, which lies at *at, as the
 * target has it.  -ENOENT: there is none. -EPROTO: it is of another build.
 */
struct calltap_start;
struct space;
int attach_find_placed(pid_t alive, const struct space *space, uint64_t *at, struct calltap_start *start)
	__attribute__((warn_unused_result));
/*
 * Find out how far behind a thread's pointer the libc of a static program notes the thread's id: in a stop of all
 * threads, it is the only word of each thread that is the thread's id.  -ENOTSUP, with diag: no word is, or several
 * are. *cut_short: as attach_times.
 */
int attach_find_note(pid_t pid, bool musl, int64_t *offset, uint32_t *cut_short, struct calltap_diag *diag)
	__attribute__((warn_unused_result));

/* All threads of a process, stopped. */
struct attach_stop;

#define ATTACH_REGISTERS 16 /* general ones, in DWARF's order */

struct attach_thread {
	pid_t tid;	 /* as the tool sees it */
	bool asleep;	 /* in the kernel, uninterruptibly: only pc and sp are known, and the thread cannot come out */
	uint64_t pc, sp; /* of user code */
	uint64_t thread_pointer;	      /* 0 = not known (asleep) */
	uint64_t registers[ATTACH_REGISTERS]; /* without the pc */
	/*
	 * The pc is behind a system call that the stop has interrupted, and that the kernel makes again unless a
	 * handler runs first: it moves the pc back by so many bytes.  0: there is none.
	 */
	uint8_t back;
	bool deep;	 /* attach_scan(): the stack is longer than the part that was scanned */
	bool dispatches; /* its system calls may be the program's own to answer (syscall user dispatch) */
};

/*
 * Stop every thread of the process but those named, by the ids that the process itself sees (in its pid namespace), and
 * processes that run in its memory (vfork).  Threads that begin meanwhile are stopped, too.  System calls go on at the
 * resume: the program sees no EINTR.
 *
 * A thread that waits for a CPU stops when it gets one, and the others wait for it: a try that has not stopped all
 * within some ms is given up, and all run for a while before the next, which may take longer. -ETIMEDOUT: some thread
 * did not stop within 2 s, five times over; all run again.
 */
int attach_stop(struct attach_stop **stop, pid_t pid, const pid_t *except, size_t except_count,
		struct calltap_diag *diag) __attribute__((warn_unused_result));

/*
 * attach_stop() for one of several stops that serve one purpose. given_up: tries of the earlier ones that were given
 * up, in all.
 */
int attach_stop_again(struct attach_stop **stop, pid_t pid, const pid_t *except, size_t except_count, unsigned given_up,
		      struct calltap_diag *diag) __attribute__((warn_unused_result));

/*
 * Pin the stop: until attach_unpin() the threads stay stopped as long as the tool lives.  Else they are let go when the
 * tool itself is stopped (SIGSTOP, a debugger).  False: that has happened, and what needs them stopped must not begin.
 */
bool attach_pin(struct attach_stop *stop) __attribute__((warn_unused_result));
/*
 * The agent has been asked for what needs the threads stopped, the only thing in this pin, and has done it when a
 * message of that type, or the end, comes from that socket: from then on the threads are let go if the tool is stopped.
 */
void attach_asked(struct attach_stop *stop, int socket, uint32_t answer_type);
void attach_unpin(struct attach_stop *stop);
/* True if the threads were let go because the tool was stopped: what failed since may have failed for that. */
bool attach_is_lost(const struct attach_stop *stop);

/*
 * Let all threads go and free `stop` (may be NULL); the ns from the first interrupt to the last thread's release.  Only
 * the thread that has stopped them may do that: other threads of the tool wait until then to stop theirs.
 */
uint64_t attach_resume(struct attach_stop *stop);

/*
 * Wait until no thread of the process sleeps in a system call that has perhaps moved a part of its data, such as a
 * write() to a full pipe: a stop would make it return that part.  At most until then (CLOCK_MONOTONIC): the stop that
 * follows may still meet one, and tells so (attach_times.cut_short).  Stops that serve one purpose share one such time.
 */
#define ATTACH_TRANSFERS_NS 500000000u
void attach_await_transfers(pid_t pid, uint64_t until_ns);

/* How long a stop took, and the tries that were given up before it. */
struct attach_times {
	uint32_t given_up;
	uint32_t cut_short;	       /* system calls that returned a part of their data because of all these */
	uint64_t total_ns, longest_ns; /* time of all tries, and of the longest */
};

/* attach_resume() that also tells of the tries that were given up. */
void attach_resume_timed(struct attach_stop *stop, struct attach_times *times);

/* Facts that are read before a stop, so that the stop is short. */
struct attach_ahead;
#define ATTACH_AHEAD_THREADS  1u /* for attach_is_sandboxed() */
#define ATTACH_AHEAD_SEGMENTS 2u /* for attach_slack_restore() */
#define ATTACH_AHEAD_CONTEXTS 4u /* for attach_contexts(): contexts without a thread */
int attach_ahead_read(struct attach_ahead **ahead, pid_t pid, unsigned what) __attribute__((warn_unused_result));
void attach_ahead_free(struct attach_ahead *ahead);
/* Use `ahead` (may be NULL) in this stop. */
void attach_use(struct attach_stop *stop, const struct attach_ahead *ahead);
/*
 * True if the program has taken its first signal handler since `ahead` was read.  Contexts that no thread leads to were
 * not looked for then: read it again, before another stop.
 */
bool attach_ahead_is_late(const struct attach_stop *stop);

/*
 * True if a stopped thread has a seccomp filter that the tool does not run in: one may have come after attach_check().
 */
bool attach_is_sandboxed(const struct attach_stop *stop);

/* The stopped threads, valid until attach_resume(). */
const struct attach_thread *attach_threads(const struct attach_stop *stop, size_t *count);

/* The thread pointer of the process' initial thread; 0 = it has ended, or is asleep. */
uint64_t attach_main_thread(const struct attach_stop *stop);

/* A stopped thread, not one that is asleep, is to go on elsewhere: behind a call that is made again, if there is one.
 */
struct attach_move {
	const struct attach_thread *thread;
	uint64_t pc;
};
/*
 * Move threads.  All that attach_threads() and attach_scan() tell stays as it was before.  A thread that has been
 * killed meanwhile counts as moved. -errno: some were not moved.
 */
int attach_move(struct attach_stop *stop, const struct attach_move *moves, size_t count)
	__attribute__((warn_unused_result));

/* Addresses [lo, hi). */
struct attach_range {
	uint64_t lo, hi;
};

/* The index of the range that holds the address; SIZE_MAX = none.  The ranges are sorted and do not overlap. */
size_t attach_range_find(const struct attach_range *ranges, size_t count, uint64_t address);

struct attach_hit {
	const struct attach_thread *thread;
	size_t range;	  /* index of the range */
	uint64_t value;	  /* the value that lies in the range */
	uint64_t address; /* of the stack's word that holds the value; 0 = a register or the pc */
};

/*
 * Tell each general register, pc, and aligned word of a live stack whose value lies in one of the ranges, which are
 * sorted and apart.  A stack is live from 128 bytes below a context's sp to its mapping's end; at most 1 MiB of it, or
 * 16 MiB after attach_look_deeper(), where the mapping may hold other things.  For a thread that runs on a stack of the
 * program's making, and was not brought there by a signal, the last 1 MiB of its own stack is scanned, too.  Words that
 * hold such a number by accident are told, too. visit() returns 0 to go on; other results end the scan and are
 * returned. -errno: some stack could not be read.
 */
int attach_scan(struct attach_stop *stop, const struct attach_range *ranges, size_t count,
		int (*visit)(void *context, const struct attach_hit *hit), void *context)
	__attribute__((warn_unused_result));

/* In this stop, scan more of each stack from the next scan on: an earlier one has left a doubt. */
void attach_look_deeper(struct attach_stop *stop);

/* Registers that code goes on with: a stopped thread's own, or registers that a signal's frame has saved. */
struct attach_context {
	const struct attach_thread *thread; /* NULL: the frame is on a stack that no thread runs on */
	uint64_t pc, sp;
	uint64_t address; /* address where the pc is saved; 0 = the pc is the thread's own */
	bool in_leaf;	  /* a leaf's body runs there, which returns to its stub (attach_mark_leaves()) */
	bool over;	  /* the frame that saved these registers has surely ended (attach_settle()) */
};

/*
 * All contexts that the last attach_scan() has met, valid until the next.  A frame that is over may lie unchanged in
 * memory that nobody has written since: so some contexts are none.  Contexts without a thread take
 * ATTACH_AHEAD_CONTEXTS.
 */
const struct attach_context *attach_contexts(const struct attach_stop *stop, size_t *count);
/* Set in_leaf of the contexts that the last attach_scan() has met.  -errno: the target's stubs cannot be read. */
int attach_mark_leaves(struct attach_stop *stop) __attribute__((warn_unused_result));

/* Data for following frames in a stop.  Opening reads files, so open it before the stop.  NULL can be closed. */
struct attach_frames;
int attach_frames_open(struct attach_frames **frames, pid_t pid) __attribute__((warn_unused_result));
void attach_frames_close(struct attach_frames *frames);
/* A frame, and its own part of the stack: [lo, hi), where hi is the address of its return address. */
struct attach_frame {
	uint64_t pc, lo, hi;
	bool exact; /* pc is the frame's own, not the return address of a call */
};
/*
 * Tell a thread's frames from the innermost on, until visit() returns false.  True: all were told, and none is a guess.
 * Bounded in time.
 */
bool attach_climb(struct attach_stop *stop, struct attach_frames *frames, const struct attach_thread *thread,
		  bool (*visit)(void *context, const struct attach_frame *frame), void *context);
/* The function that pc is in, NULL = not known. */
const char *attach_frame_symbol(struct attach_frames *frames, uint64_t pc);
/*
 * After attach_scan(): find out which contexts are over, of those that doubtful() returns true for.  Bounded in time.
 */
void attach_settle(struct attach_stop *stop, struct attach_frames *frames,
		   bool (*doubtful)(void *context, const struct attach_context *it), void *context);

/*
 * Clean the slack behind executable segments where an injection whose tool was killed has left its code, if no thread
 * is in it.  Returns how many places, or -errno. *in_use: a thread is in a place, or a word on some stack looks so;
 * another stop may find it free.
 */
int attach_slack_restore(struct attach_stop *stop, bool *in_use) __attribute__((warn_unused_result));
/*
 * Call attach_slack_restore() in short stops, again and again while a place is in use, for a second at the most.
 * Returns how many transfers that cut short (attach_times).
 */
uint32_t attach_slack_clean(pid_t pid);
/* True if an injection has left its code in the process; only its memory is looked at. */
bool attach_slack_has(pid_t pid);

/* Copies of registers and live stacks (64 KiB of each at most), to be unwound when the threads run again. */
struct attach_stacks;

int attach_copy(struct attach_stop *stop, struct attach_stacks **stacks, struct calltap_diag *diag)
	__attribute__((warn_unused_result));

struct attach_unwound {
	pid_t tid;
	pid_t own_tid;	       /* as the process sees it, in its own PID namespace; tid if the thread has ended */
	const uint64_t *pcs;   /* innermost first: the thread's pc, then return addresses */
	const uint64_t *slots; /* address of each frame's own return address, 0 = not known */
	size_t count;
	struct attach_range stack; /* the mapping that the stack lies in */
	bool complete;		   /* the outermost frame is where the thread began */
};

#define ATTACH_FRAMES_MAX 512 /* of one thread */

/* Tell each thread's frames; visit() returns 0 to go on.  The process may run, or have ended. */
int attach_unwind(struct attach_stacks *stacks, int (*visit)(void *context, const struct attach_unwound *thread),
		  void *context) __attribute__((warn_unused_result));

/* The function that pc lies in, NULL = not known; valid until attach_stacks_free(). */
const char *attach_symbol(struct attach_stacks *stacks, uint64_t pc);

void attach_stacks_free(struct attach_stacks *stacks);

#endif
