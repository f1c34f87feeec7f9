/*
 * Objects for every CPU, read on this one: where their sites are and why some functions have none, the advice how to
 * build, the size of stubs.  The objects are those of the fuzzer's corpus (test/fuzz/corpus.py says how they were
 * built); CORPUS is its folder.
 */
#include <elf.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <cmocka.h>

#include "arch/aarch64/isa/stub_size.h"
#include "arch/riscv64/isa/stub_size.h"
#include "arch/x86_64/isa/stub_size.h"
#include "host/elf/advice.h"
#include "host/elf/cpu.h"
#include "host/target/images.h"
#include "self.h"

#define HEAD 256 /* bytes of the pointer table in front of the stubs */

static struct object *open_seed(const char *name)
{
	struct calltap_diag diag = {0};
	struct object *object = NULL;
	char path[512];
	int fd;

	snprintf(path, sizeof(path), CORPUS "/%s", name);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (object_open(&object, fd, name, &diag))
		fail_msg("%s: %s", name, diag.text);
	close(fd);
	return object;
}

struct expected {
	const char *symbol;
	enum site_verdict verdict;
	uint8_t offset; /* offset of the site from the symbol */
	uint8_t length, body_off;
};

static void check_sites(const char *name, uint16_t machine, const struct expected *expected, size_t count)
{
	struct object *object = open_seed(name);
	size_t traceable = 0;

	assert_int_equal(object_machine(object), machine);
	for (size_t i = 0; i < count; i++) {
		const struct object_site *site = site_of(object, expected[i].symbol);

		if (!site)
			fail_msg("%s: no site of %s", name, expected[i].symbol);
		if (site->verdict != expected[i].verdict)
			fail_msg("%s: %s %s", name, expected[i].symbol,
				 site_verdict_text((enum site_verdict)site->verdict));
		traceable += site->verdict == SITE_OK;
		if (site->verdict != SITE_OK)
			continue;
		assert_int_equal(site->address - site->function, expected[i].offset);
		assert_int_equal(site->length, expected[i].length);
		assert_int_equal(site->span, expected[i].length);
		assert_int_equal(site->body_off, expected[i].body_off);
		assert_int_equal(site->tramp_off, 0);
	}
	assert_int_equal(object_traceable(object), traceable);
	object_close(object);
}

/* Functions begin at even addresses, jumps lie at multiples of 4, and the body follows at once. */
static void riscv64(void **state)
{
	static const struct expected compressed[] = {
		{"work", SITE_OK, 0, 8, 8},
		{"hidden", SITE_OK, 0, 8, 8},
		{"setjmp", SITE_RETURNS_TWICE, 0, 0, 0},
		{"find", SITE_LOOKS_AT_CALLER, 0, 0, 0}, /* the function ends in a jump to dlsym */
	};
	static const struct expected unaligned[] = {
		{"work", SITE_OK, 0, 8, 8},
		{"hidden", SITE_NOT_ALIGNED, 0, 0, 0},
	};
	static const struct expected four_bytes[] = {
		{"work", SITE_OK, 0, 8, 8},
		{"hidden", SITE_OK, 0, 8, 8},
	};
	static const struct expected landing_pads[] = {
		{"work", SITE_OK, 4, 8, 8},
		{"hidden", SITE_OK, 4, 8, 8},
	};

	check_sites("riscv64.so", EM_RISCV, compressed, 4);
	check_sites("riscv64-unaligned", EM_RISCV, unaligned, 2);
	check_sites("riscv64-clang", EM_RISCV, four_bytes, 2);
	check_sites("riscv64-lpad", EM_RISCV, landing_pads, 2);
}

/* Behind the landing pad, and one instruction only. */
static void aarch64(void **state)
{
	static const struct expected guarded[] = {
		{"work", SITE_OK, 4, 4, 8},
		{"hidden", SITE_OK, 4, 4, 8},
		{"setjmp", SITE_RETURNS_TWICE, 0, 0, 0},
		{"find", SITE_LOOKS_AT_CALLER, 0, 0, 0},
	};
	static const struct expected packed[] = {
		{"work", SITE_OK, 0, 4, 4},
		{"hidden", SITE_OK, 0, 4, 4},
	};
	static const struct expected vectors[] = {
		{"work", SITE_VECTORS, 0, 0, 0},
		{"hidden", SITE_OK, 0, 4, 4},
	};

	check_sites("aarch64.so", EM_AARCH64, guarded, 4);
	check_sites("aarch64-clang", EM_AARCH64, packed, 2);
	check_sites("aarch64-vectors.so", EM_AARCH64, vectors, 2);
}

