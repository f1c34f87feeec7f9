/*
 * x86-64: blocks (see block.h).  Pure.
 */
#include "block.h"
#include "decode.h"
#include "encode.h"
#include "relocate.h"

#define JUMP_BYTES 5
#define PUSH_BYTES 5 /* push $imm32, and the upper half behind it where that is another's */

static int move(struct isa_out *out, const struct isa_source *source)
{
	return x86_relocate(out, source->code, source->size, source->from);
}

/* nopl 0(%rax,%rax,1) */
static void put_site(struct isa_out *out)
{
	isa_put(out, (const uint8_t[]){0x0f, 0x1f, 0x44, 0x00, 0x00}, JUMP_BYTES);
}

static int put_jump(struct isa_out *out, uint64_t target, unsigned scratch)
{
	(void)scratch;
	if (!isa_fits((int64_t)(target - isa_out_here(out) - JUMP_BYTES), 32))
		return -ERANGE;
	x86_put_jmp(out, target);
	return 0;
}

const struct isa_block_cpu x86_block_cpu = {
	.decode = x86_decode,
	.move = move,
	.put_site = put_site,
	.put_jump = put_jump,
	.jump_bytes = JUMP_BYTES,
	.push_bytes = PUSH_BYTES,
};

int x86_block(struct isa_out *out, struct isa_block *block, const struct isa_head *head)
{
	return isa_block_make(&x86_block_cpu, out, block, head);
}
