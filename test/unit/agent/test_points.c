/*
 * Points at instructions that are no no-ops: functions of this very program, compiled without room for a site, are led
 * to blocks (src/patch/blocks.c), whose sites are then used like any other's.
 *
 * The functions begin with what is hard to move: addresses relative to the instruction, calls, branches, jumps.
 */
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <cmocka.h>

#include <arch/aarch64/isa/block.h>
#include <arch/riscv64/isa/block.h>
#include <arch/x86_64/isa/block.h>
#include <host/target/images.h>
#include <patch/blocks.h>
#include <patch/poke.h>
#include <patch/sites.h>
#include "support.h"

#if defined(__x86_64__)
#define BLOCK	   x86_block
#define SCRATCH	   0 /* none is taken */
#define SITE_BYTES 5
#elif defined(__aarch64__)
#define BLOCK	   a64_block
#define SCRATCH	   31 /* none is needed: the blocks are near */
#define SITE_BYTES 4
#else
#define BLOCK	   rv_block
#define SCRATCH	   31 /* t6, which compilers take last */
#define SITE_BYTES 8
#endif

#define PAGE	   4096u
#define STEP	   (1u << 16) /* between places that are tried for blocks */
#define TRIES	   64u
#define BLOCK_STEP 256u
#define FIRST_ID   500u
#define RINGS	   8u
#define THREADS	   4u
#define TOGGLES	   3000u
#define ALONE	   __attribute__((noinline, noclone, noipa, aligned(16)))

static volatile int number = 5;

ALONE static int begins_with_an_address(int n)
{
	return number + n;
}

ALONE static int begins_with_a_branch(int n)
{
	if (n == 1000)
		return number;
	return number * n;
}

ALONE static int begins_with_a_call(int n)
{
	return begins_with_an_address(n) + begins_with_a_branch(n);
}

ALONE static int ends_with_a_jump(int n)
{
	int more = number - 4; /* so the function is as long as the longest head */

	return begins_with_a_call(n + more);
}

ALONE static int calls_itself(int n)
{
	int more = number;

	return n ? calls_itself(n - 1) + number + more - 5 : 0; /* a volatile read behind the call: no loop */
}

static const struct {
	int (*function)(int);
	int at_3; /* what it returns for 3 */
} list[] = {
	{begins_with_an_address, 8}, {begins_with_a_branch, 15}, {begins_with_a_call, 23},
	{ends_with_a_jump, 29},	     {calls_itself, 15},
};

#define COUNT	    ((uint32_t)(sizeof(list) / sizeof(list[0])))
#define BLOCKS_SIZE (CALLTAP_BLOCKS_HEAD + COUNT * BLOCK_STEP)

/* A batch of points: their blocks, and the sites that the blocks begin with. */
struct batch {
	struct patch_region blocks;
	struct patch_result stubs;
	struct calltap_site heads[COUNT], sites[COUNT];
	uint32_t first, count; /* of the list */
};

static struct patch_poker poker;
static struct fake_arena fake;

static size_t page_up(size_t size)
{
	return (size + PAGE - 1) & ~(size_t)(PAGE - 1);
}

/* The code of a batch's blocks, as it is to run at address. */
static void make_blocks(struct batch *batch, uint8_t *code, uint64_t address)
{
	memset(code, 0, BLOCKS_SIZE);
	for (uint32_t i = 0; i < batch->count; i++) {
		const uint8_t *from = (const uint8_t *)(uintptr_t)list[batch->first + i].function;
		const struct isa_head head = {.code = from, .size = 64, .from = (uint64_t)from, .scratch = SCRATCH};
		const uint32_t at = CALLTAP_BLOCKS_HEAD + i * BLOCK_STEP;
		struct isa_out out = {code + at, BLOCK_STEP, 0, address + at};
		struct isa_block block;

		assert_int_equal(BLOCK(&out, &block, &head), 0);
		assert_int_equal(block.site, SITE_BYTES);
		assert_true(block.head >= SITE_BYTES && block.head <= sizeof(batch->heads[i].old));
		batch->heads[i] = (struct calltap_site){
			.address = (uint64_t)from,
			.stub_off = at,
			.flags = CALLTAP_SITE_HEAD,
			.length = block.head,
			.body_off = block.head,
		};
		memcpy(batch->heads[i].old, from, block.head);
		batch->sites[i] = (struct calltap_site){
			.address = address + at,
			.id = FIRST_ID + batch->first + i,
			.flags = CALLTAP_SITE_OFF,
			.length = SITE_BYTES,
			.body_off = SITE_BYTES,
		};
		memcpy(batch->sites[i].old, code + at, SITE_BYTES);
	}
}

