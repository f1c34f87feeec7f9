/*
 * Recording a command: options in, a trace file and an exit status out.
 *
 * Caller: the command `record`.  Context: host.
 */
#ifndef HOST_SESSION_RECORD_H
#define HOST_SESSION_RECORD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include <calltap/abi/ring.h>
#include <calltap/diag.h>
#include <host/compare.h>
#include <host/stock/choice.h>

struct tracer;
struct filter_set;
struct record_live;
struct triggers;

/* A process of record_options.pids, and what became of it.  Times in ns. */
struct record_attached {
	pid_t pid;
	bool attached;		     /* its sites were written */
	bool replaced;		     /* it has executed another program, which runs untraced */
	bool had_leftovers;	     /* a tool that was killed had left something in it */
	bool let_go;		     /* it runs on, and nothing of ours is left to do in it */
	bool agent_stays;	     /* its agent could not be taken out, and is idle */
	uint32_t threads;	     /* that were stopped at the attach */
	uint64_t attach_stop_ns;     /* how long all its threads were stopped at the attach, over all tries */
	uint64_t attach_borrow_ns;   /* how long one of them was away to load the agent */
	uint32_t attach_cut_short;   /* its system calls that returned a part of their data because of that */
	uint64_t detach_stop_ns;     /* how long all were stopped at the end, likewise */
	struct compare_result text;  /* what it was then, compared with its files */
	struct calltap_diag trouble; /* why it was not traced, or what came in the way later; code 0 = nothing */
};

/* What is known of a function before anything is recorded. */
struct record_known {
	char *symbol;  /* as in the symbol table */
	bool is_short; /* its calls, with adaptive */
};

/* A function of which so many calls are known is short if no more than one in so many takes that long. */
#define RECORD_SHORT_CALLS 128u
#define RECORD_SHORT_SHARE 100u
#define RECORD_SHORT_NS	   1000 /* where nothing else is said */
#define RECORD_EVERY	   256	/* likewise: of the calls without times, one in so many has them */
#define RECORD_EVERY_MAX   65535

struct record_options {
	size_t size;	      /* sizeof(struct record_options) */
	char *const *command; /* NULL-terminated; with pids: what those were started by, for the trace */
	const pid_t *pids;    /* processes that run already, to be attached to; the caller's, all different */
	size_t pid_count;     /* 0 = run the command */
	uint64_t duration_ns; /* the recording ends after that; 0 = it does not */
	const char *output;   /* path of the trace file, NULL = none is kept */
	const struct tracer *tracer;
	struct filter_set *filters;
	enum stock_choice stock;
	enum libcalls_choice libcalls;
	uint32_t size_min; /* bytes: smaller functions are left out */
	enum calltap_mode mode;
	uint64_t buffer_bytes; /* per thread */
	const char
		*buffer_dir; /* overwrite mode: folder on tmpfs where the buffers are files; NULL = they have no name */
	uint32_t depth_max;  /* 0 = no limit */
	uint64_t threshold_ns; /* 0 = none */
	bool adaptive;	       /* calls of functions that are short and called often have no times, but for some */
	uint64_t short_ns;     /* with adaptive: what takes less is short; 0 = 1 us */
	uint64_t tick_ns;      /* with adaptive: a time without a record is known up to about that; 0 = 100 us */
	const struct record_known *known; /* with adaptive: in the order of symbols, or NULL */
	size_t known_count;
	uint32_t small;	       /* bytes; with adaptive: functions up to that are thought to be short at first; 0 = 64 */
	uint32_t every;	       /* with adaptive: of the calls without times, one in so many has them; 0 = 256 */
	uint32_t wait_max_ms;  /* block mode: longest wait without progress */
	bool no_fork, no_exec; /* do not follow */
	bool allow_no_sites;   /* run it although nothing can be traced now */
	bool allow_no_match;   /* run it although a filter matches nothing now */
	bool perf_map;	       /* name the stubs in /tmp/perf-PID.map */
	bool frames;	       /* a further instance: calls tell where their frames lie (CALLTAP_EVENT_FRAME) */
	bool follow;	       /* records reach the file within 100 ms, whole sub-buffers or not */
	bool progress;	       /* show progress on stderr */
	bool verbose;
	bool tells;		  /* what triggers did is told in any case */
	const char *instance;	  /* name of this one, should others be added to it; NULL = "0" */
	const char *options_text; /* as typed, for the file */
	const char *agent_path;	  /* of libcalltap-agent.so for this CPU; others lie in folders beside it */
	const char *emulator;	  /* command that runs the program, with its options; NULL: QEMU, where one is needed */
	bool clears;		  /* with pids: what a killed tool left in them is taken away, nothing is traced */
	bool serves;		  /* with a pid and the tracer nop: stubs are made for handlers of the program's own */
	/* Called when it is known that a process of `pids` is not traced, `trouble` says why; or NULL. */
	void (*left_out)(void *ctx, const struct record_attached *process);
	void *left_out_ctx;
	/* Called once when the first process runs under trace; or NULL. */
	void (*begun)(void *ctx);
	void *begun_ctx;
	/* Called once when all is recorded, while `live` still answers; or NULL. */
	void (*ending)(void *ctx);
	void *ending_ctx;
	struct values *values;	   /* what calls tell besides, or NULL */
	struct triggers *triggers; /* what is done when something happens, or NULL */
	struct record_live *live;  /* for others to change what is recorded, or NULL */
};

