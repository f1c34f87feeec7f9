/*
 * A trace file written and read back: every chunk type, and every way to be
 * cut short or damaged.
 */
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "support.h"

static struct trace *open_good(const char *path)
{
	struct calltap_diag diag = {.code = 0};
	struct trace *trace;

	assert_int_equal(trace_open(&trace, path, &diag), 0);
	return trace;
}

static void tables_come_back(void **state)
{
	struct maker maker;
	struct trace *trace;

	maker_everything(&maker);
	trace = open_good(maker.path);
	assert_null(trace_damage(trace));
	assert_string_equal(trace_path(trace), maker.path);
	assert_int_equal(trace_head(trace)->arch, 62);
	assert_string_equal(trace_info(trace, "command"), "prog -x");
	assert_string_equal(trace_info(trace, "host"), "new line");
	assert_null(trace_info(trace, "absent"));

	assert_int_equal(trace_function_count(trace), 3);
	assert_string_equal(trace_function(trace, 0)->name, "main");
	assert_ptr_equal(trace_function(trace, 0)->name, trace_function(trace, 0)->symbol);
	assert_null(trace_function(trace, 0)->file);
	assert_string_equal(trace_function(trace, 1)->name, "foo::bar(int)");
	assert_string_equal(trace_function(trace, 1)->symbol, "_ZN3foo3barEi");
	assert_string_equal(trace_function(trace, 1)->file, "rc/a.c");
	assert_int_equal(trace_function(trace, 1)->line, 77);
	assert_string_equal(trace_function(trace, 2)->name, "mycrate::foo");
	assert_null(trace_function(trace, 3));

	assert_int_equal(trace_object_count(trace), 1);
	assert_string_equal(trace_object(trace, 0)->path, "/bin/prog");
	assert_int_equal(trace_object(trace, 0)->build_id_size, 4);
	assert_int_equal(trace_object(trace, 0)->build_id[3], 4);
	assert_int_equal(trace_process_count(trace), 1);
	assert_int_equal(trace_process(trace, 0)->pid, 42);
	assert_int_equal(trace_process(trace, 0)->parent, TRACE_NONE);
	assert_string_equal(trace_process(trace, 0)->exe, "/bin/prog");
	assert_int_equal(trace_thread_count(trace), 2);
	assert_string_equal(trace_thread(trace, 1)->name, "exactly16chars!!");
	assert_int_equal(trace_thread(trace, 1)->tid, 43);
	assert_int_equal(trace_thread(trace, 1)->records, 5);
	assert_int_equal(trace_end(trace)->records, 10);
	assert_int_equal(trace_end(trace)->status, 256);
	trace_close(trace);
	assert_int_equal(file_walk(maker.path, NULL), 10);
	maker_remove(&maker);
}

static void clock_is_a_line(void **state)
{
	struct maker maker;
	struct trace *trace;

	maker_everything(&maker); /* 500 ticks at 10000 ns, 3500 at 11000 */
	trace = open_good(maker.path);
	assert_true(fabs(trace_ticks_per_ns(trace) - 3.0) < 1e-9);
	assert_int_equal(trace_start_ticks(trace), 500);
	assert_int_equal(trace_mono_ns(trace, 500), 10000);
	assert_int_equal(trace_mono_ns(trace, 3500), 11000);
	assert_int_equal(trace_mono_ns(trace, 200), 9900);
	assert_int_equal(trace_mono_ns(trace, 6500), 12000);
	assert_int_equal(trace_duration_ns(trace, 300), 100);
	trace_close(trace);
	maker_remove(&maker);
}

static uint32_t resolve(const struct trace *trace, uint32_t process, uint64_t address, uint64_t ticks)
{
	struct trace_resolved resolved;

	trace_resolve(trace, process, address, ticks, &resolved);
	assert_true(trace_resolved_at(trace, &resolved, ticks));
	return resolved.function;
}