static int by_address(const void *a, const void *b)
{
	const struct calltap_site *left = a, *right = b;

	return (left->address > right->address) - (left->address < right->address);
}

static void map_blocks(struct batch *batch)
{
	static uint8_t code[BLOCKS_SIZE];
	uint64_t text = (uint64_t)(uintptr_t)list[0].function & ~(uint64_t)(STEP - 1);
	int ret = -EEXIST;

	for (unsigned i = 1; i <= TRIES && ret == -EEXIST; i++) {
		int64_t steps = i % 2 ? -(int64_t)(i + 1) / 2 : i / 2; /* below and above */
		uint64_t address = text + (uint64_t)(steps * STEP);

		make_blocks(batch, code, address);
		ret = patch_blocks_map(&batch->blocks, address, code, sizeof(code));
	}
	assert_int_equal(ret, 0);
	assert_int_equal(patch_blocks_map(&(struct patch_region){0}, batch->blocks.lo, code, sizeof(code)), -EEXIST);
}

static void map_stubs(struct batch *batch, unsigned region)
{
	int64_t gate = (int64_t)((uint64_t)&probe_thread.gate - (uint64_t)__builtin_thread_pointer());
	struct calltap_msg_plan plan = {
		.near_lo = batch->blocks.lo, .near_hi = batch->blocks.hi, .site_count = batch->count};

	assert_int_equal(layout_stubs(ARCH_ELF_MACHINE, batch->sites, batch->count, &plan.stub_bytes), 0);
	assert_int_equal(patch_region_build(&batch->stubs, &plan, batch->sites, gate, 0), 0);
	assert_int_equal(patch_sites_apply(&batch->stubs, &poker, batch->sites, batch->count, NULL), 0);
	assert_int_equal(batch->stubs.patched, batch->count);
	probe_context.regions[region] = (struct probe_region){batch->stubs.region.lo, batch->stubs.region.hi};
	probe_context.region_count = region + 1;
}

/* Points that come now, switched off. */
static void add_batch(struct batch *batch, uint32_t first, uint32_t count, unsigned region)
{
	struct patch_result led;

	*batch = (struct batch){.first = first, .count = count};
	map_blocks(batch);
	map_stubs(batch, region);
	qsort(batch->heads, count, sizeof(batch->heads[0]), by_address);
	assert_int_equal(patch_heads_lead(&led, &poker, &batch->blocks, batch->heads, count, NULL), 0);
	assert_int_equal(led.patched, count);
}

static void switch_all(const struct batch *batch, bool on)
{
	for (uint32_t i = 0; i < batch->count; i++)
		assert_int_equal(patch_site_switch(&poker, &batch->stubs.region, &batch->sites[i], on), 0);
}

/*
 * The heads get their own bytes.  Where a head's jump is of two instructions, the agent leaves it, as a thread may be
 * between them: none is here, so the test writes the bytes.
 */
static void restore_heads(const struct batch *batch)
{
	bool led = memcmp((const void *)batch->heads[0].address, batch->heads[0].old, batch->heads[0].length) != 0;
	bool one = !led || arch_lead_is_one(batch->heads[0].length);
	struct patch_restored restored;

	patch_heads_restore(&restored, &poker, &batch->blocks, batch->heads, batch->count);
	assert_int_equal(restored.restored, one ? batch->count : 0);
	assert_int_equal(restored.left, one ? 0 : batch->count);
	assert_int_equal(restored.leading, one ? 0 : batch->count);
	for (uint32_t i = 0; i < batch->count && !one; i++)
		assert_int_equal(
			patch_poke(&poker, batch->heads[i].address, batch->heads[i].old, batch->heads[i].length), 0);
	patch_heads_restore(&restored, &poker, &batch->blocks, batch->heads, batch->count);
	assert_int_equal(restored.restored, batch->count);
	assert_int_equal(restored.left, 0);
}

