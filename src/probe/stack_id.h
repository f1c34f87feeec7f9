/*
 * Helper STACK of programs (abi/program.h): the number of the stack from which a call comes.
 *
 * Context: probe, slow path: stack that is not known to be mapped is read by system calls (program.c).
 */
#ifndef PROBE_STACK_ID_H
#define PROBE_STACK_ID_H

#include <stdint.h>

struct calltap_program_context;

uint64_t probe_help_stack(struct calltap_program_context *context);

#endif
