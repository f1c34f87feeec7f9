/* The views of a small trace: their lines, and what keys make of them. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../trace/support.h"

#include "host/tui/tui.h"

#define MS    1000000u
#define CALLS 6u

enum { OUTER, MIDDLE, LEAF };

struct opened {
	struct maker maker;
	struct trace *trace;
	struct view_filter filter;
	struct walk walk;
	struct calltap_diag diag;
	struct tui tui;
	unsigned told;
};

/*
 * outer() from 1 to 100 ms calls middle() twice: from 10 to 40, and from 50 to 60; each calls leaf() three times.  The
 * leaves of the first take 1, 2 and 3 ms, those of the second 6, 5 and 4 tenths of one.
 */
static void make_trace(struct maker *maker)
{
	static const struct say says[] = {
		{CALLTAP_REC_ENTRY, OUTER, 1 * MS, 0},	{CALLTAP_REC_ENTRY, MIDDLE, 10 * MS, 0},
		{CALLTAP_REC_ENTRY, LEAF, 11 * MS, 0},	{CALLTAP_REC_EXIT, LEAF, 12 * MS, 0},
		{CALLTAP_REC_ENTRY, LEAF, 13 * MS, 0},	{CALLTAP_REC_EXIT, LEAF, 15 * MS, 0},
		{CALLTAP_REC_ENTRY, LEAF, 16 * MS, 0},	{CALLTAP_REC_EXIT, LEAF, 19 * MS, 0},
		{CALLTAP_REC_EXIT, MIDDLE, 40 * MS, 0}, {CALLTAP_REC_ENTRY, MIDDLE, 50 * MS, 0},
		{CALLTAP_REC_ENTRY, LEAF, 51 * MS, 0},	{CALLTAP_REC_EXIT, LEAF, 51 * MS + 600000, 0},
		{CALLTAP_REC_ENTRY, LEAF, 52 * MS, 0},	{CALLTAP_REC_EXIT, LEAF, 52 * MS + 500000, 0},
		{CALLTAP_REC_ENTRY, LEAF, 53 * MS, 0},	{CALLTAP_REC_EXIT, LEAF, 53 * MS + 400000, 0},
		{CALLTAP_REC_EXIT, MIDDLE, 60 * MS, 0}, {CALLTAP_REC_EXIT, OUTER, 100 * MS, 0},
	};
	const struct calltap_file_process process = {0, 42, UINT32_MAX, CALLTAP_START_SPAWN, 1, 0};
	const struct calltap_file_clock clocks[] = {{1, 1, 1}, {101 * MS, 101 * MS, 101 * MS}};

	maker_open(maker);
	assert_int_equal(trace_writer_chunk(maker->writer, CALLTAP_CHUNK_CLOCK, clocks, sizeof(clocks)), 0);
	maker_process(maker, &process, "/bin/prog");
	maker_object(maker, 0, "/bin/prog");
	maker_function(maker, OUTER, 0, 0x1000, 0x100, "outer");
	maker_function(maker, MIDDLE, 0, 0x1100, 0x100, "middle");
	maker_function(maker, LEAF, 0, 0x1200, 0x100, "leaf\033[2J\xff\xe6\x97\xa5");
	maker_thread(maker, 0, 0, 42, "prog");
	maker_data(maker, 0, 0, says, sizeof(says) / sizeof(says[0]));
	maker_end(maker, sizeof(says) / sizeof(says[0]));
	maker_close(maker);
}

static void open_all(struct opened *opened)
{
	memset(opened, 0, sizeof(*opened));
	opened->filter.to_ns = UINT64_MAX;
	make_trace(&opened->maker);
	assert_int_equal(trace_open(&opened->trace, opened->maker.path, &opened->diag), 0);
	assert_int_equal(
		tui_open(&opened->tui, opened->trace, &opened->filter, &opened->walk, NULL, NULL, &opened->diag), 0);
}

static void close_all(struct opened *opened)
{
	tui_close(&opened->tui);
	trace_close(opened->trace);
	maker_remove(&opened->maker);
}

static void press(struct opened *opened, const char *keys)
{
	bool quit = false;

	for (; *keys; keys++)
		assert_int_equal(tui_key(&opened->tui, *keys == '\n' ? TERMINAL_KEY_ENTER : *keys, &quit), 0);
	assert_false(quit);
}

/* The lines of the view as they are shown: numbers of a column, then indent, mark and name. */
static void lines_are(const struct opened *opened, unsigned number, const char *want)
{
	char text[1000] = "";

	for (size_t i = 0; i < tui_count(&opened->tui); i++) {
		struct tui_cells cells;

		tui_cells(&opened->tui, i, &cells);
		snprintf(text + strlen(text), sizeof(text) - strlen(text), "%s %*s%c%.6s|", cells.numbers[number],
			 (int)cells.indent, "", cells.mark ? cells.mark : '.', cells.name);
	}
	assert_string_equal(text, want);
}

