/*
 * Traced frames where a call leaves its return address in a register.
 *
 * Included by the arch.h of such CPUs, which defines before
 *   ARCH_POINTER_MASK  the bits of a return address in memory that are not its signature
 *   ARCH_BACK_AFTER    how far behind the entry recorder's return address the body will return to in the stub
 * Contexts: probe and control.
 *
 * A frame is known by S, the stack pointer at its function's entry less 8:
 * two live frames never share it, for a function that calls another has 16
 * bytes of stack at least.  Recorders read and write nothing at S itself.  The word
 * at arch_mirror(S) is the caller's address, the one below it the entry
 * recorder's return address, from which all places in the stub follow.
 */
#ifndef ARCH_GENERIC_RUNTIME_LINK_FRAME_H
#define ARCH_GENERIC_RUNTIME_LINK_FRAME_H

#include <stdbool.h>
#include <stdint.h>

#include <offsets.h>

static inline uint64_t *arch_mirror(uint64_t slot)
{
	return (uint64_t *)(slot ^ (uint64_t)1 << MIRROR_BIT ^ MIRROR_SKEW);
}

static inline uint64_t *arch_link(uint64_t slot)
{
	return (uint64_t *)((uint64_t)arch_mirror(slot) ^ (uint64_t)1 << LINK_BIT ^ LINK_SKEW);
}

static inline uint64_t *arch_entered(uint64_t slot)
{
	return (uint64_t *)(slot ^ (uint64_t)ENTERED_BITS << TIMED_SHIFT ^ ENTERED_SKEW);
}

static inline uint64_t *arch_within(uint64_t slot)
{
	return (uint64_t *)(slot ^ (uint64_t)WITHIN_BITS << TIMED_SHIFT ^ WITHIN_SKEW);
}

static inline uint64_t *arch_who(uint64_t slot)
{
	return (uint64_t *)(slot ^ (uint64_t)WHO_BITS << TIMED_SHIFT ^ WHO_SKEW);
}

static inline uint64_t *arch_data(uint64_t slot)
{
	return (uint64_t *)(slot ^ (uint64_t)DATA_BITS << TIMED_SHIFT ^ DATA_SKEW);
}

/* ret: the caller's address, and the recorder's own return address. */
static inline void arch_frame_open(uint64_t slot, const uint64_t *ret)
{
	arch_mirror(slot)[-1] = ret[1];
	arch_mirror(slot)[0] = ret[0];
}

static inline void arch_frame_rename(uint64_t slot, const uint64_t *ret)
{
	arch_mirror(slot)[-1] = ret[1];
}

static inline uint64_t arch_frame_back(uint64_t slot)
{
	return arch_mirror(slot)[-1] + ARCH_BACK_AFTER;
}

/* A frame that has called another has saved the address that it returns to somewhere. */
static inline uint64_t arch_frame_holds(uint64_t slot, uint64_t low)
{
	uint64_t back = arch_frame_back(slot);

	for (uint64_t at = slot; at >= low; at -= sizeof(back))
		if ((*(const uint64_t *)at & ARCH_POINTER_MASK) == back)
			return back;
	return 0;
}

/* No table says where a body keeps the address that it returns to. */
#define ARCH_FRAMES_GO_BACK 0
#define ARCH_LEAF(recorder) 0

static inline bool arch_is_leaf_back(uint64_t address)
{
	(void)address;
	return false;
}
static inline bool arch_shadow_stack(void)
{
	return false;
}

static inline bool arch_frame_release(uint64_t slot)
{
	(void)slot;
	return false;
}

#endif
