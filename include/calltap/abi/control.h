/*
 * The control socket: messages between the agent in a target and the tool.
 *
 * A Unix SOCK_SEQPACKET socket, one connection per process image, one message
 * per packet, little-endian fixed layouts.  CALLTAP_SESSION in the environment
 * is NAME:KEY.  The agent connects to the abstract socket NAME.  Agent and tool
 * each check that the peer runs as the same user or root.  The tool also wants
 * the KEY, 16 hex digits, in the HELLO: names of sockets are for all to see.
 *
 *     agent                                   tool
 *     HELLO (new image, or after fork)  ->
 *                                       <-    SETUP  + fds: board, first arena, and
 *                                              /proc/PID/stat of the agent's process if it can be had
 *     OBJECT ... OBJECTS_END            ->
 *                                       <-    PLAN   + fd: its sites   (any number)
 *     PLAN_DONE (one per PLAN)          ->
 *                                       <-    GO     (the waiting thread runs on)
 *
 * The messages from OBJECT on come again when the set of objects changes (dlopen, dlclose): the agent raises
 * calltap_arena.request and the board's doorbell, and the tool answers with RESCAN.  A fork's child sends HELLO with
 * CALLTAP_HELLO_FORKED, and PLANS as long as it has not told `plans` of them; it gets SETUP and GO, for its text is
 * patched already.  Plans that it lacks come in front of GO, with an APPLY where one has to be.  At any time the tool
 * may send ARENA; SWITCH, which the agent answers by SWITCH_DONE; CLOCK, also before SETUP, which it answers by
 * CLOCK_TOLD; and SET, TABLES and TRIGGERS, which have no answer.  The agent answers HANDLERS and HANDLERS_WAIT by
 * HANDLERS_DONE, INSTANCE by INSTANCE_DONE, PROGRAMS by PROGRAMS_DONE, and DETACH by DETACHED when the text is as it
 * was; then the connection ends.  Either side takes an unknown type or a wrong size as the end of the connection.
 *
 * A process that the tool attached to runs meanwhile (CALLTAP_HELLO_ATTACHED):
 *
 *     OBJECT ... OBJECTS_END            ->
 *                                       <-    POINTERS              (any number, kept until APPLY)
 *                                       <-    PLAN, CALLTAP_PLAN_STOPPED, + fd   (any number)
 *     PLAN_DONE (one per PLAN)          ->
 *                                       <-    APPLY  (all threads but the agent's are stopped)
 *     APPLY_DONE                        ->
 *                                       <-    GO     (the threads run again)
 *
 * The messages from OBJECT on come again after an APPLY that found other objects (-ESTALE): the tool asks by RESCAN.
 * With CALLTAP_HELLO_LEFTOVERS the agent tells which stub regions an earlier session has left, and the conversation
 * begins with
 *
 *     REGIONS (any number)              ->
 *                                       <-    HEADS  (all threads but the agent's are stopped; to an agent without
 *                                               its process's mem file, with that)
 *     HEADS_DONE                        ->
 *                                       <-    UNWINDERS
 *     UNWINDERS_TOLD                    ->
 *                                       <-    RELEASE  (or the threads run again, and are stopped once more)
 *     RELEASED                          ->    (the threads run again; without an error SETUP follows)
 *
 * At the end, after DETACH with CALLTAP_DETACH_RELEASE and DETACHED, the messages from HEADS to RELEASED come
 * again; then the connection ends.
 */
#ifndef CALLTAP_ABI_CONTROL_H
#define CALLTAP_ABI_CONTROL_H

#include <stdint.h>

#define CALLTAP_ABI_VERSION 27u
#define CALLTAP_ENV_SESSION "CALLTAP_SESSION"
/* How many seccomp filters the tool itself runs under; not set when none.  With more, the agent stays out. */
#define CALLTAP_ENV_FILTERS "CALLTAP_FILTERS"
/* The agent has put these variables into an environment that lacked them, and takes them out when the program starts.
 */
#define CALLTAP_ENV_PUT_BACK "CALLTAP_PUT_BACK"
#define CALLTAP_MSG_MAX	     4608u

