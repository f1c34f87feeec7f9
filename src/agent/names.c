/*
 * Thread names: the agent stands in front of the functions by which threads get theirs, so that the shortest-lived
 * thread has its own name in the trace.
 *
 * Called on the program's threads in place of libc's functions, which do all the work.  The tool sees a name that is
 * set some other way while the thread lives.  Context: control, on the program's thread.
 */
#include <agent/agent.h>
#include <agent/libc.h>
#include <base/mem.h>
#include <base/sys.h>

void agent_name_refresh(void)
{
	struct probe_wiped *wiped = probe_context.wiped;
	struct ring_writer *writer = probe_self()->writer;

	if (!wiped || !wiped->alive || probe_context.shared.quiet)
		return;
	if (writer->ring)
		ring_rename(writer);
	probe_share_begin(probe_self());
	for (unsigned i = 1; i < PROBE_SETS; i++)
		if (wiped->sets[i].on && probe_self()->further[i - 1].generation == wiped->sets[i].on &&
		    probe_self()->further[i - 1].writer->ring)
			ring_rename(probe_self()->further[i - 1].writer);
	probe_share_end(probe_self());
}

int pthread_setname_np(uint64_t thread, const char *name)
{
	int ret = agent.next_setname ? agent.next_setname(thread, name) : 38 /* ENOSYS */;

	agent_name_refresh();
	return ret;
}

void agent_names_init(void)
{
	agent.next_setname = (int (*)(uint64_t, const char *))agent_next("pthread_setname_np");
	AGENT_FRONT(CALLTAP_POINTER_PTHREAD_SETNAME_NP, pthread_setname_np, agent.next_setname);
}