/* gcc has the unwind table begin behind the no-ops; the last of them is what every caller passes. */
static void stripped(void **state)
{
	struct object *object = open_seed("aarch64-stripped");
	const struct object_site *sites;
	size_t count = object_sites(object, &sites);
	char name[64];

	assert_int_equal(count, 5);
	assert_int_equal(object_traceable(object), 5);
	for (size_t i = 0; i < count; i++) {
		assert_true(sites[i].length == 4 && sites[i].body_off == 4);
		snprintf(name, sizeof(name), "aarch64-stripped+%#llx", (unsigned long long)sites[i].function);
		assert_string_equal(object_site_name(object, &sites[i]), name);
	}
	object_close(object);
}

static void stubs_near(void **state)
{
	struct object *object = open_seed("riscv64.so");
	const struct object_site *sites;
	size_t count = object_sites(object, &sites);
	uint64_t lo, hi, near_lo, near_hi;

	object_extent(object, &lo, &hi);
	object_near(object, &near_lo, &near_hi);
	assert_int_equal(near_lo, lo);
	assert_int_equal(near_hi % 4096, 0);
	for (size_t i = 0; i < count; i++)
		assert_true(sites[i].verdict != SITE_OK || sites[i].address + sites[i].span <= near_hi);
	object_close(object);
	object = open_seed("plain");
	object_near(object, &near_lo, &near_hi);
	assert_int_equal(near_lo, near_hi);
	object_close(object);
}

static void advised(const char *name, const char *text)
{
	struct object *object = open_seed(name);
	char advice[OBJECT_ADVICE_MAX];

	object_advise(object, advice);
	if (text ? !strstr(advice, text) : advice[0])
		fail_msg("%s: \"%s\"", name, advice);
	object_close(object);
}

static void advice(void **state)
{
	static const char *const flags[][2] = {
		{"plain", "; build it with -fpatchable-function-entry=5 ("},
		{"aarch64-mcount.so", "-pg alone, which calls mcount after the frame is set up; build it with "
				      "-fpatchable-function-entry=1 ("},
		{"riscv64.so", "-fpatchable-function-entry=5 ("},
	};

	for (size_t i = 0; i < sizeof(flags) / sizeof(flags[0]); i++) {
		struct object *object = open_seed(flags[i][0]);
		struct calltap_diag diag;

		object_no_sites_diag(object, &diag);
		if (!strstr(diag.text, flags[i][1]))
			fail_msg("want \"%s\", got \"%s\"", flags[i][1], diag.text);
		/* Only one compiler for one CPU has this. */
		assert_int_equal(strstr(diag.text, "-mfentry") != NULL, object_machine(object) == EM_X86_64);
		object_close(object);
	}
	advised("riscv64-unaligned", "1 function begins where too few bytes of the no-ops are aligned for a jump; "
				     "build with -fpatchable-function-entry=5,\nor keep the number and add "
				     "-falign-functions=4\n");
	advised("riscv64.so", NULL);
	advised("aarch64-stripped", NULL);
}

/* x86-64's: one to a unit, and where some have a gate, the others leave its bytes free. */
static void check_units(struct calltap_site *sites, uint64_t bytes)
{
	for (size_t k = 0; k < 5; k++)
		assert_int_equal(sites[k].stub_off, HEAD + k * X86_STUB_UNIT_GATED +
							    (sites[k].flags & CALLTAP_SITE_GATED ? 0 : X86_STUB_GATE));
	assert_int_equal(bytes, 5 * X86_STUB_UNIT_GATED);
	assert_int_equal(layout_stubs(EM_X86_64, sites, 2, &bytes), 0);
	assert_int_equal(sites[0].stub_off, HEAD);
	assert_int_equal(sites[1].stub_off, HEAD + X86_STUB_UNIT);
	assert_int_equal(bytes, 2 * X86_STUB_UNIT);
	/* A leaf has two; beside a gate it is none. */
	sites[0].flags |= CALLTAP_SITE_LEAF;
	assert_int_equal(layout_stubs(EM_X86_64, sites, 2, &bytes), 0);
	assert_int_equal(sites[0].stub_off, HEAD);
	assert_int_equal(sites[1].stub_off, HEAD + X86_STUB_LEAF + X86_STUB_UNIT);
	assert_int_equal(bytes, X86_STUB_LEAF + 2 * X86_STUB_UNIT);
	sites[1].flags |= CALLTAP_SITE_GATED;
	assert_int_equal(layout_stubs(EM_X86_64, sites, 2, &bytes), 0);
	assert_false(sites[0].flags & CALLTAP_SITE_LEAF);
	assert_int_equal(bytes, 2 * X86_STUB_UNIT_GATED);
}

