/*
 * The reader's table of CPUs: relocation types, and instructions that compilers put at a function's entry.
 *
 * Context: host.  One constant per CPU; all other code of this folder is the same for every CPU.  Functions return
 * lengths in bytes, 0 = the bytes are not that.
 */
#ifndef HOST_ELF_CPU_H
#define HOST_ELF_CPU_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct isa_plt_entry;

struct elf_cpu {
	uint16_t machine; /* EM_* */
	const char *name; /* for messages */

	uint32_t reloc_relative; /* base + addend */
	uint32_t reloc_absolute; /* symbol + addend */
	uint32_t reloc_glob_dat;
	uint32_t reloc_jump_slot;

	uint8_t vector_calls; /* st_other of functions that get or keep values in registers that system calls clear */

	uint8_t code_align;	  /* instructions begin at multiples of this */
	uint8_t jump_align;	  /* the jump to a stub lies at multiples of this */
	uint8_t jump_bytes;	  /* the jump that reaches a stub */
	uint8_t short_jump_bytes; /* the jump that reaches another jump close by; 0 = none */
	bool body_follows;	  /* the body must lie right behind the jump */
	uint64_t reach;		  /* of the jump, bytes to either side */

	uint8_t stub_call, stub_graph; /* bytes of a stub (arch/<cpu>/isa/stub_size.h) */
	uint8_t stub_gate;	       /* more, with a gate, which comes first */
	uint8_t stub_leaf;	       /* more, for a leaf; what all have comes last */
	uint8_t stub_veneer;	       /* more, in front of the stub */
	uint8_t stub_unit;	       /* each stub lies at a multiple of so many bytes; 0 = one behind the other */
	uint8_t stub_unit_gated;       /* stub_unit in a region where some stub has a gate */

	uint8_t patchable_nops; /* the N of -fpatchable-function-entry=N that is enough, wherever a function begins */
	bool has_fentry;	/* -pg -mfentry makes sites as well */

	size_t (*nop)(const uint8_t *code, size_t size);
	size_t (*landing_pad)(const uint8_t *code, size_t size);
	/*
	 * The push of the static chain that gcc puts before a nested function's call of __fentry__; NULL = no such
	 * push.
	 */
	size_t (*chain_push)(const uint8_t *code, size_t size);
	size_t (*call)(const uint8_t *code, size_t size, uint64_t address, uint64_t *target);
	size_t (*call_slot)(const uint8_t *code, size_t size, uint64_t address, uint64_t *slot);
	bool (*may_jump)(uint8_t first); /* quick test: false if neither jump nor jump_slot takes code that begins so */
	size_t (*jump)(const uint8_t *code, size_t size, uint64_t address, uint64_t *target);
	size_t (*jump_slot)(const uint8_t *code, size_t size, uint64_t address, uint64_t *slot); /* also a PLT entry */
	/* NULL: the entries of a PLT cannot be led to blocks. */
	bool (*plt_entry)(struct isa_plt_entry *entry, const uint8_t *code, size_t size, uint64_t address);
	/*
	 * True for functions that change stacks and keep their return address apart; NULL where a stub's address may
	 * stay there for good. may_switch: quick test, false if no such function can be in this code.
	 */
	bool (*switches)(const uint8_t *code, size_t size);
	bool (*may_switch)(const uint8_t *code, size_t size);
	/*
	 * A store of a function's address where a signal's context has its program counter, and true for a function
	 * that never returns; NULL where a stub does no harm to one that was entered so (entered.c).
	 */
	size_t (*find_entered)(const uint8_t *code, size_t size, size_t from, uint64_t address, uint64_t *target);
	bool (*never_returns)(const uint8_t *code, size_t size);
	/* True if code, from the body's first byte to the function's end, is a leaf's; NULL: leaves have no such stubs.
	 */
	bool (*leaf)(const uint8_t *code, size_t size);
};

/* NULL: this CPU's programs cannot be traced. */
const struct elf_cpu *elf_cpu_find(uint16_t machine);

/* The names of all CPUs whose programs can be traced, "a, b or c". */
void elf_cpu_names(char *text, size_t size);

#endif
