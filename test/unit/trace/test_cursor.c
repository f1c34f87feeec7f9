/*
 * Events of several threads in order, with gaps, damage and selections.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "support.h"

static struct trace_cursor *open_cursor(struct trace **trace, const struct maker *maker,
					const struct trace_select *select)
{
	struct trace_cursor *cursor;

	if (!*trace)
		assert_int_equal(trace_open(trace, maker->path, NULL), 0);
	assert_int_equal(trace_cursor_open(&cursor, *trace, select, NULL), 0);
	return cursor;
}

static void expect_event(struct trace_cursor *cursor, uint32_t thread, enum calltap_record_kind kind, uint32_t id,
			 uint64_t ticks)
{
	struct trace_event event;

	assert_int_equal(trace_cursor_next(cursor, &event, NULL), 1);
	assert_int_equal(event.thread, thread);
	assert_int_equal(event.kind, kind);
	assert_int_equal(event.id, id);
	assert_int_equal(event.ticks, ticks);
}

static void expect_end(struct trace_cursor *cursor)
{
	struct trace_event event;

	assert_int_equal(trace_cursor_next(cursor, &event, NULL), 0);
	assert_int_equal(trace_cursor_next(cursor, &event, NULL), 0);
}

/* Interleaved events, ties by thread, and a thread's second chunk long after its first. */
static void merges_in_time_order(void **state)
{
	static const struct say first[] = {{CALLTAP_REC_ENTRY, 1, 10, 0}, {CALLTAP_REC_EXIT, 1, 30, 0}};
	static const struct say second[] = {{CALLTAP_REC_ENTRY, 2, 100, 0}, {CALLTAP_REC_EXIT, 2, 101, 0}};
	static const struct say other[] = {{CALLTAP_REC_ENTRY, 3, 5, 0},
					   {CALLTAP_REC_EXIT, 3, 30, 0},
					   {CALLTAP_REC_ENTRY, 4, 40, 0},
					   {CALLTAP_REC_EXIT, 4, 100, 0}};
	struct maker maker;
	struct trace *trace = NULL;
	struct trace_cursor *cursor;

	maker_open(&maker);
	maker_data(&maker, 7, 0, other, 4);
	maker_data(&maker, 2, 0, first, 2);
	maker_data(&maker, 2, 1, second, 2);
	maker_close(&maker);
	cursor = open_cursor(&trace, &maker, NULL);
	expect_event(cursor, 7, CALLTAP_REC_ENTRY, 3, 5);
	expect_event(cursor, 2, CALLTAP_REC_ENTRY, 1, 10);
	expect_event(cursor, 2, CALLTAP_REC_EXIT, 1, 30);
	expect_event(cursor, 7, CALLTAP_REC_EXIT, 3, 30);
	expect_event(cursor, 7, CALLTAP_REC_ENTRY, 4, 40);
	expect_event(cursor, 2, CALLTAP_REC_ENTRY, 2, 100);
	expect_event(cursor, 7, CALLTAP_REC_EXIT, 4, 100);
	expect_event(cursor, 2, CALLTAP_REC_EXIT, 2, 101);
	expect_end(cursor);
	trace_cursor_close(cursor);
	trace_close(trace);
	maker_remove(&maker);
}

/* Many threads with random times against a sort. */
static void merges_many_threads(void **state)
{
	enum { THREADS = 60, CHUNKS = 3, EVENTS = 20 };
	struct trace *trace = NULL;
	struct trace_cursor *cursor;
	struct trace_event event;
	uint64_t seed = 4242, last = 0, count[THREADS] = {0};
	uint32_t last_thread = 0;
	struct maker maker;
	long total = 0;

	maker_open(&maker);
	for (uint32_t t = 0; t < THREADS; t++) {
		uint64_t ticks = random_next(&seed) % 5000;

		for (uint32_t c = 0; c < CHUNKS; c++) {
			struct say says[EVENTS];

			for (uint32_t i = 0; i < EVENTS; i++) {
				ticks += random_next(&seed) % 100;
				says[i] = (struct say){CALLTAP_REC_ENTRY, c * EVENTS + i, ticks, 0};
			}
			maker_data(&maker, t, c, says, EVENTS);
		}
	}
	maker_close(&maker);
	cursor = open_cursor(&trace, &maker, NULL);
	while (trace_cursor_next(cursor, &event, NULL) == 1) {
		assert_true(event.ticks > last || (event.ticks == last && event.thread >= last_thread));
		assert_int_equal(event.id, count[event.thread]++);
		last = event.ticks;
		last_thread = event.thread;
		total++;
	}
	assert_int_equal(total, THREADS * CHUNKS * EVENTS);
	trace_cursor_close(cursor);
	trace_close(trace);
	maker_remove(&maker);
}

static void time_never_decreases(void **state)
{
	static const struct say first[] = {
		{CALLTAP_REC_ENTRY, 1, 50, 0}, {CALLTAP_REC_ENTRY, 2, 40, 0}, {CALLTAP_REC_EXIT, 2, 60, 0}};
	static const struct say second[] = {{CALLTAP_REC_EXIT, 1, 55, 0}};
	struct maker maker;
	struct trace *trace = NULL;
	struct trace_cursor *cursor;

	maker_open(&maker);
	maker_data(&maker, 0, 0, first, 3);
	maker_data(&maker, 0, 1, second, 1);
	maker_close(&maker);
	cursor = open_cursor(&trace, &maker, NULL);
	expect_event(cursor, 0, CALLTAP_REC_ENTRY, 1, 50);
	expect_event(cursor, 0, CALLTAP_REC_ENTRY, 2, 50);
	expect_event(cursor, 0, CALLTAP_REC_EXIT, 2, 60);
	expect_event(cursor, 0, CALLTAP_REC_EXIT, 1, 60);
	expect_end(cursor);
	trace_cursor_close(cursor);
	trace_close(trace);
	maker_remove(&maker);
}

