/*
 * aarch64: blocks (see block.h).  Pure.
 */
#include "block.h"
#include "decode.h"
#include "encode.h"
#include "relocate.h"

#define JUMP_BYTES 4
#define REACH_BITS 28 /* of b: a signed number of bytes */

static int move(struct isa_out *out, const struct isa_source *source)
{
	return a64_relocate(out, source->code, source->size, source->from, source->scratch);
}

static void put_site(struct isa_out *out)
{
	isa_put32(out, A64_NOP);
}

static int put_jump(struct isa_out *out, uint64_t target, unsigned scratch)
{
	int64_t distance = (int64_t)(target - isa_out_here(out));

	(void)scratch;
	if (!isa_fits(distance, REACH_BITS))
		return -ERANGE;
	isa_put32(out, a64_b(distance));
	return 0;
}

const struct isa_block_cpu a64_block_cpu = {
	.decode = a64_decode,
	.move = move,
	.put_site = put_site,
	.put_jump = put_jump,
	.jump_bytes = JUMP_BYTES,
};

int a64_block(struct isa_out *out, struct isa_block *block, const struct isa_head *head)
{
	return isa_block_make(&a64_block_cpu, out, block, head);
}
