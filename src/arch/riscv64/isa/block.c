/*
 * riscv64: blocks (see block.h).  Pure.
 *
 * The jump in the head is auipc and jalr by t1, that of a site by t0: neither has a meaning at a function's first
 * instruction.  The block's own site lies at a multiple of 4: the caller begins blocks there.
 */
#include "block.h"
#include "decode.h"
#include "encode.h"
#include "registers.h"
#include "relocate.h"

#define JUMP_BYTES 8

static int move(struct isa_out *out, const struct isa_source *source)
{
	return rv_relocate(out, source->code, source->size, source->from, source->scratch);
}

static void put_site(struct isa_out *out)
{
	isa_put32(out, RV_NOP);
	isa_put32(out, RV_NOP);
}

static int put_jump(struct isa_out *out, uint64_t target, unsigned scratch)
{
	int64_t distance = (int64_t)(target - isa_out_here(out));
	int32_t hi, lo;

	if (rv_jal_reaches(distance)) {
		isa_put32(out, rv_j(distance));
		return 0;
	}
	if (scratch == RV_ZERO)
		return -ENOTSUP;
	if (!rv_pcrel_split(distance, &hi, &lo))
		return -ERANGE;
	isa_put32(out, rv_auipc(scratch, hi));
	isa_put32(out, rv_jalr(RV_ZERO, scratch, lo));
	return 0;
}

const struct isa_block_cpu rv_block_cpu = {
	.decode = rv_decode,
	.move = move,
	.put_site = put_site,
	.put_jump = put_jump,
	.jump_bytes = JUMP_BYTES,
	.free_register = rv_free_register,
};

int rv_block(struct isa_out *out, struct isa_block *block, const struct isa_head *head)
{
	return isa_block_make(&rv_block_cpu, out, block, head);
}
