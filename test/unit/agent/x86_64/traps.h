/*
 * A SIGTRAP after each instruction of a piece of work, and whether unwinding
 * from there finds who let it work.  For tests of recorders and dispatchers.
 */
#ifndef TEST_UNIT_AGENT_X86_64_TRAPS_H
#define TEST_UNIT_AGENT_X86_64_TRAPS_H

#include <signal.h>
#include <stdbool.h>

typedef void trap_handler(int number, siginfo_t *info, void *context);

/* work(n) with the handler after each instruction, NULL = without traps.  flags: SA_ONSTACK, or 0. */
void with_traps(trap_handler *handler, int flags, void (*work)(int), int n);
/* Within work, or in the handler: does unwinding from here come to with_traps()? */
bool finds_caller(void);

#endif
