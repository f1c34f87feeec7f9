/*
 * How often the true total of a function lies within what `report` says it may be off, of calls most of which have no
 * time: simulated programs, recorded as recorders do it, whose durations are known.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "../trace/support.h"

#include <calltap/abi/file.h>
#include <calltap/abi/record.h>

#include "host/view/report.h"

enum { OUTER, LEAF, FUNCTIONS };
enum { TICK = 100000, SPAN = 2 * TICK, SAMPLE = 256, CLOCK_NS = 25, SUB_WORDS = 1 << 12, RUNS = 40, ALL_TIMED = 200 };

/* A program: a loop that calls LEAF, or OUTER that calls LEAF. */
struct program {
	const char *name;
	uint32_t calls, period, usual_ns, long_ns;
	bool random, nested;
	double worth; /* the interval is no wider than so much of the total, in the middle */
	/* The time that the recorder of an entry needs, before it reads the clock, to find that the call is a sample.
	 */
	uint32_t detour_ns;
};

struct run {
	struct maker maker;
	uint32_t detour_ns;
	uint64_t seed, now, tick, number, part_ticks, due, records;
	bool again, half, all_timed;
	bool exact[FUNCTIONS];
	uint64_t since[FUNCTIONS], total[FUNCTIONS];
	uint64_t words[SUB_WORDS];
	size_t used;
};

static uint64_t dice(struct run *run, uint64_t sides)
{
	return (random_next(&run->seed) >> 16) % sides;
}

static void flush(struct run *run)
{
	struct encode_result result;
	const void *payload;
	size_t size;

	if (!run->used)
		return;
	assert_int_equal(record_encode(run->maker.encoder, 0, run->number++, run->part_ticks, run->words, run->used,
				       &payload, &size, &result),
			 0);
	assert_int_equal(trace_writer_chunk(run->maker.writer, CALLTAP_CHUNK_DATA, payload, size), 0);
	memset(run->words, 0, sizeof(run->words));
	run->used = 0;
	run->half = false;
}

/* A record without a time. */
static void put_brief(struct run *run, bool entry, uint32_t function)
{
	const uint64_t kind = entry ? CALLTAP_REC_BRIEF_ENTRY : CALLTAP_REC_BRIEF_EXIT;
	const uint64_t word = kind << CALLTAP_RECORD_ID_BITS | function;

	if (run->half)
		run->words[run->used - 1] |= word << 32;
	else
		run->words[run->used++] = word;
	run->half = !run->half;
}

static void put_timed(struct run *run, bool entry, uint32_t function)
{
	if (run->half)
		run->words[run->used - 1] |= (uint64_t)CALLTAP_RECORD_PAD << 32;
	run->half = false;
	run->now += CLOCK_NS;
	run->tick = run->now / TICK;
	run->words[run->used++] =
		calltap_record_make(entry ? CALLTAP_REC_ENTRY : CALLTAP_REC_EXIT, function, (uint32_t)run->now);
}

static void put(struct run *run, bool entry, uint32_t function)
{
	bool timed = run->now / TICK != run->tick;

	if (entry && (run->again || !run->due--)) {
		timed = true;
		run->now += run->all_timed ? 0 : run->detour_ns;
		run->again = !run->again && !dice(run, 4);
		run->due = 1 + dice(run, 2 * SAMPLE);
	}
	timed |= entry ? run->all_timed : run->exact[function];
	if (run->used + 4 > SUB_WORDS)
		flush(run);
	if (!run->used) {
		run->part_ticks = run->now;
		timed = true;
	}
	if (timed)
		put_timed(run, entry, function);
	else
		put_brief(run, entry, function);
	run->records++;
	run->exact[function] = timed;
	if (entry)
		run->since[function] = run->now;
	else
		run->total[function] += run->now - run->since[function];
}

static void call_leaf(struct run *run, const struct program *program, uint32_t call)
{
	bool rare = program->random ? !dice(run, program->period) : call % program->period == program->period - 1;

	put(run, true, LEAF);
	run->now += rare ? program->long_ns : program->usual_ns + dice(run, 8);
	put(run, false, LEAF);
	run->now += 6;
}

static void put_clock(struct maker *maker, uint64_t ticks)
{
	const struct calltap_file_clock sample = {ticks, ticks, ticks};

	assert_int_equal(trace_writer_chunk(maker->writer, CALLTAP_CHUNK_CLOCK, &sample, sizeof(sample)), 0);
}

static void put_head(struct maker *maker)
{
	const struct calltap_file_process process = {0, 42, UINT32_MAX, CALLTAP_START_SPAWN, 1, 0};
	const struct calltap_file_ticks ticks = {.span = SPAN};

	maker_open(maker);
	assert_int_equal(trace_writer_info(maker->writer, "tracer", "function_graph"), 0);
	assert_int_equal(trace_writer_flush(maker->writer), 0);
	put_clock(maker, 1);
	maker_process(maker, &process, "/bin/prog");
	maker_object(maker, 0, "/bin/prog");
	maker_function(maker, OUTER, 0, 0x1000, 0x100, "outer");
	maker_function(maker, LEAF, 0, 0x1100, 0x100, "leaf");
	maker_thread(maker, 0, 0, 42, "prog");
	assert_int_equal(trace_writer_chunk(maker->writer, CALLTAP_CHUNK_TICKS, &ticks, sizeof(ticks)), 0);
}

