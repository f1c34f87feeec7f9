/*
 * Regions of blocks, with their unwind tables (doc/design/stock.md): what is mapped, for unwinders and debuggers.
 *
 * The control thread appends and clears; the program's threads ask at any time, from signal handlers too: no locks, no
 * state but the append-only list.  Context: control, but for agent_blocks_of().
 */
#include <errno.h>

#include <agent/agent.h>
#include <base/sys.h>

int agent_blocks_add(uint64_t lo, uint64_t hi, uint64_t header, uint64_t header_size)
{
	uint32_t n = agent.blocks_count;

	for (uint32_t i = 0; i < n; i++)
		if (agent.blocks[i].lo == lo && agent.blocks[i].hi == hi)
			return 0;
	if (n == PROBE_REGIONS)
		return -ENOSPC;
	if (hi <= lo || header < lo || header > hi || header_size > hi - header || header_size < AGENT_EH_HEADER)
		return -EINVAL;
	agent.blocks[n] = (struct agent_blocks){lo, hi, header, header_size};
	__atomic_store_n(&agent.blocks_count, n + 1, __ATOMIC_RELEASE); /* pairs with agent_blocks_of */
	agent_debugger_tell_blocks(&agent.blocks[n]);
	return 0;
}

const struct agent_blocks *agent_blocks_of(uint64_t address)
{
	/* Acquire: pairs with agent_blocks_add. */
	uint32_t n = __atomic_load_n(&agent.blocks_count, __ATOMIC_ACQUIRE);

	for (uint32_t i = 0; i < n; i++)
		if (address >= agent.blocks[i].lo && address < agent.blocks[i].hi)
			return &agent.blocks[i];
	return NULL;
}

void agent_blocks_forget(void)
{
	uint32_t n = agent.blocks_count;

	__atomic_store_n(&agent.blocks_count, 0, __ATOMIC_RELEASE);
	for (uint32_t i = 0; i < n; i++)
		sys_munmap((void *)agent.blocks[i].lo, agent.blocks[i].hi - agent.blocks[i].lo);
}
