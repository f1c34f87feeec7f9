/*
 * What the files of this room share (attach.h is what others see).
 *
 * Functions that say "tracer" are for the thread that holds the target's by
 * ptrace: the kernel knows no other as their tracer.  Context: host.
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

/* User code's pc and sp of a thread that sleeps in the kernel, and the call's number (-1: none). */
int proc_asleep(pid_t tid, long *number, uint64_t *pc, uint64_t *sp) __attribute__((warn_unused_result));
/* Has that thread forked a process that lives?  False where the kernel does not tell. */
bool proc_has_children(pid_t tid);
/* Whether an agent's thread runs in the process: it is traced, or an agent lets go just now. */
bool agent_serves(pid_t alive);
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

/* The status file of a thread, open; -errno. */
int sandbox_open(pid_t tid) __attribute__((warn_unused_result));
/* What such a file tells at this moment; -ESRCH: its thread has ended. */
int sandbox_read(int status, struct sandbox *sandbox) __attribute__((warn_unused_result));
/* Both. */
int sandbox_of(pid_t tid, struct sandbox *sandbox) __attribute__((warn_unused_result));
bool sandbox_is_tighter(const struct sandbox *theirs, const struct sandbox *ours);
/* Whether the thread, or any of the process', runs in filters that we do not run in: each may have its own. */
bool sandbox_has(pid_t tid);
bool sandbox_has_any(pid_t pid);

/* ---- ahead.c: what is read before a stop ---- */

struct ahead_thread {
	pid_t tid;
	int status;
};

/* Sorted, and none touches the next. */
struct ranges {
	struct attach_range *list;
	size_t count, room;
};

struct attach_ahead {
	struct ahead_thread *threads; /* sorted */
	size_t thread_count;
	struct space space;   /* as it was then */
	uint64_t *ends;	      /* of each mapping, as slack_segment_end() says */
	struct ranges areas;  /* memory around signals' frames that no thread's stack may lead to */
	struct ranges likely; /* memory that looks as if a stack had been there */
	struct ranges seen;   /* pages that were there; empty if not all could be looked at in time */
	bool searched;	      /* for those three: the program had taken a signal's handler */
};

/* elsewhere.c: may there be such frames?  There are none in a program without handlers for signals that come anywhere.
 */
bool elsewhere_may_be(pid_t alive);
/* Find them. */
int elsewhere_find(struct attach_ahead *ahead, pid_t alive) __attribute__((warn_unused_result));
/*
 * In the stop: find the pages that a thread has touched for the first time since, but for the mappings that are
 * threads' own stacks.  What is found is the caller's, after an error, too.
 */
int elsewhere_find_new(const struct attach_ahead *ahead, const struct attach_stop *stop, const struct ranges *owns,
		       struct ranges *found) __attribute__((warn_unused_result));

/* false: it was not looked at; ahead may be NULL. */
bool ahead_segment_end(const struct attach_ahead *ahead, const struct map *map, uint64_t *end)
	__attribute__((warn_unused_result));

/* ---- hold.c: one thread under ptrace ---- */

enum held_state {
	HELD_NOT,     /* it runs, and will stop */
	HELD_STOPPED, /* regs hold */
	HELD_ASLEEP,  /* in the kernel, uninterruptibly; it will stop when it comes out */
	HELD_GONE,    /* it has ended */
};

struct held {
	pid_t tid;
	enum held_state state;
	uint64_t since_ns;
	uint64_t patient_ns; /* a thread that has not stopped this long after since_ns is looked at more closely */
	bool is_parent;	     /* it has forked a process that lives */
	struct native_regs regs;
	uint64_t asleep_pc, asleep_sp;
};

/* Tracer: take hold of a thread, which runs on.  -EPERM, -ESRCH. */
int hold_seize(struct held *held, pid_t tid) __attribute__((warn_unused_result));
/* Tracer: ask it to stop. */
void hold_interrupt(struct held *held);
/* Tracer: both. */
int hold_begin(struct held *held, pid_t tid) __attribute__((warn_unused_result));
/* Tracer: look what has become of it; true: it counts as stopped, or is gone. */
bool hold_look(struct held *held);
/* Tracer: does a thread that counts as stopped, as it was asleep, still sleep?  If not, it has to stop. */
bool hold_sleeps(struct held *held);
/* Tracer: leave the CPU after looks that began then, at least for as long as they took: threads wait for it. */
void hold_rest(uint64_t began_ns);
/* Tracer: look until then; -ETIMEDOUT. */
int hold_wait(struct held *held, uint64_t until_ns) __attribute__((warn_unused_result));
/*
 * Tracer: let them go, each as soon as it has stopped; parents first, and the others when all parents are gone
 * (stop.c). Those that are asleep go when the tracer ends.  The time by which those that had stopped before were gone:
 * the others were only waited for.
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
	unsigned char *stack; /* of its process */
	bool over;	      /* atomic: it has ended */
};

