/*
 * Rings of further instances: which threads get them, what is recorded there, and what is left of an instance that has
 * ended.
 */
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include <probe/handlers.h>
#include <probe/instances.h>

#include "support.h"

#define FUNCTIONS 16u
#define SLOT	  0x7000u /* of a frame; nothing is read or written there */
#define WANTED	  (WORD_DISPATCHED | WORD_INSTANCES)
/* The word of a function that these instances want; its row says which. */
#define BY_ONE(id)  by(1, id)
#define BY_BOTH(id) by(3, id)

static struct calltap_handled rows[FUNCTIONS];
static struct calltap_roles roles[FUNCTIONS];
static struct probe_handled_table table = {
	.functions = FUNCTIONS, .rows = rows, .row_count = FUNCTIONS, .roles = roles};

static uint32_t by(uint16_t sets, uint32_t id)
{
	rows[id].instances = sets;
	return WANTED | id;
}

struct setup {
	struct fake_arena own, further[PROBE_SETS]; /* by set */
};

/* As the agent begins one. */
static void begin(unsigned set, const struct fake_arena *arena, uint32_t generation)
{
	struct probe_set *at = &probe_context.wiped->sets[set];

	at->arenas[0] = arena->arena;
	at->arena_count = 1;
	probe_context.writers[set].base = probe_context.writers[set].used;
	at->on = generation;
}

static void start(struct setup *setup)
{
	fake_arena_create(&setup->own, CALLTAP_MODE_DROP, 2, 4096, 4);
	fake_start(&setup->own);
	memset(probe_context.writers, 0, sizeof(probe_context.writers));
	for (unsigned set = 1; set < PROBE_SETS; set++) {
		fake_arena_create(&setup->further[set], CALLTAP_MODE_OVERWRITE, 1, 4096, 4);
		begin(set, &setup->further[set], set);
	}
	probe_handled = &table;
	assert_true(probe_thread_attach(&probe_thread));
}

static void end(struct setup *setup)
{
	static const struct probe_thread fresh = PROBE_THREAD_NEW;

	probe_handled_set(NULL);
	fake_stop();
	fake_arena_destroy(&setup->own);
	for (unsigned set = 1; set < PROBE_SETS; set++)
		fake_arena_destroy(&setup->further[set]);
	probe_thread = fresh;
}

/* Records in the first sub-buffer, each `kind << 28 | id`; zero ends them. */
static void expect_records(const struct fake_arena *arena, const uint32_t *expected)
{
	const uint64_t *words = (const uint64_t *)(fake_sub(fake_ring(arena, 0), 0) + 1);
	size_t at = 0;

	for (; *expected; expected++) {
		assert_int_equal(words[at] >> 32, *expected);
		at += calltap_record_words((uint64_t)*expected << 32);
	}
	assert_int_equal(words[at], 0);
}

#define RECORD(kind, id) ((uint32_t)CALLTAP_REC_##kind << CALLTAP_RECORD_ID_BITS | (id))

static void each_records_what_it_wants(void **state)
{
	struct setup setup;
	uint64_t both, one;

	(void)state;
	start(&setup);
	both = probe_instances_enter(&probe_thread, SLOT, BY_BOTH(7), 0x1000);
	one = probe_instances_enter(&probe_thread, SLOT, BY_ONE(8), 0x1000);
	assert_int_equal(probe_instances_enter(&probe_thread, SLOT, 9, 0x1000), 0); /* a stub's own word */
	assert_int_equal(both, FRAME_OF(1) | FRAME_OF(2));
	assert_int_equal(one, FRAME_OF(1));
	assert_int_equal(probe_instances_who(one), CALLTAP_HANDLED_INSTANCES);
	assert_int_equal((both | one) & ~FRAME_FLAGS, 0);
	probe_instances_exit(&probe_thread, SLOT, one, 8);
	probe_instances_exit(&probe_thread, SLOT, both, 7);
	expect_records(&setup.further[1],
		       (uint32_t[]){RECORD(ENTRY, 7), RECORD(ENTRY, 8), RECORD(EXIT, 8), RECORD(EXIT, 7), 0});
	expect_records(&setup.further[2], (uint32_t[]){RECORD(ENTRY, 7), RECORD(EXIT, 7), 0});
	assert_int_equal(fake_ring(&setup.own, 0)->opened, 0);
	end(&setup);
}

