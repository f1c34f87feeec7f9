/*
 * Faults within handlers of the program's own: the handler is called no more,
 * and the thread goes on behind it with all registers as the program had them.
 *
 * The signals' dispositions are the agent's from when there are handlers until
 * the session ends; what is not a handler's fault goes to what was there, as
 * the kernel would have done it.  A program that sets them later has them.
 * Setting and giving back: control thread, context control.  on_fault(): the
 * program's thread, in a signal handler, context probe.
 */
#include <errno.h>
#include <signal.h>
#include <sys/uio.h>
#include <ucontext.h>

#include <agent/agent.h>
#include <agent/x86_64/handled.h>
#include <base/sys.h>
#include <probe/handlers.h>

#define RESTORER	 0x04000000ul /* SA_RESTORER */
#define MASK_BYTES	 8u
#define DIRECTION	 0x400 /* of the flags register */
#define BUS_MEMORY_LATER 5     /* BUS_MCEERR_AO: memory is bad, but it was not this thread that met it */
#define UC_FLAGS	 7ul   /* all that the kernel sets in uc_flags */
#define PAGE_MASK	 4095ull
#define CODE_SEGMENT	 0x33 /* of 64-bit programs */
#define SIGNALS		 64

/* What the kernel writes around the vector registers in a signal's frame: struct _fpx_sw_bytes of asm/sigcontext.h. */
struct area_words {
	uint32_t magic, size; /* of all, with the word at the end */
};
#define AREA_WORDS 464u /* their place */
#define AREA_LEAST 512u
#define AREA_MAGIC 0x46505853u
#define AREA_END   0x46505845u

/* The order of agent.faults. */
static const int fault_signals[AGENT_FAULTS] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE};

static struct agent_fault *fault_of(int signal)
{
	for (unsigned i = 0; i < AGENT_FAULTS; i++)
		if (fault_signals[i] == signal)
			return &agent.faults[i];
	return NULL;
}

static bool is_handler(const struct agent_action *action)
{
	return action->handler != (uint64_t)SIG_DFL && action->handler != (uint64_t)SIG_IGN;
}

static long set_action(int signal, const struct agent_action *action, struct agent_action *old)
{
	return SYS(rt_sigaction, signal, action, old, MASK_BYTES, 0, 0);
}

static bool set_default(int signal)
{
	const struct agent_action none = {.handler = (uint64_t)SIG_DFL};

	return !sys_failed(set_action(signal, &none, NULL));
}

