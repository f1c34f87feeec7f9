/*
 * Who calls: helpers TIME, PID, TID, COMM and MATCH_COMM of programs (abi/program.h).
 *
 * Context: probe, slow path: COMM always makes system calls, PID and TID where nothing is known yet.
 */
#ifndef PROBE_CALLER_H
#define PROBE_CALLER_H

#include <stdint.h>

struct calltap_program_context;

uint64_t probe_help_time(void);
uint64_t probe_help_pid(void);
uint64_t probe_help_tid(void);
uint64_t probe_help_comm(struct calltap_program_context *context);
uint64_t probe_help_match_comm(const unsigned char *pattern, uint64_t size);

#endif
