/*
 * A SIGTRAP at each instruction of a piece of work, or of what of it is the
 * dispatcher (<cpu>/traps.c), and whether unwinding from there finds who let it
 * work.  For tests of recorders and dispatchers.
 */
#ifndef TEST_UNIT_AGENT_TRAPS_H
#define TEST_UNIT_AGENT_TRAPS_H

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef void trap_handler(int number, siginfo_t *info, void *context);

/* work(n) with the handler at each instruction, NULL = without traps.  flags: SA_ONSTACK, or 0. */
void with_traps(trap_handler *handler, int flags, void (*work)(int), int n);
/* Where the handler's context says that the thread is. */
uint64_t trap_pc(const void *context);
/* For traps_in_place.c, by <cpu>/traps.c: where a function ends that returns at its end alone; how long an instruction
 * is; a breakpoint of that length. */
uint64_t traps_end(uint64_t last);
size_t traps_length(const uint8_t *code);
void traps_make(uint8_t *code, size_t length);
/* Within work, or in the handler: does unwinding from here come to with_traps()? */
bool finds_caller(void);

#endif
