/*
 * The agent's file as it is to lie in memory (image.h).  Sources: System V gABI, x86-64 psABI 4.4.  Context: host.
 */
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "image.h"

#define PAGE	       4096u
#define SIZE_MAX_IMAGE (64u << 20)

static uint64_t page_up(uint64_t value)
{
	return (value + PAGE - 1) & ~(uint64_t)(PAGE - 1);
}

/* True if [at, at + size) lies within `whole` bytes. */
static bool is_within(uint64_t at, uint64_t size, uint64_t whole)
{
	return at <= whole && size <= whole - at;
}

static const Elf64_Ehdr *header_of(const struct agent_image *image)
{
	return (const Elf64_Ehdr *)image->file;
}

static const Elf64_Phdr *segments_of(const struct agent_image *image)
{
	return (const Elf64_Phdr *)(image->file + header_of(image)->e_phoff);
}

static bool is_agent(const struct agent_image *image)
{
	const Elf64_Ehdr *header = header_of(image);

	return image->file_size >= sizeof(*header) && !memcmp(header->e_ident, ELFMAG, SELFMAG) &&
	       header->e_ident[EI_CLASS] == ELFCLASS64 && header->e_ident[EI_DATA] == ELFDATA2LSB &&
	       header->e_type == ET_DYN && header->e_machine == EM_X86_64 &&
	       header->e_phentsize == sizeof(Elf64_Phdr) && header->e_phoff % sizeof(uint64_t) == 0 &&
	       is_within(header->e_phoff, (uint64_t)header->e_phnum * sizeof(Elf64_Phdr), image->file_size);
}

static int protection_of(uint32_t flags)
{
	return (flags & PF_R ? PROT_READ : 0) | (flags & PF_W ? PROT_WRITE : 0) | (flags & PF_X ? PROT_EXEC : 0);
}

/* Segments lie in order, and no two share a page. */
static int take_segment(struct agent_image *image, const Elf64_Phdr *segment)
{
	uint64_t lo = segment->p_vaddr & ~(uint64_t)(PAGE - 1), hi;

	if (segment->p_memsz > SIZE_MAX_IMAGE || segment->p_vaddr > SIZE_MAX_IMAGE ||
	    segment->p_filesz > segment->p_memsz ||
	    !is_within(segment->p_offset, segment->p_filesz, image->file_size) || lo < image->size ||
	    image->part_count == IMAGE_PARTS_MAX)
		return -ENOEXEC;
	hi = page_up(segment->p_vaddr + segment->p_memsz);
	image->parts[image->part_count++] = (struct image_part){lo, hi - lo, protection_of(segment->p_flags)};
	image->size = hi;
	return 0;
}

int agent_image_parse(struct agent_image *out, unsigned char *file, size_t size)
{
	int ret = 0;

	*out = (struct agent_image){.file = file, .file_size = size};
	if (!is_agent(out))
		return -ENOEXEC;
	for (unsigned i = 0; i < header_of(out)->e_phnum && !ret; i++)
		if (segments_of(out)[i].p_type == PT_LOAD)
			ret = take_segment(out, &segments_of(out)[i]);
	if (ret)
		return ret;
	out->bytes = out->size ? malloc(out->size) : NULL;
	return out->bytes ? 0 : out->size ? -ENOMEM : -ENOEXEC;
}

int agent_image_read(struct agent_image *out, const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	unsigned char *file;
	struct stat st;
	ssize_t got;

	*out = (struct agent_image){0};
	if (fd < 0)
		return -errno;
	if (fstat(fd, &st) || !S_ISREG(st.st_mode) || st.st_size <= 0 || st.st_size > (off_t)SIZE_MAX_IMAGE) {
		close(fd);
		return -ENOEXEC;
	}
	file = malloc((size_t)st.st_size);
	got = file ? read(fd, file, (size_t)st.st_size) : -1;
	close(fd);
	if (got != st.st_size) {
		free(file);
		return file ? -EIO : -ENOMEM;
	}
	return agent_image_parse(out, file, (size_t)st.st_size);
}

