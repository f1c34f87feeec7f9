/*
 * Declarations that the files of this room share (attach.h is for others).
 *
 * Comments that begin with "Tracer" mark functions for the thread that holds the target's threads by ptrace: the kernel
 * knows no other as their tracer.  Context: host.
 */
#ifndef HOST_ATTACH_IMPL_H
#define HOST_ATTACH_IMPL_H

#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>

#include <arch/generic/native/attach.h>

#include <host/now.h>
#include <host/proc.h>
#include <host/space.h>

#include "attach.h"

#define PAGE 4096u

/* ---- proc.c: what <host/proc.h> does not have ---- */

/* A thread that sleeps in the kernel: its system call, and user code's registers. */
struct proc_sleep {
	long number; /* -1: none, as in a page fault */
	uint64_t arguments[NATIVE_CALL_ARGUMENTS];
	uint64_t sp, pc;
};
/* -EAGAIN: the thread does not sleep. */
int proc_asleep(pid_t tid, struct proc_sleep *sleep) __attribute__((warn_unused_result));
/* True if that thread has forked a process that lives.  False where the kernel does not tell. */
bool proc_has_children(pid_t tid);
/* True if an agent's thread runs in the process: the process is traced, or an agent is just letting go. */
bool agent_serves(pid_t alive);
/* The name of a process' program, or of a thread, for sentences; "?" where it is not known. */
void process_name(pid_t pid, char *name, size_t size);
/*
 * True if that tracer, which /proc/PID/status names, is a calltap's.  It is gone soon, on a busy machine a little
 * later: within OWN_TRACER_MS, be it a killed tool's, or one that takes away what a killed tool has left.
 */
bool tracer_is_calltap(pid_t tracer);
#define OWN_TRACER_MS 3000u
/* The id of a thread in its own pid namespace. */
pid_t proc_inner_id(pid_t tid);
/* Open the file that is mapped there, as the target sees it. */
int proc_open_map(pid_t alive, const struct map *map) __attribute__((warn_unused_result));
/* All of size bytes, or -errno. */
int memory_read(pid_t alive, uint64_t address, void *bytes, size_t size) __attribute__((warn_unused_result));
int memory_write(pid_t alive, uint64_t address, const void *bytes, size_t size) __attribute__((warn_unused_result));

/* ---- sandbox.c: seccomp filters ---- */

struct sandbox {
	long mode, filters; /* as /proc tells them; 0 = none */
};

/* Open the status file of a thread; -errno. */
int sandbox_open(pid_t tid) __attribute__((warn_unused_result));
/* Read from such a file; -ESRCH: its thread has ended. */
int sandbox_read(int status, struct sandbox *sandbox) __attribute__((warn_unused_result));
/* sandbox_open() and sandbox_read(). */
int sandbox_of(pid_t tid, struct sandbox *sandbox) __attribute__((warn_unused_result));
bool sandbox_is_tighter(const struct sandbox *theirs, const struct sandbox *ours);
/*
 * True if the thread, or any thread of the process, runs in filters that the tool does not run in: each thread may have
 * its own.
 */
bool sandbox_has(pid_t tid);
bool sandbox_has_any(pid_t pid);
/* sandbox_has() of a thread that this tracer has stopped: quicker where the kernel says that there is no filter. */
bool sandbox_holds(pid_t tid);

/* ---- ahead.c: what is read before a stop ---- */

struct ahead_thread {
	pid_t tid;
	int status;
};

/* Ranges that are sorted, and none touches the next. */
struct ranges {
	struct attach_range *list;
	size_t count, room;
};

struct attach_ahead {
	struct ahead_thread *threads; /* sorted */
	size_t thread_count;
	struct space space;   /* the process' mappings before the stop */
	uint64_t *ends;	      /* of each mapping, as slack_segment_end() says */
	struct ranges areas;  /* memory around signals' frames that no thread's stack may lead to */
	struct ranges likely; /* memory that looks as if a stack had been there */
	struct ranges seen;   /* pages that were in memory; empty if not all could be looked at in time */
	bool searched;	      /* areas, likely and seen were looked for: the program had taken a signal's handler */
};

