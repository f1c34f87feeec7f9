/*
 * The dispatcher's frame where a call leaves its return address in a register
 * (contract.h).
 *
 * Included by the arch.h of such CPUs, whose offsets.h has
 *   H_END  the size of struct probe_handled
 *   H_CFA  from there to the stack pointer at the function's entry
 *   H_LINK the link register's place among struct calltap_registers' words
 * Contexts: probe and control.
 *
 * Behind struct probe_handled lie the words that recorders have for the return
 * (link_frame.h), and the stub's word.
 */
#ifndef ARCH_GENERIC_RUNTIME_LINK_HANDLED_H
#define ARCH_GENERIC_RUNTIME_LINK_HANDLED_H

#include <stdbool.h>
#include <stdint.h>

#include <calltap/call.h>
#include <offsets.h>

#define HANDLED_WORD 2 /* behind the return's */

static inline uint64_t arch_handled_slot(uint64_t end, bool exit)
{
	(void)exit;
	return end - H_END + H_CFA - sizeof(uint64_t);
}

static inline uint64_t *arch_handled_return(uint64_t end, bool exit)
{
	(void)exit;
	return (uint64_t *)end;
}

static inline uint32_t arch_handled_word(uint64_t end, bool exit)
{
	(void)exit;
	return (uint32_t)((const uint64_t *)end)[HANDLED_WORD];
}

static inline uint64_t arch_entry_sp(uint64_t slot)
{
	return slot + sizeof(uint64_t);
}

/* Show a handler the caller's address in the link register, not the stub's. */
static inline void arch_registers_show(struct calltap_registers *registers, uint64_t caller)
{
	registers->x[H_LINK] = caller;
}

static inline const void *arch_vectors_shown(void *area)
{
	return area;
}

#endif
