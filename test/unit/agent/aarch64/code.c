/* Small functions with sites, aarch64 (support.h). */
#include <string.h>

#include <arch/aarch64/isa/encode.h>
#include "support.h"

#define STP_FP_LR 0xa9bf7bfdu /* stp x29, x30, [sp, #-16]! */
#define LDP_FP_LR 0xa8c17bfdu /* ldp x29, x30, [sp], #16 */

static uint8_t *put(uint8_t *at, uint32_t word)
{
	memcpy(at, &word, sizeof(word));
	return at + sizeof(word);
}

uint8_t code_length(enum code_kind kind)
{
	(void)kind;
	return 4;
}

code_function code_write(uint8_t *at, int n, enum code_kind kind, code_function inner, struct calltap_site *site)
{
	code_function function = (code_function)(uintptr_t)at;

	(void)kind;
	memset(at, 0, CODE_STEP);
	*site = (struct calltap_site){.address = (uint64_t)at, .length = 4, .body_off = 4};
	at = put(at, A64_NOP);
	memcpy(site->old, at - 4, 4);
	if (inner) {
		at = put(at, STP_FP_LR);
		at = put(at, a64_bl((int64_t)((uint64_t)inner - (uint64_t)at)));
		at = put(at, LDP_FP_LR);
	}
	at = put(at, a64_add_imm_x(A64_X0, A64_X0, (uint32_t)n));
	put(at, a64_ret(A64_X30));
	return function;
}

uint64_t code_target(const struct calltap_site *site)
{
	uint32_t word;

	memcpy(&word, (const void *)site->address, sizeof(word));
	return word >> 26 == 5 ? site->address + (uint64_t)(isa_signed(word, 26) * 4) : 0;
}

size_t code_breakpoint(uint8_t bytes[4])
{
	put(bytes, A64_BRK);
	return 4;
}
