/*
 * Faults within handlers of the program's own: the handler is called no more, and the thread goes on behind it with all
 * registers as the program had them.
 *
 * The signals' actions are the agent's from when there are handlers until the session ends; a fault that is not a
 * handler's goes to the program's action, as the kernel would have done it.  If the program sets the actions later,
 * they are its own again.  Setting and giving back: control thread, context control. on_fault(): the program's thread,
 * in a signal handler, context probe.
 */
#include <errno.h>
#include <signal.h>
#include <sys/uio.h>
#include <ucontext.h>

#include <agent/agent.h>
#include <agent/faults.h>
#include <base/sys.h>
#include <probe/handlers.h>

#define MASK_BYTES	 8u
#define BUS_MEMORY_LATER 5 /* BUS_MCEERR_AO: memory is bad, but it was not this thread that met it */
#define PAGE_MASK	 4095ull
#define SIGNALS		 64

/* The order of agent.faults. */
static const int fault_signals[AGENT_FAULTS] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE};

static struct agent_fault *fault_of(int signal)
{
	for (unsigned i = 0; i < AGENT_FAULTS; i++)
		if (fault_signals[i] == signal)
			return &agent.faults[i];
	return NULL;
}

static bool is_handler(const struct arch_action *action)
{
	return action->handler != (uint64_t)SIG_DFL && action->handler != (uint64_t)SIG_IGN;
}

static long set_action(int signal, const struct arch_action *action, struct arch_action *old)
{
	return SYS(rt_sigaction, signal, action, old, MASK_BYTES, 0, 0);
}

static bool set_default(int signal)
{
	const struct arch_action none = {.handler = (uint64_t)SIG_DFL};

	return !sys_failed(set_action(signal, &none, NULL));
}

/* The signal mask as the kernel has it, shorter than libc's type. */
static uint64_t mask_of(const ucontext_t *context)
{
	return *(const uint64_t *)&context->uc_sigmask;
}

/* Are there handlers of signals that run with no more signals blocked than these?  In a sandbox nobody asks. */
static bool may_block_none(uint64_t blocked)
{
	struct arch_action action;

	if (probe_context.shared.quiet)
		return true;
	for (int signal = 1; signal <= SIGNALS; signal++)
		if (!sys_failed(set_action(signal, NULL, &action)) && is_handler(&action) &&
		    action.flags & (unsigned)SA_NODEFER && !(action.mask & ~blocked))
			return true;
	return false;
}

/*
 * True if the context is that of a signal's handler that has interrupted code below `end` and still runs, with those
 * signals blocked.  A handler that has ended may have left its whole frame in memory that nobody has written since, or
 * most of it; but only a running handler has its own signal blocked, beside those that its frame has saved.  (A handler
 * that has unblocked one of these itself is not seen.)
 */
static bool is_signal_frame(const ucontext_t *context, uint64_t end, uint64_t blocked)
{
	uint64_t saved;

	if (!agent_context_is_kernels(context, end))
		return false;
	saved = mask_of(context);
	return !(saved & ~blocked) && (saved != blocked || may_block_none(blocked));
}

/*
 * True if the address can be read: a load from unmapped memory would be the program's end.  In a sandbox, where the
 * system call may be its end, too, every address counts as mapped.
 */
static bool is_there(uint64_t address)
{
	uint64_t word;
	struct iovec here = {&word, sizeof(word)}, there = {(void *)address, sizeof(word)};

	return probe_context.shared.quiet || SYS(process_vm_readv, sys_gettid(), &here, 1, &there, 1, 0) != -EFAULT;
}

/*
 * True if not the handler at a function has faulted, but a signal's handler that interrupted it: such a fault is the
 * program's affair.  True, too, if sp and end are not on one stack.
 */
static bool was_interrupted(uint64_t sp, uint64_t end, uint64_t blocked)
{
	for (uint64_t page = sp & ~PAGE_MASK; page < end; page += PAGE_MASK + 1)
		if (!is_there(page))
			return true;
	for (uint64_t at = (sp & ~15ull) + 16; at < end; at += 16)
		if (is_signal_frame((const ucontext_t *)at, end, blocked))
			return true;
	return false;
}

