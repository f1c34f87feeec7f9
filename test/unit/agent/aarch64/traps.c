/* The instructions of the dispatcher as breakpoints, AArch64 (traps.h). */
#include <string.h>
#include <ucontext.h>

#include "traps.h"

#define RET 0xd65f03c0u
#define BRK 0xd4200000u

static uint32_t word_at(const void *code)
{
	uint32_t word;

	memcpy(&word, code, sizeof(word));
	return word;
}

uint64_t trap_pc(const void *context)
{
	return ((const ucontext_t *)context)->uc_mcontext.pc;
}

uint64_t traps_end(uint64_t last)
{
	while (word_at((const void *)last) != RET)
		last += sizeof(uint32_t);
	return last + sizeof(uint32_t);
}

size_t traps_length(const uint8_t *code)
{
	(void)code;
	return sizeof(uint32_t);
}

/* ldxr of 64 bits, up to the branch behind its stxr. */
size_t traps_loop(const uint8_t *code)
{
	const uint8_t *at = code;

	if ((word_at(code) & 0xfffffc00) != 0xc85f7c00)
		return 0;
	while ((word_at(at) & 0xffe0fc00) != 0xc8007c00)
		at += sizeof(uint32_t);
	return (size_t)(at - code) + 2 * sizeof(uint32_t);
}

void traps_make(uint8_t *code, size_t length)
{
	const uint32_t word = BRK;

	memcpy(code, &word, length);
}
