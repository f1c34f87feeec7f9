/*
 * Reading the tables of tracer `profile`: sums over threads, differences over time, the sums of processes that have
 * ended, and tables that something has scribbled on.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <calltap/abi/profile.h>
#include <host/brief/brief.h>

#include "support.h"

#define FUNCTIONS 10u
#define RINGS	  3u

/* A session with tables, and a view of it. */
struct tables {
	struct bench *bench;
	struct record_live *live;
	struct profile *profile;
};

static void setup(struct tables *tables)
{
	struct session *session;
	int fd;

	tables->bench = bench_create(CALLTAP_MODE_PROFILE);
	session = &tables->bench->session;
	session->images.next_id = FUNCTIONS;
	assert_int_equal(arena_add(tables->bench->share, RINGS, &fd), 0);
	close(fd);
	assert_int_equal(record_live_create(&tables->live), 0);
	tables->bench->options.live = tables->live;
	live_attach(session);
	assert_int_equal(profile_create(&tables->profile), 0);
}

static void teardown(struct tables *tables)
{
	profile_destroy(tables->profile);
	live_detach(&tables->bench->session);
	profile_sums_clear(&tables->bench->instance.profile_ended);
	record_live_destroy(tables->live);
	bench_destroy(tables->bench);
}

static struct calltap_ring *ring_at(struct tables *tables, uint32_t k)
{
	struct target_arena *arena = &tables->bench->share->arenas[0];

	return (void *)((char *)arena->arena + CALLTAP_PAGE + k * arena->ring_stride);
}

static void *data_at(struct tables *tables, uint32_t k, uint64_t offset)
{
	return (char *)ring_at(tables, k) + CALLTAP_PAGE + offset;
}

static void claim(struct tables *tables, uint32_t k)
{
	ring_at(tables, k)->owner = 1;
	tables->bench->share->arenas[0].arena->state[k] = CALLTAP_RING_CLAIMED + 100 + k;
}

static struct calltap_profile_entry *entry_at(struct tables *tables, uint32_t k, uint32_t id)
{
	return data_at(tables, k, calltap_profile_at_entry(id));
}

/* Calls of so many ticks each, in the thread's table. */
static void call(struct tables *tables, uint32_t k, uint32_t id, uint64_t calls, uint64_t ticks)
{
	struct calltap_profile *head = data_at(tables, k, 0);
	struct calltap_profile_entry *entry = entry_at(tables, k, id);
	struct calltap_profile_histogram *histogram;
	const struct profile_shape *shape = &tables->bench->instance.profile;

	if (!entry->histogram)
		entry->histogram = calltap_profile_at_histogram(shape->functions, shape->callers,
								(uint32_t)++head->histograms_used);
	histogram = data_at(tables, k, entry->histogram);
	entry->calls += calls;
	entry->total += calls * ticks;
	entry->self += calls * ticks / 2;
	if (ticks > entry->max)
		entry->max = ticks;
	histogram->calls[calltap_profile_bucket(ticks)] += calls;
}

static struct profile_row *row_of(struct tables *tables, uint32_t id)
{
	size_t count;
	struct profile_row *rows = profile_rows(tables->profile, &count);

	assert_non_null(rows);
	for (size_t i = 0; i < count; i++)
		if (rows[i].function == id) {
			assert_int_equal(profile_measure(tables->profile, tables->live, &rows[i], 1), 0);
			return &rows[i];
		}
	return NULL;
}

static void read_now(struct tables *tables)
{
	assert_int_equal(profile_read(tables->profile, tables->live), 0);
}

static double ns(struct tables *tables, uint64_t ticks)
{
	/* The rate as the view computed it. */
	static double rate;

	if (rate == 0)
		rate = clock_ticks_per_ns(20);
	return (double)ticks / rate;
}

static void is_about(double value, double wanted, double part)
{
	if (value < wanted * (1 - part) || value > wanted * (1 + part))
		fail_msg("%f is not about %f", value, wanted);
}

