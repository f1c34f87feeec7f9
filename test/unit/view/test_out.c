/*
 * Unit tests of the output formatters: numbers, columns, durations, times.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "support.h"

#include "host/view/names.h"
#include "host/view/parse.h"
#include "host/view/replay.h"
#include <host/text.h>

static void numbers_are_written_in_full(void **state)
{
	struct caught caught;

	catch_begin(&caught);
	for (unsigned i = 0; i < 3; i++) {
		static const uint64_t values[] = {0, 99, UINT64_MAX};

		out_u64(caught.out, values[i]);
		out_char(caught.out, ' ');
	}
	out_i64(caught.out, INT64_MIN);
	out_char(caught.out, ' ');
	out_u64_width(caught.out, 1234, 6);
	out_u64_width(caught.out, 1234567, 3);
	out_char(caught.out, ' ');
	out_milli(caught.out, 1002003);
	out_char(caught.out, ' ');
	out_hex(caught.out, 0xdeadbeef0);
	assert_string_equal(catch_end(&caught), "0 99 18446744073709551615 -9223372036854775808   12341234567 1002.003 "
						"deadbeef0");
}

static void every_power_of_ten_has_its_digits(void **state)
{
	char text[OUT_U64_MAX + 1] = ""; /* digits end at OUT_U64_MAX; strtoull wants an end too */
	uint64_t value = 1;

	for (int digits = 1; digits <= 20; digits++, value *= 10) {
		const char *at = out_decimal(value, text);

		assert_int_equal(text + OUT_U64_MAX - at, digits);
		assert_int_equal(strtoull(at, NULL, 10) / 1, value);
		if (digits == 20)
			break;
	}
}

static void columns_count_characters_not_bytes(void **state)
{
	struct caught caught;

	catch_begin(&caught);
	out_column(caught.out, "\xc3\xa4", 3, true);
	out_column(caught.out, "ab", 4, false);
	out_column(caught.out, "\xc3\xa4\xc3\xb6\xc3\xbc", 2, false);
	assert_string_equal(catch_end(&caught), "  \xc3\xa4"
						"ab  \xc3\xa4\xc3\xb6");
}

static void labels_keep_their_ids(void **state)
{
	struct caught caught;

	catch_begin(&caught);
	out_label(caught.out, "sh-1", '-', 8, true);
	out_char(caught.out, '|');
	out_label(caught.out, "redis-server-99258", '-', 16, true);
	out_char(caught.out, '|');
	out_label(caught.out, "ab\xc3\xa4-99258", '-', 9, true);
	out_char(caught.out, '|');
	out_label(caught.out, "server-4194303", '-', 6, true);
	out_char(caught.out, '|');
	out_label(caught.out, "prog:short", ':', 12, false);
	out_label(caught.out, "program:short", ':', 12, false);
	assert_string_equal(catch_end(&caught), "    sh-1|redis-serv-99258| ab-99258|s-4194303|prog:short  progra:sho"
						"rt");
}

static void what_exceeds_the_buffer_arrives_whole(void **state)
{
	size_t size = 3u << 20;
	char *block = malloc(size), *back = malloc(size + 2);
	struct out *out;
	int fd = open("/tmp", O_TMPFILE | O_RDWR, 0600);

	assert_true(fd >= 0 && block && back);
	for (size_t i = 0; i < size; i++)
		block[i] = (char)(i * 7 + i / 251);
	assert_int_equal(out_create(&out, fd), 0);
	out_char(out, 'a');
	out_bytes(out, block, size);
	out_char(out, 'z');
	assert_int_equal(out_destroy(out), 0);
	assert_int_equal(pread(fd, back, size + 2, 0), size + 2);
	assert_int_equal(back[0], 'a');
	assert_memory_equal(back + 1, block, size);
	assert_int_equal(back[size + 1], 'z');
	close(fd);
	free(block);
	free(back);
}

static void the_first_write_error_is_kept(void **state)
{
	struct out *out;
	int fd = open("/dev/full", O_WRONLY);

	assert_true(fd >= 0);
	assert_int_equal(out_create(&out, fd), 0);
	out_text(out, "lost");
	assert_int_equal(out_flush(out), -ENOSPC);
	out_text(out, "more");
	assert_int_equal(out_destroy(out), -ENOSPC);
	close(fd);
}

/* Each write arrives as a message of its own. */
static void no_write_splits_a_line(void **state)
{
	enum { LINES = 2000, LONG = 6000 };
	static char got[LONG + 2];
	unsigned writes = 0, lines = 0;
	struct out *out;
	int ends[2];
	ssize_t size;

	assert_int_equal(socketpair(AF_UNIX, SOCK_DGRAM, 0, ends), 0);
	assert_int_equal(out_create_shared(&out, ends[0]), 0);
	for (unsigned i = 0; i < LINES; i++) {
		out_u64_width(out, i, 8 + i % 23);
		out_char(out, '\n');
	}
	out_fill(out, 'x', LONG); /* longer than any write to a pipe that arrives whole */
	out_text(out, "\nthe beginning of a line");
	assert_int_equal(out_flush(out), 0);
	while ((size = recv(ends[1], got, sizeof(got), MSG_DONTWAIT)) > 0) {
		assert_true(size <= PIPE_BUF || (size == LONG + 1 && got[0] == 'x'));
		assert_int_equal(got[size - 1], '\n');
		for (ssize_t i = 0; i < size; i++)
			lines += got[i] == '\n';
		writes++;
	}
	assert_int_equal(lines, LINES + 1);
	assert_true(writes < LINES / 100);
	out_text(out, ", and its end");
	assert_int_equal(out_destroy(out), 0);
	size = recv(ends[1], got, sizeof(got) - 1, MSG_DONTWAIT);
	assert_true(size > 0);
	got[size] = '\0';
	assert_string_equal(got, "the beginning of a line, and its end");
	close(ends[0]);
	close(ends[1]);
}

