/*
 * aarch64: the decoder (see decode.h).  Pure.
 */
#include <errno.h>

#include "decode.h"
#include "fields.h"

#define NONE -1

struct pattern {
	uint32_t mask, bits;
	int kind;
};

/* Branches, exceptions and system instructions: bits 28:26 are 101. */
static const struct pattern branches[] = {
	{0xff00000e, 0x5400000e, ISA_JUMP},	     /* b.al, b.nv: always */
	{0xff000000, 0x54000000, ISA_BRANCH},	     /* b.cond, bc.cond */
	{0x7c000000, 0x34000000, ISA_BRANCH},	     /* cbz, cbnz, tbz, tbnz */
	{0xfc000000, 0x14000000, ISA_JUMP},	     /* b */
	{0xfc000000, 0x94000000, ISA_CALL},	     /* bl */
	{0xfffffc1f, 0xd61f0000, ISA_JUMP_INDIRECT}, /* br */
	{0xfffff81f, 0xd61f081f, ISA_JUMP_INDIRECT}, /* braaz, brabz */
	{0xfffff800, 0xd71f0800, ISA_JUMP_INDIRECT}, /* braa, brab */
	{0xfffffc1f, 0xd63f0000, ISA_CALL_INDIRECT}, /* blr */
	{0xfffff81f, 0xd63f081f, ISA_CALL_INDIRECT}, /* blraaz, blrabz */
	{0xfffff800, 0xd73f0800, ISA_CALL_INDIRECT}, /* blraa, blrab */
	{0xfffffc1f, 0xd65f0000, ISA_RETURN},	     /* ret */
	{0xfffffbff, 0xd65f0bff, ISA_RETURN},	     /* retaa, retab */
	{0xffffffff, 0xd69f03e0, ISA_TRAP},	     /* eret */
	{0xfffffbff, 0xd69f0bff, ISA_TRAP},	     /* eretaa, eretab */
	{0xffffffff, 0xd6bf03e0, ISA_TRAP},	     /* drps */
	{0xffe0001f, 0xd4000001, ISA_PLAIN},	     /* svc */
	{0xffe0001f, 0xd4000002, ISA_TRAP},	     /* hvc */
	{0xffe0001f, 0xd4000003, ISA_TRAP},	     /* smc */
	{0xffe0001f, 0xd4200000, ISA_TRAP},	     /* brk */
	{0xffe0001f, 0xd4400000, ISA_TRAP},	     /* hlt */
	{0xffe0001f, 0xd4600000, ISA_TRAP},	     /* tcancel */
	{0xffe0001f, 0xd4a00001, ISA_TRAP},	     /* dcps1, dcps2, dcps3 */
	{0xffe0001e, 0xd4a00002, ISA_TRAP},
	{0xffffffff, 0xd50324ff, NONE},	     /* pacm: the next instruction signs with its own address */
	{0xff800000, 0xd5000000, ISA_PLAIN}, /* hints, barriers, system registers */
};

/* Loads and stores: bit 27 is 1, bit 25 is 0. */
static const struct pattern loads[] = {
	{0xff000000, 0xdc000000, NONE},		 /* no instruction: ldr of a literal has no such size */
	{0x3b000000, 0x18000000, ISA_MEMORY},	 /* ldr, ldrsw, prfm of a literal */
	{0x3fa00000, 0x08000000, ISA_EXCLUSIVE}, /* ldxr, stxr and their kin */
	{0xbfa00000, 0x88200000, ISA_EXCLUSIVE}, /* ldxp, stxp */
	{0x3f000000, 0x09000000, NONE},		 {0x00000000, 0x00000000, ISA_PLAIN},
};

static const struct pattern immediates[] = {
	{0x1f000000, 0x10000000, ISA_ADDRESS}, /* adr, adrp */
	{0xff800000, 0xf3800000, NONE},	       /* autiasppc, autibsppc */
	{0x00000000, 0x00000000, ISA_PLAIN},
};

static const struct pattern registers[] = {
	{0xffff8000, 0xdac18000, NONE}, /* paciasppc and its kin */
	{0x00000000, 0x00000000, ISA_PLAIN},
};

/* All other words: bits 28:27 are 00. */
static const struct pattern others[] = {
	{0xffff0000, 0x00000000, ISA_TRAP},  /* udf */
	{0x9e000000, 0x80000000, ISA_PLAIN}, /* SME */
	{0x1e000000, 0x04000000, ISA_PLAIN}, /* SVE */
};

static int find(const struct pattern *patterns, size_t count, uint32_t word)
{
	for (size_t i = 0; i < count; i++) {
		if ((word & patterns[i].mask) == patterns[i].bits)
			return patterns[i].kind;
	}
	return NONE;
}

#define FIND(patterns, word) find(patterns, sizeof(patterns) / sizeof((patterns)[0]), word)

static int kind_of(uint32_t word)
{
	if ((word & 0x0a000000) == 0x08000000)
		return FIND(loads, word);
	if ((word & 0x1c000000) == 0x14000000)
		return FIND(branches, word);
	if ((word & 0x1c000000) == 0x10000000)
		return FIND(immediates, word);
	if ((word & 0x0a000000) == 0x0a000000)
		return FIND(registers, word);
	return FIND(others, word);
}

static uint64_t target_of(uint32_t word, uint64_t address)
{
	if (a64_is_adrp(word))
		return a64_adrp_page(word, address);
	if ((word & 0x1f000000) == 0x10000000) /* adr */
		return address + (uint64_t)a64_imm_adr(word);
	if ((word & 0x7c000000) == 0x14000000) /* b, bl */
		return address + (uint64_t)a64_imm26(word);
	if ((word & 0x7e000000) == 0x36000000) /* tbz, tbnz */
		return address + (uint64_t)a64_imm14(word);
	return address + (uint64_t)a64_imm19(word);
}

int a64_decode(struct isa_instruction *in, const uint8_t *code, size_t size, uint64_t address)
{
	uint32_t word;
	int kind;

	if (size < 4)
		return -ENODATA;
	word = isa_load32(code);
	kind = kind_of(word);
	if (kind == NONE)
		return -EILSEQ;
	*in = (struct isa_instruction){.kind = (uint8_t)kind, .length = 4};
	in->has_target =
		kind == ISA_ADDRESS || kind == ISA_MEMORY || kind == ISA_JUMP || kind == ISA_BRANCH || kind == ISA_CALL;
	if (in->has_target)
		in->target = target_of(word, address);
	return in->length;
}
