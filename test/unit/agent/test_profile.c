/*
 * Timed frames: tracer profile's sums, and triggers (src/probe/profile.c, trigger.c, and the recorders of profile.S),
 * of functions of this program, which call each other in all the ways that frames begin and end.
 */
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include <probe/unwound.h>
#include "timed.h"

#define SPIN	   ((uint64_t)40000) /* ticks, far more than a call costs by itself */
#define NEVER	   ((uint64_t)1 << 50)
#define HISTOGRAMS 32u
#define PROFILED   (CALLTAP_SITE_TIMED | CALLTAP_SITE_PROFILE)
#define TRIGGERED  (CALLTAP_SITE_TIMED | CALLTAP_SITE_TRIGGER)

enum {
	LEAF,
	MIDDLE,
	RECURSIVE,
	JUMPS,
	TAIL,
	SWITCHES,
	LIMITED, /* depth, filters: by the full recorders */
	HIDDEN,	 /* --no-graph */
	ROOT,	 /* -g */
	GATED,
	TRIGGER,
	OFTEN,
	TRIGGER_FULL,
	TRIGGER_TAIL,
	FUNCTIONS
};

static jmp_buf back;
static volatile int turns; /* keeps compilers from being clever */

static void spin(uint64_t ticks)
{
	uint64_t start = arch_clock();

	while (arch_clock() - start < ticks)
		turns++;
}

TIMED_SITE static int leaf(int n)
{
	spin(n * SPIN);
	return n + 1;
}

TIMED_SITE static int middle(int n)
{
	spin(SPIN);
	for (int i = 0; i < n; i++)
		turns += leaf(1);
	return turns;
}

static int recursive(int n);
static int (*volatile again)(int) = recursive; /* or it would become a loop */

TIMED_SITE static int recursive(int n)
{
	spin(SPIN);
	return n ? again(n - 1) + 1 : 0;
}

TIMED_SITE static void jumps(int n)
{
	spin(SPIN);
	if (n)
		jumps(n - 1);
	__builtin_longjmp((void **)back, 1);
}

TIMED_SITE static int tail(int n)
{
	spin(SPIN);
	return leaf(n);
}

TIMED_SITE static int limited(int n)
{
	return leaf(n) + 1;
}

TIMED_SITE static int gated(int n)
{
	spin(n * SPIN);
	return n + 1;
}

TIMED_SITE static int hidden(int n)
{
	return gated(n) + 1;
}

TIMED_SITE static int root(int n)
{
	return (n ? hidden(n) : leaf(1)) + 1; /* no tail call */
}

TIMED_SITE static int trigger(int n)
{
	spin(n * SPIN);
	return n + 1;
}

TIMED_SITE static int trigger_tail(int n)
{
	spin(n * SPIN);
	return trigger(0);
}

TIMED_SITE static int often(int n)
{
	return n + 1;
}

TIMED_SITE static int trigger_full(int n)
{
	spin(n * SPIN);
	return n + 1;
}

TIMED_SITE static int switches(int n)
{
	return n;
}

static const struct timed_function functions[FUNCTIONS] = {
	[LEAF] = {leaf, PROFILED},
	[MIDDLE] = {middle, PROFILED},
	[RECURSIVE] = {recursive, PROFILED},
	[JUMPS] = {jumps, PROFILED},
	[TAIL] = {tail, PROFILED},
	[SWITCHES] = {switches, PROFILED},
	[LIMITED] = {limited, PROFILED | CALLTAP_SITE_FULL_ENTRY | CALLTAP_SITE_FULL_EXIT},
	[HIDDEN] = {hidden, PROFILED | CALLTAP_SITE_NOTREE},
	[ROOT] = {root, PROFILED | CALLTAP_SITE_ROOT},
	[GATED] = {gated, PROFILED | CALLTAP_SITE_GATED},
	[TRIGGER] = {trigger, TRIGGERED},
	[TRIGGER_TAIL] = {trigger_tail, TRIGGERED},
	[OFTEN] = {often, TRIGGERED | CALLTAP_SITE_FULL_ENTRY | CALLTAP_SITE_FULL_EXIT},
	[TRIGGER_FULL] = {trigger_full, TRIGGERED | CALLTAP_SITE_FULL_EXIT},
};

