/* How long functions take from one record to the next, as measured by the records that have times (weights.h). */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <calltap/abi/record.h>
#include <host/trace/reader.h>
#include <host/trace/weights.h>

enum { CALLER, LEAF, JUMPS, FUNCTIONS };

#define SPAN 10000
#define DEEP 4000000

static struct weighing *weighing;
static uint64_t now;

/* Brief records, which are noted together: up to the next record with a time, or fewer. */
enum { HEADS = 5 };
static uint32_t heads[HEADS], heads_used;

static uint32_t brief_head(unsigned kind, uint32_t id)
{
	if (kind == CALLTAP_REC_EXIT)
		return (uint32_t)CALLTAP_REC_BRIEF_EXIT << CALLTAP_RECORD_ID_BITS | id;
	return (uint32_t)CALLTAP_REC_BRIEF_ENTRY << CALLTAP_RECORD_ID_BITS | id |
	       (kind == CALLTAP_REC_TAIL ? CALLTAP_BRIEF_TAIL : 0);
}

static void note_heads(void)
{
	assert_int_equal(weighing_note_brief(weighing, 0, (const unsigned char *)heads, heads_used), 0);
	heads_used = 0;
}

static void note(unsigned kind, uint32_t id, uint64_t after, bool brief)
{
	struct trace_event event = {.kind = (uint8_t)kind, .id = id};

	now += after;
	event.ticks = now;
	if (brief && heads_used == HEADS)
		note_heads();
	if (brief) {
		heads[heads_used++] = brief_head(kind, id);
		return;
	}
	note_heads();
	assert_int_equal(weighing_note(weighing, &event), 0);
}

static int begin(void **state)
{
	(void)state;
	now = 1000;
	heads_used = 0;
	assert_int_equal(weighing_create(&weighing, FUNCTIONS, 1, SPAN), 0);
	note(CALLTAP_REC_ENTRY, CALLER, 0, false);
	return 0;
}

static struct weights settled(void)
{
	struct weights weights = {0};

	note_heads();
	assert_int_equal(weighing_settle(weighing, &weights), 0);
	assert_true(weights.ready);
	return weights;
}

static int end(void **state)
{
	(void)state;
	weighing_destroy(weighing);
	return 0;
}

static void expect(double ticks, double want)
{
	assert_true(ticks > want * 0.999 && ticks < want * 1.001);
}

static void discard(struct weights *weights)
{
	free(weights->ticks);
	free(weights->rare);
}

/* One call of LEAF; the caller takes `before` up to it, and both records have times. */
static void timed_call(uint64_t before, uint64_t takes)
{
	note(CALLTAP_REC_ENTRY, LEAF, before, false);
	note(CALLTAP_REC_EXIT, LEAF, takes, false);
}

static void brief_calls(unsigned count, uint64_t before, uint64_t takes)
{
	for (unsigned i = 0; i < count; i++) {
		note(CALLTAP_REC_ENTRY, LEAF, before, true);
		note(CALLTAP_REC_EXIT, LEAF, takes, true);
	}
}

static void pieces_have_their_mean(void **state)
{
	struct weights weights;

	(void)state;
	for (unsigned i = 0; i < 10; i++)
		timed_call(20, i % 2 ? 100 : 140);
	weights = settled();
	expect(weights.ticks[CALLER], 20);
	expect(weights.ticks[LEAF], 120);
	assert_true(weights.rare[CALLER] == 0 && weights.rare[LEAF] == 0);
	assert_true(weights.ticks[JUMPS] == 0);
	expect(weights.table.other, 70);
	discard(&weights);
}

static void long_call(uint64_t before)
{
	note(CALLTAP_REC_ENTRY, JUMPS, before, false);
	note(CALLTAP_REC_EXIT, JUMPS, 2000, false);
}

/*
 * A tick passes in a long call, and the next brief function's entry has a time for this reason: its recorder takes a
 * detour before it reads the clock, and goes on for a while after that.
 */
static void what_a_tick_costs_behind_a_long_call_is_not_measured(void **state)
{
	struct weights weights;

	(void)state;
	for (unsigned i = 0; i < 8; i++)
		long_call(20);
	for (unsigned i = 0; i < 20; i++) {
		long_call(20);
		timed_call(100, 90);
		brief_calls(20, 20, 50);
		timed_call(20, 50);
		timed_call(20, 50);
	}
	weights = settled();
	expect(weights.ticks[CALLER], 20);
	expect(weights.ticks[LEAF], 50);
	discard(&weights);
}

/* A page fault in one piece of twenty does not make all of them ten times as long.  One of all is taken for chance. */
static void few_long_pieces_are_apart(void **state)
{
	struct weights weights;

	(void)state;
	for (unsigned i = 0; i < 40; i++)
		timed_call(i % 20 ? 20 : 1000, 100);
	weights = settled();
	expect(weights.ticks[CALLER], 20);
	/* 1000 is a tenth of the span: in one of five such pieces a tick passes. */
	expect(weights.rare[CALLER], 1000 * 0.8 / 40);
	expect(weights.ticks[LEAF], 100);
	discard(&weights);
}

