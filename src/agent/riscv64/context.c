/*
 * A thread as a signal's frame shows it, riscv64 (faults.h).
 */
#include <agent/faults.h>

/* Places in the kernel's array of registers, which begins with the pc. */
enum { PC = 0, SP = 2, TP = 4, S0 = 8, S1 = 9, S2 = 18, S11 = 27 };

/* Bytes of the shortest frame: an emulator's ends with fcsr. */
#define LEAST_BYTES (offsetof(ucontext_t, uc_mcontext.__fpregs) + 32 * sizeof(uint64_t) + sizeof(uint32_t))

uint64_t agent_context_sp(const ucontext_t *context)
{
	return context->uc_mcontext.__gregs[SP];
}

uint64_t agent_context_pc(const ucontext_t *context)
{
	return context->uc_mcontext.__gregs[PC];
}

/*
 * The kernel writes no mark that is in every signal's frame.  So fields with values that are known are looked at, such
 * as the thread pointer.
 */
bool agent_context_is_kernels(const ucontext_t *context, uint64_t end)
{
	uint64_t address = (uint64_t)context, sp, pc;

	if (address + LEAST_BYTES > end)
		return false;
	sp = agent_context_sp(context);
	pc = agent_context_pc(context);
	return !context->__uc_flags && !context->uc_link && sp > address && sp <= end && sp - address >= LEAST_BYTES &&
	       pc && !(pc & 1) && context->uc_mcontext.__gregs[TP] == (uint64_t)__builtin_thread_pointer();
}

void agent_context_go_on(ucontext_t *context, const struct probe_handled *handled, uint64_t sp, uint64_t again)
{
	const uint64_t *kept = handled->call.registers.x;

	context->uc_mcontext.__gregs[S0] = kept[S0];
	for (unsigned i = S2; i <= S11; i++)
		context->uc_mcontext.__gregs[i] = kept[i];
	context->uc_mcontext.__gregs[S1] = (uint64_t)handled;
	context->uc_mcontext.__gregs[SP] = sp;
	context->uc_mcontext.__gregs[PC] = again;
}

/* Nothing is to be added: handlers return by code of the kernel's, and sigaction has no word for other code. */
void agent_action_complete(struct arch_action *action)
{
	(void)action;
}