static struct fake_arena fake;

static int patch_all(void **state)
{
	timed_patch(functions, FUNCTIONS);
	return 0;
}

static int start(void **state)
{
	probe_thread = (struct probe_thread)PROBE_THREAD_NEW;
	timed_profile_start(&fake, 4, FUNCTIONS, HISTOGRAMS);
	return 0;
}

static int stop(void **state)
{
	timed_profile_stop(&fake);
	probe_context.depth_max = 0;
	probe_context.threshold_ticks = 0;
	return 0;
}

static const struct calltap_profile_entry *entry(uint32_t id)
{
	return timed_entry(&fake, 0, id);
}

/* Check the number of calls, each in the histogram, and that none is open. */
static void check_calls(uint32_t id, uint64_t calls)
{
	assert_int_equal(entry(id)->calls, calls);
	assert_int_equal(timed_histogram_sum(&fake, 0, id), calls);
	assert_int_equal(entry(id)->outer, 0);
}

static void sums_of_calls_and_callees(void **state)
{
	for (int i = 0; i < 5; i++)
		middle(3);
	check_calls(LEAF, 15);
	check_calls(MIDDLE, 5);
	assert_true(entry(LEAF)->total >= 15 * SPIN);
	assert_int_equal(entry(LEAF)->self, entry(LEAF)->total);
	assert_true(entry(LEAF)->max >= SPIN && entry(LEAF)->max <= entry(LEAF)->total);
	assert_true(entry(MIDDLE)->total >= 20 * SPIN);
	assert_true(entry(MIDDLE)->self >= 5 * SPIN);
	/* The time of callees is not self time. */
	assert_int_equal(entry(MIDDLE)->total - entry(MIDDLE)->self, entry(LEAF)->total);
	assert_int_equal(timed_head(&fake, 0)->beyond, 0);
	assert_int_equal(timed_head(&fake, 0)->vanished, 0);
	assert_int_equal(fake_ring(&fake, 0)->opened, 0);
}

/* A duration lies within its bucket. */
static void buckets_hold_what_belongs_there(void **state)
{
	const struct calltap_profile_histogram *histogram;
	uint32_t bucket = 0;

	leaf(1);
	leaf(0); /* a call is in its bucket when the next one ends */
	histogram = (const void *)((const char *)timed_head(&fake, 0) + entry(LEAF)->histogram);
	while (bucket < CALLTAP_PROFILE_BUCKETS && !histogram->calls[bucket])
		bucket++;
	assert_true(bucket < CALLTAP_PROFILE_BUCKETS);
	assert_true(calltap_profile_bucket_start(bucket) <= entry(LEAF)->max);
	assert_true(calltap_profile_bucket_start(bucket + 1) > entry(LEAF)->max);
	for (uint64_t ticks = 0; ticks < (uint64_t)1 << 41; ticks += 1 + ticks / 61) {
		bucket = calltap_profile_bucket(ticks);
		assert_true(calltap_profile_bucket_start(bucket) <= ticks);
		assert_true(ticks < calltap_profile_bucket_start(bucket + 1));
	}
	assert_int_equal(calltap_profile_bucket(~(uint64_t)0), CALLTAP_PROFILE_BUCKETS - 1);
}

/* The total has a recursion once, all else has each call. */
static void recursion_counts_once(void **state)
{
	recursive(9);
	check_calls(RECURSIVE, 10);
	assert_true(entry(RECURSIVE)->total >= 10 * SPIN);
	assert_int_equal(entry(RECURSIVE)->total, entry(RECURSIVE)->max);
	assert_int_equal(entry(RECURSIVE)->self, entry(RECURSIVE)->total);
	recursive(0);
	assert_true(entry(RECURSIVE)->total >= 11 * SPIN);
}

