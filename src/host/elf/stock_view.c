/*
 * What the analysis of stock functions reads of an object: its sections as they will be in memory, its unwind table,
 * symbols and relocations (host/stock/stock.h).
 *
 * Caller: object_open: later the file may be closed.  Context: host; all of it is untrusted.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "stock_impl.h"

/* The name of a section, "" = it has none. */
static const char *name_of(const struct object *object, const GElf_Shdr *header)
{
	size_t names;
	const char *name;

	if (elf_getshdrstrndx(object->elf, &names) < 0)
		return "";
	name = elf_strptr(object->elf, names, header->sh_name);
	return name ? name : "";
}

/* True if size bytes of this section are mapped where it says. */
static bool is_mapped(const struct object *object, const GElf_Shdr *header, uint64_t size)
{
	size_t count = 0;

	if (elf_getphdrnum(object->elf, &count) < 0)
		return false;
	for (size_t i = 0; i < count; i++) {
		GElf_Phdr segment;
		uint64_t at;

		if (!gelf_getphdr(object->elf, (int)i, &segment) || segment.p_type != PT_LOAD)
			continue;
		at = header->sh_addr - segment.p_vaddr;
		if (header->sh_addr >= segment.p_vaddr && header->sh_offset >= segment.p_offset &&
		    at < segment.p_filesz && size <= segment.p_filesz - at &&
		    header->sh_offset - segment.p_offset == at)
			return true;
	}
	return false;
}

static int compare_sections(const void *a, const void *b)
{
	const struct stock_section *left = a, *right = b;

	return (left->address > right->address) - (left->address < right->address);
}

/* Keep those that begin behind the end of the one before. */
static void drop_overlaps(struct object_view *view)
{
	struct stock_section *sections = view->sections;
	uint64_t end = 0;
	size_t kept = 0;

	qsort(sections, view->image.section_count, sizeof(*sections), compare_sections);
	for (size_t i = 0; i < view->image.section_count; i++) {
		if (sections[i].address < end)
			continue;
		end = sections[i].address + sections[i].size;
		sections[kept++] = sections[i];
	}
	view->image.section_count = kept;
}

/* Code as object_open() found it; all else that is mapped from the file is data. */
static int read_sections(const struct object *object, struct object_view *view)
{
	struct stock_image *image = &view->image;
	Elf_Scn *section = NULL;
	size_t count = 0;

	if (elf_getshdrnum(object->elf, &count) < 0)
		count = 0;
	view->sections = calloc(count + object->code_count + 1, sizeof(*view->sections));
	if (!view->sections)
		return -ENOMEM;
	for (size_t i = 0; i < object->code_count; i++)
		view->sections[image->section_count++] =
			(struct stock_section){object->codes[i].address, object->codes[i].size, object->codes[i].bytes,
					       true, object->codes[i].plt};
	for (size_t i = 0; i < count && (section = elf_nextscn(object->elf, section)); i++) {
		GElf_Shdr header;
		Elf_Data *data;

		if (!gelf_getshdr(section, &header) || header.sh_type == SHT_NOBITS || !(header.sh_flags & SHF_ALLOC) ||
		    header.sh_flags & SHF_EXECINSTR)
			continue;
		data = elf_rawdata(section, NULL);
		if (!data || !data->d_buf || !data->d_size || header.sh_addr + data->d_size < header.sh_addr ||
		    !is_mapped(object, &header, data->d_size))
			continue;
		if (!strcmp(name_of(object, &header), ".eh_frame"))
			image->frames = (struct cfi_section){data->d_buf, data->d_size, header.sh_addr};
		view->sections[image->section_count++] =
			(struct stock_section){header.sh_addr, data->d_size, data->d_buf, false, false};
	}
	drop_overlaps(view);
	image->sections = view->sections;
	return 0;
}

/* "f.cold", "f.cold.2": where gcc and clang put what is rarely run of f. */
static bool names_part(const char *name)
{
	const char *cold = strstr(name, ".cold");

	if (!cold)
		return false;
	cold += strlen(".cold");
	return !*cold || (*cold == '.' && cold[1] && !cold[1 + strspn(cold + 1, "0123456789")]);
}

/*
 * MoarVM (Raku) finds where its compiled code is by the return address of what that has called, and changes it.  PyPy's
 * greenlets copy parts of stacks away and back.
 */
static bool is_of_walked(const char *name)
{
	return !strcmp(name, "MVM_jit_code_enter") || !strcmp(name, "pypy_main_startup");
}

static int read_symbols(const struct object *object, struct object_view *view)
{
	view->symbols = calloc(object->symbol_count + 1, sizeof(*view->symbols));
	if (!view->symbols)
		return -ENOMEM;
	for (size_t i = 0; i < object->symbol_count; i++) {
		const struct object_symbol *symbol = &object->symbols[i];

		view->symbols[i] = (struct stock_symbol){
			.address = symbol->address,
			.size = symbol->size,
			.part = names_part(symbol->symbol),
			.leave = symbol->verdict != SITE_OK,
			.twice = symbol->verdict == SITE_RETURNS_TWICE || site_name_keeps_return(symbol->symbol),
		};
		view->own |= !strncmp(symbol->symbol, "calltap_agent_", 14);
		view->named |= !strcmp(symbol->symbol, "caml_start_program");
		view->walked |= is_of_walked(symbol->symbol);
	}
	view->image.symbols = view->symbols;
	view->image.symbol_count = object->symbol_count;
	return 0;
}

