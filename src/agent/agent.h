/*
 * The agent's one context struct, and what its files offer each other.
 *
 * The agent is the shared object that lives in a target: it reports what is
 * mapped, writes what it is handed, and keeps the probes' memory.  Context:
 * control, but for the few functions that say otherwise.  It links nothing,
 * calls none of libc's functions but those that it stands in front of, and never ends,
 * aborts or signals the program.
 */
#ifndef AGENT_AGENT_H
#define AGENT_AGENT_H

#include <link.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>

#include <calltap/abi/attach.h>
#include <calltap/abi/control.h>
#include <calltap/abi/start.h>
#include <agent/exec.h>
#include <patch/pages.h>
#include <patch/poke.h>
#include <patch/sites.h>
#include <probe/handlers.h>
#include <probe/thread.h>

#define AGENT_NAME_MAX	 100   /* of the session's socket */
#define AGENT_READY_MS	 20000 /* longest that the program waits for the tool at its start or in dlopen */
#define AGENT_CHILD_MS	 1000  /* longest that a forked child waits for the tool: it has nothing to be patched */
#define AGENT_LEFT_MS	 10000 /* longest that the control thread waits for the thread that brought it in */
#define AGENT_RELEASE_MS 60000 /* longest that the control thread waits for a RELEASE, after DETACHED */
#define AGENT_OWN_STACK	 (64ul << 10)
#define AGENT_HANDLED	 64   /* tables of handlers, at the most: so often may the program move its own */
#define AGENT_FAULTS	 4    /* signals by which a handler may fault */
#define AGENT_STATUS_MAX 4096 /* of /proc/PID/status */
/* Bytes of probe_context.wiped, whole pages. */
#define AGENT_WIPED_SIZE ((sizeof(struct probe_wiped) + CALLTAP_PAGE - 1) & ~(size_t)(CALLTAP_PAGE - 1))

/* The sites of one object: what the tool sent, to switch them and to give the text its bytes back. */
struct agent_sites {
	uint64_t plan_id;
	struct patch_region region;
	const struct calltap_site *list;
	struct patch_pages pages;
	uint32_t count;
	bool waits;	  /* nothing is written yet: APPLY writes the sites */
	bool second;	  /* another plan has the same sites, and their pages */
	bool torn;	  /* a fork came while the sites were written: some are, and some are not */
	uint64_t near_lo; /* around the object's sites */
	uint64_t near_hi;
	uint64_t identity; /* of the object, which may have gone; 0 = it cannot go */
	/* Sites from there on lie in blocks, which other plans of the object share. */
	uint32_t block_first;
	struct patch_region blocks;
};

enum agent_plan_state {
	AGENT_PLAN_NONE,
	AGENT_PLAN_PREPARED, /* the program's text is not written to */
	AGENT_PLAN_WRITTEN,  /* the sites are being written */
};

/* The plan that the control thread carries out.  In one page: a fork copies these words in the order of their stores.
 */
struct agent_open_plan {
	_Alignas(64) uint32_t state; /* enum agent_plan_state */
	uint32_t sites_count;	     /* of struct agent, before the plan */
	uint32_t heads_count;
	uint64_t region; /* of an earlier plan that is carried out again; the plan's, once it is written; 0 = none */
};

/* The heads of an object's functions that no compiler has prepared, and the region of their blocks. */
struct agent_heads {
	struct patch_region blocks;
	const struct calltap_site *list;
	size_t size; /* of the memory that the list lies in, bytes */
	uint32_t count;
	bool led;	   /* some may lead to their blocks */
	uint64_t identity; /* of the object, which may have gone; 0 = it cannot go */
};

/* A word, or a symbol, by which an object gets one of the functions that the agent stands in front of. */
struct agent_pointer {
	uint64_t address;
	uint64_t identity; /* of the object, which may have gone; 0 = it cannot go */
	uint64_t old[3];   /* value before; a word's is the first, 0 = the loader's to write */
	uint32_t to;	   /* enum calltap_pointer_to */
	uint16_t kind;	   /* enum calltap_pointer_kind */
	bool led;	   /* the place leads to the agent, as far as the agent knows */
};

/* A function of the agent's in front of libc's: the program's calls come to `ours` and go on to `next`. */
struct agent_front {
	uint64_t ours, next;
};