/* elsewhere.c: may there be such frames?  There are none in a program without handlers for signals that come anywhere.
 */
bool elsewhere_may_be(pid_t alive);
/* Find them. */
int elsewhere_find(struct attach_ahead *ahead, pid_t alive) __attribute__((warn_unused_result));
/*
 * In the stop: find the pages that a thread has touched for the first time since `ahead` was read, but not in mappings
 * that are threads' own stacks.  The caller frees found->list, after an error, too.
 */
int elsewhere_find_new(const struct attach_ahead *ahead, const struct attach_stop *stop, const struct ranges *owns,
		       struct ranges *found) __attribute__((warn_unused_result));

/* False: that mapping's end was not looked at. ahead may be NULL. */
bool ahead_segment_end(const struct attach_ahead *ahead, const struct map *map, uint64_t *end)
	__attribute__((warn_unused_result));

/* ---- transfers.c: system calls that had better not be interrupted ---- */

/* True if the thread sleeps in one. */
bool transfers_has(pid_t tid);

/* ---- hold.c: one thread under ptrace ---- */

enum held_state {
	HELD_NOT,     /* the thread runs, and will stop */
	HELD_STOPPED, /* `regs` is valid */
	HELD_ASLEEP,  /* in the kernel, uninterruptibly; the thread will stop when it comes out */
	HELD_GONE,    /* the thread has ended */
};

struct held {
	pid_t tid;
	enum held_state state;
	uint64_t since_ns;
	uint64_t patient_ns; /* a thread that has not stopped this long after since_ns is looked at more closely */
	bool is_parent;	     /* the thread has forked a process that lives */
	bool cut_short;	     /* the stop has ended a transfer that had moved a part (native_call_cut_short()) */
	bool is_caught;	     /* it waits in open() of the tool's own tree, and is to make that call again */
	bool reopens;	     /* it will (native_call_reopen()) */
	bool dispatches;     /* its system calls may be the program's own to answer (syscall user dispatch) */
	struct native_regs regs;
	uint64_t asleep_pc, asleep_sp;
};

/* Tracer: take hold of a thread, which runs on.  -EPERM, -ESRCH. */
int hold_seize(struct held *held, pid_t tid) __attribute__((warn_unused_result));
/* Tracer: ask the thread to stop. */
void hold_interrupt(struct held *held);
/* Tracer: hold_seize() and hold_interrupt(). */
int hold_begin(struct held *held, pid_t tid) __attribute__((warn_unused_result));
/* Tracer: look what has become of the thread; true: it counts as stopped, or is gone. */
bool hold_look(struct held *held);
/* Tracer: true if a thread that counts as stopped because it was asleep still sleeps.  If not, it has to stop. */
bool hold_sleeps(struct held *held);
/* Tracer: leave the CPU after looks that began then, at least for as long as they took: threads wait for the CPU. */
void hold_rest(uint64_t began_ns);
/* Tracer: look until the thread counts as stopped or until_ns has come (-ETIMEDOUT). */
int hold_wait(struct held *held, uint64_t until_ns) __attribute__((warn_unused_result));
/*
 * Tracer: let the threads go, each as soon as it has stopped; parents first, and the others when all parents are gone
 * (stop.c).  Threads that are asleep go when the tracer ends.  Returns the time by which all that had stopped before
 * were gone: only the others are waited for after it.
 */
uint64_t hold_end(struct held *held, size_t count);
/* Tracer: write whole words into memory whatever its protection, the first one first, or last. */
int hold_poke(const struct held *held, uint64_t address, const void *bytes, size_t size, bool backwards)
	__attribute__((warn_unused_result));

/* ---- tracer.c: who traces ---- */

