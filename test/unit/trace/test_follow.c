/*
 * Following a trace file that grows: in whatever pieces the file comes, the events are those of the whole file; no
 * event comes before its time.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "host/trace/follow.h"
#include "support.h"

#define MS	   1000000u
#define EVENTS_MAX 4096
#define QUEUED_MAX (1u << 20)

static void put_clock(struct maker *maker, uint64_t ticks)
{
	const struct calltap_file_clock sample = {ticks, ticks, ticks};

	assert_int_equal(trace_writer_chunk(maker->writer, CALLTAP_CHUNK_CLOCK, &sample, sizeof(sample)), 0);
}

static void put_start(struct maker *maker)
{
	const struct calltap_file_process process = {0, 42, UINT32_MAX, CALLTAP_START_SPAWN, 1, 0};

	maker_open(maker);
	assert_int_equal(trace_writer_info(maker->writer, "tracer", "function_graph"), 0);
	assert_int_equal(trace_writer_flush(maker->writer), 0);
	put_clock(maker, 1);
	maker_process(maker, &process, "/bin/prog");
	maker_object(maker, 0, "/bin/prog");
	maker_function(maker, 0, 0, 0x1000, 0x100, "main");
}

/* `count` calls of a thread from a time on, a tick each. */
static void put_calls(struct maker *maker, uint32_t thread, uint64_t number, uint64_t ticks, size_t count)
{
	struct say says[512];

	assert_true(count <= 512);
	for (size_t i = 0; i < count; i++)
		says[i] = (struct say){i % 2 ? CALLTAP_REC_EXIT : CALLTAP_REC_ENTRY, 0, ticks + i, 0};
	maker_data(maker, thread, number, says, count);
}

/* A file that grows as it is told. */
struct growing {
	int fd;
	unsigned char *bytes;
	size_t size, written;
	struct trace_follow *follow;
	struct trace_event events[EVENTS_MAX];
	size_t count;
};

static void grow(struct growing *growing, struct maker *maker, uint64_t queued_max)
{
	memset(growing, 0, sizeof(*growing));
	growing->fd = memfd_create("calltap-test", MFD_CLOEXEC);
	assert_true(growing->fd >= 0);
	growing->bytes = file_read(maker->path, &growing->size);
	assert_int_equal(trace_follow_create(&growing->follow, growing->fd, queued_max), 0);
}

static int write_to(struct growing *growing, size_t end)
{
	end = end < growing->size ? end : growing->size;
	while (growing->written < end) {
		ssize_t done = write(growing->fd, growing->bytes + growing->written, end - growing->written);

		assert_true(done > 0);
		growing->written += (size_t)done;
	}
	return trace_follow_poll(growing->follow);
}

static void take(struct growing *growing)
{
	while (growing->count < EVENTS_MAX && trace_follow_next(growing->follow, &growing->events[growing->count]))
		growing->count++;
}

static void let_go(struct growing *growing)
{
	trace_follow_destroy(growing->follow);
	close(growing->fd);
	free(growing->bytes);
}

static void is_in_order(const struct growing *growing)
{
	for (size_t i = 1; i < growing->count; i++)
		assert_true(growing->events[i].ticks >= growing->events[i - 1].ticks);
}

/* Threads in turns, a clock sample after each round, as the drainer writes it. */
static void put_rounds(struct maker *maker, unsigned rounds)
{
	put_start(maker);
	maker_thread(maker, 0, 0, 42, "first");
	maker_thread(maker, 1, 0, 43, "second");
	for (unsigned i = 0; i < rounds; i++) {
		put_calls(maker, 0, i, i * 100 * MS + 50, 20);
		put_calls(maker, 1, i, i * 100 * MS + 40, 30);
		put_clock(maker, i * 100 * MS + 1000);
	}
	maker_end(maker, rounds * 50);
	maker_close(maker);
}

static void any_pieces_make_the_whole(void **state)
{
	struct maker maker;
	uint64_t random = 88172645463325252ull;

	put_rounds(&maker, 10);
	for (int turn = 0; turn < 40; turn++) {
		struct growing growing;

		grow(&growing, &maker, QUEUED_MAX);
		while (growing.written < growing.size) {
			assert_int_equal(write_to(&growing, growing.written + random_next(&random) % (turn * 20 + 2)),
					 0);
			take(&growing);
		}
		trace_follow_finish(growing.follow);
		take(&growing);
		assert_int_equal(growing.count, 500);
		is_in_order(&growing);
		assert_int_equal(trace_follow_passed_over(growing.follow), 0);
		let_go(&growing);
	}
	maker_remove(&maker);
}