enum calltap_msg_type {
	CALLTAP_MSG_HELLO = 1,
	CALLTAP_MSG_OBJECT = 2,
	CALLTAP_MSG_OBJECTS_END = 3,
	CALLTAP_MSG_PLAN_DONE = 4,
	CALLTAP_MSG_FAULT = 5, /* the agent could not go on; text says why */
	CALLTAP_MSG_SWITCH_DONE = 6,
	CALLTAP_MSG_DETACHED = 7,
	CALLTAP_MSG_CLOCK_TOLD = 8,
	CALLTAP_MSG_APPLY_DONE = 9,
	CALLTAP_MSG_RELEASED = 10,
	CALLTAP_MSG_REGIONS = 11,
	CALLTAP_MSG_HANDLERS_DONE = 12,
	CALLTAP_MSG_INSTANCE_DONE = 13,
	CALLTAP_MSG_UNWINDERS_TOLD = 14,
	CALLTAP_MSG_HEADS_DONE = 15,
	CALLTAP_MSG_PROGRAMS_DONE = 16,
	CALLTAP_MSG_PLANS = 17,

	CALLTAP_MSG_SETUP = 32,
	CALLTAP_MSG_PLAN = 33,
	CALLTAP_MSG_GO = 34,
	CALLTAP_MSG_RESCAN = 35,
	CALLTAP_MSG_ARENA = 36,
	CALLTAP_MSG_DETACH = 37, /* give the text its own bytes back and end the connection */
	CALLTAP_MSG_SWITCH = 38,
	CALLTAP_MSG_CLOCK = 39, /* ask for a clock sample; no more than a head */
	CALLTAP_MSG_POINTERS = 40,
	CALLTAP_MSG_APPLY = 41,
	CALLTAP_MSG_RELEASE = 42,
	CALLTAP_MSG_SET = 43,
	CALLTAP_MSG_TABLES = 44,
	CALLTAP_MSG_TRIGGERS = 45,
	CALLTAP_MSG_HANDLERS = 46,
	CALLTAP_MSG_HANDLERS_WAIT = 47, /* no more than a head */
	CALLTAP_MSG_INSTANCE = 48,
	CALLTAP_MSG_UNWINDERS = 49, /* no more than a head; the agent answers in the state in which it takes RELEASE */
	CALLTAP_MSG_HEADS = 50,	    /* give heads of functions their own bytes back; as UNWINDERS */
	CALLTAP_MSG_PROGRAMS = 51,
	CALLTAP_MSG_COUNTS = 52,
	CALLTAP_MSG_TIMES = 53,
};

struct calltap_msg {
	uint32_t type; /* enum calltap_msg_type */
	uint32_t size; /* bytes of the whole message */
};

#define CALLTAP_HELLO_FORKED   1u /* child of a traced process: no plan wanted */
#define CALLTAP_HELLO_BACK     2u /* an image that the tool knows, on a new connection: only GO is wanted */
#define CALLTAP_HELLO_ATTACHED 4u /* the agent came into a running process: nobody waits for GO */
#define CALLTAP_HELLO_LEFTOVERS                                                                                        \
	8u /* stubs of an earlier session, which no RELEASE ended, are left: REGIONS, and RELEASE before SETUP */

#define CALLTAP_HELLO_PUT_BACK                                                                                         \
	16u /* another agent has put CALLTAP_SESSION into the environment, which shows it no more */

/*
 * The process may not open its own /proc/PID/mem, which is root's where it has dropped rights (PR_SET_DUMPABLE): SETUP,
 * or with BACK the GO, brings a descriptor of that file.
 */
#define CALLTAP_HELLO_NO_MEMORY 32u

#define CALLTAP_CLOCK_READS 64u /* reads that calltap_msg_hello.clock_cost is for */

