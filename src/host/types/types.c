/*
 * Finding a function in DWARF by its first instruction (types.h).
 *
 * All functions of all units are listed once, when the first is asked for; and which of the symbols others may call.
 * Context: host.
 */
#include <dwarf.h>
#include <errno.h>
#include <fcntl.h>
#include <gelf.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <host/elf/dwarf.h>
#include <host/elf/object.h>

#include "impl.h"

struct row {
	uint64_t address;
	Dwarf_Off die;
};

/* Addresses, in order once all are there. */
struct list {
	struct row *rows;
	size_t count, room;
};

/* A symbol that others may call; the name lies in the ELF file's memory. */
struct named {
	const char *name;
	uint64_t address;
};

struct types {
	struct object_dwarf source;
	const struct abi *abi;
	int fd; /* the object's file */
	struct rust_crates *crates;
	struct list functions;
	const char *split;   /* types_split() */
	struct list globals; /* functions' symbols that others may call */
	struct named *names; /* the same by their names, in order; NULL = nobody has asked */
	size_t name_count;
};

static int add(struct list *list, uint64_t address, Dwarf_Off die)
{
	if (list->count == list->room) {
		size_t room = list->room ? 2 * list->room : 256;
		struct row *rows = reallocarray(list->rows, room, sizeof(*rows));

		if (!rows)
			return -ENOMEM;
		list->rows = rows;
		list->room = room;
	}
	if (list->count == INT32_MAX)
		return -ENOMEM;
	list->rows[list->count++] = (struct row){address, die};
	return 0;
}

static int compare_rows(const void *a, const void *b)
{
	uint64_t left = ((const struct row *)a)->address, right = ((const struct row *)b)->address;

	return (left > right) - (left < right);
}

static int compare_names(const void *a, const void *b)
{
	return strcmp(((const struct named *)a)->name, ((const struct named *)b)->name);
}

static void sort(struct list *list)
{
	if (list->count)
		qsort(list->rows, list->count, sizeof(*list->rows), compare_rows);
}

static const struct row *find(const struct list *list, uint64_t address)
{
	const struct row key = {.address = address};

	return list->count ? bsearch(&key, list->rows, list->count, sizeof(key), compare_rows) : NULL;
}

/* The function's first instruction: of several ranges the first one has it. */
static bool entry_of(Dwarf_Die *die, uint64_t *address)
{
	Dwarf_Addr entry, end, base;

	if (dwarf_entrypc(die, &entry) && dwarf_ranges(die, 0, &base, &entry, &end) <= 0)
		return false;
	*address = entry;
	return entry != 0;
}

static int see_function(Dwarf_Die *die, void *ctx)
{
	struct types *types = ctx;
	uint64_t address;

	return entry_of(die, &address) ? add(&types->functions, address, dwarf_dieoffset(die)) : 0;
}

/* The unit's functions are in another file. */
static void note_split(struct types *types, Dwarf_Die *unit)
{
	Dwarf_Attribute attribute;

	if (!types->split &&
	    (dwarf_attr(unit, DW_AT_dwo_name, &attribute) || dwarf_attr(unit, DW_AT_GNU_dwo_name, &attribute)))
		types->split = type_text(&attribute);
}

static int list_functions(struct types *types)
{
	Dwarf_CU *unit = NULL;
	Dwarf_Die die;
	uint8_t kind;
	int ret = 0;

	while (!ret && !dwarf_get_units(types->source.dwarf, unit, &unit, NULL, &kind, &die, NULL))
		if (kind == DW_UT_compile || kind == DW_UT_partial)
			ret = functions_each(&die, see_function, types);
		else if (kind == DW_UT_skeleton)
			note_split(types, &die);
	sort(&types->functions);
	return ret;
}

static int list_symbols(struct types *types, Elf_Data *data, size_t size)
{
	int ret = 0;

	for (int i = 0; data && size && i < (int)(data->d_size / size) && !ret; i++) {
		GElf_Sym symbol;

		if (gelf_getsym(data, i, &symbol) && GELF_ST_TYPE(symbol.st_info) == STT_FUNC &&
		    GELF_ST_BIND(symbol.st_info) != STB_LOCAL && symbol.st_shndx != SHN_UNDEF)
			ret = add(&types->globals, symbol.st_value, 0);
	}
	return ret;
}

