/*
 * An object's pointers to functions of others, found as the loader finds them:
 * by program headers and the dynamic section, as section headers may be gone.
 *
 * Three steps: the tables' places (find_tables), which symbols have one of the
 * names (mark_symbols), and the relocations against those (collect).  Caller:
 * the session's rooms.  Context: host; all of the file is untrusted, so every
 * place and size is looked up through libelf, which knows where the file ends.
 */
#include <elf.h>
#include <errno.h>
#include <gelf.h>
#include <libelf.h>
#include <stdlib.h>
#include <string.h>

#include <calltap/abi/control.h>

#include "cpu.h"
#include "imports.h"

/* A table of the dynamic section: first its address, then its contents. */
struct dynamic_table {
	uint64_t address, size;
	Elf_Data *data; /* NULL: no such table, or it is damaged */
};

struct imports {
	Elf *elf;
	const struct elf_cpu *cpu;
	const char *const *names;
	size_t name_count;
	struct dynamic_table relocs[2]; /* relocations of data, and of the PLT */
	struct dynamic_table symbols, strings;
	uint8_t *marks; /* per symbol: index of its name + 1, 0 = none of the names */
	size_t mark_count;
	struct import_pointer *found;
	size_t count, room;
};

const char *const *imports_names(void)
{
	static const char *const names[CALLTAP_POINTERS_TO] = {
		[CALLTAP_POINTER_DL_FIND_OBJECT] = "_dl_find_object",
		[CALLTAP_POINTER_DL_ITERATE_PHDR] = "dl_iterate_phdr",
		[CALLTAP_POINTER_BACKTRACE] = "backtrace",
		[CALLTAP_POINTER_PTHREAD_SETNAME_NP] = "pthread_setname_np",
		[CALLTAP_POINTER_PRCTL] = "prctl",
		[CALLTAP_POINTER_SYSCALL] = "syscall",
		[CALLTAP_POINTER_UNSHARE] = "unshare",
		[CALLTAP_POINTER_SETNS] = "setns",
		[CALLTAP_POINTER_SIGALTSTACK] = "sigaltstack",
		[CALLTAP_POINTER_LONGJMP] = "longjmp",
		[CALLTAP_POINTER__LONGJMP] = "_longjmp",
		[CALLTAP_POINTER_SIGLONGJMP] = "siglongjmp",
		[CALLTAP_POINTER___LONGJMP_CHK] = "__longjmp_chk",
		[CALLTAP_POINTER_MAKECONTEXT] = "makecontext",
		[CALLTAP_POINTER_SWAPCONTEXT] = "swapcontext",
		[CALLTAP_POINTER_MARK] = "calltap_agent_mark",
		[CALLTAP_POINTER_MCOUNT] = "mcount",
		[CALLTAP_POINTER__MCOUNT] = "_mcount",
		[CALLTAP_POINTER_UNWIND_GETCFA] = "_Unwind_GetCFA",
		[CALLTAP_POINTER_UNWIND_BACKTRACE] = "_Unwind_Backtrace",
	};

	return names;
}

/* The segment that has size bytes at address in memory; with_file: and in the file. */
static bool find_segment(Elf *elf, uint64_t address, uint64_t size, bool with_file, GElf_Phdr *segment)
{
	size_t count = 0;

	if (elf_getphdrnum(elf, &count) < 0)
		return false;
	for (size_t i = 0; i < count; i++) {
		uint64_t extent, at;

		if (!gelf_getphdr(elf, (int)i, segment) || segment->p_type != PT_LOAD)
			continue;
		extent = with_file ? segment->p_filesz : segment->p_memsz;
		at = address - segment->p_vaddr;
		if (address >= segment->p_vaddr && at <= extent && size <= extent - at)
			return true;
	}
	return false;
}

/* size bytes of the file at an address, as items of a type; an incomplete item at the end is left out. */
static Elf_Data *read_at(Elf *elf, uint64_t address, uint64_t size, Elf_Type type)
{
	size_t item = gelf_fsize(elf, type, 1, EV_CURRENT);
	GElf_Phdr segment;
	uint64_t at;

	size -= size % item;
	if (!size || !find_segment(elf, address, size, true, &segment))
		return NULL;
	at = segment.p_offset + (address - segment.p_vaddr);
	if (at < segment.p_offset || at > INT64_MAX)
		return NULL;
	return elf_getdata_rawchunk(elf, (int64_t)at, size, type);
}

