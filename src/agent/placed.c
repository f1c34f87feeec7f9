/*
 * The ways into a static program: no loader brings the agent in, so the tool relocates it, and has it mapped: before
 * the program has run more than the first of libc's own instructions, or when it has run for long.
 *
 * Called by the code that the tool puts beside the agent (arch/generic/native/launch.h), on the program's one thread;
 * or by a borrowed thread's (abi/attach.h), with signals blocked.  Context: control.
 */
#include <errno.h>

#include <agent/agent.h>
#include <agent/libc.h>
#include <base/sys.h>

/* The tool looks here before it leads anything to the agent. */
AGENT_EXPORT const uint32_t calltap_agent_version = CALLTAP_ABI_VERSION;
AGENT_EXPORT const uint32_t calltap_agent_start_version = CALLTAP_START_VERSION;

/* False: there is no memory for threads' blocks. */
static bool take_start(const struct calltap_start *start)
{
	/* The program's functions may lead to the agent's: whatever fails, these must know what is behind them. */
	agent.placed = start;
	agent_fronts_init();
	agent.musl = start->musl;
	arch_owners.id_offset = start->id_offset;
	probe_context.tid_offset = (int32_t)start->id_offset;
	return arch_block_init(agent.musl);
}

int calltap_agent_start(const struct calltap_start *start)
{
	if (!take_start(start))
		return -ENOMEM;
	agent_fronts_note();
	agent_image_begin((char *const *)start->environment);
	return 0;
}

/*
 * The program has just been executed, and its one thread is on the errand: nobody is within a head.  Returns what has
 * the errand's code unmap what it lies in (errand.S), for no control thread will: or an error, and the program is
 * untraced.
 */
static int start_executed(struct calltap_attach *attach, const struct calltap_start *start)
{
	int ret = attach->version == CALLTAP_ABI_VERSION ? 0 : -EPROTO;

	agent.no_blocks = ret || !take_start(start);
	if (agent.no_blocks)
		return ret ? ret : -ENOMEM;
	patch_poker_open(&agent.poker);
	ret = agent_fronts_lead();
	if (agent.poker.mem_fd >= 0)
		sys_close(agent.poker.mem_fd);
	agent.poker.mem_fd = -1; /* the control thread opens its own */
	if (ret)
		return ret;
	attach->session[sizeof(attach->session) - 1] = 0;
	agent_executed_begin((char *const *)start->environment, attach->session, (uint32_t)attach->filters);
	return CALLTAP_ATTACH_ALONE;
}

int calltap_agent_place(struct calltap_attach *attach)
{
	const struct calltap_start *start = (const struct calltap_start *)attach->start;

	if (!agent.placed && start->environment)
		return start_executed(attach, start);
	/* At a later attach all this is there, and threads may be in the agent's functions. */
	if (!agent.placed)
		agent.no_blocks = !take_start(start);
	else if (agent.no_blocks)
		agent.no_blocks = !arch_block_init(agent.musl);
	return calltap_agent_attach(attach);
}