static void addresses_resolve(void **state)
{
	struct maker maker;
	struct trace *trace;
	char text[64];

	maker_everything(&maker);
	trace = open_good(maker.path);
	assert_int_equal(resolve(trace, 0, 0x10001000, 500), 0);
	assert_int_equal(resolve(trace, 0, 0x100010ff, 500), 0);
	assert_int_equal(resolve(trace, 0, 0x10001100, 500), 1);
	assert_int_equal(resolve(trace, 0, 0x10001180, 500), TRACE_NONE);
	assert_int_equal(resolve(trace, 0, 0x10000fff, 500), TRACE_NONE);
	assert_int_equal(resolve(trace, 0, 0x20001000, 500), TRACE_NONE);
	assert_int_equal(resolve(trace, 7, 0x10001000, 500), TRACE_NONE);
	trace_describe_address(trace, 0, 0x10001000, 500, text, sizeof(text));
	assert_string_equal(text, "main");
	trace_describe_address(trace, 0, 0x10001112, 500, text, sizeof(text));
	assert_string_equal(text, "foo::bar(int)+0x12");
	trace_describe_address(trace, 0, 0x10001190, 500, text, sizeof(text));
	assert_string_equal(text, "prog+0x1190");
	trace_describe_address(trace, 0, 0x99, 500, text, sizeof(text));
	assert_string_equal(text, "0x99");
	trace_close(trace);
	maker_remove(&maker);
}

/* A library at a place that another one has left, and a fork's child without maps of its own. */
static void the_map_of_the_time_wins(void **state)
{
	const struct calltap_file_map maps[] = {{0, 0, 0x1000, 0x1000, 0x9000, 10},
						{0, UINT32_MAX, 0x1000, 0x1000, 0x9000, 20},
						{0, 1, 0x2000, 0x2000, 0x3000, 30},
						{0, UINT32_MAX, 0x2000, 0x2000, 0x3000, 40},
						{0, 0, 0x1000, 0x1000, 0x9000, 40}};
	const struct {
		uint64_t ticks;
		uint32_t parents, childs; /* function at 0x2800 */
	} expected[] = {{5, 0, 0},  {10, 0, 0}, {19, 0, 0}, {20, TRACE_NONE, TRACE_NONE}, {30, 1, 1}, {35, 1, 1},
			{39, 1, 1}, {40, 0, 1}, {99, 0, 1}};
	const struct calltap_file_process parent = {.process = 0, .pid = 1, .parent = UINT32_MAX};
	const struct calltap_file_process child = {
		.process = 1, .pid = 2, .start = CALLTAP_START_FORK, .start_ticks = 35};
	struct trace_resolved old, new;
	struct maker maker;
	struct trace *trace;
	char text[64];

	maker_open(&maker);
	maker_process(&maker, &parent, "a");
	maker_process(&maker, &child, "a");
	maker_object(&maker, 0, "old.so");
	maker_object(&maker, 1, "new.so");
	maker_function(&maker, 0, 0, 0x1000, 0x1000, "old");
	maker_function(&maker, 1, 1, 0x0, 0x1000, "new");
	assert_int_equal(trace_writer_chunk(maker.writer, CALLTAP_CHUNK_MAP, maps, sizeof(maps)), 0);
	maker_end(&maker, 0);
	maker_close(&maker);
	trace = open_good(maker.path);
	for (size_t i = 0; i < sizeof(expected) / sizeof(expected[0]); i++) {
		assert_int_equal(resolve(trace, 0, 0x2800, expected[i].ticks), expected[i].parents);
		assert_int_equal(resolve(trace, 1, 0x2800, expected[i].ticks), expected[i].childs);
		assert_int_equal(resolve(trace, 0, 0x9000, expected[i].ticks), TRACE_NONE);
	}
	trace_resolve(trace, 0, 0x2800, 15, &old);
	trace_resolve(trace, 0, 0x2800, 33, &new);
	assert_true(trace_resolved_at(trace, &old, 10) && !trace_resolved_at(trace, &old, 20));
	assert_true(trace_resolved_at(trace, &new, 39) && !trace_resolved_at(trace, &new, 40));
	assert_false(trace_resolved_at(trace, &new, 29));
	trace_describe_address(trace, 0, 0x2810, 15, text, sizeof(text));
	assert_string_equal(text, "old+0x810");
	trace_describe_address(trace, 0, 0x2810, 25, text, sizeof(text));
	assert_string_equal(text, "0x2810");
	trace_describe_address(trace, 0, 0x2810, 35, text, sizeof(text));
	assert_string_equal(text, "new+0x810");
	trace_close(trace);
	maker_remove(&maker);
}