static int list_globals(struct types *types)
{
	Elf *elf = dwarf_getelf(types->source.dwarf);
	Elf_Scn *section = NULL;
	int ret = 0;

	while (!ret && (section = elf_nextscn(elf, section))) {
		GElf_Shdr header;

		if (gelf_getshdr(section, &header) && (header.sh_type == SHT_SYMTAB || header.sh_type == SHT_DYNSYM))
			ret = list_symbols(types, elf_getdata(section, NULL), (size_t)header.sh_entsize);
	}
	sort(&types->globals);
	return ret;
}

int types_open(struct types **out, const struct object *object, int fd)
{
	struct types *types = calloc(1, sizeof(*types));
	int ret;

	*out = NULL;
	if (!types)
		return -ENOMEM;
	types->fd = fcntl(fd, F_DUPFD_CLOEXEC, 0);
	types->abi = abi_find(object_machine(object));
	ret = types->abi ? object_dwarf_open(&types->source, object, fd) : -ENODATA;
	if (!ret)
		ret = list_functions(types);
	if (!ret)
		ret = list_globals(types);
	if (ret) {
		types_close(types);
		return ret;
	}
	*out = types;
	return 0;
}

/* The dynamic symbols' names; types->names stays NULL where there is no memory, or nothing to list. */
static void list_names(struct types *types)
{
	Elf *elf = dwarf_getelf(types->source.dwarf);
	Elf_Scn *section = NULL;
	GElf_Shdr header = {0};
	Elf_Data *data;
	GElf_Sym symbol;

	while ((section = elf_nextscn(elf, section)))
		if (gelf_getshdr(section, &header) && header.sh_type == SHT_DYNSYM)
			break;
	data = section ? elf_getdata(section, NULL) : NULL;
	if (data && header.sh_entsize)
		types->names = calloc(data->d_size / header.sh_entsize + 1, sizeof(*types->names));
	for (int i = 0; types->names && i < (int)(data->d_size / header.sh_entsize); i++) {
		const char *name = gelf_getsym(data, i, &symbol) && symbol.st_shndx != SHN_UNDEF
					   ? elf_strptr(elf, header.sh_link, symbol.st_name)
					   : NULL;

		if (name)
			types->names[types->name_count++] = (struct named){name, symbol.st_value};
	}
	if (types->names && types->name_count)
		qsort(types->names, types->name_count, sizeof(*types->names), compare_names);
}

int64_t types_find_symbol(struct types *types, const char *symbol)
{
	const struct named key = {.name = symbol}, *found;

	if (!types->names)
		list_names(types);
	found = types->names && types->name_count
			? bsearch(&key, types->names, types->name_count, sizeof(key), compare_names)
			: NULL;
	return found ? types_find(types, found->address) : -1;
}

uint64_t types_address(const struct types *types, uint32_t place)
{
	return types->functions.rows[place].address;
}

void types_close(struct types *types)
{
	if (!types)
		return;
	rust_crates_clear(types->crates);
	if (types->fd >= 0)
		close(types->fd);
	free(types->names);
	object_dwarf_close(&types->source);
	free(types->functions.rows);
	free(types->globals.rows);
	free(types);
}

const char *types_split(const struct types *types)
{
	return types->split;
}

uint32_t types_count(const struct types *types)
{
	return (uint32_t)types->functions.count;
}

int64_t types_find(const struct types *types, uint64_t address)
{
	const struct row *row = find(&types->functions, address);

	return row ? row - types->functions.rows : -1;
}

int types_read(struct type_function *out, struct types *types, uint32_t place, const char *symbol, uint64_t start,
	       uint64_t code)
{
	const struct row *row = &types->functions.rows[place];
	uint8_t bytes[PROLOGUE_CODE];
	struct function_about about = {
		.abi = types->abi,
		.address = row->address,
		.code = code,
		.symbol = symbol,
		.is_global = find(&types->globals, start),
		.bytes = bytes,
	};
	Dwarf_Die die;

	*out = (struct type_function){0};
	if (!dwarf_offdie(types->source.dwarf, row->die, &die))
		return -ENOENT;
	if (rust_is(&die)) {
		about.byte_count = code_read(types->fd, row->address, bytes, sizeof(bytes));
		about.is_plain = rust_is_plain(&types->crates, types->source.dwarf, &die);
	}
	return function_read(out, &die, &about);
}

int types_follow(struct type_path *out, const struct types *types, uint32_t place, const char *symbol, const char *name,
		 const char *path)
{
	const struct function_about about = {.abi = types->abi, .symbol = symbol};
	Dwarf_Die die;

	*out = (struct type_path){0};
	if (!dwarf_offdie(types->source.dwarf, types->functions.rows[place].die, &die))
		return -ENOENT;
	return function_follow(out, &die, &about, name, path);
}
