/*
 * The agent's file laid out in memory (host/attach/image.h): a file made here, damaged ones, and the agent itself.
 */
#include <elf.h>
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <cmocka.h>

#include <calltap/abi/control.h>
#include <host/attach/image.h>

#define BASE  0x7f1234560000ull
#define TEXT  0x1000u
#define DATA  0x2ff0u /* not at a page's start, and its end is in another page */
#define WORDS 6u

/* A library of three segments: tables and strings; code; words that relocations change. */
struct file {
	Elf64_Ehdr header;
	Elf64_Phdr segments[4];
	Elf64_Dyn dynamic[9];
	Elf64_Sym symbols[4];
	char strings[32];
	Elf64_Rela relocs[5];
	Elf64_Rela jumps[1];
	unsigned char code[16];
	uint64_t words[2];
};

static Elf64_Phdr segment(uint32_t type, uint32_t flags, size_t offset, uint64_t address, size_t size, size_t memory)
{
	return (Elf64_Phdr){.p_type = type,
			    .p_flags = flags,
			    .p_offset = offset,
			    .p_vaddr = address,
			    .p_filesz = size,
			    .p_memsz = memory};
}

static Elf64_Rela reloc(uint64_t at, uint32_t type, uint32_t symbol, int64_t addend)
{
	return (Elf64_Rela){DATA + at * sizeof(uint64_t), ELF64_R_INFO((uint64_t)symbol, type), addend};
}

static void make(struct file *file)
{
	*file = (struct file){
		.header = {.e_ident = {0x7f, 'E', 'L', 'F', ELFCLASS64, ELFDATA2LSB, EV_CURRENT},
			   .e_type = ET_DYN,
			   .e_machine = EM_X86_64,
			   .e_phoff = offsetof(struct file, segments),
			   .e_phentsize = sizeof(Elf64_Phdr),
			   .e_phnum = 4},
		.segments = {segment(PT_LOAD, PF_R, 0, 0, offsetof(struct file, code), offsetof(struct file, code)),
			     segment(PT_LOAD, PF_R | PF_X, offsetof(struct file, code), TEXT, 16, 16),
			     segment(PT_LOAD, PF_R | PF_W, offsetof(struct file, words), DATA, 16,
				     WORDS * sizeof(uint64_t)),
			     segment(PT_DYNAMIC, PF_R, offsetof(struct file, dynamic), offsetof(struct file, dynamic),
				     sizeof(file->dynamic), sizeof(file->dynamic))},
		.dynamic = {{DT_SYMTAB, {offsetof(struct file, symbols)}},
			    {DT_STRTAB, {offsetof(struct file, strings)}},
			    {DT_RELA, {offsetof(struct file, relocs)}},
			    {DT_RELASZ, {sizeof(file->relocs)}},
			    {DT_JMPREL, {offsetof(struct file, jumps)}},
			    {DT_PLTRELSZ, {sizeof(file->jumps)}}},
		.symbols = {{0},
			    {.st_name = 1, .st_shndx = 1, .st_value = TEXT + 4},
			    {.st_name = 7, .st_shndx = SHN_UNDEF},
			    {.st_name = 12, .st_shndx = 1, .st_value = DATA}},
		.strings = "\0first\0weak\0last",
		.relocs = {reloc(1, R_X86_64_RELATIVE, 0, TEXT + 8), reloc(2, R_X86_64_GLOB_DAT, 1, 0),
			   reloc(3, R_X86_64_GLOB_DAT, 2, 0), reloc(4, R_X86_64_64, 3, 24),
			   reloc(0, R_X86_64_RELATIVE, 0, 0)},
		.jumps = {reloc(5, R_X86_64_JUMP_SLOT, 1, 0)},
		.code = {0x90, 0xc3},
		.words = {1, 2},
	};
}

/* A copy that is the image's. */
static unsigned char *copy_of(const void *bytes, size_t size)
{
	unsigned char *copy = malloc(size ? size : 1);

	assert_non_null(copy);
	memcpy(copy, bytes, size);
	return copy;
}