static void later_descriptions_replace(void **state)
{
	struct maker maker;
	struct trace *trace;

	maker_open(&maker);
	maker_function(&maker, 5, 0, 0, 0, "first");
	maker_function(&maker, 5, 0, 0, 0, "second");
	maker_thread(&maker, 0, 0, 1, "one");
	maker_thread(&maker, 0, 0, 1, "two");
	maker_end(&maker, 0);
	maker_close(&maker);
	trace = open_good(maker.path);
	assert_string_equal(trace_function(trace, 5)->name, "second");
	assert_int_equal(trace_function(trace, 5)->object, TRACE_NONE);
	assert_null(trace_function(trace, 4));
	assert_string_equal(trace_thread(trace, 0)->name, "two");
	assert_string_equal(trace_process(trace, 0)->exe, "?"); /* none was described */
	trace_close(trace);
	maker_remove(&maker);
}

static void refuses(const char *path, const char *expected)
{
	struct calltap_diag diag = {.code = 0};
	struct trace *trace;

	assert_true(trace_open(&trace, path, &diag) < 0);
	assert_null(trace);
	if (!strstr(diag.text, expected))
		fail_msg("\"%s\" does not say \"%s\"", diag.text, expected);
}

static void other_files_are_refused(void **state)
{
	struct maker maker;
	unsigned char *data;
	size_t size;

	maker_everything(&maker);
	data = file_read(maker.path, &size);
	refuses("/nonexistent/trace", "cannot open");
	refuses("/tmp", "is not a Calltap trace");
	file_write(maker.path, "", 0);
	refuses(maker.path, "is not a Calltap trace");
	file_write(maker.path, "#!/bin/sh\necho this is a script, longer than the head of a trace file is\n", 73);
	refuses(maker.path, "is not a Calltap trace");
	data[8] = 2;
	file_write(maker.path, data, size);
	refuses(maker.path, "format 2");
	free(data);
	maker_remove(&maker);
}

/* Cut at every byte: what was whole before is there, and the loss is told. */
static void cut_anywhere(void **state)
{
	struct maker maker;
	unsigned char *data;
	long most = 0;
	size_t size;

	maker_everything(&maker);
	data = file_read(maker.path, &size);
	for (size_t cut = 0; cut < size; cut++) {
		long events;

		file_write(maker.path, data, cut);
		events = file_walk(maker.path, NULL);
		if (cut < sizeof(struct calltap_file_head)) {
			assert_int_equal(events, -1);
			continue;
		}
		assert_true(events >= most);
		most = events;
		if (cut + 8 < size) { /* the padding's last bytes may go */
			struct trace *trace = open_good(maker.path);

			assert_non_null(trace_damage(trace));
			trace_close(trace);
		}
	}
	assert_int_equal(most, 10);
	free(data);
	maker_remove(&maker);
}

