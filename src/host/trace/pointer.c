/*
 * Names for addresses in values: of the function, or of the variable, that an address points to.
 *
 * Functions are those of the trace; where it has none there, and the object's file lies where it lay when the trace was
 * made and has the same build id, that file's symbols are asked, once for each object.
 *
 * Callers: event.c.  Context: host.  Both the trace and the file are untrusted.
 */
#include <elfutils/libdwelf.h>
#include <errno.h>
#include <gelf.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <host/files.h>

#include "reader.h"

#define SYMBOLS_MAX (1u << 20) /* of a table; what is behind is not looked at */

struct symbol {
	uint64_t address, size;
	const char *name; /* in the file's memory */
	char *brief;	  /* demangled; NULL = not asked yet, or as `name` */
	bool is_data, is_local, is_asked;
};

/* Symbols of an object, by address; one that another one at its address is preferred to is behind that. */
struct symbols {
	bool asked;
	int fd;
	Elf *elf; /* NULL: there are none */
	struct symbol *list;
	size_t count;
};

struct pointers {
	struct symbols *objects; /* by index */
	uint32_t count;
};

int pointers_create(struct pointers **out)
{
	*out = calloc(1, sizeof(**out));
	return *out ? 0 : -ENOMEM;
}

void pointers_destroy(struct pointers *pointers)
{
	for (uint32_t i = 0; pointers && i < pointers->count; i++) {
		struct symbols *symbols = &pointers->objects[i];

		for (size_t k = 0; k < symbols->count; k++)
			free(symbols->list[k].brief);
		free(symbols->list);
		if (symbols->elf)
			elf_end(symbols->elf);
		if (symbols->elf)
			close(symbols->fd);
	}
	if (pointers)
		free(pointers->objects);
	free(pointers);
}

static size_t underscores(const char *name)
{
	return strspn(name, "_");
}

static int compare(const void *left, const void *right)
{
	const struct symbol *a = left, *b = right;

	if (a->address != b->address)
		return a->address < b->address ? -1 : 1;
	/* One address may have several names: a global one comes first, and one with fewer underscores. */
	if (a->is_local != b->is_local)
		return a->is_local ? 1 : -1;
	if (underscores(a->name) != underscores(b->name))
		return underscores(a->name) < underscores(b->name) ? -1 : 1;
	/* "free" before "cfree", which nothing new is linked with. */
	if (strlen(a->name) != strlen(b->name))
		return strlen(a->name) < strlen(b->name) ? -1 : 1;
	return strcmp(a->name, b->name);
}

static bool is_wanted(const GElf_Sym *symbol)
{
	int type = GELF_ST_TYPE(symbol->st_info);

	return (type == STT_FUNC || type == STT_OBJECT) && symbol->st_shndx != SHN_UNDEF && symbol->st_value;
}

static void take_table(struct symbols *symbols, Elf_Scn *section, const GElf_Shdr *header)
{
	Elf_Data *data = elf_getdata(section, NULL);
	size_t count = data && header->sh_entsize ? data->d_size / header->sh_entsize : 0;
	struct symbol *list;

	count = count < SYMBOLS_MAX ? count : SYMBOLS_MAX;
	list = reallocarray(symbols->list, symbols->count + count + 1, sizeof(*list));
	if (!list)
		return;
	symbols->list = list;
	for (size_t i = 0; i < count; i++) {
		GElf_Sym symbol;
		const char *name = gelf_getsym(data, (int)i, &symbol) && is_wanted(&symbol)
					   ? elf_strptr(symbols->elf, header->sh_link, symbol.st_name)
					   : NULL;

		if (name && name[0])
			list[symbols->count++] = (struct symbol){
				.address = symbol.st_value,
				.size = symbol.st_size,
				.name = name,
				.is_data = GELF_ST_TYPE(symbol.st_info) == STT_OBJECT,
				.is_local = GELF_ST_BIND(symbol.st_info) == STB_LOCAL,
			};
	}
}

static bool is_same(const struct trace_object *object, Elf *elf)
{
	const void *id;
	ssize_t size = dwelf_elf_gnu_build_id(elf, &id);

	return object->build_id_size && size == (ssize_t)object->build_id_size &&
	       !memcmp(id, object->build_id, (size_t)size);
}