struct calltap_msg_hello {
	struct calltap_msg head;
	uint32_t version; /* CALLTAP_ABI_VERSION */
	uint32_t flags;
	uint32_t pid, tid, ppid; /* in the target's own pid namespace */
	uint32_t page_size;
	uint32_t machine;      /* ELF e_machine of the agent */
	uint32_t clock_cost;   /* ticks that CALLTAP_CLOCK_READS reads of the clock took */
	uint64_t ticks;	       /* the clock when the agent made the HELLO */
	uint64_t monotonic_ns; /* CLOCK_MONOTONIC at the same moment; 0 = not asked for */
	uint64_t clock_hz;     /* ticks a second; 0 = the CPU does not say */
	uint64_t image_id;     /* random per process image, kept over fork */
	uint64_t key;	       /* KEY of CALLTAP_SESSION */
	uint32_t
		process; /* CALLTAP_HELLO_FORKED: of the SETUP that this process, or one that it comes from, had last */
	uint32_t plans;	 /* CALLTAP_HELLO_FORKED: that PLANS will tell of */
	char exe[];	 /* path of the program as the target sees it, NUL-terminated; "" = not known, or forked */
};

/* The target's clock and the time, for a tool that cannot read that clock itself. */
struct calltap_msg_clock_told {
	struct calltap_msg head;
	uint64_t ticks;
	uint64_t monotonic_ns;
};

/* An object of the link map; path is the loader's name, "" for the executable. */
struct calltap_msg_object {
	struct calltap_msg head;
	uint64_t base;	   /* load bias (l_addr) */
	uint64_t dynamic;  /* address of the object's dynamic section (l_ld) */
	uint64_t identity; /* differs between objects that lay at the same place one after the other; not 0 */
	char path[];	   /* NUL-terminated; size is in head */
};

#define CALLTAP_OBJECTS_NO_DLHOOK 1u /* dlopen cannot be followed in this process */

#define CALLTAP_HOOKS_MAX 16u

struct calltap_msg_objects_end {
	struct calltap_msg head;
	uint32_t flags;			   /* CALLTAP_OBJECTS_* */
	uint32_t hook_bytes;		   /* bytes that APPLY writes at each place in hooks */
	uint64_t hooks[CALLTAP_HOOKS_MAX]; /* addresses in the loader, up to the first 0 */
};

#define CALLTAP_SETUP_KEEP  1u /* recording goes on when the tool is gone without DETACH: overwrite mode alone */
#define CALLTAP_SETUP_FILES 2u /* arenas and tables may be files on tmpfs, which nothing seals */
#define CALLTAP_SETUP_BRIEF 4u /* calls may have no times: sub-buffers do not begin with the frames that are open */

#define CALLTAP_EMULATED	  1u /* an emulator answers for the kernel: features that it reports need not work */
#define CALLTAP_EMULATED_NO_FORKS 2u /* the emulator kills forked children that start a thread */

struct calltap_msg_setup {
	struct calltap_msg head;
	uint32_t mode;		  /* enum calltap_mode */
	uint32_t depth_max;	  /* frames, 0 = no limit */
	uint64_t threshold_ticks; /* calls shorter than this leave no record; 0 = off */
	uint32_t tree_filter;	  /* 1: only inside CALLTAP_SITE_ROOT functions */
	uint32_t wait_max_ms;	  /* block mode: longest wait without progress */
	uint64_t arena_size;	  /* bytes of the arena that comes along */
	uint32_t dormant;	  /* 1: nothing to trace in this image, the agent lets go */
	uint32_t emulated;	  /* CALLTAP_EMULATED*, 0 = no emulator runs the process */
	uint32_t flags;		  /* CALLTAP_SETUP_* */
	uint32_t process;	  /* the tool's number of the process; a forked child's HELLO brings it */
};

struct calltap_msg_arena {
	struct calltap_msg head;
	uint64_t arena_size;
	uint32_t set; /* 0: the session's own rings; else a further instance's */
	uint32_t reserved;
};

enum calltap_instance_what {
	CALLTAP_INSTANCE_END = 0,
	CALLTAP_INSTANCE_BEGIN = 1,  /* with its first arena, which comes along */
	CALLTAP_INSTANCE_LIMITS = 2, /* the instance has other limits from now on, which do not change open frames */
};