static void begin(struct run *run, uint64_t seed)
{
	*run = (struct run){.seed = seed * UINT64_C(0x9e3779b97f4a7c15), .now = 10 * TICK, .due = 40};
	put_head(&run->maker);
}

static void end(struct run *run)
{
	flush(run);
	put_clock(&run->maker, run->now + 1);
	maker_end(&run->maker, run->records);
	maker_close(&run->maker);
}

static void record(struct run *run, const struct program *program, uint64_t seed)
{
	begin(run, seed);
	run->detour_ns = program->detour_ns;
	for (uint32_t call = 0; call < program->calls; call++) {
		run->all_timed = program->detour_ns && call < ALL_TIMED;
		if (!program->nested) {
			call_leaf(run, program, call);
			continue;
		}
		put(run, true, OUTER);
		run->now += 30;
		call_leaf(run, program, call);
		run->now += 30;
		put(run, false, OUTER);
		run->now += 6;
	}
	end(run);
}

struct covered {
	unsigned held, totals;
	double widths[RUNS * FUNCTIONS];
};

static void look(const struct run *run, struct covered *covered)
{
	const struct view_filter filter = {.to_ns = UINT64_MAX};
	const struct report_options options = {.size = sizeof(options)};
	struct report report;
	struct trace *trace;

	assert_int_equal(trace_open(&trace, run->maker.path, NULL), 0);
	assert_null(trace_damage(trace));
	assert_int_equal(report_run(&report, trace, &filter, &options, NULL), 0);
	for (uint32_t i = 0; i < report.row_count; i++) {
		const struct report_row *row = &report.rows[i];
		double off = fabs((double)row->total_ns - (double)run->total[row->key]);
		double error = (double)report_error_ns(row);

		covered->held += off <= error;
		covered->widths[covered->totals++] = error / (double)run->total[row->key];
	}
	report_clear(&report);
	trace_close(trace);
}

static int compare_widths(const void *left, const void *right)
{
	const double *a = left, *b = right;

	return (*a > *b) - (*a < *b);
}

static void cover(const struct program *program)
{
	struct run *run = malloc(sizeof(*run));
	struct covered covered = {0};
	double middle;

	assert_non_null(run);
	for (uint64_t seed = 1; seed <= RUNS; seed++) {
		record(run, program, seed);
		look(run, &covered);
		maker_remove(&run->maker);
	}
	free(run);
	qsort(covered.widths, covered.totals, sizeof(double), compare_widths);
	middle = covered.widths[covered.totals / 2];
	print_message("%s: %u of %u totals are within their error, which is %.1f %% of them in the middle\n",
		      program->name, covered.held, covered.totals, 100 * middle);
	assert_true(covered.totals >= RUNS);
	assert_true(covered.held >= covered.totals * 0.93);
	assert_true(middle <= program->worth);
}

static void totals_are_as_near_as_they_are_said_to_be(void **state)
{
	static const struct program programs[] = {
		{"all alike", 60000, 1, 200, 200, false, false, 0.05, 0},
		{"tiny", 100000, 1, 20, 20, false, false, 0.05, 0},
		{"one in two is twice as long", 60000, 2, 100, 200, true, false, 0.1, 0},
		{"each 50th is long", 30000, 50, 200, 20000, false, false, 0.8, 0},
		{"each 100th is long", 60000, 100, 200, 20000, false, false, 0.6, 0},
		{"each 300th is long", 60000, 300, 200, 20000, false, false, 0.5, 0},
		{"one in 100 is long", 60000, 100, 200, 20000, true, false, 0.7, 0},
		{"one in 1000 is long", 60000, 1000, 100, 50000, true, false, 0.4, 0},
		{"one in 100 is long, few calls", 10000, 100, 200, 20000, true, false, 0.6, 0},
		{"one in 300 is long, few calls", 10000, 300, 200, 20000, true, false, 0.4, 0},
		{"each 100th is long, nested", 40000, 100, 200, 20000, false, true, 0.7, 0},
		{"one in 300 is long, nested", 40000, 300, 200, 20000, true, true, 0.4, 0},
		{"one in 1000 is longer than a tick, nested", 40000, 1000, 200, 150000, true, true, 0.5, 0},
		{"a detour to entries", 60000, 1, 100, 100, false, false, 1, 150},
		{"a detour to entries, nested", 60000, 1, 100, 100, false, true, 1, 150},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(programs) / sizeof(*programs); i++)
		cover(&programs[i]);
}

