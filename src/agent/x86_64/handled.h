/*
 * x86-64's part in handlers of the program's own, beside the dispatcher: the vector registers around them, and faults
 * within.  Used by vectors.c and faults.c.
 */
#ifndef AGENT_X86_64_HANDLED_H
#define AGENT_X86_64_HANDLED_H

#include <stdint.h>

/* vectors.c: which components are saved. */
extern uint64_t agent_vectors_mask __attribute__((visibility("hidden")));
/* vectors.S */
void agent_vectors_xsavec(void *area);
void agent_vectors_xsave(void *area);
void agent_vectors_xrstor(const void *area);
void agent_vectors_fxsave(void *area);
void agent_vectors_fxrstor(const void *area);
uint64_t agent_vectors_low(uint64_t number);
void agent_sigreturn(void);

#endif
