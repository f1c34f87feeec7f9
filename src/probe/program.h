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
	bool no_copies; /* process_vm_readv() does nothing here, as in an emulator */
};

/* A run of a program, and what it has written. */
struct probe_run {
	struct calltap_program_context context; /* helpers are handed its address */
	uint64_t frame;				/* the frame pointer at the call */
	uint32_t type;				/* of the event, 0 = nothing is to be recorded */
	uint32_t used;				/* bytes of the event, while the program runs */
	uint32_t count;				/* words of the event */
	uint32_t told;				/* a bit for each number that the tool is to be told */
	bool keeps;				/* the program has kept a number for the return: */
	uint64_t kept;
	const uint64_t *words;
	union {
		unsigned char bytes[CALLTAP_PROGRAM_BYTES];
		uint64_t packed[PROBE_PROGRAM_WORDS]; /* longer than `bytes` */
	};
	uint64_t stack[(CALLTAP_PROGRAM_STACK + CALLTAP_PROGRAM_SPARE) / sizeof(uint64_t)];
};

/* A call at its entry, or at its return (exit). */
struct probe_call_state {
	const struct calltap_registers *registers;
	uint64_t slot, caller;
	uint32_t id; /* of the function */
	bool exit;
	uint64_t frame; /* the frame pointer, as the program has it */
};

/* The frame pointer that the caller of this C function has had: the dispatcher leaves the program's there. */
static inline __attribute__((always_inline)) uint64_t probe_frame_before(void)
{
	return *(const uint64_t *)((uint64_t)__builtin_frame_address(0) - ARCH_FRAME_PAIR);
}

/* The frame pointer among a call's registers. */
static inline uint64_t probe_frame_of(const struct calltap_registers *registers)
{
	return ((const uint64_t *)registers)[ARCH_FRAME_REGISTER];
}

/* Copy memory of the program's that may be anything; false: not all of it is there. */
bool probe_program_copy(void *to, uint64_t from, uint64_t size);

/* Run the program of the function's call, or of its return.  Without a program run->type is 0, and it is recorded. */
enum calltap_verdict probe_program_run(struct probe_run *run, const struct probe_call_state *call);
/* Record what it has written, in the first instance's ring; the thread has one. */
void probe_program_record(struct probe_thread *thread, const struct probe_run *run);
/*
 * The same of a call whose ENTRY was the last record.  If that was lost, so are the values: readers would take them for
 * those of an older call of the function.
 */
void probe_program_record_call(struct probe_thread *thread, const struct probe_run *run);
/* The type of the events that the program of the function's calls writes; 0 = none. */
uint32_t probe_program_type(uint32_t id);
/* Does the program of the function's return take what that of the call has kept? */
bool probe_program_takes(uint32_t id);

/* A call's frame that has its planes: keep there for the return what the program has kept. */
static inline void probe_program_keep(const struct probe_run *run, uint64_t slot)
{
	if (__builtin_expect(run->keeps, 0))
		*arch_data(slot) = run->kept;
}

/*
 * verdict.c: the return's program says that the call, which has an ENTRY, is to be left out.  True: its records were
 * taken back, as there are no others behind them, and no EXIT is to be written.  False: readers are told; an EXIT is.
 * What is in the run is of no use any more.
 */
bool probe_verdict_tell(struct probe_thread *thread, struct probe_run *run, uint32_t id, enum calltap_verdict verdict);

/*
 * valued.c: by the dispatcher, for calls of functions with values that the first instance records without filters or
 * limits, and nobody else; as probe_instances_entered() and _left() (instances.h).  saved: of the registers, those that
 * a call loses.
 */
int probe_values_entered(uint64_t slot, uint32_t id, const uint64_t *ret, const struct calltap_registers *saved);
void probe_values_left(uint64_t slot, uint32_t id, uint64_t *ret, const struct calltap_registers *saved);

/* The addresses of the helpers, by number. */
extern const uint64_t probe_program_helpers[CALLTAP_HELPERS] __attribute__((visibility("hidden")));
/* NULL = there are none.  Set by probe_program_set() alone. */
extern const struct probe_programs *probe_programs __attribute__((visibility("hidden")));
/* Control side: run these programs from now on; NULL = none. */
void probe_program_set(const struct probe_programs *programs);
/* Control side: whether reading by a system call could be the process' end (a sandbox): then it is a fault. */
void probe_program_blind(bool is);

#endif
