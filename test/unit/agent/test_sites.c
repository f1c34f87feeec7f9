/* Sites on executable pages of the test itself: applied, called, switched off; and the mirror under a stack. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include <host/record/images.h>
#include "support.h"

#define PAGE	  4096u
#define FUNCTIONS 40u

static struct patch_poker poker;

struct target {
	uint8_t *pages;
	struct calltap_site sites[FUNCTIONS];
	code_function functions[FUNCTIONS];
	struct patch_result result;
};

static void build_region(struct target *target, uint32_t count)
{
	struct calltap_msg_plan plan = {
		.near_lo = (uint64_t)target->pages,
		.near_hi = (uint64_t)target->pages + PAGE,
		.site_count = count,
	};
	int64_t gate = (int64_t)((uint64_t)&probe_thread.gate - (uint64_t)__builtin_thread_pointer());

	for (uint32_t i = 0; i < count; i++)
		target->sites[i].id = 1000 + i;
	assert_int_equal(layout_stubs(target->sites, count, &plan.stub_bytes), 0);
	assert_int_equal(patch_region_build(&target->result, &plan, target->sites, gate), 0);
	assert_true(target->result.region_end > target->result.region);
}

/* Functions of both lengths, gated ones among them; odd ones call the one before. */
static void make(struct target *target)
{
	memset(target, 0, sizeof(*target));
	target->pages = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	assert_ptr_not_equal(target->pages, MAP_FAILED);
	for (uint32_t i = 0; i < FUNCTIONS; i++) {
		target->functions[i] = code_write(target->pages + i * CODE_STEP, (int)i, i % 4 < 2 ? 5 : 2,
						  i % 2 ? target->functions[i - 1] : NULL, &target->sites[i]);
		target->sites[i].flags = (uint16_t)((i % 3 ? 0 : CALLTAP_SITE_GATED) |
						    (i % 5 ? 0 : CALLTAP_SITE_FULL_ENTRY | CALLTAP_SITE_FULL_EXIT));
	}
	code_seal(target->pages, PAGE);
	build_region(target, FUNCTIONS);
}

static void unmake(struct target *target)
{
	munmap(target->pages, PAGE);
	memset(&target->result, 0, sizeof(target->result));
}

static void call_all(const struct target *target)
{
	for (uint32_t i = 0; i < FUNCTIONS; i++)
		assert_int_equal(target->functions[i](100), 100 + (int)i + (i % 2 ? (int)i - 1 : 0));
}

static void apply(struct target *target)
{
	assert_int_equal(patch_sites_apply(&target->result, &poker, target->sites, FUNCTIONS), 0);
}

static void applied_sites_lead_to_their_stubs(void **state)
{
	struct target target;

	make(&target);
	call_all(&target);
	apply(&target);
	assert_int_equal(target.result.patched, FUNCTIONS);
	assert_int_equal(target.result.failed, 0);
	for (uint32_t i = 0; i < FUNCTIONS; i++) {
		const uint8_t *at = (const uint8_t *)target.sites[i].address;
		int32_t distance;

		if (target.sites[i].length == 2) {
			assert_memory_equal(at, "\xeb\xf9", 2); /* back over itself and five bytes */
			at -= 5;
		} else {
			assert_memory_equal(at, "\xe9\x03", 2);
		}
		assert_int_equal(at[0], 0xe9);
		memcpy(&distance, at + 1, sizeof(distance));
		assert_true((uint64_t)at + 5 + (uint64_t)(int64_t)distance ==
			    target.result.region + target.sites[i].stub_off);
	}
	call_all(&target); /* probes are off: stubs lead straight to the bodies */
	unmake(&target);
}

/* Without /proc/self/mem fresh text is written all the same; switching live text off is refused, not tried. */
static void fresh_text_can_do_without_the_memory_file(void **state)
{
	struct patch_poker kept = poker;
	struct target target;

	make(&target);
	poker.mem_fd = -1;
	apply(&target);
	assert_int_equal(target.result.patched, FUNCTIONS);
	call_all(&target);
	assert_int_not_equal(patch_site_off(&poker, target.sites[0].address, target.sites[0].length,
					    target.result.region, target.result.region_end),
			     0);
	call_all(&target);
	poker = kept;
	unmake(&target);
}

