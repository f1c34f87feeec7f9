/*
 * AArch64: what the analysis of stock functions must know of its instructions (find_cpu.h).  Pure; context: host.
 *
 * A jump is one instruction, and so is what it replaces.  An exception is paciasp, which signs the return address and
 * is a landing pad: it must run behind the stub, since the body authenticates the address that the stub has made, so
 * `bti c` takes its place, and the jump that of the instruction behind it.
 */
#include <elf.h>

#include "arch/aarch64/isa/block.h"
#include "arch/aarch64/isa/fields.h"
#include "arch/aarch64/isa/nops.h"
#include "find_cpu.h"

#define WORD	4
#define XPACLRI 0xd50320ffu

static uint32_t word_at(const uint8_t *code, size_t size, size_t n)
{
	return size / WORD > n ? isa_load32(code + WORD * n) : 0;
}

static uint8_t jump_bytes(const uint8_t *code, size_t size)
{
	return a64_signs_return(code, size) ? 2 * WORD : WORD;
}

static size_t padding(const uint8_t *code, size_t size)
{
	return size >= WORD && !word_at(code, size, 0) ? WORD : a64_nop_length(code, size);
}

/* A load or store of general registers, at a distance from another register. */
struct access {
	unsigned base, first, second; /* second: A64_XZR + 1, it has one register */
	unsigned bytes;		      /* of each */
	int64_t offset;
	bool stores;
};

#define NO_SECOND 32u

static bool read_pair(struct access *access, uint32_t word)
{
	unsigned bytes = word >> 31 ? 8 : 4, mode = isa_field(word, 23, 2);

	if ((word & 0x3e000000) != 0x28000000)
		return false;
	*access = (struct access){.base = a64_rn(word),
				  .first = a64_rd(word),
				  .second = isa_field(word, 10, 5),
				  .bytes = bytes,
				  .offset = mode == 1 ? 0 : isa_signed(isa_field(word, 15, 7), 7) * bytes,
				  .stores = !(word & 1u << 22)};
	return true;
}

static bool read_single(struct access *access, uint32_t word)
{
	unsigned scale = word >> 30, mode = isa_field(word, 10, 2);
	bool far = (word & 0x3f000000) == 0x39000000, near = (word & 0x3f200000) == 0x38000000 && mode != 2;

	if (!far && !near)
		return false;
	*access = (struct access){.base = a64_rn(word),
				  .first = a64_rd(word),
				  .second = NO_SECOND,
				  .bytes = 1u << scale,
				  .stores = !isa_field(word, 22, 2)};
	if (far)
		access->offset = (int64_t)((uint64_t)isa_field(word, 10, 12) << scale);
	else if (mode != 1)
		access->offset = isa_signed(isa_field(word, 12, 9), 9);
	return true;
}

/* True if an instruction of data processing has x30 among its operands. */
static bool computes_with_link(uint32_t word)
{
	if ((word & 0x0e000000) == 0x0a000000) {       /* of registers */
		if ((word & 0xfffffbff) == 0xdac143fe) /* xpaci, xpacd x30 */
			return true;
		return a64_rn(word) == A64_X30 || isa_field(word, 16, 5) == A64_X30 ||
		       ((word & 0x1f000000) == 0x1b000000 && isa_field(word, 10, 5) == A64_X30);
	}
	if ((word & 0x1c000000) != 0x10000000)
		return false;
	switch (isa_field(word, 23, 3)) {
	case 0: /* adr, adrp */
	case 1:
	case 5: /* movz, movk, movn */
		return false;
	default:
		return a64_rn(word) == A64_X30;
	}
}

/* While the return address is in x30: is it used other than to be saved, and to be returned to? */
static bool uses_link(uint32_t word)
{
	struct access access;

	if (read_pair(&access, word) || read_single(&access, word)) {
		bool moves = access.first == A64_X30 || access.second == A64_X30;

		return access.base == A64_X30 || (moves && access.stores && access.base != A64_SP);
	}
	return (word & 0xfffffc1f) == 0xd63f0000 ? a64_rn(word) == A64_X30 : computes_with_link(word);
}

/* While it is in memory: does another register than x30 get it, or lose its value to it? */
static bool is_at_saved(uint32_t word, const struct cfi_row *row)
{
	int64_t slot = row->cfa_offset + row->return_offset, from_first;
	struct access access;
	uint64_t index;

	if ((!read_pair(&access, word) && !read_single(&access, word)) || access.base != row->cfa_register)
		return false;
	from_first = slot - access.offset;
	if (from_first < 0)
		return false;
	index = (uint64_t)from_first / access.bytes;
	if (index > (access.second == NO_SECOND ? 0 : 1))
		return false;
	return (index ? access.second : access.first) != A64_X30;
}

static bool touches(const uint8_t *code, size_t length, const struct cfi_row *row)
{
	uint32_t word = word_at(code, length, 0);

	if (word == XPACLRI) /* compilers ask for their function's return address so */
		return true;
	if (!row->return_moved)
		return uses_link(word);
	/* In its caller's frame: the loader's resolver is jumped to, with the return address on the stack. */
	if (row->return_offset >= 0)
		return row->return_offset > 0;
	return (row->cfa_register == A64_SP || row->cfa_register == A64_X29) && is_at_saved(word, row);
}

static bool immediate(const uint8_t *code, size_t length, uint64_t *value)
{
	(void)code;
	(void)length;
	(void)value;
	return false;
}

/* adrp, and add to its register */
static bool made_address(const uint8_t *code, size_t size, uint64_t address, uint64_t *made)
{
	uint32_t page = word_at(code, size, 0), add = word_at(code, size, 1);

	if (!a64_is_adrp(page) || (add & 0xffc00000) != 0x91000000 || a64_rn(add) != a64_rd(page))
		return false;
	*made = a64_adrp_page(page, address) + isa_field(add, 10, 12);
	return true;
}

/*
 * The functions by which the loader answers for thread-local variables (TLS descriptors) preserve all registers but x0,
 * while stubs change x16 and x17.  One gets its argument in x0 and returns its second word; the others begin by saving
 * x1, and need more.
 */
static bool is_private(const uint8_t *code, size_t size)
{
	size_t pad = a64_landing_pad_length(code, size) / WORD;
	uint32_t word = word_at(code, size, pad);
	struct access access;

	if (word == a64_ldr_x(0, 0, 8) && word_at(code, size, pad + 1) == a64_ret(A64_X30))
		return true;
	return (read_pair(&access, word) || read_single(&access, word)) && access.stores && access.base == A64_SP &&
	       access.first == 1;
}

const struct find_cpu find_aarch64 = {
	.machine = EM_AARCH64,
	.block = &a64_block_cpu,
	.head_max = 2 * WORD,
	.code_align = WORD,
	.stack_register = A64_SP,
	.entry_cfa = 0,
	.return_register = A64_X30,
	.scratch = A64_X17,
	.link = true,
	.keeps_pad = true,
	.needs_proof = true,
	.jump_bytes = jump_bytes,
	.landing_pad = a64_landing_pad_length,
	.padding = padding,
	.jump_slot = a64_jump_slot,
	.touches = touches,
	.immediate = immediate,
	.made_address = made_address,
	.is_private = is_private,
};