struct tracer {
	pthread_t thread;
	int (*work)(void *context);
	void *context;
	int result;
	unsigned char *stack; /* of the tracer's process */
	bool over;	      /* atomic: the tracer has ended */
};

/* Run work(context) as a tracer, which ends with the work; tracer_join() gives its result. */
int tracer_start(struct tracer *tracer, int (*work)(void *context), void *context) __attribute__((warn_unused_result));
int tracer_join(struct tracer *tracer);
/* tracer_start() and tracer_join(). */
int tracer_run(int (*work)(void *context), void *context) __attribute__((warn_unused_result));
/* Tracer: true if the tool is gone.  A tracer that goes on long asks this every few seconds. */
bool tracer_is_alone(void);
/* Tracer: it is a process of its own, and outlives the tool. */
bool tracer_is_process(void);
/* Tracer: the tool is gone: close the descriptors that were the tool's. */
void tracer_close_all(void);
/* Tracer: true if the tool is there, but a signal or a debugger has stopped it. */
bool tracer_tool_is_stopped(void);

/* ---- hurry.c: threads that a stop waits for ---- */

enum hurry_way { HURRY_NOT, HURRY_CLASS, HURRY_NICE };

struct hurry {
	pid_t tid;
	enum hurry_way way;
	int policy, nice; /* the thread's own, before */
};

/*
 * From here on the thread gets a CPU as soon as it wants one, if the tool may do that; hurry_end() gives back what the
 * thread had.
 */
void hurry_begin(struct hurry *hurry, pid_t tid);
void hurry_end(const struct hurry *hurry);

/* ---- spare.c: memory that is there before a stop ---- */

/* Pages of the tool's that are not used yet, but the first `ready` bytes cost no page fault. */
struct spare {
	unsigned char *bytes;
	size_t size;
};

/* size may be 0; the first `ready` bytes are in memory when this returns. */
int spare_get(struct spare *spare, size_t size, size_t ready) __attribute__((warn_unused_result));
void spare_free(struct spare *spare);

/* ---- stop.c ---- */

enum lease {
	LEASE_OPEN,
	LEASE_LOST,   /* the tracer has let the threads go */
	LEASE_PINNED, /* from here on, by the number of the pin: the agent does what needs the threads stopped */
};

struct attach_stop {
	pid_t pid, alive;
	const pid_t *except;
	struct hurry *hurried; /* for each thread of `except`, which the stop of the others waits for */
	size_t except_count;
	struct calltap_diag *diag;
	struct held *held;
	size_t count, room;
	struct attach_thread *threads; /* the threads of `held` that are stopped or asleep */
	size_t thread_count;
	struct space space;
	uint64_t began_ns,
		ended_ns;  /* from the first interrupt to the last release; 0 = not yet, or killed on the way */
	unsigned tries;	   /* earlier tries to stop all threads, which were given up */
	uint64_t limit_ns; /* from the first interrupt on: all threads have to have stopped by then */
	struct attach_times given_up; /* tries before this stop */
	struct tracer tracer;
	sem_t asked, done;
	int (*job)(struct attach_stop *stop, void *context); /* the tracer's next work, NULL = let all go */
	void *context;
	int result;
	unsigned char *seen; /* bit per thread id: the thread is held */
	pid_t *parents;	     /* threads with children */
	size_t parent_count;
	const struct attach_ahead *ahead; /* may be NULL */
	struct spare to_scan, to_copy;	  /* for scan.c, stacks.c */
	struct attach_context *contexts;  /* of the last scan */
	size_t context_count, context_room;
	bool late;	 /* attach_ahead_is_late(); true until attach_use() tells */
	bool is_the_one; /* the tool's other threads wait for this stop to end */
	int lease;	 /* atomic, enum lease: whether the tracer may let go while the tool is stopped */
	int pins;	 /* that were ended */
	/* While the stop is pinned: the connection that the agent was asked on, atomic, -1 = none; the answer's type.
	 */
	int asked_at;
	uint32_t answer_type;
	bool looks_deeper;
	bool looked_elsewhere; /* `contexts` has those in memory that no thread leads to */
	struct hurry tool;     /* of the thread that has asked for the stop */
};

