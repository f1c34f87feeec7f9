/* Where stubs lie: no two overlap, each keeps its low byte, and little is wasted. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <arch.h>
#include <host/record/images.h>

#define SITES 20000u

static struct calltap_site *make_sites(uint32_t count, uint32_t step_max, uint32_t align, uint16_t flags)
{
	struct calltap_site *sites = calloc(count, sizeof(*sites));
	uint64_t address = 0x1000;

	assert_non_null(sites);
	srand(7);
	for (uint32_t i = 0; i < count; i++) {
		sites[i] =
			(struct calltap_site){.address = address, .id = i, .flags = flags, .length = 5, .body_off = 5};
		address += align + (uint32_t)rand() % step_max / align * align;
	}
	return sites;
}

/* Every byte of the region belongs to one stub at the most; sizes are what the target really builds. */
static void check(const struct calltap_site *sites, uint32_t count, uint64_t bytes)
{
	uint8_t *used = calloc(1, ARCH_REGION_HEAD + bytes), code[64];

	assert_non_null(used);
	for (uint32_t i = 0; i < count; i++) {
		size_t size = arch_stub_build(code, 0x100000, 0x100000, &sites[i], 0);

		assert_true(sites[i].stub_off >= ARCH_REGION_HEAD);
		assert_true(sites[i].stub_off + size <= ARCH_REGION_HEAD + bytes);
		if (sites[i].length == 5)
			assert_int_equal(sites[i].stub_off & 0xff, (sites[i].address + 8) & 0xff);
		for (size_t k = 0; k < size; k++)
			assert_int_equal(used[sites[i].stub_off + k]++, 0);
	}
	free(used);
}

static double density(uint32_t count, uint32_t step_max, uint32_t align, uint16_t flags)
{
	struct calltap_site *sites = make_sites(count, step_max, align, flags);
	uint64_t bytes;

	assert_int_equal(layout_stubs(sites, count, &bytes), 0);
	check(sites, count, bytes);
	free(sites);
	return (double)bytes / count;
}

static void aligned_sites(void **state)
{
	double bytes = density(SITES, 400, 16, 0);

	print_message("16-aligned: %.1f bytes a stub\n", bytes);
	assert_true(bytes <= 34);
}

static void random_sites(void **state)
{
	double bytes = density(SITES, 400, 1, 0);

	print_message("random: %.1f bytes a stub\n", bytes);
	assert_true(bytes <= 34);
}

static void all_stub_kinds(void **state)
{
	for (uint16_t flags = 0; flags < 64; flags++)
		density(500, 300, 1, flags);
}

/* One class only: a stub a row is the best that can be. */
static void one_class(void **state)
{
	struct calltap_site sites[64];
	uint64_t bytes;

	for (uint32_t i = 0; i < 64; i++)
		sites[i] = (struct calltap_site){.address = 0x10f8 + i * 256, .length = 5, .body_off = 5};
	assert_int_equal(layout_stubs(sites, 64, &bytes), 0);
	check(sites, 64, bytes);
	assert_true(bytes <= 65 * 256);
}

static void short_sites_between(void **state)
{
	struct calltap_site *sites = make_sites(1000, 100, 1, CALLTAP_SITE_GATED);
	uint64_t bytes;

	for (uint32_t i = 0; i < 1000; i += 3)
		sites[i].length = sites[i].body_off = 2;
	assert_int_equal(layout_stubs(sites, 1000, &bytes), 0);
	check(sites, 1000, bytes);
	free(sites);
}

static void no_sites(void **state)
{
	uint64_t bytes = 1;

	assert_int_equal(layout_stubs(NULL, 0, &bytes), 0);
	assert_int_equal(bytes, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(aligned_sites),       cmocka_unit_test(random_sites),
		cmocka_unit_test(all_stub_kinds),      cmocka_unit_test(one_class),
		cmocka_unit_test(short_sites_between), cmocka_unit_test(no_sites),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
