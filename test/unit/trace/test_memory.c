/*
 * Tables in memory: a reader gets what a writer put there, also after the tables have grown, and when something has
 * scribbled on them.
 */
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "host/trace/memory.h"
#include "host/trace/reader.h"
#include "support.h"

#define LINES 20000

static void mirrored(struct maker *maker, struct trace_memory *memory, int fd)
{
	assert_int_equal(trace_memory_create(memory, 77, fd, false), 0);
	maker_open(maker);
	trace_writer_mirror(maker->writer, memory);
	for (int i = 0; i < LINES; i++) {
		assert_int_equal(trace_writer_info(maker->writer, "key", "%d", i), 0);
		assert_int_equal(trace_writer_flush(maker->writer), 0);
	}
}

/* The chunks of [bytes, bytes + size) as a trace of their own; returns how many INFO lines came out. */
static uint32_t copy(const void *bytes, size_t size, const struct calltap_file_head *head, uint64_t *bad)
{
	struct trace_writer *writer;
	struct calltap_diag diag = {0};
	const char *key, *value;
	struct trace *trace;
	uint32_t lines = 0;
	char path[64];
	int fd = memfd_create("copy", MFD_CLOEXEC), keep = dup(fd);

	assert_int_equal(trace_writer_open(&writer, fd, head), 0);
	assert_int_equal(trace_memory_copy(writer, bytes, size, bad), 0);
	assert_int_equal(trace_writer_close(writer), 0);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", keep);
	assert_int_equal(trace_open(&trace, path, &diag), 0);
	while (trace_info_at(trace, lines, &key, &value))
		lines++;
	trace_close(trace);
	close(keep);
	return lines;
}

static void what_goes_in_comes_out(int fd)
{
	struct trace_memory memory;
	struct maker maker;
	const struct calltap_file_head *head;
	uint64_t bad;
	char *bytes;

	mirrored(&maker, &memory, fd);
	assert_true(memory.generation > 1 && !memory.full);
	assert_int_equal(memory.tables->session, 77);
	bytes = (char *)(memory.tables + 1);
	head = (void *)bytes;
	assert_memory_equal(head->magic, CALLTAP_FILE_MAGIC, sizeof(head->magic));
	assert_int_equal(copy(bytes + sizeof(*head), memory.tables->used - sizeof(*head), head, &bad), LINES);
	assert_int_equal(bad, 0);
	bytes[sizeof(*head) + 45]++; /* in the first chunk's payload */
	assert_int_equal(copy(bytes + sizeof(*head), memory.tables->used - sizeof(*head), head, &bad), LINES - 1);
	assert_int_equal(bad, 1);
	assert_int_equal(copy(bytes + sizeof(*head), memory.tables->used - sizeof(*head) - 3, head, &bad), LINES - 2);
	assert_int_equal(bad, 2);
	maker_close(&maker);
	maker_remove(&maker);
	trace_memory_destroy(&memory);
}

static void a_memfd_grows_into_another(void **state)
{
	what_goes_in_comes_out(-1);
}

static void a_file_grows(void **state)
{
	char path[] = "/tmp/calltap-test-XXXXXX";
	int fd = mkstemp(path);

	assert_true(fd >= 0);
	unlink(path);
	what_goes_in_comes_out(fd);
}

/* A recorder that runs for weeks: one sample in the bytes, the last one in the head. */
static void clock_samples_do_not_pile_up(void **state)
{
	struct trace_memory memory;
	struct maker maker;
	uint64_t used;

	mirrored(&maker, &memory, -1);
	for (uint64_t i = 1; i <= 1000; i++) {
		const struct calltap_file_clock clock = {i, i + 1, i + 2};

		assert_int_equal(trace_writer_chunk(maker.writer, CALLTAP_CHUNK_CLOCK, &clock, sizeof(clock)), 0);
		if (i == 1)
			used = memory.tables->used;
	}
	assert_int_equal(memory.tables->used, used);
	assert_int_equal(memory.tables->clock_count, 999);
	assert_int_equal(memory.tables->clocks[999 % 2].ticks, 1000);
	assert_int_equal(memory.tables->clocks[998 % 2].ticks, 999);
	maker_close(&maker);
	maker_remove(&maker);
	trace_memory_destroy(&memory);
}

