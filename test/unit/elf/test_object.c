/*
 * An object read from this program's own file: its facts, names, verdicts, source lines; then the same file cut off
 * and damaged at many places, which must never do more than give fewer functions.
 */
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "host/elf/advice.h"
#include "host/elf/cpu.h"
#include "self.h"

#define TURN "_ZNK4room6Widget4turnEi"

/* Functions whose names decide. */
void calltap_agent_own(void);
void _Unwind_Anything(void);
void makecontext(void);
void dlvsym(void);
void aliased(void);
void turn(void) __asm__(TURN);
static void local_name(void) __attribute__((noinline, used));
void global_name(void) __attribute__((alias("local_name")));
void savectx(void) __attribute__((alias("aliased")));

void calltap_agent_own(void)
{
}

enum { UNWIND_LINE = __LINE__ + 1 };
void _Unwind_Anything(void)
{
}

void makecontext(void)
{
}

void dlvsym(void)
{
}

void aliased(void)
{
}

void turn(void)
{
}

static void local_name(void)
{
}

static enum site_verdict verdict_of(struct object *object, const char *symbol)
{
	const struct object_site *site = site_of(object, symbol);

	if (!site)
		fail_msg("no site of %s", symbol);
	return site ? (enum site_verdict)site->verdict : SITE_VERDICTS;
}

static void verdicts(void **state)
{
	struct object *object = open_self(SELF);

	assert_non_null(object);
	assert_int_equal(verdict_of(object, "main"), SITE_OK);
	assert_int_equal(verdict_of(object, "calltap_agent_own"), SITE_OWN);
	assert_int_equal(verdict_of(object, "_Unwind_Anything"), SITE_LOOKS_AT_CALLER);
	assert_int_equal(verdict_of(object, "makecontext"), SITE_RETURNS_TWICE);
	assert_int_equal(verdict_of(object, "dlvsym"), SITE_LOOKS_AT_CALLER);
	/* Any of its names is enough. */
	assert_int_equal(verdict_of(object, "aliased"), SITE_RETURNS_TWICE);
	for (int verdict = 0; verdict < SITE_VERDICTS; verdict++)
		assert_string_not_equal(site_verdict_text((enum site_verdict)verdict), "unknown");
	assert_string_equal(site_verdict_text((enum site_verdict)99), "unknown");
	object_close(object);
}

static void names(void **state)
{
	struct object *object = open_self(SELF);
	const struct object_symbol *symbol;
	const struct object_site *site;

	assert_non_null(object);
	site = site_of(object, TURN);
	assert_non_null(site);
	assert_string_equal(object_site_name(object, site), "room::Widget::turn(int) const");
	assert_string_equal(object_site_short_name(object, site), "room::Widget::turn");
	assert_ptr_equal(object_site_name(object, site), object_site_name(object, site));
	/* The reader takes the global one of two names for a function. */
	assert_null(site_of(object, "local_name"));
	site = site_of(object, "global_name");
	assert_non_null(site);
	symbol = object_symbol_at(object, site->function);
	assert_non_null(symbol);
	assert_string_equal(symbol->symbol, "global_name");
	assert_ptr_equal(object_symbol_around(object, site->function + symbol->size - 1), symbol);
	assert_ptr_not_equal(object_symbol_around(object, site->function + symbol->size), symbol);
	assert_null(object_symbol_at(object, site->function + 1));
	assert_null(object_symbol_at(object, UINT64_MAX));
	object_close(object);
}

static uint16_t own_machine(void)
{
	int fd = open(SELF, O_RDONLY | O_CLOEXEC);
	Elf64_Ehdr header = {0};

	assert_int_equal(read(fd, &header, sizeof(header)), sizeof(header));
	close(fd);
	return header.e_machine;
}