/* Run work(context) as a tracer, which ends with it; tracer_join() gives its result. */
int tracer_start(struct tracer *tracer, int (*work)(void *context), void *context) __attribute__((warn_unused_result));
int tracer_join(struct tracer *tracer);
/* Both. */
int tracer_run(int (*work)(void *context), void *context) __attribute__((warn_unused_result));
/* For a tracer: the tool is gone.  To be asked at least every few seconds by one that goes on long. */
bool tracer_is_alone(void);
/* For a tracer: the tool is there, but a signal or a debugger has stopped it. */
bool tracer_tool_is_stopped(void);

/* ---- hurry.c: threads that a stop waits for ---- */

enum hurry_way { HURRY_NOT, HURRY_CLASS, HURRY_NICE };

struct hurry {
	pid_t tid;
	enum hurry_way way;
	int policy, nice; /* that it had */
};

/* From here on it gets a CPU as soon as it wants one, if we may do that; hurry_end() gives back what it had. */
void hurry_begin(struct hurry *hurry, pid_t tid);
void hurry_end(const struct hurry *hurry);

/* ---- spare.c: memory that is there before a stop ---- */

/* Pages of our own that are not used yet, but the first `ready` bytes cost no page fault. */
struct spare {
	unsigned char *bytes;
	size_t size;
};

/* size may be 0; all of it is there at once up to `ready` bytes. */
int spare_get(struct spare *spare, size_t size, size_t ready) __attribute__((warn_unused_result));
void spare_free(struct spare *spare);

/* ---- stop.c ---- */

enum lease {
	LEASE_OPEN,
	LEASE_PINNED, /* the agent does what needs the threads stopped */
	LEASE_LOST,   /* the tracer has let go */
};

struct attach_stop {
	pid_t pid, alive;
	const pid_t *except;
	struct hurry *hurried; /* each of those, which the others' stop waits for */
	size_t except_count;
	struct calltap_diag *diag;
	struct held *held;
	size_t count, room;
	struct attach_thread *threads; /* of `held` those that are stopped or asleep */
	size_t thread_count;
	struct space space;
	uint64_t began_ns,
		ended_ns;  /* from the first interrupt to the last release; 0 = not yet, or killed on the way */
	unsigned tries;	   /* to stop all threads that were given up before this one */
	uint64_t limit_ns; /* all have to have stopped by then, from the first interrupt on */
	struct attach_times given_up; /* tries before this stop */
	struct tracer tracer;
	sem_t asked, done;
	int (*job)(struct attach_stop *stop, void *context); /* for the tracer, NULL = let all go */
	void *context;
	int result;
	unsigned char *seen; /* bit per thread id: it is held */
	pid_t *parents;	     /* threads with children */
	size_t parent_count;
	const struct attach_ahead *ahead; /* may be NULL */
	struct spare to_scan, to_copy;	  /* for scan.c, stacks.c */
	struct attach_context *contexts;  /* of the last scan */
	size_t context_count, context_room;
	bool late;	 /* attach_ahead_is_late(); true until attach_use() tells */
	bool is_the_one; /* its tool's other threads wait for it to end */
	int lease;	 /* atomic, enum lease: whether the tracer may let go while the tool is stopped */
	bool looks_deeper;
	bool looked_elsewhere; /* those of memory that no thread leads to are among them */
	struct hurry tool;     /* the thread that has asked for the stop */
};

/* Have the stop's tracer do it. */
int stop_run(struct attach_stop *stop, int (*job)(struct attach_stop *stop, void *context), void *context)
	__attribute__((warn_unused_result));

/* ---- scan.c ---- */

#define SCAN_BATCH (8u << 20) /* bytes of stacks at a time: more than one of them */

/* The live part of a stack that sp is in, at most `limit` bytes; false: it is in no mapping. */
bool scan_live(const struct space *space, uint64_t sp, size_t limit, struct attach_range *live);

/* ---- stubs.c: a process that is traced ---- */

/* The regions of stubs in a process; the caller frees *regions. */
int stubs_find(pid_t alive, const struct space *space, struct attach_range **regions, size_t *count)
	__attribute__((warn_unused_result));
bool stubs_have(const struct attach_range *regions, size_t count, uint64_t value);
/* The return address that a word of a stack, at that address, stands for. */
uint64_t stubs_original(pid_t alive, const struct attach_range *regions, size_t count, uint64_t address,
			uint64_t value);
/* Give the words of a copied stack that lead to stubs the return addresses that they stand for. */
void stubs_replace(pid_t alive, const struct attach_range *regions, size_t count, uint64_t address,
		   unsigned char *bytes, size_t size);

/* ---- unwind.c ---- */

struct unwinder;

