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

/* True if the block's head lies in a linkage table. */
bool blocks_is_of_plt(const struct stock_image *image, const struct stock_block *block);

/*
 * Addresses by which blocks are measured: of the object, so that its addresses are long ones, and of a block near its
 * head.
 */
#define BLOCKS_NOMINAL_BASE (UINT64_C(0x7ff) << 36)
#define BLOCKS_NEAR_BY	    (UINT64_C(1) << 16)
static inline uint64_t blocks_nominal(const struct stock_block *block)
{
	return BLOCKS_NOMINAL_BASE + block->head + BLOCKS_NEAR_BY;
}

/* The bytes of .eh_frame_hdr and .eh_frame for blocks whose places are known; 0 or -errno. */
int blocks_frames_measure(uint64_t *size, const struct stock_image *image, const struct stock_block *blocks,
			  size_t count);
/* Write them into the region's bytes; the arguments are those of stock_make(). */
int blocks_frames_make(uint8_t *out, const struct stock_layout *layout, const struct stock_image *image,
		       const struct stock_block *blocks, size_t count, uint64_t at, uint64_t base);

#endif