/* Frames that are jumped over end with the jump, or are seen to be gone at the next call. */
static void jumps_end_frames(void **state)
{
	leaf(0);
	if (!__builtin_setjmp((void **)back))
		jumps(2);
	leaf(0);
	/* Some of their places may have been overwritten by then: those are in no sum. */
	assert_int_equal(entry(JUMPS)->calls + timed_head(&fake, 0)->vanished, 3);
	assert_int_equal(entry(JUMPS)->unwound, entry(JUMPS)->calls);
	check_calls(LEAF, 2);
	/* And what was open then is not taken for a recursion's. */
	if (!__builtin_setjmp((void **)back)) {
		uint64_t total = entry(JUMPS)->total;

		probe_thread.stack->low = probe_thread.stack->lowest; /* keeps the compiler from moving things */
		assert_true(total == entry(JUMPS)->total);
		jumps(0);
	}
	recursive(0);
	assert_int_equal(entry(RECURSIVE)->total, entry(RECURSIVE)->max);
}

/* With a jump that the agent hears of, all is known. */
static void announced_jumps_lose_nothing(void **state)
{
	leaf(0);
	probe_jump((uint64_t)__builtin_frame_address(0));
	assert_int_equal(timed_head(&fake, 0)->vanished, 0);
	middle(1);
	check_calls(MIDDLE, 1);
}

static void tail_calls_end_their_caller(void **state)
{
	tail(2);
	check_calls(LEAF, 1);
	assert_int_equal(entry(LEAF)->calls, 1);
	if (!entry(TAIL)->calls)
		skip(); /* the compiler made it an ordinary call */
	check_calls(TAIL, 1);
	assert_true(entry(LEAF)->total >= 2 * SPIN);
	assert_true(entry(TAIL)->self >= SPIN);
}

static void full_recorders_count_alike(void **state)
{
	for (int i = 0; i < 3; i++)
		limited(1);
	check_calls(LIMITED, 3);
	check_calls(LEAF, 3);
	assert_int_equal(entry(LIMITED)->total - entry(LIMITED)->self, entry(LEAF)->total);
}

static void short_calls_are_left_out(void **state)
{
	probe_context.threshold_ticks = NEVER;
	limited(1);
	assert_int_equal(entry(LIMITED)->calls, 0);
	probe_context.threshold_ticks = SPIN / 2;
	limited(1);
	check_calls(LIMITED, 1);
}

static void a_hidden_tree_is_its_callers(void **state)
{
	root(1);
	check_calls(ROOT, 1);
	assert_int_equal(entry(HIDDEN)->calls + entry(GATED)->calls, 0);
	assert_true(entry(ROOT)->self >= SPIN);
	root(0);
	check_calls(ROOT, 2);
}

static void callers_of_the_watched_function(void **state)
{
	uint64_t calls = 0, total = 0, places = 0;

	calltap_profile_shape(fake_ring(&fake, 0))->watch = LEAF + 1;
	leaf(1);
	middle(2);
	assert_int_equal(timed_head(&fake, 0)->watched, LEAF + 1);
	for (uint32_t i = 0; i < calltap_profile_shape(fake_ring(&fake, 0))->callers; i++) {
		const struct calltap_profile_caller *caller = timed_caller(&fake, 0, i);

		calls += caller->calls;
		total += caller->total;
		places += caller->address != 0;
	}
	assert_int_equal(places, 2);
	assert_int_equal(calls, 3);
	assert_int_equal(total, entry(LEAF)->total);
	calltap_profile_shape(fake_ring(&fake, 0))->watch = MIDDLE + 1;
	middle(0);
	calls = 0;
	for (uint32_t i = 0; i < calltap_profile_shape(fake_ring(&fake, 0))->callers; i++)
		calls += timed_caller(&fake, 0, i)->calls;
	assert_int_equal(calls, 1);
}

static void functions_beyond_the_table_are_told(void **state)
{
	stop(NULL);
	probe_thread = (struct probe_thread)PROBE_THREAD_NEW;
	timed_profile_start(&fake, 1, MIDDLE, 1); /* LEAF alone has an entry, and no histogram of its own */
	middle(2);
	check_calls(LEAF, 2);
	assert_int_equal(timed_head(&fake, 0)->beyond, 1);
	assert_int_equal(entry(LEAF)->histogram,
			 calltap_profile_at_histogram(MIDDLE, calltap_profile_shape(fake_ring(&fake, 0))->callers, 0));
}

