/*
 * Shared memory between a target and the tool: arenas of per-thread rings,
 * and the session's board.
 *
 * An arena is one memfd, made, sized and sealed by the tool and mapped by
 * both: a page of struct calltap_arena, then ring_count rings, ring_stride
 * bytes apart.  A ring is one page of struct calltap_ring and sub_count
 * sub-buffers of sub_size bytes.  One thread at a time writes a ring; the
 * tool alone reads it.  A sub-buffer is a struct calltap_subbuf and records
 * (record.h) up to its end or to the first word that stays 0.
 *
 * Counters run up and never wrap: sub-buffer number n (from 0) lies at index
 * n % sub_count.  The writer publishes `opened` (release) after the head of
 * sub-buffer opened-1 is written; the reader publishes `released` (release)
 * when it needs numbers below it no more.  In block and drop mode the writer
 * opens n only if n - released < sub_count; in overwrite mode always.
 *
 * A thread without a ring takes a FREE one, or takes over the ring of a thread
 * of its process that has ended: the counters run on, `owner` tells whose a
 * sub-buffer is.  A thread whose ring is `retired` goes on in another one when
 * it comes to open a sub-buffer, and leaves the old one to the tool.
 *
 * The tool trusts nothing in here: it reads each word once and checks it.
 */
#ifndef CALLTAP_ABI_RING_H
#define CALLTAP_ABI_RING_H

#include <stdint.h>

#define CALLTAP_PAGE	    4096u
#define CALLTAP_ARENA_RINGS 256u	/* rings an arena holds at the most */
#define CALLTAP_INSTANCES   16u		/* sets of rings in a process, by the number of the instance */
#define CALLTAP_ARENA_MAGIC 0x4152544cu /* "LTRA" */
#define CALLTAP_RING_MAGIC  0x4752544cu /* "LTRG" */
#define CALLTAP_BOARD_MAGIC 0x4442544cu /* "LTBD" */

enum calltap_mode {
	CALLTAP_MODE_BLOCK = 0,	    /* the writer waits for the reader, bounded */
	CALLTAP_MODE_DROP = 1,	    /* the newest record is dropped and counted */
	CALLTAP_MODE_OVERWRITE = 2, /* the oldest sub-buffer is overwritten */
	CALLTAP_MODE_OWN = 3,	    /* no records: a tracer lays the data area out as it likes (profile.h) */
};

/*
 * calltap_arena.state of a ring: FREE, CLAIMED + the kernel's id of the thread
 * that writes it (as the target sees it), LEFT by a thread that lives on (the
 * tool takes the rest), or OUT of use (the tool alone sets and ends that).
 */
enum calltap_ring_state {
	CALLTAP_RING_FREE = 0,
	CALLTAP_RING_CLAIMED = 1,
};
#define CALLTAP_RING_OUT  0xfffffffeu
#define CALLTAP_RING_LEFT 0xffffffffu

/* struct calltap_ring.owner, calltap_subbuf.owner: the thread had another ring before, as the same owner. */
#define CALLTAP_OWNER_MOVED 0x80000000u

struct calltap_subbuf {
	uint64_t number;   /* sub-buffer number + 1; 0 = never opened */
	uint64_t ticks;	   /* full clock at opening */
	uint32_t cpu;	   /* number of the CPU that the thread ran on at opening, + 1; 0 = not known */
	uint32_t cpu_told; /* the writer's own: likewise, as the sub-buffer has told it last */
	uint32_t owner;	   /* struct calltap_ring.owner at opening */
	uint32_t tid;
	char comm[16]; /* the owner's name when it claimed the ring */
	/* struct calltap_ring.lost and wait_ticks when the owner claimed the ring: what comes after is its own. */
	uint64_t lost_before, wait_before;
};

struct calltap_ring {
	/* Set by the tool before the arena is shared, then constant. */
	uint32_t magic;
	uint32_t index;
	uint32_t sub_size;  /* bytes, a power of two, >= 4096 */
	uint32_t sub_count; /* >= 2 */
	uint32_t mode;	    /* enum calltap_mode */
	uint32_t reserved0[11];

	/* Written by the thread that holds the ring. */
	uint64_t opened;
	uint64_t lost;	      /* records lost so far, by all owners */
	uint64_t wait_ticks;  /* time waited in block mode, by all owners */
	uint64_t claim_ticks; /* clock when the owner claimed the ring */
	uint32_t owner;	      /* counts the process' claims: tells one thread from the next */
	uint32_t tid;	      /* of the owner */
	uint32_t waiting;     /* 1 while the writer waits on `wake` */
	uint32_t ending;      /* 1: the owner ends, by pthread_exit() or pthread_cancel(), and leaves its calls open */
	char comm[16];

	/* CALLTAP_MODE_OWN: a head of the tracer whose data area it is; else 0. */
	uint64_t own[8];

	/* Written by the tool. */
	uint64_t released;
	uint32_t wake;	  /* futex word: counted up with each release */
	uint32_t retired; /* 1: the thread that holds the ring is to go on in another one */
	uint32_t reserved1[12];

	/* Written by the thread that holds the ring, when it claims it: `lost` and `wait_ticks` as they were then. */
	uint64_t lost_before, wait_before;
	uint64_t reserved2[6];
};

