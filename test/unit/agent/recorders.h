/*
 * The recorders that a stub has to call by its flags: a second statement of the rule, which the tests of stubs compare
 * with arch_entry_of() and arch_exit_of().
 */
#ifndef TEST_UNIT_AGENT_RECORDERS_H
#define TEST_UNIT_AGENT_RECORDERS_H

#include <arch.h>
#include <calltap/abi/control.h>

static inline enum arch_entry wanted_entry(uint16_t flags)
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
	return flags & CALLTAP_SITE_TIMED ? ARCH_ENTRY_TIMED : ARCH_ENTRY_FAST;
}

static inline enum arch_entry wanted_exit(uint16_t flags)
{
	if (flags & CALLTAP_SITE_HANDLED)
		return ARCH_EXIT_HANDLED;
	if (flags & CALLTAP_SITE_NOTREE)
		return ARCH_EXIT_NOTREE;
	if (flags & CALLTAP_SITE_TRIGGER &&
	    flags & (CALLTAP_SITE_ROOT | CALLTAP_SITE_FULL_ENTRY | CALLTAP_SITE_FULL_EXIT))
		return ARCH_EXIT_TRIGGER_FULL;
	if (flags & (CALLTAP_SITE_ROOT | CALLTAP_SITE_FULL_ENTRY | CALLTAP_SITE_FULL_EXIT))
		return ARCH_EXIT_FULL;
	if (flags & CALLTAP_SITE_PROFILE)
		return flags & CALLTAP_SITE_BRIEF ? ARCH_EXIT_TICKED : ARCH_EXIT_PROFILE;
	return flags & CALLTAP_SITE_TRIGGER ? ARCH_EXIT_TRIGGER : ARCH_EXIT_FAST;
}

#endif
