/*
 * A quick look that spares most libraries of a process, which have no sites, from being read any further.
 *
 * Caller: the session's rooms.  Context: host.
 */
#include <elfutils/libdwelf.h>
#include <fcntl.h>
#include <gelf.h>
#include <string.h>

#include "object.h"

static bool has_table(Elf *elf)
{
	size_t names;
	Elf_Scn *section = NULL;

	if (elf_getshdrstrndx(elf, &names))
		return true;
	while ((section = elf_nextscn(elf, section))) {
		GElf_Shdr header;
		const char *name = gelf_getshdr(section, &header) ? elf_strptr(elf, names, header.sh_name) : NULL;

		if (name && (!strcmp(name, "__patchable_function_entries") || !strcmp(name, "__mcount_loc")))
			return true;
	}
	return false;
}

/* True if __fentry__ is among the symbols that the dynamic section leaves to other objects. */
static bool wants_fentry(Elf *elf, Elf_Scn *section, const GElf_Shdr *header)
{
	Elf_Data *data = elf_getdata(section, NULL);
	size_t count = header->sh_entsize ? header->sh_size / header->sh_entsize : 0;

	for (size_t i = 0; data && i < count; i++) {
		GElf_Sym symbol;
		const char *name;

		if (!gelf_getsym(data, (int)i, &symbol))
			return true;
		if (symbol.st_shndx != SHN_UNDEF)
			continue;
		name = elf_strptr(elf, header->sh_link, symbol.st_name);
		if (name && !strcmp(name, "__fentry__"))
			return true;
	}
	return false;
}

static bool dynamic_wants_fentry(Elf *elf)
{
	Elf_Scn *section = NULL;

	while ((section = elf_nextscn(elf, section))) {
		GElf_Shdr header;

		if (gelf_getshdr(section, &header) && header.sh_type == SHT_DYNSYM)
			return wants_fentry(elf, section, &header);
	}
	return true;
}

static bool has_name(Elf *elf, const GElf_Phdr *segment)
{
	Elf_Data *data = elf_getdata_rawchunk(elf, (int64_t)segment->p_offset, segment->p_filesz, ELF_T_DYN);
	GElf_Dyn entry;

	for (int i = 0; data && gelf_getdyn(data, i, &entry) && entry.d_tag != DT_NULL; i++)
		if (entry.d_tag == DT_SONAME)
			return true;
	return false;
}

bool object_is_program_file(int fd)
{
	bool runs = false, named = false;
	GElf_Phdr segment;
	GElf_Ehdr header;
	size_t count = 0;
	Elf *elf;

	elf_version(EV_CURRENT);
	elf = elf_begin(fd, ELF_C_READ, NULL);
	if (elf && elf_kind(elf) == ELF_K_ELF && gelf_getehdr(elf, &header) && !elf_getphdrnum(elf, &count)) {
		runs = header.e_type == ET_EXEC;
		for (size_t i = 0; i < count && gelf_getphdr(elf, (int)i, &segment); i++) {
			runs |= segment.p_type == PT_INTERP;
			named |= segment.p_type == PT_DYNAMIC && has_name(elf, &segment);
		}
	}
	elf_end(elf);
	return runs && !named;
}

bool object_is_plain_library(int fd)
{
	GElf_Ehdr header;
	bool plain = false;
	Elf *elf;

	elf_version(EV_CURRENT);
	elf = elf_begin(fd, ELF_C_READ, NULL);
	/* -mnop-mcount leaves no mark, but it is for position-dependent code: no library's. */
	if (elf && elf_kind(elf) == ELF_K_ELF && gelf_getehdr(elf, &header) && header.e_type == ET_DYN)
		plain = !has_table(elf) && !dynamic_wants_fentry(elf);
	elf_end(elf);
	return plain;
}

bool object_identify(struct object_identity *out, int fd)
{
	GElf_Phdr segment;
	size_t count = 0;
	const void *id;
	ssize_t size;
	Elf *elf;

	*out = (struct object_identity){.lo = UINT64_MAX};
	elf_version(EV_CURRENT);
	elf = elf_begin(fd, ELF_C_READ, NULL);
	if (elf && elf_kind(elf) == ELF_K_ELF && !elf_getphdrnum(elf, &count))
		for (size_t i = 0; i < count && gelf_getphdr(elf, (int)i, &segment); i++) {
			if (segment.p_type != PT_LOAD || segment.p_vaddr + segment.p_memsz < segment.p_vaddr)
				continue;
			if (segment.p_vaddr < out->lo)
				out->lo = segment.p_vaddr;
			if (segment.p_vaddr + segment.p_memsz > out->hi)
				out->hi = segment.p_vaddr + segment.p_memsz;
		}
	size = elf ? dwelf_elf_gnu_build_id(elf, &id) : 0;
	if (size > 0 && (size_t)size <= sizeof(out->build_id)) {
		memcpy(out->build_id, id, (size_t)size);
		out->build_id_size = (uint32_t)size;
	}
	elf_end(elf);
	return out->lo < out->hi && out->build_id_size;
}
