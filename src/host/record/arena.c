/*
 * Shared memory for a target's rings, and the session's board.
 *
 * memfds, sealed against shrinking and growing, so that neither side can ever
 * get a SIGBUS from them.  Context: host.
 */
#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <fcntl.h>
#include <unistd.h>

#include "session.h"

static int sealed_memory(const char *name, size_t size, int *fd, void **memory)
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
	int ret = sealed_memory("calltap-board", CALLTAP_PAGE, &session->board_fd, &memory);

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
}

int arena_add(struct session *session, struct process *process, uint32_t rings, int *fd)
{
	struct target_arena *arena = &process->arenas[process->arena_count];
	void *memory;
	int ret;

	if (process->arena_count >= TARGET_ARENAS || rings > CALLTAP_ARENA_RINGS)
		return -ENOSPC;
	arena->ring_count = rings;
	arena->ring_stride = CALLTAP_PAGE + (uint64_t)session->sub_size * session->sub_count;
	arena->size = CALLTAP_PAGE + rings * arena->ring_stride;
	arena->rings = calloc(rings, sizeof(*arena->rings));
	if (!arena->rings)
		return -ENOMEM;
	ret = sealed_memory("calltap-arena", arena->size, fd, &memory);
	if (ret) {
		free(arena->rings);
		arena->rings = NULL;
		return ret;
	}
	arena->arena = memory;
	arena->arena->magic = CALLTAP_ARENA_MAGIC;
	arena->arena->ring_count = rings;
	arena->arena->ring_stride = arena->ring_stride;
	for (uint32_t i = 0; i < rings; i++) {
		init_ring(session, (void *)((char *)memory + CALLTAP_PAGE + i * arena->ring_stride), i);
		arena->rings[i].thread = UINT32_MAX;
	}
	process->arena_count++;
	return 0;
}

void arena_destroy(struct target_arena *arena)
{
	if (arena->arena)
		munmap(arena->arena, arena->size);
	free(arena->rings);
}
