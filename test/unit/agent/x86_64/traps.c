/* Traps after each instruction on x86-64, by the trap flag (traps.h). */
#include <stddef.h>
#include <ucontext.h>

#include "traps.h"

#define TRAP_FLAG 0x100

__attribute__((noinline)) void with_traps(trap_handler *handler, int flags, void (*work)(int), int n)
{
	struct sigaction action = {.sa_sigaction = handler, .sa_flags = SA_SIGINFO | flags};

	if (!handler) {
		work(n);
		__asm__ volatile(""); /* no tail call: we are to be found */
		return;
	}
	sigaction(SIGTRAP, &action, NULL);
	__asm__ volatile("pushfq; orq %0, (%%rsp); popfq" : : "i"(TRAP_FLAG) : "memory", "cc");
	work(n);
	__asm__ volatile("pushfq; andq %0, (%%rsp); popfq" : : "i"(~TRAP_FLAG) : "memory", "cc");
	signal(SIGTRAP, SIG_DFL);
}

/* The flag traps everywhere. */
void traps_add(uint64_t lo, uint64_t hi)
{
	(void)lo;
	(void)hi;
}

uint64_t traps_end(uint64_t last)
{
	return last;
}

uint64_t trap_pc(const void *context)
{
	return (uint64_t)((const ucontext_t *)context)->uc_mcontext.gregs[REG_RIP];
}
