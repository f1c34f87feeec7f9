/*
 * What the files that make blocks and their unwind tables share.  Context: host.
 */
#ifndef HOST_STOCK_BLOCKS_IMPL_H
#define HOST_STOCK_BLOCKS_IMPL_H

#include "blocks_cpu.h"
#include "stock.h"

/* A block's code, as made for one address. */
struct made_block {
	struct isa_block block;
	uint32_t length; /* of the code */
	uint8_t code[ISA_BLOCK_MAX];
};

/* Make a block whose code is to lie at `at`, of an object at `base`; 0 or -errno. */
int blocks_make_one(struct made_block *made, const struct blocks_cpu *cpu, const struct stock_image *image,
		    const struct stock_block *block, uint64_t at, uint64_t base);

#endif
