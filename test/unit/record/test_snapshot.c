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

#include <host/core/history.h>
#include <host/instance/snapshot.h>
#include <host/trace/callstack.h>

#include "scribe.h"

#define SNAPSHOTS 30

static struct snapshot_result take(struct bench *bench, const char *path, uint64_t history_ns)
{
	const struct snapshot_options options = {
		.size = sizeof(options), .path = path, .reason = "test", .history_ns = history_ns};
	struct snapshot_result result;
	struct calltap_diag diag = {0};
	int ret = snapshot_write(&bench->instance, &options, &result, &diag);

	if (ret)
		print_error("%s\n", diag.text);
	assert_int_equal(ret, 0);
	return result;
}

static void path_of(char path[64], const struct bench *bench)
{
	snprintf(path, 64, "%s.snapshot", bench->path);
}

/* The writer has come to write, on however busy a machine. */
static void await_writing(const struct scribe *scribe, uint64_t subs)
{
	while (__atomic_load_n(&scribe->ring->opened, __ATOMIC_ACQUIRE) < subs)
		usleep(1000);
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
	for (uint32_t i = 0; i < WRITERS; i++)
		await_writing(&scribes[i], 2);
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
	await_writing(&scribe, 5);
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
	await_writing(&first, 2);
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

enum { FIRED = 7, CHILD = 8, HIDDEN = 9, ROUNDS = 4000, FEW = 3 };

static uint64_t put(struct scribe *scribe, unsigned kind, uint32_t id)
{
	const struct ring_shared shared = {.board = scribe->bench->session.board};
	uint64_t *slot, now;

	while (!(slot = ring_take(&scribe->writer, 3)))
		assert_true(ring_open_next(&scribe->writer, &shared));
	now = arch_clock();
	ring_put2(slot, calltap_record_make(CALLTAP_REC_TIME, 0, 0), now);
	ring_put(slot + 2, calltap_record_make(kind, id, (uint32_t)now));
	return now;
}

static void put_children(struct scribe *scribe, int count)
{
	for (int i = 0; i < count; i++) {
		put(scribe, CALLTAP_REC_ENTRY, CHILD);
		put(scribe, CALLTAP_REC_EXIT, CHILD);
	}
}

/* The calls of FIRED as a reader sees them. */
struct fired {
	int known, unknown, open, unwound;
	uint64_t enter_ticks, exit_ticks;
};

static void note_closed(void *ctx, struct callstack *stack, const struct call_closed *closed)
{
	struct fired *fired = ctx;

	(void)stack;
	if (closed->frame->function != FIRED)
		return;
	if (!closed->frame->enter_known) {
		fired->unknown++;
		return;
	}
	fired->known++;
	fired->open += closed->how == CALL_OPEN;
	fired->unwound += closed->how == CALL_UNWOUND;
	fired->enter_ticks = closed->frame->enter_ticks;
	fired->exit_ticks = closed->exit_ticks;
}

static struct fired read_fired(const char *path, uint32_t *threads, uint64_t *history_ns)
{
	const struct callstack_ops ops = {.on_close = note_closed};
	struct calltap_diag diag = {0};
	struct fired fired = {0};
	struct trace_cursor *cursor;
	struct callstack *stack;
	struct trace_event event;
	struct trace *trace;

	assert_int_equal(trace_open(&trace, path, &diag), 0);
	assert_null(trace_damage(trace));
	assert_int_equal(callstack_create(&stack, trace, &ops, &fired), 0);
	assert_int_equal(trace_cursor_open(&cursor, trace, NULL, &diag), 0);
	while (trace_cursor_next(cursor, &event, &diag) == 1)
		assert_int_equal(callstack_feed(stack, &event), 0);
	callstack_finish(stack, UINT64_MAX);
	*threads = trace_thread_count(trace);
	*history_ns = trace_history_ns(trace, 0);
	trace_cursor_close(cursor);
	callstack_destroy(stack);
	trace_close(trace);
	return fired;
}

/* A call of FIRED: what is recorded within it, of its end, and after it. */
struct story {
	const char *name;
	int before;	/* children that overwrite its entry, or not */
	unsigned hides; /* the kind of a record that ends a call within it whose entry is overwritten */
	unsigned ends;	/* the kind of the record of its end; 0: it is on its way */
	int after;	/* children that overwrite its end, or not */
	bool threw;
	int unknown; /* ends of the call that a reader finds without an entry */
	uint32_t threads;
};

static void tell_story(const struct story *story)
{
	struct bench *bench = scribe_bench(SUB_SIZE, 4);
	struct scribe scribe = {.bench = bench, .ring = scribe_ring(bench, 0)};
	struct history_call call = {.tid = (uint32_t)gettid(), .function = FIRED, .threw = story->threw};
	struct snapshot_options options = {.size = sizeof(options), .call = &call};
	struct snapshot_result result;
	struct calltap_diag diag = {0};
	struct fired fired;
	uint64_t history_ns, end = 0;
	uint32_t threads;
	char path[64];

	path_of(path, bench);
	options.path = path;
	ring_attach(&scribe.writer, scribe.ring, gettid(), true);
	put_children(&scribe, FEW);
	call.entry_ticks = put(&scribe, CALLTAP_REC_ENTRY, FIRED);
	put(&scribe, CALLTAP_REC_ENTRY, HIDDEN);
	put_children(&scribe, story->before);
	if (story->hides)
		put(&scribe, story->hides, 1);
	else
		put(&scribe, CALLTAP_REC_EXIT, HIDDEN);
	put_children(&scribe, FEW);
	call.exit_ticks = arch_clock();
	if (story->ends)
		end = put(&scribe, story->ends, story->ends == CALLTAP_REC_EXIT ? FIRED : 1);
	put_children(&scribe, story->after);
	for (int wanted = 1; wanted >= 0; wanted--) {
		options.call = wanted ? &call : NULL;
		assert_int_equal(snapshot_write(&bench->instance, &options, &result, &diag), 0);
		fired = read_fired(path, &threads, &history_ns);
		print_message("%s%s: %d known, %d unknown, %u threads\n", story->name, wanted ? "" : " (plain)",
			      fired.known, fired.unknown, threads);
		assert_int_equal(history_ns > 0, story->before + story->after > FEW);
		if (!wanted)
			break;
		assert_int_equal(fired.known, 1);
		assert_int_equal(fired.unknown, story->unknown);
		assert_int_equal(fired.open, 0);
		assert_int_equal(fired.unwound, story->threw);
		assert_int_equal(threads, story->threads);
		assert_int_equal(fired.enter_ticks, call.entry_ticks);
		assert_true(fired.exit_ticks == call.exit_ticks || fired.exit_ticks == end);
	}
	/* Without it, the records alone. */
	assert_int_equal(fired.known, story->before + story->after <= FEW);
	unlink(path);
	bench_destroy(bench);
}

static void the_call_that_fired_is_there_whatever_is_overwritten(void **state)
{
	const struct story stories[] = {
		{.name = "whole", .ends = CALLTAP_REC_EXIT, .threads = 1},
		{.name = "whole, but for its end", .threads = 1},
		{.name = "entry overwritten", .before = ROUNDS, .ends = CALLTAP_REC_EXIT, .threads = 1},
		{.name = "and its end on its way", .before = ROUNDS, .threads = 1},
		{.name = "all overwritten", .before = ROUNDS, .ends = CALLTAP_REC_EXIT, .after = ROUNDS, .threads = 1},
		{.name = "thrown", .before = ROUNDS, .ends = CALLTAP_REC_UNWIND, .threw = true, .threads = 1},
		{.name = "thrown, overwritten",
		 .before = ROUNDS,
		 .ends = CALLTAP_REC_UNWIND,
		 .after = ROUNDS,
		 .threw = true,
		 .threads = 1},
		{.name = "an exception within it",
		 .before = ROUNDS,
		 .hides = CALLTAP_REC_UNWIND,
		 .ends = CALLTAP_REC_EXIT,
		 .unknown = 1,
		 .threads = 2},
		{.name = "a tail call within it",
		 .before = ROUNDS,
		 .hides = CALLTAP_REC_TAIL,
		 .ends = CALLTAP_REC_EXIT,
		 .unknown = 1,
		 .threads = 2},
	};

	for (size_t i = 0; i < sizeof(stories) / sizeof(stories[0]); i++)
		tell_story(&stories[i]);
}

static void refusals_have_their_sentence(void **state)
{
	struct bench *bench = bench_create(CALLTAP_MODE_BLOCK);
	struct snapshot_options options = {.size = sizeof(options), .path = "/nonexistent/file"};
	struct snapshot_result result;
	struct calltap_diag diag = {0};

	assert_int_equal(snapshot_write(&bench->instance, &options, &result, &diag), -EOPNOTSUPP);
	assert_non_null(strstr(diag.text, "--mode overwrite"));
	bench_destroy(bench);
	bench = scribe_bench(SUB_SIZE, 4);
	bench->session.images.tracer = bench->options.tracer;
	assert_int_equal(snapshot_write(&bench->instance, &options, &result, &diag), -ENOENT);
	options.path = bench->path;
	assert_int_equal(snapshot_write(&bench->instance, &options, &result, &diag), -EEXIST);
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
		cmocka_unit_test(the_call_that_fired_is_there_whatever_is_overwritten),
		cmocka_unit_test(refusals_have_their_sentence),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