/* Sums of looks have errors; calls without a bucket took less than is known; long calls are known better. */
static void estimates_have_errors(void **state)
{
	const struct brief_options options = {.tick_ns = 1000000, .every = 1, .sampling = true};
	uint64_t step_ns = 0, late_ns, total_error;
	struct profile_row *row;
	struct tables tables;

	setup(&tables);
	claim(&tables, 0);
	call(&tables, 0, 3, 10, 1000000000);
	entry_at(&tables, 0, 3)->calls += 990; /* as C and the fast recorders count what took no time */
	call(&tables, 0, 4, 40, 1000000);
	entry_at(&tables, 0, 4)->self = entry_at(&tables, 0, 4)->total;
	call(&tables, 0, 5, 1, 1);
	read_now(&tables);
	row = row_of(&tables, 3);
	assert_false(row->estimated || profile_totals(tables.profile).estimated);
	assert_true(row->p50_ns > 0);

	assert_int_equal(brief_create(&tables.bench->session.images.brief, &options), 0);
	assert_int_equal(brief_start(tables.bench->session.images.brief, 1000, 1, NULL, NULL), 0);
	while (brief_stays(tables.bench->session.images.brief).mean <= 0)
		usleep(1000);
	read_now(&tables);
	assert_true(profile_totals(tables.profile).estimated);
	row = row_of(&tables, 3);
	assert_true(row->estimated && row->span_ns > 0 && row->max_error_ns >= row->span_ns);
	assert_int_equal(row->p50_ns, 0);
	assert_int_equal(row->p99_ns, 0);
	assert_true(row->max_ns > 0);
	step_ns = (uint64_t)ns(&tables, (uint64_t)brief_stays(tables.bench->session.images.brief).mean);
	/* Ten long calls: so many looks, and one more, whatever they add up to. */
	late_ns = (uint64_t)ns(&tables, (uint64_t)(brief_stays(tables.bench->session.images.brief).longest +
						   brief_stays(tables.bench->session.images.brief).late));
	assert_true(row->total_error_ns < 40 * step_ns + 4 * late_ns);
	total_error = row->total_error_ns;
	assert_true(row->self_error_ns > total_error); /* it has callees, or so it seems */
	row = row_of(&tables, 4);
	assert_int_equal(row->self_error_ns, row->total_error_ns);
	row = row_of(&tables, 5);
	assert_true(row->total_error_ns > 0 && row->total_error_ns <= total_error);
	brief_destroy(tables.bench->session.images.brief);
	tables.bench->session.images.brief = NULL;
	teardown(&tables);
}

static void threads_are_summed(void **state)
{
	struct tables tables;
	struct profile_row *row;

	setup(&tables);
	claim(&tables, 0);
	claim(&tables, 1);
	call(&tables, 0, 3, 100, 1000);
	call(&tables, 1, 3, 300, 3000);
	call(&tables, 1, 9, 1, 7);
	entry_at(&tables, 0, 4)->outer = 1;
	entry_at(&tables, 2, 5)->outer = 1; /* in the table of a ring that no thread has had */
	read_now(&tables);
	row = row_of(&tables, 3);
	assert_non_null(row);
	assert_int_equal(row->calls, 400);
	is_about((double)row->total_ns, ns(&tables, 100 * 1000 + 300 * 3000), 0.02);
	is_about((double)row->self_ns, ns(&tables, (100 * 1000 + 300 * 3000) / 2), 0.02);
	is_about((double)row->avg_ns, ns(&tables, 2500), 0.02);
	is_about((double)row->max_ns, ns(&tables, 3000), 0.02);
	is_about((double)row->p50_ns, ns(&tables, 3000), 0.16);
	assert_int_equal(row_of(&tables, 9)->calls, 1);
	assert_int_equal(row_of(&tables, 4)->running, 1);
	assert_int_equal(row_of(&tables, 4)->calls, 0);
	assert_null(row_of(&tables, 5));
	assert_null(row_of(&tables, 0));
	assert_int_equal(profile_totals(tables.profile).threads, 2);
	assert_int_equal(profile_totals(tables.profile).functions, FUNCTIONS);
	teardown(&tables);
}