/* Each call leaves its ENTRY and its EXIT, nested as it was. */
static void traced_calls_are_recorded(void **state)
{
	const uint64_t *word;
	struct fake_arena fake;
	struct target target;

	make(&target);
	apply(&target);
	fake_arena_create(&fake, CALLTAP_MODE_BLOCK, 1, 8192, 2);
	fake_start(&fake);
	call_all(&target);
	target.functions[0](1); /* by the full recorders, and nothing after it in its slot */
	probe_context.enabled = 0;
	word = (const uint64_t *)(fake_sub(fake_ring(&fake, 0), 0) + 1);
	word += calltap_record_kind(*word) == CALLTAP_REC_STACK ? 2 : 0; /* the thread's first stack */
	for (uint32_t i = 0; i < FUNCTIONS; i++) {
		uint32_t ids[] = {1000 + i, 1000 + i - 1};
		unsigned depth = i % 2 + 1;

		for (unsigned k = 0; k < 2 * depth; k++, word++) {
			unsigned inside = k < depth ? k : 2 * depth - 1 - k;

			assert_int_equal(calltap_record_kind(*word), k < depth ? CALLTAP_REC_ENTRY : CALLTAP_REC_EXIT);
			assert_int_equal(calltap_record_id(*word), ids[inside]);
		}
	}
	assert_int_equal(calltap_record_id(word[0]), 1000);
	assert_int_equal(calltap_record_kind(word[1]), CALLTAP_REC_EXIT);
	assert_true(word[2] == 0);
	/* No return address is left behind: it would look like a live frame. */
	for (uint64_t slot = (uint64_t)__builtin_frame_address(0) & ~(uint64_t)7, k = 0; k < 4096; k++)
		assert_true(!probe_mirror_is_covered(slot - 8 * k) || *arch_mirror(slot - 8 * k) == 0);
	probe_thread.writer->span = probe_thread.writer->span2 = 0; /* the ring goes away */
	probe_thread.writer->ring = NULL;
	fake_arena_destroy(&fake);
	unmake(&target);
}

static void different_bytes_are_left_alone(void **state)
{
	struct target target;
	uint8_t before[PAGE];

	make(&target);
	target.sites[4].old[3] ^= 1;
	target.sites[6].tramp_old[0] ^= 1; /* 6 is a short one */
	target.sites[8].length = 3;	   /* no length that there is */
	memcpy(before, target.pages, PAGE);
	apply(&target);
	assert_int_equal(target.result.patched, FUNCTIONS - 3);
	assert_int_equal(target.result.failed, 3);
	assert_int_equal(target.result.first_failed_id, 1004);
	assert_memory_equal(target.pages + 4 * CODE_STEP, before + 4 * CODE_STEP, CODE_STEP);
	assert_memory_equal(target.pages + 6 * CODE_STEP, before + 6 * CODE_STEP, CODE_STEP);
	assert_memory_equal(target.pages + 8 * CODE_STEP, before + 8 * CODE_STEP, CODE_STEP);
	call_all(&target);
	unmake(&target);
}

static void out_of_reach_is_left_alone(void **state)
{
	struct target target;

	make(&target);
	target.result.region += 4 * ARCH_REACH;
	apply(&target);
	assert_int_equal(target.result.patched, 0);
	assert_int_equal(target.result.failed, FUNCTIONS);
	call_all(&target);
	unmake(&target);
}

static void only_our_own_sites_are_switched_off(void **state)
{
	struct target target;
	uint64_t lo, hi;

	make(&target);
	lo = target.result.region;
	hi = target.result.region_end;
	assert_int_equal(patch_site_off(&poker, target.sites[0].address, 5, lo, hi), -EINVAL); /* not on yet */
	apply(&target);
	for (uint32_t i = 0; i < FUNCTIONS; i++) {
		const struct calltap_site *site = &target.sites[i];
		const uint8_t *at = (const uint8_t *)site->address;
		uint8_t before[2];

		memcpy(before, at, 2);
		assert_int_equal(patch_site_off(&poker, site->address, site->length, hi, hi + PAGE), -EINVAL);
		assert_memory_equal(at, before, 2); /* what leads elsewhere is not ours */
		assert_int_equal(patch_site_off(&poker, site->address, site->length, lo, hi), 0);
		assert_memory_equal(at, site->length == 2 ? "\xeb\x00" : "\xeb\x03", 2);
		assert_int_not_equal(patch_site_off(&poker, site->address, site->length, lo, hi), 0);
	}
	call_all(&target);
	unmake(&target);
	assert_true(patch_site_off(&poker, target.sites[0].address, 5, lo, hi) < 0); /* unmapped: an error, no crash */
}

