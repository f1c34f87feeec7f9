/*
 * The relocations of an object, as the analysis of stock functions reads them: addresses that the program will hold,
 * bytes of code that the loader changes, and pointers to functions that do more with their return address than return
 * to it.
 *
 * Caller: stock_view.c.  Context: host; all of it is untrusted.
 */
#include <string.h>

#include "stock_impl.h"

#ifndef SHT_RELR
#define SHT_RELR 19
#endif
#define WORD	   8u
#define RELR_WORDS 63u /* that one bit map of relative relocations tells of */

static bool keeps_return(const char *name)
{
	return site_name_keeps_return(name) || site_verdict_of_name(name) == SITE_RETURNS_TWICE;
}

/* Note a word that the loader changes, if it is code. */
static int note_changed(const struct object *object, struct object_view *view, uint64_t address)
{
	size_t size;

	if (!object_code_at(object, address, &size) && !object_code_at(object, address + WORD - 1, &size))
		return 0;
	return address_list_add(&view->relocated, address);
}

static int note_pointed(const struct object *object, struct object_view *view, uint64_t address)
{
	size_t size;

	return object_code_at(object, address, &size) ? address_list_add(&view->pointed, address) : 0;
}

/* Symbols and their names, as a section of relocations refers to them. */
struct names {
	Elf_Data *symbols;
	size_t strings; /* section index */
};

static int read_reloc(const struct object *object, struct object_view *view, const struct names *names,
		      const Elf64_Rela *rela)
{
	uint32_t index = ELF64_R_SYM(rela->r_info);
	const char *name = NULL;
	GElf_Sym symbol = {0};
	int error = note_changed(object, view, rela->r_offset);

	if (index && names->symbols && gelf_getsym(names->symbols, (int)index, &symbol))
		name = elf_strptr(object->elf, names->strings, symbol.st_name);
	if (!error && name && keeps_return(name))
		error = address_list_add(&view->keepers, rela->r_offset);
	if (!error)
		error = note_pointed(object, view, symbol.st_value + (uint64_t)rela->r_addend);
	return error;
}

static int read_relas(const struct object *object, struct object_view *view, Elf_Scn *section, const GElf_Shdr *header)
{
	Elf_Data *data = elf_getdata(section, NULL);
	Elf_Scn *symbols = elf_getscn(object->elf, header->sh_link);
	struct names names = {0};
	GElf_Shdr symbols_header;
	int error = 0;

	if (!data || !data->d_buf || data->d_type != ELF_T_RELA)
		return 0;
	if (symbols && gelf_getshdr(symbols, &symbols_header) && symbols_header.sh_type == SHT_DYNSYM) {
		names.symbols = elf_getdata(symbols, NULL);
		names.strings = symbols_header.sh_link;
	}
	for (size_t i = 0; i < data->d_size / sizeof(Elf64_Rela) && !error; i++)
		error = read_reloc(object, view, &names, (const Elf64_Rela *)data->d_buf + i);
	return error;
}

/* The number that the file has at an address; 0 = nothing is there. */
static uint64_t word_at(const struct object_view *view, uint64_t address)
{
	size_t low = 0, high = view->image.section_count;
	uint64_t word = 0;

	while (low < high) {
		size_t middle = low + (high - low) / 2;
		const struct stock_section *section = &view->sections[middle];
		uint64_t at = address - section->address;

		if (address < section->address) {
			high = middle;
		} else if (at >= section->size) {
			low = middle + 1;
		} else {
			if (section->size - at >= WORD)
				memcpy(&word, section->bytes + at, WORD);
			break;
		}
	}
	return word;
}

static int note_relative(const struct object *object, struct object_view *view, uint64_t address)
{
	int error = note_changed(object, view, address);

	return error ? error : note_pointed(object, view, word_at(view, address));
}

/* Relative relocations as bit maps: an even number is an address, an odd one tells which of the next words follow. */
static int read_relr(const struct object *object, struct object_view *view, const Elf_Data *data)
{
	uint64_t next = 0;
	int error = 0;

	for (size_t i = 0; i < data->d_size / WORD && !error; i++) {
		uint64_t word;

		memcpy(&word, (const uint8_t *)data->d_buf + i * WORD, WORD);
		if (!(word & 1)) {
			error = note_relative(object, view, word);
			next = word + WORD;
			continue;
		}
		for (unsigned bit = 0; bit < RELR_WORDS && !error; bit++)
			if (word >> (bit + 1) & 1)
				error = note_relative(object, view, next + (uint64_t)bit * WORD);
		next += (uint64_t)RELR_WORDS * WORD;
	}
	return error;
}

/*
 * XRay's runtime changes the sleds that its table names, whenever the program tells it to: a call of its own for the
 * no-ops, the first two bytes last.  An entry is 32 bytes (LLVM, "XRay Instrumentation"): the sled's address, the
 * function's, a byte for the kind.  From version 2 on addresses are relative to where they lie.
 */
static int read_sleds(const struct object *object, struct object_view *view, const GElf_Shdr *header,
		      const Elf_Data *data)
{
	enum { ENTRY = 32, KIND = 16, VERSION = 18, EVENT = 4 };
	const uint8_t *bytes = data->d_buf;
	int error = 0;

	for (size_t at = 0; at + ENTRY <= data->d_size && !error; at += ENTRY) {
		uint64_t sled;

		memcpy(&sled, bytes + at, sizeof(sled));
		if (bytes[at + VERSION] >= 2)
			sled += header->sh_addr + at;
		/* Words that cover the eleven bytes of a function's sled, and the twenty-two of an event's. */
		error = note_changed(object, view, sled);
		if (!error)
			error = note_changed(object, view, sled + 3);
		if (!error && bytes[at + KIND] >= EVENT)
			error = note_changed(object, view, sled + 11);
		if (!error && bytes[at + KIND] >= EVENT)
			error = note_changed(object, view, sled + 14);
	}
	return error;
}

/* Find XRay's table, which only the name tells. */
static int find_sleds(const struct object *object, struct object_view *view)
{
	Elf_Scn *section = NULL;
	GElf_Shdr header;
	size_t names;
	int error = 0;

	if (!(object->hints & OBJECT_HINT_XRAY) || elf_getshdrstrndx(object->elf, &names) < 0)
		return 0;
	while (!error && (section = elf_nextscn(object->elf, section))) {
		const char *name =
			gelf_getshdr(section, &header) ? elf_strptr(object->elf, names, header.sh_name) : NULL;
		Elf_Data *data = name && !strcmp(name, "xray_instr_map") && header.sh_type != SHT_NOBITS
					 ? elf_rawdata(section, NULL)
					 : NULL;

		if (data && data->d_buf)
			error = read_sleds(object, view, &header, data);
	}
	return error;
}

int object_view_relocs(const struct object *object, struct object_view *view)
{
	Elf_Scn *section = NULL;
	GElf_Shdr header;
	int error = find_sleds(object, view);

	while (!error && (section = elf_nextscn(object->elf, section))) {
		if (!gelf_getshdr(section, &header) || !(header.sh_flags & SHF_ALLOC))
			continue;
		if (header.sh_type == SHT_RELA) {
			error = read_relas(object, view, section, &header);
		} else if (header.sh_type == SHT_RELR) {
			Elf_Data *data = elf_rawdata(section, NULL);

			if (data && data->d_buf)
				error = read_relr(object, view, data);
		}
	}
	address_list_sort(&view->pointed);
	address_list_sort(&view->relocated);
	address_list_sort(&view->keepers);
	return error;
}
