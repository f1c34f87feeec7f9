/*
 * Functions with handlers in the test's own process: what the library and the
 * tool would have told the dispatcher.  For test_handlers.c and test_faults.c.
 */
#ifndef TEST_UNIT_AGENT_HANDLED_H
#define TEST_UNIT_AGENT_HANDLED_H

#include <stdbool.h>

#include <handled_registers.h>
#include <probe/handlers.h>
#include "timed.h"

#define HANDLED	     CALLTAP_SITE_HANDLED
#define HANDLED_CALL (CALLTAP_SITE_HANDLED | CALLTAP_SITE_CALL)
#define GENERAL	     CALLTAP_HANDLER_GENERAL_REGS
#define HANDLED_MAX  32

typedef int entry_function(struct calltap_call *call, void *context);
typedef void exit_function(struct calltap_call *call, void *context);

extern struct calltap_handlers handlers;
extern struct calltap_handled rows[HANDLED_MAX];

/* Their places are their ids. */
void handled_patch(const struct timed_function *list, uint32_t count);
/* Probes on, with so many rings, a new thread, and no handlers; and off. */
void handled_start(struct fake_arena *fake, uint32_t rings);
void handled_stop(struct fake_arena *fake);
/* As the library does it. */
void handled_register(unsigned slot, entry_function *entry, exit_function *exit, uint32_t flags, void *context);
/* The function's calls are these slots'; session: CALLTAP_HANDLED_RECORD and its like. */
void handled_want(uint32_t id, uint32_t slots, uint64_t session);

/*
 * <cpu>/handled_registers.c: every general register that a call keeps, or that has an argument or a result, gets its
 * place in a list of them, plus 1000, and the function is called, which notes them down and returns them plus 2000.
 */
extern uint64_t seen_inside[REGISTERS], seen_after[REGISTERS];
void call_with_registers(int (*function)(void));
void check_registers(void);
/* Are these they? */
void check_shown(const struct calltap_registers *shown, uint64_t base);
int callee_call(void), callee_both(void);

/* <cpu>/handled_registers.c: all vector registers, and the word that says how they compute. */
struct vectors {
	_Alignas(64) uint8_t bytes[VECTORS_BYTES];
	uint32_t control;
};
/* That word as it usually is, and otherwise. */
extern const uint32_t vectors_controls[2];
/* Change them all. */
void spoil_vectors(void);
/* By way of callee_both, which leaves them alone; the control word is the test's own again. */
void call_with_vectors(const struct vectors *in, struct vectors *out);

/* <cpu>/handled_registers.c: signals that an instruction can cause. */
extern const int fault_kinds[];
extern const unsigned fault_kinds_count;
/* Change everything that a function may change and cause the signal: SIGSEGV at 0x1234, SIGBUS at hole. */
void fault_now(int signal, bool vectors, void *hole);
/* A signal's frame of which only what is looked at is left, in that many words, of a thread with that stack pointer. */
void piece_frame(uint64_t *words, uint64_t sp);

#endif
