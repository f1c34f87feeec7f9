/* The text that fuzz_agent.c patches, x86-64. */
#ifndef TEST_FUZZ_AGENT_TEXT_H
#define TEST_FUZZ_AGENT_TEXT_H

#include <stdint.h>
#include <string.h>

#define TEXT_NOP    "\x90"
#define TEXT_RETURN "\xc3"
#define TEXT_EMPTY  "\xf3\x0f\x1e\xfa\xc3" /* a function that only returns, as a loader has it */

/* Where a jump to a stub leads; 0 = it is none. */
static inline uint64_t text_jump(const uint8_t *code)
{
	int32_t distance;

	memcpy(&distance, code + 1, sizeof(distance));
	return code[0] == 0xe9 ? (uint64_t)code + 5 + (uint64_t)(int64_t)distance : 0;
}

#endif