static void the_tree_is_walked(void **state)
{
	struct opened opened;

	open_all(&opened);
	assert_int_equal(opened.tui.view, TUI_TREE);
	/* What is one line each is unfolded from the top. */
	lines_are(&opened, 0, "99.00 ms -outer|40.00 ms  -middle|7.500 ms    leaf?[|");
	press(&opened, "j\n");
	lines_are(&opened, 0, "99.00 ms -outer|40.00 ms  +middle|");
	press(&opened, "k-");
	lines_are(&opened, 3, "1 +outer|");
	press(&opened, "*");
	lines_are(&opened, 3, "1 -outer|2  -middle|6    leaf?[|");
	press(&opened, "/leaf\n");
	assert_int_equal(opened.tui.lists[TUI_TREE].bar, 2);
	press(&opened, "&midd\n");
	lines_are(&opened, 3, "1 -outer|2   middle|");
	assert_int_equal(tui_count(&opened.tui), 2);
	/* The bar was on leaf(): what is left of the lines around it is middle(), also when all are back. */
	assert_int_equal(opened.tui.lists[TUI_TREE].bar, 1);
	press(&opened, "f");
	lines_are(&opened, 0, "2 .middle|");
	assert_int_equal(tui_return(&opened.tui), 0);
	assert_int_equal(tui_count(&opened.tui), 3);
	assert_int_equal(tui_function_at(&opened.tui, opened.tui.lists[TUI_FUNCTIONS].bar), MIDDLE);
	close_all(&opened);
}

static void the_table_is_sorted(void **state)
{
	struct opened opened;

	open_all(&opened);
	press(&opened, "f");
	lines_are(&opened, 1, "99.00 ms .outer|40.00 ms .middle|7.500 ms .leaf?[|");
	press(&opened, "S");
	assert_int_equal(opened.tui.sort, REPORT_CALLS);
	lines_are(&opened, 0, "6 .leaf?[|2 .middle|1 .outer|");
	/* The bar stays with its function. */
	assert_int_equal(tui_function_at(&opened.tui, opened.tui.lists[TUI_FUNCTIONS].bar), OUTER);
	press(&opened, "R");
	lines_are(&opened, 0, "1 .outer|2 .middle|6 .leaf?[|");
	press(&opened, "sss");
	assert_int_equal(opened.tui.sort, REPORT_MIN);
	close_all(&opened);
}

static void callers_and_callees(void **state)
{
	struct opened opened;

	open_all(&opened);
	press(&opened, "ja");
	assert_int_equal(opened.tui.view, TUI_AROUND);
	lines_are(&opened, 0,
		  " .WHAT C|40.00 ms -middle|40.00 ms   outer| .WHAT I|40.00 ms -middle|7.500 ms   leaf?[|");
	press(&opened, "j\n");
	assert_int_equal(opened.tui.function, LEAF);
	lines_are(&opened, 3, " .WHAT C|6 -leaf?[|6  +middle| .WHAT I|6  leaf?[|");
	/* Back to what was around middle(), then to the tree. */
	assert_int_equal(tui_return(&opened.tui), 0);
	assert_int_equal(opened.tui.function, MIDDLE);
	assert_int_equal(tui_return(&opened.tui), 0);
	assert_int_equal(opened.tui.view, TUI_TREE);
	assert_int_equal(opened.tui.lists[TUI_TREE].bar, 1);
	assert_int_equal(tui_return(&opened.tui), 0);
	assert_int_equal(opened.tui.view, TUI_TREE);
	close_all(&opened);
}

static void calls_in_order(void **state)
{
	struct opened opened;

	open_all(&opened);
	press(&opened, "fGc");
	assert_int_equal(opened.tui.view, TUI_CALLS);
	lines_are(&opened, 1, "1.000 ms .|2.000 ms .|3.000 ms .|600.0 us .|500.0 us .|400.0 us .|");
	press(&opened, "s");
	lines_are(&opened, 1, "3.000 ms .|2.000 ms .|1.000 ms .|600.0 us .|500.0 us .|400.0 us .|");
	press(&opened, "s");
	/* The second call of middle(), with what is around it and in it. */
	press(&opened, "fkcj\n");
	assert_int_equal(opened.tui.view, TUI_CALL);
	lines_are(&opened, 1, "  outer|10.00 ms  >middle|600.0 us    leaf?[|500.0 us    leaf?[|400.0 us    leaf?[|");
	press(&opened, "[");
	lines_are(&opened, 1, "  outer|30.00 ms  >middle|1.000 ms    leaf?[|2.000 ms    leaf?[|3.000 ms    leaf?[|");
	press(&opened, "[");
	assert_non_null(strstr(opened.tui.message, "no further call"));
	close_all(&opened);
}

