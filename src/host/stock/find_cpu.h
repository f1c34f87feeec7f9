/*
 * The CPUs whose stock functions can be analysed: what the analysis must know of their instructions.
 *
 * Context: host.  One constant per CPU; all other code of this folder is the same for every CPU.
 */
#ifndef HOST_STOCK_FIND_CPU_H
#define HOST_STOCK_FIND_CPU_H

#include "arch/generic/isa/block.h"
#include "cfi.h"

/* What is known of registers, for CPUs that make an address by two instructions. */
struct find_values {
	uint64_t value[32];	/* of a register, or the address of the word that it was loaded from */
	uint32_t known, loaded; /* which of these it is, by register */
	bool fixed;		/* the object has a fixed address: a number may be one of its own */
	bool link_lost;		/* another value is in the return address' register */
	bool link_moved;	/* the return address is in the register of other calls' return addresses */
};

/* What else an instruction is found to be. */
enum {
	FIND_USES_LINK = 1,  /* it uses the return address, which is in its register still */
	FIND_OTHER_LINK = 2, /* a call that leaves its return address in another register than all others */
};

struct find_cpu {
	uint16_t machine; /* EM_* */
	const struct isa_block_cpu *block;
	uint8_t head_max;	 /* the longest head, bytes */
	uint8_t code_align;	 /* instructions begin at multiples of this */
	uint8_t stack_register;	 /* DWARF number */
	uint8_t entry_cfa;	 /* at a function's entry the CFA is the stack pointer and so many bytes */
	uint8_t return_register; /* DWARF number of the column that the return address has in usual tables */
	uint8_t scratch;	 /* a register without meaning at a function's entry, where the relocator takes one */
	bool link;		 /* at a function's entry the return address is in its register, not on the stack */
	bool keeps_pad;		 /* a landing pad stays where it is: the jump could not stand for it */
	/*
	 * Stubs change registers (not those of arguments) that a jump within a function may find in use: a part of a
	 * function must not be taken for one, and something has to tell that a function is one (find.c).
	 */
	bool needs_proof;

	/* How many bytes the jump takes in place of these, NULL: block->jump_bytes. */
	uint8_t (*jump_bytes)(const uint8_t *code, size_t size);
	/* Lengths in bytes, 0 = the bytes are not that. */
	size_t (*landing_pad)(const uint8_t *code, size_t size);
	size_t (*padding)(const uint8_t *code, size_t size); /* what assemblers and linkers put between functions */
	/* A jump through a word of memory, as a linkage table's entry has it. */
	size_t (*jump_slot)(const uint8_t *code, size_t size, uint64_t address, uint64_t *slot);
	/*
	 * Say more of an instruction by what is known of registers, and learn from it; FIND_* or'ed.  The first half of
	 * an address becomes ISA_PLAIN, the second one ISA_ADDRESS; a jump by a register gets its target.  NULL:
	 * instructions tell all by themselves.
	 */
	unsigned (*follow)(struct find_values *values, struct isa_instruction *in, const uint8_t *code);
	/* True if an instruction that nothing else is known of reads, writes or pops the return address. */
	bool (*touches)(const uint8_t *code, size_t length, const struct cfi_row *row);
	/* The function takes its arguments off its caller's stack, where it returns.  NULL: it cannot. */
	bool (*takes_arguments)(const uint8_t *code, size_t length);
	/* False if the instruction leaves the stack pointer as it is, surely; NULL where the return address is in a
	 * register. */
	bool (*moves_stack)(const uint8_t *code, size_t length);
	/* An instruction's immediate that may be an address in an object of a fixed address; false: it has none. */
	bool (*immediate)(const uint8_t *code, size_t length, uint64_t *value);
	/* An address that is made by this instruction and the next one; false: they make none.  NULL: one is enough. */
	bool (*made_address)(const uint8_t *code, size_t size, uint64_t address, uint64_t *made);
	/* The loader's own functions that are called by other rules than all others; NULL: there are none. */
	bool (*is_private)(const uint8_t *code, size_t size);
	/* The function's callers put values into registers that stubs change; NULL: none is known. */
	bool (*takes_more)(const uint8_t *code, size_t size, uint64_t address);
};

/* NULL: the CPU has no analysis yet. */
const struct find_cpu *find_cpu_of(uint16_t machine);

extern const struct find_cpu find_aarch64, find_riscv64, find_x86_64;

#endif