/* A table whose shape is wrong is not written. */
static void a_table_that_does_not_fit_is_refused(void **state)
{
	calltap_profile_shape(fake_ring(&fake, 0))->functions = 1u << 30;
	leaf(0);
	calltap_profile_shape(fake_ring(&fake, 0))->functions = FUNCTIONS;
	assert_int_equal(entry(LEAF)->calls, 0);
	assert_int_equal(fake.arena->untraced, 1);
}

static void *in_a_thread(void *arg)
{
	middle(1);
	return NULL;
}

static void threads_have_tables_of_their_own(void **state)
{
	pthread_t thread;

	leaf(0);
	assert_int_equal(pthread_create(&thread, NULL, in_a_thread, NULL), 0);
	assert_int_equal(pthread_join(thread, NULL), 0);
	assert_int_equal(timed_entry(&fake, 0, LEAF)->calls, 1);
	assert_int_equal(timed_entry(&fake, 1, LEAF)->calls, 1);
	assert_int_equal(timed_entry(&fake, 1, MIDDLE)->calls, 1);
}

/* The table of a thread that ended within calls goes to another: they are none of its. */
static void calls_of_an_owner_before_are_over(void **state)
{
	struct calltap_profile_entry *left = (struct calltap_profile_entry *)entry(RECURSIVE);

	leaf(0);
	left->outer = (uint64_t)__builtin_frame_address(0) & ~(uint64_t)15;
	left->since = 1;
	recursive(1);
	check_calls(RECURSIVE, 2);
	assert_int_equal(entry(RECURSIVE)->total, entry(RECURSIVE)->max);
}

static volatile sig_atomic_t handled;

static void handler(int number)
{
	turns += leaf(0);
	turns += recursive(1);
	handled++;
}

/* Handlers that are profiled too come in everywhere: no call is lost, none is open at the end. */
static void handlers_lose_no_call(void **state)
{
	/* Under an emulator a handler takes longer than that, and nothing else would run. */
	suseconds_t step = getenv("MESON_EXE_WRAPPER") ? 4999 : 97;
	struct itimerval timer = {{0, step}, {0, step}}, off = {{0, 0}, {0, 0}};
	uint64_t calls = 0;

	signal(SIGALRM, handler);
	setitimer(ITIMER_REAL, &timer, NULL);
	for (; handled < (step > 97 ? 200 : 2000); calls++)
		turns += switches(1);
	setitimer(ITIMER_REAL, &off, NULL);
	signal(SIGALRM, SIG_DFL);
	assert_int_equal(entry(SWITCHES)->calls, calls);
	/* In their histograms some may be in each other's. */
	assert_int_equal(timed_histogram_sum(&fake, 0, SWITCHES) + timed_histogram_sum(&fake, 0, LEAF) +
				 timed_histogram_sum(&fake, 0, RECURSIVE),
			 calls + 3 * (uint64_t)handled);
	assert_int_equal(entry(SWITCHES)->outer | entry(LEAF)->outer | entry(RECURSIVE)->outer, 0);
	assert_int_equal(entry(LEAF)->calls, handled);
	assert_int_equal(entry(RECURSIVE)->calls, 2 * (uint64_t)handled);
	assert_true(entry(RECURSIVE)->self >= 2 * SPIN * (uint64_t)handled);
	assert_true(entry(RECURSIVE)->total <= entry(RECURSIVE)->self);
}

/* Records, with triggers. */
static struct calltap_triggers *start_triggers(void)
{
	struct calltap_triggers *triggers;

	stop(NULL);
	probe_thread = (struct probe_thread)PROBE_THREAD_NEW;
	fake_arena_create(&fake, CALLTAP_MODE_OVERWRITE, 1, 4096, 4);
	fake_start(&fake);
	triggers = timed_triggers(FUNCTIONS, 4);
	triggers->min_gap = 1;
	return triggers;
}

