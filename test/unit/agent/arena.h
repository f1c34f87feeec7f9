/*
 * An arena of empty rings, as the tool makes them.
 *
 * Callers: support.c, where the test itself is the target, and toolside.c, which shares the arena with an agent.
 */
#ifndef TEST_UNIT_AGENT_ARENA_H
#define TEST_UNIT_AGENT_ARENA_H

#include <stdint.h>

#include <calltap/abi/ring.h>

static inline uint64_t arena_size(uint32_t rings, uint32_t sub_size, uint32_t sub_count)
{
	return CALLTAP_PAGE + rings * (CALLTAP_PAGE + (uint64_t)sub_size * sub_count);
}

/* Fill in an arena of zeros, of arena_size() bytes. */
static inline void arena_fill(struct calltap_arena *arena, enum calltap_mode mode, uint32_t rings, uint32_t sub_size,
			      uint32_t sub_count)
{
	arena->magic = CALLTAP_ARENA_MAGIC;
	arena->ring_count = rings;
	arena->ring_stride = CALLTAP_PAGE + (uint64_t)sub_size * sub_count;
	for (uint32_t i = 0; i < rings; i++)
		*(struct calltap_ring *)((char *)arena + CALLTAP_PAGE + i * arena->ring_stride) = (struct calltap_ring){
			.magic = CALLTAP_RING_MAGIC,
			.index = i,
			.sub_size = sub_size,
			.sub_count = sub_count,
			.mode = mode,
		};
}

#endif
