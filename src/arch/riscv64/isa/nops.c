/*
 * riscv64: decoding the few instructions that stand at a function's entry (see
 * nops.h).  Pure; host context.
 */
#include "decode.h"
#include "fields.h"
#include "nops.h"

/* The word of the instruction at an offset; returns its length, 0 = not all there. */
static size_t fetch(const uint8_t *code, size_t size, size_t at, uint32_t *word)
{
	size_t length;

	*word = 0;
	if (size < 2 || at > size - 2)
		return 0;
	length = rv_length(isa_load16(code + at));
	if (length > size - at)
		return 0;
	*word = length == 4 ? isa_load32(code + at) : isa_load16(code + at);
	return length;
}

/* A jump through a register: length, where it links to (0 = nowhere), the register and what is added to it. */
struct indirect {
	unsigned link;
	unsigned base;
	int64_t offset;
};

static size_t fetch_indirect(const uint8_t *code, size_t size, size_t at, struct indirect *jump)
{
	uint32_t word;
	size_t length = fetch(code, size, at, &word);

	if (length == 4 && rv_opcode(word) == RV_JALR && rv_funct3(word) == 0) {
		*jump = (struct indirect){rv_rd(word), rv_rs1(word), rv_imm_i(word)};
		return length;
	}
	if (length == 2 && rv_c_jr(word)) {
		*jump = (struct indirect){RV_ZERO, rv_c_jr(word), 0};
		return length;
	}
	if (length == 2 && rv_c_jalr(word)) {
		*jump = (struct indirect){RV_RA, rv_c_jalr(word), 0};
		return length;
	}
	return 0;
}

/* auipc to a register other than the zero register; returns 4, 0 = not that. */
static size_t fetch_auipc(const uint8_t *code, size_t size, uint64_t address, unsigned *reg, uint64_t *base)
{
	uint32_t word;

	if (fetch(code, size, 0, &word) != 4 || rv_opcode(word) != RV_AUIPC || rv_rd(word) == RV_ZERO)
		return 0;
	*reg = rv_rd(word);
	*base = address + (uint64_t)rv_imm_u(word);
	return 4;
}

/* auipc and a jump through its register. */
static size_t far_jump(const uint8_t *code, size_t size, uint64_t address, unsigned *link, uint64_t *target)
{
	struct indirect jump;
	unsigned reg;
	uint64_t base;
	size_t length = fetch_auipc(code, size, address, &reg, &base);
	size_t last = length ? fetch_indirect(code, size, length, &jump) : 0;

	if (!last || jump.base != reg)
		return 0;
	*link = jump.link;
	*target = (base + (uint64_t)jump.offset) & ~UINT64_C(1);
	return length + last;
}

/* From at on: the end of the jump to what reg holds, which other instructions may come before; 0 = none soon. */
static size_t find_jump(const uint8_t *code, size_t size, size_t at, unsigned reg, unsigned *link)
{
	struct isa_instruction in;
	struct indirect jump;

	for (unsigned n = 0; n < ISA_SOON && at < size; n++) {
		size_t length = fetch_indirect(code, size, at, &jump);

		if (length) {
			*link = jump.link;
			return jump.base == reg && !jump.offset ? at + length : 0;
		}
		if (rv_decode(&in, code + at, size - at, 0) < 0 || !isa_goes_on((enum isa_kind)in.kind))
			return 0;
		at += in.length;
	}
	return 0;
}

/* auipc, ld, and a jump to what was loaded. */
static size_t slot_jump(const uint8_t *code, size_t size, uint64_t address, unsigned *link, uint64_t *slot)
{
	unsigned reg;
	uint64_t base;
	uint32_t load;
	size_t length = fetch_auipc(code, size, address, &reg, &base);

	if (!length || fetch(code, size, length, &load) != 4)
		return 0;
	if (rv_opcode(load) != RV_LOAD || rv_funct3(load) != 3 || rv_rs1(load) != reg)
		return 0;
	*slot = base + (uint64_t)rv_imm_i(load);
	return find_jump(code, size, length + 4, rv_rd(load), link);
}