/* True if a signal's handler runs on a stack of its own, and the call whose handlers run does not. */
static bool is_elsewhere(const ucontext_t *context, uint64_t sp, uint64_t handled)
{
	uint64_t lo = (uint64_t)context->uc_stack.ss_sp, size = context->uc_stack.ss_size;

	return !(context->uc_stack.ss_flags & SS_DISABLE) && sp - lo < size && handled - lo >= size;
}

/* Leave the handler that has faulted.  True: the thread goes on without it. */
static bool recover(int signal, const siginfo_t *info, ucontext_t *context)
{
	uint64_t sp = agent_context_sp(context), go_on;
	struct probe_handled *handled;

	if (info->si_code <= 0 || (signal == SIGBUS && info->si_code == BUS_MEMORY_LATER) || arch_shadow_stack())
		return false;
	handled = probe_handled_faulted(sp);
	if (!handled || is_elsewhere(context, sp, (uint64_t)handled) ||
	    was_interrupted(sp, (uint64_t)handled, mask_of(context)))
		return false;
	probe_handled_disable(handled, (uint32_t)signal, agent_context_pc(context), (uint64_t)info->si_addr);
	go_on = handled->how & PROBE_HANDLED_VECTORS ? (uint64_t)handled->area : (uint64_t)handled & ~63ull;
	agent_context_go_on(context, handled, go_on,
			    (handled->how & ~PROBE_HANDLED_VECTORS) == PROBE_HANDLED_EXIT
				    ? (uint64_t)arch_handled_again_exit
				    : (uint64_t)arch_handled_again_entry);
	return true;
}

/* The program has no handler: do as the kernel would. */
static void do_default(int signal, siginfo_t *info, bool ignored)
{
	if (ignored && info->si_code <= 0)
		return;
	/* Without the default action the fault would come again for ever. */
	if (!set_default(signal))
		SYS(tgkill, sys_getpid(), sys_gettid(), SIGKILL, 0, 0, 0);
	/* A fault happens again on return.  A signal that was sent is sent again, and waits until the return. */
	if (info->si_code <= 0)
		SYS(rt_tgsigqueueinfo, sys_getpid(), sys_gettid(), signal, info, 0, 0);
}

static void on_fault(int signal, siginfo_t *info, void *context)
{
	const struct agent_fault *fault = fault_of(signal);
	const struct arch_action *old = &fault->old;

	if (recover(signal, info, context))
		return;
	if (!is_handler(old)) {
		do_default(signal, info, old->handler == (uint64_t)SIG_IGN);
		return;
	}
	if (old->flags & (unsigned)SA_RESETHAND)
		set_default(signal);
	/* The kernel passes all three arguments, whether they are wanted or not. */
	((void (*)(int, siginfo_t *, void *))old->handler)(signal, info, context);
}

void agent_faults_take(void)
{
	for (unsigned i = 0; i < AGENT_FAULTS; i++) {
		struct agent_fault *fault = &agent.faults[i];
		struct arch_action ours = {0};

		if (fault->taken || sys_failed(set_action(fault_signals[i], NULL, &fault->old)))
			continue;
		/* An ignored signal stays so over exec, and must be seen to be ignored. */
		if (fault->old.handler == (uint64_t)SIG_IGN || fault->old.handler == (uint64_t)on_fault)
			continue;
		ours = fault->old;
		if (!is_handler(&ours)) {
			ours.flags = SA_ONSTACK | SA_RESTART;
			ours.mask = 0;
		}
		ours.flags = (ours.flags & ~(uint64_t)(unsigned)SA_RESETHAND) | SA_SIGINFO;
		agent_action_complete(&ours);
		ours.handler = (uint64_t)on_fault;
		fault->taken = !sys_failed(set_action(fault_signals[i], &ours, NULL));
	}
}

void agent_faults_give_back(void)
{
	for (unsigned i = 0; i < AGENT_FAULTS; i++) {
		struct agent_fault *fault = &agent.faults[i];
		struct arch_action now = {0};

		if (!fault->taken || sys_failed(set_action(fault_signals[i], NULL, &now)))
			continue;
		/* A program that has set an action since may still call the agent's, which goes on to fault->old. */
		if (now.handler == (uint64_t)on_fault)
			set_action(fault_signals[i], &fault->old, NULL);
		fault->taken = now.handler != (uint64_t)on_fault;
	}
}