struct agent_mapped {
	void *at;
	uint64_t size;	     /* arenas: 0 = the place in the list is free */
	uint64_t generation; /* arenas: of the further instance that has it (probe/thread.h), 0 = none has */
};

/* Memory that grows by doubling, for what the tool sends in pieces. */
struct agent_store {
	void *list;
	size_t count, size; /* elements, and bytes of one */
	size_t room;	    /* bytes */
};

/*
 * Patching fresh text and walking the link map are safe only while the thread that asked for it is held in the
 * constructor or in dlopen.  That thread lets go by itself after AGENT_READY_MS; what comes later is refused.
 */
enum agent_hold {
	AGENT_FREE, /* no thread is held */
	AGENT_HELD,
	AGENT_BUSY, /* held, and the control thread is at work: the thread waits until it is done */
};

/* How the tool has ended the conversation. */
enum agent_goodbye {
	AGENT_GOODBYE_NONE, /* without a word */
	AGENT_GOODBYE,	    /* DETACH */
	AGENT_GOODBYE_RELEASE,
};

enum agent_leave {
	AGENT_STAY,
	AGENT_AWAY, /* recording goes on, and the tool looks at the rings by itself */
	AGENT_END,  /* recording ends, as when the tool goes */
};

/* A jump that makes the loader tell the agent of changes, and the bytes that it replaced. */
struct agent_dlhook {
	uint64_t at; /* 0 = none: the place is free */
	uint8_t old[ARCH_HOOK_BYTES];
};

/* A signal that a handler's fault may be. */
struct agent_fault {
	struct arch_action old; /* the program's */
	bool taken;
};

enum agent_text {
	AGENT_TEXT_FREE,
	AGENT_TEXT_OURS,   /* the control thread writes to text */
	AGENT_TEXT_LOADER, /* the loader unmaps an object */
};

typedef void agent_longjmp_fn(void *env, int value);
typedef int agent_execv_fn(const char *path, char *const *arguments);
typedef int agent_execve_fn(const char *path, char *const *arguments, char *const *environment);
typedef int agent_spawn_fn(int *pid, const char *path, const void *actions, const void *attributes,
			   char *const *arguments, char *const *environment);

/* A region of blocks (blocks.c). */
struct agent_blocks {
	uint64_t lo, hi;
	uint64_t header, header_size; /* address of its .eh_frame_hdr; bytes of that and of .eh_frame behind it */
};
#define AGENT_EH_HEADER 12u /* bytes of an .eh_frame_hdr before its table */

