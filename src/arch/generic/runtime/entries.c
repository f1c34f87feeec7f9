/*
 * The recorders, and which of them a stub calls: the same on every CPU.
 *
 * Called by each CPU's arch_stub_build().  Context: control.
 */
#include <arch.h>
#include <calltap/abi/control.h>
#include <thread_block.h>

const uintptr_t arch_entry_table[ARCH_ENTRIES] = {
	[ARCH_ENTRY_FAST] = (uintptr_t)arch_entry_fast,
	[ARCH_EXIT_FAST] = (uintptr_t)arch_exit_fast,
	[ARCH_ENTRY_FULL] = (uintptr_t)arch_entry_full,
	[ARCH_EXIT_FULL] = (uintptr_t)arch_exit_full,
	[ARCH_ENTRY_ROOT] = (uintptr_t)arch_entry_root,
	[ARCH_ENTRY_NOTREE] = (uintptr_t)arch_entry_notree,
	[ARCH_EXIT_NOTREE] = (uintptr_t)arch_exit_notree,
	[ARCH_CALL] = (uintptr_t)arch_call,
	[ARCH_ENTRY_PROFILE] = (uintptr_t)arch_entry_profile,
	[ARCH_EXIT_PROFILE] = (uintptr_t)arch_exit_profile,
	[ARCH_ENTRY_TIMED] = (uintptr_t)arch_entry_timed,
	[ARCH_EXIT_TRIGGER] = (uintptr_t)arch_exit_trigger,
	[ARCH_EXIT_TRIGGER_FULL] = (uintptr_t)arch_exit_trigger_full,
	[ARCH_ENTRY_HANDLED] = (uintptr_t)arch_entry_handled,
	[ARCH_EXIT_HANDLED] = (uintptr_t)arch_exit_handled,
	[ARCH_CALL_HANDLED] = (uintptr_t)arch_call_handled,
	[ARCH_ENTRY_BRIEF] = (uintptr_t)arch_entry_brief,
	[ARCH_EXIT_BRIEF] = (uintptr_t)arch_exit_brief,
	[ARCH_ENTRY_TICKED] = (uintptr_t)arch_entry_ticked,
	[ARCH_EXIT_TICKED] = (uintptr_t)arch_exit_ticked,
	[ARCH_GATED_FAST] = ARCH_GATED(arch_gated_fast),
	[ARCH_GATED_FULL] = ARCH_GATED(arch_gated_full),
	[ARCH_GATED_NOTREE] = ARCH_GATED(arch_gated_notree),
	[ARCH_GATED_PROFILE] = ARCH_GATED(arch_gated_profile),
	[ARCH_GATED_TIMED] = ARCH_GATED(arch_gated_timed),
	[ARCH_GATED_BRIEF] = ARCH_GATED(arch_gated_brief),
	[ARCH_GATED_TICKED] = ARCH_GATED(arch_gated_ticked),
	[ARCH_ENTRY_LEAF] = ARCH_LEAF(arch_entry_leaf),
	[ARCH_EXIT_LEAF] = ARCH_LEAF(arch_exit_leaf),
};
_Static_assert(sizeof(arch_entry_table) <= ARCH_REGION_HEAD, "it is the head");

static enum arch_entry ungated_entry_of(uint16_t flags)
{
	if (flags & CALLTAP_SITE_HANDLED)
		return flags & CALLTAP_SITE_CALL ? ARCH_CALL_HANDLED : ARCH_ENTRY_HANDLED;
	if (flags & CALLTAP_SITE_CALL)
		return ARCH_CALL;
	if (flags & CALLTAP_SITE_NOTREE)
		return ARCH_ENTRY_NOTREE;
	if (flags & CALLTAP_SITE_ROOT)
		return ARCH_ENTRY_ROOT;
	if (flags & CALLTAP_SITE_FULL_ENTRY)
		return ARCH_ENTRY_FULL;
	if (flags & CALLTAP_SITE_PROFILE)
		return flags & CALLTAP_SITE_BRIEF ? ARCH_ENTRY_TICKED : ARCH_ENTRY_PROFILE;
	if (flags & CALLTAP_SITE_BRIEF)
		return ARCH_ENTRY_BRIEF;
	return flags & CALLTAP_SITE_TIMED ? ARCH_ENTRY_TIMED : ARCH_ENTRY_FAST;
}

enum arch_entry arch_entry_of(uint16_t flags)
{
	enum arch_entry entry = ungated_entry_of(flags);

	if (ARCH_GATES_IN_STUBS || !(flags & CALLTAP_SITE_GATED))
		return entry;
	switch (entry) {
	case ARCH_ENTRY_FAST:
		return ARCH_GATED_FAST;
	case ARCH_ENTRY_FULL:
		return ARCH_GATED_FULL;
	case ARCH_ENTRY_NOTREE:
		return ARCH_GATED_NOTREE;
	case ARCH_ENTRY_PROFILE:
		return ARCH_GATED_PROFILE;
	case ARCH_ENTRY_TIMED:
		return ARCH_GATED_TIMED;
	case ARCH_ENTRY_BRIEF:
		return ARCH_GATED_BRIEF;
	case ARCH_ENTRY_TICKED:
		return ARCH_GATED_TICKED;
	default: /* no tracer gates these */
		return entry;
	}
}

enum arch_entry arch_exit_of(uint16_t flags)
{
	if (flags & CALLTAP_SITE_HANDLED)
		return ARCH_EXIT_HANDLED;
	if (flags & CALLTAP_SITE_NOTREE)
		return ARCH_EXIT_NOTREE;
	/* A frame that may count for the depth limit leaves through C (probe/graph.c). */
	if (flags & (CALLTAP_SITE_ROOT | CALLTAP_SITE_FULL_ENTRY | CALLTAP_SITE_FULL_EXIT))
		return flags & CALLTAP_SITE_TRIGGER ? ARCH_EXIT_TRIGGER_FULL : ARCH_EXIT_FULL;
	if (flags & CALLTAP_SITE_PROFILE)
		return flags & CALLTAP_SITE_BRIEF ? ARCH_EXIT_TICKED : ARCH_EXIT_PROFILE;
	if (flags & CALLTAP_SITE_BRIEF)
		return ARCH_EXIT_BRIEF;
	return flags & CALLTAP_SITE_TRIGGER ? ARCH_EXIT_TRIGGER : ARCH_EXIT_FAST;
}
