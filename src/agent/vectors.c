/*
 * How the vector registers are kept around handlers, on CPUs whose programs
 * rely on the same ones on every machine (<cpu>/vectors.S).
 *
 * Called by the control thread before the first handler is.  Context: control.
 */
#include <agent/agent.h>
#include <agent/vectors.h>
#include <probe/handlers.h>

uint64_t agent_vectors_helper(void)
{
	return (uint64_t)agent_vectors_low;
}

void agent_vectors_find(struct probe_handled_table *table)
{
	table->area = ARCH_VECTORS_BYTES;
	table->save = agent_vectors_save;
	table->restore = agent_vectors_restore;
}