/* Have the stop's tracer run the job. */
int stop_run(struct attach_stop *stop, int (*job)(struct attach_stop *stop, void *context), void *context)
	__attribute__((warn_unused_result));

/* ---- scan.c ---- */

#define SCAN_BATCH (8u << 20) /* bytes of stacks read at a time: more than one stack */

/* The live part of the stack that sp is in, at most `limit` bytes; false: sp is in no mapping. */
bool scan_live(const struct space *space, uint64_t sp, size_t limit, struct attach_range *live);

/* ---- stubs.c: a process that is traced ---- */

/* The regions of stubs in a process; the caller frees *regions. */
int stubs_find(pid_t alive, const struct space *space, struct attach_range **regions, size_t *count)
	__attribute__((warn_unused_result));
bool stubs_have(const struct attach_range *regions, size_t count, uint64_t value);
/* True if the value is where a leaf's body returns to, in its stub. */
bool stubs_end_leaf(pid_t alive, const struct attach_range *regions, size_t count, uint64_t value);
/* The stack pointer, at a leaf's call, of code that has this one; that of other code is itself. */
uint64_t stubs_sp(pid_t alive, const struct attach_range *regions, size_t count, uint64_t sp);
/*
 * The return address that a word of a stack, at that address, stands for.  A stack pointer that a signal has saved
 * in a leaf's body becomes the one at its call.
 */
uint64_t stubs_original(pid_t alive, const struct attach_range *regions, size_t count, uint64_t address,
			uint64_t value);
/* In a copied stack, replace words that lead to stubs by the return addresses that they stand for. */
void stubs_replace(pid_t alive, const struct attach_range *regions, size_t count, uint64_t address,
		   unsigned char *bytes, size_t size);

/* ---- unwind.c ---- */

struct unwinder;

/* Memory that a stopped thread's frames are read from. */
struct stack_copy {
	pid_t tid;
	uint64_t values[NATIVE_DWARF_REGISTERS];
	uint64_t lo, hi; /* [lo, hi) is copied */
	const unsigned char *bytes;
	pid_t alive; /* memory that is not copied is read from here; 0: it is not known */
	const struct attach_range
		*regions;    /* regions of stubs: words that lead there are replaced by return addresses */
	size_t region_count; /* number of `regions` */
};

struct frame {
	uint64_t pc;
	uint64_t slot; /* where the frame's return address lies, 0 = not known */
	bool exact;    /* pc is the frame's own, not the return address of a call */
};

/* The objects of a process; dynamic symbols and unwind tables are read when they are first wanted. */
int unwinder_open(struct unwinder **out, pid_t pid, pid_t alive, const struct space *space)
	__attribute__((warn_unused_result));
void unwinder_close(struct unwinder *unwinder);
/* Tell each frame from the innermost on until visit() returns false.  True: the last one is where the thread began. */
typedef bool unwinder_visit(void *context, const struct frame *frame);
bool unwinder_climb(struct unwinder *unwinder, const struct stack_copy *copy, unwinder_visit *visit, void *context);
/* Returns how many frames; *complete: the last one is where the thread began. */
size_t unwinder_frames(struct unwinder *unwinder, const struct stack_copy *copy, struct frame *frames, size_t max,
		       bool *complete);
/*
 * True if the file of the code at pc says how to unwind from there.  If not, frames are a guess by the frame pointer.
 */
bool unwinder_has_rules(struct unwinder *unwinder, uint64_t pc);
const char *unwinder_symbol(struct unwinder *unwinder, uint64_t pc);

/* libs.c: facts of the target's objects that an injection must know. */