static void remove_batch(struct batch *batch)
{
	switch_all(batch, false);
	restore_heads(batch);
	for (uint32_t i = 0; i < batch->count; i++)
		assert_memory_equal((const void *)batch->heads[i].address, batch->heads[i].old, batch->heads[i].length);
	patch_region_unmap(&batch->stubs.region);
	munmap((void *)batch->blocks.lo, page_up(batch->blocks.hi - batch->blocks.lo));
}

static void call_all(void)
{
	for (uint32_t i = 0; i < COUNT; i++)
		assert_int_equal(list[i].function(3), list[i].at_3);
}

/* Records of a kind and id in a ring, whose frames are all closed. */
struct told {
	unsigned entered[COUNT], depth;
};

static void take_word(struct told *told, uint64_t word)
{
	uint32_t id = calltap_record_id(word) - FIRST_ID;

	switch (calltap_record_kind(word)) {
	case CALLTAP_REC_ENTRY:
		told->depth++;
		/* fall through */
	case CALLTAP_REC_TAIL:
		assert_true(id < COUNT);
		told->entered[id]++;
		break;
	case CALLTAP_REC_EXIT:
		assert_true(id < COUNT && told->depth);
		told->depth--;
		break;
	default:
		break;
	}
}

static void read_ring(struct told *told, uint32_t index)
{
	const struct calltap_ring *ring = fake_ring(&fake, index);

	assert_int_equal(ring->lost, 0);
	for (uint64_t at = 0; at < ring->opened; at++) {
		const uint64_t *words = (const uint64_t *)(fake_sub(ring, at) + 1);
		size_t size = (ring->sub_size - sizeof(struct calltap_subbuf)) / sizeof(*words);

		for (size_t i = 0; i < size; i++) {
			unsigned kind = calltap_record_kind(words[i]);

			if (words[i])
				take_word(told, words[i]);
			i += kind == CALLTAP_REC_STACK || kind == CALLTAP_REC_TIME;
		}
	}
	assert_int_equal(told->depth, 0);
}

static int setup(void **state)
{
	patch_poker_open(&poker);
	patch_sync_prepare();
	probe_thread = (struct probe_thread)PROBE_THREAD_NEW;
	fake_arena_create(&fake, CALLTAP_MODE_DROP, RINGS, 1 << 22, 4);
	fake_start(&fake);
	return 0;
}

static int teardown(void **state)
{
	fake_stop();
	probe_context.region_count = 0;
	fake_arena_destroy(&fake);
	return 0;
}

/* Off, on, off, and as if nobody had been there: exactly the calls while it is on are recorded. */
static void a_point_is_a_site(void **state)
{
	struct told told = {0};
	struct batch batch;

	call_all();
	add_batch(&batch, 0, COUNT, 0);
	call_all();
	switch_all(&batch, true);
	call_all();
	call_all();
	switch_all(&batch, false);
	call_all();
	read_ring(&told, 0);
	/* What is called by others: an address and a branch by a call, and that by a jump; itself. */
	assert_int_equal(told.entered[0], 2 * 3);
	assert_int_equal(told.entered[1], 2 * 3);
	assert_int_equal(told.entered[2], 2 * 2);
	assert_int_equal(told.entered[3], 2 * 1);
	assert_int_equal(told.entered[4], 2 * 4);
	remove_batch(&batch);
	call_all();
}

/* Of points that are there, one is switched, and others come. */
static void points_come_at_any_time(void **state)
{
	struct told told = {0};
	struct batch early, late;

	add_batch(&early, 0, 2, 0);
	switch_all(&early, true);
	call_all();
	add_batch(&late, 2, COUNT - 2, 1);
	switch_all(&late, true);
	call_all();
	remove_batch(&early);
	call_all();
	read_ring(&told, 0);
	assert_int_equal(told.entered[0], 2 * 3);
	assert_int_equal(told.entered[2], 2 * 2);
	assert_int_equal(told.entered[4], 2 * 4);
	remove_batch(&late);
	call_all();
}

