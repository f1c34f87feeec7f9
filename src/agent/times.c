/*
 * The file that says whose calls have times: TIMES (abi/control.h, abi/times.h).
 *
 * The file stays mapped until the session lets go of the process: a thread may be looking at the file in any call of a
 * function whose site has CALLTAP_SITE_BRIEF, and in the dispatcher.
 *
 * A flight recorder goes on when nobody moves the tick any more.  All calls have their times then: the probes look at
 * empty memory in place of the file, in which no function is brief and the tick is 0.  That memory is mapped together
 * with the file, so that nothing can fail when the tool is gone.  doc/design/clock.md has the argument.
 *
 * Called by the control thread.  Context: control.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/mman.h>

#include <agent/agent.h>
#include <base/sys.h>
#include <probe/thread.h>

/* Memory of zeros that takes address space alone. */
static bool map_empty(void)
{
	void *made =
		sys_mmap(NULL, sizeof(*probe_times), PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (sys_failed((long)made))
		return false;
	agent.times_empty = made;
	return true;
}

int agent_times_take(const struct calltap_msg_times *message, int fd)
{
	void *made;

	if (message->head.size != sizeof(*message) || fd < 0)
		return -EPROTO;
	if (message->size != sizeof(*probe_times) || probe_times || (agent.keep && !agent.times_empty && !map_empty()))
		return 0; /* plans that need it are refused */
	made = agent_map(fd, sizeof(*probe_times), PROT_READ, MAP_SHARED | MAP_NORESERVE, F_SEAL_SHRINK);
	if (!sys_failed((long)made)) {
		agent.times = made;
		/* Threads may be looking already: a further instance may be the first that has brief records. */
		__atomic_store_n(&probe_times, made, __ATOMIC_RELEASE);
	}
	return 0;
}

/* Each recorder loads the pointer anew; one that has it already writes one more record without a time at the most. */
void agent_times_follow(bool tool)
{
	if (agent.times && agent.times_empty)
		__atomic_store_n(&probe_times, tool ? agent.times : agent.times_empty, __ATOMIC_RELEASE);
}

bool agent_times_may(const struct calltap_site *site)
{
	return !(site->flags & CALLTAP_SITE_BRIEF) || (probe_times && site->id < CALLTAP_TIMES_FUNCTIONS);
}

void agent_times_release(void)
{
	probe_times = NULL;
	agent_unmap(agent.times, sizeof(*agent.times));
	agent_unmap(agent.times_empty, sizeof(*agent.times_empty));
}
