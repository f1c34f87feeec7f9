/* The live table: order, filter, keys, and drawing; a terminal is used only where it matters. */
#include <pty.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "host/view/top.h"
#include "support.h"

/* Rows for a table, made anew before each arrangement. */
static struct profile_row *rows_of(struct top_rows *rows)
{
	static struct profile_row made[4];
	static const struct profile_row first[4] = {
		{.function = 1,
		 .name = "alpha",
		 .object = "a",
		 .calls = 10,
		 .total_ns = 900,
		 .self_ns = 5,
		 .calls_rate = 1},
		{.function = 2, .name = "beta", .object = "a", .calls = 20, .total_ns = 100, .self_ns = 7, .p99_ns = 9},
		{.function = 3, .name = "alphabet", .object = "b", .calls = 30, .total_ns = 500, .self_ns = 7},
		{.function = 4, .name = "delta", .object = "b", .running = 2},
	};

	memcpy(made, first, sizeof(made));
	*rows = (struct top_rows){.rows = made, .count = 4};
	return made;
}

static void arranged(struct top *top, const char *names)
{
	char text[200] = "";
	struct top_rows rows;

	rows_of(&rows);
	top_arrange(top, &rows);
	for (size_t i = 0; i < rows.count; i++)
		snprintf(text + strlen(text), sizeof(text) - strlen(text), "%s ", rows.rows[i].name);
	assert_string_equal(text, names);
}

static void rows_are_sorted_and_filtered(void **state)
{
	struct calltap_diag diag;
	struct top top;

	top_init(&top);
	arranged(&top, "alphabet beta alpha delta ");
	assert_int_equal(top_parse_column(&top.sort, "total", &diag), 0);
	arranged(&top, "alpha alphabet beta delta ");
	top.reverse = true;
	arranged(&top, "delta beta alphabet alpha ");
	top.reverse = false;
	assert_int_equal(top_parse_column(&top.sort, "name", &diag), 0);
	arranged(&top, "alpha alphabet beta delta ");
	assert_int_equal(top_parse_column(&top.sort, "p99", &diag), 0);
	assert_true(top_sorts_by_percentile(&top));
	arranged(&top, "beta alphabet alpha delta ");
	strcpy(top.filter, "ta");
	arranged(&top, "beta delta ");
	strcpy(top.filter, "alph*");
	arranged(&top, "alphabet alpha ");
	strcpy(top.filter, "gamma");
	arranged(&top, "");
	assert_true(top_parse_column(&top.sort, "colour", &diag) < 0);
}

static enum top_action key(struct top *top, int pressed)
{
	struct top_rows rows;

	rows_of(&rows);
	top_arrange(top, &rows);
	return top_key(top, pressed, &rows);
}

static void keys_do_what_they_say(void **state)
{
	struct top top;

	top_init(&top);
	assert_int_equal(key(&top, 's'), TOP_ARRANGE);
	assert_int_equal(top.sort, TOP_AVG);
	assert_int_equal(key(&top, '<'), TOP_ARRANGE);
	assert_int_equal(top.sort, TOP_SELF);
	for (int i = 0; i < TOP_COLUMNS; i++)
		(void)key(&top, 'S');
	assert_int_equal(top.sort, TOP_SELF);
	assert_int_equal(key(&top, TERMINAL_KEY_DOWN), TOP_REDRAW);
	assert_int_equal(top.selected, 2);
	assert_int_equal(key(&top, TERMINAL_KEY_END), TOP_REDRAW);
	assert_int_equal(top.selected, 4);
	assert_int_equal(key(&top, TERMINAL_KEY_DOWN), TOP_REDRAW);
	assert_int_equal(top.list.bar, 3);
	assert_int_equal(key(&top, TERMINAL_KEY_HOME), TOP_REDRAW);
	assert_int_equal(key(&top, TERMINAL_KEY_ENTER), TOP_WATCH);
	assert_int_equal(top.watched, 3);
	assert_string_equal(top.watched_name, "alphabet");
	assert_int_equal(key(&top, TERMINAL_KEY_ESCAPE), TOP_WATCH);
	assert_int_equal(top.watched, PROFILE_NONE);
	assert_int_equal(key(&top, TERMINAL_KEY_ESCAPE), TOP_NOTHING);
	assert_int_equal(key(&top, 'p'), TOP_REDRAW);
	assert_true(top.paused);
	assert_int_equal(key(&top, 'p'), TOP_READ);
	assert_int_equal(key(&top, 'h'), TOP_REDRAW);
	assert_int_equal(key(&top, 'r'), TOP_REDRAW); /* leaves the help, no more */
	assert_int_equal(key(&top, 'r'), TOP_RESET);
	assert_int_equal(key(&top, ' '), TOP_READ);
	assert_int_equal(key(&top, 'q'), TOP_QUIT);
	assert_int_equal(key(&top, 3), TOP_QUIT);
	assert_int_equal(key(&top, TERMINAL_KEY_OTHER), TOP_NOTHING);
}