/* What lies between brief records takes less than what lies between times, by as much for each piece. */
static void clock_reads_are_taken_off(void **state)
{
	struct weights weights;

	(void)state;
	for (unsigned i = 0; i < 50; i++) {
		timed_call(20 + 30, 100 + 30);
		brief_calls(20, 20, 100);
		timed_call(20 + 30, 100 + 30);
	}
	weights = settled();
	expect(weights.ticks[CALLER], 20);
	expect(weights.ticks[LEAF], 100);
	discard(&weights);
}

/* A thread that waits tells nothing of how long its pieces are, and neither does one that is too fast for the rest. */
static void waits_are_passed_over(void **state)
{
	struct weights weights;

	(void)state;
	for (unsigned i = 0; i < 50; i++) {
		timed_call(20, 100);
		brief_calls(5, 20, 10);
		note(CALLTAP_REC_ENTRY, LEAF, 2 * SPAN, false);
		note(CALLTAP_REC_EXIT, LEAF, 100, false);
	}
	weights = settled();
	expect(weights.ticks[CALLER], 20);
	expect(weights.ticks[LEAF], 100);
	discard(&weights);
}

static void at_least_an_eighth_is_left(void **state)
{
	struct weights weights;

	(void)state;
	for (unsigned i = 0; i < 50; i++) {
		timed_call(80, 1000);
		brief_calls(20, 1, 1);
		note(CALLTAP_REC_ENTRY, LEAF, 1, false);
		note(CALLTAP_REC_EXIT, LEAF, 1000, false);
	}
	weights = settled();
	assert_true(weights.ticks[CALLER] >= 10 * 0.999 && weights.ticks[LEAF] >= 125 * 0.999);
	assert_true(weights.ticks[LEAF] > weights.ticks[CALLER]);
	discard(&weights);
}

/* A function that ends by a jump to another one has pieces, too: up to the jump. */
static void tail_calls_end_pieces(void **state)
{
	struct weights weights;

	(void)state;
	for (unsigned i = 0; i < 10; i++) {
		note(CALLTAP_REC_ENTRY, JUMPS, 20, false);
		note(CALLTAP_REC_TAIL, LEAF, 8, false);
		note(CALLTAP_REC_EXIT, LEAF, 100, false);
	}
	weights = settled();
	expect(weights.ticks[JUMPS], 8);
	expect(weights.ticks[LEAF], 100);
	expect(weights.ticks[CALLER], 20);
	discard(&weights);
}

/* The exit of a call whose entry has no time came by a detour: a brief tail call leaves that as it is. */
static void detours_are_no_pieces(void **state)
{
	struct weights weights;

	(void)state;
	for (unsigned i = 0; i < 10; i++) {
		note(CALLTAP_REC_ENTRY, JUMPS, 20, true);
		note(CALLTAP_REC_ENTRY, LEAF, 20, false);
		note(CALLTAP_REC_EXIT, LEAF, 100, false);
		note(CALLTAP_REC_EXIT, JUMPS, 5000, false);
	}
	weights = settled();
	assert_true(weights.ticks[JUMPS] == 0);
	discard(&weights);
}

/* A call outside of all functions, with or without times. */
static void outer_call(uint64_t before, uint64_t takes, bool brief)
{
	note(CALLTAP_REC_ENTRY, LEAF, before, brief);
	note(CALLTAP_REC_EXIT, LEAF, takes, brief);
}

/* What runs between two calls that nothing traced is around is measured as well. */
static void outside_of_functions_there_are_pieces(void **state)
{
	struct weights weights;

	(void)state;
	note(CALLTAP_REC_EXIT, CALLER, 10, false);
	for (unsigned i = 0; i < 10; i++)
		outer_call(10, 200, false);
	weights = settled();
	expect(weights.ticks[FUNCTIONS], 10);
	expect(weights.ticks[LEAF], 200);
	discard(&weights);
}

/* Runs with a long piece are shorter than their weights say by another number each: the others tell what is taken off.
 */
static void long_pieces_do_not_hide_the_surplus(void **state)
{
	struct weights weights;

	(void)state;
	for (unsigned i = 0; i < 60; i++) {
		timed_call(20 + 30, 100 + 30);
		brief_calls(20, 20, 100);
		if (i % 5 < 2) {
			note(CALLTAP_REC_ENTRY, LEAF, 20, true);
			note(CALLTAP_REC_EXIT, LEAF, 1000 + 40 * i, true);
		}
		note(CALLTAP_REC_ENTRY, LEAF, 20 + 30, false);
		note(CALLTAP_REC_EXIT, LEAF, 100 + 30, false);
	}
	weights = settled();
	expect(weights.surplus, 30);
	expect(weights.ticks[CALLER], 20);
	expect(weights.ticks[LEAF], 100);
	discard(&weights);
}

