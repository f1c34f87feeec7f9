/* Sites that are led from stub to stub, on executable pages of the test itself: which stub runs, and what is undone. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include <host/target/images.h>
#include <patch/pages.h>
#include "support.h"

#define PAGE	  4096u
#define FUNCTIONS 12u
#define PLANS	  3u /* of the same sites: stubs of three kinds */
#define SECONDS	  20 /* a stub that leads to itself never ends */

static struct patch_poker poker;

static struct target {
	uint8_t *page, before[PAGE];
	code_function functions[FUNCTIONS];
	struct calltap_site sites[PLANS][FUNCTIONS];
	struct patch_region regions[PLANS];
	struct fake_arena fake;
	const uint64_t *next; /* the record that comes next */
} target;

static void build(uint32_t plan)
{
	struct calltap_msg_plan message = {
		.near_lo = (uint64_t)target.page, .near_hi = (uint64_t)target.page + PAGE, .site_count = FUNCTIONS};
	int64_t gate = (int64_t)((uint64_t)&probe_thread.gate - (uint64_t)__builtin_thread_pointer());
	struct patch_result result = {0};

	for (uint32_t i = 0; i < FUNCTIONS; i++) {
		target.sites[plan][i] = target.sites[0][i];
		target.sites[plan][i].id = 100 * plan + i;
		target.sites[plan][i].flags = plan == 1		  ? CALLTAP_SITE_FULL_ENTRY | CALLTAP_SITE_FULL_EXIT
					      : i % 2 == plan / 2 ? CALLTAP_SITE_GATED
								  : 0;
	}
	assert_int_equal(layout_stubs(ARCH_ELF_MACHINE, target.sites[plan], FUNCTIONS, &message.stub_bytes), 0);
	assert_int_equal(patch_region_build(&result, &message, target.sites[plan], gate, 0), 0);
	target.regions[plan] = result.region;
}

/* The object's sites are written as if it had just been loaded. */
static void apply(uint32_t plan)
{
	struct patch_result result = {.region = target.regions[plan]};

	assert_int_equal(patch_sites_apply(&result, &poker, target.sites[plan], FUNCTIONS, NULL), 0);
	assert_int_equal(result.patched, FUNCTIONS);
}

/* The object goes, and comes back to its place. */
static void reload(uint32_t plan)
{
	assert_int_equal(mprotect(target.page, PAGE, PROT_READ | PROT_WRITE), 0);
	memcpy(target.page, target.before, PAGE);
	code_seal(target.page, PAGE);
	apply(plan);
}

static int setup(void **state)
{
	memset(&target, 0, sizeof(target));
	target.page = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	for (uint32_t i = 0; i < FUNCTIONS; i++)
		target.functions[i] = code_write(target.page + i * CODE_STEP, (int)i,
						 i % 4 == 3 ? CODE_SHORT : CODE_USUAL, NULL, &target.sites[0][i]);
	memcpy(target.before, target.page, PAGE);
	code_seal(target.page, PAGE);
	for (uint32_t plan = 0; plan < PLANS; plan++)
		build(plan);
	apply(0);
	fake_arena_create(&target.fake, CALLTAP_MODE_BLOCK, 1, 65536, 2);
	fake_start(&target.fake);
	alarm(SECONDS);
	return 0;
}

static int teardown(void **state)
{
	static const struct probe_thread fresh = PROBE_THREAD_NEW;

	alarm(0);
	fake_stop();
	fake_arena_destroy(&target.fake);
	probe_thread = fresh;
	return munmap(target.page, PAGE);
}

static bool is_call(uint64_t word)
{
	return calltap_record_kind(word) == CALLTAP_REC_ENTRY || calltap_record_kind(word) == CALLTAP_REC_EXIT;
}

static void expect_record(enum calltap_record_kind kind, uint32_t id)
{
	if (!target.next)
		target.next = (const uint64_t *)(fake_sub(fake_ring(&target.fake, 0), 0) + 1);
	while (*target.next && !is_call(*target.next))
		target.next += calltap_record_words(*target.next);
	assert_int_equal(calltap_record_kind(*target.next), kind);
	assert_int_equal(calltap_record_id(*target.next), id);
	target.next++;
}

/* A call runs the stub of that plan, once, and the body. */
static void expect_stub(uint32_t plan, uint32_t place)
{
	assert_int_equal(target.functions[place](100), 100 + (int)place);
	expect_record(CALLTAP_REC_ENTRY, 100 * plan + place);
	expect_record(CALLTAP_REC_EXIT, 100 * plan + place);
}

/* The site is that plan's, and no other's, unless it is off and has the file's bytes then, which are any plan's. */
static void expect_state(uint32_t plan, uint32_t place, enum patch_state state)
{
	const struct calltap_site *site = &target.sites[plan][place];
	bool is_anybodys = !memcmp((const void *)site->address, site->old, site->length);

	for (uint32_t i = 0; i < PLANS; i++)
		assert_int_equal(patch_site_state(&poker, &target.regions[i], &target.sites[i][place]),
				 i == plan || is_anybodys ? state : PATCH_SITE_ALIEN);
	assert_true(state == PATCH_SITE_OFF || !is_anybodys);
}