/* Sites around a page that cannot be read: text is rewritten in windows that must not reach over it. */
static void windows_do_not_span_holes(void **state)
{
	struct target target = {0};
	uint8_t *pages = mmap(NULL, 40 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	uint32_t n = 0;

	assert_ptr_not_equal(pages, MAP_FAILED);
	target.pages = pages;
	code_write(pages + PAGE - 5, 0, 5, NULL, &target.sites[n++]); /* a site that ends with its page */
	memset(pages + PAGE - 5, 0x90, 5);
	code_write(pages + 2 * PAGE, 1, 5, NULL, &target.sites[n++]); /* one right behind the hole */
	code_write(pages + 2 * PAGE + 64, 2, 5, NULL, &target.sites[n++]);
	code_write(pages + 39 * PAGE, 3, 5, NULL, &target.sites[n++]); /* more than a window away */
	code_seal(pages, 40 * PAGE);
	assert_int_equal(munmap(pages + PAGE, PAGE), 0);
	build_region(&target, n);
	assert_int_equal(patch_sites_apply(&target.result, &poker, target.sites, n), 0);
	assert_int_equal(target.result.patched, n);
	for (uint32_t i = 0; i < n; i++)
		assert_memory_equal((const void *)target.sites[i].address, "\xe9\x03", 2);
	for (size_t i = 2 * PAGE + 128; i < 39 * PAGE; i++)
		assert_int_equal(pages[i], 0);
	munmap(pages, 40 * PAGE);
}

static void hopeless_regions_are_refused(void **state)
{
	struct calltap_msg_plan plan = {.near_lo = 1u << 20, .near_hi = (uint64_t)1 << 46, .stub_bytes = PAGE};
	struct patch_result result = {0};

	assert_int_equal(patch_region_build(&result, &plan, NULL, 0), -ENOMEM); /* nothing reaches both ends */
	plan.stub_bytes = (uint64_t)1 << 40;
	assert_int_equal(patch_region_build(&result, &plan, NULL, 0), -EINVAL);
}

static void mirror_covers_a_granule(void **state)
{
	struct probe_thread thread = {0};
	uint64_t slot = (uint64_t)__builtin_frame_address(0) & ~(uint64_t)7;
	uint64_t first = slot >> GRANULE_BITS << GRANULE_BITS, last = first + (1u << GRANULE_BITS) - 8;

	assert_true(probe_mirror_cover(&thread, slot));
	assert_true(probe_mirror_is_covered(first) && probe_mirror_is_covered(last));
	assert_true(thread.granule == slot >> GRANULE_BITS);
	for (uint64_t at = first; at <= last; at += 4088) {
		assert_ptr_not_equal(arch_mirror(at), arch_link(at));
		*arch_mirror(at) = at;
		*arch_link(at) = ~at;
	}
	for (uint64_t at = first; at <= last; at += 4088) {
		assert_true(*arch_mirror(at) == at);
		assert_true(*arch_link(at) == ~at);
		*arch_mirror(at) = 0;
	}
	assert_true(probe_mirror_cover(&thread, slot)); /* again: found, not made anew */
	assert_true(*arch_link(first) == ~first);
	assert_false(probe_mirror_is_covered(first + ((uint64_t)1 << 40)));
	assert_false(probe_mirror_cover(&thread, (uint64_t)1 << 60));
	assert_false(probe_mirror_is_covered(~(uint64_t)0));
}

/* The program's own memory where a plane would go is the program's. */
static void mirror_does_not_take_memory(void **state)
{
	uint64_t slot = (uint64_t)0x123456 << GRANULE_BITS | 0x4008;
	struct probe_thread thread = {0};
	uint64_t *theirs = mmap((void *)((uint64_t)arch_mirror(slot) & ~(uint64_t)(PAGE - 1)), PAGE,
				PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);

	assert_ptr_not_equal(theirs, MAP_FAILED);
	*theirs = 4711;
	assert_false(probe_mirror_cover(&thread, slot));
	assert_int_equal(*theirs, 4711);
	munmap(theirs, PAGE);
	assert_true(probe_mirror_cover(&thread, slot));
}

static int set_up(void **state)
{
	patch_poker_open(&poker);
	return poker.mem_fd < 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(applied_sites_lead_to_their_stubs),
		cmocka_unit_test(traced_calls_are_recorded),
		cmocka_unit_test(different_bytes_are_left_alone),
		cmocka_unit_test(out_of_reach_is_left_alone),
		cmocka_unit_test(only_our_own_sites_are_switched_off),
		cmocka_unit_test(windows_do_not_span_holes),
		cmocka_unit_test(hopeless_regions_are_refused),
		cmocka_unit_test(mirror_covers_a_granule),
		cmocka_unit_test(mirror_does_not_take_memory),
		cmocka_unit_test(fresh_text_can_do_without_the_memory_file),
	};

	return cmocka_run_group_tests(tests, set_up, NULL);
}