/* Memory that a stopped thread's frames are read from. */
struct stack_copy {
	pid_t tid;
	uint64_t values[NATIVE_DWARF_REGISTERS];
	uint64_t lo, hi; /* copied: [lo, hi) */
	const unsigned char *bytes;
	pid_t alive;			    /* what is not copied is read from there; 0: it is not known */
	const struct attach_range *regions; /* words that lead to these stubs are taken for the return addresses */
	size_t region_count;		    /* that they stand for */
};

struct frame {
	uint64_t pc;
	uint64_t slot; /* where its return address lies, 0 = not known */
	bool exact;    /* the pc itself, not the return address of a call */
};

/* The objects of a process; dynamic symbols and unwind tables are read when they are first wanted. */
int unwinder_open(struct unwinder **out, pid_t pid, pid_t alive, const struct space *space)
	__attribute__((warn_unused_result));
void unwinder_close(struct unwinder *unwinder);
/* Each frame from the innermost on until visit() returns false; true: the last is where the thread began. */
typedef bool unwinder_visit(void *context, const struct frame *frame);
bool unwinder_climb(struct unwinder *unwinder, const struct stack_copy *copy, unwinder_visit *visit, void *context);
/* How many frames; *complete: the last is where the thread began. */
size_t unwinder_frames(struct unwinder *unwinder, const struct stack_copy *copy, struct frame *frames, size_t max,
		       bool *complete);
/* Does the file of the code at pc say how to unwind from there?  Where not, frames are a guess by the frame pointer. */
bool unwinder_has_rules(struct unwinder *unwinder, uint64_t pc);
const char *unwinder_symbol(struct unwinder *unwinder, uint64_t pc);

/* ---- libs.c: what the injection must know of the target's objects ---- */

struct function {
	uint64_t lo, hi; /* run-time; hi = lo: size not known */
	bool unsafe;	 /* the loader or an allocator may be in the middle of something there */
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
	char *unread; /* path of the first whose file cannot be read, or NULL */
	bool musl, old_musl, is_static;
	struct attach_range libc; /* musl's code, and two functions of it */
	uint64_t exit, thread_exit;
	uint64_t load, load_error, errno_location;
	uint32_t load_flags;
	uint64_t entry;		   /* of an agent that is mapped, 0 = none */
	struct attach_range agent; /* and where it lies */
};

int libs_read(struct libs *libs, pid_t alive, const struct space *space, struct calltap_diag *diag)
	__attribute__((warn_unused_result));
/* False in a process that has just begun: its loader maps libc a few ms later. */
bool libs_are_all(const struct libs *libs);
/* Why no agent can be brought into such a process, 0 = it can. */
int libs_refuse(const struct libs *libs, pid_t pid, struct calltap_diag *diag) __attribute__((warn_unused_result));
void libs_free(struct libs *libs);
/* Value of a symbol in an ELF file's dynamic symbol table; 0 = none. */
uint64_t libs_symbol_value(int fd, const char *name);

/* ---- safe.c ---- */

/* Whether a thread with this state can be borrowed; *why says what is against it, for a message. */
bool safe_to_borrow(struct unwinder *unwinder, const struct libs *libs, pid_t alive, const struct native_regs *regs,
		    const struct stack_copy *copy, const char **why);

/* Is there code of an object in which a thread may hold a lock, and is it that of a function which does? */
bool safe_is_special(const struct libs *libs, uint64_t pc);
bool safe_is_dangerous(const struct libs *libs, uint64_t pc);

/* ---- musl.c ---- */

/* Proof that the thread holds none of libc's locks.  *count: the frames of these that are no guess. */
bool musl_holds_nothing(struct unwinder *unwinder, const struct libs *libs, pid_t alive, const struct stack_copy *copy,
			const struct frame *frames, size_t *count);
/* Or that it waits, or sleeps, as a thread does that holds none. */
bool musl_waits(const struct libs *libs, pid_t alive, const struct native_regs *regs, const struct stack_copy *copy);

/* ---- slack.c ---- */

#define SLACK_ALIGN 16u

struct slack {
	uint64_t address;
	size_t size;
	unsigned char original[NATIVE_CODE_MAX];
};

/* A place for the code behind an executable segment that is never unloaded, as its file has it. */
int slack_find(struct slack *slack, pid_t alive, const struct space *space, const struct libs *libs)
	__attribute__((warn_unused_result));
/* What the file has at a mapped place: zeros beyond its end. */
int slack_original(pid_t alive, const struct map *map, uint64_t address, unsigned char *bytes, size_t size)
	__attribute__((warn_unused_result));
/* Where the executable segment that the map shows ends in memory; 0 = it goes on beyond the map, or is none. */
uint64_t slack_segment_end(pid_t alive, const struct map *map);
bool slack_is_free(pid_t alive, const struct slack *slack);
/* attach_slack_restore() in a stop of its own. */
int slack_clean(pid_t pid, bool *in_use) __attribute__((warn_unused_result));

#endif