struct agent {
	char session[AGENT_NAME_MAX]; /* NAME:KEY (abi/control.h); "" = not under a tool */
	uint64_t image_id;
	void *stack; /* the control thread's */
	int socket;  /* in the control thread's own descriptor table */
	int tool;    /* the process at its other end; 0 = not known */
	int stat_fd; /* in that table, too, from the tool: the process' stat file of /proc; -1 = none came */
	struct patch_poker poker;
	uint32_t forked;	/* this process is a fork of a traced one */
	uint32_t process;	/* of the last SETUP, which may have been the parent's */
	uint32_t ready;		/* futex word, counted up: threads that wait for the tool may go on */
	uint32_t hold;		/* futex word, enum agent_hold */
	uint32_t holds;		/* how often a thread was held in dlopen */
	uint32_t hold_told;	/* `holds` at the last report of what is mapped, which plans and GO answer */
	uint32_t text;		/* futex word, enum agent_text */
	uint32_t live;		/* 1 while a control thread serves this process */
	uint32_t no_dlhook;	/* dlopen cannot be followed */
	uint32_t control_tid;	/* of the control thread; the kernel makes it 0 when that has ended */
	uint32_t leave;		/* enum agent_leave: the control thread shall end */
	uint32_t emulated;	/* CALLTAP_EMULATED*, from the tool */
	uint32_t own_numbers;	/* an emulator mixes up descriptors of one number in several tables */
	uint32_t alien_threads; /* of this process that are not the program's: an emulator's */
	uint32_t sending;	/* 1 while a control thread is sent away, until there is another */
	uint32_t is_successor;
	uint32_t no_children;	      /* a sandbox forbids what a forked child's start takes */
	uint32_t filtered;	      /* a thread of the process has asked for a filter of system calls */
	uint32_t other_net;	      /* the process has left the network namespace that it began in */
	uint32_t moves;		      /* recording ended, as an object copies parts of stacks; the tool tells it */
	uint32_t blind;		      /* a sandbox forbids reading another sandbox's filter */
	uint32_t no_giving;	      /* a sandbox forbids to give the rings' memory back */
	uint32_t no_handled;	      /* a sandbox forbids what handled functions take, and there were none before */
	uint32_t no_handled_children; /* no_handled of processes that are forked from here on */
	/* agent_clock_lost(): recording ends, and this thread's frames return by themselves. */
	void (*end_recording)(void);
	int attaching;	   /* the process where an attach has begun, and its control thread has not; else 0 */
	uint32_t attached; /* the session began in a process that ran already */
	uint32_t calls_in; /* the tool has made a forked child call in, which is not ready yet */
	uint32_t late;	   /* the agent came by dlopen: the loader finds libc's functions before its own */
	uint32_t keep;	   /* recording goes on without the tool */
	/* The file of a TIMES, and with `keep` zeros in its place for when nobody writes it; NULL: there is none. */
	const struct calltap_times *times, *times_empty;
	uint32_t files;	 /* shared memory may be files that nothing seals */
	uint32_t shadow; /* the process has shadow stacks: return addresses cannot be changed */
	struct calltap_attach
		*borrowed; /* lent by the thread that brought the agent in; to be unmapped when that has left it */
	struct agent_store pointers; /* struct agent_pointer */
	struct agent_front fronts[CALLTAP_POINTERS_TO];
	void *tables; /* the trace's tables, for readers of the target's memory */
	uint64_t tables_size;
	struct agent_store triggers;			   /* struct agent_mapped */
	struct probe_handled_table handled[AGENT_HANDLED]; /* the last one is in use */
	uint32_t handled_count;
	uint64_t handled_file; /* inode of the last table's file */
	struct agent_fault faults[AGENT_FAULTS];
	struct agent_store arenas; /* struct agent_mapped: all that are mapped, also of instances that have ended */
	uint32_t instances;	   /* further instances so far: the last one's generation (probe/thread.h) */
	const struct probe_thread *forker; /* in a forked child: the thread that has forked; else NULL */
	uint32_t instances_inherited;	   /* `instances` at the fork that this process comes from */
	uint32_t dlhook_tried;
	uint32_t dlhook_count;
	struct agent_dlhook dlhooks[CALLTAP_HOOKS_MAX];
	int exit_status;       /* of the control thread: counts when that is the process' last thread */
	uint64_t objects_seen; /* digest of the link map at the last report */
	uint64_t headers;      /* the program's segments, as the kernel tells a new image; 0 = not known */
	uint32_t header_count;
	struct r_debug *loader;		    /* the loader's structure for debuggers, NULL = none */
	const struct calltap_start *placed; /* what the tool has said where there is no loader, else NULL */
	bool fronts_led; /* heads of a static program's functions lead to the agent, which is to give them back */
	bool musl;	 /* libc is musl's */
	bool no_blocks;	 /* threads have no thread-local memory for the agent */
	struct agent_open_plan open;
	struct agent_sites sites[PROBE_REGIONS];
	struct agent_heads heads[PROBE_REGIONS];
	uint32_t heads_count;
	uint32_t sites_count;
	struct agent_blocks blocks[PROBE_REGIONS]; /* appended to by the control thread: region first, count after */
	uint32_t blocks_count;
	uint64_t unwinders[CALLTAP_UNWINDERS_MAX]; /* addresses in unwinders that have asked; 0 = no more */
	uint32_t unwinders_more;		   /* 1: there are other unwinders */
	int (*next_find_object)(void *pc, void *result);
	int (*next_iterate)(int (*callback)(struct dl_phdr_info *, size_t, void *), void *data);
	int (*next_backtrace)(void **frames, int size);
	int (*next_setname)(uint64_t thread, const char *name);
	int (*next_prctl)(int option, unsigned long a, unsigned long b, unsigned long c, unsigned long d);
	int (*next_unshare)(int flags);
	int (*next_setns)(int fd, int kind);
	agent_longjmp_fn *next_longjmp, *next__longjmp, *next_siglongjmp, *next_longjmp_chk;
	int (*next_sigaltstack)(const stack_t *stack, stack_t *old);
	agent_execv_fn *next_execv, *next_execvp;
	agent_execve_fn *next_execve, *next_execvpe;
	agent_spawn_fn *next_spawn, *next_spawnp;
	uint32_t put_back;		 /* another agent had put the variables into this program's environment */
	struct exec_variables variables; /* the agent's, as the environment had them */
};
extern struct agent agent __attribute__((visibility("hidden")));