static void note_entry(struct imports *imports, const GElf_Dyn *entry)
{
	switch (entry->d_tag) {
	case DT_SYMTAB:
		imports->symbols.address = entry->d_un.d_ptr;
		break;
	case DT_STRTAB:
		imports->strings.address = entry->d_un.d_ptr;
		break;
	case DT_STRSZ:
		imports->strings.size = entry->d_un.d_val;
		break;
	case DT_RELA:
		imports->relocs[0].address = entry->d_un.d_ptr;
		break;
	case DT_RELASZ:
		imports->relocs[0].size = entry->d_un.d_val;
		break;
	case DT_JMPREL:
		imports->relocs[1].address = entry->d_un.d_ptr;
		break;
	case DT_PLTRELSZ:
		imports->relocs[1].size = entry->d_un.d_val;
		break;
	default:
		break;
	}
}

static void read_table(struct imports *imports, struct dynamic_table *table, Elf_Type type)
{
	table->data = read_at(imports->elf, table->address, table->size, type);
	if (table->data && !table->data->d_buf)
		table->data = NULL;
}

/* How many symbols there are: only the highest number that a relocation uses can tell. */
static uint64_t count_symbols(const struct imports *imports)
{
	uint64_t highest = 0;

	for (size_t i = 0; i < 2; i++) {
		const Elf_Data *data = imports->relocs[i].data;
		const Elf64_Rela *rela = data ? data->d_buf : NULL;

		for (size_t j = 0; rela && j < data->d_size / sizeof(*rela); j++)
			if (ELF64_R_SYM(rela[j].r_info) > highest)
				highest = ELF64_R_SYM(rela[j].r_info);
	}
	return highest + 1;
}

/* Find all tables.  False: there is nothing to look for. */
static bool find_tables(struct imports *imports)
{
	Elf_Data *dynamic = NULL;
	size_t count = 0;

	if (elf_getphdrnum(imports->elf, &count) < 0)
		return false;
	for (size_t i = 0; i < count && !dynamic; i++) {
		GElf_Phdr segment;

		if (gelf_getphdr(imports->elf, (int)i, &segment) && segment.p_type == PT_DYNAMIC)
			dynamic = read_at(imports->elf, segment.p_vaddr, segment.p_filesz, ELF_T_DYN);
	}
	for (size_t i = 0; dynamic && i < dynamic->d_size / sizeof(Elf64_Dyn); i++) {
		GElf_Dyn entry;

		if (!gelf_getdyn(dynamic, (int)i, &entry) || entry.d_tag == DT_NULL)
			break;
		note_entry(imports, &entry);
	}
	read_table(imports, &imports->strings, ELF_T_BYTE);
	read_table(imports, &imports->relocs[0], ELF_T_RELA);
	read_table(imports, &imports->relocs[1], ELF_T_RELA);
	imports->symbols.size = count_symbols(imports) * sizeof(Elf64_Sym);
	read_table(imports, &imports->symbols, ELF_T_SYM);
	return imports->strings.data && imports->symbols.data;
}

/* A name's index + 1, 0 = none.  The table of strings need not end in a NUL. */
static uint8_t find_name(const struct imports *imports, uint32_t offset)
{
	const Elf_Data *strings = imports->strings.data;
	const char *text = (const char *)strings->d_buf + offset;
	size_t room;

	if (offset >= strings->d_size)
		return 0;
	room = strings->d_size - offset;
	for (size_t i = 0; i < imports->name_count; i++) {
		size_t size = strlen(imports->names[i]) + 1;

		if (size <= room && !memcmp(text, imports->names[i], size))
			return (uint8_t)(i + 1);
	}
	return 0;
}

/* True if the loader looks for the symbol in other objects. */
static bool is_others(const Elf64_Sym *symbol)
{
	unsigned int bind = ELF64_ST_BIND(symbol->st_info);

	return (bind == STB_GLOBAL || bind == STB_WEAK) && ELF64_ST_VISIBILITY(symbol->st_other) == STV_DEFAULT;
}

static int mark_symbols(struct imports *imports)
{
	const Elf64_Sym *symbols = imports->symbols.data->d_buf;

	imports->mark_count = imports->symbols.data->d_size / sizeof(*symbols);
	imports->marks = calloc(imports->mark_count + 1, sizeof(*imports->marks));
	if (!imports->marks)
		return -ENOMEM;
	for (size_t i = 1; i < imports->mark_count; i++)
		if (is_others(&symbols[i]))
			imports->marks[i] = find_name(imports, symbols[i].st_name);
	return 0;
}