static void frames_that_are_gone_are_told(void **state)
{
	struct setup setup;
	struct probe_instances_gone gone = {0};
	uint64_t both, one;

	(void)state;
	start(&setup);
	both = probe_instances_enter(&probe_thread, SLOT, BY_BOTH(7), 0x1000);
	one = probe_instances_enter(&probe_thread, SLOT, BY_ONE(8), 0x1000);
	probe_instances_count(&probe_thread, SLOT, one, &gone);
	probe_instances_count(&probe_thread, SLOT, both, &gone);
	probe_instances_unwound(&probe_thread, &gone);
	expect_records(&setup.further[1], (uint32_t[]){RECORD(ENTRY, 7), RECORD(ENTRY, 8), RECORD(UNWIND, 2), 0});
	expect_records(&setup.further[2], (uint32_t[]){RECORD(ENTRY, 7), RECORD(UNWIND, 1), 0});
	end(&setup);
}

/* Enter a function at a slot for instance 1; the link that its frame has then. */
static uint64_t enter_at(uint64_t slot, uint32_t id)
{
	return probe_instances_enter(&probe_thread, slot, BY_ONE(id), 0x1000);
}

static void leave_at(uint64_t slot, uint64_t link, uint32_t id)
{
	if (link)
		probe_instances_exit(&probe_thread, slot, link, id);
}

static void begin_trees(uint32_t root, uint32_t hidden)
{
	memset(roles, 0, sizeof(roles));
	roles[root].roots = 1;
	roles[hidden].hides = 1;
	probe_context.wiped->sets[1].trees = root != 0;
	probe_context.wiped->sets[1].filtered = 1;
}

/* -g: what a root calls is recorded, until the root's frame ends; a second root within is a call as others. */
static void a_tree_begins_at_its_root_and_ends_with_it(void **state)
{
	struct setup setup;
	uint64_t root, inner;

	(void)state;
	start(&setup);
	begin_trees(5, 0);
	assert_int_equal(enter_at(0x9000, 4), 0);
	root = enter_at(0x8000, 5);
	assert_int_equal(root, FRAME_OF(1));
	inner = enter_at(0x7000, 4);
	leave_at(0x7000, inner, 4);
	inner = enter_at(0x7000, 5);
	leave_at(0x7000, inner, 5);
	inner = enter_at(0x6000, 4);
	leave_at(0x6000, inner, 4);
	leave_at(0x8000, root, 5);
	assert_int_equal(enter_at(0x7000, 4), 0);
	expect_records(&setup.further[1],
		       (uint32_t[]){RECORD(ENTRY, 5), RECORD(ENTRY, 4), RECORD(EXIT, 4), RECORD(ENTRY, 5),
				    RECORD(EXIT, 5), RECORD(ENTRY, 4), RECORD(EXIT, 4), RECORD(EXIT, 5), 0});
	end(&setup);
}

/* --no-graph: neither the function nor what it calls is recorded; its frame has the bit, so that its end is seen. */
static void what_a_function_hides_is_not_recorded(void **state)
{
	struct setup setup;
	uint64_t outer, hiding;

	(void)state;
	start(&setup);
	begin_trees(0, 6);
	outer = enter_at(0x9000, 4);
	hiding = enter_at(0x8000, 6);
	assert_int_equal(hiding, FRAME_OF(1));
	assert_int_equal(enter_at(0x7000, 4), 0);
	assert_int_equal(enter_at(0x7000, 6), 0);
	leave_at(0x8000, hiding, 6);
	leave_at(0x7000, enter_at(0x7000, 4), 4); /* farther in than the frame was that hid calls */
	leave_at(0x9000, outer, 4);
	expect_records(&setup.further[1],
		       (uint32_t[]){RECORD(ENTRY, 4), RECORD(ENTRY, 4), RECORD(EXIT, 4), RECORD(EXIT, 4), 0});
	assert_int_equal(probe_thread.further[0].depth, 0);
	end(&setup);
}

/* A function that hides others keeps trees from beginning below it, inside a tree and outside of all. */
static void what_is_hidden_begins_no_tree(void **state)
{
	struct setup setup;
	uint64_t hiding, root, inner;

	(void)state;
	start(&setup);
	begin_trees(5, 6);
	hiding = enter_at(0x8000, 6);
	assert_int_equal(enter_at(0x7000, 5), 0);
	leave_at(0x8000, hiding, 6);
	root = enter_at(0x8000, 5);
	inner = enter_at(0x7000, 6);
	assert_int_equal(enter_at(0x6000, 4), 0);
	leave_at(0x7000, inner, 6);
	leave_at(0x8000, root, 5);
	expect_records(&setup.further[1], (uint32_t[]){RECORD(ENTRY, 5), RECORD(EXIT, 5), 0});
	end(&setup);
}