static void end_triggers(void)
{
	assert_int_equal(probe_triggers_set(NULL, 0), 0);
	assert_int_equal(probe_context.timed, 0);
}

static uint32_t records(void)
{
	const uint64_t *word = (const uint64_t *)(fake_sub(fake_ring(&fake, 0), 0) + 1);
	uint32_t count = 0;

	for (; *word; word += calltap_record_words(*word))
		count += calltap_record_kind(*word) == CALLTAP_REC_ENTRY ||
			 calltap_record_kind(*word) == CALLTAP_REC_EXIT;
	return count;
}

static void long_calls_are_told(void **state)
{
	struct calltap_triggers *triggers = start_triggers();
	const struct calltap_event *event = timed_event(triggers, 0);

	timed_limit(triggers, TRIGGER)->ticks = NEVER;
	timed_limit(triggers, TRIGGER_FULL)->ticks = NEVER;
	for (int i = 0; i < 3; i++)
		trigger(0);
	trigger_full(0);
	assert_int_equal(triggers->taken, 0);
	timed_limit(triggers, TRIGGER)->ticks = 3 * SPIN;
	timed_limit(triggers, TRIGGER_FULL)->ticks = 3 * SPIN;
	trigger(4);
	assert_int_equal(triggers->taken, 1);
	assert_int_equal(event->number, 1);
	assert_int_equal(event->function, TRIGGER);
	assert_int_equal(event->kind, CALLTAP_EVENT_LONGER);
	assert_int_equal(event->tid, gettid());
	assert_true(event->exit_ticks - event->entry_ticks > 3 * SPIN);
	assert_true(probe_context.shared.board->doorbell);
	trigger_full(4);
	assert_int_equal(triggers->taken, 2);
	assert_int_equal(timed_event(triggers, 1)->function, TRIGGER_FULL);
	assert_int_equal(records(), 12); /* as ever */
	end_triggers();
}

/* A function that ends with a call in place of a return is left there. */
static void long_calls_that_end_with_another_are_told(void **state)
{
	struct calltap_triggers *triggers = start_triggers();

	timed_limit(triggers, TRIGGER)->ticks = NEVER;
	timed_limit(triggers, TRIGGER_TAIL)->ticks = NEVER;
	trigger_tail(0);
	timed_limit(triggers, TRIGGER_TAIL)->ticks = 2 * SPIN;
	trigger_tail(3);
	timed_limit(triggers, TRIGGER_TAIL)->ticks = NEVER;
	trigger_tail(0);
	assert_int_equal(triggers->taken, 1);
	assert_int_equal(timed_event(triggers, 0)->function, TRIGGER_TAIL);
	assert_true(timed_event(triggers, 0)->exit_ticks - timed_event(triggers, 0)->entry_ticks >= 3 * SPIN);
	end_triggers();
}

/* An entry and its exit, or many calls and those before: the gap is not for those. */
static void what_comes_close_together_is_told(void **state)
{
	struct calltap_triggers *triggers = start_triggers();
	struct calltap_limit *limit = timed_limit(triggers, OFTEN);

	triggers->min_gap = NEVER;
	limit->kinds = CALLTAP_EVENT_ENTERED | CALLTAP_EVENT_LEFT | CALLTAP_EVENT_OFTEN;
	limit->often = 3;
	limit->window = NEVER;
	often(0);
	assert_int_equal(triggers->taken, 2);
	assert_int_equal(timed_event(triggers, 0)->kind, CALLTAP_EVENT_ENTERED);
	assert_int_equal(timed_event(triggers, 1)->kind, CALLTAP_EVENT_LEFT);
	often(0);
	often(0);
	assert_int_equal(triggers->taken, 3);
	assert_int_equal(timed_event(triggers, 2)->kind, CALLTAP_EVENT_OFTEN);
	end_triggers();
}

