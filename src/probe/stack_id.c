/*
 * Helper STACK (stack_id.h).  Context: probe, slow path.
 *
 * The call's return address is known for sure; the others are found along frame pointers, from the one that the caller
 * has at the call.  A frame pointer that is none may lead anywhere: so memory is read as any that may be anything, each
 * frame lies above the one before, and their number is bounded.  Frames are put into the map from the outermost one on,
 * which is the process; each takes one slot, for all stacks that have it, and each step adds or finds a key as a count
 * does: doc/design/maps.md.
 */
#include <base/mem.h>
#include <probe/caller.h>
#include <probe/count.h>
#include <probe/maps.h>
#include <probe/program.h>
#include <probe/stack_id.h>

#define WINDOW 256u

struct pair {
	uint64_t next, back; /* the next frame pointer, the return address */
};

/* A piece of the stack: reading one is what may take system calls. */
struct window {
	uint64_t at, size;
	unsigned char bytes[WINDOW];
};

static bool read_pair(struct window *window, struct pair *pair, uint64_t at)
{
	uint64_t page = CALLTAP_PAGE - at % CALLTAP_PAGE;

	if (at - window->at >= window->size || window->size - (at - window->at) < sizeof(*pair)) {
		window->at = at;
		window->size = page < WINDOW ? page : WINDOW;
		window->size = window->size < sizeof(*pair) ? sizeof(*pair) : window->size;
		if (!probe_program_copy(window->bytes, at, window->size)) {
			window->size = 0;
			return false;
		}
	}
	__builtin_memcpy(pair, window->bytes + (at - window->at), sizeof(*pair));
	/* Signed return addresses (AArch64's paciasp) have their signature above the bits of addresses. */
	pair->back &= ((uint64_t)1 << ARCH_ADDRESS_BITS) - 1;
	return true;
}

/* The return addresses from the innermost one on; how many there are. */
static uint32_t walk(uint64_t *addresses, const struct probe_run *run)
{
	struct window window;
	uint64_t frame = run->frame;
	uint32_t count = 1;
	struct pair pair;

	window.at = window.size = 0;
	addresses[0] = run->context.caller;
	while (frame && !(frame % sizeof(uint64_t)) && read_pair(&window, &pair, frame - ARCH_FRAME_PAIR) &&
	       pair.back >= CALLTAP_PAGE) {
		if (count == CALLTAP_MAP_FRAMES) {
			addresses[count - 1] = CALLTAP_MAP_MORE;
			break;
		}
		addresses[count++] = probe_region_of(pair.back) ? CALLTAP_MAP_TRACED : pair.back;
		if (pair.next <= frame)
			break;
		frame = pair.next;
	}
	return count;
}

/* A time of this process; forked children get one of their own, for the kernel clears it. */
static uint64_t epoch(void)
{
	uint64_t *place = &probe_context.wiped->epoch, found = __atomic_load_n(place, __ATOMIC_RELAXED);
	uint64_t now;

	if (found)
		return found;
	now = arch_clock();
	return __atomic_compare_exchange_n(place, &found, now, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED) ? now : found;
}

/* `context` is the first member of a run. */
uint64_t probe_help_stack(struct calltap_program_context *context)
{
	struct calltap_map_frame frame = {.pid = (uint32_t)probe_help_pid(), .address = epoch()};
	uint64_t addresses[CALLTAP_MAP_FRAMES];
	struct calltap_map *map = probe_counts();
	uint32_t number, left;

	if (!map)
		return 0;
	left = walk(addresses, (const struct probe_run *)context);
	number = map_frame(map, &frame);
	while (number && left--) {
		frame = (struct calltap_map_frame){.outer = number, .address = addresses[left]};
		number = map_frame(map, &frame);
	}
	return number;
}
