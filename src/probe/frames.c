/*
 * The chains of traced frames: how they are read (frames.h).
 *
 * Called on the program's thread.  Context: probe.
 */
#include <base/sys.h>
#include <probe/frames.h>

bool frames_can_read(struct probe_thread *thread, uint64_t slot)
{
	return slot >> GRANULE_BITS == thread->granule || probe_mirror_is_covered(slot);
}

uint64_t frames_caller(uint64_t slot)
{
	uint64_t back = *(const uint64_t *)slot;

	if (!probe_region_of(back) || !probe_mirror_is_covered(slot))
		return 0;
	return *arch_mirror(slot);
}

bool frames_back_in_calls(uint64_t slot, uint64_t *back)
{
	if (ARCH_FRAMES_GO_BACK && !sys_can_read(slot))
		return false;
	*back = arch_frame_back(slot);
	return true;
}

bool frames_back(uint64_t slot, uint64_t *back)
{
	uint64_t signals;
	bool there;

	if (!ARCH_FRAMES_GO_BACK) {
		*back = arch_frame_back(slot);
		return true;
	}
	if (!probe_calls_begin(&signals))
		return false;
	there = frames_back_in_calls(slot, back);
	probe_calls_end(&signals);
	return there;
}