/* False: it is no file, or another one. */
static bool open_file(struct symbols *symbols, const struct trace_object *object)
{
	symbols->fd = files_open(object->path);
	if (symbols->fd < 0)
		return false;
	if (elf_version(EV_CURRENT) != EV_NONE)
		symbols->elf = elf_begin(symbols->fd, ELF_C_READ, NULL);
	if (symbols->elf && is_same(object, symbols->elf))
		return true;
	if (symbols->elf)
		elf_end(symbols->elf);
	symbols->elf = NULL;
	close(symbols->fd);
	return false;
}

static void read_symbols(struct symbols *symbols, const struct trace_object *object)
{
	Elf_Scn *section = NULL;

	symbols->asked = true;
	if (!object->build_id_size || !open_file(symbols, object))
		return;
	while ((section = elf_nextscn(symbols->elf, section))) {
		GElf_Shdr header;

		if (gelf_getshdr(section, &header) && (header.sh_type == SHT_SYMTAB || header.sh_type == SHT_DYNSYM))
			take_table(symbols, section, &header);
	}
	if (symbols->count)
		qsort(symbols->list, symbols->count, sizeof(*symbols->list), compare);
}

static const struct symbols *symbols_of(const struct trace *trace, uint32_t index)
{
	struct pointers *pointers = trace->pointers;
	const struct trace_object *object = trace_object(trace, index);

	if (!object)
		return NULL;
	if (index >= pointers->count) {
		struct symbols *objects = reallocarray(pointers->objects, index + 1, sizeof(*objects));

		if (!objects)
			return NULL;
		memset(objects + pointers->count, 0, (index + 1 - pointers->count) * sizeof(*objects));
		pointers->objects = objects;
		pointers->count = index + 1;
	}
	if (!pointers->objects[index].asked)
		read_symbols(&pointers->objects[index], object);
	return &pointers->objects[index];
}

/* The symbol that has the address; NULL: none has. */
static struct symbol *find_symbol(const struct symbols *symbols, uint64_t address)
{
	size_t lo = 0, hi = symbols->count;
	struct symbol *found;

	while (lo < hi) { /* to the first symbol behind the address */
		size_t middle = lo + (hi - lo) / 2;

		if (symbols->list[middle].address <= address)
			lo = middle + 1;
		else
			hi = middle;
	}
	if (!lo)
		return NULL;
	found = &symbols->list[lo - 1];
	while (found > symbols->list && found[-1].address == found->address)
		found--;
	return address - found->address < (found->size ? found->size : 1) ? found : NULL;
}

static void write_text(char *text, size_t size, const char *front, const char *name, uint64_t offset)
{
	if (offset)
		snprintf(text, size, "%s%s+0x%" PRIx64, front, name, offset);
	else
		snprintf(text, size, "%s%s", front, name);
}

bool trace_name_address(const struct trace *trace, uint32_t process, uint64_t address, uint64_t ticks, char *text,
			size_t size)
{
	const struct trace_function *function;
	const struct symbols *symbols;
	struct symbol *symbol;
	uint64_t offset;
	uint32_t id, object = address_in_object(trace, process, address, ticks, &offset, &id);

	if (object == TRACE_NONE)
		return false;
	function = trace_function(trace, id);
	if (function) {
		write_text(text, size, "", trace_function_brief(trace, id), offset - function->address);
		return true;
	}
	symbols = symbols_of(trace, object);
	symbol = symbols ? find_symbol(symbols, offset) : NULL;
	if (symbol) {
		if (!symbol->is_asked)
			symbol->brief = demangle_brief(symbol->name);
		symbol->is_asked = true;
		write_text(text, size, symbol->is_data ? "&" : "", symbol->brief ? symbol->brief : symbol->name,
			   offset - symbol->address);
	}
	return symbol != NULL;
}

bool pointer_describe(const struct trace *trace, const struct trace_event *event, uint64_t address, char *text,
		      size_t size)
{
	const struct trace_thread *thread = trace_thread(trace, event->thread);

	return thread && trace_name_address(trace, thread->process, address, event->ticks, text, size);
}
