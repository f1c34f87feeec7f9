/*
 * May a thread be borrowed where it is? (impl.h)
 *
 * It will call dlopen(), which takes the loader's lock and allocates.  So it may not hold those locks itself, or have
 * their structures half changed.  Context: host.
 */
#include <string.h>

#include "impl.h"

#define FRAMES_MAX   256
#define START_FRAMES 2 /* clone3() and start_thread() */

enum danger {
	DANGER_NONE,
	DANGER_NEAR,  /* the code has no name, and lies beside an unsafe function */
	DANGER_NAMED, /* in an unsafe function, or in the loader */
};

static enum danger in_special(const struct special *special, uint64_t pc)
{
	size_t lo = 0, hi = special->count;
	const struct function *before, *after;

	if (special->loader)
		return DANGER_NAMED;
	while (lo < hi) {
		size_t middle = (lo + hi) / 2;

		if (special->functions[middle].lo <= pc)
			lo = middle + 1;
		else
			hi = middle;
	}
	before = lo ? &special->functions[lo - 1] : NULL;
	after = lo < special->count ? &special->functions[lo] : NULL;
	if (before && pc < before->hi)
		return before->unsafe ? DANGER_NAMED : DANGER_NONE;
	/* Static functions have no name in a stripped library, and lie among those of their source file. */
	return (before && before->unsafe) || (after && after->unsafe) ? DANGER_NEAR : DANGER_NONE;
}

static enum danger danger_at(const struct libs *libs, uint64_t pc)
{
	if (pc >= libs->agent.lo && pc < libs->agent.hi)
		return DANGER_NAMED;
	for (size_t i = 0; i < libs->count; i++)
		if (pc >= libs->specials[i].lo && pc < libs->specials[i].hi)
			return in_special(&libs->specials[i], pc);
	return DANGER_NONE;
}

/* True if pc is in the errand of another tool, which was killed: only that errand's code knows the way back. */
static bool on_errand(pid_t alive, uint64_t pc)
{
	unsigned char bytes[NATIVE_CODE_MAX];
	uint64_t end = (pc | (SLACK_ALIGN - 1)) + 1, first = end - NATIVE_CODE_MAX;

	/* A word that is taken for a return address may be anything: programs are in the lower half of the addresses.
	 */
	if (pc > INT64_MAX)
		return false;
	/* The segment may begin later. */
	while (first < pc && memory_read(alive, first, bytes, end - first))
		first = (first | (PAGE - 1)) + 1;
	for (uint64_t at = first; at < pc; at += SLACK_ALIGN)
		if (native_code_is(bytes + (at - first)))
			return true;
	return false;
}

bool safe_is_special(const struct libs *libs, uint64_t pc)
{
	bool special = pc >= libs->agent.lo && pc < libs->agent.hi;

	for (size_t i = 0; i < libs->count; i++)
		special |= pc >= libs->specials[i].lo && pc < libs->specials[i].hi;
	return special;
}

bool safe_is_dangerous(const struct libs *libs, uint64_t pc)
{
	return danger_at(libs, pc) != DANGER_NONE;
}

bool safe_to_borrow(struct unwinder *unwinder, const struct libs *libs, pid_t alive, const struct native_regs *regs,
		    const struct stack_copy *copy, const char **why)
{
	struct frame frames[FRAMES_MAX];
	bool musl = libs->musl && !libs->placed;
	bool complete, waits = musl ? musl_waits(libs, alive, regs, copy) : native_waits(regs);
	size_t count;

	if (!native_may_borrow(regs)) {
		*why = "it is stepped by a debugger, or runs 32-bit code";
		return false;
	}
	count = unwinder_frames(unwinder, copy, frames, FRAMES_MAX, &complete);
	if (musl)
		complete = musl_holds_nothing(unwinder, libs, alive, copy, frames, &count);
	for (size_t i = 0; i < count; i++) {
		if (on_errand(alive, frames[i].pc)) {
			*why = "it still waits for a calltap that is gone";
			return false;
		}
	}
	/* The errand takes no lock of the program's, and calls nothing of it. */
	if (libs->placed)
		return true;
	for (size_t i = 0; i < count; i++) {
		enum danger danger = danger_at(libs, frames[i].exact ? frames[i].pc : frames[i].pc - 1);

		/* The functions that threads begin in have no name, and lie beside pthread_create(). */
		if (danger == DANGER_NEAR && complete && !frames[i].exact && i + START_FRAMES >= count)
			danger = DANGER_NONE;
		/* No allocator waits for events: code without a name is something else then. */
		if (danger == DANGER_NAMED || (danger == DANGER_NEAR && !waits)) {
			*why = "it was in the loader, the allocator, fork or exit whenever it was looked at";
			return false;
		}
	}
	/* An agent that is there already is not loaded: then neither locks nor allocations matter. */
	if (!complete && !waits && !libs->entry) {
		*why = "its stack cannot be followed to where it began, which is how it is seen that it holds no lock";
		return false;
	}
	return true;
}