static int add_pointer(struct imports *imports, const struct import_pointer *pointer)
{
	if (imports->count == imports->room) {
		size_t room = imports->room ? imports->room * 2 : 16;
		struct import_pointer *found = reallocarray(imports->found, room, sizeof(*found));

		if (!found)
			return -ENOMEM;
		imports->found = found;
		imports->room = room;
	}
	imports->found[imports->count++] = *pointer;
	return 0;
}

static int take_reloc(struct imports *imports, const Elf64_Rela *rela)
{
	const struct elf_cpu *cpu = imports->cpu;
	uint32_t type = ELF64_R_TYPE(rela->r_info);
	uint32_t index = ELF64_R_SYM(rela->r_info);
	const Elf64_Sym *symbols = imports->symbols.data->d_buf;
	struct import_pointer pointer;
	GElf_Phdr segment;

	if (index >= imports->mark_count || !imports->marks[index])
		return 0;
	if (type != cpu->reloc_glob_dat && type != cpu->reloc_jump_slot && type != cpu->reloc_absolute)
		return 0;
	/* An address inside the function is not its address; the loader ignores the addend of a PLT slot. */
	if (type != cpu->reloc_jump_slot && rela->r_addend)
		return 0;
	/* Only a word at a multiple of 8 can be changed at once while threads read it. */
	if (rela->r_offset % sizeof(uint64_t) ||
	    !find_segment(imports->elf, rela->r_offset, sizeof(uint64_t), false, &segment) || !(segment.p_flags & PF_W))
		return 0;
	pointer = (struct import_pointer){
		.address = rela->r_offset,
		.symbol = imports->symbols.address + index * sizeof(*symbols),
		.name = imports->marks[index] - 1u,
		.lazy = type == cpu->reloc_jump_slot,
		.defined = symbols[index].st_shndx != SHN_UNDEF,
	};
	return add_pointer(imports, &pointer);
}

static int compare_pointers(const void *a, const void *b)
{
	const struct import_pointer *left = a, *right = b;

	if (left->address != right->address)
		return left->address < right->address ? -1 : 1;
	return (left->name > right->name) - (left->name < right->name);
}

static void sort_pointers(struct imports *imports)
{
	struct import_pointer *found = imports->found;
	size_t kept = 0;

	if (!imports->count)
		return;
	qsort(found, imports->count, sizeof(*found), compare_pointers);
	for (size_t i = 1; i < imports->count; i++)
		if (found[i].address != found[kept].address)
			found[++kept] = found[i];
	imports->count = kept + 1;
}

static int collect_pointers(struct imports *imports)
{
	int ret = mark_symbols(imports);

	for (size_t i = 0; i < 2; i++) {
		const Elf_Data *data = imports->relocs[i].data;
		const Elf64_Rela *rela = data ? data->d_buf : NULL;

		for (size_t j = 0; rela && !ret && j < data->d_size / sizeof(*rela); j++)
			ret = take_reloc(imports, &rela[j]);
	}
	if (!ret)
		sort_pointers(imports);
	free(imports->marks);
	return ret;
}

/* The CPU of a file that the loader would take; NULL = not such a file. */
static const struct elf_cpu *find_cpu(Elf *elf)
{
	GElf_Ehdr header;

	if (!elf || elf_kind(elf) != ELF_K_ELF || !gelf_getehdr(elf, &header) ||
	    header.e_ident[EI_CLASS] != ELFCLASS64 || header.e_ident[EI_DATA] != ELFDATA2LSB ||
	    (header.e_type != ET_EXEC && header.e_type != ET_DYN))
		return NULL;
	return elf_cpu_find(header.e_machine);
}

int imports_read(struct import_pointer **out, size_t *count, int fd, const char *const *names, size_t name_count)
{
	struct imports imports = {
		.names = names,
		.name_count = name_count < IMPORTS_NAMES_MAX ? name_count : IMPORTS_NAMES_MAX,
	};
	int ret = -ENOEXEC;

	*out = NULL;
	*count = 0;
	elf_version(EV_CURRENT);
	imports.elf = elf_begin(fd, ELF_C_READ, NULL);
	imports.cpu = find_cpu(imports.elf);
	if (imports.cpu)
		ret = find_tables(&imports) ? collect_pointers(&imports) : 0;
	elf_end(imports.elf);
	if (ret) {
		free(imports.found);
		return ret;
	}
	*out = imports.found;
	*count = imports.count;
	return 0;
}
