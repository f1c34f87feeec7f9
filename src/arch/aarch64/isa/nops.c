/*
 * aarch64: decoding the few instructions that stand at a function's entry (see
 * nops.h).  Pure; host context.
 */
#include "decode.h"
#include "fields.h"
#include "nops.h"

/* The n-th word; one that is not there reads as 0, which is no instruction (udf). */
static uint32_t word_at(const uint8_t *code, size_t size, size_t n)
{
	return size / 4 > n ? isa_load32(code + 4 * n) : 0;
}

static bool is_bti(uint32_t word)
{
	return (word & 0xffffff3f) == 0xd503241f;
}

/* ldr xt, [xn, #imm] */
static bool is_ldr_x(uint32_t word)
{
	return (word & 0xffc00000) == 0xf9400000;
}

/* add xd, xn, #imm, not shifted */
static bool is_add_imm_x(uint32_t word)
{
	return (word & 0xffc00000) == 0x91000000;
}

/* adrp and ldr through its register: the address that is loaded from; *reg is what is loaded. */
static bool slot_load(const uint8_t *code, size_t size, uint64_t address, unsigned *reg, uint64_t *slot)
{
	uint32_t page = word_at(code, size, 0), load = word_at(code, size, 1);

	if (!a64_is_adrp(page) || !is_ldr_x(load) || a64_rn(load) != a64_rd(page))
		return false;
	*reg = a64_rd(load);
	*slot = a64_adrp_page(page, address) + isa_field(load, 10, 12) * 8;
	return true;
}

/* adrp, add to its register, and br to it. */
static bool is_veneer(const uint8_t *code, size_t size, uint64_t address, uint64_t *target)
{
	uint32_t page = word_at(code, size, 0), add = word_at(code, size, 1);

	if (!a64_is_adrp(page) || !is_add_imm_x(add) || a64_rn(add) != a64_rd(page))
		return false;
	*target = a64_adrp_page(page, address) + isa_field(add, 10, 12);
	return word_at(code, size, 2) == a64_br(a64_rd(add));
}

/* After slot_load: the end of br or blr to what was loaded, which other instructions may come before; 0 = none soon. */
static size_t find_jump(const uint8_t *code, size_t size, uint32_t jump)
{
	struct isa_instruction in;

	for (size_t n = 2; n < 2 + ISA_SOON && n < size / 4; n++) {
		if (word_at(code, size, n) == jump)
			return 4 * (n + 1);
		if (a64_decode(&in, code + 4 * n, 4, 0) < 0 || !isa_goes_on((enum isa_kind)in.kind))
			return 0;
	}
	return 0;
}

size_t a64_nop_length(const uint8_t *code, size_t size)
{
	return word_at(code, size, 0) == A64_NOP ? 4 : 0;
}

size_t a64_landing_pad_length(const uint8_t *code, size_t size)
{
	return is_bti(word_at(code, size, 0)) ? 4 : 0;
}

bool a64_signs_return(const uint8_t *code, size_t size)
{
	return (word_at(code, size, 0) & ~0x40u) == A64_PACIASP;
}

size_t a64_call(const uint8_t *code, size_t size, uint64_t address, uint64_t *target)
{
	uint32_t word = word_at(code, size, 0);

	if ((word & 0xfc000000) != 0x94000000)
		return 0;
	*target = address + (uint64_t)a64_imm26(word);
	return 4;
}

size_t a64_call_slot(const uint8_t *code, size_t size, uint64_t address, uint64_t *slot)
{
	unsigned reg;

	return slot_load(code, size, address, &reg, slot) ? find_jump(code, size, a64_blr(reg)) : 0;
}

bool a64_may_jump(uint8_t first)
{
	return true;
}

size_t a64_jump_relative(const uint8_t *code, size_t size, uint64_t address, uint64_t *target)
{
	uint32_t word = word_at(code, size, 0);

	if ((word & 0xfc000000) == 0x14000000) /* b */
		*target = address + (uint64_t)a64_imm26(word);
	else if ((word & 0xfe000000) == 0x54000000 || (word & 0x7e000000) == 0x34000000) /* b.cond; cbz, cbnz */
		*target = address + (uint64_t)a64_imm19(word);
	else if ((word & 0x7e000000) == 0x36000000) /* tbz, tbnz */
		*target = address + (uint64_t)a64_imm14(word);
	else
		return is_veneer(code, size, address, target) ? 12 : 0;
	return 4;
}

size_t a64_jump_slot(const uint8_t *code, size_t size, uint64_t address, uint64_t *slot)
{
	size_t pad = a64_landing_pad_length(code, size), length;
	unsigned reg;

	if (!slot_load(code + pad, size - pad, address + pad, &reg, slot))
		return 0;
	length = find_jump(code + pad, size - pad, a64_br(reg));
	return length ? pad + length : 0;
}

bool a64_plt_entry(struct isa_plt_entry *entry, const uint8_t *code, size_t size, uint64_t address)
{
	size_t head = a64_landing_pad_length(code, size);
	uint32_t add = word_at(code, size, head / 4 + 2), jump = word_at(code, size, head / 4 + 3);
	unsigned reg;

	if (!slot_load(code + head, size - head, address + head, &reg, &entry->slot) || reg != A64_X17 ||
	    word_at(code, size, head / 4 + 1) != a64_ldr_x(A64_X17, A64_X16, entry->slot & 0xfff) ||
	    !is_add_imm_x(add) || a64_rd(add) != A64_X16 || a64_rn(add) != A64_X16)
		return false;
	/* A signed slot: autia1716 comes before the jump. */
	if (jump == A64_AUTIA1716)
		jump = word_at(code, size, head / 4 + 4);
	if (jump != a64_br(A64_X17))
		return false;
	entry->head = (uint8_t)head;
	entry->length = 4;
	return true;
}