/* The kernel's, shorter than libc's type. */
static uint64_t mask_of(const ucontext_t *context)
{
	return *(const uint64_t *)&context->uc_sigmask;
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

/* Are there handlers of signals that run with no more signals blocked than these?  In a sandbox nobody asks. */
static bool may_block_none(uint64_t blocked)
{
	struct agent_action action;

	if (probe_context.shared.quiet)
		return true;
	for (int signal = 1; signal <= SIGNALS; signal++)
		if (!sys_failed(set_action(signal, NULL, &action)) && is_handler(&action) &&
		    action.flags & (unsigned)SA_NODEFER && !(action.mask & ~blocked))
			return true;
	return false;
}

/*
 * Is there the frame of a signal's handler at address, which has interrupted
 * what ran below `end` and runs with those signals blocked?  One that has come
 * to its end may lie there whole, in what nobody has written since: while it
 * ran, its signal was blocked.
 */
static bool is_signal_frame(uint64_t address, uint64_t end, uint64_t blocked)
{
	const uint64_t *words = (const uint64_t *)address; /* the address to return to, then its ucontext_t */
	const ucontext_t *context = (const ucontext_t *)(words + 1);
	uint64_t sp;

	if (address + sizeof(*words) + offsetof(ucontext_t, uc_sigmask) + MASK_BYTES > end)
		return false;
	sp = (uint64_t)context->uc_mcontext.gregs[REG_RSP];
	return context->uc_flags <= UC_FLAGS && !context->uc_link && sp > address && sp <= end &&
	       (context->uc_mcontext.gregs[REG_CSGSFS] & 0xffff) == CODE_SEGMENT &&
	       has_registers((uint64_t)context->uc_mcontext.fpregs, address, sp) &&
	       (mask_of(context) != blocked || may_block_none(blocked));
}

/* A look at what is not there would be the program's end; and so may be the question, in a sandbox. */
static bool is_there(uint64_t address)
{
	uint64_t word;
	struct iovec here = {&word, sizeof(word)}, there = {(void *)address, sizeof(word)};

	return probe_context.shared.quiet || SYS(process_vm_readv, sys_gettid(), &here, 1, &there, 1, 0) != -EFAULT;
}

/*
 * It is not the handler that has faulted, but a signal's that has interrupted
 * it: that is the program's affair.  As is all that is not on one stack.
 */
static bool was_interrupted(uint64_t sp, uint64_t end, uint64_t blocked)
{
	for (uint64_t page = sp & ~PAGE_MASK; page < end; page += PAGE_MASK + 1)
		if (!is_there(page))
			return true;
	/* Such a frame lies as a call's return address does. */
	for (uint64_t at = (sp & ~15ull) + 8; at < end; at += 16)
		if (is_signal_frame(at, end, blocked))
			return true;
	return false;
}

/* A signal's handler on a stack of its own is none of the program's handlers for calls on another. */
static bool is_elsewhere(const ucontext_t *context, uint64_t sp, uint64_t handled)
{
	uint64_t lo = (uint64_t)context->uc_stack.ss_sp, size = context->uc_stack.ss_size;

	return !(context->uc_stack.ss_flags & SS_DISABLE) && sp - lo < size && handled - lo >= size;
}

/* True: the thread goes on without the handler. */
static bool recover(int signal, const siginfo_t *info, ucontext_t *context)
{
	greg_t *registers = context->uc_mcontext.gregs;
	uint64_t sp = (uint64_t)registers[REG_RSP], go_on;
	struct probe_handled *handled;

	if (info->si_code <= 0 || (signal == SIGBUS && info->si_code == BUS_MEMORY_LATER) || arch_shadow_stack())
		return false;
	handled = probe_handled_faulted(sp);
	if (!handled || is_elsewhere(context, sp, (uint64_t)handled) ||
	    was_interrupted(sp, (uint64_t)handled, mask_of(context)))
		return false;
	probe_handled_disable(handled, (uint32_t)signal, (uint64_t)registers[REG_RIP], (uint64_t)info->si_addr);
	go_on = handled->how & PROBE_HANDLED_VECTORS ? (uint64_t)handled->area : (uint64_t)handled & ~63ull;
	registers[REG_RSP] = (greg_t)go_on;
	registers[REG_RBX] = (greg_t)handled;
	/* What functions keep by themselves is the handler's, perhaps; rbx comes back with the others. */
	registers[REG_RBP] = (greg_t)handled->call.registers.rbp;
	registers[REG_R12] = (greg_t)handled->call.registers.r12;
	registers[REG_R13] = (greg_t)handled->call.registers.r13;
	registers[REG_R14] = (greg_t)handled->call.registers.r14;
	registers[REG_R15] = (greg_t)handled->call.registers.r15;
	registers[REG_RIP] =
		(greg_t)((handled->how & ~PROBE_HANDLED_VECTORS) == PROBE_HANDLED_EXIT ? arch_handled_again_exit
										       : arch_handled_again_entry);
	registers[REG_EFL] &= ~DIRECTION;
	return true;
}

/* There is nobody to be called: what the kernel does then. */
static void do_default(int signal, siginfo_t *info, bool ignored)
{
	if (ignored && info->si_code <= 0)
		return;
	/* Or it would happen for ever. */
	if (!set_default(signal))
		SYS(tgkill, sys_getpid(), sys_gettid(), SIGKILL, 0, 0, 0);
	/* A fault happens again.  One that was sent is, too: it waits until we return. */
	if (info->si_code <= 0)
		SYS(rt_tgsigqueueinfo, sys_getpid(), sys_gettid(), signal, info, 0, 0);
}

static void on_fault(int signal, siginfo_t *info, void *context)
{
	const struct agent_fault *fault = fault_of(signal);
	const struct agent_action *old = &fault->old;

	if (recover(signal, info, context))
		return;
	if (!is_handler(old)) {
		do_default(signal, info, old->handler == (uint64_t)SIG_IGN);
		return;
	}
	if (old->flags & (unsigned)SA_RESETHAND)
		set_default(signal);
	/* The kernel passes all three, whether they are wanted or not. */
	((void (*)(int, siginfo_t *, void *))old->handler)(signal, info, context);
}

void agent_faults_take(void)
{
	for (unsigned i = 0; i < AGENT_FAULTS; i++) {
		struct agent_fault *fault = &agent.faults[i];
		struct agent_action ours = {0};

		if (fault->taken || sys_failed(set_action(fault_signals[i], NULL, &fault->old)))
			continue;
		/* One that is ignored stays so over exec, and must be seen to. */
		if (fault->old.handler == (uint64_t)SIG_IGN || fault->old.handler == (uint64_t)on_fault)
			continue;
		ours = fault->old;
		if (!is_handler(&ours)) {
			ours.flags = SA_ONSTACK | SA_RESTART;
			ours.mask = 0;
		}
		ours.flags = (ours.flags & ~(uint64_t)(unsigned)SA_RESETHAND) | SA_SIGINFO;
		if (!(ours.flags & RESTORER)) {
			ours.flags |= RESTORER;
			ours.restorer = (uint64_t)agent_sigreturn;
		}
		ours.handler = (uint64_t)on_fault;
		fault->taken = !sys_failed(set_action(fault_signals[i], &ours, NULL));
	}
}

void agent_faults_give_back(void)
{
	for (unsigned i = 0; i < AGENT_FAULTS; i++) {
		struct agent_fault *fault = &agent.faults[i];
		struct agent_action now = {0};

		if (!fault->taken || sys_failed(set_action(fault_signals[i], NULL, &now)))
			continue;
		/* Who has set another since may still call ours, which goes on to the old one. */
		if (now.handler == (uint64_t)on_fault)
			set_action(fault_signals[i], &fault->old, NULL);
		fault->taken = now.handler != (uint64_t)on_fault;
	}
}
