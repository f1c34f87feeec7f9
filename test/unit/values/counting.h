/*
 * Programs that count, run on a map of the test's, which forked processes share: in the interpreter, and as this CPU's
 * code.
 */
#ifndef TEST_VALUES_COUNTING_H
#define TEST_VALUES_COUNTING_H

#include <stdbool.h>
#include <stdint.h>

#include <calltap/abi/maps.h>
#include <calltap/abi/program.h>

struct fetch;

extern struct calltap_map *counting_map;     /* counting_load() makes it */
extern bool counting_absent;		     /* there is no map: helpers find nothing */
extern uint64_t counting_time, counting_pid; /* what helper TIME tells, and whose spans there are */
extern _Thread_local uint32_t counting_lane; /* of the thread that runs them */

/* The program that the two functions below run from now on. */
void counting_load(const struct fetch *fetch);
/* The program's verdict.  One that reaches for what is not its own fails the test. */
uint64_t counting_interpret(const struct calltap_program_context *context);
uint64_t counting_run(const struct calltap_program_context *context);

#endif
