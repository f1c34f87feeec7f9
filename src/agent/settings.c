/*
 * Settings that the tool hands over or changes while recording goes on: SET, TABLES and TRIGGERS (abi/control.h).
 * Called by the control thread.  Context: control.
 */
#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>

#include <agent/agent.h>
#include <base/sys.h>
#include <probe/trigger.h>

int agent_set_take(const struct calltap_msg_set *set)
{
	if (set->head.size != sizeof(*set))
		return -EPROTO;
	/* Each word is read by itself; doc/design/patching.md says what a thread makes of a change. */
	__atomic_store_n(&probe_context.threshold_ticks, set->threshold_ticks, __ATOMIC_RELAXED);
	__atomic_store_n(&probe_context.depth_max, set->depth_max, __ATOMIC_RELAXED);
	__atomic_store_n(&probe_context.tree_filter, set->tree_filter, __ATOMIC_RELAXED);
	return 0;
}

/* Tables that cannot be mapped are passed over: the tool has them all the same. */
int agent_tables_take(const struct calltap_msg_tables *tables, int fd)
{
	struct agent_mapped made = {.size = tables->size};

	if (tables->head.size != sizeof(*tables) || fd < 0)
		return -EPROTO;
	made.at = agent_map(fd, made.size, PROT_READ, MAP_SHARED, F_SEAL_SHRINK);
	if (sys_failed((long)made.at))
		return 0;
	agent_unmap(agent.tables, agent.tables_size);
	agent.tables_size = made.size;
	__atomic_store_n(&agent.tables, made.at, __ATOMIC_RELEASE);
	return 0;
}

int agent_triggers_take(const struct calltap_msg_triggers *triggers, int fd)
{
	struct agent_mapped made = {.size = triggers->size};
	int ret;

	if (triggers->head.size != sizeof(*triggers) || fd < 0)
		return -EPROTO;
	/* A sandbox may end the program for these calls; the instance that the file is for is refused. */
	if (agent.no_handled)
		return 0;
	made.at = agent_map(fd, made.size, PROT_READ | PROT_WRITE, MAP_SHARED, F_SEAL_SHRINK);
	if (sys_failed((long)made.at))
		return 0;
	/* Older triggers stay mapped: a thread may be looking at them. */
	agent.triggers.size = sizeof(made);
	ret = agent_store_add(&agent.triggers, &made, 1);
	if (!ret && probe_triggers_set(made.at, made.size))
		agent.triggers.count--;
	else if (!ret)
		return 0;
	sys_munmap(made.at, made.size);
	return ret;
}

void agent_settings_release(void)
{
	struct agent_mapped *triggers = agent.triggers.list;

	agent_unmap(agent.tables, agent.tables_size);
	if (agent.triggers.count && probe_triggers_set(NULL, 0))
		return; /* the probes did not let go of them */
	for (size_t i = 0; i < agent.triggers.count; i++)
		agent_unmap(triggers[i].at, triggers[i].size);
	agent_store_empty(&agent.triggers);
}
