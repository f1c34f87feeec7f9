/* The text that fuzz_agent.c patches, aarch64. */
#ifndef TEST_FUZZ_AGENT_TEXT_H
#define TEST_FUZZ_AGENT_TEXT_H

#include <arch/aarch64/isa/fields.h>

#define TEXT_NOP    "\x1f\x20\x03\xd5"
#define TEXT_RETURN "\xc0\x03\x5f\xd6"
#define TEXT_EMPTY  "\x5f\x24\x03\xd5" TEXT_RETURN /* a function that only returns, as a loader has it */

/* Where a jump to a stub leads; 0 = it is none. */
static inline uint64_t text_jump(const uint8_t *code)
{
	uint32_t word = isa_load32(code);

	return word >> 26 == 0x05 ? (uint64_t)code + (uint64_t)a64_imm26(word) : 0;
}

#endif