static void facts(void **state)
{
	struct object *object = open_self("the name");
	const struct object_site *sites, *site;
	uint64_t lo, hi;
	uint8_t id[32];
	size_t count, traceable = 0;

	assert_non_null(object);
	assert_string_equal(object_path(object), "the name");
	assert_int_equal(object_machine(object), own_machine());
	assert_true(object_is_executable(object));
	assert_false(object_is_static(object));
	assert_non_null(strstr(object_interpreter(object), "ld-linux"));
	object_extent(object, &lo, &hi);
	assert_true(object_dynamic(object) > lo && object_dynamic(object) < hi);
	assert_true(object_build_id(object, id) <= sizeof(id));
	count = object_sites(object, &sites);
	for (size_t i = 0; i < count; i++) {
		assert_true(i == 0 || sites[i].address > sites[i - 1].address);
		assert_true(sites[i].address >= lo && sites[i].address < hi);
		traceable += sites[i].verdict == SITE_OK;
	}
	assert_int_equal(object_traceable(object), traceable);
	/* The file's bytes are what this process runs. */
	site = site_of(object, "aliased");
	assert_non_null(site);
	assert_memory_equal(site->old, (const uint8_t *)(uintptr_t)aliased + (site->address - site->function), 8);
	assert_int_equal(site->length, elf_cpu_find(own_machine())->jump_bytes);
	assert_true(site->body_off >= site->length && site->kind == SITE_PATCHABLE);
	object_close(object);
}

static void lines(void **state)
{
	struct object *object = open_self(SELF);
	struct object_lines *found = NULL;
	const struct object_site *site;
	const char *file;
	uint32_t line;
	int fd;

	assert_non_null(object);
	fd = open(SELF, O_RDONLY | O_CLOEXEC);
	assert_int_equal(object_lines_open(&found, "/a/name/that/is/gone", fd), 0);
	close(fd);
	site = site_of(object, "_Unwind_Anything");
	assert_non_null(site);
	assert_true(object_lines_find(found, site->function, site->address + site->code_off, &file, &line));
	assert_non_null(strstr(file, "test_object.c"));
	/* Compilers give the line of the name or that of the brace. */
	assert_in_range(line, UNWIND_LINE, UNWIND_LINE + 1);
	assert_false(object_lines_find(found, 0x10, 0x10, &file, &line));
	assert_false(object_lines_find(found, UINT64_MAX, UINT64_MAX, &file, &line));
	object_lines_close(found);
	assert_true(object_lines_open(&found, SELF, -1) < 0);
	assert_null(found);
	fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
	assert_true(object_lines_open(&found, SELF, fd) < 0);
	close(fd);
	object_close(object);
}

/* A file in memory. */
static int make_file(const void *bytes, size_t size)
{
	int fd = memfd_create("object", MFD_CLOEXEC);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, bytes, size), size);
	return fd;
}

static void refused(const void *bytes, size_t size, const char *part)
{
	int fd = make_file(bytes, size);
	struct calltap_diag diag = {0};
	struct object *object;

	assert_int_equal(object_open(&object, fd, "name", &diag), -ENOEXEC);
	assert_null(object);
	if (!strstr(diag.text, part))
		fail_msg("want \"%s\", got \"%s\"", part, diag.text);
	close(fd);
}

static void big_endian(Elf64_Ehdr *header)
{
	header->e_ident[EI_DATA] = ELFDATA2MSB;
	header->e_type = __builtin_bswap16(ET_DYN);
	header->e_machine = __builtin_bswap16(EM_AARCH64);
	header->e_version = __builtin_bswap32(EV_CURRENT);
	header->e_ehsize = __builtin_bswap16(sizeof(*header));
}

