/*
 * The recorders, and which of them a stub calls: the same on every CPU.
 *
 * Called by each CPU's arch_stub_build().  Context: control.
 */
#include <arch.h>
#include <calltap/abi/control.h>

const uintptr_t arch_entry_table[ARCH_ENTRIES] = {
	[ARCH_ENTRY_FAST] = (uintptr_t)arch_entry_fast,	  [ARCH_EXIT_FAST] = (uintptr_t)arch_exit_fast,
	[ARCH_ENTRY_FULL] = (uintptr_t)arch_entry_full,	  [ARCH_EXIT_FULL] = (uintptr_t)arch_exit_full,
	[ARCH_ENTRY_ROOT] = (uintptr_t)arch_entry_root,	  [ARCH_ENTRY_NOTREE] = (uintptr_t)arch_entry_notree,
	[ARCH_EXIT_NOTREE] = (uintptr_t)arch_exit_notree, [ARCH_CALL] = (uintptr_t)arch_call,
};

enum arch_entry arch_entry_of(uint16_t flags)
{
	if (flags & CALLTAP_SITE_CALL)
		return ARCH_CALL;
	if (flags & CALLTAP_SITE_NOTREE)
		return ARCH_ENTRY_NOTREE;
	if (flags & CALLTAP_SITE_ROOT)
		return ARCH_ENTRY_ROOT;
	return flags & CALLTAP_SITE_FULL_ENTRY ? ARCH_ENTRY_FULL : ARCH_ENTRY_FAST;
}

enum arch_entry arch_exit_of(uint16_t flags)
{
	if (flags & CALLTAP_SITE_NOTREE)
		return ARCH_EXIT_NOTREE;
	return flags & (CALLTAP_SITE_ROOT | CALLTAP_SITE_FULL_EXIT) ? ARCH_EXIT_FULL : ARCH_EXIT_FAST;
}
