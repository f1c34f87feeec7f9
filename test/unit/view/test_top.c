/* The live table: order, filter, keys, and drawing; a terminal is used only where it matters. */
#include <pty.h>
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
	assert_int_equal(key(&top, SCREEN_KEY_DOWN), TOP_REDRAW);
	assert_int_equal(top.selected, 2);
	assert_int_equal(key(&top, SCREEN_KEY_END), TOP_REDRAW);
	assert_int_equal(top.selected, 4);
	assert_int_equal(key(&top, SCREEN_KEY_DOWN), TOP_REDRAW);
	assert_int_equal(top.bar, 3);
	assert_int_equal(key(&top, SCREEN_KEY_HOME), TOP_REDRAW);
	assert_int_equal(key(&top, SCREEN_KEY_ENTER), TOP_WATCH);
	assert_int_equal(top.watched, 3);
	assert_string_equal(top.watched_name, "alphabet");
	assert_int_equal(key(&top, SCREEN_KEY_ESCAPE), TOP_WATCH);
	assert_int_equal(top.watched, PROFILE_NONE);
	assert_int_equal(key(&top, SCREEN_KEY_ESCAPE), TOP_NOTHING);
	assert_int_equal(key(&top, 'p'), TOP_REDRAW);
	assert_true(top.paused);
	assert_int_equal(key(&top, 'p'), TOP_READ);
	assert_int_equal(key(&top, 'h'), TOP_REDRAW);
	assert_int_equal(key(&top, 'r'), TOP_REDRAW); /* leaves the help, no more */
	assert_int_equal(key(&top, 'r'), TOP_RESET);
	assert_int_equal(key(&top, ' '), TOP_READ);
	assert_int_equal(key(&top, 'q'), TOP_QUIT);
	assert_int_equal(key(&top, 3), TOP_QUIT);
	assert_int_equal(key(&top, SCREEN_KEY_OTHER), TOP_NOTHING);
}

static void the_filter_is_typed(void **state)
{
	struct top top;

	top_init(&top);
	assert_int_equal(key(&top, '/'), TOP_REDRAW);
	for (const char *c = "betq"; *c; c++)
		assert_int_equal(key(&top, *c), TOP_ARRANGE);
	(void)key(&top, SCREEN_KEY_BACKSPACE);
	(void)key(&top, SCREEN_KEY_UP); /* no character */
	assert_string_equal(top.filter, "bet");
	(void)key(&top, SCREEN_KEY_ENTER);
	assert_false(top.editing);
	arranged(&top, "alphabet beta ");
	assert_int_equal(key(&top, SCREEN_KEY_BACKSPACE), TOP_ARRANGE);
	assert_string_equal(top.filter, "");
	(void)key(&top, '/');
	for (int i = 0; i < 1000; i++)
		(void)key(&top, 'x');
	assert_int_equal(strlen(top.filter), TOP_TEXT_MAX - 1);
	(void)key(&top, SCREEN_KEY_ESCAPE);
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

/* Take the text that was sent to the terminal. */
static size_t sent(int fd, char *text, size_t size)
{
	size_t used = 0;
	int ready = 0;

	usleep(20000);
	while (!ioctl(fd, FIONREAD, &ready) && ready > 0 && used + 1 < size) {
		ssize_t got = read(fd, text + used, size - 1 - used);

		assert_true(got > 0);
		used += (size_t)got;
	}
	text[used] = '\0';
	return used;
}

static void only_differences_are_sent(void **state)
{
	struct winsize size = {.ws_row = 5, .ws_col = 20};
	struct calltap_diag diag;
	struct screen *screen;
	char text[8192];
	int ours, theirs;

	assert_int_equal(openpty(&ours, &theirs, NULL, NULL, &size), 0);
	assert_int_equal(screen_open(&screen, theirs, theirs, &diag), 0);
	(void)sent(ours, text, sizeof(text));
	screen_clear(screen);
	assert_int_equal(screen_put(screen, 1, 2, "caf\xc3\xa9-\xe6\x97\xa5\x1b!", 8, false, SCREEN_PLAIN), 10);
	(void)screen_put(screen, 9, 0, "outside", 7, false, SCREEN_PLAIN);
	(void)screen_put(screen, 2, 15, "cut here", 8, false, SCREEN_BOLD);
	assert_int_equal(screen_show(screen), 0);
	assert_true(sent(ours, text, sizeof(text)) > 0);
	assert_non_null(strstr(text, "\033[2;3H"));
	assert_non_null(strstr(text, "caf\xc3\xa9-?"
				     "?!"));
	assert_non_null(strstr(text, "cut h"));
	assert_null(strstr(text, "outside"));
	assert_null(strstr(text, "cut he"));
	assert_int_equal(screen_show(screen), 0);
	assert_int_equal(sent(ours, text, sizeof(text)), 0);
	screen_clear(screen);
	(void)screen_put(screen, 1, 2,
			 "cafe-?"
			 "?!",
			 8, false, SCREEN_PLAIN);
	(void)screen_put(screen, 2, 15, "cut h", 5, false, SCREEN_BOLD);
	assert_int_equal(screen_show(screen), 0);
	(void)sent(ours, text, sizeof(text));
	assert_string_equal(text, "\033[2;6H\033[0me");
	screen_close(screen);
	(void)sent(ours, text, sizeof(text));
	assert_non_null(strstr(text, "\033[?1049l"));
	close(ours);
	close(theirs);
}

static void keys_are_understood(void **state)
{
	static const struct {
		const char *bytes;
		int key;
	} cases[] = {{"a", 'a'},
		     {"\033[A", SCREEN_KEY_UP},
		     {"\033OB", SCREEN_KEY_DOWN},
		     {"\033[5~", SCREEN_KEY_PAGE_UP},
		     {"\033[4~", SCREEN_KEY_END},
		     {"\033[1;5A", SCREEN_KEY_OTHER},
		     {"\r", SCREEN_KEY_ENTER},
		     {"\x7f", SCREEN_KEY_BACKSPACE},
		     {"\xff", SCREEN_KEY_OTHER},
		     {"\033", SCREEN_KEY_ESCAPE},
		     {"\033[", SCREEN_KEY_ESCAPE}};
	struct winsize size = {.ws_row = 5, .ws_col = 20};
	struct calltap_diag diag;
	struct screen *screen;
	int ours, theirs;

	assert_int_equal(openpty(&ours, &theirs, NULL, NULL, &size), 0);
	assert_int_equal(screen_open(&screen, theirs, theirs, &diag), 0);
	assert_int_equal(screen_key(screen), SCREEN_KEY_NONE);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		assert_true(write(ours, cases[i].bytes, strlen(cases[i].bytes)) > 0);
		usleep(10000);
		assert_int_equal(screen_key(screen), cases[i].key);
		while (screen_key(screen) != SCREEN_KEY_NONE)
			;
	}
	screen_close(screen);
	close(ours);
	close(theirs);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(rows_are_sorted_and_filtered), cmocka_unit_test(keys_do_what_they_say),
		cmocka_unit_test(the_filter_is_typed),		cmocka_unit_test(counts_are_short),
		cmocka_unit_test(only_differences_are_sent),	cmocka_unit_test(keys_are_understood),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