/* Linker's symbols: where the agent begins and ends in memory. */
extern const char own_begin[] __asm__("__ehdr_start") __attribute__((visibility("hidden")));
extern const char own_end[] __asm__("_end") __attribute__((visibility("hidden")));

/* Put the agent's function in front of the one behind: words and symbols of the program's can be led to it. */
#define AGENT_FRONT(to, function, behind)                                                                              \
	(agent.fronts[to] = (struct agent_front){(uint64_t)(function), (uint64_t)(behind)})

/* control.c: start the control thread and wait for it, bounded; the program's thread, signals blocked. */
void agent_control_start(void);
/* Start the control thread without waiting: its tid, or -errno. */
long agent_control_launch(void) __attribute__((warn_unused_result));
/*
 * End the control thread; true if there was one.  calls: the calling thread
 * may make system calls.
 */
bool agent_control_leave(enum agent_leave how, bool calls) __attribute__((warn_unused_result));
/*
 * Wait, bounded, until the control thread is in its conversation, or gone: not on its way there, or undoing what was
 * done.  The program's thread.
 */
void agent_control_settle(void);
/* After AGENT_AWAY: start another control thread, which takes up the conversation. */
void agent_control_back(void);

/* conversation.c: connect and begin a session; 1: the tool wants nothing from this image. */
int agent_conversation_begin(void) __attribute__((warn_unused_result));
/* Wait for a message and carry it out; 0 to go on, else the conversation is over. */
int agent_conversation_serve(enum agent_goodbye *goodbye) __attribute__((warn_unused_result));
/* Connect, and tell the tool why this image is not traced. */
void agent_conversation_decline(int error, const char *what);

/* ending.c: record no more, let all threads go that wait, give the text its own bytes back. */
void agent_session_clear(struct calltap_msg_detached *detached);
/* The conversation is over: error says why.  served: it had begun. */
void agent_session_end(int error, enum agent_goodbye goodbye, bool served);

/* hold.c: let the threads go on that wait for the tool. */
void agent_ready(void);
/*
 * Let the threads of a forked child go on that wait in their first traced call for agent_child_call_in(), or for
 * another thread's first record: the child records from now on, or never will.
 */
void agent_child_started(void);
/* Hold the calling thread until `ready` is no longer `seen`, or bound_ms are over. */
void agent_wait_ready(uint32_t seen, uint32_t bound_ms);
/* Hold the calling thread, which has bidden the tool to ask what is mapped. */
void agent_hold_start(void);
/* True while a thread is held; it stays held until agent_hold_end(). */
bool agent_hold_begin(void) __attribute__((warn_unused_result));
void agent_hold_end(void);
/*
 * True if the tool has been told what is mapped since the last thread was held.  If not, its message is an answer to an
 * older report: for an object that may be gone, or have threads in it; or the GO of a thread that waits no more, or
 * never did.
 */
bool agent_hold_is_told(void) __attribute__((warn_unused_result));
/* Take the lock of agent_text_take(), if it is free. */
bool agent_text_try(void) __attribute__((warn_unused_result));
/* For the control thread: keep the set of objects as it is.  False: a dlclose has not ended for 20 s. */
bool agent_text_take(void) __attribute__((warn_unused_result));
void agent_text_release(void);
/* For the program's thread in dlclose: an object is about to be unmapped, or is gone. */
void agent_text_unmapping(bool begins);

/* start.c: find what is behind the functions that the agent stands in front of. */
void agent_fronts_init(void);
/*
 * fronts.c: in a static program that ran before the agent came, lead the functions' heads to the agent's, and give them
 * their bytes back; elsewhere nothing is done.  All threads are stopped, and none is within a head's jump. -EBUSY:
 * somebody else has changed a head.
 */
