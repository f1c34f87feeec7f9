/*
 * Counting calls of a trace that grows: recursion, callers, what runs now, tail calls and frames that end by an
 * exception, losses, and a beginning in the middle.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "../trace/support.h"

#include "host/view/tally.h"

#define MS 1000000u

enum { OUTER, RECURSE, LEAF, FUNCTIONS };

struct counted {
	struct maker maker;
	struct tally *tally;
	unsigned char *bytes;
	size_t size;
	int fd;
};

static void put_clock(struct maker *maker, uint64_t ticks)
{
	const struct calltap_file_clock sample = {ticks, ticks, ticks};

	assert_int_equal(trace_writer_chunk(maker->writer, CALLTAP_CHUNK_CLOCK, &sample, sizeof(sample)), 0);
}

/* A trace of one thread with these records, one tick a nanosecond; all is taken at once, and the file is complete. */
static void count_all(struct counted *counted, const struct say *says, size_t count)
{
	const struct calltap_file_process process = {0, 42, UINT32_MAX, CALLTAP_START_SPAWN, 1, 0};
	struct maker *maker = &counted->maker;

	maker_open(maker);
	assert_int_equal(trace_writer_info(maker->writer, "tracer", "function_graph"), 0);
	assert_int_equal(trace_writer_flush(maker->writer), 0);
	put_clock(maker, 1);
	maker_process(maker, &process, "/bin/prog");
	maker_object(maker, 0, "/bin/prog");
	maker_function(maker, OUTER, 0, 0x1000, 0x100, "outer");
	maker_function(maker, RECURSE, 0, 0x1100, 0x100, "recurse");
	maker_function(maker, LEAF, 0, 0x1200, 0x100, "leaf");
	maker_thread(maker, 0, 0, 42, "prog");
	maker_data(maker, 0, 0, says, count);
	put_clock(maker, 100 * MS);
	put_clock(maker, 101 * MS);
	maker_end(maker, count);
	maker_close(maker);
	counted->bytes = file_read(maker->path, &counted->size);
	counted->fd = memfd_create("calltap-test", MFD_CLOEXEC);
	assert_true(counted->fd >= 0);
	assert_int_equal(tally_create(&counted->tally, counted->fd), 0);
	assert_int_equal(tally_take(counted->tally, false), 0);
	assert_true(tally_read(counted->tally) < 0);
	assert_null(tally_trace(counted->tally));
	assert_int_equal(write(counted->fd, counted->bytes, counted->size), counted->size);
}

static void end(struct counted *counted)
{
	tally_destroy(counted->tally);
	close(counted->fd);
	free(counted->bytes);
	maker_remove(&counted->maker);
}

/* The row of a function; NULL = it has none. */
static const struct profile_row *row_of(const struct profile_row *rows, size_t count, uint32_t function)
{
	for (size_t i = 0; i < count; i++)
		if (rows[i].function == function)
			return &rows[i];
	return NULL;
}

static void is_row(const struct profile_row *row, uint64_t calls, uint64_t total, uint64_t self, uint64_t longest)
{
	assert_non_null(row);
	assert_int_equal(row->calls, calls);
	assert_int_equal(row->total_ns, total);
	assert_int_equal(row->self_ns, self);
	assert_int_equal(row->max_ns, longest);
}

/* outer 0..1000 { recurse 100..600 { recurse 200..500 { leaf 300..400 } } leaf 700..750 } */
static const struct say nested[] = {
	{CALLTAP_REC_ENTRY, OUTER, 10000, 0},	{CALLTAP_REC_ENTRY, RECURSE, 10100, 0},
	{CALLTAP_REC_ENTRY, RECURSE, 10200, 0}, {CALLTAP_REC_ENTRY, LEAF, 10300, 0},
	{CALLTAP_REC_EXIT, LEAF, 10400, 0},	{CALLTAP_REC_EXIT, RECURSE, 10500, 0},
	{CALLTAP_REC_EXIT, RECURSE, 10600, 0},	{CALLTAP_REC_ENTRY, LEAF, 10700, 0},
	{CALLTAP_REC_EXIT, LEAF, 10750, 0},	{CALLTAP_REC_EXIT, OUTER, 11000, 0},
};
#define NESTED (sizeof(nested) / sizeof(nested[0]))

static void recursion_counts_once(void **state)
{
	struct counted counted;
	const struct profile_row *rows;
	struct profile_totals totals;
	size_t count;

	count_all(&counted, nested, NESTED);
	assert_int_equal(tally_take(counted.tally, true), 0);
	assert_int_equal(tally_read(counted.tally), 0);
	rows = tally_rows(counted.tally, &count);
	assert_int_equal(count, FUNCTIONS);
	is_row(row_of(rows, count, OUTER), 1, 1000, 450, 1000);
	is_row(row_of(rows, count, RECURSE), 2, 500, 400, 500);
	is_row(row_of(rows, count, LEAF), 2, 150, 150, 100);
	assert_string_equal(rows[0].name, "outer");
	assert_string_equal(rows[0].object, "prog");
	assert_true(rows[0].measured);
	totals = tally_totals(counted.tally);
	assert_int_equal(totals.functions, FUNCTIONS);
	assert_int_equal(totals.lost, 0);
	end(&counted);
}