/* Frames that are gone end their filters; a frame without an ENTRY is not told. */
static void frames_that_are_gone_end_their_filters(void **state)
{
	struct probe_instances_gone gone = {0};
	struct setup setup;
	uint64_t root, hiding;

	(void)state;
	start(&setup);
	begin_trees(5, 6);
	root = enter_at(0x8000, 5);
	hiding = enter_at(0x7000, 6);
	probe_instances_count(&probe_thread, 0x7000, hiding, &gone);
	probe_instances_count(&probe_thread, 0x8000, root, &gone);
	probe_instances_unwound(&probe_thread, &gone);
	assert_int_equal(enter_at(0x6000, 4), 0);
	leave_at(0x6000, enter_at(0x6000, 5), 5);
	expect_records(&setup.further[1],
		       (uint32_t[]){RECORD(ENTRY, 5), RECORD(UNWIND, 1), RECORD(ENTRY, 5), RECORD(EXIT, 5), 0});
	assert_int_equal(probe_thread.further[0].depth, 0);
	end(&setup);
}

/* A filter whose frame was never linked, for a handler has jumped away, ends with the next call outside of it. */
static void a_filter_without_a_frame_is_found_out(void **state)
{
	static struct probe_stack stack = {.lowest = 0x1000, .end = 0x10000};
	struct setup setup;

	(void)state;
	start(&setup);
	begin_trees(5, 6);
	probe_thread.stack = &stack;
	assert_int_not_equal(enter_at(0x5000, 5), 0); /* its frame is lost */
	assert_int_equal(enter_at(0x6000, 4), 0);
	assert_int_not_equal(enter_at(0x5000, 6), 0);
	assert_int_not_equal(enter_at(0x6000, 5), 0);
	expect_records(&setup.further[1], (uint32_t[]){RECORD(ENTRY, 5), RECORD(ENTRY, 5), 0});
	probe_thread.stack = &probe_stack_none;
	end(&setup);
}

static void calls_have_their_caller_and_no_frame(void **state)
{
	struct setup setup;
	const uint64_t *words;

	(void)state;
	start(&setup);
	probe_context.wiped->sets[1].calls = 1;
	assert_int_equal(probe_instances_enter(&probe_thread, SLOT, BY_ONE(7), 0x1234), 0);
	probe_instances_call(&probe_thread, BY_BOTH(8), 0x5678);
	expect_records(&setup.further[1], (uint32_t[]){RECORD(CALL, 7), RECORD(CALL, 8), 0});
	words = (const uint64_t *)(fake_sub(fake_ring(&setup.further[1], 0), 0) + 1);
	assert_int_equal(words[1], 0x1234);
	assert_int_equal(words[3], 0x5678);
	assert_int_equal(fake_ring(&setup.further[2], 0)->opened, 0); /* the ring would miss the exit */
	end(&setup);
}

/* An ended instance's rings, writers and open frames do not go to the next instance. */
static void one_that_has_ended_leaves_nothing_to_the_next(void **state)
{
	struct fake_arena next;
	struct probe_instances_gone gone = {0};
	struct ring_writer *writer;
	struct setup setup;
	uint64_t link;

	(void)state;
	start(&setup);
	link = probe_instances_enter(&probe_thread, SLOT, BY_ONE(7), 0x1000);
	writer = probe_thread.further[0].writer;
	assert_true(writer->ring == fake_ring(&setup.further[1], 0));
	probe_context.wiped->sets[1].on = 0;
	assert_int_equal(probe_instances_enter(&probe_thread, SLOT, BY_ONE(8), 0x1000), 0);
	probe_instances_exit(&probe_thread, SLOT, link, 7);
	expect_records(&setup.further[1], (uint32_t[]){RECORD(ENTRY, 7), 0});
	fake_arena_create(&next, CALLTAP_MODE_DROP, 1, 4096, 4);
	begin(1, &next, PROBE_SETS);
	probe_instances_exit(&probe_thread, SLOT, link, 7); /* it was entered before */
	assert_int_equal(fake_ring(&next, 0)->opened, 0);
	assert_int_not_equal(probe_instances_enter(&probe_thread, SLOT, BY_ONE(9), 0x1000), 0);
	expect_records(&next, (uint32_t[]){RECORD(ENTRY, 9), 0});
	assert_ptr_not_equal(probe_thread.further[0].writer, writer);
	probe_instances_exit(&probe_thread, SLOT, FRAME_OF(1), 9);
	probe_instances_exit(&probe_thread, SLOT, link, 7); /* nor when frames of the next one's have come and gone */
	gone.sets = 1;
	gone.counts[1] = 1;
	probe_instances_unwound(&probe_thread, &gone);
	expect_records(&next, (uint32_t[]){RECORD(ENTRY, 9), RECORD(EXIT, 9), 0});
	/* Its function calls another one as its last: that is where the next one's call begins. */
	link = probe_instances_tail(&probe_thread, SLOT, link, BY_ONE(10), 0, 0x1000);
	assert_int_equal(link, FRAME_OF(1));
	expect_records(&next, (uint32_t[]){RECORD(ENTRY, 9), RECORD(EXIT, 9), RECORD(ENTRY, 10), 0});
	end(&setup);
	fake_arena_destroy(&next);
}

