/*
 * Texts of DWARF.  libdw (0.188) says where one begins, and does not look for its end: a damaged file may have none.
 *
 * Callers: this room.  Context: host.
 */
#include <dwarf.h>
#include <gelf.h>
#include <string.h>

#include "impl.h"

/* The bytes from the text to the end of the data; 0: it is not in there. */
static size_t left_in(const Elf_Data *data, const char *text)
{
	const char *begin = data ? data->d_buf : NULL;

	return begin && text >= begin && text < begin + data->d_size ? data->d_size - (size_t)(text - begin) : 0;
}

/* The same of all sections of debug information in a file: those have been read, others not. */
static size_t left_in_file(Dwarf *dwarf, const char *text)
{
	Elf *elf = dwarf ? dwarf_getelf(dwarf) : NULL;
	Elf_Scn *section = NULL;
	size_t left = 0;

	while (elf && !left && (section = elf_nextscn(elf, section))) {
		GElf_Shdr header;

		if (!gelf_getshdr(section, &header) || header.sh_type != SHT_PROGBITS || header.sh_flags & SHF_ALLOC)
			continue;
		left = left_in(elf_getdata(section, NULL), text);
		if (!left)
			left = left_in(elf_rawdata(section, NULL), text);
	}
	return left;
}

const char *type_text(Dwarf_Attribute *attribute)
{
	const char *text = dwarf_formstring(attribute);
	Dwarf *dwarf;
	size_t left;

	if (!text)
		return NULL;
	dwarf = dwarf_cu_getdwarf(attribute->cu);
	left = left_in_file(dwarf, text);
	if (!left)
		left = left_in_file(dwarf_getalt(dwarf), text);
	return left && memchr(text, 0, left) ? text : NULL;
}

const char *type_name(Dwarf_Die *die)
{
	Dwarf_Attribute attribute;

	return dwarf_attr_integrate(die, DW_AT_name, &attribute) ? type_text(&attribute) : NULL;
}