/* The value of an entry of the dynamic section, 0 = there is none. */
static uint64_t dynamic_value(const struct agent_image *image, int64_t tag)
{
	for (unsigned i = 0; i < header_of(image)->e_phnum; i++) {
		const Elf64_Phdr *segment = &segments_of(image)[i];
		const Elf64_Dyn *entry = (const Elf64_Dyn *)(image->file + segment->p_offset);

		if (segment->p_type != PT_DYNAMIC || segment->p_offset % sizeof(uint64_t) ||
		    !is_within(segment->p_offset, segment->p_filesz, image->file_size))
			continue;
		for (uint64_t k = 0; k < segment->p_filesz / sizeof(*entry) && entry[k].d_tag != DT_NULL; k++)
			if (entry[k].d_tag == tag)
				return entry[k].d_un.d_val;
	}
	return 0;
}

/* The symbol of that index in the image's bytes; NULL = it lies outside. */
static const Elf64_Sym *symbol_at(const struct agent_image *image, const unsigned char *bytes, uint64_t index)
{
	uint64_t at = dynamic_value(image, DT_SYMTAB) + index * sizeof(Elf64_Sym);

	return at % sizeof(uint64_t) || !is_within(at, sizeof(Elf64_Sym), image->size)
		       ? NULL
		       : (const Elf64_Sym *)(bytes + at);
}

/* 0, or -ENOEXEC: a relocation that only a loader can do. */
static int apply(struct agent_image *image, const Elf64_Rela *rela, uint64_t base)
{
	const Elf64_Sym *symbol = symbol_at(image, image->bytes, ELF64_R_SYM(rela->r_info));
	uint64_t value;

	if (!is_within(rela->r_offset, sizeof(value), image->size) || !symbol)
		return -ENOEXEC;
	value = symbol->st_shndx == SHN_UNDEF ? 0 : base + symbol->st_value;
	switch (ELF64_R_TYPE(rela->r_info)) {
	case R_X86_64_RELATIVE:
		value = base + (uint64_t)rela->r_addend;
		break;
	case R_X86_64_64:
		value += (uint64_t)rela->r_addend;
		break;
	case R_X86_64_GLOB_DAT:
	case R_X86_64_JUMP_SLOT:
		break;
	default:
		return -ENOEXEC;
	}
	memcpy(image->bytes + rela->r_offset, &value, sizeof(value));
	return 0;
}

static int apply_all(struct agent_image *image, int64_t table, int64_t table_size, uint64_t base)
{
	uint64_t at = dynamic_value(image, table), size = dynamic_value(image, table_size);
	int ret = 0;

	if (at % sizeof(uint64_t) || !is_within(at, size, image->size))
		return -ENOEXEC;
	for (uint64_t i = 0; i < size / sizeof(Elf64_Rela) && !ret; i++) {
		Elf64_Rela rela; /* a copy: a relocation may be told to change the table itself */

		memcpy(&rela, image->bytes + at + i * sizeof(rela), sizeof(rela));
		ret = apply(image, &rela, base);
	}
	return ret;
}

int agent_image_relocate(struct agent_image *image, uint64_t base)
{
	int ret;

	memset(image->bytes, 0, image->size);
	for (unsigned i = 0; i < header_of(image)->e_phnum; i++) {
		const Elf64_Phdr *segment = &segments_of(image)[i];

		if (segment->p_type == PT_LOAD)
			memcpy(image->bytes + segment->p_vaddr, image->file + segment->p_offset, segment->p_filesz);
	}
	ret = apply_all(image, DT_RELA, DT_RELASZ, base);
	return ret ? ret : apply_all(image, DT_JMPREL, DT_PLTRELSZ, base);
}

/* The number of symbols is told by the file's section alone. */
static uint64_t count_symbols(const struct agent_image *image)
{
	uint64_t first = dynamic_value(image, DT_SYMTAB), behind = dynamic_value(image, DT_STRTAB);

	/* Every linker writes the strings behind the symbols. */
	return behind > first ? (behind - first) / sizeof(Elf64_Sym) : 0;
}

uint64_t agent_image_symbol(const struct agent_image *image, const char *name)
{
	uint64_t count = count_symbols(image), strings = dynamic_value(image, DT_STRTAB), length = strlen(name) + 1;
	const Elf64_Sym *symbol;

	for (uint64_t i = 1; i < count && (symbol = symbol_at(image, image->bytes, i)); i++)
		if (symbol->st_shndx != SHN_UNDEF && is_within(strings + symbol->st_name, length, image->size) &&
		    !memcmp(image->bytes + strings + symbol->st_name, name, length))
			return symbol->st_value;
	return 0;
}

void agent_image_free(struct agent_image *image)
{
	free(image->file);
	free(image->bytes);
	*image = (struct agent_image){0};
}