struct function {
	uint64_t lo, hi; /* run-time; hi = lo: size not known */
	bool unsafe;	 /* a thread in here may have interrupted the loader or an allocator */
};

/* A mapped object that takes part in loading or allocating. */
struct special {
	uint64_t lo, hi;
	bool loader;
	struct function *functions; /* sorted */
	size_t count;
};

struct libs {
	struct special *specials;
	size_t count;
	struct attach_range *stays; /* code that is never unloaded */
	size_t stays_count;
	char *needed; /* names of the libraries that the program asks for, each with its NUL; an empty one ends them */
	char *unread; /* path of the first library whose file cannot be read, or NULL */
	bool musl, old_musl, is_static;
	bool placed;		  /* a static program, whose thread maps the agent itself: nobody's locks are taken */
	struct attach_range libc; /* musl's code, and two functions of it */
	uint64_t exit, thread_exit;
	uint64_t load, load_error, errno_location;
	uint32_t load_flags;
	uint64_t entry;		   /* of an agent that is mapped, 0 = none */
	struct attach_range agent; /* where that agent lies */
};

int libs_read(struct libs *libs, pid_t alive, const struct space *space, struct calltap_diag *diag)
	__attribute__((warn_unused_result));
/* False in a process that has just begun: its loader maps libc a few ms later. */
bool libs_are_all(const struct libs *libs);
/* Why no agent can be brought into such a process, 0 = it can.  library: it is not an agent that is to be loaded. */
int libs_refuse(const struct libs *libs, pid_t pid, bool library, struct calltap_diag *diag)
	__attribute__((warn_unused_result));
void libs_free(struct libs *libs);
/* Value of a symbol in an ELF file's dynamic symbol table; 0 = none. */
uint64_t libs_symbol_value(int fd, const char *name);

/* ---- safe.c ---- */

/* True if a thread with this state can be borrowed; *why says what is against it, for a message. */
bool safe_to_borrow(struct unwinder *unwinder, const struct libs *libs, pid_t alive, const struct native_regs *regs,
		    const struct stack_copy *copy, const char **why);

/* True if pc is code of an object in which a thread may hold a lock; and if it is that of a function that holds one. */
bool safe_is_special(const struct libs *libs, uint64_t pc);
bool safe_is_dangerous(const struct libs *libs, uint64_t pc);

/* ---- musl.c ---- */

/* Proof that the thread holds none of libc's locks. *count becomes the number of the frames that are no guess. */
bool musl_holds_nothing(struct unwinder *unwinder, const struct libs *libs, pid_t alive, const struct stack_copy *copy,
			const struct frame *frames, size_t *count);
/* A further proof: the thread waits, or sleeps, as only a thread does that holds no lock. */
bool musl_waits(const struct libs *libs, pid_t alive, const struct native_regs *regs, const struct stack_copy *copy);

/* ---- slack.c ---- */

#define SLACK_ALIGN 16u

struct slack {
	uint64_t address;
	size_t size;
	unsigned char original[NATIVE_CODE_MAX];
};

/* Find a place for the code behind an executable segment that is never unloaded; its bytes are as the file has them. */
int slack_find(struct slack *slack, pid_t alive, const struct space *space, const struct libs *libs)
	__attribute__((warn_unused_result));
/* The bytes that the file has at a mapped place: zeros beyond the file's end. */
int slack_original(pid_t alive, const struct map *map, uint64_t address, unsigned char *bytes, size_t size)
	__attribute__((warn_unused_result));
/* Where the executable segment that the map shows ends in memory; 0 = it goes on beyond the map, or is none. */
uint64_t slack_segment_end(pid_t alive, const struct map *map);
bool slack_is_free(pid_t alive, const struct slack *slack);
/* attach_slack_restore() in a stop of its own.  The transfers that it cuts short are added to *cut_short. */
int slack_clean(pid_t pid, bool *in_use, uint32_t *cut_short) __attribute__((warn_unused_result));

#endif