int agent_fronts_lead(void) __attribute__((warn_unused_result));
void agent_fronts_restore(void);
/* At a program's start: the tool may have led them. */
void agent_fronts_note(void);
/* A new program image: begin a session, if the environment asks for one.  Waits for the tool, bounded. */
void agent_image_begin(char *const *environment);
/*
 * As agent_image_begin(), in a static program that a traced one has executed: the session is the caller's, for the
 * environment may not show it.
 */
void agent_executed_begin(char *const *environment, const char *session, uint32_t filters);
/* A forked child calls in, though it has made no traced call; nobody waits.  As calltap_agent_attach(). */
int agent_child_call_in(struct calltap_attach *attach) __attribute__((warn_unused_result));
/* What a process needs once before it can have a session. */
int agent_process_init(void) __attribute__((warn_unused_result));
/* Where a limit of memory is there for the program, planes may take a part of what is left under it from now on. */
void agent_planes_limit(void);
uint64_t agent_random_id(void);

/* release.c: let go of what an earlier session has left, when the tool says so; 0 when there is nothing. */
int agent_leftovers_release(void) __attribute__((warn_unused_result));
bool agent_has_leftovers(void);
/* After DETACHED: wait for the RELEASE and carry it out. */
void agent_release_wait(void);

/* control_plan.c: the answer to a PLAN that is not carried out. */
void agent_plan_refuse(const struct calltap_msg_plan *plan, int error, struct calltap_msg_plan_done *done);
/*
 * heads.c: the part of a plan that is about blocks.  `rest` is what lies in the plan's memory behind its sites, `size`
 * bytes, and is the heads' from then on.  An object that is back at its old place gets its blocks as they were at
 * first.
 */
int agent_heads_take(const struct calltap_msg_plan *plan, const uint8_t *rest, size_t size)
	__attribute__((warn_unused_result));
/* Bytes that a plan's memory has behind its sites. */
size_t agent_heads_room(const struct calltap_msg_plan *plan);
/* The list of the heads that lead to the blocks at this address; NULL = there are none. */
const struct calltap_site *agent_heads_of(uint64_t blocks);
/* Lead the heads of an object whose sites are written. */
int agent_heads_lead(struct patch_result *result, uint64_t blocks, const struct patch_skips *skips)
	__attribute__((warn_unused_result));
/* All threads are stopped: write the heads' own bytes.  Returns how many still lead to their blocks. */
uint32_t agent_heads_restore(void);
/* Forget all heads; their blocks are let go of by agent_blocks_forget(). */
void agent_heads_release(void);
/* Apply a PLAN whose sites are in fd; done is the answer. */
void agent_plan_apply(const struct calltap_msg_plan *plan, int fd, struct calltap_msg_plan_done *done);
/* Write the sites of a plan that waited, all threads being stopped. skips: sites that a thread is within. */
int agent_plan_write(struct agent_sites *kept, const struct patch_skips *skips, struct patch_result *result)
	__attribute__((warn_unused_result));

/*
 * plans.c: a plan is carried out from here on; its sites in the program's text are written from here on, and are all
 * known; it is carried out.
 */
void agent_plan_begin(const struct calltap_msg_plan *plan);
void agent_plan_writes(uint64_t region);
void agent_plan_end(void);
/* A new control thread: of a plan that was being carried out at the fork, keep nothing, or what the text leads to. */
void agent_plan_settle(void);
/* The sites of the plan whose stubs are in that region; NULL: there is none. */
struct agent_sites *agent_sites_of(uint64_t region);
/* Tell the tool which plans this process has (PLANS). */
int agent_plans_tell(void) __attribute__((warn_unused_result));

/* apply.c: carry an APPLY out, whose size is right. */
void agent_apply(const struct calltap_msg_apply *message, struct calltap_msg_apply_done *done);

/* pointers.c: take a POINTERS, whose size is right. -errno: there are too many pointers, or there is no memory. */
int agent_pointers_take(const struct calltap_msg_pointers *message) __attribute__((warn_unused_result));
/* Write the pointers that wait; returns how many lead to the agent now. */
uint32_t agent_pointers_write(const struct agent_store *maps);
/* Give the pointers their old values, threads being stopped; returns how many. */
uint32_t agent_pointers_restore(void);

