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

#include <host/session/session.h>

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

void resize_collect(const struct share *share)
{
	if (!rings_count(share, false, true))
		return; /* what it was sent may not be mapped yet */
	for (uint32_t i = 0; i < share->arena_count; i++) {
		const struct target_arena *arena = &share->arenas[i];

		for (uint32_t k = 0; k < arena->ring_count && arena->retired; k++)
			if (swap_state(arena, k, CALLTAP_RING_FREE, CALLTAP_RING_OUT))
				resize_put_back(arena, k);
	}
}

/* Use the arenas whose rings have this size, and retire all others. */
static void choose(struct share *share, uint32_t sub_count)
{
	for (uint32_t i = 0; i < share->arena_count; i++) {
		struct target_arena *arena = &share->arenas[i];

		arena->retired = arena->sub_count != sub_count;
		for (uint32_t k = 0; k < arena->ring_count; k++) {
			__atomic_store_n(&ring_of(arena, k)->retired, arena->retired, __ATOMIC_RELEASE);
			if (!arena->retired)
				(void)swap_state(arena, k, CALLTAP_RING_OUT, CALLTAP_RING_FREE);
		}
	}
}

static uint32_t size_in_use(const struct share *share)
{
	for (uint32_t i = 0; i < share->arena_count; i++)
		if (!share->arenas[i].retired)
			return share->arenas[i].sub_count;
	return 0;
}

/* Errors of the connection are the process' end, which is seen elsewhere. */
static int add_rings(struct share *share, uint32_t rings)
{
	struct calltap_msg_arena message = {.head = {CALLTAP_MSG_ARENA, sizeof(message)}, .set = share->instance->set};
	int fd, ret;

	if (share->arena_count + ARENAS_KEPT > TARGET_ARENAS)
		return -ENOSPC;
	rings = rings < RINGS_MIN ? RINGS_MIN : rings < CALLTAP_ARENA_RINGS ? rings : CALLTAP_ARENA_RINGS;
	rings = rings_room(share->instance, share->target, rings, 0);
	ret = rings ? arena_add(share, rings, &fd) : -ENOMEM;
	if (ret)
		return ret;
	message.arena_size = share->arenas[share->arena_count - 1].size;
	if (channel_send(share->target->socket, &message, sizeof(message), &fd, 1))
		arena_destroy(share->instance, &share->arenas[--share->arena_count], false);
	close(fd);
	return 0;
}

static int resize_share(struct share *share)
{
	const struct instance *instance = share->instance;
	uint32_t before = size_in_use(share), wanted = rings_count(share, false, true), there;
	int ret = 0;

	if (before == instance->sub_count)
		return 0;
	choose(share, instance->sub_count);
	there = rings_count(share, false, false);
	if (there < wanted || !there)
		ret = add_rings(share, wanted - there);
	if (ret || size_in_use(share) != instance->sub_count)
		choose(share, before);
	return ret;
}

static int resize_all(struct instance *instance)
{
	int ret = 0;

	for (struct share *share = instance->shares; share && !ret; share = share->next)
		if (share->arena_count && live_can_be_told(share->target))
			ret = resize_share(share);
	return ret;
}

int resize_rings(struct instance *instance, uint64_t *bytes)
{
	uint32_t before = instance->sub_count;
	uint64_t subs = *bytes / instance->sub_size;
	int ret;

	instance->sub_count = (uint32_t)(subs < 2 ? 2 : subs);
	ret = resize_all(instance);
	if (ret) {
		instance->sub_count = before;
		if (resize_all(instance)) /* they have them; who lacks some stays with what it has */
			return ret;
	}
	*bytes = (uint64_t)instance->sub_size * instance->sub_count;
	return ret;
}

uint32_t resize_find_thread(const struct instance *instance, const struct target *target, uint32_t owner)
{
	for (uint32_t i = instance->thread_count; i-- > 0;)
		if (instance->threads[i].row.process == target->index &&
		    instance->threads[i].owner == (owner & ~CALLTAP_OWNER_MOVED))
			return i;
	return UINT32_MAX;
}