enum calltap_instance_flags {
	CALLTAP_INSTANCE_CALLS = 1,  /* BEGIN: tracer "function": entries only, with the caller */
	CALLTAP_INSTANCE_TREES = 2,  /* BEGIN and LIMITS: calls are recorded below roots alone (struct calltap_roles) */
	CALLTAP_INSTANCE_HIDES = 4,  /* BEGIN and LIMITS: there may be functions that hide what they call */
	CALLTAP_INSTANCE_FILES = 16, /* BEGIN: arenas may be files on tmpfs, as with CALLTAP_SETUP_FILES */
	CALLTAP_INSTANCE_FRAMES = 32,  /* BEGIN: behind each ENTRY a CALLTAP_EVENT_FRAME tells where the frame lies */
	CALLTAP_INSTANCE_BRIEF = 64,   /* BEGIN: calls of brief functions have no times (times.h, `further`) */
	CALLTAP_INSTANCE_TRIGGERS = 8, /* BEGIN: the instance is refused (-ENOMEM) if TRIGGERS was not taken before */
};

struct calltap_msg_instance {
	struct calltap_msg head;
	uint32_t set;  /* from 1 */
	uint32_t what; /* enum calltap_instance_what */
	uint64_t arena_size;
	uint32_t flags;		  /* enum calltap_instance_flags */
	uint32_t depth_max;	  /* BEGIN and LIMITS: frames of a thread that are recorded at once, 0 = all */
	uint64_t threshold_ticks; /* BEGIN and LIMITS: calls shorter than this leave no record, 0 = all leave one */
};

/* The answer to INSTANCE.  After the answer to END no thread begins another record of the instance's. */
struct calltap_msg_instance_done {
	struct calltap_msg head;
	uint32_t set;
	int32_t error; /* -errno: the instance did not begin; else 0 */
};

/* The trace file without its records (tables.h), in a memfd that comes along.  The agent only keeps it mapped. */
struct calltap_msg_tables {
	struct calltap_msg head;
	uint64_t size;
};

/* struct calltap_triggers (profile.h), in a sealed memfd that comes along. */
struct calltap_msg_triggers {
	struct calltap_msg head;
	uint64_t size;
};

/*
 * Handlers of the program's own (handlers.h): the table of the receivers of each function's calls, struct
 * calltap_handled by function id, in a memfd that comes along and never shrinks.
 */
struct calltap_msg_handlers {
	struct calltap_msg head;
	uint64_t functions; /* rows */
	uint64_t handlers;  /* address of the struct calltap_handlers in the target; 0: the program has no handlers */
};

/*
 * Programs for functions' values (program.h): tables and code, CALLTAP_PROGRAMS_SIZE bytes, in a memfd that comes
 * along. Once for each process image.
 */
struct calltap_msg_programs {
	struct calltap_msg head;
	uint64_t size;
};

/*
 * Where programs count (maps.h): a struct calltap_map in a memfd that comes along.  In front of PROGRAMS, whose answer
 * is also about this; once for each process image.
 */
struct calltap_msg_counts {
	struct calltap_msg head;
	uint64_t size;
	uint32_t flags; /* CALLTAP_COUNTS_* */
	uint32_t reserved;
};
#define CALLTAP_COUNTS_ONE    1u /* this process alone: its forked children do not count */
#define CALLTAP_COUNTS_NEWEST 2u /* a key without room takes that of another one (maps.h) */

/* Whose calls have times (times.h): a struct calltap_times in a memfd that comes along, in front of the first PLAN. */
struct calltap_msg_times {
	struct calltap_msg head;
	uint64_t size;
};

struct calltap_msg_programs_done {
	struct calltap_msg head;
	int32_t error; /* -errno: the process runs no programs, and records no values; else 0 */
	uint32_t reserved;
};

/* After HANDLERS_WAIT, 0: every handler that ran when that message came has returned; -EAGAIN: not yet, ask again. */
struct calltap_msg_handlers_done {
	struct calltap_msg head;
	int32_t error;
	uint32_t reserved;
};

#define CALLTAP_HAD_WAITS 1u /* the sites wait for APPLY */
#define CALLTAP_HAD_TORN  2u /* the fork came while the sites were written: some are, and some are not */

/* A plan that a forked child has, as its parent had it at the fork. */
struct calltap_had_plan {
	uint64_t plan_id;
	uint64_t region; /* address of the stub region */
	uint64_t blocks; /* of the region of blocks, 0 = none */
	uint32_t flags;	 /* CALLTAP_HAD_* */
	uint32_t reserved;
};

#define CALLTAP_PLANS_MAX 128u /* plans in one message */