/* Expected lines are what the kernel's trace_print_graph_duration() makes of these. */
static void durations_have_the_kernels_columns(void **state)
{
	static const struct {
		uint64_t ns;
		const char *text;
	} cases[] = {{0, "0.000 us    "},	  {1234, "1.234 us    "},	{12345, "12.345 us   "},
		     {123456, "123.456 us  "},	  {1234567, "1234.567 us "},	{12345678, "12345.67 us "},
		     {123456789, "123456.7 us "}, {1234567890, "1234567 us  "}, {12345678901, "12345678 us "}};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct caught caught;

		catch_begin(&caught);
		replay_print_duration(caught.out, cases[i].ns);
		assert_string_equal(catch_end(&caught), cases[i].text);
	}
}

static void marks_change_above_their_limit(void **state)
{
	static const struct {
		uint64_t limit_ns;
		char below, above;
	} cases[] = {{10000, ' ', '+'},	   {100000, '+', '!'},	  {1000000, '!', '#'},
		     {10000000, '#', '*'}, {100000000, '*', '@'}, {1000000000, '@', '$'}};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		assert_int_equal(time_mark(cases[i].limit_ns), cases[i].below);
		assert_int_equal(time_mark(cases[i].limit_ns + 1), cases[i].above);
	}
}

static void times_have_four_digits_and_a_unit(void **state)
{
	char text[TIMETEXT_MAX];

	assert_string_equal(timetext(0, text), "0 ns");
	assert_string_equal(timetext(999, text), "999 ns");
	assert_string_equal(timetext(1000, text), "1.000 us");
	assert_string_equal(timetext(9999, text), "9.999 us");
	assert_string_equal(timetext(99999, text), "100.0 us");
	assert_string_equal(timetext(999999, text), "1.000 ms");
	assert_string_equal(timetext(12345678, text), "12.35 ms");
	assert_string_equal(timetext(UINT64_MAX, text), "18446744074 s");
	assert_string_equal(sizetext(1023, text), "1023 B");
	assert_string_equal(sizetext(1536, text), "1.50 KiB");
	assert_string_equal(sizetext(UINT64_MAX, text), "16.00 EiB");
}

static void durations_are_read_with_their_unit(void **state)
{
	uint64_t ns;

	assert_int_equal(parse_duration(&ns, "10us", NULL), 0);
	assert_int_equal(ns, 10000);
	assert_int_equal(parse_duration(&ns, "1.5 ms", NULL), 0);
	assert_int_equal(ns, 1500000);
	assert_int_equal(parse_duration(&ns, "300", NULL), 0);
	assert_int_equal(ns, 300);
	assert_int_equal(parse_duration(&ns, "", NULL), -EINVAL);
	assert_int_equal(parse_duration(&ns, "-1us", NULL), -EINVAL);
	assert_int_equal(parse_duration(&ns, "1 fortnight", NULL), -EINVAL);
	assert_int_equal(parse_duration(&ns, "1e300s", NULL), -EINVAL);
	assert_int_equal(parse_duration(&ns, "nan", NULL), -EINVAL);
}

static void time_ranges_may_be_open(void **state)
{
	uint64_t from, to;

	assert_int_equal(parse_time_range(&from, &to, "0.5..1.25", NULL), 0);
	assert_int_equal(from, 500000000);
	assert_int_equal(to, 1250000000);
	assert_int_equal(parse_time_range(&from, &to, "2ms..", NULL), 0);
	assert_int_equal(from, 2000000);
	assert_true(to == UINT64_MAX);
	assert_int_equal(parse_time_range(&from, &to, "..1", NULL), 0);
	assert_int_equal(from, 0);
	assert_int_equal(parse_time_range(&from, &to, "..", NULL), -EINVAL);
	assert_int_equal(parse_time_range(&from, &to, "1", NULL), -EINVAL);
	assert_int_equal(parse_time_range(&from, &to, "2..1", NULL), -EINVAL);
}

static void names_lose_what_moves_the_cursor(void **state)
{
	char clean[32];

	text_clean(clean, sizeof(clean), "a\033[2Jb\nc\x7f\xc2\x9b\xff\xc3\xa4");
	assert_string_equal(clean, "a?[2Jb?c???\xc3\xa4");
	text_clean(clean, sizeof(clean), "a\xe2\x80\xaez\xd8\x9c\xe2\x80\x8d\xf3\xa0\x80\x81\xe4\xb8\xad");
	assert_string_equal(clean, "a?z?\xe2\x80\x8d?\xe4\xb8\xad");
	text_clean(clean, 4, "ab\xc3\xa4");
	assert_string_equal(clean, "ab");
	assert_string_equal(text_base("/usr/lib/libx.so"), "libx.so");
	assert_string_equal(text_base("plain"), "plain");
	assert_string_equal(text_base("dir/"), "dir/");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(numbers_are_written_in_full),
		cmocka_unit_test(every_power_of_ten_has_its_digits),
		cmocka_unit_test(columns_count_characters_not_bytes),
		cmocka_unit_test(labels_keep_their_ids),
		cmocka_unit_test(what_exceeds_the_buffer_arrives_whole),
		cmocka_unit_test(the_first_write_error_is_kept),
		cmocka_unit_test(no_write_splits_a_line),
		cmocka_unit_test(durations_have_the_kernels_columns),
		cmocka_unit_test(marks_change_above_their_limit),
		cmocka_unit_test(times_have_four_digits_and_a_unit),
		cmocka_unit_test(durations_are_read_with_their_unit),
		cmocka_unit_test(time_ranges_may_be_open),
		cmocka_unit_test(names_lose_what_moves_the_cursor),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
