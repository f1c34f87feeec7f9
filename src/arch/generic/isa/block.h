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
/* The most instructions that a head may have. */
#define ISA_HEAD_MAX 16

/* The place: no thread is ever led to an instruction of it but the first. */
struct isa_head {
	const uint8_t *code; /* its bytes, and more behind it up to the function's end */
	size_t size;
	uint64_t from;	  /* address */
	unsigned scratch; /* a register whose value means nothing there, where the CPU's relocator takes one */
	/*
	 * Bytes of the head: whole instructions, or the function's last ones and padding behind them that nobody runs;
	 * the caller knows.  0 = whole instructions, as few as make room for the jump.
	 */
	uint8_t length;
};

/* An instruction of the head, and its moved form. */
struct isa_place {
	uint8_t from; /* offset in the head */
	uint8_t kind; /* enum isa_kind */
	uint16_t to;  /* offset in the block */
};

struct isa_block {
	uint8_t head;  /* bytes of the head */
	uint8_t site;  /* bytes of the block's site */
	uint8_t count; /* of `places` */
	/* What was moved, and last the jump behind the head, as of the head's end. */
	struct isa_place places[ISA_HEAD_MAX + 1];
};

/*
 * Append the block to *out.  0, or with *out as it was an error of the relocators (relocate.h), and
 *     -ENOTSUP  also: one of the instructions leads into the head, a call would return into it, the function ends
 *               within a head of no given length, or a given length is no whole number of instructions
 */
typedef int isa_block_maker(struct isa_out *out, struct isa_block *block, const struct isa_head *head);

/* A CPU's part of it. */
struct isa_block_cpu {
	isa_decoder *decode;
	int (*move)(struct isa_out *out, const struct isa_source *source); /* the relocator */
	void (*put_site)(struct isa_out *out);
	int (*put_jump)(struct isa_out *out, uint64_t target, unsigned scratch); /* 0 or -errno */
	uint8_t jump_bytes;							 /* of the jump in the head */
	/* Of a call's moved form: behind how many bytes its return address is on the stack; 0 = it is in a register. */
	uint8_t push_bytes;
	/* A register for `scratch` of a head with these instructions; NULL: one suits all heads, and the caller knows
	 * it. */
	unsigned (*free_register)(const uint8_t *code, size_t length);
};

/* The register that a head's moved form may change; usual: where the CPU has one for all heads. */
static inline unsigned isa_head_scratch(const struct isa_block_cpu *cpu, const uint8_t *code, size_t length,
					unsigned usual)
{
	return cpu->free_register ? cpu->free_register(code, length) : usual;
}

/* True if what lies behind an instruction of this kind is not what runs next: a head ends there, or padding follows. */
static inline bool isa_ends(enum isa_kind kind)
{
	return !isa_goes_on(kind) && kind != ISA_BRANCH;
}

/* Find the head's end: whole instructions from which one goes on behind it, or which end the function there. */
static inline int isa_head_measure(const struct isa_block_cpu *cpu, const struct isa_head *head, uint8_t *length)
{
	size_t room = head->length ? head->length : cpu->jump_bytes, at = 0;

	if (room > head->size)
		return -ENODATA;
	while (at < room) {
		struct isa_instruction in;
		int size = cpu->decode(&in, head->code + at, head->size - at, head->from + at);

		if (size < 0)
			return size;
		at += (size_t)size;
		if (at >= room || !isa_ends((enum isa_kind)in.kind))
			continue;
		if (!head->length)
			return -ENOTSUP; /* what lies behind may be another function's */
		if (at < cpu->jump_bytes && (in.kind == ISA_CALL || in.kind == ISA_CALL_INDIRECT))
			return -ENOTSUP; /* the call would return into the jump */
		at = room;		 /* no thread runs into what lies behind */
	}
	if (head->length && at != room)
		return -ENOTSUP;
	*length = (uint8_t)at;
	return 0;
}

/* Move the head's instructions, none of which may lead into it; the block begins at out's byte `start`. */
static inline int isa_head_move(const struct isa_block_cpu *cpu, struct isa_out *out, size_t start,
				struct isa_block *block, const struct isa_head *head)
{
	bool ended = false;

	block->count = 0;
	for (size_t at = 0; at < block->head && !ended;) {
		const struct isa_source source = {head->code + at, head->size - at, head->from + at, head->scratch};
		struct isa_instruction in;
		int size = cpu->decode(&in, source.code, source.size, source.from), ret;

		if (size < 0)
			return size;
		if (block->count == ISA_HEAD_MAX)
			return -ENOTSUP;
		if (in.has_target && (in.kind == ISA_JUMP || in.kind == ISA_BRANCH || in.kind == ISA_CALL) &&
		    in.target - head->from < block->head)
			return -ENOTSUP;
		block->places[block->count++] =
			(struct isa_place){(uint8_t)at, in.kind, (uint16_t)(out->length - start)};
		ret = cpu->move(out, &source);
		if (ret < 0)
			return ret;
		at += (size_t)size;
		ended = isa_ends((enum isa_kind)in.kind);
	}
	block->places[block->count++] = (struct isa_place){block->head, ISA_JUMP, (uint16_t)(out->length - start)};
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
		ret = isa_head_move(cpu, out, start, block, head);
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
