/*
 * Where an object's names come from (symbol_tables.h): its own .symtab; that of its debug file (debug_file.h), of which
 * those in debuginfod's cache come last; between them .gnu_debugdata, which has what the dynamic table has not; the
 * dynamic table alone.  Context: host.
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "debug_file.h"
#include "symbol_tables.h"

/* The first section of the type, NULL = there is none. */
static Elf_Scn *find_type(Elf *elf, uint32_t type, GElf_Shdr *header)
{
	Elf_Scn *section = NULL;

	while ((section = elf_nextscn(elf, section)))
		if (gelf_getshdr(section, header) && header->sh_type == type)
			break;
	return section;
}

static bool find_table(Elf *elf, uint32_t type, struct symbol_table *table)
{
	GElf_Shdr header;
	Elf_Scn *section = find_type(elf, type, &header);
	Elf_Data *symbols, *strings;

	if (!section)
		return false;
	symbols = elf_getdata(section, NULL);
	strings = elf_getdata(elf_getscn(elf, header.sh_link), NULL);
	if (!symbols || !symbols->d_buf || symbols->d_type != ELF_T_SYM || !strings || !strings->d_buf ||
	    !strings->d_size || ((const char *)strings->d_buf)[strings->d_size - 1] != '\0')
		return false;
	*table = (struct symbol_table){.symbols = symbols->d_buf};
	table->count = symbols->d_size / sizeof(*table->symbols);
	table->strings = strings->d_buf;
	table->strings_size = strings->d_size;
	return true;
}

/* The versions of dynamic symbols.  Source: LSB 5.0, "Symbol Versioning". */
static void find_versions(Elf *elf, struct symbol_table *table)
{
	GElf_Shdr header;
	Elf_Data *data = elf_getdata(find_type(elf, SHT_GNU_versym, &header), NULL); /* of NULL it is NULL */

	if (data && data->d_buf && data->d_size / sizeof(*table->versions) >= table->count)
		table->versions = data->d_buf;
}

static bool find_dynamic_table(Elf *elf, struct symbol_table *table)
{
	if (!find_table(elf, SHT_DYNSYM, table))
		return false;
	find_versions(elf, table);
	return true;
}

/* Keep the file as the object's second one, if it is for the object's CPU and has symbols of functions. */
static bool take(struct object *object, Elf *elf, struct symbol_table *table)
{
	GElf_Ehdr header;

	if (elf && gelf_getehdr(elf, &header) && header.e_machine == object->cpu->machine &&
	    header.e_ident[EI_CLASS] == ELFCLASS64 && header.e_ident[EI_DATA] == ELFDATA2LSB &&
	    find_table(elf, SHT_SYMTAB, table)) {
		object->debug = elf;
		return true;
	}
	elf_end(elf);
	return false;
}

/* Only the symbol table and its strings are read; they stay in memory when the file is closed. */
static bool find_debug_table(struct object *object, enum debug_place place, struct symbol_table *table)
{
	const struct debug_owner owner = {object->elf, object->path, object->build_id, object->build_id_size};
	int fd = debug_file_open(&owner, place);
	bool found;

	if (fd < 0)
		return false;
	found = take(object, elf_begin(fd, ELF_C_READ, NULL), table);
	close(fd);
	return found;
}

static Elf_Data *find_section(Elf *elf, const char *wanted)
{
	Elf_Scn *section = NULL;
	size_t names;

	if (elf_getshdrstrndx(elf, &names) < 0)
		return NULL;
	while ((section = elf_nextscn(elf, section))) {
		GElf_Shdr header;
		const char *name = gelf_getshdr(section, &header) ? elf_strptr(elf, names, header.sh_name) : NULL;

		if (name && header.sh_type == SHT_PROGBITS && !strcmp(name, wanted))
			return elf_rawdata(section, NULL);
	}
	return NULL;
}

static bool find_mini_table(struct object *object, struct symbol_table *table)
{
	Elf_Data *packed = find_section(object->elf, ".gnu_debugdata");
	size_t size;

	if (!packed || !packed->d_buf)
		return false;
	object->debug_bytes = mini_debug_unpack(&size, packed->d_buf, packed->d_size);
	return object->debug_bytes && take(object, elf_memory(object->debug_bytes, size), table);
}

size_t object_find_tables(struct object *object, struct symbol_table tables[SYMBOL_TABLES_MAX])
{
	if (find_table(object->elf, SHT_SYMTAB, &tables[0])) {
		object->names = OBJECT_NAMES_OWN;
		return 1;
	}
	if (find_debug_table(object, DEBUG_BUILD_ID, &tables[0]) || find_debug_table(object, DEBUG_LINK, &tables[0])) {
		object->names = OBJECT_NAMES_DEBUG_FILE;
		return 1;
	}
	if (find_mini_table(object, &tables[0])) {
		object->names = OBJECT_NAMES_PACKED;
		return find_dynamic_table(object->elf, &tables[1]) ? 2 : 1;
	}
	if (find_debug_table(object, DEBUG_FETCHED, &tables[0])) {
		object->names = OBJECT_NAMES_FETCHED;
		return 1;
	}
	object->names = OBJECT_NAMES_DYNAMIC;
	return find_dynamic_table(object->elf, &tables[0]);
}