static void without_a_ring_nothing_is_recorded(void **state)
{
	struct setup setup;

	(void)state;
	start(&setup);
	setup.further[1].arena->state[0] = CALLTAP_RING_OUT;
	assert_int_equal(probe_instances_enter(&probe_thread, SLOT, BY_ONE(7), 0x1000), 0);
	assert_int_equal(setup.further[1].arena->starved, 1);
	assert_int_equal(setup.own.arena->starved, 0);
	end(&setup);
}

static struct probe_thread *recorder; /* atomic */
static uint64_t left_sharing;

static void *record_until_it_waits(void *arg)
{
	const struct calltap_ring *ring = arg;

	assert_true(probe_thread_attach(&probe_thread));
	__atomic_store_n(&recorder, &probe_thread, __ATOMIC_RELEASE);
	while (ring->opened <= ring->sub_count)
		assert_int_not_equal(probe_instances_enter(&probe_thread, SLOT, BY_ONE(7), 0x1000), 0);
	left_sharing = probe_thread.sharing;
	return NULL;
}

/* The agent must not unmap what a thread is writing to, however long that takes. */
static void who_is_at_it_can_be_seen(void **state)
{
	struct fake_arena waiting;
	struct probe_thread *thread;
	struct calltap_ring *ring;
	struct setup setup;
	pthread_t other;

	(void)state;
	start(&setup);
	fake_arena_create(&waiting, CALLTAP_MODE_BLOCK, 1, 4096, 4);
	begin(1, &waiting, PROBE_SETS);
	ring = fake_ring(&waiting, 0);
	assert_int_equal(pthread_create(&other, NULL, record_until_it_waits, ring), 0);
	while (!__atomic_load_n(&ring->waiting, __ATOMIC_ACQUIRE))
		sched_yield();
	thread = __atomic_load_n(&recorder, __ATOMIC_ACQUIRE);
	assert_int_equal(__atomic_load_n(&thread->sharing, __ATOMIC_RELAXED), 1);
	assert_int_equal(probe_thread.sharing, 0);
	__atomic_store_n(&ring->released, 4, __ATOMIC_RELEASE);
	assert_int_equal(pthread_join(other, NULL), 0);
	assert_int_equal(left_sharing, 0);
	end(&setup);
	fake_arena_destroy(&waiting);
}

/* All that records for them counts itself in and out, whatever becomes of the record. */
static void nobody_stays_counted_in(void **state)
{
	const struct probe_instances_gone gone = {.sets = 3, .counts = {0, 1, 1}};
	struct setup setup;
	uint64_t both;

	(void)state;
	start(&setup);
	both = probe_instances_enter(&probe_thread, SLOT, BY_BOTH(7), 0x1000);
	assert_int_equal(probe_thread.sharing, 0);
	probe_instances_exit(&probe_thread, SLOT, both, 7);
	probe_instances_unwound(&probe_thread, &gone);
	probe_context.wiped->sets[1].on = probe_context.wiped->sets[2].on = 0;
	assert_int_equal(probe_instances_enter(&probe_thread, SLOT, BY_BOTH(7), 0x1000), 0);
	probe_instances_call(&probe_thread, BY_BOTH(7), 0x1000);
	probe_instances_exit(&probe_thread, SLOT, both, 7);
	probe_instances_unwound(&probe_thread, &gone);
	assert_int_equal(probe_thread.sharing, 0);
	end(&setup);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_records_what_it_wants),
		cmocka_unit_test(frames_that_are_gone_are_told),
		cmocka_unit_test(a_tree_begins_at_its_root_and_ends_with_it),
		cmocka_unit_test(what_a_function_hides_is_not_recorded),
		cmocka_unit_test(what_is_hidden_begins_no_tree),
		cmocka_unit_test(frames_that_are_gone_end_their_filters),
		cmocka_unit_test(a_filter_without_a_frame_is_found_out),
		cmocka_unit_test(calls_have_their_caller_and_no_frame),
		cmocka_unit_test(one_that_has_ended_leaves_nothing_to_the_next),
		cmocka_unit_test(without_a_ring_nothing_is_recorded),
		cmocka_unit_test(who_is_at_it_can_be_seen),
		cmocka_unit_test(nobody_stays_counted_in),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