static void nothing_comes_before_its_time(void **state)
{
	struct growing growing;
	struct maker maker;
	size_t written = 0;

	put_rounds(&maker, 4);
	grow(&growing, &maker, QUEUED_MAX);
	assert_null(trace_follow_trace(growing.follow));
	while (written < growing.size) {
		uint64_t ticks;

		assert_int_equal(write_to(&growing, ++written), 0);
		take(&growing);
		ticks = trace_follow_ticks(growing.follow);
		for (size_t i = 0; i < growing.count; i++)
			assert_true(growing.events[i].ticks <= ticks);
	}
	assert_non_null(trace_follow_trace(growing.follow));
	assert_string_equal(trace_function(trace_follow_trace(growing.follow), 0)->name, "main");
	assert_string_equal(trace_thread(trace_follow_trace(growing.follow), 1)->name, "second");
	assert_int_equal(growing.count, 150); /* the events before the last clock sample but one */
	let_go(&growing);
	maker_remove(&maker);
}

static void what_nobody_asks_for_is_passed_over(void **state)
{
	struct growing growing;
	struct maker maker;
	uint64_t told = 0, seen = 0, lost = 0;

	put_rounds(&maker, 10);
	grow(&growing, &maker, 300);
	assert_int_equal(write_to(&growing, growing.size - 200), 0);
	take(&growing);
	assert_int_equal(write_to(&growing, growing.size), 0);
	trace_follow_finish(growing.follow);
	take(&growing);
	for (size_t i = 0; i < growing.count; i++) {
		told += growing.events[i].kind == CALLTAP_REC_LOST ? growing.events[i].extra : 0;
		seen += growing.events[i].kind != CALLTAP_REC_LOST;
	}
	assert_true(trace_follow_passed_over(growing.follow) > 0);
	assert_true(told <= trace_follow_passed_over(growing.follow));
	for (uint32_t i = 0; i < trace_thread_count(trace_follow_trace(growing.follow)); i++)
		lost += trace_follow_lost(growing.follow, i);
	assert_int_equal(lost, trace_follow_passed_over(growing.follow));
	assert_int_equal(seen + trace_follow_passed_over(growing.follow), 500);
	is_in_order(&growing);
	let_go(&growing);
	maker_remove(&maker);
}

static void what_was_read_takes_no_room(void **state)
{
	struct growing growing;
	struct maker maker;
	struct stat about;
	uint64_t random = 88172645463325252ull;

	put_start(&maker);
	maker_thread(&maker, 0, 0, 42, "first");
	for (unsigned i = 0; i < 2000; i++) {
		struct say says[500];

		for (size_t k = 0; k < 500; k++) /* ids that do not compress */
			says[k] = (struct say){CALLTAP_REC_ENTRY, (uint32_t)random_next(&random) >> 4, i * 1000 + k, 0};
		maker_data(&maker, 0, i, says, 500);
	}
	maker_close(&maker);
	grow(&growing, &maker, QUEUED_MAX);
	assert_true(growing.size > 3u << 20);
	assert_int_equal(write_to(&growing, growing.size), 0);
	assert_int_equal(fstat(growing.fd, &about), 0);
	assert_int_equal(about.st_size, growing.size);
	assert_true((uint64_t)about.st_blocks * 512 < growing.size / 2);
	let_go(&growing);
	maker_remove(&maker);
}

static void nonsense_ends_it(void **state)
{
	struct maker maker;
	uint64_t random = 1234567;

	put_rounds(&maker, 3);
	for (int turn = 0; turn < 2000; turn++) {
		struct growing growing;
		int err = 0;

		grow(&growing, &maker, QUEUED_MAX);
		for (int i = 0; i < 3; i++)
			growing.bytes[random_next(&random) % growing.size] ^= (unsigned char)random_next(&random);
		while (!err && growing.written < growing.size) {
			err = write_to(&growing, growing.written + 500);
			take(&growing);
		}
		trace_follow_finish(growing.follow);
		take(&growing);
		assert_true(err <= 0);
		let_go(&growing);
	}
	maker_remove(&maker);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(any_pieces_make_the_whole),
		cmocka_unit_test(nothing_comes_before_its_time),
		cmocka_unit_test(what_nobody_asks_for_is_passed_over),
		cmocka_unit_test(what_was_read_takes_no_room),
		cmocka_unit_test(nonsense_ends_it),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
