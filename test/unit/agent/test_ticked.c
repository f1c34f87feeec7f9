/*
 * Tracer profile with `--time adaptive`: frames whose clock is the tick (src/probe/profile.c, and the recorders of
 * ticked.S), of functions of this program that let the tick pass where they are told to.
 */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/time.h>

#include <cmocka.h>

#include <probe/unwound.h>
#include "timed.h"

#define STEP	   1000u
#define HISTOGRAMS 8u
#define TICKED	   (CALLTAP_SITE_TIMED | CALLTAP_SITE_PROFILE | CALLTAP_SITE_BRIEF)

enum { LEAF, MIDDLE, RECURSIVE, JUMPS, TAIL, LIMITED, HIDDEN, HANDLED, LOOP, FUNCTIONS };

static struct calltap_times times;
static struct fake_arena fake;
static void *back[5];
static volatile int turns; /* keeps compilers from being clever */

static void pass(int steps)
{
	__atomic_add_fetch(&times.tick, (uint64_t)steps * STEP, __ATOMIC_SEQ_CST);
}

TIMED_SITE static int leaf(int steps)
{
	pass(steps);
	return steps + 1;
}

TIMED_SITE static int middle(int calls)
{
	pass(1);
	for (int i = 0; i < calls; i++)
		turns += leaf(2);
	pass(3);
	return turns;
}

static int recursive(int n);
static int (*volatile again)(int) = recursive; /* or it would become a loop */

TIMED_SITE static int recursive(int n)
{
	pass(1);
	return n ? again(n - 1) + 1 : 0;
}

TIMED_SITE static void jumps(int n)
{
	turns += leaf(5);
	if (n)
		jumps(n - 1);
	__builtin_longjmp(back, 1);
}

TIMED_SITE static int tail(int n)
{
	pass(1);
	return leaf(n);
}

TIMED_SITE static int limited(int n)
{
	return leaf(n) + 1;
}

TIMED_SITE static int hidden(int n)
{
	return leaf(n) + 1;
}

TIMED_SITE static int handled(int n)
{
	pass(1);
	return n + 1;
}

TIMED_SITE static int loop(int n)
{
	turns += leaf(0);
	return turns + n;
}

static const struct timed_function functions[FUNCTIONS] = {
	[LEAF] = {leaf, TICKED},
	[MIDDLE] = {middle, TICKED},
	[RECURSIVE] = {recursive, TICKED},
	[JUMPS] = {jumps, TICKED},
	[TAIL] = {tail, TICKED},
	[LIMITED] = {limited, TICKED | CALLTAP_SITE_FULL_ENTRY | CALLTAP_SITE_FULL_EXIT},
	[HIDDEN] = {hidden, TICKED | CALLTAP_SITE_NOTREE},
	[HANDLED] = {handled, TICKED},
	[LOOP] = {loop, TICKED},
};

static int patch_all(void **state)
{
	timed_patch(functions, FUNCTIONS);
	return 0;
}

static int start(void **state)
{
	times.tick += STEP; /* as a clock, it does not go back: frames of earlier tests have left their times */
	probe_times = &times;
	probe_thread = (struct probe_thread)PROBE_THREAD_NEW;
	timed_profile_start(&fake, 2, FUNCTIONS, HISTOGRAMS);
	return 0;
}

static int stop(void **state)
{
	timed_profile_stop(&fake);
	probe_times = NULL;
	return 0;
}

/* The function has been called so often, and is not open; so many steps were its calls', and its own. */
static void check(uint32_t id, uint64_t calls, uint64_t total, uint64_t self)
{
	const struct calltap_profile_entry *entry = timed_entry(&fake, 0, id);

	assert_int_equal(entry->calls, calls);
	assert_int_equal(entry->outer, 0);
	assert_int_equal(entry->total, total * STEP);
	assert_int_equal(entry->self, self * STEP);
}

static void calls_within_a_tick_are_counted(void **state)
{
	for (int i = 0; i < 1000; i++)
		loop(i);
	check(LOOP, 1000, 0, 0);
	check(LEAF, 1000, 0, 0);
	assert_int_equal(timed_entry(&fake, 0, LEAF)->histogram, 0);
	assert_int_equal(timed_entry(&fake, 0, LEAF)->max, 0);
}

static void steps_are_of_whoever_runs(void **state)
{
	pass(1);
	middle(3);
	pass(7);
	check(MIDDLE, 1, 10, 4);
	check(LEAF, 3, 6, 6);
	leaf(9);
	leaf(0);
	check(LEAF, 5, 15, 15);
	assert_int_equal(timed_entry(&fake, 0, LEAF)->max, 9 * STEP);
	assert_int_equal(timed_histogram_sum(&fake, 0, LEAF), 4); /* the call that took no time has no bucket */
	middle(0);
	check(MIDDLE, 2, 14, 8); /* what an earlier frame's callees took is not this one's */
}

