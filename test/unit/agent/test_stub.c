/* Stubs of all kinds, walked through: which recorders they call, which body, and that each of their words is found. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include <arch.h>
#include <calltap/abi/control.h>
#include <calltap/abi/record.h>
#include "recorders.h"
#include "walk.h"

#define ID     0x0abcdefu
#define SLOT   0x7fffffffdc58u
#define CALLER 0x5555555551c4u
#define REGION 0x3f12340000u
#define NEAR   0x4000000u /* within every CPU's reach */

static void check_stub(uint16_t flags, uint64_t stub, uint64_t region, uint64_t site_address, int64_t gate)
{
	struct calltap_site site = {.address = site_address, .id = ID, .flags = flags, .length = 8, .body_off = 8};
	bool gated = flags & CALLTAP_SITE_GATED, call = flags & CALLTAP_SITE_CALL;
	uint64_t body = site_address + site.body_off;
	struct walk walk = {.slot = SLOT, .call = call, .site = body};
	_Alignas(8) uint8_t bytes[128];
	size_t size;

	memset(bytes, 0xcc, sizeof(bytes));
	size = arch_stub_build(bytes, stub, region, &site, gate);
	assert_in_range(size, 1, sizeof(bytes) - 16);
	assert_int_equal(bytes[size], 0xcc);
	walk_begin(&walk, bytes, stub, CALLER);
	while (walk_step(&walk))
		assert_true(walk.code < bytes + size);
	assert_true(walk.gate == (gated ? (uint64_t)gate : 0));
	assert_true(walk.gate_body == (gated ? body : 0));
	assert_true(walk.entry == region + 8 * wanted_entry(flags));
	assert_true(walk.body == body);
	assert_true(walk.exit == (call ? 0 : region + 8 * wanted_exit(flags)));
	assert_true(call ? !walk.back : arch_stub_word((uint64_t)walk.back) == ((uint32_t)CALLTAP_REC_EXIT << 28 | ID));
}

static void all_flags(void **state)
{
	for (uint16_t flags = 0; flags < 1024; flags++) {
		check_stub(flags, REGION + 0x148, REGION, REGION + 0x340140, walk_gates[0]);
		check_stub(flags, REGION + NEAR + 8, REGION, REGION - 0x1000, walk_gates[1]);
		check_stub(flags, 0x60000108, 0x60000000, 0x60401100, walk_gates[0]);
	}
}

/* As far as ARCH_REACH allows, in both directions, no distance may wrap. */
static void at_the_end_of_reach(void **state)
{
	const uint64_t stub = 0x3f12560108;

	check_stub(0, stub, stub & ~0xfffull, stub + ARCH_REACH - 64, walk_gates[0]);
	check_stub(CALLTAP_SITE_GATED, stub, stub & ~0xfffull, stub - ARCH_REACH + 64, walk_gates[1]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(all_flags),
		cmocka_unit_test(at_the_end_of_reach),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