static void others_bytes_are_left(void **state)
{
	struct patch_restored restored;
	struct patch_result led;
	struct batch batch;
	uint8_t breakpoint[4], byte[4];
	size_t size = code_breakpoint(breakpoint);

	add_batch(&batch, 0, 1, 0);
	/* A head is led once. */
	assert_int_equal(patch_heads_lead(&led, &poker, &batch.blocks, batch.heads, 1, NULL), 0);
	assert_int_equal(led.patched, 0);
	assert_int_equal(led.failed, 1);
	memcpy(byte, (const void *)batch.heads[0].address, size);
	assert_int_equal(patch_poke(&poker, batch.heads[0].address, breakpoint, size), 0);
	patch_heads_restore(&restored, &poker, &batch.blocks, batch.heads, 1);
	assert_int_equal(restored.left, 1);
	assert_int_equal(restored.leading, size > 1);
	assert_memory_equal((const void *)batch.heads[0].address, breakpoint, size);
	/* Where a byte is less than an instruction it is a uprobe's, and the file's will be put back. */
	assert_int_equal(patch_poke(&poker, batch.heads[0].address, size > 1 ? byte : batch.heads[0].old, size), 0);
	restore_heads(&batch);
	/* As one that was there before, so that the head was never led: where a byte is less than an instruction. */
	memcpy(byte, (const void *)batch.heads[0].address, size);
	assert_int_equal(patch_poke(&poker, batch.heads[0].address, breakpoint, size), 0);
	patch_heads_restore(&restored, &poker, &batch.blocks, batch.heads, 1);
	assert_int_equal(restored.left, 1);
	assert_int_equal(restored.leading, size > 1);
	assert_int_equal(patch_poke(&poker, batch.heads[0].address, byte, size), 0);
	remove_batch(&batch);
	call_all();
}

/* An object's memory is gone before the loader's list says so. */
static void gone_heads_lead_nowhere(void **state)
{
	struct patch_restored restored;
	struct calltap_site gone;
	struct batch batch;
	void *page = mmap(NULL, CALLTAP_PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	assert_true(page != MAP_FAILED);
	add_batch(&batch, 0, 1, 0);
	gone = batch.heads[0];
	gone.address = (uint64_t)page;
	assert_int_equal(munmap(page, CALLTAP_PAGE), 0);
	patch_heads_restore(&restored, &poker, &batch.blocks, &gone, 1);
	assert_int_equal(restored.restored, 0);
	assert_int_equal(restored.leading, 0);
	remove_batch(&batch);
}

static volatile bool over;

static void *run(void *arg)
{
	unsigned wrong = 0;

	while (!over)
		for (uint32_t i = 0; i < COUNT; i++)
			wrong += list[i].function(3) != list[i].at_3;
	return (void *)(uintptr_t)wrong;
}

/* Switched all the time while threads run through it: every call is right, and what is recorded is whole. */
static void switched_while_threads_run(void **state)
{
	pthread_t threads[THREADS];
	struct batch batch;
	void *wrong;

	add_batch(&batch, 0, COUNT, 0);
	over = false;
	for (unsigned i = 0; i < THREADS; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, run, NULL), 0);
	for (unsigned i = 0; i < TOGGLES; i++)
		assert_int_equal(
			patch_site_switch(&poker, &batch.stubs.region, &batch.sites[i % COUNT], i / COUNT % 2 == 0), 0);
	over = true;
	for (unsigned i = 0; i < THREADS; i++) {
		assert_int_equal(pthread_join(threads[i], &wrong), 0);
		assert_null(wrong);
	}
	remove_batch(&batch);
	call_all();
}

int main(void)
{
#define case_of(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		case_of(a_point_is_a_site),	  case_of(points_come_at_any_time),    case_of(others_bytes_are_left),
		case_of(gone_heads_lead_nowhere), case_of(switched_while_threads_run),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
