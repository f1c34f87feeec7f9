/* Small functions with sites, riscv64 (support.h). */
#include <string.h>

#include <arch/riscv64/isa/fields.h>
#include "support.h"

static uint8_t *put(uint8_t *at, uint32_t word)
{
	memcpy(at, &word, sizeof(word));
	return at + sizeof(word);
}

uint8_t code_length(enum code_kind kind)
{
	(void)kind;
	return 8;
}

/* The no-ops of even functions are of 4 bytes, of odd ones of 2. */
code_function code_write(uint8_t *at, int n, enum code_kind kind, code_function inner, struct calltap_site *site)
{
	code_function function = (code_function)(uintptr_t)at;
	uint32_t no_ops = n % 2 ? RV_C_NOP << 16 | RV_C_NOP : RV_NOP;

	(void)kind;
	memset(at, 0, CODE_STEP);
	*site = (struct calltap_site){.address = (uint64_t)at, .length = 8, .body_off = 8};
	at = put(put(at, no_ops), no_ops);
	memcpy(site->old, at - 8, 8);
	if (inner) {
		at = put(at, rv_addi(RV_SP, RV_SP, -16));
		at = put(at, rv_sd(RV_RA, 8, RV_SP));
		at = put(at, rv_jal(RV_RA, (int64_t)((uint64_t)inner - (uint64_t)at)));
		at = put(at, rv_ld(RV_RA, 8, RV_SP));
		at = put(at, rv_addi(RV_SP, RV_SP, 16));
	}
	at = put(at, rv_addiw(RV_A0, RV_A0, n));
	put(at, rv_jr(RV_RA));
	return function;
}

uint64_t code_target(const struct calltap_site *site)
{
	uint32_t words[2];

	memcpy(words, (const void *)site->address, sizeof(words));
	if (words[0] != rv_auipc(RV_T0, (int32_t)rv_imm_u(words[0])) ||
	    words[1] != rv_jalr(RV_T0, RV_T0, (int32_t)rv_imm_i(words[1])))
		return 0;
	return site->address + (uint64_t)rv_imm_u(words[0]) + (uint64_t)rv_imm_i(words[1]);
}

size_t code_breakpoint(uint8_t bytes[4])
{
	memcpy(bytes, "\x02\x90", 2); /* c.ebreak */
	return 2;
}