static void recursion_counts_once(void **state)
{
	recursive(9);
	check(RECURSIVE, 10, 10, 10);
	recursive(0);
	recursive(4);
	check(RECURSIVE, 16, 16, 16);
}

static void jumps_end_frames(void **state)
{
	const struct calltap_profile_entry *entry = timed_entry(&fake, 0, JUMPS);

	for (int i = 1; i <= 3; i++) {
		if (!__builtin_setjmp(back))
			jumps(2);
		pass(1);
		leaf(0);
		assert_int_equal(entry->calls + timed_head(&fake, 0)->vanished, 3 * i);
		assert_int_equal(timed_entry(&fake, 0, LEAF)->calls, 4 * i);
		assert_int_equal(timed_entry(&fake, 0, LEAF)->self, 15 * i * STEP);
		assert_true(entry->self <= (uint64_t)i * STEP); /* the steps after the jumps */
	}
	recursive(1);
	check(RECURSIVE, 2, 2, 2);
}

static void tail_calls_end_their_caller(void **state)
{
	tail(2);
	if (timed_entry(&fake, 0, TAIL)->total != STEP)
		skip(); /* the compiler made it an ordinary call */
	check(TAIL, 1, 1, 1);
	check(LEAF, 1, 2, 2);
}

static void other_recorders_have_the_same_clock(void **state)
{
	limited(3);
	check(LIMITED, 1, 3, 0);
	check(LEAF, 1, 3, 3);
	turns += hidden(4);
	assert_int_equal(timed_entry(&fake, 0, HIDDEN)->calls, 0);
}

/* A child takes its table under the tick that its parent's frames have; it counts none of them. */
static void what_was_open_at_a_fork_is_not_counted(void **state)
{
	leaf(0);
	for (int i = 0; i < 3; i++) {
		uint64_t seen = probe_thread.tick;

		probe_table_attach(&probe_thread, fake.arena);
		assert_int_equal(probe_thread.table->claimed, seen + 1);
		assert_int_equal(probe_thread.tick, seen + 1);
		leaf(0);
	}
	check(LEAF, 4, 0, 0);
	pass(2);
	probe_table_attach(&probe_thread, fake.arena);
	assert_int_equal(probe_thread.table->claimed, times.tick);
}

static void callers_of_the_watched_function(void **state)
{
	uint64_t calls = 0, total = 0;

	loop(1);
	calltap_profile_shape(fake_ring(&fake, 0))->watch = LEAF + 1;
	pass(1); /* by the next tick */
	loop(1);
	loop(1);
	middle(2);
	for (uint32_t i = 0; i < 64; i++) {
		calls += timed_caller(&fake, 0, i)->calls;
		total += timed_caller(&fake, 0, i)->total;
	}
	assert_int_equal(calls, 4);
	assert_int_equal(total, 4 * STEP);
	check(LEAF, 5, 4, 4);
}

static void on_alarm(int number)
{
	turns += handled(1);
	turns += leaf(1);
}

static volatile sig_atomic_t alarms;

static void count_alarm(int number)
{
	on_alarm(number);
	alarms++;
}

/* Calls of handlers that come at any time are all counted, with the steps that they take. */
static void handlers_lose_no_call(void **state)
{
	const struct itimerval often = {{0, 500}, {0, 500}}, never = {{0, 0}, {0, 0}};
	struct sigaction action = {.sa_handler = count_alarm};
	uint64_t rounds = 0;

	sigaction(SIGALRM, &action, NULL);
	setitimer(ITIMER_REAL, &often, NULL);
	for (; alarms < 200; rounds++)
		loop(1);
	setitimer(ITIMER_REAL, &never, NULL);
	assert_int_equal(timed_entry(&fake, 0, LOOP)->calls, rounds);
	assert_int_equal(timed_entry(&fake, 0, HANDLED)->calls, alarms);
	assert_int_equal(timed_entry(&fake, 0, LEAF)->calls, rounds + (uint64_t)alarms);
	assert_int_equal(timed_entry(&fake, 0, HANDLED)->self, (uint64_t)alarms * STEP);
	assert_int_equal(timed_entry(&fake, 0, HANDLED)->total, (uint64_t)alarms * STEP);
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, start, stop)
	const struct CMUnitTest tests[] = {
		TEST(calls_within_a_tick_are_counted),
		TEST(steps_are_of_whoever_runs),
		TEST(recursion_counts_once),
		TEST(jumps_end_frames),
		TEST(tail_calls_end_their_caller),
		TEST(other_recorders_have_the_same_clock),
		TEST(what_was_open_at_a_fork_is_not_counted),
		TEST(callers_of_the_watched_function),
		TEST(handlers_lose_no_call),
	};

	return cmocka_run_group_tests(tests, patch_all, NULL);
}
