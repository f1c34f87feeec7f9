/*
 * What the reader of ELF files must know of a CPU: its relocation types and
 * what its compilers put at a function's entry.
 *
 * Context: host.  One constant per CPU; all other code here is the same for
 * every CPU.  Functions return lengths in bytes, 0 = the bytes are not that.
 */
#ifndef HOST_ELF_CPU_H
#define HOST_ELF_CPU_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct elf_cpu {
	uint16_t machine; /* EM_* */
	const char *name; /* for messages */

	uint32_t reloc_relative; /* base + addend */
	uint32_t reloc_absolute; /* symbol + addend */
	uint32_t reloc_glob_dat;
	uint32_t reloc_jump_slot;

	uint8_t jump_bytes;	  /* the jump that reaches a stub */
	uint8_t short_jump_bytes; /* the one that reaches a jump close by; 0 = none */

	size_t (*nop)(const uint8_t *code, size_t size);
	size_t (*landing_pad)(const uint8_t *code, size_t size);
	size_t (*call)(const uint8_t *code, size_t size, uint64_t address, uint64_t *target);
	size_t (*call_slot)(const uint8_t *code, size_t size, uint64_t address, uint64_t *slot);
	bool (*may_jump)(uint8_t first); /* quickly: can jump or jump_slot take a code that begins so? */
	size_t (*jump)(const uint8_t *code, size_t size, uint64_t address, uint64_t *target);
	size_t (*jump_slot)(const uint8_t *code, size_t size, uint64_t address, uint64_t *slot); /* also a PLT entry */
};

/* NULL: a CPU that cannot be traced. */
const struct elf_cpu *elf_cpu_find(uint16_t machine);

#endif
