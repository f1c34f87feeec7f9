/*
 * Words in memory on CPUs without string instructions, and without an addition that is cheaper when nobody wants the
 * old value.
 *
 * Included by the arch.h of such CPUs, behind arch_local_add().  Context: probe.
 */
#ifndef ARCH_GENERIC_RUNTIME_PLAIN_WORDS_H
#define ARCH_GENERIC_RUNTIME_PLAIN_WORDS_H

#include <stdint.h>

static inline void arch_local_count(uint64_t *word, int64_t add)
{
	(void)arch_local_add(word, (uint64_t)add);
}

static inline void arch_string_forward(void)
{
}

static inline void arch_clear_words(uint64_t *at, uint64_t count)
{
	for (uint64_t i = 0; i < count; i++)
		__atomic_store_n(&at[i], 0, __ATOMIC_RELAXED);
}

#endif