/* Every single bit of the chunks: never a crash, and what it does is told unless nothing is missing. */
static void flip_every_bit(void **state)
{
	struct maker maker;
	unsigned char *data, flipped;
	size_t size;
	int fd;

	maker_everything(&maker);
	data = file_read(maker.path, &size);
	fd = open(maker.path, O_WRONLY);
	assert_true(fd >= 0);
	for (size_t bit = 0; bit < size * 8; bit++) {
		bool told;
		long events;

		flipped = data[bit / 8] ^ (unsigned char)(1u << bit % 8);
		assert_int_equal(pwrite(fd, &flipped, 1, (off_t)(bit / 8)), 1);
		events = file_walk(maker.path, &told);
		assert_true(events <= 10);
		assert_true(told || events == 10);
		assert_int_equal(pwrite(fd, &data[bit / 8], 1, (off_t)(bit / 8)), 1);
	}
	close(fd);
	free(data);
	maker_remove(&maker);
}

static void random_damage(void **state)
{
	struct maker maker;
	unsigned char *data, *copy;
	uint64_t seed = 77;
	size_t size;

	maker_everything(&maker);
	data = file_read(maker.path, &size);
	copy = malloc(size);
	for (int round = 0; round < 3000; round++) {
		uint64_t r = random_next(&seed);

		memcpy(copy, data, size);
		for (unsigned i = 0; i < 1 + r % 20; i++)
			copy[64 + random_next(&seed) % (size - 64)] = (unsigned char)random_next(&seed);
		file_write(maker.path, copy, 64 + (r >> 32) % (size - 63));
		file_walk(maker.path, NULL);
	}
	free(copy);
	free(data);
	maker_remove(&maker);
}

/* Chunks after a damaged one are found again. */
static void goes_on_behind_damage(void **state)
{
	struct maker maker;
	struct trace *trace;
	unsigned char *data;
	size_t size;

	maker_everything(&maker);
	data = file_read(maker.path, &size);
	memset(data + 64, 0xff, 100); /* the INFO and CLOCK chunks */
	file_write(maker.path, data, size);
	trace = open_good(maker.path);
	assert_non_null(strstr(trace_damage(trace), "damaged in 1 place(s), first at byte 64"));
	assert_null(trace_info(trace, "command"));
	assert_string_equal(trace_function(trace, 0)->name, "main");
	assert_non_null(trace_end(trace));
	trace_close(trace);
	assert_int_equal(file_walk(maker.path, NULL), 10);
	free(data);
	maker_remove(&maker);
}

/* Forged with right checks: numbers that ask for memory or point outside. */
static void forged_tables(void **state)
{
	const uint32_t function_count[] = {0xffffffff, 0}, no_nul[] = {0, 4, 0x61616161};
	const struct calltap_file_thread far_thread = {.thread = 0xfffffff0};
	struct {
		struct calltap_file_functions head;
		struct calltap_file_function function;
		char string[8];
	} functions = {{1, 8}, {0x0fffffff, 0, 0, 0, 0}, "name"}, outside = {{1, 8}, {0, 0, 0, 0, 8}, "name"};
	struct maker maker;
	struct trace *trace;

	maker_open(&maker);
	assert_int_equal(trace_writer_chunk(maker.writer, CALLTAP_CHUNK_FUNCTIONS, function_count, 8), 0);
	assert_int_equal(trace_writer_chunk(maker.writer, CALLTAP_CHUNK_LINES, no_nul, 12), 0);
	assert_int_equal(trace_writer_chunk(maker.writer, CALLTAP_CHUNK_THREAD, &far_thread, sizeof(far_thread)), 0);
	assert_int_equal(trace_writer_chunk(maker.writer, CALLTAP_CHUNK_FUNCTIONS, &functions, sizeof(functions)), 0);
	assert_int_equal(trace_writer_chunk(maker.writer, CALLTAP_CHUNK_FUNCTIONS, &outside, sizeof(outside)), 0);
	assert_int_equal(trace_writer_chunk(maker.writer, CALLTAP_CHUNK_PROCESS, "x", 1), 0);
	assert_int_equal(trace_writer_chunk(maker.writer, CALLTAP_CHUNK_OBJECT, "x", 1), 0);
	assert_int_equal(trace_writer_chunk(maker.writer, CALLTAP_CHUNK_MAP, "x", 1), 0);
	assert_int_equal(trace_writer_chunk(maker.writer, CALLTAP_CHUNK_CLOCK, "x", 1), 0);
	assert_int_equal(trace_writer_chunk(maker.writer, CALLTAP_CHUNK_END, "x", 1), 0);
	maker_close(&maker);
	trace = open_good(maker.path);
	assert_non_null(strstr(trace_damage(trace), "in 10 place(s)"));
	assert_int_equal(trace_thread_count(trace), 0);
	assert_null(trace_function(trace, 0));
	trace_close(trace);
	maker_remove(&maker);
}

