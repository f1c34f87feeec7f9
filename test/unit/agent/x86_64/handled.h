/*
 * Functions with handlers in the test's own process: what the library and the
 * tool would have told the dispatcher.  For test_handlers.c and test_faults.c.
 */
#ifndef TEST_UNIT_AGENT_X86_64_HANDLED_H
#define TEST_UNIT_AGENT_X86_64_HANDLED_H

#include <probe/handlers.h>
#include "timed.h"

#define HANDLED	     CALLTAP_SITE_HANDLED
#define HANDLED_CALL (CALLTAP_SITE_HANDLED | CALLTAP_SITE_CALL)
#define GENERAL	     CALLTAP_HANDLER_GENERAL_REGS
#define REGISTERS    15
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

/* Every general register but rsp gets its number, plus 1000, and the function is called, which notes them down and
 * returns them plus 2000; in the order rax, rdx, rcx, rbx, rbp, rsi, rdi, r8 to r15. */
extern uint64_t seen_inside[REGISTERS], seen_after[REGISTERS];
void call_with_registers(int (*function)(void));
void check_registers(void);
/* Are these they? */
void check_shown(const struct calltap_registers *shown, uint64_t base);
int callee_call(void), callee_both(void);

#endif
