/*
 * Snapshots of rings while their writers, the ring room's own, overwrite them
 * as fast as they can: every one is a whole trace, in which each thread's
 * records follow each other without a gap and are not torn.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <host/record/snapshot.h>

#include "scribe.h"

#define SNAPSHOTS 30

static struct snapshot_result take(struct bench *bench, const char *path, uint64_t history_ns)
{
	const struct snapshot_options options = {
		.size = sizeof(options), .path = path, .reason = "test", .history_ns = history_ns};
	struct snapshot_result result;
	struct calltap_diag diag = {0};
	int ret = snapshot_write(&bench->session, &options, &result, &diag);

	if (ret)
		print_error("%s\n", diag.text);
	assert_int_equal(ret, 0);
	return result;
}

static void path_of(char path[64], const struct bench *bench)
{
	snprintf(path, 64, "%s.snapshot", bench->path);
}

/* Snapshots while rings of that shape are written; returns the records of all. */
static uint64_t storm(uint32_t sub_size, uint32_t sub_count, uint32_t pause_us)
{
	struct bench *bench = scribe_bench(sub_size, sub_count);
	struct scribe scribes[WRITERS];
	uint64_t records = 0;
	char path[64];

	path_of(path, bench);
	for (uint32_t i = 0; i < WRITERS; i++)
		scribe_start(&scribes[i], bench, i, pause_us);
	usleep(20000);
	for (int i = 0; i < SNAPSHOTS; i++) {
		struct snapshot_result result = take(bench, path, 0);
		struct trace *trace;
		struct seen seen = scribe_read(path, &trace);

		assert_int_equal(seen.records, result.records);
		assert_int_equal(trace_thread_count(trace), result.threads);
		assert_null(trace_damage(trace));
		assert_string_equal(trace_info(trace, "reason"), "test");
		assert_string_equal(trace_info(trace, "exit"), "exited 0"); /* the bench has no command */
		for (uint32_t k = 0; k < result.threads; k++)
			assert_string_equal(trace_thread(trace, k)->name, "test_record_sna");
		records += seen.records;
		trace_close(trace);
	}
	for (uint32_t i = 0; i < WRITERS; i++)
		scribe_stop(&scribes[i]);
	unlink(path);
	bench_destroy(bench);
	return records;
}

static void snapshots_are_whole_while_rings_are_overwritten(void **state)
{
	assert_true(storm(16384, 16, 0) > SNAPSHOTS * 1000);
}

static void so_are_those_of_writers_that_are_hardly_there(void **state)
{
	storm(SUB_SIZE, 2, 0);
}

/* Then the tail of the open sub-buffer is what is raced for. */
static void so_are_those_of_slow_writers(void **state)
{
	assert_true(storm(4096, 8, 500) > 0);
}

static void all_that_is_there_is_in_it(void **state)
{
	struct bench *bench = scribe_bench(SUB_SIZE, 4);
	struct scribe scribe;
	struct trace *trace;
	struct seen seen;
	char path[64];

	path_of(path, bench);
	scribe_start(&scribe, bench, 0, 0);
	while (__atomic_load_n(&scribe.ring->opened, __ATOMIC_ACQUIRE) < 5)
		usleep(1000);
	scribe_stop(&scribe);
	take(bench, path, 0);
	seen = scribe_read(path, &trace);
	assert_int_equal(seen.gaps, 0);
	assert_int_equal(seen.next[0], scribe.written & CALLTAP_RECORD_ID_MAX);
	assert_true(seen.records >= 3 * 370u); /* three full ones, of 378 or so, and the open one */
	assert_true(trace_thread(trace, 0)->ended);
	trace_close(trace);
	unlink(path);
	bench_destroy(bench);
}

/* The thread that ended has its records and its name, as long as the next owner leaves some of them. */
static void ended_threads_keep_their_history(void **state)
{
	struct bench *bench = scribe_bench(SUB_SIZE, 8);
	struct scribe first, second = {.bench = bench, .ring = scribe_ring(bench, 0)};
	struct trace *trace;
	struct seen seen;
	char path[64];

	path_of(path, bench);
	scribe_start(&first, bench, 0, 0);
	usleep(5000);
	scribe_stop(&first);
	ring_attach(&second.writer, second.ring, gettid(), true);
	for (uint32_t i = 0; i < 600; i++)
		scribe_put(&second, i);
	memcpy(second.ring->comm, "renamed", 8);
	take(bench, path, 0);
	seen = scribe_read(path, &trace);
	assert_int_equal(trace_thread_count(trace), 2);
	assert_int_equal(seen.next[0], first.written & CALLTAP_RECORD_ID_MAX);
	assert_int_equal(seen.next[1], 600);
	assert_true(trace_thread(trace, 0)->ended && !trace_thread(trace, 1)->ended);
	assert_int_equal(trace_thread(trace, 1)->tid, gettid());
	trace_close(trace);
	unlink(path);
	bench_destroy(bench);
}

static void history_leaves_older_records_out(void **state)
{
	struct bench *bench = scribe_bench(SUB_SIZE, 8);
	struct scribe scribe = {.bench = bench, .ring = scribe_ring(bench, 0)};
	struct trace *trace;
	struct seen seen;
	char path[64];

	path_of(path, bench);
	ring_attach(&scribe.writer, scribe.ring, gettid(), true);
	for (uint32_t i = 0; i < 1000; i++)
		scribe_put(&scribe, i);
	usleep(300000);
	for (uint32_t i = 1000; i < 1500; i++)
		scribe_put(&scribe, i);
	take(bench, path, 200000000);
	seen = scribe_read(path, &trace);
	assert_int_equal(seen.records, 500);
	assert_int_equal(seen.next[0], 1500);
	assert_string_equal(trace_info(trace, "history_ns"), "200000000");
	trace_close(trace);
	take(bench, path, 3600000000000);
	seen = scribe_read(path, &trace);
	assert_int_equal(seen.records, 1500);
	trace_close(trace);
	unlink(path);
	bench_destroy(bench);
}

static void refusals_have_their_sentence(void **state)
{
	struct bench *bench = bench_create(CALLTAP_MODE_BLOCK);
	struct snapshot_options options = {.size = sizeof(options), .path = "/nonexistent/file"};
	struct snapshot_result result;
	struct calltap_diag diag = {0};

	assert_int_equal(snapshot_write(&bench->session, &options, &result, &diag), -EOPNOTSUPP);
	assert_non_null(strstr(diag.text, "--mode overwrite"));
	bench_destroy(bench);
	bench = scribe_bench(SUB_SIZE, 4);
	bench->session.images.tracer = bench->options.tracer;
	assert_int_equal(snapshot_write(&bench->session, &options, &result, &diag), -ENOENT);
	options.path = bench->path;
	assert_int_equal(snapshot_write(&bench->session, &options, &result, &diag), -EEXIST);
	bench_destroy(bench);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(snapshots_are_whole_while_rings_are_overwritten),
		cmocka_unit_test(so_are_those_of_writers_that_are_hardly_there),
		cmocka_unit_test(so_are_those_of_slow_writers),
		cmocka_unit_test(all_that_is_there_is_in_it),
		cmocka_unit_test(ended_threads_keep_their_history),
		cmocka_unit_test(history_leaves_older_records_out),
		cmocka_unit_test(refusals_have_their_sentence),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
