/*
 * The two tables of sites as the process will see them after relocation, and the pointers through which code calls the
 * profiling hook __fentry__, and dlsym and its kin.  Other files of this folder read the relocations by
 * object_visit_relocs().
 *
 * In programs that are linked at a fixed address the tables hold addresses; in all others a RELATIVE relocation writes
 * each entry, and the file's contents are zero or in place, as the linker likes.  Caller: object_open.  Context: host;
 * all of it is untrusted.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "object_impl.h"

/* A section of addresses, as a copy to relocate. */
struct table {
	uint64_t address;
	uint64_t *entries;
	size_t count;
	struct address_list *list; /* the list that its entries go to */
};

struct tables {
	struct table *items;
	size_t count;
};

static int add_table(struct tables *tables, struct address_list *list, const GElf_Shdr *header, const Elf_Data *data)
{
	struct table *items = reallocarray(tables->items, tables->count + 1, sizeof(*items));
	struct table *table;

	if (!items)
		return -ENOMEM;
	tables->items = items;
	table = &items[tables->count];
	table->address = header->sh_addr;
	table->count = data->d_size / sizeof(*table->entries);
	table->list = list;
	table->entries = malloc(data->d_size + 1);
	if (!table->entries)
		return -ENOMEM;
	memcpy(table->entries, data->d_buf, table->count * sizeof(*table->entries));
	tables->count++;
	return 0;
}

static int find_tables(struct object *object, struct tables *tables)
{
	Elf_Scn *section = NULL;
	size_t names;

	if (elf_getshdrstrndx(object->elf, &names) < 0)
		return 0;
	while ((section = elf_nextscn(object->elf, section))) {
		struct address_list *list = NULL;
		GElf_Shdr header;
		Elf_Data *data;
		const char *name;
		int error;

		if (!gelf_getshdr(section, &header) || !(name = elf_strptr(object->elf, names, header.sh_name)))
			continue;
		if (!strcmp(name, "__patchable_function_entries"))
			list = &object->patchable;
		else if (!strcmp(name, "__mcount_loc"))
			list = &object->mcount_loc;
		else if (!strcmp(name, "xray_instr_map"))
			object->hints |= OBJECT_HINT_XRAY;
		if (!list || !(header.sh_flags & SHF_ALLOC) || header.sh_type == SHT_NOBITS)
			continue;
		data = elf_rawdata(section, NULL);
		if (!data || !data->d_buf)
			continue;
		error = add_table(tables, list, &header, data);
		if (error)
			return error;
	}
	return 0;
}

static void relocate_entry(struct tables *tables, uint64_t address, uint64_t value)
{
	for (size_t i = 0; i < tables->count; i++) {
		struct table *table = &tables->items[i];
		uint64_t index = (address - table->address) / sizeof(*table->entries);

		if (address >= table->address && index < table->count && !((address - table->address) % 8)) {
			table->entries[index] = value;
			return;
		}
	}
}

/* The symbol table that a relocation section refers to. */
struct names {
	Elf_Data *symbols;
	size_t strings; /* section index */
};

static bool get_symbol(const struct object *object, const struct names *names, uint32_t index, GElf_Sym *symbol,
		       const char **name)
{
	if (!index || !names->symbols || !gelf_getsym(names->symbols, (int)index, symbol))
		return false;
	*name = elf_strptr(object->elf, names->strings, symbol->st_name);
	return *name != NULL;
}

static int visit_section(struct object *object, Elf_Scn *section, const GElf_Shdr *header, object_reloc_visitor *visit,
			 void *ctx)
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
	for (size_t i = 0; i < data->d_size / sizeof(Elf64_Rela) && !error; i++) {
		struct object_reloc reloc = {.rela = (const Elf64_Rela *)data->d_buf + i};

		reloc.type = ELF64_R_TYPE(reloc.rela->r_info);
		if (!get_symbol(object, &names, ELF64_R_SYM(reloc.rela->r_info), &reloc.symbol, &reloc.name))
			reloc.name = NULL;
		error = visit(object, &reloc, ctx);
	}
	return error;
}

int object_visit_relocs(struct object *object, object_reloc_visitor *visit, void *ctx)
{
	Elf_Scn *section = NULL;
	GElf_Shdr header;
	int error = 0;

	while (!error && (section = elf_nextscn(object->elf, section))) {
		if (gelf_getshdr(section, &header) && header.sh_type == SHT_RELA && header.sh_flags & SHF_ALLOC)
			error = visit_section(object, section, &header, visit, ctx);
	}
	return error;
}

static int apply_reloc(struct object *object, const struct object_reloc *reloc, void *ctx)
{
	const struct elf_cpu *cpu = object->cpu;
	const Elf64_Rela *rela = reloc->rela;
	struct tables *tables = ctx;

	if (reloc->type == cpu->reloc_relative) {
		relocate_entry(tables, rela->r_offset, (uint64_t)rela->r_addend);
		return 0;
	}
	if (reloc->type != cpu->reloc_glob_dat && reloc->type != cpu->reloc_jump_slot &&
	    reloc->type != cpu->reloc_absolute)
		return 0;
	if (!reloc->name)
		return 0;
	if (!strcmp(reloc->name, "__fentry__"))
		return address_list_add(&object->fentry.slots, rela->r_offset);
	if (reloc->symbol.st_shndx == SHN_UNDEF && site_name_keeps_return(reloc->name))
		return address_list_add(&object->finders.slots, rela->r_offset);
	if (reloc->type == cpu->reloc_absolute && reloc->symbol.st_shndx != SHN_UNDEF)
		relocate_entry(tables, rela->r_offset, reloc->symbol.st_value + (uint64_t)rela->r_addend);
	return 0;
}

/* Collect the entries.  Those of functions that the linker threw away are 0 or point nowhere. */
static int collect_entries(struct object *object, const struct tables *tables)
{
	size_t size;
	int error = 0;

	for (size_t i = 0; i < tables->count; i++) {
		const struct table *table = &tables->items[i];

		for (size_t j = 0; j < table->count && !error; j++) {
			if (table->entries[j] && object_code_at(object, table->entries[j], &size))
				error = address_list_add(table->list, table->entries[j]);
		}
	}
	address_list_sort(&object->patchable);
	address_list_sort(&object->mcount_loc);
	address_list_sort(&object->fentry.slots);
	address_list_sort(&object->finders.slots);
	return error;
}

bool object_reaches(const struct object *object, uint64_t target, const struct object_reach *reach)
{
	size_t size;
	const uint8_t *code;
	uint64_t slot;

	if (address_list_has(&reach->targets, target))
		return true;
	code = object_code_at(object, target, &size);
	return code && object->cpu->jump_slot(code, size, target, &slot) && address_list_has(&reach->slots, slot);
}

int object_read_relocs(struct object *object)
{
	struct tables tables = {0};
	int error = find_tables(object, &tables);

	if (!error)
		error = object_visit_relocs(object, apply_reloc, &tables);
	if (!error)
		error = collect_entries(object, &tables);
	for (size_t i = 0; i < tables.count; i++)
		free(tables.items[i].entries);
	free(tables.items);
	return error;
}
