/*
 * Which recorders a stub calls: the same on every CPU.
 *
 * Called by each CPU's arch_stub_build().  Context: control.
 */
#include <arch.h>
#include <calltap/abi/control.h>

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