/* Chunk 1 is missing, and the other thread's chunk 0: each gap is one LOST of unknown size. */
static void gaps_are_lost_events(void **state)
{
	static const struct say first[] = {{CALLTAP_REC_ENTRY, 1, 10, 0}};
	static const struct say third[] = {{CALLTAP_REC_EXIT, 1, 90, 0}};
	static const struct say other[] = {{CALLTAP_REC_ENTRY, 2, 20, 0}};
	struct maker maker;
	struct trace *trace = NULL;
	struct trace_cursor *cursor;

	maker_open(&maker);
	maker_data(&maker, 0, 0, first, 1);
	maker_data(&maker, 1, 1, other, 1);
	maker_data(&maker, 0, 2, third, 1);
	maker_close(&maker);
	cursor = open_cursor(&trace, &maker, NULL);
	expect_event(cursor, 0, CALLTAP_REC_ENTRY, 1, 10);
	expect_event(cursor, 1, CALLTAP_REC_LOST, 0, 20);
	expect_event(cursor, 1, CALLTAP_REC_ENTRY, 2, 20);
	expect_event(cursor, 0, CALLTAP_REC_LOST, 0, 90);
	expect_event(cursor, 0, CALLTAP_REC_EXIT, 1, 90);
	expect_end(cursor);
	trace_cursor_close(cursor);
	trace_close(trace);
	maker_remove(&maker);
}

/* A stream that is damaged, its head good: one error, then LOST and the next chunk. */
static void goes_on_behind_a_damaged_stream(void **state)
{
	static const struct say first[] = {{CALLTAP_REC_ENTRY, 1, 10, 0}};
	static const struct say second[] = {{CALLTAP_REC_ENTRY, 2, 20, 0}};
	struct calltap_diag diag = {.code = 0};
	struct trace_event event;
	struct maker maker;
	struct trace *trace = NULL;
	struct trace_cursor *cursor;
	unsigned char *data;
	size_t size;

	maker_open(&maker);
	maker_data(&maker, 0, 0, first, 1);
	maker_data(&maker, 0, 1, second, 1);
	maker_end(&maker, 2);
	maker_close(&maker);
	data = file_read(maker.path, &size);
	data[sizeof(struct calltap_file_head) + sizeof(struct calltap_chunk) + sizeof(struct calltap_file_data)] ^= 1;
	file_write(maker.path, data, size);
	cursor = open_cursor(&trace, &maker, NULL);
	assert_null(trace_damage(trace));
	assert_int_equal(trace_cursor_next(cursor, &event, &diag), -EBADMSG);
	assert_non_null(strstr(diag.text, "1 event of thread 0 is missing"));
	expect_event(cursor, 0, CALLTAP_REC_LOST, 0, 20);
	expect_event(cursor, 0, CALLTAP_REC_ENTRY, 2, 20);
	expect_end(cursor);
	trace_cursor_close(cursor);
	trace_close(trace);
	free(data);
	maker_remove(&maker);
}

static void expect_one(struct trace *trace, const struct trace_select *select, uint32_t thread)
{
	struct trace_cursor *cursor = open_cursor(&trace, NULL, select);

	expect_event(cursor, thread, CALLTAP_REC_ENTRY, thread, 10 * thread);
	expect_end(cursor);
	trace_cursor_close(cursor);
}

static void selections(void **state)
{
	const struct calltap_file_process a = {.process = 0, .pid = 100}, b = {.process = 1, .pid = 200};
	struct trace_select by_thread = {.size = sizeof(by_thread), .thread = 1};
	struct trace_select by_pid = {.size = sizeof(by_pid), .thread = TRACE_NONE, .pid = 200};
	struct trace_select by_tid = {.size = sizeof(by_tid), .thread = TRACE_NONE, .tid = 103};
	struct trace_select nobody = {.size = sizeof(nobody), .thread = 1, .pid = 200};
	struct trace_cursor *cursor;
	struct trace *trace = NULL;
	struct maker maker;

	maker_open(&maker);
	maker_process(&maker, &a, "a");
	maker_process(&maker, &b, "b");
	for (uint32_t t = 1; t < 4; t++) {
		const struct say say = {CALLTAP_REC_ENTRY, t, 10 * t, 0};

		maker_thread(&maker, t, t == 2, 100 + t, "t");
		maker_data(&maker, t, 0, &say, 1);
	}
	maker_close(&maker);
	cursor = open_cursor(&trace, &maker, &nobody);
	expect_end(cursor);
	trace_cursor_close(cursor);
	expect_one(trace, &by_thread, 1);
	expect_one(trace, &by_pid, 2);
	expect_one(trace, &by_tid, 3);
	by_tid.size = 8;
	assert_int_equal(trace_cursor_open(&cursor, trace, &by_tid, NULL), -EINVAL);
	assert_null(cursor);
	trace_close(trace);
	maker_remove(&maker);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(merges_in_time_order),
		cmocka_unit_test(merges_many_threads),
		cmocka_unit_test(time_never_decreases),
		cmocka_unit_test(gaps_are_lost_events),
		cmocka_unit_test(goes_on_behind_a_damaged_stream),
		cmocka_unit_test(selections),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
