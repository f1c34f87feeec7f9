/*
 * Recognisers of a few instructions that compilers and linkers put at known places, for each CPU under its own names
 * (src/arch/<cpu>/isa/nops.h): no-ops and the landing pad at a function's entry, calls of a profiling hook and the PLT
 * entry behind such a call, and the jumps that may end a function.
 *
 * Pure functions on bytes, built on every host.  Callers: the host's reader of ELF files.  Each returns the length in
 * bytes of what its name says, which may be a sequence of instructions; 0 when the bytes (never read past size) are
 * something else.
 */
#ifndef ARCH_GENERIC_ISA_RECOGNISE_H
#define ARCH_GENERIC_ISA_RECOGNISE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef size_t isa_recognise(const uint8_t *code, size_t size);

/* The code lies at address; *target is where it leads to, or the address of the pointer that it goes by. */
typedef size_t isa_recognise_target(const uint8_t *code, size_t size, uint64_t address, uint64_t *target);

/* True if the code does what the function's name says. */
typedef bool isa_is_such(const uint8_t *code, size_t size);

/*
 * Look for code that does what the function's name says, from an offset on, wherever an instruction begins; the code
 * lies at address.  Returns the offset behind it, and *target is what it is about; 0: there is none.
 */
typedef size_t isa_find_target(const uint8_t *code, size_t size, size_t from, uint64_t address, uint64_t *target);

/* What a PLT entry consists of. */
struct isa_plt_entry {
	uint8_t head;	/* offset of the first instruction behind a landing pad */
	uint8_t length; /* bytes of the whole instructions there that make room for a jump */
	uint64_t slot;	/* address of the word that the entry jumps by */
};
/* True if the code at address is a PLT entry.  The head of a table, and what only binds a function, is none. */
typedef bool isa_recognise_plt(struct isa_plt_entry *entry, const uint8_t *code, size_t size, uint64_t address);

/* True if a jump of the CPU's two functions for jumps can begin with this byte. */
typedef bool isa_may_begin(uint8_t first);

#endif
