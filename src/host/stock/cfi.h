/*
 * Call frame information: the entries of an .eh_frame section, and the rows at a function's start.
 *
 * Pure: bytes in, values out; nothing is allocated.  The section is untrusted.  Callers: the analysis (which functions
 * there are, and which of them touch their return address) and the blocks' unwind tables.  Context: host.
 * Sources: DWARF 5 6.4, LSB 5.0 "Exception Frames".
 */
#ifndef HOST_STOCK_CFI_H
#define HOST_STOCK_CFI_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* An .eh_frame section as it is in the file. */
struct cfi_section {
	const uint8_t *bytes;
	size_t size;
	uint64_t address; /* ELF address of its first byte */
};

/* A function's entry (FDE) with what it has from its CIE. */
struct cfi_entry {
	uint64_t start, size;	/* of the code, ELF addresses */
	const uint8_t *initial; /* the CIE's instructions */
	size_t initial_size;
	const uint8_t *code; /* the FDE's instructions */
	size_t code_size;
	uint64_t code_align;
	int64_t data_align;
	uint8_t return_register;
	bool signal;	      /* augmentation S: a signal trampoline */
	uint64_t lsda;	      /* ELF address of its exception table, 0 = none */
	uint64_t personality; /* ELF address of the routine, or of the word that leads to it; 0 = none */
};

/* Reads one entry after the other. */
struct cfi_reader {
	struct cfi_section section;
	size_t at;
};
void cfi_begin(struct cfi_reader *reader, const struct cfi_section *section);
/* False at the end.  Entries that cannot be read are passed over; a damaged length ends the reading. */
bool cfi_next(struct cfi_reader *reader, struct cfi_entry *entry);

/* Where the rules are at one instruction. */
struct cfi_row {
	uint8_t cfa_register; /* DWARF number; CFI_EXPRESSION: the CFA is an expression */
	int64_t cfa_offset;
	bool return_at_cfa;    /* the return address is at CFA - 8, as the CIE's usual rule says */
	bool return_undefined; /* there is no caller */
	bool saved;	       /* some register but the return address has a rule: it is no function's first row */
};
#define CFI_EXPRESSION 0xff

/* The row at `start + offset`.  False: an instruction is unknown. */
bool cfi_row_at(const struct cfi_entry *entry, uint64_t offset, struct cfi_row *row);

#endif