static void the_filter_is_typed(void **state)
{
	struct top top;

	top_init(&top);
	assert_int_equal(key(&top, '/'), TOP_REDRAW);
	for (const char *c = "betq"; *c; c++)
		assert_int_equal(key(&top, *c), TOP_ARRANGE);
	(void)key(&top, TERMINAL_KEY_BACKSPACE);
	(void)key(&top, TERMINAL_KEY_UP); /* no character */
	assert_string_equal(top.filter, "bet");
	(void)key(&top, TERMINAL_KEY_ENTER);
	assert_false(top.editing);
	arranged(&top, "alphabet beta ");
	assert_int_equal(key(&top, TERMINAL_KEY_BACKSPACE), TOP_ARRANGE);
	assert_string_equal(top.filter, "");
	(void)key(&top, '/');
	for (int i = 0; i < 1000; i++)
		(void)key(&top, 'x');
	assert_int_equal(strlen(top.filter), TOP_TEXT_MAX - 1);
	(void)key(&top, TERMINAL_KEY_ESCAPE);
	assert_string_equal(top.filter, "");
}

static void counts_are_short(void **state)
{
	static const struct {
		double value;
		const char *text;
	} cases[] = {{0, "0"},		 {0.25, "0.2"},	     {9.94, "9.9"},	  {10, "10"},
		     {999999, "999999"}, {1000000, "1000k"}, {12345678, "12.3M"}, {1e18, "1000P"}};
	char text[TOP_COUNT_MAX];

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		assert_true(strlen(top_count_text(cases[i].value, text)) <= 6);
		if (cases[i].value < 1e7)
			assert_string_equal(text, cases[i].text);
	}
}

#define MARK "\x01mark\x01"

/*
 * Take the text that was sent to the terminal.  A mark is sent behind it, and read up to: the kernel passes text on
 * when it has time.
 */
static size_t sent(const int terminal[2], char *text, size_t size)
{
	size_t used = 0;
	char *mark = NULL;

	assert_int_equal(write(terminal[1], MARK, strlen(MARK)), strlen(MARK));
	while (!mark && used + 1 < size) {
		ssize_t got = read(terminal[0], text + used, size - 1 - used);

		assert_true(got > 0);
		used += (size_t)got;
		text[used] = '\0';
		mark = strstr(text, MARK);
	}
	assert_non_null(mark);
	*mark = '\0';
	return (size_t)(mark - text);
}

static void only_differences_are_sent(void **state)
{
	struct winsize size = {.ws_row = 5, .ws_col = 20};
	struct terminal_options options = {.size = sizeof(options), .mouse = true};
	struct calltap_diag diag;
	struct terminal *screen;
	char text[8192];
	int ends[2]; /* ours, the program's */

	assert_int_equal(openpty(&ends[0], &ends[1], NULL, NULL, &size), 0);
	options.in = options.out = ends[1];
	assert_int_equal(terminal_open(&screen, &options, &diag), 0);
	(void)sent(ends, text, sizeof(text));
	terminal_clear(screen);
	assert_int_equal(terminal_put(screen, 1, 2, "caf\xc3\xa9-\xe6\x97\xa5\x1b!", 8, false, TERMINAL_PLAIN), 10);
	(void)terminal_put(screen, 9, 0, "outside", 7, false, TERMINAL_PLAIN);
	(void)terminal_put(screen, 2, 15, "cut here", 8, false, TERMINAL_BOLD);
	terminal_show(screen);
	assert_true(sent(ends, text, sizeof(text)) > 0);
	assert_non_null(strstr(text, "caf\xc3\xa9-\xe6\x97\xa5?"));
	assert_null(strstr(text, "?!"));
	assert_non_null(strstr(text, "cut h"));
	assert_null(strstr(text, "outside"));
	assert_null(strstr(text, "cut he"));
	terminal_show(screen);
	assert_int_equal(sent(ends, text, sizeof(text)), 0);
	terminal_clear(screen);
	(void)terminal_put(screen, 1, 2, "cafe-\xe6\x97\xa5?", 8, false, TERMINAL_PLAIN);
	(void)terminal_put(screen, 2, 15, "cut h", 5, false, TERMINAL_BOLD);
	terminal_show(screen);
	(void)sent(ends, text, sizeof(text));
	assert_non_null(strchr(text, 'e'));
	assert_null(strstr(text, "caf"));
	assert_null(strstr(text, "cut"));
	terminal_close(screen);
	(void)sent(ends, text, sizeof(text));
	assert_non_null(strstr(text, "\033[?1049l"));
	close(ends[0]);
	close(ends[1]);
}

