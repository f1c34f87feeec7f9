/*
 * A SIGTRAP at each instruction of a piece of work, or of the dispatcher's part of it (<cpu>/traps.c), and a check
 * that unwinding from there finds the caller of the work.
 *
 * Callers: tests of recorders and dispatchers.
 */
#ifndef TEST_UNIT_AGENT_TRAPS_H
#define TEST_UNIT_AGENT_TRAPS_H

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef void trap_handler(int number, siginfo_t *info, void *context);

/* Run work(n) with the handler at each instruction, NULL = without traps. flags: SA_ONSTACK, or 0. */
void with_traps(trap_handler *handler, int flags, void (*work)(int), int n);
/* Where instructions are made breakpoints: code besides the dispatcher's that is trapped, before the first
 * with_traps(). */
void traps_add(uint64_t lo, uint64_t hi);
/* The thread's pc in the handler's context. */
uint64_t trap_pc(const void *context);
/* <cpu>/traps.c, for traps_in_place.c: the end of the first return at or behind an address; an instruction's length;
 * the bytes of a loop that begins there with a load-exclusive, 0 = none; a breakpoint of an instruction's length. */
uint64_t traps_end(uint64_t last);
size_t traps_loop(const uint8_t *code);
size_t traps_length(const uint8_t *code);
void traps_make(uint8_t *code, size_t length);
/* True if unwinding from here, in work or in the handler, comes to with_traps(). */
bool finds_caller(void);

#endif