/* settings.c: what changes while recording goes on; -EPROTO when the size is wrong. */
int agent_set_take(const struct calltap_msg_set *set) __attribute__((warn_unused_result));
int agent_tables_take(const struct calltap_msg_tables *tables, int fd) __attribute__((warn_unused_result));
int agent_triggers_take(const struct calltap_msg_triggers *triggers, int fd) __attribute__((warn_unused_result));
/* instances.c: begin or end a further instance; done is the answer.  -EBUSY: too many that have ended are still mapped.
 */
int agent_instance_take(const struct calltap_msg_instance *message, int fd, struct calltap_msg_instance_done *done)
	__attribute__((warn_unused_result));
/* End all further instances, as nobody reads what they record. */
void agent_instances_end(void);
/* Unmap the tables and the triggers: nobody records. */
void agent_settings_release(void);

/* handlers.c: answer a HANDLERS, a HANDLERS_WAIT; -EPROTO when the size is wrong. */
int agent_handlers_take(const struct calltap_msg_handlers *message, int fd) __attribute__((warn_unused_result));
int agent_handlers_wait(const struct calltap_msg *message) __attribute__((warn_unused_result));
/* Stubs are made of these sites: note the bodies of handled functions. */
void agent_handlers_note(const struct agent_sites *kept);
/* True if a thread runs handlers. */
bool agent_handlers_run(void) __attribute__((warn_unused_result));
/* Call no handler any more; wait for those that run, bounded. */
void agent_handlers_end(void);
/* Unmap all tables: no thread is in the dispatcher. */
void agent_handlers_release(void);

/* constants.c: memory that stays readable.  Before the program's own code runs, or there is none. */
const struct probe_constants *agent_constants_find(void);

/* programs.c: answer a PROGRAMS; -EPROTO when the size is wrong. */
int agent_programs_take(const struct calltap_msg_programs *message, int fd) __attribute__((warn_unused_result));
/*
 * times.c: take the file of a TIMES; -EPROTO: the message is wrong.  agent_times_may(): whether a site may be as its
 * flags say.
 */
int agent_times_take(const struct calltap_msg_times *message, int fd) __attribute__((warn_unused_result));
bool agent_times_may(const struct calltap_site *site);
void agent_times_release(void);
/*
 * With `keep`: the tool moves the tick, or it does not, or it may stop to while no control thread is there to see that.
 * Then all calls have their times.
 */
void agent_times_follow(bool tool);
/* programs.c: take the map of a COUNTS; PROGRAMS_DONE answers that message, too.  -EPROTO: the size is wrong. */
int agent_counts_take(const struct calltap_msg_counts *message, int fd) __attribute__((warn_unused_result));
/* Run no program any more, and unmap the tables: no thread is in one.  The code goes with the blocks. */
void agent_programs_release(void);

/* <cpu>/vectors.c: how the CPU's vector registers are kept around handlers. */
void agent_vectors_find(struct probe_handled_table *table);
/* The address of helper VECTOR (abi/program.h); 0 = there is none. */
uint64_t agent_vectors_helper(void);
/* <cpu>/faults.c: take the signals of faults; give them back, unless the program has set something else. */
void agent_faults_take(void);
void agent_faults_give_back(void);

/* sites.c: carry a SWITCH out, whose size is right. */
void agent_sites_switch(const struct calltap_msg_switch *message, struct calltap_msg_switch_done *done);
/* Give the text its own bytes back. */
void agent_sites_restore(struct calltap_msg_detached *done);

/* memory.c */
/*
 * Map memory of the tool's; the address or -errno.  Only a memfd of that size
 * whose seals say that it stays so: an access beyond its end would be a SIGBUS.
 */
void *agent_map(int fd, uint64_t size, int prot, int flags, int seals) __attribute__((warn_unused_result));
int agent_memory_init(void) __attribute__((warn_unused_result)); /* once per image */
/* generation: 0 for set 0, else the further instance's. */
int agent_arena_add(uint32_t set, uint32_t generation, int fd, uint64_t size) __attribute__((warn_unused_result));
/*
 * Unmap what the pointer leads to, if it leads anywhere.  Program threads may fork meanwhile, and the child unmaps what
 * it knows of, where another thread may have its own memory by then: so the pointer is NULL before.
 */
