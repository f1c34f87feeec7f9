/*
 * ELF and DWARF input: the quick look, imports, symbols, sites, names, advice, lines; and the promises about a site
 * that may be patched.
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <calltap/abi/control.h>
#include <host/elf/advice.h>
#include <host/elf/filter.h>
#include <host/elf/imports.h>
#include <host/elf/object_impl.h>

#include "fuzz.h"

#define LINES_MAX 64 /* looked up per file */

/* Bytes of a segment that the kernel would map to be run, as the file has them. */
static int is_loaded(const struct object *object, const struct input *file, uint64_t address, const uint8_t *bytes,
		     size_t size)
{
	size_t count = 0;

	if (elf_getphdrnum(object->elf, &count) < 0)
		return 0;
	for (size_t i = 0; i < count; i++) {
		GElf_Phdr segment;
		uint64_t at;

		if (!gelf_getphdr(object->elf, (int)i, &segment) || segment.p_type != PT_LOAD ||
		    !(segment.p_flags & PF_X))
			continue;
		at = address - segment.p_vaddr;
		if (address >= segment.p_vaddr && at < segment.p_filesz && size <= segment.p_filesz - at &&
		    segment.p_offset <= file->left && at <= file->left - segment.p_offset &&
		    size <= file->left - segment.p_offset - at &&
		    !memcmp(file->at + (segment.p_offset + at), bytes, size))
			return 1;
	}
	return 0;
}

/* A jump that is too short for the stub leads to one that is not. */
static uint64_t check_trampoline(const struct object *object, const struct object_site *site, const struct input *file)
{
	const struct elf_cpu *cpu = object->cpu;
	uint64_t trampoline = site->address + (uint64_t)(int64_t)site->tramp_off;
	const struct calltap_site *wire = NULL; /* for its sizes */

	fuzz_expect(cpu->short_jump_bytes && site->length == cpu->short_jump_bytes &&
			    site->tramp_off <= -(int)cpu->jump_bytes,
		    "a site has room for a jump");
	fuzz_expect(site->span + sizeof(site->tramp_old) <= sizeof(wire->old), "both their bytes fit into a plan");
	fuzz_expect(is_loaded(object, file, trampoline, site->tramp_old, cpu->jump_bytes),
		    "a trampoline is code that is loaded");
	return trampoline;
}

/* A head without room for a jump to its block has another one near by that can have its island. */
static void check_island(const struct object *object, const struct object_site *site, struct stock_islands islands)
{
	const struct object_site *sites;
	size_t count = object_sites(object, &sites);
	bool found = false;

	fuzz_expect(site->length == islands.jump && !site->host_span, "a head has room for a jump");
	for (size_t i = 0; i < count && !found; i++) {
		uint64_t distance = sites[i].address + islands.jump - site->address;

		found = sites[i].verdict == SITE_OK && sites[i].host_span &&
			distance + islands.reach < 2 * islands.reach;
	}
	fuzz_expect(found, "a short jump has an island");
}

/* Check the promises about a site that can be traced; end: the end of the site before.  Returns this site's end. */
static uint64_t check_site(const struct object *object, const struct object_site *site, const struct input *file,
			   uint64_t end)
{
	const struct elf_cpu *cpu = object->cpu;
	/* A head may be longer than a jump: it has a landing pad, too. */
	bool is_short = site_has_block(site) ? site->length < cpu->jump_bytes : site->length != cpu->jump_bytes;
	struct stock_islands islands = stock_islands_of(object_machine(object));
	bool to_island = is_short && islands.jump && site->kind == SITE_STOCK;
	uint64_t first = is_short && !to_island ? check_trampoline(object, site, file) : site->address;

	if (to_island)
		check_island(object, site, islands);
	fuzz_expect(first >= end, "no byte belongs to two sites");
	/* A head is written before anybody runs there. */
	fuzz_expect(site->address % (site_has_block(site) ? cpu->code_align : cpu->jump_align) == 0,
		    "a jump is aligned");
	fuzz_expect(site->span >= site->length && site->body_off >= site->span, "the body begins after the site");
	fuzz_expect(!cpu->body_follows || site_has_block(site) || site->body_off == site->length,
		    "the body follows the jump");
	fuzz_expect(site->span <= sizeof(site->old), "the bytes of a site are known");
	fuzz_expect(is_loaded(object, file, site->address, site->old, site->span), "a site is code that is loaded");
	fuzz_expect(!site->host_span || (site->kind == SITE_STOCK && site->host_span >= islands.host &&
					 site->host_span >= site->span && site->host_span <= sizeof(site->old)),
		    "an island has room");
	return site->address + (site->host_span ? site->host_span : site->span);
}