/*
 * Mono compiles libraries ahead of time to such objects: its runtime reads the instructions in front of a return
 * address, to find out what is called there for the first time.
 */
static bool is_of_mono(Elf_Scn *strings)
{
	static const char name[] = "\0mono_aot_file_info"; /* the one symbol that such an object exports */
	const Elf_Data *data = elf_getdata(strings, NULL);

	return data && data->d_buf && memmem(data->d_buf, data->d_size, name, sizeof(name)) != NULL;
}

/*
 * Find what speaks against the whole object.  True if the loader may change text.
 *
 * Go's code moves its stacks.  HotSpot (libjvm.so), and programs that GraalVM's native-image has made, take the word
 * below a Java frame for a return address into that frame's code, whatever function of their own it was handed to.
 */
static bool find_refusal(const struct object *object, struct object_view *view)
{
	Elf_Scn *section = NULL;
	GElf_Shdr header;
	bool textrel = false;

	while ((section = elf_nextscn(object->elf, section))) {
		const char *name = gelf_getshdr(section, &header) ? name_of(object, &header) : "";
		Elf_Data *data;
		GElf_Dyn entry;

		if (!strcmp(name, ".note.go.buildid") || !strcmp(name, ".gopclntab"))
			view->refusal = "it has Go's code, which moves its stacks";
		view->walked |= !strcmp(name, ".svm_heap") || (!strcmp(name, ".dynstr") && is_of_mono(section));
		if (strcmp(name, ".dynamic") != 0 || !(data = elf_getdata(section, NULL)))
			continue;
		for (int i = 0; gelf_getdyn(data, i, &entry) && entry.d_tag != DT_NULL; i++) {
			const char *soname = entry.d_tag == DT_SONAME
						     ? elf_strptr(object->elf, header.sh_link, entry.d_un.d_val)
						     : NULL;

			textrel |=
				entry.d_tag == DT_TEXTREL || (entry.d_tag == DT_FLAGS && entry.d_un.d_val & DF_TEXTREL);
			view->own |= soname && !strncmp(soname, "libcalltap", 10);
			view->image.loader |= soname && !strncmp(soname, "ld-", 3);
			view->walked |= soname && !strcmp(soname, "libjvm.so");
		}
	}
	return textrel;
}

/*
 * V8 finds the frames of scripts by their return addresses.  Its functions that meet one are known by their names
 * (verdicts.c); without a symbol table nothing tells them.
 */
static bool is_nameless_v8(const struct object *object)
{
	bool v8 = false;

	for (size_t i = 0; i < object->symbol_count; i++) {
		const char *symbol = object->symbols[i].symbol;

		if (!strncmp(symbol, "Builtins_", 9))
			return false;
		v8 |= !strncmp(symbol, "_ZN2v87Isolate", 14) || !strncmp(symbol, "_ZN2v88internal", 15);
	}
	return v8;
}

int object_view_make(struct object *object)
{
	struct object_view *view;
	bool textrel;
	int error;

	if (!stock_has_cpu(object->cpu->machine))
		return 0;
	object->view = view = calloc(1, sizeof(*view));
	if (!view)
		return -ENOMEM;
	view->image.machine = object->cpu->machine;
	view->image.lo = object->lo;
	view->image.hi = object->hi;
	view->image.fixed = object->type == ET_EXEC;
	textrel = find_refusal(object, view);
	if (is_nameless_v8(object))
		view->refusal = "it has V8 without a symbol table, and V8 looks for return addresses";
	error = read_sections(object, view);
	if (!error)
		error = read_symbols(object, view);
	if (!error)
		error = address_list_add(&view->pointed, object->entry);
	if (!error)
		error = object_view_relocs(object, view);
	/* Relocations that touch no code, but an unwind table in the same segment, say (RISC-V), do no harm. */
	if (textrel && view->relocated.count)
		view->refusal = "the loader changes its code";
	view->image.pointed = view->pointed.items;
	view->image.pointed_count = view->pointed.count;
	view->image.relocated = view->relocated.items;
	view->image.relocated_count = view->relocated.count;
	view->image.keepers = view->keepers.items;
	view->image.keeper_count = view->keepers.count;
	return error;
}

const struct stock_image *object_view_image(const struct object_view *view)
{
	return &view->image;
}

void object_view_free(struct object_view *view)
{
	if (!view)
		return;
	free(view->sections);
	free(view->symbols);
	free(view->pointed.items);
	free(view->relocated.items);
	free(view->keepers.items);
	free(view);
}
