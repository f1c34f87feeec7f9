/*
 * The file that says whose calls have times: TIMES (abi/control.h, abi/times.h).
 *
 * The file stays mapped until the session lets go of the process: a thread may be looking at the file in any call of a
 * function whose site has CALLTAP_SITE_BRIEF.  Called by the control thread.  Context: control.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/mman.h>

#include <agent/agent.h>
#include <base/sys.h>
#include <probe/thread.h>

int agent_times_take(const struct calltap_msg_times *message, int fd)
{
	void *made;

	if (message->head.size != sizeof(*message) || fd < 0)
		return -EPROTO;
	if (message->size != sizeof(*probe_times) || probe_times)
		return 0; /* plans that need it are refused */
	made = agent_map(fd, sizeof(*probe_times), PROT_READ, MAP_SHARED | MAP_NORESERVE, F_SEAL_SHRINK);
	if (!sys_failed((long)made))
		probe_times = made;
	return 0;
}

bool agent_times_may(const struct calltap_site *site)
{
	return !(site->flags & CALLTAP_SITE_BRIEF) || (probe_times && site->id < CALLTAP_TIMES_FUNCTIONS);
}

void agent_times_release(void)
{
	if (probe_times)
		sys_munmap((void *)(uintptr_t)probe_times, sizeof(*probe_times));
	probe_times = NULL;
}