static void check_sites(struct object *object, const struct input *file)
{
	const struct object_site *sites;
	size_t count = object_sites(object, &sites), traceable = 0;
	uint64_t lo, hi, end = 0;

	object_extent(object, &lo, &hi);
	fuzz_expect(lo <= hi, "an extent is not turned round");
	for (size_t i = 0; i < count; i++) {
		const struct object_site *site = &sites[i];

		fuzz_expect(object_site_name(object, site) && object_site_short_name(object, site),
			    "a site has a name");
		fuzz_expect(!i || site[-1].address < site->address, "sites are sorted and differ");
		if (site->verdict != SITE_OK)
			continue;
		traceable++;
		end = check_site(object, site, file, end);
	}
	fuzz_expect(traceable == object_traceable(object), "traceable sites are counted");
	object_near(object, &lo, &hi);
	fuzz_expect(hi >= end && (traceable || lo == hi), "stubs are near to the last site");
}

static void check_symbols(struct object *object)
{
	const struct object_symbol *symbols;
	size_t count = object_symbols(object, &symbols);

	for (size_t i = 0; i < count; i++) {
		fuzz_expect(object_symbol_name(object, &symbols[i]) && object_symbol_short_name(object, &symbols[i]),
			    "a symbol has a name");
		fuzz_expect(!i || symbols[i - 1].address < symbols[i].address, "symbols are sorted and differ");
		fuzz_expect(object_symbol_at(object, symbols[i].address) == &symbols[i], "a symbol is found");
	}
}

static void look_up_lines(const struct object *object, const char *path, int fd)
{
	const struct object_symbol *symbols;
	size_t count = object_symbols(object, &symbols);
	struct object_lines *lines;
	const char *file;
	uint32_t line;

	if (object_lines_open(&lines, path, fd))
		return;
	for (size_t i = 0; i < count && i < LINES_MAX; i++)
		if (object_lines_find(lines, symbols[i].address, symbols[i].address + i % 8, &file, &line))
			fuzz_expect(strlen(file) < INPUT_MAX, "a file has a name");
	object_lines_close(lines);
}

static void check_imports(int fd)
{
	struct import_pointer *pointers;
	size_t count;

	if (imports_read(&pointers, &count, fd, imports_names(), CALLTAP_POINTERS_TO))
		return;
	for (size_t i = 0; i < count; i++) {
		fuzz_expect(pointers[i].name < CALLTAP_POINTERS_TO, "a pointer is to a function that was named");
		fuzz_expect(pointers[i].address % 8 == 0, "a pointer can be changed in one go");
		fuzz_expect(!i || pointers[i - 1].address < pointers[i].address, "pointers are sorted and differ");
	}
	free(pointers);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct calltap_diag diag = {0};
	struct object *object;
	int fd = input_file(data, size);
	const char *near[3];
	char path[32], advice[OBJECT_ADVICE_MAX];

	input_path(path, fd);
	object_is_plain_library(fd);
	check_imports(fd);
	if (!object_open(&object, fd, path, &diag)) {
		fuzz_taken = 1;
		check_sites(object, &(struct input){data, size});
		check_symbols(object);
		if (!object_find_stock(object))
			check_sites(object, &(struct input){data, size});
		look_up_lines(object, path, fd);
		object_no_sites_diag(object, &diag);
		object_advise(object, advice);
		fuzz_expect(strlen(advice) < OBJECT_ADVICE_MAX - 1, "advice has room");
		filter_near_misses("functoin", &object, 1, near, 3);
		object_close(object);
	}
	close(fd);
	return 0;
}
