/*
 * Functions with handlers in the test's own process: sets the dispatcher up as the library and the tool would.
 *
 * Callers: test_handlers.c, test_faults.c and test_shared.c.
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

/* Make the functions sites; their ids are their indices in the list. */
void handled_patch(const struct timed_function *list, uint32_t count);
/* Probes on, with so many rings, a new thread, and no handlers; and off. */
void handled_start(struct fake_arena *fake, uint32_t rings);
void handled_stop(struct fake_arena *fake);
/* Register handlers as the library does. */
void handled_register(unsigned slot, entry_function *entry, exit_function *exit, uint32_t flags, void *context);
/* Set the function's row: the slots whose handlers its calls go to, and CALLTAP_HANDLED_* bits of the session. */
void handled_want(uint32_t id, uint32_t slots, uint64_t session);

/*
 * <cpu>/handled_registers.c: every general register that a call keeps, or that has an argument or a result, gets its
 * place in a list of them, plus 1000, and the function is called, which notes them down and returns them plus 2000.
 */
extern uint64_t seen_inside[REGISTERS], seen_after[REGISTERS];
void call_with_registers(int (*function)(void));
void check_registers(void);
/* Check the registers that a handler was shown: each holds base plus its index. */
void check_shown(const struct calltap_registers *shown, uint64_t base);
int callee_call(void), callee_both(void);

/* <cpu>/handled_registers.c: all vector registers, and the word that says how they compute. */
struct vectors {
	_Alignas(64) uint8_t bytes[VECTORS_BYTES];
	uint32_t control;
};
/* Two values of the control word: the usual one, and another. */
extern const uint32_t vectors_controls[2];
/* Change all vector registers and the control word. */
void spoil_vectors(void);
/* Call callee_both, which leaves vector registers alone, with `in`; `out`: the registers after the call. */
void call_with_vectors(const struct vectors *in, struct vectors *out);

/* <cpu>/handled_registers.c: signals that an instruction can cause. */
extern const int fault_kinds[];
extern const unsigned fault_kinds_count;
/* Change everything that a function may change and cause the signal: SIGSEGV at 0x1234, SIGBUS at hole. */
void fault_now(int signal, bool vectors, void *hole);
/* Make a signal's frame, with stack pointer sp, that has only the words that the unwinder reads. */
void piece_frame(uint64_t *words, uint64_t sp);

#endif
