/*
 * Handlers of the program's own (libcalltap.so) that are called at traced
 * functions' entries and exits.
 *
 * The CPU's dispatcher (handlers.S) does the common case by itself, and calls
 * what is here for the rest, on the program's thread; the agent room sets the
 * table and mends faults.  Context: probe, but where said.
 * doc/design/handlers.md has the argument.
 */
#ifndef PROBE_HANDLERS_H
#define PROBE_HANDLERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <calltap/abi/handlers.h>
#include <calltap/call.h>
#include <probe/thread.h>

/*
 * All that the dispatcher looks at.  Never changed once threads may see it, but where said. handlers.S knows the
 * fields.
 */
struct probe_handled_table {
	uint64_t functions;		    /* rows, and bodies; 0: the dispatcher's fast path finds none */
	const struct calltap_handled *rows; /* the tool's, which changes them */
	uint64_t *bodies;		    /* by function id: where its body goes on behind the site; 0 = no site */
	struct calltap_handlers *handlers;  /* the library's; never NULL */
	uint64_t area;			    /* bytes for the vector registers */
	void (*save)(void *area);	   /* keep to no calling convention but that they change rax, rdx, rdi alone; */
	void (*restore)(const void *area); /* area: a multiple of 64 */
	uint64_t row_count;		   /* what `functions` was before probe_handled_stop() */
	const struct calltap_roles *roles; /* the tool's, as the rows */
};
/* Never NULL: without handlers, a table with no functions. */
extern struct probe_handled_table *probe_handled __attribute__((visibility("hidden")));

/* The function's row as the tool has written it (abi/handlers.h); 0 = it has none. */
static inline uint64_t probe_handled_row(uint32_t id)
{
	const struct probe_handled_table *table = __atomic_load_n(&probe_handled, __ATOMIC_ACQUIRE); /* with _set() */

	return id < table->row_count ? __atomic_load_n((const uint64_t *)&table->rows[id], __ATOMIC_RELAXED) : 0;
}

/* The function's roles in further instances, struct calltap_roles as one word; 0 = it has none. */
static inline uint64_t probe_handled_roles(uint32_t id)
{
	const struct probe_handled_table *table = __atomic_load_n(&probe_handled, __ATOMIC_ACQUIRE); /* with _set() */

	return id < table->row_count ? __atomic_load_n((const uint64_t *)&table->roles[id], __ATOMIC_RELAXED) : 0;
}

enum probe_handled_how {
	PROBE_HANDLED_CALL = 0, /* a call that no exit handler waits for */
	PROBE_HANDLED_ENTRY = 1,
	PROBE_HANDLED_EXIT = 2,
	PROBE_HANDLED_VECTORS = 4, /* a flag: the vector registers are in `area`, and are put back */
};

/*
 * A call whose handlers run.  It lies on its thread's stack, below the words that its stub has pushed.  The dispatcher
 * keeps the general registers in it, and goes on from them when a handler has faulted.
 */
struct probe_handled {
	/* Kept at arch_who() between entry and exit: `wants` and `generation`. */
	uint32_t wants;	     /* CALLTAP_HANDLED_* of the session's tracer, and handlers whose exit is to be called */
	uint32_t generation; /* the library's table's when the call was entered */
	uint32_t left;	     /* handlers still to be called, by bit as in `wants` */
	uint32_t how;	     /* enum probe_handled_how */
	uint64_t slot;	     /* address of the struct calltap_handler whose handler runs, 0 = none */
	void *area;
	uint32_t tail; /* handlers whose exits are to be called first: of the function that has tail-called this one */
	uint32_t tail_word; /* entry: the word of the function that has tail-called this one; exit: this one's */
	uint32_t tail_generation;
	uint32_t reserved;
	struct calltap_call call; /* what handlers see; call.data lies at arch_data() between entry and exit */
};

/*
 * The dispatcher calls these, in this order. _enter() and _leave(): how many bytes it is to make room for and save the
 * vector registers in, 0 = none. _run(): call the handlers that are left (once more after a fault, which ends the
 * handler that ran). _entered() and _left(): bring the call to an end.
 */
uint64_t probe_handled_enter(struct probe_handled *handled, uint32_t how);
uint64_t probe_handled_leave(struct probe_handled *handled, uint32_t how);
void probe_handled_run(struct probe_handled *handled);
/* 0: the body's return comes by the dispatcher; 1: it does not. */
int probe_handled_entered(struct probe_handled *handled);
int probe_handled_left(struct probe_handled *handled);

/* True if an exit handler waits for the frame at slot, whose body returns to `back`. */
bool probe_handled_waits(uint64_t slot, uint64_t back);
/* The program is about to set its stack pointer to sp, and leaves what runs below. */
void probe_handled_jump(uint64_t sp);
/*
 * The dispatcher's personality routine: an unwinder calls it for the dispatcher's frame when an exception or a thread's
 * end leaves a handler.
 */
int probe_handled_unwound(int version, int actions, uint64_t exception_class, void *exception, void *context);
/*
 * A fault with the stack pointer at sp: the call whose handler has faulted; NULL: no handler has.  For a signal
 * handler, on the thread that has faulted.
 */
struct probe_handled *probe_handled_faulted(uint64_t sp);
/* The handler of this call that ran has faulted: it has ended, and is called no more. */
void probe_handled_disable(struct probe_handled *handled, uint32_t signal, uint64_t pc, uint64_t address);

/* Control side: use this table; NULL = there are no handlers, nor frames that an exit handler waits for. */
void probe_handled_set(struct probe_handled_table *table);
/* Control side: call no handler any more. */
void probe_handled_stop(void);

#endif
