/*
 * For CPUs that have no dispatcher of handlers (contract.h).  Included by their
 * arch.h.
 */
#ifndef ARCH_GENERIC_RUNTIME_NO_HANDLERS_H
#define ARCH_GENERIC_RUNTIME_NO_HANDLERS_H

#define ARCH_HANDLERS 0

static inline bool arch_stub_is_handled(uint64_t back, uint64_t region)
{
	(void)back;
	(void)region;
	return false;
}

#endif
