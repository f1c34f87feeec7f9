/*
 * Bringing threads that a stop waits for to the head of all that want a CPU (impl.h).
 *
 * While the program's threads are stopped, the tool, its tracer and the agent's control thread work for a ms or so.
 * Where CPUs are busy, each of them would wait for its turn as long as a whole stop takes.  A better nice value does
 * not help against other sessions (sched_autogroup) and other control groups: so these threads get the real-time class,
 * at its lowest priority, which yields to all other real-time threads.  SCHED_RESET_ON_FORK marks them: by it another
 * tool tells a thread that a killed tool has left so.  Where the class is refused, they get the best nice value; only
 * root may have either.  Context: host.
 */
#include <errno.h>
#include <sched.h>
#include <sys/resource.h>

#include "impl.h"

#ifndef SCHED_RESET_ON_FORK
#define SCHED_RESET_ON_FORK 0x40000000
#endif

static bool is_ordinary(int policy)
{
	return policy == SCHED_OTHER || policy == SCHED_BATCH || policy == SCHED_IDLE;
}

void hurry_begin(struct hurry *hurry, pid_t tid)
{
	struct sched_param lowest = {.sched_priority = sched_get_priority_min(SCHED_RR)};

	*hurry = (struct hurry){.tid = tid, .policy = sched_getscheduler(tid), .way = HURRY_NOT};
	if (hurry->policy == (SCHED_RR | SCHED_RESET_ON_FORK)) {
		hurry->policy = SCHED_OTHER;
		hurry->way = HURRY_CLASS;
		return;
	}
	if (!is_ordinary(hurry->policy & ~SCHED_RESET_ON_FORK))
		return; /* the thread has a class of its own, or has ended */
	if (!sched_setscheduler(tid, SCHED_RR | SCHED_RESET_ON_FORK, &lowest)) {
		hurry->way = HURRY_CLASS;
		return;
	}
	errno = 0;
	hurry->nice = getpriority(PRIO_PROCESS, (id_t)tid);
	if (!errno && hurry->nice != PRIO_MIN && !setpriority(PRIO_PROCESS, (id_t)tid, PRIO_MIN))
		hurry->way = HURRY_NICE;
}

void hurry_end(const struct hurry *hurry)
{
	const struct sched_param none = {0};

	if (hurry->way == HURRY_CLASS)
		sched_setscheduler(hurry->tid, hurry->policy, &none);
	else if (hurry->way == HURRY_NICE)
		setpriority(PRIO_PROCESS, (id_t)hurry->tid, hurry->nice);
}