/*
 * Processes that have what a session has left in them, which is to be taken away by sessions with `clears`.  After a
 * session: children that were forked from a process that was attached to, and know of no end: they have never called
 * in, or too late.  After the tool was killed: all processes that it had followed.
 */
struct record_silent {
	pid_t *pids; /* what the last look has found */
	size_t count;
	/* How children are known; silent.c alone looks there. */
	struct record_parent *parents;
	size_t parent_count;
	pid_t *seen; /* those that earlier looks have found, or that were let go of otherwise */
	size_t seen_count;
	uint64_t board;		  /* inode of the session's board; 0 = there is nothing to look for */
	unsigned long long since; /* only processes that began then or later, in the kernel's ticks */
};

/*
 * Look for such children that no look has found before; one may have been forked by another meanwhile.  Freed by
 * record_result_clear().
 */
void record_silent_look(struct record_silent *silent);
/*
 * For such looks, all zeros before: processes of the session that pid is of, or was, but for pid itself.  since: only
 * processes that began then or later (proc_began()), for the kernel may let who looks into any other one wait; 0 = all.
 */
void record_silent_of(struct record_silent *silent, pid_t pid, unsigned long long since);
void record_silent_clear(struct record_silent *silent);

/* Processes that are not in the trace: how many, and the first of them. */
struct record_missing {
	uint32_t count;
	pid_t pid;
	char name[32];
};

struct record_result {
	int wait_status; /* the command's, as from waitpid(); valid when `ran` */
	bool ran;	 /* the command was started */
	bool unrunnable; /* it was not, as it cannot be */
	bool ours;	 /* nothing was done, for the sake of an option or of the trace file, not of the program */
	bool left;	 /* and runs on: the user ended the recording first */
	uint64_t records, lost;
	uint64_t untraced;	/* calls that no thread's buffer or no stack's mirror could take */
	uint32_t shut_in;	/* processes that shut themselves in (seccomp) where tracing cannot follow all of it */
	uint32_t stopped;	/* processes that may not read the clock any more, and are recorded up to there */
	uint32_t vforked;	/* processes in which a vfork child made a thread's first call, and was not recorded */
	uint32_t moves;		/* processes that copy parts of their stacks, and are recorded up to there */
	uint32_t copied;	/* processes that did so unforeseen, and returned to where no caller is known */
	uint32_t squeezed;	/* processes with smaller buffers than was asked for, as a limit leaves little */
	bool limited;		/* the memory of some process is limited */
	uint32_t hidden;	/* processes that executed programs where the agent's file cannot be seen */
	uint32_t narrow;	/* processes that executed 32-bit programs */
	uint32_t net;		/* processes that executed programs in another network namespace */
	uint32_t executed;	/* programs executed in a sandbox, where the agent stays out */
	uint32_t spaces;	/* processes with objects in a name space of dlmopen() */
	uint32_t strays;	/* processes that live on, and made no traced call while it was recorded */
	uint32_t foreign;	/* programs for another CPU than the command's, which ran untraced */
	uint32_t children;	/* of a process that was attached to and recorded little: they run the same program */
	pid_t parent, child;	/* that process, and one of them */
	char child_name[32];	/* that program */
	uint32_t unplaced;	/* static programs that were executed, and run untraced */
	char unplaced_why[480]; /* of the first of them: why, in one sentence */
	uint32_t unheard;	/* forked children that do not learn of a change of what is recorded */
	char unheard_why[480];	/* of the first of them: why, in one sentence */
	struct record_missing strangers; /* were started without the environment that brings the agent in */
	struct record_missing missed;	 /* were started with it, and their agents have not called in */
	uint32_t unread;       /* objects whose files were deleted or replaced, and cannot be read by this user */
	char unread_path[200]; /* the first of them */
	uint32_t unreached;    /* forked children that could not reach the tool */
	uint32_t late;	       /* forked children that were not set up yet when the recording ended */
	uint32_t ended_early;  /* forked children that ended before they were set up */
	bool kills_forks;      /* they are unreached, because the emulator would not have let them live */
	uint64_t wait_ticks;   /* that threads waited for the tool, in all */
	double ticks_per_ns;
	uint64_t file_bytes;
	uint32_t threads, processes;
	uint64_t patched, failed;
	char failed_names[200]; /* of the first ones: "name (object)" and a comma between them */
	uint32_t failed_named;	/* how many */
	bool detached;		/* `calltap detach` has ended the recording, and clears up behind it */
	uint64_t left_over;	/* sites of processes that run on which do not have the file's bytes again */
	uint32_t left_in;	/* these processes */
	pid_t left_pid;		/* the first of them */
	uint32_t freed;		/* forked children that run on, and were let go of */
	uint32_t idle_in;	/* forked children that have the file's bytes again, but keep their idle agent */
	pid_t idle_pid;		/* the first of them */
	struct record_silent silent;
	/* The processes that were attached to; freed by record_result_clear(). */
	struct record_attached *attached; /* as many as there are pids, and in their order */
	size_t attached_count;		  /* of those, whose sites were written */
	uint64_t longest_stop_ns;	  /* the longest stop of all threads of one, also for a trigger's stack */
	uint32_t stops_given_up;	  /* tries to stop all that took too long, and were begun anew */
	uint32_t cut_short;		  /* system calls that returned a part of their data because of the stops */
	uint32_t skipped;		  /* sites left alone as a thread was within */
};

