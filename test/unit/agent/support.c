/* A target in the test's own process (support.h). */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "arena.h"
#include "support.h"

void fake_arena_create(struct fake_arena *fake, enum calltap_mode mode, uint32_t rings, uint32_t sub_size,
		       uint32_t sub_count)
{
	struct calltap_arena *arena;

	fake->size = arena_size(rings, sub_size, sub_count);
	arena = mmap(NULL, fake->size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (arena == MAP_FAILED)
		abort();
	fake->arena = arena;
	arena_fill(arena, mode, rings, sub_size, sub_count);
}

void fake_arena_destroy(struct fake_arena *fake)
{
	munmap(fake->arena, fake->size);
}

struct calltap_ring *fake_ring(const struct fake_arena *fake, uint32_t index)
{
	return (void *)((char *)fake->arena + CALLTAP_PAGE + index * fake->arena->ring_stride);
}

const struct calltap_subbuf *fake_sub(const struct calltap_ring *ring, uint64_t number)
{
	return (const void *)((const char *)ring + CALLTAP_PAGE + number % ring->sub_count * ring->sub_size);
}

void fake_start(const struct fake_arena *fake)
{
	struct probe_wiped *wiped =
		mmap(NULL, sizeof(*wiped), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (wiped == MAP_FAILED)
		abort();
	wiped->alive = 1;
	wiped->pid = (uint32_t)getpid();
	wiped->sets[0].arenas[0] = fake->arena;
	wiped->sets[0].arena_count = 1;
	probe_context.wiped = wiped;
	probe_context.shared.board = calloc(1, sizeof(*probe_context.shared.board));
	probe_context.shared.wait_max_ms = 20000; /* a busy machine must not turn a wait into a loss */
	probe_context.shared.reader_gone = 0;
	probe_context.enabled = 1;
}

void fake_stop(void)
{
	probe_context.enabled = 0;
	munmap(probe_context.wiped, sizeof(*probe_context.wiped));
	free(probe_context.shared.board);
	probe_context.wiped = NULL;
	probe_context.shared.board = NULL;
}

void code_seal(void *pages, size_t size)
{
	arch_text_written((uint64_t)pages, size);
	if (mprotect(pages, size, PROT_READ | PROT_EXEC))
		abort();
}