#define agent_unmap(pointer, size)                                                                                     \
	do {                                                                                                           \
		const void *agent_unmap_at = (pointer);                                                                \
                                                                                                                       \
		__atomic_store_n(&(pointer), NULL, __ATOMIC_RELEASE);                                                  \
		if (agent_unmap_at)                                                                                    \
			sys_munmap((void *)(uintptr_t)agent_unmap_at, size);                                           \
	} while (0)
/* Unmap an arena to which nobody writes any more; its place in agent.arenas is free before, with size 0. */
void agent_arena_unmap(struct agent_mapped *arena);
/* Wake every writer that waits for a reader that is gone. */
void agent_wake_writers(void);
/* Wait until no writer waits for a reader that reads on, or as long as a writer may wait. */
void agent_await_writers(void);
/* Nobody reads the rings any more: give their memory back, but for what threads that still record may read. */
void agent_rings_empty(void);
/* Unmap all that the tool shares, and make the rest as new: nobody records. */
void agent_memory_release(void);
/* Append elements; -ENOMEM. */
int agent_store_add(struct agent_store *store, const void *elements, size_t count) __attribute__((warn_unused_result));
void agent_store_empty(struct agent_store *store);
/* Copy from where there may be nothing; false then. */
bool agent_copy_in(void *to, uint64_t from, size_t size) __attribute__((warn_unused_result));
/* Can this address be read?  Asked of the kernel: a look would be a fault. */
bool agent_can_read(uint64_t address) __attribute__((warn_unused_result));
#define AGENT_PAGES_MAX 16u
/* How many of so many pages can be read, from the first on; it may be fewer than there are. */
unsigned agent_readable_pages(uint64_t page, uint64_t count) __attribute__((warn_unused_result));

/* clock.c: the counter, and the time at the same moment. */
void agent_clock_sample(uint64_t *ticks, uint64_t *monotonic_ns);
uint32_t agent_clock_cost(void);				/* ticks that CALLTAP_CLOCK_READS reads take */
int agent_clock_tell(void) __attribute__((warn_unused_result)); /* the answer to CLOCK */

/* forks.c: under an emulator, see to it that a forked child's memory is wiped. */
void agent_forks_watch(void);

/*
 * threads.c: what is at an offset in the block of the thread that has writer i
 * of set 0: zeros when there is none, or its memory is gone with it; all bits
 * set when that cannot be told.
 */
void agent_thread_read(uint32_t i, size_t offset, void *words, size_t size);
/* True if the thread that has writer i of set 0 has ended; anything may lie where its block was. */
bool agent_thread_has_ended(uint32_t i) __attribute__((warn_unused_result));
/* How far the initial thread's stack may reach down; emulated: it was not the kernel that placed it. */
void agent_main_stack_note(bool emulated);
/* When recording of an emulated process begins: note which threads are not the program's. */
void agent_threads_note(void);
/* True if every thread but the control thread has ended: *status is what the process is to exit with. */
bool agent_threads_last(int *status) __attribute__((warn_unused_result));

/* objects.c */
int agent_objects_send(void) __attribute__((warn_unused_result)); /* OBJECT ... OBJECTS_END */
/* agent_objects_send() while the program runs on: copies the list, and reads it again until nothing has changed. */
int agent_objects_send_live(void) __attribute__((warn_unused_result));
/* The objects that are mapped; the caller empties the store, which has none if they cannot be read. */
bool agent_objects_read(struct agent_store *maps);
/* Read the objects that are mapped; true if they were reported last.  No thread may be changing the set of objects. */
bool agent_objects_are_reported(struct agent_store *maps) __attribute__((warn_unused_result));
/* True if the object with this identity is among them.  True, too, if identity is 0, or they could not be read. */
bool agent_objects_have(const struct agent_store *maps, uint64_t identity);
/* True if the loader is at work on the set of objects. */
bool agent_loader_is_busy(void) __attribute__((warn_unused_result));
void agent_dlhook_install(void);
void agent_dlhook_remove(void);

/*
 * blocks.c: a region of blocks is mapped, with its .eh_frame_hdr and what belongs to that at an address in it; the
 * region's memory is the list's from then on.  -ENOSPC, -EINVAL.
 */