static void keys_are_understood(void **state)
{
	static const struct {
		const char *bytes;
		int key;
	} cases[] = {{"a", 'a'},
		     {"\033[A", TERMINAL_KEY_UP},
		     {"\033OB", TERMINAL_KEY_DOWN},
		     {"\033[5~", TERMINAL_KEY_PAGE_UP},
		     {"\033[4~", TERMINAL_KEY_END},
		     {"\033[1;5A", TERMINAL_KEY_OTHER},
		     {"\r", TERMINAL_KEY_ENTER},
		     {"\x7f", TERMINAL_KEY_BACKSPACE},
		     {"\xff", 0xff},
		     {"\033", TERMINAL_KEY_ESCAPE},
		     {"\033[", TERMINAL_KEY_ESCAPE},
		     {"\033[M %&", TERMINAL_KEY_CLICK},
		     {"\033[M`%&", TERMINAL_KEY_WHEEL_UP},
		     {"\x1a", TERMINAL_KEY_SUSPEND}};
	struct winsize size = {.ws_row = 5, .ws_col = 20};
	struct terminal_options options = {.size = sizeof(options), .mouse = true};
	struct calltap_diag diag;
	struct terminal *screen;
	unsigned row, column;
	int ours, theirs;

	assert_int_equal(openpty(&ours, &theirs, NULL, NULL, &size), 0);
	options.in = options.out = theirs;
	assert_int_equal(terminal_open(&screen, &options, &diag), 0);
	assert_int_equal(terminal_key(screen), TERMINAL_KEY_NONE);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		assert_true(write(ours, cases[i].bytes, strlen(cases[i].bytes)) > 0);
		usleep(10000);
		assert_int_equal(terminal_key(screen), cases[i].key);
		if (cases[i].key == TERMINAL_KEY_CLICK) {
			terminal_click(screen, &row, &column);
			assert_int_equal(row, 5);
			assert_int_equal(column, 4);
		}
		while (terminal_key(screen) != TERMINAL_KEY_NONE)
			;
	}
	terminal_close(screen);
	close(ours);
	close(theirs);
}

static void time_is(const struct profile_row *row, enum top_column column, const char *wanted)
{
	char text[TOP_TIME_MAX], plain[TOP_TIME_MAX];
	size_t length = 0;

	/* Without the blanks of the unit. */
	snprintf(text, sizeof(text), "%s", top_time_text(row, column, plain));
	for (const char *at = text; *at; at++)
		if (*at != ' ')
			plain[length++] = *at;
	plain[length] = '\0';
	assert_string_equal(plain, wanted);
}

/* An estimate has its mark; of one call's short time there is a bound and no more. */
static void estimates_are_marked(void **state)
{
	struct profile_row row = {.calls = 4,
				  .total_ns = 2000000,
				  .self_ns = 500,
				  .avg_ns = 500000,
				  .p50_ns = 0,
				  .p99_ns = 800000,
				  .max_ns = 3000000};

	time_is(&row, TOP_TOTAL, "2.000ms");
	time_is(&row, TOP_P50, "0ns");
	row.estimated = true;
	row.span_ns = 200000;
	row.max_error_ns = 2000000;
	time_is(&row, TOP_TOTAL, "~2.000ms");
	time_is(&row, TOP_SELF, "~500ns");
	time_is(&row, TOP_P50, "<200.0us");
	time_is(&row, TOP_P99, "~800.0us");
	time_is(&row, TOP_MAX, "<5.000ms");
	row.max_error_ns = 200000;
	time_is(&row, TOP_MAX, "~3.000ms");
	row.calls = 0;
	time_is(&row, TOP_TOTAL, "-");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(rows_are_sorted_and_filtered), cmocka_unit_test(keys_do_what_they_say),
		cmocka_unit_test(the_filter_is_typed),		cmocka_unit_test(counts_are_short),
		cmocka_unit_test(only_differences_are_sent),	cmocka_unit_test(keys_are_understood),
		cmocka_unit_test(estimates_are_marked),
	};

	setenv("TERM", "screen", 1);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
