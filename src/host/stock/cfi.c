/*
 * The entries of an .eh_frame section (cfi.h).  Context: host.
 */
#include <dwarf.h>

#include "cfi.h"
#include "cfi_bytes.h"

#define LENGTH_64	 0xffffffffu
#define AUGMENTATION_MAX 16u
#define FORMAT		 0x0fu /* of a pointer's encoding: how it is stored */
#define RELATION	 0x70u /* what it is relative to */

/* What a CIE says. */
struct cie {
	struct cfi_entry entry; /* its part of the entry */
	uint8_t code_encoding, lsda_encoding;
	bool has_data; /* augmentation data lie behind the FDE's range */
};

/* Where in the file's address space the next byte lies. */
static uint64_t address_of(const struct cfi_section *section, const struct cfi_bytes *in)
{
	return section->address + (uint64_t)(in->at - section->bytes);
}

static uint64_t stored_value(struct cfi_bytes *in, uint8_t encoding)
{
	switch (encoding & FORMAT) {
	case DW_EH_PE_absptr:
	case DW_EH_PE_udata8:
	case DW_EH_PE_sdata8:
		return cfi_number(in, 8);
	case DW_EH_PE_uleb128:
		return cfi_leb128(in, false);
	case DW_EH_PE_sleb128:
		return cfi_leb128(in, true);
	case DW_EH_PE_udata2:
		return cfi_number(in, 2);
	case DW_EH_PE_sdata2:
		return (uint64_t)(int16_t)cfi_number(in, 2);
	case DW_EH_PE_udata4:
		return cfi_number(in, 4);
	case DW_EH_PE_sdata4:
		return (uint64_t)(int32_t)cfi_number(in, 4);
	default:
		in->bad = true;
		return 0;
	}
}

/* A pointer; 0 stands for none, whatever it is relative to. */
static uint64_t pointer(const struct cfi_section *section, struct cfi_bytes *in, uint8_t encoding)
{
	uint64_t here = address_of(section, in), value;

	if (encoding == DW_EH_PE_omit)
		return 0;
	value = stored_value(in, encoding);
	if (!value || (encoding & RELATION) == DW_EH_PE_absptr)
		return value;
	if ((encoding & RELATION) != DW_EH_PE_pcrel)
		in->bad = true;
	return here + value;
}

/* The augmentation's letters, each with its data. */
static void read_augmentation(struct cie *cie, const struct cfi_section *section, struct cfi_bytes *in,
			      const uint8_t *letters)
{
	uint64_t size = cfi_leb128(in, false);
	const uint8_t *data = cfi_take(in, size);
	struct cfi_bytes from = {data, in->at, !data};

	for (; *letters && !from.bad; letters++) {
		switch (*letters) {
		case 'L':
			cie->lsda_encoding = (uint8_t)cfi_number(&from, 1);
			break;
		case 'P': {
			uint8_t encoding = (uint8_t)cfi_number(&from, 1);

			cie->entry.personality = pointer(section, &from, encoding);
			break;
		}
		case 'R':
			cie->code_encoding = (uint8_t)cfi_number(&from, 1);
			break;
		case 'S':
			cie->entry.signal = true;
			break;
		case 'B':
			cie->entry.key_b = true;
			break;
		case 'G': /* AArch64: the stack's memory is tagged */
			break;
		default:
			from.bad = true;
		}
	}
	in->bad = in->bad || from.bad;
}

/* The letters up to a zero byte; NULL: there is none, soon. */
static const uint8_t *read_letters(struct cfi_bytes *in)
{
	const uint8_t *letters = in->at;

	for (unsigned i = 0; i < AUGMENTATION_MAX; i++)
		if (!cfi_number(in, 1))
			return in->bad ? NULL : letters;
	return NULL;
}

/* Read a CIE's bytes behind its id. */
static bool read_cie(struct cie *cie, const struct cfi_section *section, struct cfi_bytes *in)
{
	uint64_t version = cfi_number(in, 1), reg;
	const uint8_t *letters = read_letters(in);

	*cie = (struct cie){.lsda_encoding = DW_EH_PE_omit};
	if (!letters || (version != 1 && version != 3 && version != 4))
		return false;
	if (version == 4 && cfi_number(in, 2) != 8) /* bytes of an address, 8, and of a segment, 0 */
		return false;
	cie->entry.code_align = cfi_leb128(in, false);
	cie->entry.data_align = (int64_t)cfi_leb128(in, true);
	reg = version == 1 ? cfi_number(in, 1) : cfi_leb128(in, false);
	cie->entry.return_register = (uint8_t)reg;
	cie->has_data = *letters == 'z';
	if (cie->has_data)
		read_augmentation(cie, section, in, letters + 1);
	else if (*letters)
		return false;
	cie->entry.initial = in->at;
	cie->entry.initial_size = cfi_left(in);
	return !in->bad && reg < CFI_EXPRESSION;
}

/* Take the next entry's bytes, behind its length; false: at the end, or the length is damaged. */
static bool next_bytes(const struct cfi_section *section, size_t at, struct cfi_bytes *in)
{
	uint64_t size;

	if (at > section->size)
		return false;
	*in = (struct cfi_bytes){section->bytes + at, section->bytes + section->size, false};
	size = cfi_number(in, 4);
	if (size == LENGTH_64)
		size = cfi_number(in, 8);
	if (in->bad || size > cfi_left(in))
		return false;
	in->end = in->at + size;
	return true;
}

/* The CIE that lies so many bytes before `from`. */
static bool find_cie(struct cie *cie, const struct cfi_section *section, const uint8_t *from, uint64_t distance)
{
	struct cfi_bytes in;
	size_t place = (size_t)(from - section->bytes);

	if (distance > place || !next_bytes(section, place - distance, &in) || cfi_number(&in, 4) != 0 || in.bad ||
	    !read_cie(cie, section, &in))
		return false;
	cie->entry.cie = place - distance;
	return true;
}

/* Read an entry; false: it is a CIE, or cannot be read. */
static bool read_entry(struct cfi_entry *entry, const struct cfi_section *section, struct cfi_bytes *in)
{
	const uint8_t *from = in->at;
	uint64_t distance = cfi_number(in, 4);
	struct cie cie;

	if (in->bad || !distance || !find_cie(&cie, section, from, distance) || cie.code_encoding & DW_EH_PE_indirect)
		return false;
	*entry = cie.entry;
	entry->start = pointer(section, in, cie.code_encoding);
	entry->size = stored_value(in, cie.code_encoding);
	if (cie.has_data) {
		uint64_t size = cfi_leb128(in, false);
		const uint8_t *data = cfi_take(in, size);
		struct cfi_bytes augmentation = {data, in->at, false};

		if (!data)
			return false;
		entry->lsda = pointer(section, &augmentation, cie.lsda_encoding);
		in->bad = augmentation.bad;
	}
	entry->code = in->at;
	entry->code_size = cfi_left(in);
	return !in->bad && entry->size && entry->start + entry->size > entry->start;
}

void cfi_begin(struct cfi_reader *reader, const struct cfi_section *section)
{
	*reader = (struct cfi_reader){.section = *section};
}

bool cfi_next(struct cfi_reader *reader, struct cfi_entry *entry)
{
	struct cfi_bytes in;

	/* A length of 0 ends the section by its definition; linkers leave some in its midst. */
	while (next_bytes(&reader->section, reader->at, &in)) {
		reader->at = (size_t)(in.end - reader->section.bytes);
		if (read_entry(entry, &reader->section, &in))
			return true;
	}
	return false;
}
