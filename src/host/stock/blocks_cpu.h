/*
 * The CPUs that have blocks: their makers, and what unwind tables must know of them.
 *
 * Context: host.  One constant per CPU; all other code of this folder is the same for every CPU.
 */
#ifndef HOST_STOCK_BLOCKS_CPU_H
#define HOST_STOCK_BLOCKS_CPU_H

#include "arch/generic/isa/block.h"

struct blocks_cpu {
	uint16_t machine; /* EM_* */
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