static void writer_refuses_nonsense(void **state)
{
	struct calltap_diag diag;
	struct trace_writer *writer;
	struct maker maker;
	struct stat about;

	assert_int_equal(trace_writer_create(&writer, "/nonexistent/trace", 62, &diag), -ENOENT);
	assert_null(writer);
	assert_non_null(strstr(diag.text, "/nonexistent/trace"));
	maker_open(&maker);
	assert_int_equal(trace_writer_chunk(maker.writer, CALLTAP_CHUNK_DATA, "x", 1), -EINVAL);
	assert_int_equal(trace_writer_chunk(maker.writer, 1, "x", (size_t)CALLTAP_CHUNK_RAW_MAX + 1), -E2BIG);
	assert_int_equal(trace_writer_error(maker.writer), 0);
	maker_close(&maker);
	maker_remove(&maker);
	maker_everything(&maker);
	assert_int_equal(stat(maker.path, &about), 0);
	assert_int_equal(about.st_size % 8, 0);
	maker_remove(&maker);
}

/* No room for the third chunk: the error stays, and the file ends with its second one, whole. */
static void first_error_stays(void **state)
{
	const struct rlimit small = {512, RLIM_INFINITY}, none = {RLIM_INFINITY, RLIM_INFINITY};
	uint64_t bytes[25], seed = 3;
	struct maker maker;
	struct trace *trace;
	struct stat about;

	for (size_t i = 0; i < 25; i++)
		bytes[i] = random_next(&seed);
	signal(SIGXFSZ, SIG_IGN);
	maker_open(&maker);
	maker_function(&maker, 0, 0, 0, 0, "good");
	assert_int_equal(trace_writer_chunk(maker.writer, 9999, bytes, sizeof(bytes)), 0);
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
	assert_int_equal(trace_writer_chunk(maker.writer, 9999, bytes, sizeof(bytes)), -EFBIG);
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &none), 0);
	assert_int_equal(trace_writer_chunk(maker.writer, 9999, bytes, 8), -EFBIG);
	assert_int_equal(trace_writer_error(maker.writer), -EFBIG);
	assert_int_equal(stat(maker.path, &about), 0);
	assert_int_equal(about.st_size, trace_writer_bytes(maker.writer));
	record_encoder_destroy(maker.encoder);
	assert_int_equal(trace_writer_close(maker.writer), -EFBIG);
	trace = open_good(maker.path);
	assert_non_null(strstr(trace_damage(trace), "no end mark"));
	assert_string_equal(trace_function(trace, 0)->name, "good");
	trace_close(trace);
	maker_remove(&maker);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(tables_come_back),
		cmocka_unit_test(clock_is_a_line),
		cmocka_unit_test(addresses_resolve),
		cmocka_unit_test(the_map_of_the_time_wins),
		cmocka_unit_test(later_descriptions_replace),
		cmocka_unit_test(other_files_are_refused),
		cmocka_unit_test(cut_anywhere),
		cmocka_unit_test(flip_every_bit),
		cmocka_unit_test(random_damage),
		cmocka_unit_test(goes_on_behind_damage),
		cmocka_unit_test(forged_tables),
		cmocka_unit_test(writer_refuses_nonsense),
		cmocka_unit_test(first_error_stays),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
