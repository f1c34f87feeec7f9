/*
 * The way into a static program: no loader brings the agent in, so the tool maps and relocates it, before the program
 * has run more than the first of libc's own instructions.
 *
 * Called by the code that the tool puts beside the agent (arch/generic/native/launch.h), on the program's one thread.
 * Context: control.
 */
#include <errno.h>

#include <agent/agent.h>
#include <agent/libc.h>

/* The tool looks here before it leads anything to the agent. */
AGENT_EXPORT const uint32_t calltap_agent_version = CALLTAP_ABI_VERSION;

int calltap_agent_start(const struct calltap_start *start)
{
	/* The program's functions lead to the agent's already: whatever fails, these must know what is behind them. */
	agent.placed = start;
	agent_fronts_init();
	agent.musl = start->musl;
	arch_owners.id_offset = start->id_offset;
	probe_context.tid_offset = (int32_t)start->id_offset;
	if (!arch_block_init(agent.musl))
		return -ENOMEM;
	agent_image_begin((char *const *)start->environment);
	return 0;
}
