/*
 * Blocks: how a place in text whose instructions are no no-ops gets a site.
 *
 *     head, in the program's text:   a jump to the block, in place of whole instructions
 *     block, in Calltap's memory:    a site of no-ops; the head's instructions, moved; a jump behind the head
 *
 * The block's own start is a site as compilers leave them, so whatever is done with sites is done with it; the
 * program's text stays as it is meanwhile.  doc/design/patching.md, "Points".
 *
 * Pure functions for each CPU, under their own names (src/arch/<cpu>/isa/block.h).  Callers: those who plan points.
 */
#ifndef ARCH_GENERIC_ISA_BLOCK_H
#define ARCH_GENERIC_ISA_BLOCK_H

#include "relocate.h"

/* The longest block that any CPU makes, bytes. */
#define ISA_BLOCK_MAX 512

/* The place: no thread is ever led to an instruction of it but the first. */
struct isa_head {
	const uint8_t *code; /* its bytes, and more behind it up to the function's end */
	size_t size;
	uint64_t from;	  /* address */
	unsigned scratch; /* a register whose value means nothing there, where the CPU's relocator takes one */
};

struct isa_block {
	uint8_t head; /* bytes of the head: whole instructions, with room for the jump */
	uint8_t site; /* bytes of the block's site */
};

/*
 * Append the block to *out.  0, or with *out as it was an error of the relocators (relocate.h), and
 *     -ENOTSUP  also: one of the instructions leads into the head, or a call would return into it, or the function ends
 *               within it
 */
typedef int isa_block_maker(struct isa_out *out, struct isa_block *block, const struct isa_head *head);

/* A CPU's part of it. */
struct isa_block_cpu {
	isa_decoder *decode;
	int (*move)(struct isa_out *out, const struct isa_source *source); /* the relocator */
	void (*put_site)(struct isa_out *out);
	int (*put_jump)(struct isa_out *out, uint64_t target, unsigned scratch); /* 0 or -errno */
	uint8_t jump_bytes;							 /* of the jump in the head */
};

/* Find the head's end: whole instructions from which one goes on behind it, or which end the function there. */
static inline int isa_head_measure(const struct isa_block_cpu *cpu, const struct isa_head *head, uint8_t *length)
{
	size_t at = 0;

	while (at < cpu->jump_bytes) {
		struct isa_instruction in;
		int size = cpu->decode(&in, head->code + at, head->size - at, head->from + at);

		if (size < 0)
			return size;
		at += (size_t)size;
		/* A call's return address, and what may be another function's, must not be within the head. */
		if (at < cpu->jump_bytes && !isa_goes_on((enum isa_kind)in.kind) && in.kind != ISA_BRANCH)
			return -ENOTSUP;
	}
	*length = (uint8_t)at;
	return 0;
}

/* Move the head's instructions, none of which may lead into it. */
static inline int isa_head_move(const struct isa_block_cpu *cpu, struct isa_out *out, const struct isa_head *head,
				uint8_t length)
{
	for (size_t at = 0; at < length;) {
		const struct isa_source source = {head->code + at, head->size - at, head->from + at, head->scratch};
		struct isa_instruction in;
		int size = cpu->decode(&in, source.code, source.size, source.from), ret;

		if (size < 0)
			return size;
		if (in.has_target && (in.kind == ISA_JUMP || in.kind == ISA_BRANCH || in.kind == ISA_CALL) &&
		    in.target - head->from < length)
			return -ENOTSUP;
		ret = cpu->move(out, &source);
		if (ret < 0)
			return ret;
		at += (size_t)size;
	}
	return 0;
}

static inline int isa_block_make(const struct isa_block_cpu *cpu, struct isa_out *out, struct isa_block *block,
				 const struct isa_head *head)
{
	size_t start = out->length;
	int ret = isa_head_measure(cpu, head, &block->head);

	if (!ret) {
		cpu->put_site(out);
		block->site = (uint8_t)(out->length - start);
		ret = isa_head_move(cpu, out, head, block->head);
	}
	if (!ret)
		ret = cpu->put_jump(out, head->from + block->head, head->scratch);
	if (!ret && out->length > out->size)
		ret = -ENOSPC;
	if (ret)
		out->length = start;
	return ret;
}

#endif
