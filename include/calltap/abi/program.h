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
 * program the return address is where the stack pointer points, and all other registers are the caller's or of no
 * meaning to it.
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
	 * call or at the return: xmm0 to xmm7 for 0 to 7.  0: there is no such register.
	 */
	CALLTAP_HELPER_VECTOR,
	CALLTAP_HELPERS
};

/* A pattern's bytes stand for themselves, but 0, which one of these follows. */
enum calltap_match {
	CALLTAP_MATCH_END, /* the text ends here */
	CALLTAP_MATCH_ALL, /* any bytes, or none */
	CALLTAP_MATCH_ONE, /* any one byte */
};

/* The number that a program returns at a call is its verdict on the call.  At a return the number is ignored. */
enum calltap_verdict {
	CALLTAP_VERDICT_LEAVE_OUT, /* the call is not recorded, what it calls may be */
	CALLTAP_VERDICT_RECORD,
	CALLTAP_VERDICT_HIDE, /* neither the call is recorded, nor what it calls */
};

struct calltap_program_row {
	uint16_t entry, exit; /* numbers of programs */
	uint32_t reserved;
};

struct calltap_program {
	uint32_t code;	/* from CALLTAP_PROGRAM_CODE_AT */
	uint32_t type;	/* of the EVENT that it writes; 0: it writes none */
	uint32_t fixed; /* bytes of the event before its texts; at most CALLTAP_PROGRAM_BYTES */
	uint32_t reserved;
};

#define CALLTAP_PROGRAM_BYTES	504u /* of an event that a program writes, at the most */
#define CALLTAP_PROGRAM_VECTORS 8u   /* registers of floating-point arguments at the most */
#define CALLTAP_PROGRAM_TEXT	256u /* bytes of one text at the most */
#define CALLTAP_PROGRAMS_MAX	0xffffu
#define CALLTAP_PROGRAMS_AT	((uint64_t)CALLTAP_HANDLED_MAX * sizeof(struct calltap_program_row))
#define CALLTAP_PROGRAM_CODE_AT (CALLTAP_PROGRAMS_AT + (CALLTAP_PROGRAMS_MAX + 1) * sizeof(struct calltap_program))
#define CALLTAP_PROGRAM_CODE	((uint64_t)16 << 20)		      /* bytes of code, and of unwind rules: */
#define CALLTAP_PROGRAM_UNWIND	(CALLTAP_PROGRAM_CODE - CALLTAP_PAGE) /* in there: an .eh_frame_hdr, and .eh_frame */
#define CALLTAP_UNWIND_BYTES	96u
#define CALLTAP_PROGRAMS_SIZE	(CALLTAP_PROGRAM_CODE_AT + CALLTAP_PROGRAM_CODE)

_Static_assert(sizeof(struct calltap_program_row) == 8 && sizeof(struct calltap_program) == 16, "ABI");
_Static_assert(sizeof(struct calltap_program_context) == 104, "ABI");
_Static_assert(CALLTAP_PROGRAMS_AT % CALLTAP_PAGE == 0 && CALLTAP_PROGRAM_CODE_AT % CALLTAP_PAGE == 0, "pages");

#endif