/* A forked child tells which plans it has.  A plan's number is that of the process which the child's HELLO names. */
struct calltap_msg_plans {
	struct calltap_msg head;
	uint32_t count;
	uint32_t reserved;
	struct calltap_had_plan plans[]; /* size is in head */
};

/*
 * A plan: the sites of one object, in a sealed memfd that comes along.
 *
 * The last block_sites of the list lie in blocks (doc/design/stock.md): their addresses are in [blocks, blocks +
 * blocks_size).  From the next page on the memfd has their heads, one struct calltap_site with CALLTAP_SITE_HEAD for
 * each of them and in their order, and from the next multiple of 16 on the blocks_size bytes that the agent maps at
 * `blocks`.  Plans with CALLTAP_PLAN_STUBS have neither heads nor bytes: the blocks are those of the first plan.
 */
struct calltap_msg_plan {
	struct calltap_msg head;
	uint64_t plan_id; /* PLAN_DONE gives it back */
	uint64_t near_lo; /* stubs must lie within reach of [near_lo, near_hi) */
	uint64_t near_hi;
	uint64_t stub_bytes; /* size of the stub region, bytes */
	uint64_t region;     /* 0: make the region; else the address of a region made earlier, to be used again */
	uint64_t identity;   /* the object's; the sites are there as long as the object is.  0: always */
	uint32_t site_count;
	uint32_t live;	      /* enum calltap_plan_live */
	uint64_t blocks;      /* a multiple of the page size; 0: there are none.  -EEXIST in the answer: not free */
	uint32_t blocks_size; /* bytes */
	uint32_t block_sites;
	uint32_t header_off;  /* of the blocks' .eh_frame_hdr, from `blocks` on */
	uint32_t header_size; /* with the .eh_frame behind it, bytes */
};

/* The first bytes of a region of blocks are the agent's: the address of a recorder, by which a tool knows the region.
 */
#define CALLTAP_BLOCKS_HEAD 16u

enum calltap_plan_live {
	CALLTAP_PLAN_FRESH = 0,	  /* no thread runs in the object: stubs and sites are written at once */
	CALLTAP_PLAN_STOPPED = 1, /* threads run in the object: stubs are written at once, sites with APPLY */
	CALLTAP_PLAN_STUBS = 2,	  /* stubs alone, for sites of an earlier plan: SWITCH leads the sites to them */
};

/* Flags of a site: the tool decides what its stub does. */
#define CALLTAP_SITE_GATED	1u    /* test the thread's gate first */
#define CALLTAP_SITE_FULL_ENTRY 2u    /* entry by the full recorder (depth, filters) */
#define CALLTAP_SITE_FULL_EXIT	4u    /* exit by the full recorder (threshold) */
#define CALLTAP_SITE_ROOT	8u    /* opens the tree filter's gate */
#define CALLTAP_SITE_NOTREE	16u   /* closes the tree filter's gate for everything below */
#define CALLTAP_SITE_CALL	32u   /* tracer "function": entry only, with the caller */
#define CALLTAP_SITE_OFF	64u   /* the site is written in its switched-off form */
#define CALLTAP_SITE_TIMED	128u  /* keeps the entry's time beside the frame: profile, and triggers on durations */
#define CALLTAP_SITE_PROFILE	256u  /* tracer "profile": counted in the thread's table, no records */
#define CALLTAP_SITE_TRIGGER	512u  /* the exit asks whether the call took longer than the function's limit */
#define CALLTAP_SITE_HANDLED	1024u /* goes to the dispatcher of handlers; with CALL: nobody waits for the exit */
#define CALLTAP_SITE_BRIEF	4096u /* calls may be brief (times.h); id is below CALLTAP_TIMES_FUNCTIONS */
/*
 * x86-64, with BRIEF and no other flag but OFF, in a plan without GATED: the function's body is a leaf
 * (arch/x86_64/isa/leaf.h), which may run with the stack lower than its caller left it.
 */
#define CALLTAP_SITE_LEAF 8192u
#define CALLTAP_SITE_HEAD 2048u /* no site but the head that leads to a block (patch/blocks.h) */