int agent_blocks_add(uint64_t lo, uint64_t hi, uint64_t header, uint64_t header_size)
	__attribute__((warn_unused_result));
/* The region of blocks that address is in; NULL: none.  On any thread, at any time. */
const struct agent_blocks *agent_blocks_of(uint64_t address);
/* Unmap all regions of blocks: no thread is in one, no head leads there.  Debuggers are told before. */
void agent_blocks_forget(void);

/* debugger.c: tell debuggers of a region's stubs, of a region of blocks. */
void agent_debugger_tell(const struct patch_region *region);
void agent_debugger_tell_blocks(const struct agent_blocks *blocks);
/* Tell debuggers that all regions go. */
void agent_debugger_forget(void);
/* The process that traces the calling thread by ptrace(), as a debugger does; 0 = none does, or it cannot be known. */
uint32_t agent_tracer(void);

/* status.c: read a small text file, at most size - 1 bytes of it; false = it cannot be had. */
bool agent_read_text(const char *path, char *text, size_t size) __attribute__((warn_unused_result));
/*
 * The rest of what /proc/PID/stat says, behind the program's name.  The name may have any bytes; the last ')' of the
 * text ends it.  NULL: the text has no name.
 */
const char *agent_behind_name(const char *text);
/* The number in a field, from 0 on, of those that single blanks part; 0 = there is none. */
uint64_t agent_field(const char *text, unsigned field);
/* The number after a name at the start of a line other than the first; 0 when it is not there. */
uint32_t agent_number_after(const char *text, const char *name);

/* unwind.c, backtrace.c, names.c, calls.c, contexts.c, exec.c: find libc's functions that the agent stands in front of.
 */
void agent_unwind_init(void);
void agent_backtrace_init(void);
void agent_names_init(void);
void agent_calls_init(void);
/* CPU/syscall.S, in front of libc's syscall(), calls these: prctl and seccomp; and libc's, for all others. */
long agent_syscall(long number, long a, long b, long c, long d, long e);
extern long (*agent_next_syscall)(long number, long a, long b, long c, long d, long e, long f);
void agent_contexts_init(void);
void agent_exec_init(void);
/* tasks.c: find the functions that tell of files. */
void agent_tasks_init(void);
/* locks.c: find libc's mlockall(). */
void agent_locks_init(void);
/* A tool attaches: note whether the program has all memory locked that is mapped from now on. */
void agent_locks_look(void);
/* x86_64/mcount.c, mcount.c: likewise the functions that code built with -pg calls. */
void agent_mcount_init(void);
/*
 * unwinder.c: likewise the unwinder's functions, if there is an unwinder by now.  It may be loaded later.  Nobody may
 * change the loader's list meanwhile.
 */
void agent_unwinder_look(void);
/* backtrace.c: is the address in a stub, or in the agent? */
bool agent_is_ours(const void *address);
/* mark.c: say which function libcalltap.so's word for marks is to lead to. */
void agent_marks_init(void);
/* calls.c: once it is known that system calls may be made; where libc notes threads' ids, and the kernel their CPUs. */
void agent_tid_find(void);
void agent_cpu_find(void);
/* names.c: note the calling thread's kernel name in its rings. */
void agent_name_refresh(void);

/*
 * channel.c: wait for a message of the tool's, at most wait_ms; 0 = without
 * end.  0; -EPIPE when nobody is left to serve, -ETIMEDOUT, or another reason
 * to end.
 */
int agent_wait_message(uint64_t wait_ms) __attribute__((warn_unused_result));
/* True if the tool is stopped by a signal, so that it does not answer; false also where that cannot be known. */
bool agent_tool_is_stopped(void);
/* Send a message; 0 or -errno. */
int agent_send(const void *message, uint32_t size) __attribute__((warn_unused_result));
/* Receive a message, which must be there; 0 or -errno.  fds: up to `max` descriptors that came along, -1 for none. */
int agent_receive(void *message, uint32_t size, int *fds, unsigned max) __attribute__((warn_unused_result));
int agent_connect(void) __attribute__((warn_unused_result));
/* KEY of the session (abi/control.h). */
uint64_t agent_session_key(void);
/* Tell the tool what could not be done, a clause such as "cannot map its buffers", and why. */
void agent_complain(int error, const char *what);

#endif