static void percentiles_follow_the_calls(void **state)
{
	struct tables tables;
	struct profile_row *row;

	setup(&tables);
	claim(&tables, 0);
	call(&tables, 0, 1, 980, 100);
	call(&tables, 0, 1, 20, 1000000);
	read_now(&tables);
	row = row_of(&tables, 1);
	is_about((double)row->p50_ns, ns(&tables, 100), 0.2);
	is_about((double)row->p99_ns, ns(&tables, 1000000), 0.16);
	/* The last call is in the head alone. */
	((struct calltap_profile *)data_at(&tables, 0, 0))->pending = entry_at(&tables, 0, 2)->histogram =
		calltap_profile_at_histogram(tables.bench->instance.profile.functions,
					     tables.bench->instance.profile.callers, 2);
	((struct calltap_profile *)data_at(&tables, 0, 0))->pending += 8ull * calltap_profile_bucket(5000);
	entry_at(&tables, 0, 2)->calls = 1;
	entry_at(&tables, 0, 2)->max = 5000;
	read_now(&tables);
	is_about((double)row_of(&tables, 2)->p50_ns, ns(&tables, 5000), 0.16);
	teardown(&tables);
}

static void a_reset_counts_from_there(void **state)
{
	struct tables tables;
	struct profile_row *row;

	setup(&tables);
	claim(&tables, 0);
	call(&tables, 0, 1, 1000, 1000000);
	read_now(&tables);
	assert_int_equal(profile_reset(tables.profile, tables.live), 0);
	assert_null(row_of(&tables, 1));
	call(&tables, 0, 1, 10, 100);
	read_now(&tables);
	row = row_of(&tables, 1);
	assert_int_equal(row->calls, 10);
	is_about((double)row->total_ns, ns(&tables, 1000), 0.1);
	is_about((double)row->p99_ns, ns(&tables, 100), 0.2);
	is_about((double)row->max_ns, ns(&tables, 100), 0.3);
	call(&tables, 0, 1, 1, 2000000);
	read_now(&tables);
	is_about((double)row_of(&tables, 1)->max_ns, ns(&tables, 2000000), 0.02);
	teardown(&tables);
}

static void rates_are_of_the_last_interval(void **state)
{
	struct tables tables;
	struct profile_row *row;

	setup(&tables);
	claim(&tables, 0);
	call(&tables, 0, 1, 1000000, 10);
	read_now(&tables);
	assert_true(row_of(&tables, 1)->calls_rate == 0);
	usleep(300000);
	call(&tables, 0, 1, 3000, 10);
	read_now(&tables);
	row = row_of(&tables, 1);
	is_about(row->calls_rate * profile_totals(tables.profile).seconds, 3000, 0.01);
	read_now(&tables); /* a look soon after is of the same interval, and somewhat longer */
	is_about(row_of(&tables, 1)->calls_rate * profile_totals(tables.profile).seconds, 3000, 0.01);
	teardown(&tables);
}

static void what_has_ended_stays(void **state)
{
	struct tables tables;
	struct share *share;

	setup(&tables);
	share = tables.bench->share;
	claim(&tables, 0);
	call(&tables, 0, 1, 50, 100);
	entry_at(&tables, 0, 2)->outer = 1;
	assert_int_equal(profile_keep(share), 0);
	arena_destroy(&tables.bench->instance, &share->arenas[0], false);
	share->arena_count = 0;
	read_now(&tables);
	assert_int_equal(row_of(&tables, 1)->calls, 50);
	is_about((double)row_of(&tables, 1)->p50_ns, ns(&tables, 100), 0.2);
	assert_null(row_of(&tables, 2)); /* nobody is in it any more */
	live_detach(&tables.bench->session);
	assert_int_equal(profile_read(tables.profile, tables.live), -ESRCH);
	teardown(&tables);
}