static void test_layout(void **state)
{
	const uint64_t expected[WORDS] = {BASE, BASE + TEXT + 8, BASE + TEXT + 4, 0, BASE + DATA + 24, BASE + TEXT + 4};
	struct agent_image image;
	struct file file;

	(void)state;
	make(&file);
	assert_int_equal(agent_image_parse(&image, copy_of(&file, sizeof(file)), sizeof(file)), 0);
	assert_int_equal(image.size, 0x4000);
	assert_int_equal(image.part_count, 3);
	assert_int_equal(image.parts[1].offset, TEXT);
	assert_int_equal(image.parts[1].size, 0x1000);
	assert_int_equal(image.parts[1].protection, PROT_READ | PROT_EXEC);
	assert_int_equal(image.parts[2].offset, 0x2000);
	assert_int_equal(image.parts[2].size, 0x2000);
	assert_int_equal(image.parts[2].protection, PROT_READ | PROT_WRITE);
	/* Twice: nothing of an earlier address is left. */
	assert_int_equal(agent_image_relocate(&image, 0x10000), 0);
	assert_int_equal(agent_image_relocate(&image, BASE), 0);
	assert_memory_equal(image.bytes + DATA, expected, sizeof(expected));
	assert_memory_equal(image.bytes + TEXT, file.code, sizeof(file.code));
	assert_int_equal(image.bytes[DATA + sizeof(expected)], 0);
	assert_int_equal(agent_image_symbol(&image, "first"), TEXT + 4);
	assert_int_equal(agent_image_symbol(&image, "last"), DATA);
	assert_int_equal(agent_image_symbol(&image, "weak"), 0);
	assert_int_equal(agent_image_symbol(&image, "firs"), 0);
	agent_image_free(&image);
}

/* What takes a loader is refused, and never half done. */
static void test_refused(void **state)
{
	struct agent_image image;
	struct file file;

	(void)state;
	make(&file);
	file.relocs[0].r_info = ELF64_R_INFO(0, R_X86_64_TPOFF64);
	assert_int_equal(agent_image_parse(&image, copy_of(&file, sizeof(file)), sizeof(file)), 0);
	assert_int_equal(agent_image_relocate(&image, BASE), -ENOEXEC);
	agent_image_free(&image);
	make(&file);
	file.relocs[0].r_offset = 0x4000 - 7;
	assert_int_equal(agent_image_parse(&image, copy_of(&file, sizeof(file)), sizeof(file)), 0);
	assert_int_equal(agent_image_relocate(&image, BASE), -ENOEXEC);
	agent_image_free(&image);
	make(&file);
	file.header.e_machine = EM_AARCH64;
	assert_int_equal(agent_image_parse(&image, copy_of(&file, sizeof(file)), sizeof(file)), -ENOEXEC);
	agent_image_free(&image);
	make(&file);
	file.segments[2].p_vaddr = 0x1ff0; /* in the page of the one before */
	assert_int_equal(agent_image_parse(&image, copy_of(&file, sizeof(file)), sizeof(file)), -ENOEXEC);
	agent_image_free(&image);
}

/* A damaged file is refused or laid out; nothing outside of it is touched (sanitizers tell). */
static void try_damaged(const void *bytes, size_t size)
{
	struct agent_image image;

	if (!agent_image_parse(&image, copy_of(bytes, size), size) && !agent_image_relocate(&image, BASE))
		(void)agent_image_symbol(&image, "first");
	agent_image_free(&image);
}

static void test_damaged(void **state)
{
	struct file file;

	(void)state;
	make(&file);
	for (size_t size = 0; size < sizeof(file); size++)
		try_damaged(&file, size);
	for (size_t at = 0; at < sizeof(file); at++)
		for (unsigned bit = 0; bit < 8; bit++) {
			struct file damaged = file;

			((unsigned char *)&damaged)[at] ^= (unsigned char)(1u << bit);
			try_damaged(&damaged, sizeof(damaged));
		}
}

static const char *agent_path;

/* The agent that the tool puts into static programs. */
static void test_agent(void **state)
{
	struct agent_image image;
	uint32_t version;
	uint64_t at;

	(void)state;
	assert_int_equal(agent_image_read(&image, agent_path), 0);
	assert_int_equal(agent_image_relocate(&image, BASE), 0);
	assert_true(agent_image_symbol(&image, "calltap_agent_start"));
	assert_true(agent_image_symbol(&image, "_dl_find_object"));
	at = agent_image_symbol(&image, "calltap_agent_version");
	assert_in_range(at, 1, image.size - sizeof(version));
	memcpy(&version, image.bytes + at, sizeof(version));
	assert_int_equal(version, CALLTAP_ABI_VERSION);
	agent_image_free(&image);
	assert_int_equal(agent_image_read(&image, "/"), -ENOEXEC);
	agent_image_free(&image);
	assert_int_equal(agent_image_read(&image, "/no/such/file"), -ENOENT);
	agent_image_free(&image);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_layout),
		cmocka_unit_test(test_refused),
		cmocka_unit_test(test_damaged),
		cmocka_unit_test(test_agent),
	};

	agent_path = argc > 1 ? argv[1] : "";
	return cmocka_run_group_tests(tests, NULL, NULL);
}
