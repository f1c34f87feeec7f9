/*
 * Programs that run in the target at a function's call and its return: what they are called with, and the tables by
 * which the agent finds them.
 *
 * A program is an eBPF program that the tool has verified and compiled for the target's CPU.  It gets the address of a
 * struct calltap_program_context, calls helpers by the numbers below, and returns a verdict.  What it writes becomes an
 * EVENT record (record.h) within the call: behind the ENTRY, or in front of the EXIT.
 *
 * The tool keeps tables and code in one memfd (PROGRAMS, control.h), which targets may only read: a struct
 * calltap_program_row for each function id, from 0 on; from CALLTAP_PROGRAMS_AT on a struct calltap_program for each
 * number of a program, 0 is none; and from CALLTAP_PROGRAM_CODE_AT on the code.  It writes programs before the rows
 * that name them, and rows before a site leads to the dispatcher.
 *
 * The agent maps the code behind a page of its own, which holds the helpers' addresses by number.  So code calls them
 * by a distance that is the same in all processes.  Behind the code lie rules for unwinders: at each instruction of a
 * program the return address is where the stack pointer points, or in a register that calls keep (bpf/compile.h), and
 * all other registers are the caller's or of no meaning to it.
 */
#ifndef CALLTAP_ABI_PROGRAM_H
#define CALLTAP_ABI_PROGRAM_H

#include <stdint.h>

#include <calltap/abi/handlers.h>
#include <calltap/abi/ring.h>

#define CALLTAP_PROGRAM_ARGUMENTS 8

/* All that a program may read as it is. */
struct calltap_program_context {
	uint64_t arguments[CALLTAP_PROGRAM_ARGUMENTS]; /* at the call: registers of integer arguments; else 0 */
	uint64_t result;			       /* at the return: the register of an integer result; else 0 */
	uint64_t stack;	   /* at the call: address of the first argument on the stack; else 0 */
	uint64_t caller;   /* the call's return address */
	uint64_t function; /* its id */
	uint64_t second;   /* at the return: the second register of an integer result; else 0 */
	uint64_t kept;	   /* at the return, with CALLTAP_PROGRAM_KEPT: what the call's program has kept; else 0 */
};

enum calltap_helper {
	CALLTAP_HELPER_NONE,
	/* (to, size, address): copy the program's memory; -EFAULT: `to` is all zeros. */
	CALLTAP_HELPER_READ,
	/*
	 * (context, address, most): append the text at address, without its NUL and at most so many bytes, to what is
	 * written.  Returns where it is: struct calltap_event_place (record.h), as one number.
	 */
	CALLTAP_HELPER_TEXT,
	/* (context, from, size): write the first bytes of the event, of which the program's `fixed` are kept free. */
	CALLTAP_HELPER_WRITE,
	/*
	 * (address, pattern, size): 1 if the text at address, or its first CALLTAP_PROGRAM_TEXT bytes, is what the
	 * pattern says; else 0.  -EFAULT: the text could not be read.
	 */
	CALLTAP_HELPER_MATCH,
	/*
	 * (number): the lower 8 bytes of a register that hands over floating-point numbers, as the thread has it at the
	 * call or at the return: for 0 to 7 xmm0 to xmm7, d0 to d7 (AArch64) or fa0 to fa7 (RISC-V).  0: there is no
	 * such register.
	 */
	CALLTAP_HELPER_VECTOR,
	/*
	 * (context, address, size, most, of): append the `size` bytes at address, and at most so many, as TEXT does;
	 * behind bytes that are cut their whole size follows, in 8 bytes.  `of` is the address of the object that has
	 * the address and the size: 0 if there is none.
	 */
	CALLTAP_HELPER_BYTES,
	/* (address, size, pattern, size of it): as MATCH, of a text with that size. */
	CALLTAP_HELPER_MATCH_BYTES,
	CALLTAP_HELPER_KEEP, /* (context, number): keep the number for the program of this call's return */
	CALLTAP_HELPER_TELL, /* (context, number): tell the tool of this call (CALLTAP_EVENT_CHOSEN, profile.h) */
	/*
	 * (context, from, size): count one call by a key, which is the first bytes of an event and its texts, as with
	 * WRITE (maps.h).
	 */
	CALLTAP_HELPER_COUNT,
	CALLTAP_HELPER_TIME, /* (): the clock of the trace's records, in its ticks */
	/*
	 * (): the process' and the thread's id, as the program has them.  The child of a vfork() has its parent's, as
	 * in all of a trace.  0: it is not known, in a sandbox.
	 */
	CALLTAP_HELPER_PID,
	CALLTAP_HELPER_TID,
	/* (context): append the thread's name, as the kernel has it now, as TEXT does. */
	CALLTAP_HELPER_COMM,
	/* (pattern, size): as MATCH, of the thread's name.  -EFAULT: it is not known, in a sandbox. */
	CALLTAP_HELPER_MATCH_COMM,
	/* (context): the number of the stack from which the call comes, in the map (maps.h); 0: it has no room. */
	CALLTAP_HELPER_STACK,
	/*
	 * (map, index): the address of the thread's value at the index, of 4 bytes, in the array with that number
	 * (enum calltap_map_number, maps.h); 0: the array has no such index, or this process counts nothing.
	 */
	CALLTAP_HELPER_LOOKUP,
	/*
	 * (context, from, size): 1 + the place of the slot that has a key, as with COUNT, from now on; 0: it has no
	 * room, and the call is counted as one of the others, or this process counts nothing.
	 */
	CALLTAP_HELPER_FIND,
	/*
	 * (map, key, size of it, number): the key has the number from now on in this process, in the map
	 * CALLTAP_MAP_SPANS.  0; -ENOSPC: there is no room; -EINVAL: the map has no such keys, or this process counts
	 * nothing.
	 */
	CALLTAP_HELPER_UPDATE,
	/*
	 * (map, key, size of it, to, size): take the key out of that map; its number goes to the 8 bytes at `to`.  0;
	 * -ENOENT: there is no such key, and `to` is all zeros; -EINVAL as above.
	 */
	CALLTAP_HELPER_DELETE,
	CALLTAP_HELPERS
};