static void a_look_takes_no_memory(void **state)
{
	struct tables tables;
	struct stat before, after;

	setup(&tables);
	for (uint32_t k = 0; k < RINGS; k++)
		claim(&tables, k);
	tables.bench->session.images.next_id = 10000;
	call(&tables, 0, 9000, 5, 100);
	assert_int_equal(fstat(tables.bench->share->arenas[0].fd, &before), 0);
	profile_watch(tables.profile, 9000);
	for (int i = 0; i < 3; i++) {
		read_now(&tables);
		assert_int_equal(row_of(&tables, 9000)->calls, 5);
	}
	assert_int_equal(fstat(tables.bench->share->arenas[0].fd, &after), 0);
	assert_int_equal(before.st_blocks, after.st_blocks);
	teardown(&tables);
}

static void callers_are_counted(void **state)
{
	struct tables tables;
	const struct profile_shape *shape;
	struct calltap_profile_caller *callers;
	struct profile_row *rows;
	size_t count;

	setup(&tables);
	shape = &tables.bench->instance.profile;
	claim(&tables, 0);
	call(&tables, 0, 1, 50, 100);
	profile_watch(tables.profile, 1);
	read_now(&tables);
	assert_int_equal(calltap_profile_shape(ring_at(&tables, 0))->watch, 2);
	assert_int_equal(calltap_profile_shape(ring_at(&tables, 2))->watch, 2);
	rows = profile_callers(tables.profile, &count);
	assert_non_null(rows);
	assert_int_equal(count, 0);
	callers = data_at(&tables, 0, calltap_profile_at_caller(shape->functions, 0));
	callers[7] = (struct calltap_profile_caller){.address = 0x1234, .calls = 4, .total = 4000};
	callers[9] = (struct calltap_profile_caller){.address = 0x5678, .calls = 1, .total = 10};
	((struct calltap_profile *)data_at(&tables, 0, 0))->watched = 2;
	read_now(&tables);
	rows = profile_callers(tables.profile, &count);
	assert_int_equal(count, 2);
	assert_string_equal(rows[0].name, "0x1234");
	assert_int_equal(rows[0].calls, 4);
	is_about((double)rows[0].avg_ns, ns(&tables, 1000), 0.02);
	((struct calltap_profile *)data_at(&tables, 0, 0))->watched =
		5; /* the callers in the table are another function's now */
	read_now(&tables);
	(void)profile_callers(tables.profile, &count);
	assert_int_equal(count, 0);
	profile_watch(tables.profile, PROFILE_NONE);
	read_now(&tables);
	assert_int_equal(calltap_profile_shape(ring_at(&tables, 0))->watch, 0);
	teardown(&tables);
}

static void scribbles_do_no_harm(void **state)
{
	struct tables tables;
	uint64_t size;
	unsigned seed = 1;

	setup(&tables);
	for (uint32_t k = 0; k < RINGS; k++)
		claim(&tables, k);
	size = tables.bench->share->arenas[0].ring_stride - CALLTAP_PAGE;
	profile_watch(tables.profile, 3);
	for (int turn = 0; turn < 30; turn++) {
		size_t count;

		for (int i = 0; i < 20000; i++) {
			uint64_t *word = data_at(&tables, (uint32_t)rand_r(&seed) % RINGS,
						 (uint64_t)rand_r(&seed) % (turn % 2 ? size : 4096) & ~7ull);

			*word = rand_r(&seed) % 3 ? (uint64_t)rand_r(&seed) : ~0ull;
		}
		((struct calltap_profile *)data_at(&tables, 0, 0))->watched = 4;
		read_now(&tables);
		for (uint32_t id = 0; id < FUNCTIONS; id++)
			(void)row_of(&tables, id);
		assert_non_null(profile_callers(tables.profile, &count));
		assert_int_equal(profile_reset(tables.profile, tables.live), 0);
	}
	assert_int_equal(profile_keep(tables.bench->share), 0);
	teardown(&tables);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(threads_are_summed),
		cmocka_unit_test(estimates_have_errors),
		cmocka_unit_test(percentiles_follow_the_calls),
		cmocka_unit_test(a_reset_counts_from_there),
		cmocka_unit_test(rates_are_of_the_last_interval),
		cmocka_unit_test(what_has_ended_stays),
		cmocka_unit_test(a_look_takes_no_memory),
		cmocka_unit_test(callers_are_counted),
		cmocka_unit_test(scribbles_do_no_harm),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
