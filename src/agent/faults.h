/*
 * The CPU's part of faults within handlers of the program's own (<cpu>/context.c): the thread as a signal's frame
 * shows it.
 *
 * Called by faults.c.  Contexts: probe, in a signal handler on the program's thread; agent_action_complete(): control.
 */
#ifndef AGENT_FAULTS_H
#define AGENT_FAULTS_H

#include <stdbool.h>
#include <stdint.h>
#include <ucontext.h>

#include <arch.h>
#include <probe/handlers.h>

uint64_t agent_context_sp(const ucontext_t *context);
uint64_t agent_context_pc(const ucontext_t *context);
/*
 * May it be what the kernel writes, of a thread that was interrupted with its
 * stack pointer between there and end?  Nothing from end on is looked at.
 */
bool agent_context_is_kernels(const ucontext_t *context, uint64_t end);
/*
 * The thread goes on in the dispatcher at `again`, with its frame `handled` and
 * that stack pointer; the registers that functions keep are the program's.
 */
void agent_context_go_on(ucontext_t *context, const struct probe_handled *handled, uint64_t sp, uint64_t again);
/* Fill in the fields of a handler that the kernel needs besides. */
void agent_action_complete(struct arch_action *action);

#endif
