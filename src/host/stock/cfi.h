/*
 * Call frame information: the entries of an .eh_frame section, their instructions, and the rows that these make.
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
	size_t cie;		/* offset of the CIE in the section */
	const uint8_t *initial; /* the CIE's instructions */
	size_t initial_size;
	const uint8_t *code; /* the FDE's instructions */
	size_t code_size;
	uint64_t code_align;
	int64_t data_align;
	uint8_t return_register;
	bool signal;	      /* augmentation S: a signal trampoline */
	bool key_b;	      /* augmentation B: AArch64's return address is signed with the second key */
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

/* One call frame instruction. */
struct cfi_instruction {
	uint8_t code;	/* DW_CFA_*; of the three that have an operand in the code: the upper two bits */
	uint8_t length; /* bytes before `block` */
	uint64_t reg;	/* DWARF number of the register that it is about, where it is about one */
	uint64_t value; /* its other number, not multiplied by the alignment; negative ones are extended to 64 bits */
	const uint8_t *block; /* its expression, NULL = it has none */
	uint64_t block_size;
};
/* The instruction's bytes, block and all; 0: it is unknown, or not all there.  Never more than size. */
size_t cfi_decode(struct cfi_instruction *in, const uint8_t *code, size_t size);
/* True if what follows the instruction is of a later place: *bytes is how many bytes later, code_align applied. */
bool cfi_advances(const struct cfi_instruction *in, uint64_t code_align, uint64_t *bytes);

/* Where the rules are at one instruction. */
struct cfi_row {
	uint8_t cfa_register; /* DWARF number; CFI_EXPRESSION: the CFA is an expression */
	int64_t cfa_offset;
	bool return_at_cfa;    /* the return address is at CFA - 8, as the CIE's usual rule says */
	bool return_moved;     /* it has a rule: it does not lie in the register that its column stands for */
	int64_t return_offset; /* from the CFA to the place where it lies; 0: that is not known by the CFA */
	bool return_undefined; /* there is no caller */
	bool saved; /* some register but the return address is kept elsewhere: it is no function's first row */
};
#define CFI_EXPRESSION 0xff

/* The row at `start + offset`.  False: an instruction is unknown. */
bool cfi_row_at(const struct cfi_entry *entry, uint64_t offset, struct cfi_row *row);

/* The rows of one entry, from its first on: for those who ask for many. */
#define CFI_STATES 16
struct cfi_state {
	struct cfi_row row;
	uint64_t kept[2]; /* registers that are kept elsewhere, one bit for each */
};
struct cfi_rows {
	const struct cfi_entry *entry;
	size_t at;	/* in the entry's instructions */
	uint64_t place; /* of the row, from the entry's start */
	bool bad;
	unsigned depth; /* of `states` */
	struct cfi_state now, initial, states[CFI_STATES];
};
void cfi_rows_begin(struct cfi_rows *rows, const struct cfi_entry *entry);
/* The row at `start + offset`, which may not be less than it was before.  False: an instruction is unknown. */
bool cfi_rows_to(struct cfi_rows *rows, uint64_t offset, struct cfi_row *row);

#endif