/* Names of enum calltap_mode, as typed and as in the file; NULL past the end. */
const char *record_mode_name(unsigned mode);

/*
 * Run the command under trace until it and its traced children have ended; or
 * attach to processes, to one after the other, until they have ended, a signal
 * (SIGINT, SIGTERM) or record_live_end() ends the recording, which leaves the
 * processes as they were.
 * 0, or -errno with diag; result->ran tells whether the command ran.
 * -ENODATA: nothing to trace, before the program runs.  A process that cannot
 * be attached to is no error where another one can: result->attached tells.
 * The result is for record_result_clear(), whatever is returned.
 */
int record_run(const struct record_options *options, struct record_result *result, struct calltap_diag *diag)
	__attribute__((warn_unused_result));
void record_result_clear(struct record_result *result);

/*
 * An older trace is kept, once, as FILE.old, or put back when nothing ran
 * after all; true when it was.
 */
bool record_keep_older(const char *output, bool back);

/*
 * A handle by which other threads change a recording while it runs: made
 * before record_run(), which gets it in its options, and destroyed after.
 */
int record_live_create(struct record_live **out) __attribute__((warn_unused_result));
void record_live_destroy(struct record_live *live);
/*
 * End the recording; record_run() returns when that is done.  Of a command:
 * ask it to end (SIGTERM); the second time it is let go of, and runs on.
 */
void record_live_end(struct record_live *live);

/*
 * True if a signal has asked for the end since the recording began: it may have come when the recording had ended.  ^C
 * is a command's own, and does not count there.
 */
bool record_was_signalled(bool command);

/* True once a process of the recording is traced. */
bool record_live_traces(struct record_live *live);

/* The process that the recording is called by: the command, or the first that was attached to and lives; 0 = none. */
pid_t record_live_pid(struct record_live *live);

struct record_switched {
	uint64_t functions; /* that were named, and are in the trace's tables */
	uint64_t switched;  /* places in processes that are now as was asked for */
	uint64_t failed;    /* places that could not be switched: unloaded, never patched, or changed by others */
};

/*
 * Record the functions that the filters choose, of those that are patched, or
 * do not record them: in all processes of the recording, also those to come.
 * Calls that are open are recorded to their end.  Returns when all agents have
 * answered.  -ESRCH: nothing is being recorded; -ETIMEDOUT: a process did not
 * answer (it is stopped), all others did.
 */
int record_live_switch(struct record_live *live, struct filter_set *filters, bool on, struct record_switched *result)
	__attribute__((warn_unused_result));
/* Switch functions that are named by their ids in the trace. */
int record_live_switch_ids(struct record_live *live, const uint32_t *ids, size_t count, bool on,
			   struct record_switched *result) __attribute__((warn_unused_result));

#endif
