/*
 * Shared memory for the rings that a target has in an instance.
 *
 * memfds, sealed against shrinking and growing, so that neither side can ever
 * get a SIGBUS from them; or files (buffers.c).  Context: host.
 */
#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <fcntl.h>
#include <unistd.h>

#include <calltap/abi/profile.h>
#include <host/sealed.h>
#include <host/session/session.h>

#define FILE_RINGS 4u /* at first, where each takes its memory at once */

static void init_ring(struct instance *instance, const struct target_arena *arena, uint32_t index)
{
	struct calltap_ring *ring = ring_of(arena, index);

	ring->magic = CALLTAP_RING_MAGIC;
	ring->index = index;
	ring->sub_size = arena->sub_size;
	ring->sub_count = arena->sub_count;
	ring->mode = instance->options->mode;
	if (ring->mode == CALLTAP_MODE_PROFILE)
		*calltap_profile_shape(ring) =
			(struct calltap_profile_shape){.functions = instance->profile.functions,
						       .callers = instance->profile.callers,
						       .histograms = instance->profile.histograms};
}

int arena_add(struct share *share, uint32_t rings, int *fd)
{
	struct instance *instance = share->instance;
	struct target_arena *arena = &share->arenas[share->arena_count];
	void *memory;
	int ret;

	if (share->arena_count >= TARGET_ARENAS || rings > CALLTAP_ARENA_RINGS)
		return -ENOSPC;
	arena->fd = -1;
	if (instance->options->mode == CALLTAP_MODE_PROFILE)
		profile_shape(instance);
	if (instance->buffers.path && !share->arena_count && rings > FILE_RINGS)
		rings = FILE_RINGS;
	arena->ring_count = rings;
	arena->sub_size = instance->sub_size;
	arena->sub_count = rings_subs(instance, share->target, rings);
	arena->retired = false;
	arena->starved_seen = 0;
	arena->request_seen = 0;
	arena->ring_stride = CALLTAP_PAGE + (uint64_t)arena->sub_size * arena->sub_count;
	arena->size = CALLTAP_PAGE + rings * arena->ring_stride;
	arena->rings = calloc(rings, sizeof(*arena->rings));
	if (!arena->rings)
		return -ENOMEM;
	arena->file = 0;
	ret = instance->buffers.path ? buffers_arena(instance, arena, fd, &memory)
				     : sealed_create("calltap-arena", arena->size, fd, &memory);
	if (ret) {
		free(arena->rings);
		arena->rings = NULL;
		return ret;
	}
	arena->arena = memory;
	if (instance->options->mode == CALLTAP_MODE_PROFILE)
		arena->fd = fcntl(*fd, F_DUPFD_CLOEXEC, 0);
	arena->arena->magic = CALLTAP_ARENA_MAGIC;
	arena->arena->ring_count = rings;
	arena->arena->ring_stride = arena->ring_stride;
	arena->arena->process = share->target->index;
	/* A killed tool leaves memory in its targets: the first instance's is found by this.  Files lie in folders. */
	arena->arena->session = instance->set && !instance->buffers.path ? 0 : instance->tables_key;
	for (uint32_t i = 0; i < rings; i++) {
		init_ring(instance, arena, i);
		arena->rings[i].thread = UINT32_MAX;
	}
	share->arena_count++;
	if (arena->sub_count < instance->sub_count && !share->target->memory.squeezed) {
		share->target->memory.squeezed = true;
		instance->result->squeezed++;
	}
	return 0;
}

/* Free the rings' memory of an instance that has ended: its targets have the arena mapped until the session ends. */
static void give_memory_back(const struct target_arena *arena)
{
	for (uint32_t i = 0; i < arena->ring_count; i++) /* rings' own pages stay: a thread may be looking at one */
		madvise((char *)ring_of(arena, i) + CALLTAP_PAGE, (size_t)arena->sub_size * arena->sub_count,
			MADV_REMOVE);
}

void arena_destroy(struct instance *instance, struct target_arena *arena, bool keep)
{
	if (!keep)
		buffers_forget(instance, arena);
	if (arena->arena && instance->set)
		give_memory_back(arena);
	if (arena->arena)
		munmap(arena->arena, arena->size);
	if (arena->fd >= 0)
		close(arena->fd);
	for (uint32_t i = 0; arena->rings && i < arena->ring_count; i++)
		free(arena->rings[i].calls);
	free(arena->rings);
}
