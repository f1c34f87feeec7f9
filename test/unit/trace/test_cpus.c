/* On which CPUs threads ran: what is known of a time between readings, in whole files and in one that grows. */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "host/trace/follow.h"
#include "support.h"

#define MS 1000000u

static void put_start(struct maker *maker)
{
	const struct calltap_file_process process = {0, 42, UINT32_MAX, CALLTAP_START_SPAWN, 1, 0};

	maker_open(maker);
	assert_int_equal(trace_writer_info(maker->writer, "tracer", "function"), 0);
	assert_int_equal(trace_writer_flush(maker->writer), 0);
	maker_process(maker, &process, "/bin/prog");
	maker_object(maker, 0, "/bin/prog");
	maker_function(maker, 0, 0, 0x1000, 0x100, "main");
	maker_thread(maker, 0, 0, 42, "first");
	maker_thread(maker, 1, 0, 43, "second");
}

static void put_cpu(struct maker *maker, uint32_t thread, uint64_t ticks, uint32_t cpu)
{
	assert_int_equal(trace_writer_cpu(maker->writer, thread, ticks, cpu + 1), 0);
}

static void is_around(const struct trace *trace, uint32_t thread, uint64_t ticks, const struct trace_cpus *wanted)
{
	struct trace_cpus found;

	trace_cpus_around(trace, thread, ticks, &found);
	assert_int_equal(found.before, wanted->before);
	assert_int_equal(found.after, wanted->after);
	assert_true(found.from_ticks == wanted->from_ticks);
	assert_true(found.to_ticks == wanted->to_ticks);
}

#define IS_AROUND(trace, thread, ticks, ...) is_around(trace, thread, ticks, &(struct trace_cpus){__VA_ARGS__})

static void readings_are_found_by_time(void **state)
{
	const uint64_t end = UINT64_MAX;
	struct calltap_diag diag;
	struct maker maker;
	struct trace *trace;

	put_start(&maker);
	for (uint64_t ticks = 100; ticks <= 300; ticks += 50)
		put_cpu(&maker, 0, ticks, 7);
	put_cpu(&maker, 0, 400, 2);
	put_cpu(&maker, 1, 150, 3);
	assert_int_equal(trace_writer_flush(maker.writer), 0);
	put_cpu(&maker, 0, 500, 7);
	assert_int_equal(trace_writer_cpu(maker.writer, 0, 600, 0), 0); /* not known: no reading */
	put_cpu(&maker, 0, 450, 1);					/* steps back: passed over */
	assert_int_equal(trace_writer_flush(maker.writer), 0);
	maker_end(&maker, 0);
	maker_close(&maker);

	assert_int_equal(trace_open(&trace, maker.path, &diag), 0);
	assert_null(trace_damage(trace));
	IS_AROUND(trace, 0, 99, TRACE_NONE, 7, 0, 100);
	IS_AROUND(trace, 0, 100, 7, 7, 100, 300);
	IS_AROUND(trace, 0, 275, 7, 7, 100, 300);
	IS_AROUND(trace, 0, 301, 7, 2, 300, 400);
	IS_AROUND(trace, 0, 400, 2, 2, 400, 400);
	IS_AROUND(trace, 0, 499, 2, 7, 400, 500);
	IS_AROUND(trace, 0, 501, 7, TRACE_NONE, 500, end);
	IS_AROUND(trace, 1, 149, TRACE_NONE, 3, 0, 150);
	IS_AROUND(trace, 1, 151, 3, TRACE_NONE, 150, end);
	IS_AROUND(trace, 2, 150, TRACE_NONE, TRACE_NONE, 0, end); /* no such thread */
	trace_close(trace);
	maker_remove(&maker);
}

/* A chunk that makes no sense is damage, and the rest is read. */
static void damage_is_told(void **state)
{
	const struct calltap_file_cpu rows[] = {{0, 5, 100}, {UINT32_MAX, 5, 200}, {0, 6, 300}};
	struct calltap_diag diag;
	struct maker maker;
	struct trace *trace;

	put_start(&maker);
	assert_int_equal(trace_writer_chunk(maker.writer, CALLTAP_CHUNK_CPUS, rows, sizeof(rows[0]) - 1), 0);
	assert_int_equal(trace_writer_chunk(maker.writer, CALLTAP_CHUNK_CPUS, rows, sizeof(rows)), 0);
	put_cpu(&maker, 1, 100, 3);
	assert_int_equal(trace_writer_flush(maker.writer), 0);
	maker_end(&maker, 0);
	maker_close(&maker);
	assert_int_equal(trace_open(&trace, maker.path, &diag), 0);
	assert_non_null(trace_damage(trace));
	IS_AROUND(trace, 0, 100, 5, 5, 100, 100);
	IS_AROUND(trace, 1, 100, 3, 3, 100, 100);
	trace_close(trace);
	maker_remove(&maker);
}

