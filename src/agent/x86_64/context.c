/*
 * A thread as a signal's frame shows it, x86-64 (faults.h).
 */
#include <agent/faults.h>
#include <agent/x86_64/handled.h>

#define RESTORER     0x04000000ul /* SA_RESTORER */
#define DIRECTION    0x400	  /* of the flags register */
#define UC_FLAGS     7ul	  /* all that the kernel sets in uc_flags */
#define CODE_SEGMENT 0x33	  /* of 64-bit programs */

/* The kernel's words around the vector registers in a signal's frame: struct _fpx_sw_bytes of asm/sigcontext.h. */
struct area_words {
	uint32_t magic, size; /* size: of the whole area, with the word at the end */
};
#define AREA_WORDS 464u /* offset of the words */
#define AREA_LEAST 512u
#define AREA_MAGIC 0x46505853u
#define AREA_END   0x46505845u

uint64_t agent_context_sp(const ucontext_t *context)
{
	return (uint64_t)context->uc_mcontext.gregs[REG_RSP];
}

uint64_t agent_context_pc(const ucontext_t *context)
{
	return (uint64_t)context->uc_mcontext.gregs[REG_RIP];
}

/* The vector registers lie between a frame and what it has interrupted, where there is XSAVE. */
static bool has_registers(uint64_t area, uint64_t address, uint64_t sp)
{
	const struct area_words *words = (const struct area_words *)(area + AREA_WORDS);

	if (!agent_vectors_mask)
		return true;
	if (area <= address || area >= sp || area & 63 || sp - area < AREA_LEAST)
		return false;
	return words->magic == AREA_MAGIC && words->size > AREA_LEAST && words->size <= sp - area &&
	       !(words->size & 3) && *(const uint32_t *)(area + words->size - 4) == AREA_END;
}

bool agent_context_is_kernels(const ucontext_t *context, uint64_t end)
{
	uint64_t address = (uint64_t)context, sp;

	if (address + offsetof(ucontext_t, uc_sigmask) + sizeof(uint64_t) > end)
		return false;
	sp = agent_context_sp(context);
	return context->uc_flags <= UC_FLAGS && !context->uc_link && sp > address && sp <= end &&
	       (context->uc_mcontext.gregs[REG_CSGSFS] & 0xffff) == CODE_SEGMENT &&
	       has_registers((uint64_t)context->uc_mcontext.fpregs, address, sp);
}

void agent_context_go_on(ucontext_t *context, const struct probe_handled *handled, uint64_t sp, uint64_t again)
{
	const struct calltap_registers *kept = &handled->call.registers;
	greg_t *registers = context->uc_mcontext.gregs;

	registers[REG_RSP] = (greg_t)sp;
	registers[REG_RBX] = (greg_t)handled;
	/* Registers that functions keep may hold the handler's values; rbx comes back with the others. */
	registers[REG_RBP] = (greg_t)kept->rbp;
	registers[REG_R12] = (greg_t)kept->r12;
	registers[REG_R13] = (greg_t)kept->r13;
	registers[REG_R14] = (greg_t)kept->r14;
	registers[REG_R15] = (greg_t)kept->r15;
	registers[REG_RIP] = (greg_t)again;
	registers[REG_EFL] &= ~DIRECTION;
}

void agent_action_complete(struct arch_action *action)
{
	if (action->flags & RESTORER)
		return;
	action->flags |= RESTORER;
	action->restorer = (uint64_t)agent_sigreturn;
}