/* Where there is less room than calls, a part of them is kept: of the order in time, or the slowest. */
static void calls_are_bounded(void **state)
{
	struct opened opened;
	struct tui *tui = &opened.tui;

	open_all(&opened);
	tui->calls.room_max = 4;
	press(&opened, "fGc");
	assert_int_equal(tui->calls.seen, CALLS);
	lines_are(&opened, 1, "1.000 ms .|2.000 ms .|3.000 ms .|600.0 us .|");
	press(&opened, "]");
	lines_are(&opened, 1, "500.0 us .|400.0 us .|");
	press(&opened, "]");
	assert_non_null(strstr(tui->message, "nothing further"));
	press(&opened, "[");
	lines_are(&opened, 1, "1.000 ms .|2.000 ms .|3.000 ms .|600.0 us .|");
	tui->calls.room_max = 2;
	press(&opened, "s");
	lines_are(&opened, 1, "3.000 ms .|2.000 ms .|");
	tui->inside.room_max = 2;
	press(&opened, "fkc\n");
	assert_int_equal(tui->inside.count, 2);
	assert_int_equal(tui->inside.beyond, 3);
	close_all(&opened);
}

static void source_that_is_not_there(void **state)
{
	struct opened opened;

	open_all(&opened);
	press(&opened, "l");
	assert_int_equal(opened.tui.view, TUI_SOURCE);
	assert_int_equal(tui_count(&opened.tui), 0);
	assert_non_null(strstr(opened.tui.source.error, "does not tell"));
	assert_int_equal(source_read(&opened.tui.source, "/dev/zero"), 0);
	assert_non_null(strstr(opened.tui.source.error, "no source file"));
	assert_int_equal(source_read(&opened.tui.source, "/nowhere/a.c"), 0);
	assert_non_null(strstr(opened.tui.source.error, "cannot be read"));
	assert_int_equal(source_read(&opened.tui.source, "/"), 0);
	assert_int_equal(opened.tui.source.count, 0);
	close_all(&opened);
}

static void source_lines(void **state)
{
	char path[] = "/tmp/calltap-test-source-XXXXXX";
	int fd = mkstemp(path);
	struct source source = {0};

	assert_true(fd >= 0);
	assert_int_equal(write(fd, "one\n\ntwo\0hidden\nlast", 20), 20);
	assert_int_equal(source_read(&source, path), 0);
	assert_int_equal(source.count, 4);
	assert_string_equal(source.lines[0], "one");
	assert_string_equal(source.lines[1], "");
	assert_string_equal(source.lines[2], "two");
	assert_string_equal(source.lines[3], "last");
	source_clear(&source);
	close(fd);
	unlink(path);
}

/* Any key in any view does something that can be shown. */
static void any_key_in_any_view(void **state)
{
	static const int special[] = {TERMINAL_KEY_TAB,	      TERMINAL_KEY_ENTER,    TERMINAL_KEY_ESCAPE,
				      TERMINAL_KEY_BACKSPACE, TERMINAL_KEY_UP,	     TERMINAL_KEY_DOWN,
				      TERMINAL_KEY_LEFT,      TERMINAL_KEY_RIGHT,    TERMINAL_KEY_PAGE_UP,
				      TERMINAL_KEY_PAGE_DOWN, TERMINAL_KEY_HOME,     TERMINAL_KEY_END,
				      TERMINAL_KEY_OTHER,     TERMINAL_KEY_WHEEL_UP, TERMINAL_KEY_WHEEL_DOWN};
	static const char letters[] = "tfaclhjkgG+-* sS<>R[]nN/&x12345";
	const size_t keys = sizeof(letters) - 1, all = keys + sizeof(special) / sizeof(special[0]);
	unsigned seed = 1;
	struct opened opened;

	open_all(&opened);
	for (unsigned i = 0; i < 20000; i++) {
		struct tui_cells cells;
		struct list *list;
		size_t key;
		bool quit = false;

		seed = seed * 1103515245u + 12345u;
		key = (seed >> 16) % all;
		assert_int_equal(tui_key(&opened.tui, key < keys ? letters[key] : special[key - keys], &quit), 0);
		assert_false(quit);
		list = &opened.tui.lists[opened.tui.view];
		list_place(list, tui_count(&opened.tui), 5);
		for (size_t line = list->first; line < tui_count(&opened.tui) && line < list->first + 5; line++) {
			tui_cells(&opened.tui, line, &cells);
			assert_non_null(cells.name);
		}
		assert_int_equal(tui_click(&opened.tui, (seed >> 8) % 7), 0);
	}
	close_all(&opened);
}

static int stop_at_once(void *ctx, unsigned percent)
{
	++*(unsigned *)ctx;
	assert_true(percent <= 100);
	return -ECANCELED;
}

/* A pass that the user stops ends, and a step goes by in between only. */
static void a_pass_can_be_stopped(void **state)
{
	unsigned told = 0;
	struct progress progress = {.calls = 100000, .tell = stop_at_once, .ctx = &told};
	unsigned steps = 0;

	progress_begin(&progress, 50, 50);
	while (!progress_step(&progress))
		steps++;
	assert_true(steps > 1000 && steps < 100000);
	assert_int_equal(told, 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_tree_is_walked),	 cmocka_unit_test(the_table_is_sorted),
		cmocka_unit_test(callers_and_callees),	 cmocka_unit_test(calls_in_order),
		cmocka_unit_test(calls_are_bounded),	 cmocka_unit_test(source_that_is_not_there),
		cmocka_unit_test(source_lines),		 cmocka_unit_test(any_key_in_any_view),
		cmocka_unit_test(a_pass_can_be_stopped),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
