/*
 * A thread as a signal's frame shows it, AArch64 (faults.h).
 */
#include <agent/faults.h>

#define CALLEES_FIRST 19 /* x19 to x29 are kept by functions; x19 is the dispatcher's */
#define CALLEES_LAST  29
#define LANDING	      (3ull << 10) /* of pstate: an indirect branch has just been taken (BTI) */
#define MODE	      0x1full	   /* of pstate: 0 where programs run */
#define FPSIMD_MAGIC  0x46508001u  /* struct fpsimd_context of asm/sigcontext.h, the first of the records */
#define FPSIMD_BYTES  528u

uint64_t agent_context_sp(const ucontext_t *context)
{
	return context->uc_mcontext.sp;
}

uint64_t agent_context_pc(const ucontext_t *context)
{
	return context->uc_mcontext.pc;
}

bool agent_context_is_kernels(const ucontext_t *context, uint64_t end)
{
	const uint32_t *record = (const uint32_t *)context->uc_mcontext.__reserved;
	uint64_t address = (uint64_t)context, sp;

	if (address + offsetof(ucontext_t, uc_mcontext.__reserved) + FPSIMD_BYTES > end)
		return false;
	sp = agent_context_sp(context);
	return !context->uc_flags && !context->uc_link && sp > address && sp <= end &&
	       sp - address >= sizeof(*context) && !(context->uc_mcontext.pstate & MODE) && record[0] == FPSIMD_MAGIC &&
	       record[1] == FPSIMD_BYTES;
}

void agent_context_go_on(ucontext_t *context, const struct probe_handled *handled, uint64_t sp, uint64_t again)
{
	for (unsigned i = CALLEES_FIRST; i <= CALLEES_LAST; i++)
		context->uc_mcontext.regs[i] = handled->call.registers.x[i];
	context->uc_mcontext.regs[CALLEES_FIRST] = (uint64_t)handled;
	context->uc_mcontext.sp = sp;
	context->uc_mcontext.pc = again;
	context->uc_mcontext.pstate &= ~LANDING;
}

/* The kernel has code for handlers to return to. */
void agent_action_complete(struct arch_action *action)
{
	(void)action;
}
