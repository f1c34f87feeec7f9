/*
 * Rings of another size for threads that go on writing: `calltap set buffer=`.
 *
 * The processes get arenas of the new size, or theirs of that size back into
 * use; all others are retired.  A thread goes over by itself when it comes to
 * its next sub-buffer (probe/thread.c), and the drainer takes what it leaves.
 * doc/design/ring.md has the argument.  Sub-buffers stay as large as they are.
 * Called by steer.c and the drainer, with the session's lock.  Context: host.
 */
#include <errno.h>
#include <sys/mman.h>
#include <unistd.h>

#include "session.h"

#define RINGS_MIN   16u
#define ARENAS_KEPT 8u /* for threads to come */

static bool swap_state(const struct target_arena *arena, uint32_t index, uint32_t from, uint32_t to)
{
	return __atomic_compare_exchange_n(&arena->arena->state[index], &from, to, false, __ATOMIC_ACQ_REL,
					   __ATOMIC_RELAXED);
}

void resize_put_back(const struct target_arena *arena, uint32_t index)
{
	if (!arena->retired)
		(void)swap_state(arena, index, CALLTAP_RING_OUT, CALLTAP_RING_FREE);
	else /* its own page stays: the counters run on */
		madvise((char *)ring_of(arena, index) + CALLTAP_PAGE, (size_t)arena->sub_size * arena->sub_count,
			MADV_REMOVE);
}

void resize_collect(const struct process *process)
{
	if (!rings_count(process, false, true))
		return; /* what it was sent may not be mapped yet */
	for (uint32_t i = 0; i < process->arena_count; i++) {
		const struct target_arena *arena = &process->arenas[i];

		for (uint32_t k = 0; k < arena->ring_count && arena->retired; k++)
			if (swap_state(arena, k, CALLTAP_RING_FREE, CALLTAP_RING_OUT))
				resize_put_back(arena, k);
	}
}

/* Which arenas are in use: those of this size. */
static void choose(struct process *process, uint32_t sub_count)
{
	for (uint32_t i = 0; i < process->arena_count; i++) {
		struct target_arena *arena = &process->arenas[i];

		arena->retired = arena->sub_count != sub_count;
		for (uint32_t k = 0; k < arena->ring_count; k++) {
			__atomic_store_n(&ring_of(arena, k)->retired, arena->retired, __ATOMIC_RELEASE);
			if (!arena->retired)
				(void)swap_state(arena, k, CALLTAP_RING_OUT, CALLTAP_RING_FREE);
		}
	}
}

static uint32_t size_in_use(const struct process *process)
{
	for (uint32_t i = 0; i < process->arena_count; i++)
		if (!process->arenas[i].retired)
			return process->arenas[i].sub_count;
	return 0;
}

/* Errors of the connection are the process' end, which is seen elsewhere. */
static int add_rings(struct session *session, struct process *process, uint32_t rings)
{
	struct calltap_msg_arena message = {.head = {CALLTAP_MSG_ARENA, sizeof(message)}};
	int fd, ret;

	if (process->arena_count + ARENAS_KEPT > TARGET_ARENAS)
		return -ENOSPC;
	rings = rings < RINGS_MIN ? RINGS_MIN : rings;
	ret = arena_add(session, process, rings < CALLTAP_ARENA_RINGS ? rings : CALLTAP_ARENA_RINGS, &fd);
	if (ret)
		return ret;
	message.arena_size = process->arenas[process->arena_count - 1].size;
	if (channel_send(process->socket, &message, sizeof(message), &fd, 1))
		arena_destroy(session, &process->arenas[--process->arena_count], false);
	close(fd);
	return 0;
}

static int resize_process(struct session *session, struct process *process)
{
	uint32_t before = size_in_use(process), wanted = rings_count(process, false, true), there;
	int ret = 0;

	if (before == session->sub_count)
		return 0;
	choose(process, session->sub_count);
	there = rings_count(process, false, false);
	if (there < wanted || !there)
		ret = add_rings(session, process, wanted - there);
	if (ret || size_in_use(process) != session->sub_count)
		choose(process, before);
	return ret;
}

static int resize_all(struct session *session)
{
	int ret = 0;

	for (struct process *process = session->processes; process && !ret; process = process->next)
		if (process->arena_count && live_can_be_told(process))
			ret = resize_process(session, process);
	return ret;
}

int resize_rings(struct session *session, uint64_t *bytes)
{
	uint32_t before = session->sub_count;
	uint64_t subs = *bytes / session->sub_size;
	int ret;

	session->sub_count = (uint32_t)(subs < 2 ? 2 : subs);
	ret = resize_all(session);
	if (ret) {
		session->sub_count = before;
		if (resize_all(session)) /* they have them; who lacks some stays with what it has */
			return ret;
	}
	*bytes = (uint64_t)session->sub_size * session->sub_count;
	return ret;
}

uint32_t resize_find_thread(const struct session *session, const struct process *process, uint32_t owner)
{
	for (uint32_t i = session->thread_count; i-- > 0;)
		if (session->threads[i].row.process == process->index &&
		    session->threads[i].owner == (owner & ~CALLTAP_OWNER_MOVED))
			return i;
	return UINT32_MAX;
}
