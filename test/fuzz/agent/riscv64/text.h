/* The text that fuzz_agent.c patches, riscv64. */
#ifndef TEST_FUZZ_AGENT_TEXT_H
#define TEST_FUZZ_AGENT_TEXT_H

#include <arch/riscv64/isa/fields.h>

#define TEXT_NOP    "\x13\x00\x00\x00"
#define TEXT_RETURN "\x67\x80\x00\x00"
#define TEXT_EMPTY  TEXT_RETURN TEXT_NOP /* a function that only returns, as a loader has it */

/* Where a jump to a stub leads; 0 = it is none. */
static inline uint64_t text_jump(const uint8_t *code)
{
	uint32_t high = isa_load32(code), low = isa_load32(code + 4);

	if (rv_opcode(high) != RV_AUIPC || rv_rd(high) != RV_T0 || (low & 0xfffff) != rv_jalr(RV_T0, RV_T0, 0))
		return 0;
	return (uint64_t)code + (uint64_t)rv_imm_u(high) + (uint64_t)rv_imm_i(low);
}

#endif
