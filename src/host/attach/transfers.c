/*
 * Transfers: a write() of more than a pipe holds, a recv() with MSG_WAITALL, and their like (attach.h).
 *
 * Such a call waits with a part of its data moved.  A stop of the thread would end the wait, and the call would return
 * that part: a program that does not expect it would lose the rest.  So a stop waits a while for a moment without.
 * Context: host.
 */
#include <stdlib.h>
#include <time.h>

#include "impl.h"

#define STEP_NS	    200000
#define STEP_MAX_NS 2000000

bool transfers_has(pid_t tid)
{
	struct proc_sleep sleep;

	return !proc_asleep(tid, &sleep) && native_call_transfers(sleep.number, sleep.arguments);
}

static bool any_transfers(pid_t pid)
{
	size_t count, i = 0;
	pid_t *tids;

	if (proc_threads(pid, &tids, &count))
		return false;
	while (i < count && !transfers_has(tids[i]))
		i++;
	free(tids);
	return i < count;
}

void attach_await_transfers(pid_t pid, uint64_t until_ns)
{
	struct timespec pause = {0, STEP_NS};

	while (now_ns() < until_ns && any_transfers(pid)) {
		nanosleep(&pause, NULL);
		if (pause.tv_nsec < STEP_MAX_NS)
			pause.tv_nsec += pause.tv_nsec / 4;
	}
}