/* Facts about the process, for the tool to know or to tell. */
#define CALLTAP_NOTE_ALONE	 1u    /* the connection's end is not the process' end; cleared by the tool */
#define CALLTAP_NOTE_QUIET	 2u    /* a sandbox: probes make no system call, so new stacks cannot be traced */
#define CALLTAP_NOTE_NO_CHILDREN 4u    /* a sandbox: forked children are not followed */
#define CALLTAP_NOTE_END	 8u    /* recording ended: a thread may not read the clock any more */
#define CALLTAP_NOTE_FILTER	 32u   /* a sandbox of whatever kind: programs that it executes stay untraced */
#define CALLTAP_NOTE_BROKEN	 64u   /* the agent gave up, and may not have been able to say so */
#define CALLTAP_NOTE_SPACES	 16u   /* dlmopen: objects in another name space, which are not traced */
#define CALLTAP_NOTE_MOVES	 256u  /* recording ended: an object came that copies parts of stacks away and back */
#define CALLTAP_NOTE_VFORK	 512u  /* a vfork child made the first call of its parent's thread: it took no ring */
#define CALLTAP_NOTE_COPIED	 1024u /* a call returned whose caller is not known any more, which ends the process */
#define CALLTAP_NOTE_HIDDEN	 2048u /* a program was executed where the agent's file cannot be seen */
#define CALLTAP_NOTE_NARROW	 4096u /* a 32-bit program was executed */
#define CALLTAP_NOTE_NET	 8192u /* a program was executed in another network namespace: its agent finds no tool */
/*
 * Set by the tool, before it ends the connection itself: it lives, and takes what the rings have.  An agent whose
 * connection ends without this note has lost its tool, and gives the rings' memory back.
 */
#define CALLTAP_NOTE_READ_ON 128u

struct calltap_arena {
	uint32_t magic;
	uint32_t ring_count;
	uint64_t ring_stride; /* bytes */
	uint32_t claimed;     /* writer: rings claimed since the start (a hint) */
	uint32_t starved;     /* writer: claims that found no free ring */
	uint32_t request;     /* writer: counts up when the agent wants to be asked (control.h) */
	uint32_t reserved0;
	uint64_t untraced; /* writer: calls that could not be recorded: no ring, or no mirror for their stack */
	uint32_t notes;	   /* agent, and READ_ON the tool: CALLTAP_NOTE_* */
	uint32_t process;  /* tool: whose it is, as in the trace file */
	uint64_t session;  /* tool: as in struct calltap_tables; 0 = it keeps none */
	uint32_t reserved[2];
	/* Per ring; claimed by a writer (compare-and-swap), freed by the tool. */
	uint32_t state[CALLTAP_ARENA_RINGS];
	/* Writer, in the first arena of set 0, which stays as long as the agent: `untraced` of the further sets. */
	uint64_t untraced_further[CALLTAP_INSTANCES - 1];
};

/*
 * A thread is about to execute a static program, or to make a child by posix_spawn() that does, and asks the tool to
 * hold it: calltap_board.executing is calltap_executing_word() of its id and one of these, or 0.  The thread makes 0
 * ASKED or SPAWNS, and waits; it makes these 0 again, or TAKEN and HELD WITHDRAWN, when it has waited for too long or
 * could not execute the program.  All other changes are the tool's; each is a compare-and-swap.  A thread goes on as
 * soon as the word is HELD, or is not its own.  doc/design/loaderless.md.
 */
enum calltap_executing {
	CALLTAP_EXECUTING_ASKED = 1, /* by the thread, the initial one of its process */
	CALLTAP_EXECUTING_TAKEN = 2, /* by the tool: it is about to take hold */
	CALLTAP_EXECUTING_HELD = 3,  /* by the tool: the thread runs, and it or its child will stop with the program */
	CALLTAP_EXECUTING_WITHDRAWN = 4, /* by the thread: the tool is to let go; it makes the word 0 then */
	CALLTAP_EXECUTING_SPAWNS = 5,	 /* by the thread, for the next child that it makes by vfork */
};
#define CALLTAP_EXECUTING_STATES 8u

static inline uint64_t calltap_executing_word(uint64_t tid, enum calltap_executing state)
{
	return tid * CALLTAP_EXECUTING_STATES + state;
}

/*
 * Whether the tool answers those who ask.  A thread that had no answer makes YES SILENT, so that nobody else waits, and
 * the tool makes that YES again at its next round.
 */
enum calltap_holds {
	CALLTAP_HOLDS_NO = 0,
	CALLTAP_HOLDS_YES = 1,
	CALLTAP_HOLDS_SILENT = 2,
};

/* One per session, mapped by every process in it. */
struct calltap_board {
	uint32_t magic;
	uint32_t doorbell;	/* futex word: writers count it up to wake the tool */
	uint32_t reader_asleep; /* 1 while the tool sleeps on the doorbell */
	uint32_t reader_gone;	/* set by the tool before it leaves on purpose */
	uint64_t heartbeat;	/* counted up by the tool with each sub-buffer that it has taken from some ring */
	uint32_t unreached;	/* forked children that could not reach the tool */
	uint32_t holds;		/* enum calltap_holds */
	uint64_t executing;	/* enum calltap_executing */
	uint32_t unheld;	/* static programs that were executed untraced, as the tool did not answer */
	/* With `--time adaptive` (times.h; doc/design/clock.md, "When nobody looks"): */
	uint32_t tick_seen;	/* 1: since the tick changed some thread is about to count it as seen */
	uint32_t ticker_asleep; /* 1: the tick stands still; no thread counts it as seen */
	uint32_t reserved[3];
};

_Static_assert(sizeof(struct calltap_subbuf) == 64, "ABI");
_Static_assert(sizeof(struct calltap_ring) == 320, "ABI");
_Static_assert(sizeof(struct calltap_arena) <= CALLTAP_PAGE, "ABI");
_Static_assert(sizeof(struct calltap_board) == 64, "ABI");

#endif