/* A session's times in memory, as a TICKS chunk that a reader has opened. */
static struct trace *read_times(const struct calltap_tables_times *times)
{
	struct calltap_diag diag = {0};
	struct maker maker;
	struct trace *trace;

	maker_open(&maker);
	assert_int_equal(trace_memory_write_times(maker.writer, times), 0);
	maker_end(&maker, 0);
	maker_close(&maker);
	assert_int_equal(trace_open(&trace, maker.path, &diag), 0);
	maker_remove(&maker);
	return trace;
}

/* The end of the row that the time is in; 0: it is in none. */
static uint64_t late_until(const struct trace *trace, uint64_t ticks)
{
	for (uint32_t i = 0; i < trace->limits.late_count; i++)
		if (trace->limits.late[i].from <= ticks && ticks <= trace->limits.late[i].to)
			return trace->limits.late[i].to;
	return 0;
}

static void late_ticks_have_a_place(void **state)
{
	static struct calltap_tables_times copy;
	struct trace_memory memory;
	struct calltap_tables_times *times;
	struct trace *trace;
	uint64_t used;

	assert_int_equal(trace_memory_create(&memory, 77, -1, true), 0);
	times = trace_memory_times(&memory);
	assert_non_null(times);
	used = memory.tables->used;
	/* Nothing is told: nothing is known. */
	trace = read_times(times);
	assert_int_equal(late_until(trace, 5), UINT64_MAX);
	assert_int_equal(trace->limits.end_ticks, UINT64_MAX);
	trace_close(trace);
	for (uint64_t n = 1; n <= 3; n++)
		trace_memory_tell(&memory, 200, &(struct calltap_file_late){1000 * n, 1000 * n + 500}, 1,
				  1000 * n + 600);
	trace = read_times(times);
	assert_int_equal(trace->limits.span, 200);
	assert_int_equal(late_until(trace, 999), 0);
	assert_int_equal(late_until(trace, 1000), 1500);
	assert_int_equal(late_until(trace, 1600), 0);
	assert_int_equal(late_until(trace, 3599), 0);
	assert_int_equal(late_until(trace, 3600), UINT64_MAX);
	trace_close(trace);
	/* More rows than there is room for: before the oldest one nothing is known. */
	for (uint64_t n = 4; n <= CALLTAP_TABLES_LATE + 10; n++)
		trace_memory_tell(&memory, 200, &(struct calltap_file_late){1000 * n, 1000 * n + 500}, 1,
				  1000 * n + 600);
	trace = read_times(times);
	assert_int_equal(late_until(trace, 1), 12500);
	assert_int_equal(late_until(trace, 11000), 12500);
	assert_int_equal(late_until(trace, 12600), 0);
	assert_int_equal(late_until(trace, 13000), 13500);
	trace_close(trace);
	assert_int_equal(memory.tables->used, used);
	/* A core file that was written meanwhile, or is made up: rows out of order end what is known. */
	copy = *times;
	copy.late[99].to = copy.late[99].from - 1;
	trace = read_times(&copy);
	assert_int_equal(late_until(trace, 50000), 101500);
	assert_int_equal(late_until(trace, 101600), 0);
	trace_close(trace);
	copy.count = UINT64_MAX;
	trace_close(read_times(&copy));
	trace_memory_destroy(&memory);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_memfd_grows_into_another),
		cmocka_unit_test(a_file_grows),
		cmocka_unit_test(clock_samples_do_not_pile_up),
		cmocka_unit_test(late_ticks_have_a_place),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
