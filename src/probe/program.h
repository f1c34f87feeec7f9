/*
 * Programs that fetch values at a function's call and its return (abi/program.h), and the events that they write.
 *
 * The dispatcher's C half runs them on the program's thread.  A program calls nobody but the helpers in program.c,
 * takes no lock, and its memory is the thread's stack: so a signal's handler may come in between and run others.  What
 * it reads of the traced program's memory is read so that no address can do harm; doc/design/values.md has the
 * argument. Context: probe, but where said.
 */
#ifndef PROBE_PROGRAM_H
#define PROBE_PROGRAM_H

#include <stdbool.h>
#include <stdint.h>

#include <calltap/abi/program.h>
#include <calltap/abi/record.h>
#include <calltap/call.h>
#include <probe/thread.h>

#define PROBE_PROGRAM_WORDS (CALLTAP_PROGRAM_BYTES / CALLTAP_EVENT_WORD_BYTES)

/* Ranges of memory that stay readable, in order. */
#define PROBE_CONSTANTS 128u
struct probe_range {
	uint64_t lo, hi;
};
struct probe_constants {
	uint32_t count;
	struct probe_range list[PROBE_CONSTANTS];
};

/* All programs.  Never changed once threads may see it, but what the tool adds to the tables. */
struct probe_programs {
	const struct calltap_program_row *rows; /* by function id */
	const struct calltap_program *list;	/* by number */
	uint64_t code;				/* address of the first program's code */
	const struct probe_constants *constants;
};

/* A run of a program, and what it has written. */
struct probe_run {
	struct calltap_program_context context; /* helpers are handed its address */
	uint32_t type;				/* of the event, 0 = nothing is to be recorded */
	uint32_t used;				/* bytes of the event, while the program runs */
	uint32_t count;				/* words of the event, 0 = they are not made yet */
	union {
		unsigned char bytes[CALLTAP_PROGRAM_BYTES];
		uint64_t words[PROBE_PROGRAM_WORDS]; /* longer than `bytes` */
	};
};

/* A call at its entry, or at its return (exit). */
struct probe_call_state {
	const struct calltap_registers *registers;
	uint64_t slot, caller;
	uint32_t id; /* of the function */
	bool exit;
};

/* Run the program of the function's call, or of its return.  Without a program run->type is 0, and it is recorded. */
enum calltap_verdict probe_program_run(struct probe_run *run, const struct probe_call_state *call);
/* Record what it has written, in the first instance's ring; the thread has one. */
void probe_program_record(struct probe_thread *thread, const struct probe_run *run);
/* The same with the time `now`, where the ring has room as it is.  False: nothing was done. */
bool probe_program_put(const struct probe_thread *thread, const struct probe_run *run, uint64_t now);

/* The same of an event at a call, with the function's ENTRY in front of it. */
bool probe_program_put_entry(const struct probe_thread *thread, const struct probe_run *run, uint32_t id, uint64_t now);
/* Has the function a program for its return? */
bool probe_program_waits(uint32_t id);

/*
 * usual.c: by the dispatcher, for calls of functions with values that the first instance records without filters or
 * limits, and nobody else; as probe_instances_entered() and _left() (instances.h).  saved: of the registers, those that
 * a call loses.
 */
int probe_values_entered(uint64_t slot, uint32_t id, uint64_t row, const uint64_t *ret,
			 const struct calltap_registers *saved);
void probe_values_left(uint64_t slot, uint32_t id, uint64_t *ret, const struct calltap_registers *saved);

/* The addresses of the helpers, by number. */
extern const uint64_t probe_program_helpers[CALLTAP_HELPERS] __attribute__((visibility("hidden")));
/* Control side: run these programs from now on; NULL = none. */
void probe_program_set(const struct probe_programs *programs);
/* Control side: whether reading by a system call could be the process' end (a sandbox): then it is a fault. */
void probe_program_blind(bool is);

#endif