struct calltap_site {
	uint64_t address;  /* where the jump is written */
	uint32_t id;	   /* function id */
	uint32_t stub_off; /* offset of the stub in the region */
	uint16_t flags;	   /* CALLTAP_SITE_* */
	uint8_t length;	   /* bytes verified and replaced at address, whole instructions: 2 to 15 (x86-64) */
	uint8_t body_off;  /* the body goes on at address + body_off */
	/*
	 * Length below 5 (x86-64): the 5-byte jump lies at address + tramp_off.  A head with an offset leads to the
	 * island there (RISC-V), which may lie in the head itself: what islands lead to begins at blocks +
	 * CALLTAP_BLOCKS_HEAD.
	 */
	int32_t tramp_off;
	uint8_t old[16]; /* expected: length bytes at address, then 5 at the trampoline if there is one */
};

struct calltap_msg_plan_done {
	struct calltap_msg head;
	uint64_t plan_id;
	uint64_t region; /* address of the stub region */
	uint32_t patched;
	uint32_t failed; /* sites left alone: their bytes differed, or they were out of reach */
	uint32_t first_failed_id;
	int32_t error; /* 0, or -errno that stopped the whole plan */
	uint64_t elapsed_ticks;
};

#define CALLTAP_SWITCH_MAX 1024u /* sites in one message */

/*
 * Switch sites on or off while threads run through them.  All plans of one object have the same sites in the same
 * order.  On: the site leads to this plan's stub from then on, wherever it led before.  Off: the site leads to no
 * plan's stub any more.
 */
struct calltap_msg_switch {
	struct calltap_msg head;
	uint64_t plan_id;
	uint32_t on;
	uint32_t count;
	uint32_t sites[]; /* places in the plan's list, from 0; size is in head */
};

struct calltap_msg_switch_done {
	struct calltap_msg head;
	uint64_t plan_id;
	uint32_t switched; /* sites that are as wanted now, also those that were before */
	uint32_t failed;   /* sites that do not exist, were never patched, were changed by others, or are unloaded */
};

/*
 * Functions of libc's that the agent stands in front of.  In a process that the agent came into later, the loader has
 * bound callers to libc already, and binds objects that come later to libc, too.
 *
 * The agent keeps words of objects that were there, and writes them with APPLY.  The loader writes words of an object
 * in a held dlopen (CALLTAP_POINTERS_FRESH) after the dlopen was let go.  So there the agent makes the symbol lead to
 * itself, at once: the loader takes the value of a symbol that says that it is hidden.  The tool tells such words
 * besides: RELEASE writes those that hold the agent's address.
 */
enum calltap_pointer_to {
	CALLTAP_POINTER_DL_FIND_OBJECT,
	CALLTAP_POINTER_DL_ITERATE_PHDR,
	CALLTAP_POINTER_BACKTRACE,
	CALLTAP_POINTER_PTHREAD_SETNAME_NP,
	CALLTAP_POINTER_PRCTL,
	CALLTAP_POINTER_SYSCALL,
	CALLTAP_POINTER_UNSHARE,
	CALLTAP_POINTER_SETNS,
	CALLTAP_POINTER_SIGALTSTACK,
	CALLTAP_POINTER_LONGJMP,
	CALLTAP_POINTER__LONGJMP,
	CALLTAP_POINTER_SIGLONGJMP,
	CALLTAP_POINTER___LONGJMP_CHK,
	CALLTAP_POINTER_MAKECONTEXT,
	CALLTAP_POINTER_SWAPCONTEXT,
	CALLTAP_POINTER_MARK,	/* calltap_agent_mark(), which libcalltap.so calls if it leads somewhere */
	CALLTAP_POINTER_MCOUNT, /* what functions built with -pg call; on x86-64 alone */
	CALLTAP_POINTER__MCOUNT,
	CALLTAP_POINTER_UNWIND_GETCFA, /* the unwinder's */
	CALLTAP_POINTER_UNWIND_BACKTRACE,
	CALLTAP_POINTERS_TO
};

enum calltap_pointer_kind {
	CALLTAP_POINTER_WORD = 0,   /* a word that holds the function's address, 8 bytes at a multiple of 8 */
	CALLTAP_POINTER_SYMBOL = 1, /* with CALLTAP_POINTERS_FRESH: the undefined Elf64_Sym of the object's .dynsym */
};

struct calltap_pointer {
	uint64_t address;
	uint32_t to;   /* enum calltap_pointer_to */
	uint32_t kind; /* enum calltap_pointer_kind */
};