size_t rv_nop_length(const uint8_t *code, size_t size)
{
	uint32_t word;
	size_t length = fetch(code, size, 0, &word);

	return (length == 4 && word == RV_NOP) || (length == 2 && word == RV_C_NOP) ? length : 0;
}

size_t rv_landing_pad_length(const uint8_t *code, size_t size)
{
	uint32_t word;
	size_t length = fetch(code, size, 0, &word);

	return length == 4 && rv_opcode(word) == RV_AUIPC && rv_rd(word) == RV_ZERO ? length : 0;
}

size_t rv_call(const uint8_t *code, size_t size, uint64_t address, uint64_t *target)
{
	uint32_t word;
	unsigned link;
	size_t length = fetch(code, size, 0, &word);

	if (length == 4 && rv_opcode(word) == RV_JAL && rv_rd(word) == RV_RA) {
		*target = address + (uint64_t)rv_imm_j(word);
		return length;
	}
	length = far_jump(code, size, address, &link, target);
	return length && link == RV_RA ? length : 0;
}

size_t rv_call_slot(const uint8_t *code, size_t size, uint64_t address, uint64_t *slot)
{
	unsigned link;
	size_t length = slot_jump(code, size, address, &link, slot);

	return length && link == RV_RA ? length : 0;
}

bool rv_may_jump(uint8_t first)
{
	uint32_t opcode = first & 0x7f;

	return (first & 3) == 1 || first == RV_JAL || opcode == RV_BRANCH || opcode == RV_AUIPC;
}

/* The offset of a jump that links to nothing; 0 = the word is none (or jumps to itself: the same to the callers). */
static int64_t short_jump_offset(size_t length, uint32_t word)
{
	if (length == 4 && rv_opcode(word) == RV_JAL && rv_rd(word) == RV_ZERO)
		return rv_imm_j(word);
	if (length == 4 && rv_opcode(word) == RV_BRANCH)
		return rv_imm_b(word);
	if (length == 2 && rv_c_opcode(word) == RV_C_J)
		return rv_imm_cj(word);
	if (length == 2 && (rv_c_opcode(word) == RV_C_BEQZ || rv_c_opcode(word) == RV_C_BNEZ))
		return rv_imm_cb(word);
	return 0;
}

size_t rv_jump_relative(const uint8_t *code, size_t size, uint64_t address, uint64_t *target)
{
	uint32_t word;
	unsigned link;
	size_t length = fetch(code, size, 0, &word);
	int64_t offset = short_jump_offset(length, word);

	if (offset) {
		*target = address + (uint64_t)offset;
		return length;
	}
	length = far_jump(code, size, address, &link, target);
	return length && link == RV_ZERO ? length : 0;
}

size_t rv_jump_slot(const uint8_t *code, size_t size, uint64_t address, uint64_t *slot)
{
	size_t pad = rv_landing_pad_length(code, size);
	unsigned link;
	size_t length = slot_jump(code + pad, size - pad, address + pad, &link, slot);

	/* A PLT entry links to t1, for the dynamic linker's sake. */
	return length && (link == RV_ZERO || link == RV_T1) ? pad + length : 0;
}

bool rv_plt_entry(struct isa_plt_entry *entry, const uint8_t *code, size_t size, uint64_t address)
{
	size_t head = rv_landing_pad_length(code, size), length;
	struct indirect jump;
	uint32_t word;
	unsigned link;

	if (!slot_jump(code + head, size - head, address + head, &link, &entry->slot) || link != RV_T1)
		return false;
	length = fetch_indirect(code, size, head + 8, &jump);
	if (!length || jump.link != RV_T1 || jump.base != RV_T3 || fetch(code, size, head, &word) != 4 ||
	    rv_rd(word) != RV_T3)
		return false;
	entry->head = (uint8_t)head;
	entry->length = 8;
	return true;
}