/* The sizes of stubs that the agents write (the agents' own test has the same constants). */
static void stub_sizes(void **state)
{
	static const struct {
		uint16_t machine, call, graph, gate;
	} rows[] = {
		{EM_X86_64, X86_STUB_CALL, X86_STUB_GRAPH, X86_STUB_GATE},
		{EM_RISCV, RV_VENEER + RV_STUB_CALL, RV_VENEER + RV_STUB_GRAPH, RV_STUB_GATE},
		{EM_AARCH64, A64_STUB_CALL, A64_STUB_GRAPH, A64_STUB_GATE},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct calltap_site sites[] = {
			{.flags = 0},
			{.flags = CALLTAP_SITE_CALL},
			{.flags = CALLTAP_SITE_GATED},
			{.flags = CALLTAP_SITE_CALL | CALLTAP_SITE_GATED},
			{.flags = 0},
		};
		uint64_t bytes;

		assert_int_equal(layout_stubs(rows[i].machine, sites, 5, &bytes), 0);
		if (elf_cpu_find(rows[i].machine)->stub_unit) {
			check_units(sites, bytes);
			continue;
		}
		assert_int_equal(sites[1].stub_off - sites[0].stub_off, rows[i].graph);
		assert_int_equal(sites[2].stub_off - sites[1].stub_off, rows[i].call);
		assert_int_equal(sites[3].stub_off - sites[2].stub_off, rows[i].graph + rows[i].gate);
		assert_int_equal(sites[4].stub_off - sites[3].stub_off, rows[i].call + rows[i].gate);
		assert_int_equal(bytes, sites[4].stub_off - sites[0].stub_off + rows[i].graph);
		assert_int_equal(sites[0].stub_off, HEAD + elf_cpu_find(rows[i].machine)->stub_veneer);
		/* Instructions begin where they may. */
		for (size_t k = 0; k < 5; k++)
			assert_int_equal(sites[k].stub_off % elf_cpu_find(rows[i].machine)->code_align, 0);
	}
}

/* What is sent to the agent for the two functions that can be traced. */
static void check_plan(const char *name, uint16_t veneer, uint16_t graph_stub)
{
	struct images images = {.tracer = &tracer_function_graph};
	struct image *image;
	char path[512];
	int fd;

	snprintf(path, sizeof(path), CORPUS "/%s", name);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	assert_int_equal(filter_set_create(&images.filters), 0);
	assert_int_equal(images_get(&image, &images, fd, name, true), 0);
	close(fd);
	assert_non_null(image->object);
	assert_int_equal(image_decide(&images, image), 0);
	assert_int_equal(image->site_count, 2);
	assert_int_equal(image->variants[0].stub_bytes, 2 * (veneer + graph_stub));
	for (uint32_t i = 0; i < 2; i++) {
		const struct calltap_site *site = &image->sites[i];
		const struct object_site *source = image->sources[i];

		assert_int_equal(site->address, source->address);
		assert_int_equal(site->length, source->span);
		assert_int_equal(site->body_off, source->body_off);
		assert_int_equal(site->tramp_off, 0);
		assert_memory_equal(site->old, source->old, site->length);
		assert_int_equal(site->stub_off, HEAD + veneer + i * (veneer + graph_stub));
	}
	images_destroy(&images);
	filter_set_destroy(images.filters);
}

static void plans(void **state)
{
	check_plan("patchable-clang", 0, X86_STUB_UNIT);
	check_plan("riscv64.so", RV_VENEER, RV_STUB_GRAPH);
	check_plan("aarch64.so", 0, A64_STUB_GRAPH);
}

static void known_cpus(void **state)
{
	char names[64], few[8];

	elf_cpu_names(names, sizeof(names));
	assert_string_equal(names, "x86-64, riscv64 or aarch64");
	elf_cpu_names(few, sizeof(few));
	assert_string_equal(few, "x86-64,");
	assert_null(elf_cpu_find(EM_S390));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(riscv64),    cmocka_unit_test(aarch64),    cmocka_unit_test(stripped),
		cmocka_unit_test(stubs_near), cmocka_unit_test(advice),	    cmocka_unit_test(stub_sizes),
		cmocka_unit_test(plans),      cmocka_unit_test(known_cpus),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
