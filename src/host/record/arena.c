/*
 * Shared memory for a target's rings, and the session's board.
 *
 * memfds, sealed against shrinking and growing, so that neither side can ever
 * get a SIGBUS from them; or files (buffers.c).  Context: host.
 */
#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <fcntl.h>
#include <unistd.h>

#include "session.h"

#define FILE_RINGS 4u /* at first, where each takes its memory at once */

int arena_sealed(const char *name, size_t size, int *fd, void **memory)
{
	int error;

	*memory = MAP_FAILED;
	*fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (*fd < 0)
		return -errno;
	if (!ftruncate(*fd, (off_t)size) && !fcntl(*fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL))
		*memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, *fd, 0);
	if (*memory != MAP_FAILED)
		return 0;
	error = -errno;
	close(*fd);
	*fd = -1;
	return error;
}

int board_create(struct session *session)
{
	void *memory;
	int ret = arena_sealed("calltap-board", CALLTAP_PAGE, &session->board_fd, &memory);

	if (ret)
		return ret;
	session->board = memory;
	session->board->magic = CALLTAP_BOARD_MAGIC;
	return 0;
}

static void init_ring(struct session *session, struct calltap_ring *ring, uint32_t index)
{
	ring->magic = CALLTAP_RING_MAGIC;
	ring->index = index;
	ring->sub_size = session->sub_size;
	ring->sub_count = session->sub_count;
	ring->mode = session->options->mode;
	ring->functions = session->profile.functions;
	ring->callers = session->profile.callers;
	ring->histograms = session->profile.histograms;
}

int arena_add(struct session *session, struct process *process, uint32_t rings, int *fd)
{
	struct target_arena *arena = &process->arenas[process->arena_count];
	void *memory;
	int ret;

	if (process->arena_count >= TARGET_ARENAS || rings > CALLTAP_ARENA_RINGS)
		return -ENOSPC;
	arena->fd = -1;
	if (session->options->mode == CALLTAP_MODE_PROFILE)
		profile_shape(session);
	if (session->buffers_path && !process->arena_count && rings > FILE_RINGS)
		rings = FILE_RINGS;
	arena->ring_count = rings;
	arena->sub_size = session->sub_size;
	arena->sub_count = session->sub_count;
	arena->retired = false;
	arena->starved_seen = 0;
	arena->request_seen = 0;
	arena->ring_stride = CALLTAP_PAGE + (uint64_t)session->sub_size * session->sub_count;
	arena->size = CALLTAP_PAGE + rings * arena->ring_stride;
	arena->rings = calloc(rings, sizeof(*arena->rings));
	if (!arena->rings)
		return -ENOMEM;
	arena->file = 0;
	ret = session->buffers_path ? buffers_arena(session, arena, fd, &memory)
				    : arena_sealed("calltap-arena", arena->size, fd, &memory);
	if (ret) {
		free(arena->rings);
		arena->rings = NULL;
		return ret;
	}
	arena->arena = memory;
	if (session->options->mode == CALLTAP_MODE_PROFILE)
		arena->fd = fcntl(*fd, F_DUPFD_CLOEXEC, 0);
	arena->arena->magic = CALLTAP_ARENA_MAGIC;
	arena->arena->ring_count = rings;
	arena->arena->ring_stride = arena->ring_stride;
	arena->arena->process = process->index;
	/* What a killed tool leaves is the session's own alone. */
	arena->arena->session = session->owner ? 0 : session->tables_key;
	for (uint32_t i = 0; i < rings; i++) {
		init_ring(session, ring_of(arena, i), i);
		arena->rings[i].thread = UINT32_MAX;
	}
	process->arena_count++;
	return 0;
}

/* Of an instance that has ended, while its targets go on: they have the arena mapped until the session ends. */
static void give_memory_back(const struct target_arena *arena)
{
	for (uint32_t i = 0; i < arena->ring_count; i++) /* rings' own pages stay: a thread may be looking at one */
		madvise((char *)ring_of(arena, i) + CALLTAP_PAGE, (size_t)arena->sub_size * arena->sub_count,
			MADV_REMOVE);
}

void arena_destroy(struct session *session, struct target_arena *arena, bool keep)
{
	if (!keep)
		buffers_forget(session, arena);
	if (arena->arena && session->owner)
		give_memory_back(arena);
	if (arena->arena)
		munmap(arena->arena, arena->size);
	if (arena->fd >= 0)
		close(arena->fd);
	free(arena->rings);
}