static bool move(uint32_t from, uint32_t to, uint32_t place)
{
	struct patch_move one = {&target.regions[from], &target.regions[to], &target.sites[from][place],
				 &target.sites[to][place], false};

	patch_sites_move(&poker, &one, 1);
	return one.done;
}

static void move_all(uint32_t from, uint32_t to)
{
	for (uint32_t i = 0; i < FUNCTIONS; i++) {
		assert_true(move(from, to, i));
		expect_state(to, i, PATCH_SITE_ON);
		expect_stub(to, i);
	}
}

static void switch_one(uint32_t plan, uint32_t place, bool on)
{
	assert_int_equal(patch_site_switch(&poker, &target.regions[plan], &target.sites[plan][place], on), 0);
	expect_state(plan, place, on ? PATCH_SITE_ON : PATCH_SITE_OFF);
}

/* From each plan to each other one, from the first and back to it; a site that was off is on after that. */
static void stubs_change(void **state)
{
	static const uint32_t way[] = {0, 1, 2, 0, 2, 1, 0};

	for (size_t k = 1; k < sizeof(way) / sizeof(way[0]); k++) {
		move_all(way[k - 1], way[k]);
		for (uint32_t i = k % 2; i < FUNCTIONS; i += 2) {
			switch_one(way[k], i, false);
			assert_int_equal(target.functions[i](7), 7 + (int)i); /* leaves no record */
		}
	}
}

static void text_is_restored_from_any_plan(void **state)
{
	struct patch_restored restored;
	struct patch_pages pages = {0};

	for (uint32_t last = 0; last < PLANS; last++) {
		uint32_t count = 0;

		for (uint32_t i = 0; last && i < FUNCTIONS; i++) {
			assert_true(move(0, last, i));
			if (i % 3 == 0)
				switch_one(last, i, false);
		}
		for (uint32_t plan = PLANS; plan-- > 0;) {
			patch_sites_restore(&restored, &poker, &target.regions[plan], target.sites[plan], FUNCTIONS,
					    &pages);
			assert_int_equal(restored.leading, 0);
			count = restored.restored;
		}
		assert_int_equal(count, FUNCTIONS);
		assert_memory_equal(target.page, target.before, PAGE);
		apply(0);
		for (uint32_t i = 0; i < FUNCTIONS; i++) {
			expect_state(0, i, PATCH_SITE_ON);
			expect_stub(0, i);
		}
	}
}

/* An object that comes back has the stubs that were in use last, which may have led to others, or others to them. */
static void objects_come_back(void **state)
{
	move_all(0, 1);
	reload(1);
	for (uint32_t i = 0; i < FUNCTIONS; i++)
		expect_stub(1, i);
	move_all(1, 0);
	move_all(0, 2);
	reload(2);
	move_all(2, 1);
	reload(1);
	move_all(1, 2);
	move_all(2, 0);
	reload(0);
	for (uint32_t i = 0; i < FUNCTIONS; i++) {
		expect_state(0, i, PATCH_SITE_ON);
		expect_stub(0, i);
	}
}

static void changed_sites_are_left(void **state)
{
	uint8_t breakpoint[4], now[CODE_STEP], *at = (uint8_t *)target.sites[0][4].address;
	size_t size = code_breakpoint(breakpoint);

	assert_int_equal(patch_poke(&poker, (uint64_t)at, breakpoint, size), 0);
	memcpy(now, at, sizeof(now));
	assert_false(move(0, 1, 4));
	assert_memory_equal(at, now, sizeof(now));
	assert_true(move(0, 1, 5));
	target.sites[1][6].old[0] ^= 1; /* another plan's idea of the text */
	assert_false(move(0, 1, 6));
	expect_stub(0, 6);
}

/* A breakpoint in a stub's first instruction, or in the veneer: nothing is written. */
static void changed_stubs_are_left(void **state)
{
	const uint64_t stub = target.regions[0].lo + target.sites[0][4].stub_off;
	const uint64_t other = target.regions[1].lo + target.sites[1][4].stub_off;
	const uint64_t places[] = {stub, stub - ARCH_VENEER_BYTES, other, other - ARCH_VENEER_BYTES + 4};
	uint8_t breakpoint[4], kept[4], now[CODE_STEP];
	size_t size = code_breakpoint(breakpoint);

	if (!ARCH_VENEER_BYTES)
		skip(); /* sites lead to other stubs by themselves */
	for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
		memcpy(kept, (const void *)places[i], sizeof(kept));
		assert_int_equal(patch_poke(&poker, places[i], breakpoint, size), 0);
		memcpy(now, (const void *)(stub - ARCH_VENEER_BYTES), sizeof(now));
		assert_false(move(0, 1, 4));
		assert_memory_equal((const void *)(stub - ARCH_VENEER_BYTES), now, sizeof(now));
		assert_int_equal(patch_poke(&poker, places[i], kept, sizeof(kept)), 0);
		expect_state(0, 4, PATCH_SITE_ON);
		expect_stub(0, 4);
	}
	assert_true(move(0, 1, 4));
	expect_stub(1, 4);
}

#define case_of(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		case_of(stubs_change),		 case_of(text_is_restored_from_any_plan), case_of(objects_come_back),
		case_of(changed_sites_are_left), case_of(changed_stubs_are_left),
	};

	patch_poker_open(&poker);
	if (poker.mem_fd < 0)
		return 77;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