#define CALLTAP_POINTERS_FRESH 1u /* the pointers are of an object in a held dlopen */

#define CALLTAP_POINTERS_MAX 256u /* in one message */

struct calltap_msg_pointers {
	struct calltap_msg head;
	uint32_t count;
	uint32_t flags;			   /* CALLTAP_POINTERS_* */
	uint64_t base;			   /* CALLTAP_POINTERS_FRESH: the object's load bias */
	uint64_t identity;		   /* the object's; the pointers are there as long as it is.  0: always */
	struct calltap_pointer pointers[]; /* size is in head */
};

#define CALLTAP_SKIPS_MAX	   512u /* in one message */
#define CALLTAP_APPLY_LEAVE_LOADER 1u	/* a thread is within a hook: write no hook */

/* Write the pointers and the sites of all plans that wait for APPLY, but for sites that a thread is within. */
struct calltap_msg_apply {
	struct calltap_msg head;
	uint32_t flags; /* CALLTAP_APPLY_* */
	uint32_t count;
	uint64_t skips[]; /* addresses of sites that a thread is within, or of their trampolines; size is in head */
};

struct calltap_msg_apply_done {
	struct calltap_msg head;
	uint32_t patched;
	uint32_t failed;   /* sites left alone: their bytes differed, they were out of reach, or in skips */
	uint32_t pointers; /* pointers that lead to the agent now */
	int32_t error;	   /* 0; -EAGAIN: the loader, or a change of text, is at work; -ESTALE: other objects are mapped
			    * than were reported; in both cases nothing was done; else -errno that stopped APPLY */
	uint32_t flags;	   /* CALLTAP_OBJECTS_* */
	uint32_t first_failed_id; /* the first that failed and is not in skips; ~0 = none */
	uint64_t elapsed_ticks;
};

/*
 * Settings of struct calltap_msg_setup that may change while the target records.  Plans (CALLTAP_PLAN_STUBS) follow for
 * sites that need other stubs then: with tree_filter, stubs test another word than without.
 */
struct calltap_msg_set {
	struct calltap_msg head;
	uint32_t depth_max;
	uint32_t tree_filter;
	uint64_t threshold_ticks;
};

#define CALLTAP_DETACH_RELEASE 1u /* wait for RELEASE after DETACHED */

struct calltap_msg_detach {
	struct calltap_msg head;
	uint32_t flags; /* CALLTAP_DETACH_* */
	uint32_t reserved;
};

struct calltap_msg_detached {
	struct calltap_msg head;
	uint32_t restored; /* sites that have the file's bytes again */
	uint32_t left;	   /* sites left switched off, or as they are: see doc/design/patching.md */
};

struct calltap_msg_heads_done {
	struct calltap_msg head;
	uint32_t left; /* heads that still lead to their blocks, or may: others' bytes are there */
	uint32_t reserved;
};

#define CALLTAP_UNWINDERS_MAX 16u

/*
 * Addresses in code that has asked for unwind tables since the agent came: an unwinder may be anywhere, and many
 * programs have libgcc's in their own file.
 */
struct calltap_msg_unwinders_told {
	struct calltap_msg head;
	uint32_t count;
	uint32_t more; /* 1: more unwinders have asked than addresses has room for */
	uint64_t addresses[CALLTAP_UNWINDERS_MAX];
};

#define CALLTAP_RELEASE_MORE 1u /* more of the lists follow in a second RELEASE; the agent does nothing yet */

/*
 * Give each frame its return address back, make the threads' blocks new, and let go of all memory.  The tool has made
 * sure that no thread has its pc in the agent or in a stub, that no signal frame goes back to there, and that no
 * unwinder is at work.  The agent finds all frames by itself, also those of stacks that no thread is on.  To check
 * that, the tool sends the addresses of words on the threads' stacks that hold a stub's address; the agent passes over
 * stale copies, which are no frame's.
 */
struct calltap_msg_release {
	struct calltap_msg head;
	uint32_t flags; /* CALLTAP_RELEASE_* */
	uint32_t slot_count;
	uint32_t thread_count;
	uint32_t reserved;
	uint64_t words[]; /* slot_count addresses of words that hold a stub's, then thread_count thread pointers */
};