/* A program in phases: calls are short in one and long in the next.  The recorder notices either after some calls. */
struct phases {
	const char *name;
	uint32_t count, calls[2], ns[2], noticed[2];
	double worth; /* p99 is said to be no farther off than so much of it, in the middle */
};

enum { PHASE_CALLS_MAX = 1 << 18 };

struct durations {
	uint64_t list[PHASE_CALLS_MAX];
	size_t count;
};

static void record_phases(struct run *run, const struct phases *phases, uint64_t seed, struct durations *durations)
{
	durations->count = 0;
	begin(run, seed);
	for (uint32_t phase = 0; phase < phases->count; phase++) {
		const bool is_long = phase % 2;

		for (uint32_t call = 0; call < phases->calls[is_long]; call++) {
			const uint64_t before = run->total[LEAF];

			run->all_timed = is_long == (call >= phases->noticed[is_long]);
			put(run, true, LEAF);
			run->now += phases->ns[is_long] + dice(run, phases->ns[is_long] / 16);
			put(run, false, LEAF);
			run->now += 6;
			assert_true(durations->count < PHASE_CALLS_MAX);
			durations->list[durations->count++] = run->total[LEAF] - before;
		}
	}
	end(run);
}

static int compare_durations(const void *left, const void *right)
{
	const uint64_t *a = left, *b = right;

	return (*a > *b) - (*a < *b);
}

struct told {
	unsigned held[2]; /* of p50 and p99 */
	double errors[RUNS];
};

/* A percentile's bucket has a 64th on either side of what is told. */
static bool holds(const struct report_range *range, uint64_t truth)
{
	return truth + truth / 32 >= range->low && truth <= range->high + range->high / 32;
}

static void look_at_phases(const struct run *run, struct durations *durations, struct told *told, unsigned at)
{
	const struct view_filter filter = {.to_ns = UINT64_MAX};
	const struct report_options options = {.size = sizeof(options)};
	const size_t count = durations->count;
	struct report_range ranges[3];
	struct report report;
	struct trace *trace;

	qsort(durations->list, count, sizeof(durations->list[0]), compare_durations);
	assert_int_equal(trace_open(&trace, run->maker.path, NULL), 0);
	assert_int_equal(report_run(&report, trace, &filter, &options, NULL), 0);
	assert_int_equal(report.row_count, 1);
	ranges[0] = report_range(&report.rows[0], REPORT_P50);
	ranges[1] = report_range(&report.rows[0], REPORT_P99);
	ranges[2] = report_range(&report.rows[0], REPORT_MAX);
	told->held[0] += holds(&ranges[0], durations->list[(count + 1) / 2 - 1]);
	told->held[1] += holds(&ranges[1], durations->list[(count * 99 + 99) / 100 - 1]);
	told->errors[at] = (double)report_range_error(&ranges[1]) / (double)ranges[1].ns;
	assert_true(ranges[2].low <= durations->list[count - 1] && durations->list[count - 1] <= ranges[2].high);
	report_clear(&report);
	trace_close(trace);
}

static void percentiles_are_of_all_phases(void **state)
{
	static const struct phases programs[] = {
		{"one call in 31 is long", 20, {12000, 400}, {800, 20000}, {300, 60}, 0.3},
		{"one in 31, noticed late", 20, {12000, 400}, {800, 20000}, {2000, 300}, 0.5},
		{"two in three are long", 40, {1000, 2000}, {300, 20000}, {500, 300}, 0.2},
		{"one in 300 is long", 20, {12000, 40}, {300, 20000}, {300, 30}, 0.3},
		{"as many are long as p99 leaves out", 20, {12000, 121}, {800, 20000}, {300, 60}, 30},
		{"all alike", 2, {60000, 60000}, {300, 300}, {0, 60000}, 0.1},
	};
	struct durations *durations = malloc(sizeof(*durations));
	struct run *run = malloc(sizeof(*run));

	(void)state;
	assert_true(run && durations);
	for (size_t i = 0; i < sizeof(programs) / sizeof(*programs); i++) {
		struct told told;

		memset(&told, 0, sizeof(told));
		for (unsigned at = 0; at < RUNS; at++) {
			record_phases(run, &programs[i], at + 1, durations);
			look_at_phases(run, durations, &told, at);
			maker_remove(&run->maker);
		}
		qsort(told.errors, RUNS, sizeof(double), compare_widths);
		print_message(
			"%s: p50 and p99 of %u and %u of %u runs are as far off as told; p99's error is %.1f %%\n",
			programs[i].name, told.held[0], told.held[1], RUNS, 100 * told.errors[RUNS / 2]);
		assert_true(told.held[0] >= RUNS * 0.9 && told.held[1] >= RUNS * 0.9);
		assert_true(told.errors[RUNS / 2] <= programs[i].worth);
	}
	free(run);
	free(durations);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(totals_are_as_near_as_they_are_said_to_be),
		cmocka_unit_test(percentiles_are_of_all_phases),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
