/* See real.h. */
#include <fcntl.h>
#include <gelf.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "arch/riscv64/isa/block.h"
#include "arch/x86_64/isa/block.h"
#include "real.h"

static int by_address(const void *a, const void *b)
{
	const struct stock_section *left = a, *right = b;

	return (left->address > right->address) - (left->address < right->address);
}

static void add_section(struct real *real, Elf_Scn *scn, const GElf_Shdr *header, const char *name)
{
	const Elf_Data *data = elf_getdata(scn, NULL);
	struct stock_section *section = &real->sections[real->image.section_count++];

	assert_in_range(real->image.section_count, 1, REAL_SECTIONS);
	*section = (struct stock_section){.address = header->sh_addr,
					  .size = header->sh_size,
					  .bytes = header->sh_type == SHT_NOBITS ? NULL : data->d_buf,
					  .code = header->sh_flags & SHF_EXECINSTR,
					  .plt = !strncmp(name, ".plt", 4)};
	if (header->sh_addr + header->sh_size > real->end)
		real->end = header->sh_addr + header->sh_size;
	if (!strcmp(name, ".eh_frame"))
		real->image.frames = (struct cfi_section){data->d_buf, data->d_size, header->sh_addr};
}

static int by_head(const void *a, const void *b)
{
	const struct stock_block *left = a, *right = b;

	return (left->head > right->head) - (left->head < right->head);
}

/* The head of a function: 0 = it has none. */
static uint8_t head_of(const struct real *real, const struct cfi_entry *entry)
{
	for (size_t i = 0; i < real->image.section_count; i++) {
		const struct stock_section *section = &real->sections[i];
		uint64_t at = entry->start - section->address;
		struct isa_head head = {.size = entry->size, .from = entry->start};
		uint8_t length;

		if (!section->code || section->plt || at >= section->size || entry->size > section->size - at)
			continue;
		head.code = section->bytes + at;
		return isa_head_measure(real->cpu, &head, &length) ? 0 : length;
	}
	return 0;
}

static void find_blocks(struct real *real)
{
	struct cfi_reader reader;
	struct cfi_entry entry;
	size_t room = 0;

	cfi_begin(&reader, &real->image.frames);
	while (cfi_next(&reader, &entry)) {
		uint8_t length = head_of(real, &entry);

		if (!length)
			continue;
		if (real->count == room) {
			room = room ? 2 * room : 1024;
			real->blocks = realloc(real->blocks, room * sizeof(*real->blocks));
			assert_non_null(real->blocks);
		}
		real->blocks[real->count++] = (struct stock_block){.head = entry.start, .length = length};
	}
	qsort(real->blocks, real->count, sizeof(*real->blocks), by_head);
}

bool real_open(struct real *real, const char *path)
{
	return real_open_of(real, path, EM_X86_64);
}

bool real_open_of(struct real *real, const char *path, uint16_t machine)
{
	Elf_Scn *scn = NULL;
	GElf_Ehdr ehdr;
	size_t names;

	elf_version(EV_CURRENT);
	memset(real, 0, sizeof(*real));
	real->fd = open(path, O_RDONLY | O_CLOEXEC);
	if (real->fd < 0)
		return false;
	real->elf = elf_begin(real->fd, ELF_C_READ_MMAP, NULL);
	if (!gelf_getehdr(real->elf, &ehdr) || ehdr.e_machine != machine) {
		real_close(real);
		return false;
	}
	assert_int_equal(elf_getshdrstrndx(real->elf, &names), 0);
	while ((scn = elf_nextscn(real->elf, scn))) {
		GElf_Shdr header;

		assert_non_null(gelf_getshdr(scn, &header));
		if (header.sh_flags & SHF_ALLOC && !(header.sh_flags & SHF_TLS))
			add_section(real, scn, &header, elf_strptr(real->elf, names, header.sh_name));
	}
	real->image.machine = machine;
	real->cpu = machine == EM_X86_64 ? &x86_block_cpu : &rv_block_cpu;
	real->image.sections = real->sections;
	qsort(real->sections, real->image.section_count, sizeof(real->sections[0]), by_address);
	real->image.lo = real->sections[0].address;
	real->image.hi = real->sections[real->image.section_count - 1].address + REAL_DATA_MAX;
	find_blocks(real);
	return true;
}

void real_close(struct real *real)
{
	free(real->blocks);
	elf_end(real->elf);
	close(real->fd);
}
