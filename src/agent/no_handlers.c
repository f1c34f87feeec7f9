/*
 * Handlers on CPUs that have no dispatcher of handlers: nothing gets here, for HANDLERS is refused (handlers.c).
 * Context: control.
 */
#include <agent/agent.h>
#include <probe/handlers.h>

void agent_vectors_find(struct probe_handled_table *table)
{
	(void)table;
}

void agent_faults_take(void)
{
}

void agent_faults_give_back(void)
{
}