static void not_for_us(void **state)
{
	const Elf64_Ehdr known = {.e_ident = {0x7f, 'E', 'L', 'F', ELFCLASS64, ELFDATA2LSB, EV_CURRENT},
				  .e_type = ET_DYN,
				  .e_machine = EM_X86_64,
				  .e_version = EV_CURRENT,
				  .e_ehsize = sizeof(known)};
	Elf64_Ehdr header = known;
	struct calltap_diag diag;
	struct object *object;

	refused("", 0, "not an ELF");
	refused("#! /bin/sh -e\ntrue\n", 19, "script; trace its interpreter instead: /bin/sh -e name");
	refused("\x7f"
		"EL",
		3, "not an ELF");
	header.e_machine = EM_S390;
	refused(&header, sizeof(header), "another CPU (ELF machine 22); build it for x86-64, riscv64 or aarch64");
	big_endian(&header);
	refused(&header, sizeof(header), "another CPU (ELF machine 183, big-endian)");
	header = known;
	header.e_type = ET_REL;
	refused(&header, sizeof(header), "link it");
	header.e_ident[EI_CLASS] = ELFCLASS32;
	refused(&header, sizeof(header), "32-bit");
	assert_int_equal(object_open(&object, -1, "name", &diag), -ENOEXEC);
}

/* Ask the reader for everything that a caller may ask for. */
static void use(int fd)
{
	struct calltap_diag diag;
	struct object *object;
	const struct object_site *sites;
	size_t count;

	if (object_open(&object, fd, "damaged", &diag))
		return;
	count = object_sites(object, &sites);
	for (size_t i = 0; i < count; i++) {
		assert_non_null(object_site_name(object, &sites[i]));
		assert_non_null(object_site_short_name(object, &sites[i]));
	}
	object_no_sites_diag(object, &diag);
	object_close(object);
}

static uint8_t *read_self(size_t *size)
{
	int fd = open(SELF, O_RDONLY | O_CLOEXEC);
	struct stat status = {0};
	uint8_t *bytes;

	assert_true(fd >= 0 && !fstat(fd, &status));
	bytes = malloc((size_t)status.st_size);
	assert_non_null(bytes);
	assert_int_equal(read(fd, bytes, (size_t)status.st_size), status.st_size);
	close(fd);
	*size = status.st_size > 0 ? (size_t)status.st_size : 1;
	return bytes;
}

static void cut_off(void **state)
{
	size_t size;
	uint8_t *bytes = read_self(&size);

	for (size_t length = 0; length < size; length += length < 256 ? 1 : size / 400 + 1) {
		int fd = make_file(bytes, length);

		use(fd);
		close(fd);
	}
	free(bytes);
}

static uint32_t next_random(uint32_t *seed)
{
	*seed = *seed * 1664525u + 1013904223u;
	return *seed >> 8;
}

/* Where damage hurts: the headers at both ends of the file, and its tables. */
static size_t damage_at(const uint8_t *bytes, size_t size, uint32_t *seed)
{
	Elf64_Ehdr header;
	uint32_t random = next_random(seed);

	memcpy(&header, bytes, sizeof(header));
	switch (random % 4) {
	case 0:
		return random / 4 % 1024;
	case 1:
		return header.e_shoff + random / 4 % (header.e_shnum * sizeof(Elf64_Shdr) + 1);
	case 2:
		return random / 4 % 16384;
	default:
		return random / 4 % size;
	}
}

static void damaged(void **state)
{
	const char *rounds = getenv("CALLTAP_TEST_ROUNDS");
	int count = rounds ? atoi(rounds) : 400;
	uint32_t seed = 1;
	size_t size;
	uint8_t *bytes = read_self(&size);
	int fd = make_file(bytes, size);

	for (int round = 0; round < count; round++) {
		size_t places[8];

		for (size_t i = 0; i < 8; i++) {
			uint8_t value = (uint8_t)next_random(&seed);

			places[i] = damage_at(bytes, size, &seed) % size;
			assert_int_equal(pwrite(fd, &value, 1, (off_t)places[i]), 1);
		}
		use(fd);
		for (size_t i = 0; i < 8; i++)
			assert_int_equal(pwrite(fd, &bytes[places[i]], 1, (off_t)places[i]), 1);
	}
	close(fd);
	free(bytes);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(verdicts), cmocka_unit_test(names),	  cmocka_unit_test(facts),
		cmocka_unit_test(lines),    cmocka_unit_test(not_for_us), cmocka_unit_test(cut_off),
		cmocka_unit_test(damaged),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