/* A pattern's bytes stand for themselves, but 0, which one of these follows. */
enum calltap_match {
	CALLTAP_MATCH_END, /* the text ends here */
	CALLTAP_MATCH_ALL, /* any bytes, or none */
	CALLTAP_MATCH_ONE, /* any one byte */
};

/*
 * The number that a program returns is its verdict on the call.  At a return the call's ENTRY is in the ring: the agent
 * takes it back, or readers leave the call out (CALLTAP_EVENT_VERDICT, record.h).
 */
enum calltap_verdict {
	CALLTAP_VERDICT_LEAVE_OUT, /* the call is not recorded, what it calls may be */
	CALLTAP_VERDICT_RECORD,
	CALLTAP_VERDICT_HIDE, /* neither the call is recorded, nor what it calls */
	/* At the call alone: it is not recorded, what it calls may be, and the program of its return runs. */
	CALLTAP_VERDICT_AWAIT,
};

#define CALLTAP_PROGRAM_KEPT 1u /* the function's programs hand a number from the call to the return */

struct calltap_program_row {
	uint16_t entry, exit; /* numbers of programs */
	uint32_t reserved;
};

struct calltap_program {
	uint32_t code;	/* from CALLTAP_PROGRAM_CODE_AT */
	uint32_t type;	/* of the EVENT that it writes; 0: it writes none */
	uint16_t fixed; /* bytes of the event before its texts; at most CALLTAP_PROGRAM_BYTES */
	/*
	 * The program leaves the event's words (calltap_event_pack(), record.h), so many of them, on its stack, from
	 * CALLTAP_PROGRAM_WORDS_AT bytes below its end on.  0: it hands its bytes to helper WRITE.
	 */
	uint8_t words;
	uint8_t flags; /* CALLTAP_PROGRAM_* */
	uint32_t head; /* with `words`: the upper half of the EVENT's first word */
};

/*
 * x86-64 alone: of numbers in registers; it calls nobody.  The code is a function of C that gets the registers as the
 * dispatcher has them (struct calltap_registers, calltap/registers.h), the end of its stack, of which it writes the
 * words alone, the function's id, and the EVENT's first word.  It puts that in front of the words when these are
 * written.
 */
#define CALLTAP_PROGRAM_PLAIN 2u

#define CALLTAP_PROGRAM_BYTES	 504u /* of an event that a program writes, at the most */
#define CALLTAP_PROGRAM_STACK	 512u /* bytes of a program's stack, below r10 */
#define CALLTAP_PROGRAM_SPARE	 16u  /* bytes above it that the code uses */
#define CALLTAP_PROGRAM_WORDS_AT 256u
#define CALLTAP_PROGRAM_WORDS	 (CALLTAP_PROGRAM_WORDS_AT / 8) /* that a program leaves on its stack at the most */
#define CALLTAP_PROGRAM_VECTORS	 8u				/* registers of floating-point arguments at the most */
#define CALLTAP_PROGRAM_TEXT	 256u				/* bytes of one text at the most */
#define CALLTAP_PROGRAM_COMM	 16u				/* bytes of a thread's name, with its NUL */
#define CALLTAP_PROGRAMS_MAX	 0xffffu
#define CALLTAP_PROGRAMS_AT	 ((uint64_t)CALLTAP_HANDLED_MAX * sizeof(struct calltap_program_row))
#define CALLTAP_PROGRAM_CODE_AT	 (CALLTAP_PROGRAMS_AT + (CALLTAP_PROGRAMS_MAX + 1) * sizeof(struct calltap_program))
#define CALLTAP_PROGRAM_CODE	 ((uint64_t)16 << 20)		       /* bytes of code, and of unwind rules: */
#define CALLTAP_PROGRAM_UNWIND	 (CALLTAP_PROGRAM_CODE - CALLTAP_PAGE) /* in there: an .eh_frame_hdr, and .eh_frame */
#define CALLTAP_UNWIND_BYTES	 96u
#define CALLTAP_PROGRAMS_SIZE	 (CALLTAP_PROGRAM_CODE_AT + CALLTAP_PROGRAM_CODE)

_Static_assert(sizeof(struct calltap_program_row) == 8 && sizeof(struct calltap_program) == 16, "ABI");
_Static_assert(sizeof(struct calltap_program_context) == 112, "ABI");
_Static_assert(CALLTAP_PROGRAMS_AT % CALLTAP_PAGE == 0 && CALLTAP_PROGRAM_CODE_AT % CALLTAP_PAGE == 0, "pages");

#endif