/* JUMPS calls LEAF and is itself never left with a time: its pieces are known beside those of LEAF. */
static void pairs_tell_of_functions_without_pieces(void **state)
{
	struct weights weights;

	(void)state;
	for (unsigned i = 0; i < 20; i++) {
		timed_call(20, 100);
		timed_call(20, 100);
		note(CALLTAP_REC_ENTRY, JUMPS, 20, true);
		timed_call(40, 100);
		note(CALLTAP_REC_EXIT, JUMPS, 40, true);
	}
	weights = settled();
	expect(weights.ticks[CALLER], 20);
	expect(weights.ticks[JUMPS], 40);
	discard(&weights);
}

/* One long piece says nothing of how many there are; a piece in which a tick passes does not lie in a run. */
static void what_is_rare_has_to_be_seen_twice(void **state)
{
	struct weights weights;

	(void)state;
	for (unsigned i = 0; i < 96; i++)
		timed_call(20, 100);
	timed_call(4000, 100);
	timed_call(20, 2500);
	timed_call(20, 2500);
	timed_call(20, SPAN * 3 / 4);
	weights = settled();
	assert_true(weights.rare[CALLER] == 0);
	/* 2500 is a quarter of the span: one in two of these has no tick in it. */
	expect(weights.rare[LEAF], 2500 / 2 / 100.0);
	assert_int_equal(weights.rare_pieces, 4);
	discard(&weights);
}

/* Times from a phase in which all calls have some say nothing of the calls that have none: these were in another phase.
 */
static void pieces_stand_for_those_around_them(void **state)
{
	struct weights weights;

	(void)state;
	for (unsigned phase = 0; phase < 10; phase++) {
		for (unsigned i = 0; i < 200; i++)
			timed_call(500, 5000);
		for (unsigned i = 0; i < 20; i++) {
			brief_calls(10, 20, 100);
			timed_call(20, 100);
			timed_call(20, 100);
		}
	}
	weights = settled();
	expect(weights.ticks[LEAF], 100);
	expect(weights.ticks[CALLER], 20);
	discard(&weights);
}

/* A timed call counts for more in a phase in which few calls are timed than in one in which many are. */
static void pieces_weigh_as_many_as_they_stand_for(void **state)
{
	struct weights weights;

	(void)state;
	for (unsigned phase = 0; phase < 50; phase++) {
		for (unsigned i = 0; i < 20; i++) {
			brief_calls(2, 20, 300);
			timed_call(20, 300);
			timed_call(20, 300);
		}
		for (unsigned i = 0; i < 20; i++) {
			brief_calls(18, 20, 100);
			timed_call(20, 100);
			timed_call(20, 100);
		}
	}
	weights = settled();
	/* Of ten calls without a time one takes 300 ticks. */
	assert_true(weights.ticks[LEAF] > 110 && weights.ticks[LEAF] < 130);
	discard(&weights);
}

/* A recursion may be a million calls deep; how the deepest ones began is not kept, so their ends are no pieces. */
static void deep_calls_are_no_pieces(void **state)
{
	struct weights weights;

	(void)state;
	for (unsigned i = 0; i < DEEP; i++)
		note(CALLTAP_REC_ENTRY, LEAF, 1, true);
	for (unsigned i = 0; i < DEEP; i++)
		note(CALLTAP_REC_EXIT, LEAF, 5, i % 2 == 0);
	timed_call(20, 100);
	weights = settled();
	expect(weights.ticks[LEAF], 100);
	discard(&weights);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(pieces_have_their_mean, begin, end),
		cmocka_unit_test_setup_teardown(what_a_tick_costs_behind_a_long_call_is_not_measured, begin, end),
		cmocka_unit_test_setup_teardown(few_long_pieces_are_apart, begin, end),
		cmocka_unit_test_setup_teardown(clock_reads_are_taken_off, begin, end),
		cmocka_unit_test_setup_teardown(waits_are_passed_over, begin, end),
		cmocka_unit_test_setup_teardown(at_least_an_eighth_is_left, begin, end),
		cmocka_unit_test_setup_teardown(tail_calls_end_pieces, begin, end),
		cmocka_unit_test_setup_teardown(detours_are_no_pieces, begin, end),
		cmocka_unit_test_setup_teardown(deep_calls_are_no_pieces, begin, end),
		cmocka_unit_test_setup_teardown(outside_of_functions_there_are_pieces, begin, end),
		cmocka_unit_test_setup_teardown(long_pieces_do_not_hide_the_surplus, begin, end),
		cmocka_unit_test_setup_teardown(pairs_tell_of_functions_without_pieces, begin, end),
		cmocka_unit_test_setup_teardown(what_is_rare_has_to_be_seen_twice, begin, end),
		cmocka_unit_test_setup_teardown(pieces_stand_for_those_around_them, begin, end),
		cmocka_unit_test_setup_teardown(pieces_weigh_as_many_as_they_stand_for, begin, end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
