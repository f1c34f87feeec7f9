/*
 * The CPUs that have blocks: their makers, and what unwind tables must know of them.
 *
 * Context: host.  One constant per CPU; all other code of this folder is the same for every CPU.
 */
#ifndef HOST_STOCK_BLOCKS_CPU_H
#define HOST_STOCK_BLOCKS_CPU_H

#include "arch/generic/isa/block.h"
#include "stock.h"

/*
 * What islands lead to: the hub, which finds the block of the head that the thread comes from.  It lies in front of the
 * blocks.
 */
struct blocks_hub {
	struct stock_islands islands;
	uint32_t code_size; /* bytes of instructions */
	/* Write a hub that will run at `at`; without `out` it is only measured.  Returns the bytes, 0: not enough
	 * memory. */
	size_t (*make)(uint8_t *out, const struct stock_block *blocks, size_t count, uint64_t at, uint64_t base);
};
extern const struct blocks_hub blocks_hub_riscv64;

struct blocks_cpu {
	uint16_t machine;	      /* EM_* */
	const struct blocks_hub *hub; /* NULL: there are no islands */
	const struct isa_block_cpu *block;
	unsigned scratch; /* a register without meaning at a function's entry, where the relocator takes one */
	uint8_t padding;  /* the byte between blocks: an instruction that traps, or part of one */
	/* Unwind tables: DWARF numbers, and the instructions for the row at a function's entry. */
	uint8_t stack_register, return_register;
	int8_t data_align;
	uint8_t entry_size;
	const uint8_t *entry;
};

/* NULL: the CPU has no blocks yet. */
const struct blocks_cpu *blocks_cpu_find(uint16_t machine);

#endif
