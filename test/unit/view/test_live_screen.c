/* The screen of `calltap live`: its newest lines, filter, search and keys, without a terminal. */
#include <stdio.h>
#include <string.h>

#include "host/view/live_screen.h"
#include "support.h"

static struct live_screen screen;
static bool quit;

static int begin(void **state)
{
	(void)state;
	quit = false;
	return live_screen_init(&screen);
}

static int end(void **state)
{
	(void)state;
	live_screen_clear(&screen);
	return 0;
}

static void add(const char *text)
{
	assert_int_equal(roll_add(screen.roll, text, strlen(text)), 0);
}

static void press(int key)
{
	live_screen_key(&screen, key, &quit);
}

static void type(const char *text)
{
	for (; *text; text++)
		press(*text);
	press(TERMINAL_KEY_ENTER);
}

/* As a picture does it, of 3 rows. */
static const char *bar(void)
{
	size_t count = roll_count(screen.roll);

	if (screen.follows)
		list_go(&screen.list, count, count);
	list_place(&screen.list, count, 3);
	return count ? roll_line(screen.roll, screen.list.bar) : "";
}

static void older_lines_are_forgotten(void **state)
{
	char line[32];

	(void)state;
	for (unsigned i = 0; i < 2 * ROLL_LINES + 7; i++) {
		snprintf(line, sizeof(line), "%u", i);
		add(line);
		assert_string_equal(roll_line(screen.roll, roll_count(screen.roll) - 1), line);
	}
	assert_int_equal(roll_total(screen.roll), 2 * ROLL_LINES + 7);
	assert_int_equal(roll_count(screen.roll), ROLL_LINES);
	snprintf(line, sizeof(line), "%u", ROLL_LINES + 7);
	assert_string_equal(roll_line(screen.roll, 0), line);
}

static void a_filter_forgets_with_the_lines(void **state)
{
	char line[32];

	(void)state;
	roll_filter(screen.roll, "*7");
	for (unsigned i = 0; i < 2 * ROLL_LINES; i++) {
		snprintf(line, sizeof(line), "%u", i);
		add(line);
		assert_true(roll_count(screen.roll) <= ROLL_LINES / 10 + 1);
	}
	assert_int_equal(roll_count(screen.roll), ROLL_LINES / 10);
	snprintf(line, sizeof(line), "%u", ROLL_LINES + 7);
	assert_string_equal(roll_line(screen.roll, 0), line);
	roll_filter(screen.roll, "");
	assert_int_equal(roll_count(screen.roll), ROLL_LINES);
	roll_filter(screen.roll, "nothing like it");
	assert_int_equal(roll_count(screen.roll), 0);
}

static void long_lines_are_cut(void **state)
{
	char line[3 * ROLL_BYTES];

	(void)state;
	memset(line, 'x', sizeof(line));
	assert_int_equal(roll_add(screen.roll, line, sizeof(line)), 0);
	assert_int_equal(strlen(roll_line(screen.roll, 0)), ROLL_BYTES);
	assert_int_equal(roll_add(screen.roll, line, 0), 0);
	assert_string_equal(roll_line(screen.roll, 1), "");
}

static void walking_back_holds_and_the_end_goes_on(void **state)
{
	(void)state;
	add("one");
	add("two");
	add("three");
	assert_string_equal(bar(), "three");
	press(TERMINAL_KEY_UP);
	assert_false(screen.follows);
	assert_string_equal(bar(), "two");
	press(TERMINAL_KEY_DOWN);
	assert_true(screen.follows);
	add("four");
	assert_string_equal(bar(), "four");
	press('g');
	assert_string_equal(bar(), "one");
	press(TERMINAL_KEY_ESCAPE);
	assert_true(screen.follows);
	assert_string_equal(bar(), "four");
	press('p');
	assert_false(screen.follows);
	press(' ');
	assert_true(screen.follows);
}

static void search_goes_back_first(void **state)
{
	(void)state;
	add("a leaf");
	add("an inner call");
	add("a leaf again");
	add("the last");
	assert_string_equal(bar(), "the last");
	press('n');
	assert_true(strstr(screen.message, "nothing was searched"));
	press('/');
	type("leaf");
	assert_string_equal(bar(), "a leaf again");
	press('n');
	assert_string_equal(bar(), "a leaf");
	press('n');
	assert_string_equal(bar(), "a leaf again");
	press('N');
	assert_string_equal(bar(), "a leaf");
	press('/');
	type("none");
	assert_true(strstr(screen.message, "no line has 'none'"));
	assert_string_equal(bar(), "a leaf");
	press('/');
	press('q'); /* a letter of the text */
	assert_false(quit);
	press(TERMINAL_KEY_ESCAPE);
	assert_string_equal(screen.search, "none");
	press('q');
	assert_true(quit);
}

static void filters_show_what_matches(void **state)
{
	(void)state;
	add("a leaf");
	add("an inner call");
	add("a leaf again");
	press(TERMINAL_KEY_UP);
	press('&');
	type("leaf");
	assert_int_equal(roll_count(screen.roll), 2);
	assert_string_equal(bar(), "a leaf again");
	add("no");
	add("one more leaf");
	assert_string_equal(bar(), "one more leaf");
	press('&');
	assert_string_equal(screen.edited, "leaf");
	press(TERMINAL_KEY_ESCAPE);
	assert_int_equal(roll_count(screen.roll), 3);
	press(TERMINAL_KEY_ESCAPE);
	assert_int_equal(roll_count(screen.roll), 5);
	press('h');
	assert_true(screen.help);
	press('q'); /* ends the help as any key does, but q ends all */
	assert_true(quit);
}

static void clicks_and_empty_screens(void **state)
{
	(void)state;
	live_screen_click(&screen, 2);
	press(TERMINAL_KEY_UP);
	press('/');
	type("x");
	press(TERMINAL_KEY_LEFT);
	assert_int_equal(screen.shift, 0);
	press(TERMINAL_KEY_RIGHT);
	assert_int_equal(screen.shift, 8);
	add("one");
	add("two");
	assert_string_equal(bar(), "two");
	live_screen_click(&screen, 0);
	assert_string_equal(bar(), "two");
	live_screen_click(&screen, 2);
	assert_string_equal(bar(), "one");
	live_screen_click(&screen, 17);
	assert_string_equal(bar(), "one");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(older_lines_are_forgotten, begin, end),
		cmocka_unit_test_setup_teardown(a_filter_forgets_with_the_lines, begin, end),
		cmocka_unit_test_setup_teardown(long_lines_are_cut, begin, end),
		cmocka_unit_test_setup_teardown(walking_back_holds_and_the_end_goes_on, begin, end),
		cmocka_unit_test_setup_teardown(search_goes_back_first, begin, end),
		cmocka_unit_test_setup_teardown(filters_show_what_matches, begin, end),
		cmocka_unit_test_setup_teardown(clicks_and_empty_screens, begin, end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