static void callers_are_counted_from_then_on(void **state)
{
	struct counted counted;
	const struct profile_row *rows;
	size_t count;

	count_all(&counted, nested, NESTED);
	assert_int_equal(tally_take(counted.tally, false), 0);
	tally_watch(counted.tally, LEAF);
	assert_non_null(tally_callers(counted.tally, &count));
	assert_int_equal(count, 0);
	end(&counted);

	/* As before, but the function is known before its records are taken. */
	count_all(&counted, nested, NESTED);
	tally_watch(counted.tally, LEAF);
	assert_int_equal(tally_take(counted.tally, true), 0);
	rows = tally_callers(counted.tally, &count);
	assert_int_equal(count, 2);
	assert_int_equal(row_of(rows, count, OUTER)->calls, 1);
	assert_int_equal(row_of(rows, count, OUTER)->total_ns, 50);
	assert_int_equal(row_of(rows, count, RECURSE)->calls, 1);
	tally_watch(counted.tally, PROFILE_NONE);
	assert_non_null(tally_callers(counted.tally, &count));
	assert_int_equal(count, 0);
	end(&counted);

	count_all(&counted, nested, NESTED);
	tally_watch(counted.tally, OUTER);
	assert_int_equal(tally_take(counted.tally, true), 0);
	rows = tally_callers(counted.tally, &count);
	assert_int_equal(count, 1);
	assert_int_equal(rows[0].function, PROFILE_NONE);
	assert_string_equal(rows[0].name, "-");
	end(&counted);
}

static void open_calls_run(void **state)
{
	struct counted counted;
	const struct profile_row *rows;
	size_t count;

	count_all(&counted, nested, 5); /* up to the first leaf's end */
	assert_int_equal(tally_take(counted.tally, false), 0);
	rows = tally_rows(counted.tally, &count);
	assert_int_equal(row_of(rows, count, OUTER)->running, 1);
	assert_int_equal(row_of(rows, count, OUTER)->calls, 0);
	assert_int_equal(row_of(rows, count, RECURSE)->running, 1);
	is_row(row_of(rows, count, LEAF), 1, 100, 100, 100);
	tally_reset(counted.tally);
	rows = tally_rows(counted.tally, &count);
	assert_int_equal(count, 2);
	assert_int_equal(row_of(rows, count, RECURSE)->running, 1);
	assert_null(row_of(rows, count, LEAF));
	end(&counted);
}

static void calls_end_in_other_ways(void **state)
{
	const struct say says[] = {
		{CALLTAP_REC_EXIT, OUTER, 9000, 0}, /* entered before the trace */
		{CALLTAP_REC_ENTRY, OUTER, 10000, 0}, {CALLTAP_REC_ENTRY, RECURSE, 10100, 0},
		{CALLTAP_REC_UNWIND, 1, 10300, 0},    {CALLTAP_REC_TAIL, LEAF, 10400, 0},
		{CALLTAP_REC_EXIT, LEAF, 10500, 0},   {CALLTAP_REC_LOST, 0, 10600, 7},
		{CALLTAP_REC_ENTRY, 1000, 10700, 0}, /* no such function */
		{CALLTAP_REC_EXIT, 1000, 10800, 0},
	};
	struct counted counted;
	const struct profile_row *rows;
	size_t count;

	count_all(&counted, says, sizeof(says) / sizeof(says[0]));
	assert_int_equal(tally_take(counted.tally, true), 0);
	rows = tally_rows(counted.tally, &count);
	assert_int_equal(count, FUNCTIONS);
	is_row(row_of(rows, count, OUTER), 1, 500, 200, 500);
	is_row(row_of(rows, count, RECURSE), 1, 200, 200, 200);
	is_row(row_of(rows, count, LEAF), 1, 100, 100, 100);
	assert_int_equal(tally_totals(counted.tally).lost, 7);
	end(&counted);
}

static void broken_files_are_refused(void **state)
{
	struct counted counted;

	count_all(&counted, nested, NESTED);
	assert_int_equal(pwrite(counted.fd, "broken", 6, 0), 6);
	assert_true(tally_take(counted.tally, true) < 0);
	assert_int_equal(tally_totals(counted.tally).functions, 0);
	end(&counted);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(recursion_counts_once),    cmocka_unit_test(callers_are_counted_from_then_on),
		cmocka_unit_test(open_calls_run),	    cmocka_unit_test(calls_end_in_other_ways),
		cmocka_unit_test(broken_files_are_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
