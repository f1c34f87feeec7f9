/*
 * The agent's reports about the clock: the cost of a read, and the time at one moment, for a tool that cannot read this
 * CPU's counter itself.
 *
 * Called by the control thread.  Context: control.
 */
#include <agent/agent.h>
#include <base/sys.h>

#define TRIES 5

void agent_clock_sample(uint64_t *ticks, uint64_t *monotonic_ns)
{
	uint64_t best = UINT64_MAX;

	/* The sample whose two reads of the counter lie closest is the best. */
	for (int i = 0; i < TRIES; i++) {
		uint64_t before = arch_clock(), ns = sys_monotonic_ns(), width = arch_clock() - before;

		if (width >= best)
			continue;
		best = width;
		*ticks = before + width / 2;
		*monotonic_ns = ns;
	}
}

uint32_t agent_clock_cost(void)
{
	uint64_t start = arch_clock(), cost;

	for (unsigned i = 1; i < CALLTAP_CLOCK_READS; i++)
		(void)arch_clock();
	cost = arch_clock() - start;
	return cost < UINT32_MAX ? (uint32_t)cost : UINT32_MAX;
}

int agent_clock_tell(void)
{
	struct calltap_msg_clock_told told = {.head = {CALLTAP_MSG_CLOCK_TOLD, sizeof(told)}};

	agent_clock_sample(&told.ticks, &told.monotonic_ns);
	return agent_send(&told, sizeof(told));
}
