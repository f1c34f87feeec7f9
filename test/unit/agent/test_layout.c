/* Where stubs lie: no two overlap, none is larger than its place, and nothing is wasted. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <arch.h>
#include <host/elf/cpu.h>
#include <host/target/images.h>

#define SITES 20000u
#define GATE  64 /* from the thread pointer */

static struct calltap_site *make_sites(uint32_t count, uint32_t step_max, uint32_t align, uint16_t flags)
{
	struct calltap_site *sites = calloc(count, sizeof(*sites));
	uint64_t address = 0x1000;

	assert_non_null(sites);
	srand(7);
	for (uint32_t i = 0; i < count; i++) {
		sites[i] = (struct calltap_site){.address = address,
						 .id = i,
						 .flags = flags,
						 .length = ARCH_SITE_MAX,
						 .body_off = ARCH_SITE_MAX};
		address += align + (uint32_t)rand() % step_max / align * align;
	}
	return sites;
}

/*
 * Every byte of the region belongs to one stub at the most, and where stubs have no units of their own to one;
 * sizes are what the target really builds.
 */
static void check(const struct calltap_site *sites, uint32_t count, uint64_t bytes)
{
	uint8_t *used = calloc(1, ARCH_REGION_HEAD + bytes), code[128];
	bool packed = !elf_cpu_find(ARCH_ELF_MACHINE)->stub_unit;

	assert_non_null(used);
	for (uint32_t i = 0; i < count; i++) {
		size_t size = arch_stub_build(code, 0x100000, 0x100000, &sites[i], GATE);

		assert_true(sites[i].stub_off >= ARCH_REGION_HEAD + ARCH_VENEER_BYTES);
		assert_true(sites[i].stub_off + size <= ARCH_REGION_HEAD + bytes);
		for (size_t k = 0; k < ARCH_VENEER_BYTES + size; k++)
			assert_int_equal(used[sites[i].stub_off - ARCH_VENEER_BYTES + k]++, 0);
	}
	for (uint64_t at = ARCH_REGION_HEAD; at < ARCH_REGION_HEAD + bytes; at++)
		assert_true(used[at] == 1 || !packed);
	free(used);
}

static void lay_out(uint32_t count, uint32_t step_max, uint32_t align, uint16_t flags)
{
	struct calltap_site *sites = make_sites(count, step_max, align, flags);
	uint64_t bytes;

	assert_int_equal(layout_stubs(ARCH_ELF_MACHINE, sites, count, &bytes), 0);
	check(sites, count, bytes);
	free(sites);
}

static void aligned_sites(void **state)
{
	lay_out(SITES, 400, 16, 0);
}

static void random_sites(void **state)
{
	lay_out(SITES, 400, 1, 0);
}

static void all_stub_kinds(void **state)
{
	for (uint16_t flags = 0; flags < 1024; flags++)
		lay_out(500, 300, 1, flags);
}

static void short_sites_between(void **state)
{
	struct calltap_site *sites = make_sites(1000, 100, 1, CALLTAP_SITE_GATED);
	uint64_t bytes;

	for (uint32_t i = 0; i < 1000; i += 3)
		sites[i].length = sites[i].body_off = ARCH_SITE_MIN;
	assert_int_equal(layout_stubs(ARCH_ELF_MACHINE, sites, 1000, &bytes), 0);
	check(sites, 1000, bytes);
	free(sites);
}

static void no_sites(void **state)
{
	uint64_t bytes = 1;

	assert_int_equal(layout_stubs(ARCH_ELF_MACHINE, NULL, 0, &bytes), 0);
	assert_int_equal(bytes, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(aligned_sites),       cmocka_unit_test(random_sites), cmocka_unit_test(all_stub_kinds),
		cmocka_unit_test(short_sites_between), cmocka_unit_test(no_sites),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