/* The CPUs that a sub-buffer tells: by its head, and by TIME records. */
static void sub_buffers_tell(void **state)
{
	const struct calltap_subbuf head = {.ticks = 1000, .cpu = 4};
	const uint64_t words[] = {
		calltap_record_make(CALLTAP_REC_CALL, 0, 1001), 77,
		calltap_record_make(CALLTAP_REC_TIME, 2, 1100), 1100,
		calltap_record_make(CALLTAP_REC_CALL, 0, 1101), 77,
		calltap_record_make(CALLTAP_REC_TIME, 0, 1200), 1200, /* not known */
		calltap_record_make(CALLTAP_REC_TIME, 9, 1300), 0,    /* not written yet */
		calltap_record_make(CALLTAP_REC_CALL, 0, 1301), 77,
	};
	struct encode_result result;
	struct calltap_diag diag;
	struct maker maker;
	struct trace *trace;
	const void *payload;
	size_t size;

	put_start(&maker);
	assert_int_equal(
		record_encode(maker.encoder, 0, 0, head.ticks, words, sizeof(words) / 8, &payload, &size, &result), 0);
	assert_int_equal(result.records, 3);
	assert_int_equal(result.cpu_count, 1);
	assert_int_equal(trace_writer_chunk(maker.writer, CALLTAP_CHUNK_DATA, payload, size), 0);
	assert_int_equal(trace_writer_cpus(maker.writer, 0, &head, &result), 0);
	assert_int_equal(trace_writer_cpus(maker.writer, 0, NULL, &(struct encode_result){0}), 0);
	assert_int_equal(trace_writer_flush(maker.writer), 0);
	maker_end(&maker, 3);
	maker_close(&maker);
	assert_int_equal(trace_open(&trace, maker.path, &diag), 0);
	IS_AROUND(trace, 0, 1050, 3, 1, 1000, 1100);
	IS_AROUND(trace, 0, 1101, 1, TRACE_NONE, 1100, UINT64_MAX);
	trace_close(trace);
	maker_remove(&maker);
}

/* A sub-buffer with more moves than there is room for tells the first ones and the last. */
static void many_moves_tell_the_last(void **state)
{
	struct record_encoder *encoder;
	struct encode_result result;
	uint64_t words[4 * ENCODE_CPUS + 1];
	size_t used = 0, size;
	const void *payload;

	for (uint32_t i = 1; i <= 2 * ENCODE_CPUS; i++) {
		words[used++] = calltap_record_make(CALLTAP_REC_TIME, i, i);
		words[used++] = i;
	}
	words[used++] = calltap_record_make(CALLTAP_REC_ENTRY, 0, 99);
	assert_int_equal(record_encoder_create(&encoder), 0);
	assert_int_equal(record_encode(encoder, 0, 0, 0, words, used, &payload, &size, &result), 0);
	assert_int_equal(result.cpu_count, ENCODE_CPUS);
	assert_int_equal(result.cpus[ENCODE_CPUS - 2].cpu, ENCODE_CPUS - 1);
	assert_int_equal(result.cpus[ENCODE_CPUS - 1].cpu, 2 * ENCODE_CPUS);
	record_encoder_destroy(encoder);
}

/* A follower finds the CPUs of each event that it hands out, however many moves there have been. */
static void followed_events_have_theirs(void **state)
{
	enum { MOVES = 5000 };
	struct trace_follow *follow;
	struct trace_cpus around;
	struct trace_event event;
	struct maker maker;
	unsigned char *bytes;
	uint32_t count = 0;
	size_t size;
	int fd = memfd_create("calltap-test", MFD_CLOEXEC);

	put_start(&maker);
	for (uint64_t i = 0; i < MOVES; i++) {
		const struct say say = {CALLTAP_REC_CALL, 0, i * MS + 500, 0};

		put_cpu(&maker, 0, i * MS + 100, (uint32_t)i % 5);
		maker_data(&maker, 0, i, &say, 1);
	}
	assert_int_equal(trace_writer_flush(maker.writer), 0);
	maker_close(&maker);
	bytes = file_read(maker.path, &size);
	assert_true(fd >= 0 && write(fd, bytes, size) == (ssize_t)size);
	assert_int_equal(trace_follow_create(&follow, fd, 1u << 24), 0);
	assert_int_equal(trace_follow_poll(follow), 0);
	trace_follow_finish(follow);
	for (; trace_follow_next(follow, &event); count++)
		IS_AROUND(trace_follow_trace(follow), 0, event.ticks, count % 5,
			  count + 1 < MOVES ? (count + 1) % 5 : TRACE_NONE, count * (uint64_t)MS + 100,
			  count + 1 < MOVES ? (count + 1) * (uint64_t)MS + 100 : UINT64_MAX);
	assert_int_equal(count, MOVES);
	/* Readings of long ago are forgotten. */
	trace_cpus_around(trace_follow_trace(follow), 0, 500, &around);
	assert_int_equal(around.before, TRACE_NONE);
	assert_true(around.to_ticks > (MOVES - 256) * (uint64_t)MS);
	trace_follow_destroy(follow);
	maker_remove(&maker);
	free(bytes);
	close(fd);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(readings_are_found_by_time),
		cmocka_unit_test(damage_is_told),
		cmocka_unit_test(sub_buffers_tell),
		cmocka_unit_test(many_moves_tell_the_last),
		cmocka_unit_test(followed_events_have_theirs),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