#define CALLTAP_RELEASE_MAX 512u /* words in one message */

struct calltap_msg_released {
	struct calltap_msg head;
	uint32_t frames;   /* frames that return to their callers by themselves now */
	uint32_t pointers; /* pointers of POINTERS that have their old value again */
	/*
	 * 0: all is gone.  -EBUSY: there are frames that cannot be let go, what they need stays.  -EAGAIN: a handler of
	 * the program's own runs, try again.
	 */
	int32_t error;
	uint32_t reserved;
};

/* The stub regions that an earlier session has left, [lo, hi) each. */
struct calltap_msg_regions {
	struct calltap_msg head;
	uint32_t count;
	uint32_t more;	  /* 1: another REGIONS follows */
	uint64_t words[]; /* count pairs of lo and hi; size is in head */
};

#define CALLTAP_REGIONS_MAX 256u /* in one message */

struct calltap_msg_fault {
	struct calltap_msg head;
	int32_t error; /* -errno */
	char text[124];
};

_Static_assert(sizeof(struct calltap_msg_hello) == 88, "ABI");
_Static_assert(sizeof(struct calltap_had_plan) == 32, "ABI");
_Static_assert(sizeof(struct calltap_msg_plans) == 16, "ABI");
_Static_assert(sizeof(struct calltap_msg_clock_told) == 24, "ABI");
_Static_assert(sizeof(struct calltap_msg_objects_end) == 16 + 8 * CALLTAP_HOOKS_MAX, "ABI");
_Static_assert(sizeof(struct calltap_msg_setup) == 56, "ABI");
_Static_assert(sizeof(struct calltap_msg_arena) == 24, "ABI");
_Static_assert(sizeof(struct calltap_msg_instance) == 40, "ABI");
_Static_assert(sizeof(struct calltap_msg_instance_done) == 16, "ABI");
_Static_assert(sizeof(struct calltap_msg_plan) == 88, "ABI");
_Static_assert(sizeof(struct calltap_site) == 40, "ABI");
_Static_assert(sizeof(struct calltap_msg_plan_done) == 48, "ABI");
_Static_assert(sizeof(struct calltap_msg_switch) + CALLTAP_SWITCH_MAX * 4 <= CALLTAP_MSG_MAX, "ABI");
_Static_assert(sizeof(struct calltap_msg_switch_done) == 24, "ABI");
_Static_assert(sizeof(struct calltap_msg_detached) == 16, "ABI");
_Static_assert(sizeof(struct calltap_msg_pointers) + CALLTAP_POINTERS_MAX * 16 <= CALLTAP_MSG_MAX, "ABI");
_Static_assert(sizeof(struct calltap_msg_apply) + CALLTAP_SKIPS_MAX * 8 <= CALLTAP_MSG_MAX, "ABI");
_Static_assert(sizeof(struct calltap_msg_apply_done) == 40, "ABI");
_Static_assert(sizeof(struct calltap_msg_set) == 24, "ABI");
_Static_assert(sizeof(struct calltap_msg_detach) == 16, "ABI");
_Static_assert(sizeof(struct calltap_msg_handlers) == 24, "ABI");
_Static_assert(sizeof(struct calltap_msg_handlers_done) == 16, "ABI");
_Static_assert(sizeof(struct calltap_msg_programs) == 16, "ABI");
_Static_assert(sizeof(struct calltap_msg_counts) == 24, "ABI");
_Static_assert(sizeof(struct calltap_msg_programs_done) == 16, "ABI");
_Static_assert(sizeof(struct calltap_msg_release) + CALLTAP_RELEASE_MAX * 8 <= CALLTAP_MSG_MAX, "ABI");
_Static_assert(sizeof(struct calltap_msg_heads_done) == 16, "ABI");
_Static_assert(sizeof(struct calltap_msg_unwinders_told) == 16 + 8 * CALLTAP_UNWINDERS_MAX, "ABI");
_Static_assert(sizeof(struct calltap_msg_released) == 24, "ABI");
_Static_assert(sizeof(struct calltap_msg_regions) + CALLTAP_REGIONS_MAX * 16 <= CALLTAP_MSG_MAX, "ABI");

#endif
