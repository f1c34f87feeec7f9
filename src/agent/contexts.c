/*
 * Where the program leaves frames without returning, or makes a stack: the agent stands in front of longjmp and its
 * kin, sigaltstack, makecontext and swapcontext.
 *
 * Called on the program's threads in place of libc's functions, which do all the work; a signal handler may call
 * longjmp.  A program that jumps or switches by code of its own is followed by what its next event shows
 * (doc/design/stacks.md).  Context: probe.
 */
#include <signal.h>

#include <agent/agent.h>
#include <agent/libc.h>
#include <probe/unwound.h>

static __attribute__((noreturn)) void jump(agent_longjmp_fn *next, void *env, int value)
{
	probe_jump(arch_jump_sp(env, !agent.musl));
	next(env, value);
	__builtin_unreachable();
}

void longjmp(void *env, int value)
{
	jump(agent.next_longjmp, env, value);
}

void _longjmp(void *env, int value)
{
	jump(agent.next__longjmp, env, value);
}

void siglongjmp(void *env, int value)
{
	jump(agent.next_siglongjmp, env, value);
}

void __longjmp_chk(void *env, int value)
{
	jump(agent.next_longjmp_chk, env, value);
}

int sigaltstack(const stack_t *stack, stack_t *old)
{
	const stack_t made = stack ? *stack : (stack_t){0}; /* a copy, for `old` may be the same memory */
	uint64_t lo = (uint64_t)made.ss_sp;
	int ret = agent.next_sigaltstack ? agent.next_sigaltstack(stack, old) : -1;

	/* Not before: if the kernel refuses the stack, handlers run where they did. */
	if (ret || !stack)
		return ret;
	if (made.ss_flags & SS_DISABLE)
		probe_stack_disable(probe_self());
	else if (probe_context.enabled)
		probe_stack_made(lo, lo + made.ss_size, true);
	return 0;
}

void agent_contexts_init(void)
{
	agent.next_longjmp = (agent_longjmp_fn *)agent_next("longjmp");
	agent.next__longjmp = (agent_longjmp_fn *)agent_next("_longjmp");
	agent.next_siglongjmp = (agent_longjmp_fn *)agent_next("siglongjmp");
	agent.next_longjmp_chk = (agent_longjmp_fn *)agent_next("__longjmp_chk");
	agent.next_sigaltstack = (int (*)(const stack_t *, stack_t *))agent_next("sigaltstack");
	arch_next_makecontext = agent_next("makecontext");
	arch_next_swapcontext = agent_next("swapcontext");
	AGENT_FRONT(CALLTAP_POINTER_SIGALTSTACK, sigaltstack, agent.next_sigaltstack);
	AGENT_FRONT(CALLTAP_POINTER_LONGJMP, longjmp, agent.next_longjmp);
	AGENT_FRONT(CALLTAP_POINTER__LONGJMP, _longjmp, agent.next__longjmp);
	AGENT_FRONT(CALLTAP_POINTER_SIGLONGJMP, siglongjmp, agent.next_siglongjmp);
	AGENT_FRONT(CALLTAP_POINTER___LONGJMP_CHK, __longjmp_chk, agent.next_longjmp_chk);
	AGENT_FRONT(CALLTAP_POINTER_MAKECONTEXT, makecontext, arch_next_makecontext);
	AGENT_FRONT(CALLTAP_POINTER_SWAPCONTEXT, swapcontext, arch_next_swapcontext);
}