static void a_flood_is_held_back(void **state)
{
	struct calltap_triggers *triggers = start_triggers();

	timed_limit(triggers, TRIGGER)->ticks = 1;
	triggers->min_gap = NEVER;
	for (int i = 0; i < 5; i++)
		trigger(1);
	assert_int_equal(triggers->taken, 1);
	assert_int_equal(timed_limit(triggers, TRIGGER)->held_back, 4);
	triggers->min_gap = 1;
	for (int i = 0; i < 5; i++)
		trigger(1);
	assert_int_equal(triggers->taken, 4); /* as many as there is room for, until they are read */
	assert_int_equal(triggers->lost, 2);
	triggers->read = 4;
	trigger(1);
	assert_int_equal(triggers->taken, 5);
	assert_int_equal(timed_event(triggers, 0)->number, 5);
	end_triggers();
}

static void other_kinds_of_events(void **state)
{
	struct calltap_triggers *triggers = start_triggers();
	struct calltap_limit *limit = timed_limit(triggers, OFTEN);

	limit->kinds = CALLTAP_EVENT_OFTEN;
	limit->often = 5;
	limit->window = (uint64_t)1 << 40;
	for (int i = 0; i < 4; i++)
		often(1);
	assert_int_equal(triggers->taken, 0);
	often(1);
	assert_int_equal(triggers->taken, 1);
	assert_int_equal(timed_event(triggers, 0)->kind, CALLTAP_EVENT_OFTEN);
	limit->kinds = CALLTAP_EVENT_ENTERED | CALLTAP_EVENT_LEFT;
	spin(1000);
	often(1);
	assert_int_equal(timed_event(triggers, 1)->kind, CALLTAP_EVENT_ENTERED);
	assert_int_equal(triggers->taken, 3);
	assert_int_equal(timed_event(triggers, 2)->kind, CALLTAP_EVENT_LEFT);
	assert_int_equal(timed_event(triggers, 2)->entry_ticks, timed_event(triggers, 1)->entry_ticks);
	end_triggers();
}

/* Files that are not what they should be. */
static void bad_files_are_refused(void **state)
{
	struct calltap_triggers *triggers = start_triggers();
	uint64_t size = calltap_triggers_at_event(FUNCTIONS, 4);

	assert_int_equal(probe_triggers_set(triggers, size - 1), -22);
	triggers->slots = 3;
	assert_int_equal(probe_triggers_set(triggers, size), -22);
	triggers->slots = 4;
	triggers->magic++;
	assert_int_equal(probe_triggers_set(triggers, size), -22);
	triggers->magic--;
	assert_int_equal(probe_triggers_set(triggers, size), 0);
	end_triggers();
}

/* Calls that were open at a fork count in the parent alone. */
static void what_was_open_at_a_fork_is_not_counted(void **state)
{
	struct calltap_profile_entry *at = (struct calltap_profile_entry *)entry(LEAF);

	leaf(0);
	probe_thread.table->claimed = ~(uint64_t)0 >> 1; /* as if the table were a child's, taken after the entry */
	leaf(0);
	assert_int_equal(at->calls, 1);
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, start, stop)
	const struct CMUnitTest tests[] = {
		TEST(sums_of_calls_and_callees),
		TEST(buckets_hold_what_belongs_there),
		TEST(recursion_counts_once),
		TEST(jumps_end_frames),
		TEST(announced_jumps_lose_nothing),
		TEST(tail_calls_end_their_caller),
		TEST(full_recorders_count_alike),
		TEST(short_calls_are_left_out),
		TEST(a_hidden_tree_is_its_callers),
		TEST(callers_of_the_watched_function),
		TEST(functions_beyond_the_table_are_told),
		TEST(a_table_that_does_not_fit_is_refused),
		TEST(threads_have_tables_of_their_own),
		TEST(calls_of_an_owner_before_are_over),
		TEST(handlers_lose_no_call),
		TEST(what_was_open_at_a_fork_is_not_counted),
		TEST(long_calls_are_told),
		TEST(long_calls_that_end_with_another_are_told),
		TEST(what_comes_close_together_is_told),
		TEST(a_flood_is_held_back),
		TEST(other_kinds_of_events),
		TEST(bad_files_are_refused),
	};

	return cmocka_run_group_tests(tests, patch_all, NULL);
}
