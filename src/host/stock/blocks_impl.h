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

/* The hub of the region, NULL: no head leads to an island. */
const struct blocks_hub *blocks_hub_of(const struct blocks_cpu *cpu, const struct stock_block *blocks, size_t count);

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

/* Whose rows a block has. */
struct rows_source {
	struct cfi_entry entry; /* of the function, or what is always true at a function's first instruction */
	bool is_known;		/* there is one of the function, or it is a PLT entry, which leaves the stack alone */
	uint32_t common;	/* of the block */
	uint64_t head;		/* offset of the head from the entry's start */
};

/* A region's unwind tables while they are written. */
struct blocks_frames {
	const struct blocks_cpu *cpu;
	const struct stock_image *image;
	struct isa_out frames; /* .eh_frame; without a buffer it is only measured */
	uint8_t *header;       /* .eh_frame_hdr, NULL = it is only measured */
	uint64_t header_at;    /* its address */
	uint64_t rows;
	size_t cie;		    /* offset of the last CIE in `frames` */
	struct rows_source cie_for; /* what it was made of */
};

/*
 * Find the entries of all blocks, and measure those that they get; the code of each is measured already, and the
 * blocks without code are passed over.  0 or -ENOMEM.
 */
int blocks_frames_measure(const struct stock_image *image, struct stock_block *blocks, size_t count);
/* The bytes of .eh_frame_hdr and .eh_frame for blocks whose places are known. */
uint64_t blocks_frames_size(const struct stock_image *image, const struct stock_block *blocks, size_t count);
/* Write them into the region's bytes; the arguments are those of stock_make().  Then comes each block with code. */
void blocks_frames_begin(struct blocks_frames *frames, uint8_t *out, const struct stock_layout *layout,
			 const struct stock_image *image, const struct stock_block *blocks, size_t count, uint64_t at);
/* The block, whose code lies at block_at. */
void blocks_frames_put(struct blocks_frames *frames, const struct stock_block *block, const struct made_block *made,
		       uint64_t block_at);
/* -ERANGE: the size is not what was said. */
int blocks_frames_end(struct blocks_frames *frames);

#endif
