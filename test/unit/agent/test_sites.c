/* Sites on executable pages of the test itself: applied, called, switched off; and the mirror under a stack. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <fcntl.h>
#include <pthread.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include <host/target/images.h>
#include <patch/pages.h>
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
	assert_int_equal(layout_stubs(ARCH_ELF_MACHINE, target->sites, count, &plan.stub_bytes), 0);
	assert_int_equal(patch_region_build(&target->result, &plan, target->sites, gate, 0), 0);
	assert_true(target->result.region.hi > target->result.region.lo);
}

/* Functions with sites of two kinds, gated ones among them; odd ones call the one before. */
static void make(struct target *target)
{
	memset(target, 0, sizeof(*target));
	target->pages = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	assert_ptr_not_equal(target->pages, MAP_FAILED);
	for (uint32_t i = 0; i < FUNCTIONS; i++) {
		target->functions[i] =
			code_write(target->pages + i * CODE_STEP, (int)i, i % 4 < 2 ? CODE_USUAL : CODE_SHORT,
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
	assert_int_equal(patch_sites_apply(&target->result, &poker, target->sites, FUNCTIONS, NULL), 0);
}

static void applied_sites_lead_to_their_stubs(void **state)
{
	struct target target;

	make(&target);
	call_all(&target);
	apply(&target);
	assert_int_equal(target.result.patched, FUNCTIONS);
	assert_int_equal(target.result.failed, 0);
	for (uint32_t i = 0; i < FUNCTIONS; i++)
		assert_true(code_target(&target.sites[i]) == target.result.region.lo + target.sites[i].stub_off);
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
	assert_int_not_equal(patch_site_switch(&poker, &target.result.region, &target.sites[0], false), 0);
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
	for (uint64_t slot = ((uint64_t)__builtin_frame_address(0) & ~(uint64_t)15) - 8, k = 0; k < 2048; k++)
		assert_true(!probe_mirror_is_covered(slot - 16 * k) || *arch_mirror(slot - 16 * k) == 0);
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
	target.sites[6].old[2] ^= 1; /* 6 is a short one, where there are such: its trampoline */
	target.sites[8].length = 1;  /* no length that there is */
	memcpy(before, target.pages, PAGE);
	apply(&target);
	assert_int_equal(target.result.patched, FUNCTIONS - 3);
	assert_int_equal(target.result.failed, 3);
	assert_int_equal(target.result.first_failed_id, 1004);
	assert_int_equal(target.result.skipped, 0);
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
	target.result.region.lo += 4 * ARCH_REACH;
	apply(&target);
	assert_int_equal(target.result.patched, 0);
	assert_int_equal(target.result.failed, FUNCTIONS);
	call_all(&target);
	unmake(&target);
}

/* Does the site's code, when off, look as if nobody had been there? */
static bool is_like_new_when_off(const struct target *target, const struct calltap_site *site)
{
	uint64_t stub = target->result.region.lo + site->stub_off;
	struct arch_write off = arch_site_switch(site->address, site->length, stub, false);
	uint8_t code[ARCH_SITE_MAX];

	arch_site_make(code, site->address, site->length, stub);
	memcpy(code + off.offset, off.bytes, off.size);
	return !memcmp(code, site->old, site->length);
}

static void only_our_own_sites_are_switched(void **state)
{
	struct patch_region elsewhere;
	struct target target;

	make(&target);
	elsewhere = (struct patch_region){target.result.region.lo + PAGE, target.result.region.hi + PAGE, false};
	assert_int_equal(patch_site_switch(&poker, &target.result.region, &target.sites[0], false),
			 is_like_new_when_off(&target, &target.sites[0]) ? 0 : -EINVAL); /* not yet */
	apply(&target);
	for (uint32_t i = 0; i < FUNCTIONS; i++) {
		const struct calltap_site *site = &target.sites[i];
		const uint8_t *at = (const uint8_t *)site->address;
		uint8_t before[CODE_STEP / 2];

		memcpy(before, at, sizeof(before));
		assert_int_equal(patch_site_switch(&poker, &elsewhere, site, false), -EINVAL);
		assert_memory_equal(at, before, sizeof(before)); /* a jump that leads elsewhere is not ours */
		assert_int_equal(patch_site_switch(&poker, &target.result.region, site, true), 0);
		assert_memory_equal(at, before, sizeof(before)); /* the site was on before */
		assert_int_equal(patch_site_switch(&poker, &target.result.region, site, false), 0);
		assert_true(code_target(site) == 0);
		assert_memory_equal(at + site->length, before + site->length, sizeof(before) - site->length);
		assert_int_equal(patch_site_switch(&poker, &target.result.region, site, false), 0);
		if (i % 3)
			continue;
		assert_int_equal(patch_site_switch(&poker, &target.result.region, site, true), 0);
		assert_memory_equal(at, before, sizeof(before));
	}
	call_all(&target);
	unmake(&target);
	/* Unmapped: an error, no crash. */
	assert_int_equal(patch_site_switch(&poker, &target.result.region, &target.sites[0], false), -EINVAL);
}

static void text_is_restored(void **state)
{
	struct patch_restored restored;
	struct patch_pages pages = {0};
	struct target target;
	uint8_t before[PAGE];

	make(&target);
	memcpy(before, target.pages, PAGE);
	for (int again = 0; again < 2; again++) {
		apply(&target);
		assert_int_equal(target.result.patched, (again + 1) * FUNCTIONS);
		for (uint32_t i = 0; i < FUNCTIONS; i += 3)
			assert_int_equal(patch_site_switch(&poker, &target.result.region, &target.sites[i], false), 0);
		patch_sites_restore(&restored, &poker, &target.result.region, target.sites, FUNCTIONS, &pages);
		assert_int_equal(restored.restored, FUNCTIONS);
		assert_int_equal(restored.left, 0);
		assert_memory_equal(target.pages, before, PAGE);
		call_all(&target);
	}
	unmake(&target);
}

/* A debugger's breakpoint on a site, or any other change: the site is its writer's, all others are restored. */
static void foreign_bytes_are_not_restored(void **state)
{
	struct patch_restored restored;
	struct patch_pages pages = {0};
	struct target target;
	uint8_t before[PAGE], breakpoint[4], jump[CODE_STEP], *at;
	size_t size = code_breakpoint(breakpoint);

	make(&target);
	memcpy(before, target.pages, PAGE);
	apply(&target);
	at = (uint8_t *)target.sites[4].address; /* a usual one */
	memcpy(jump, at, sizeof(jump));
	assert_int_equal(patch_poke(&poker, (uint64_t)at, breakpoint, size), 0);
	patch_sites_restore(&restored, &poker, &target.result.region, target.sites, FUNCTIONS, &pages);
	assert_int_equal(restored.restored, FUNCTIONS - 1);
	assert_int_equal(restored.left, 1);
	assert_memory_equal(at, breakpoint, size);
	memcpy(before + (at - target.pages), breakpoint, size);
	memcpy(before + (at - target.pages) + size, jump + size, target.sites[4].length - size);
	assert_memory_equal(target.pages, before, PAGE);
	/* And when the debugger takes its breakpoint away, what it puts back is a jump to a stub that is still there.
	 */
	assert_int_equal(patch_poke(&poker, (uint64_t)at, jump, size), 0);
	call_all(&target);
	unmake(&target);
}

/* Make the functions of make(), and one whose site only its page can restore (where a CPU has such), mapped from a
 * file. */
static void make_in_file(struct target *target)
{
	int fd = memfd_create("text", MFD_CLOEXEC);
	uint64_t offset;

	make(target);
	assert_int_equal(mprotect(target->pages, PAGE, PROT_READ | PROT_WRITE), 0);
	target->functions[0] = code_write(target->pages, 0, CODE_STUBBORN, NULL, &target->sites[0]);
	offset = (uint64_t)target->pages;
	assert_int_equal(write(fd, target->pages, PAGE), PAGE);
	assert_int_equal(munmap(target->pages, PAGE), 0);
	target->pages = mmap(NULL, PAGE, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0);
	assert_ptr_not_equal(target->pages, MAP_FAILED);
	close(fd);
	offset = (uint64_t)target->pages - offset;
	for (uint32_t i = 0; i < FUNCTIONS; i++) {
		target->sites[i].address += offset;
		target->functions[i] = (code_function)((uintptr_t)target->functions[i] + offset);
	}
	build_region(target, FUNCTIONS);
}

/* How many of these sites only their page can restore. */
static uint32_t stubborn(const struct target *target)
{
	struct arch_write writes[ARCH_STEPS_MAX];
	uint32_t count = 0;

	for (uint32_t i = 0; i < FUNCTIONS; i++) {
		uint8_t inert;

		arch_site_restore(writes, target->sites[i].length, target->sites[i].old, &inert);
		count += inert != 0;
	}
	return count;
}

static bool is_copy(const void *page)
{
	uint64_t entry = 0;
	int fd = open("/proc/self/pagemap", O_RDONLY);

	assert_int_equal(pread(fd, &entry, sizeof(entry), (off_t)((uintptr_t)page / PAGE * sizeof(entry))),
			 sizeof(entry));
	close(fd);
	return entry >> 63 && !(entry >> 61 & 1);
}

static void pages_are_given_back(void **state)
{
	struct patch_restored restored;
	struct patch_pages pages;
	struct target target;
	uint8_t before[PAGE];

	make_in_file(&target);
	memcpy(before, target.pages, PAGE);
	patch_pages_note(&pages, &poker, target.sites, FUNCTIONS, true);
	assert_int_equal(pages.count, 1);
	apply(&target);
	assert_int_equal(target.result.patched, FUNCTIONS);
	assert_true(is_copy(target.pages));
	call_all(&target);
	patch_sites_restore(&restored, &poker, &target.result.region, target.sites, FUNCTIONS, &pages);
	assert_int_equal(restored.restored, FUNCTIONS);
	assert_memory_equal(target.pages, before, PAGE);
	assert_false(is_copy(target.pages));
	call_all(&target);
	unmake(&target);
}

/* A breakpoint that came later must not go with the page: then a stubborn site stays switched off. */
static void others_changes_keep_their_page(void **state)
{
	struct patch_restored restored;
	struct patch_pages pages;
	struct target target;

	make_in_file(&target);
	patch_pages_note(&pages, &poker, target.sites, FUNCTIONS, true);
	apply(&target);
	assert_int_equal(patch_poke(&poker, (uint64_t)target.pages + PAGE - 1, "\xcc", 1), 0);
	patch_sites_restore(&restored, &poker, &target.result.region, target.sites, FUNCTIONS, &pages);
	assert_int_equal(restored.restored, FUNCTIONS - stubborn(&target));
	assert_int_equal(restored.left, stubborn(&target));
	assert_int_equal(target.pages[PAGE - 1], 0xcc);
	call_all(&target);
	unmake(&target);
}

/* A page that was no page of the file when it was patched, or is none any more, has contents that no file has. */
static void copies_are_not_given_back(void **state)
{
	struct patch_restored restored;
	struct patch_pages pages;
	struct target target;
	uint8_t before[PAGE];

	make_in_file(&target);
	memcpy(before, target.pages, PAGE);
	assert_int_equal(patch_poke(&poker, (uint64_t)target.pages + PAGE - 1, "\x55", 1),
			 0); /* as the loader relocates */
	patch_pages_note(&pages, &poker, target.sites, FUNCTIONS, true);
	assert_int_equal(pages.count, 0);
	unmake(&target);

	make_in_file(&target);
	memcpy(before, target.pages, PAGE);
	patch_pages_note(&pages, &poker, target.sites, FUNCTIONS, true);
	apply(&target);
	/* The program moves its text to memory of its own, for large pages. */
	memcpy(before, target.pages, PAGE);
	assert_ptr_equal(
		mmap(target.pages, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0),
		target.pages);
	memcpy(target.pages, before, PAGE);
	code_seal(target.pages, PAGE);
	patch_sites_restore(&restored, &poker, &target.result.region, target.sites, FUNCTIONS, &pages);
	assert_int_equal(restored.restored, FUNCTIONS - stubborn(&target));
	call_all(&target);
	unmake(&target);
}

/* Sites around a page that cannot be read: text is rewritten in windows that must not reach over it. */
static void windows_do_not_span_holes(void **state)
{
	struct target target = {0};
	uint8_t *pages = mmap(NULL, 40 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	uint32_t n = 0;

	assert_ptr_not_equal(pages, MAP_FAILED);
	target.pages = pages;
	code_write(pages + PAGE - code_length(CODE_USUAL), 0, CODE_USUAL, NULL,
		   &target.sites[n++]);					       /* a site that ends with its page */
	code_write(pages + 2 * PAGE, 1, CODE_USUAL, NULL, &target.sites[n++]); /* a site right behind the hole */
	code_write(pages + 2 * PAGE + CODE_STEP, 2, CODE_USUAL, NULL, &target.sites[n++]);
	code_write(pages + 39 * PAGE, 3, CODE_USUAL, NULL, &target.sites[n++]); /* more than a window away */
	code_seal(pages, 40 * PAGE);
	assert_int_equal(munmap(pages + PAGE, PAGE), 0);
	build_region(&target, n);
	assert_int_equal(patch_sites_apply(&target.result, &poker, target.sites, n, NULL), 0);
	assert_int_equal(target.result.patched, n);
	for (uint32_t i = 0; i < n; i++)
		assert_true(code_target(&target.sites[i]) == target.result.region.lo + target.sites[i].stub_off);
	for (size_t i = 2 * PAGE + 2 * CODE_STEP; i < 39 * PAGE; i++)
		assert_int_equal(pages[i], 0);
	munmap(pages, 40 * PAGE);
}

/* Sites whose object was unmapped are neither restored nor left. */
static void what_is_unmapped_is_not_left(void **state)
{
	struct patch_restored restored;
	struct target target;

	make(&target);
	apply(&target);
	munmap(target.pages, PAGE);
	patch_sites_restore(&restored, &poker, &target.result.region, target.sites, FUNCTIONS, NULL);
	assert_int_equal(restored.restored, 0);
	assert_int_equal(restored.left, 0);
}

/* Bytes that cannot be read, nor written, still lead to the stubs. */
static void what_cannot_be_restored_leads_on(void **state)
{
	struct patch_poker none = {.mem_fd = -1};
	struct patch_restored restored;
	struct target target;

	make(&target);
	apply(&target);
	patch_sites_restore(&restored, &none, &target.result.region, target.sites, FUNCTIONS, NULL);
	assert_int_equal(restored.restored, 0);
	assert_int_equal(restored.left, FUNCTIONS);
	assert_int_equal(restored.leading, FUNCTIONS);
	call_all(&target);
	patch_sites_restore(&restored, &poker, &target.result.region, target.sites, FUNCTIONS, NULL);
	assert_int_equal(restored.leading, 0);
	unmake(&target);
}

/* A debugger puts back the byte that it found there, which is the first one of a jump to a stub. */
static void a_site_below_a_breakpoint_leads_on(void **state)
{
	struct patch_restored restored;
	struct target target;
	uint8_t byte;

	make(&target);
	apply(&target);
	if (target.sites[0].length > 4) {
		byte = *(const uint8_t *)target.sites[0].address;
		assert_int_equal(patch_poke(&poker, target.sites[0].address, "\xcc", 1), 0);
		patch_sites_restore(&restored, &poker, &target.result.region, target.sites, FUNCTIONS, NULL);
		assert_int_equal(restored.leading, 1);
		assert_int_equal(patch_poke(&poker, target.sites[0].address, &byte, 1), 0);
		call_all(&target);
	}
	patch_sites_restore(&restored, &poker, &target.result.region, target.sites, FUNCTIONS, NULL);
	assert_int_equal(restored.leading, 0);
	unmake(&target);
}

/* A uprobe that came while its site led to a stub, or was off, and has gone, has left the file's first byte there. */
static void sites_whose_first_byte_is_the_files_are_restored(void **state)
{
	struct patch_restored restored;
	struct target target;
	uint8_t before[PAGE];

	make(&target);
	memcpy(before, target.pages, PAGE);
	apply(&target);
	for (uint32_t i = 0; i < FUNCTIONS; i++) {
		uint64_t at = target.sites[i].address;

		if (i % 3 == 1)
			assert_int_equal(patch_site_switch(&poker, &target.result.region, &target.sites[i], false), 0);
		if (i % 3)
			assert_int_equal(patch_poke(&poker, at, before + (at - (uint64_t)target.pages), 1), 0);
	}
	patch_sites_restore(&restored, &poker, &target.result.region, target.sites, FUNCTIONS, NULL);
	assert_int_equal(restored.restored, FUNCTIONS);
	assert_memory_equal(target.pages, before, PAGE);
	call_all(&target);
	unmake(&target);
}

/* Others' code in the place of a site leads to no stub. */
static void others_code_leads_nowhere(void **state)
{
	static const uint8_t code[] = {0x31, 0x32, 0x33, 0x34, 0x35};
	struct patch_restored restored;
	struct target target;

	make(&target);
	apply(&target);
	for (size_t i = 0; i < sizeof(code) && i < target.sites[0].length; i++)
		assert_int_equal(patch_poke(&poker, target.sites[0].address + i, &code[i], 1), 0);
	patch_sites_restore(&restored, &poker, &target.result.region, target.sites, FUNCTIONS, NULL);
	assert_true(restored.left >= 1);
	assert_int_equal(restored.leading, 0);
	unmake(&target);
}

/* A write that ends in the midst of a site, and no other way to write: what was written is taken back. */
static void half_written_sites_are_taken_back(void **state)
{
	struct patch_poker kept = poker;
	struct target target = {0};
	uint8_t *pages = mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	uint8_t before[2 * PAGE];
	char name[64];
	int fd, read_only;

	assert_ptr_not_equal(pages, MAP_FAILED);
	if (code_length(CODE_USUAL) == ARCH_SITE_ALIGN) {
		print_message("no site lies on two pages here\n");
		skip();
	}
	fd = memfd_create("text", MFD_CLOEXEC);
	code_write(pages, 0, CODE_USUAL, NULL, &target.sites[0]);
	code_write(pages + PAGE - ARCH_SITE_ALIGN, 1, CODE_USUAL, NULL, &target.sites[1]);
	assert_int_equal(write(fd, pages + PAGE, PAGE), PAGE);
	snprintf(name, sizeof(name), "/proc/self/fd/%d", fd);
	read_only = open(name, O_RDONLY | O_CLOEXEC);
	assert_true(read_only >= 0);
	code_seal(pages, 2 * PAGE);
	/* Not even a debugger may write to a file through a descriptor that was opened for reading. */
	assert_ptr_equal(mmap(pages + PAGE, PAGE, PROT_READ, MAP_SHARED | MAP_FIXED, read_only, 0), pages + PAGE);
	target.pages = pages;
	build_region(&target, 2);
	memcpy(before, pages, sizeof(before));
	poker.mprotect = -1;
	assert_int_not_equal(patch_sites_apply(&target.result, &poker, target.sites, 2, NULL), 0);
	assert_int_equal(target.result.patched, 0);
	assert_memory_equal(pages, before, sizeof(before));
	poker = kept;
	close(fd);
	close(read_only);
	munmap(pages, 2 * PAGE);
}

static void hopeless_regions_are_refused(void **state)
{
	struct calltap_msg_plan plan = {.near_lo = 1u << 20, .near_hi = (uint64_t)1 << 46, .stub_bytes = PAGE};
	struct patch_result result = {0};

	assert_int_equal(patch_region_build(&result, &plan, NULL, 0, 0), -ENOMEM); /* no region reaches both ends */
	plan.stub_bytes = (uint64_t)1 << 40;
	assert_int_equal(patch_region_build(&result, &plan, NULL, 0, 0), -EINVAL);
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
	uint64_t slot = (uint64_t)0x12345 << GRANULE_BITS | 0x4008;
	struct probe_thread thread = {0};
	uint64_t *theirs = mmap((void *)((uint64_t)arch_mirror(slot) & ~(uint64_t)(PAGE - 1)), PAGE,
				PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);

	assert_ptr_not_equal(theirs, MAP_FAILED);
	*theirs = 4711;
	assert_false(probe_mirror_cover(&thread, slot));
	assert_int_equal(*theirs, 4711);
	munmap(theirs, PAGE);
	assert_false(probe_mirror_cover(&thread, slot)); /* not tried again at each call */
}

/* A second thread, which maps the granule, and loses its CPU for a time. */
static void *lose_the_cpu(void *plane)
{
	nanosleep(&(struct timespec){.tv_nsec = 500000000}, NULL);
	munmap(plane, PAGE);
	__atomic_sub_fetch(&probe_context.wiped->mapping, 1, __ATOMIC_RELEASE);
	return NULL;
}

static void mirror_waits_for_a_thread_that_maps_it(void **state)
{
	uint64_t slot = (uint64_t)0x12367 << GRANULE_BITS | 0x4008;
	struct probe_thread thread = {0};
	void *theirs = mmap((void *)((uint64_t)arch_mirror(slot) & ~(uint64_t)(PAGE - 1)), PAGE, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
	pthread_t other;

	assert_ptr_not_equal(theirs, MAP_FAILED);
	probe_context.wiped->mapping++;
	assert_int_equal(pthread_create(&other, NULL, lose_the_cpu, theirs), 0);
	assert_true(probe_mirror_cover(&thread, slot));
	pthread_join(other, NULL);
	assert_int_equal(probe_context.wiped->mapping, 0);
}

/* A child that was forked in the midst of it has the text as of any step, and takes the rest. */
static void a_hook_is_restored_from_any_step(void **state)
{
	static const uint8_t others[ARCH_HOOK_BYTES] = {0};
	const int all = PROT_READ | PROT_WRITE | PROT_EXEC;
	uint8_t *page = mmap(NULL, PAGE, all, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct arch_write writes[ARCH_STEPS_MAX];
	uint8_t old[ARCH_HOOK_BYTES];
	uint64_t at = (uint64_t)page;
	unsigned count;

	assert_ptr_not_equal(page, MAP_FAILED);
	for (size_t i = 0; i < sizeof(old); i++)
		old[i] = (uint8_t)(0x91 + i);
	count = arch_hook_restore(writes, at, old);
	assert_in_range(count, 1, ARCH_STEPS_MAX);
	for (unsigned taken = 0; taken <= count; taken++) {
		assert_int_equal(mprotect(page, PAGE, all),
				 0); /* an emulator's text is written with its rights changed */
		arch_jump_make(page, at, at + PAGE / 2);
		for (unsigned i = 0; i < taken; i++)
			memcpy(page + writes[i].offset, writes[i].bytes, writes[i].size);
		assert_int_equal(patch_hook_restore(&poker, at, at + PAGE / 2, old), 0);
		assert_memory_equal(page, old, sizeof(old));
	}
	assert_int_equal(mprotect(page, PAGE, all), 0);
	memcpy(page, others, sizeof(others));
	assert_int_equal(patch_hook_restore(&poker, at, at + PAGE / 2, old), -EINVAL);
	assert_memory_equal(page, others, sizeof(others));
	munmap(page, PAGE);
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
		cmocka_unit_test(only_our_own_sites_are_switched),
		cmocka_unit_test(text_is_restored),
		cmocka_unit_test(foreign_bytes_are_not_restored),
		cmocka_unit_test(pages_are_given_back),
		cmocka_unit_test(others_changes_keep_their_page),
		cmocka_unit_test(copies_are_not_given_back),
		cmocka_unit_test(windows_do_not_span_holes),
		cmocka_unit_test(what_is_unmapped_is_not_left),
		cmocka_unit_test(what_cannot_be_restored_leads_on),
		cmocka_unit_test(a_site_below_a_breakpoint_leads_on),
		cmocka_unit_test(sites_whose_first_byte_is_the_files_are_restored),
		cmocka_unit_test(others_code_leads_nowhere),
		cmocka_unit_test(half_written_sites_are_taken_back),
		cmocka_unit_test(a_hook_is_restored_from_any_step),
		cmocka_unit_test(hopeless_regions_are_refused),
		cmocka_unit_test(mirror_covers_a_granule),
		cmocka_unit_test(mirror_waits_for_a_thread_that_maps_it),
		cmocka_unit_test(mirror_does_not_take_memory),
		cmocka_unit_test(fresh_text_can_do_without_the_memory_file),
	};

	return cmocka_run_group_tests(tests, set_up, NULL);
}
