/*
 * Drawing the live table; see top.h.  Context: host.
 *
 *     row 0        the program, the time since the start, numbers of threads and functions
 *     row 1        filter, order, pause; or the function whose callers are shown
 *     row 2        the columns' titles
 *     row 3...     functions
 *     last row     keys, a message, or the filter that is being typed
 */
#include <stdio.h>
#include <string.h>

#include "host/counted.h"
#include "names.h"
#include "shorten.h"
#include <host/text.h>
#include "top.h"

#define NUMBER_WIDTH 10u
#define NAME_MIN     20u
#define OBJECT_WIDTH 18u
#define LINE_BYTES   512

/* Columns in the order of their use: on a narrow terminal the last ones are left out. */
static const enum top_column order[] = {TOP_RATE, TOP_SELF, TOP_TOTAL, TOP_CALLS, TOP_AVG, TOP_P99, TOP_P50, TOP_MAX};

#define NUMBERS (sizeof(order) / sizeof(order[0]))

/* Choose the columns that there is room for; *object: the object's name, too.  Returns the width of the numbers. */
static unsigned choose_columns(const struct top *top, unsigned width, bool shown[TOP_COLUMNS], bool *object)
{
	unsigned used = 0;

	memset(shown, 0, TOP_COLUMNS * sizeof(*shown));
	for (size_t i = 0; i < NUMBERS; i++) {
		bool of_callers =
			order[i] == TOP_RATE || order[i] == TOP_TOTAL || order[i] == TOP_CALLS || order[i] == TOP_AVG;

		if ((top->watched != PROFILE_NONE && !of_callers) || used + NUMBER_WIDTH + 2 + NAME_MIN > width)
			continue;
		shown[order[i]] = true;
		used += NUMBER_WIDTH;
	}
	*object = used + 2 + NAME_MIN * 2 + OBJECT_WIDTH <= width;
	return used;
}

const char *top_count_text(double value, char text[TOP_COUNT_MAX])
{
	static const char units[] = " kMGTPE";
	unsigned unit = 0;

	if (value < 999999.5) {
		snprintf(text, TOP_COUNT_MAX, "%.*f", value < 9.95 && value > 0 ? 1 : 0, value);
		return text;
	}
	for (; value >= 9999.5 && unit + 2 < sizeof(units); unit++)
		value /= 1000;
	snprintf(text, TOP_COUNT_MAX, "%.*f%c", value < 99.95 ? 1 : 0, value, units[unit]);
	return text;
}

const char *top_time_text(const struct profile_row *row, enum top_column column, char text[TOP_TIME_MAX])
{
	const uint64_t times[TOP_COLUMNS] = {
		[TOP_TOTAL] = row->total_ns, [TOP_SELF] = row->self_ns, [TOP_AVG] = row->avg_ns,
		[TOP_P50] = row->p50_ns,     [TOP_P99] = row->p99_ns,	[TOP_MAX] = row->max_ns,
	};
	uint64_t error = column == TOP_MAX ? row->max_error_ns : row->span_ns, ns = times[column];
	bool of_one = column == TOP_P50 || column == TOP_P99 || column == TOP_MAX;

	if (!row->calls)
		return "-";
	if (!row->estimated)
		return timetext(ns, text);
	text[0] = of_one && ns < 2 * error ? '<' : '~';
	timetext(text[0] == '<' ? ns + error : ns, text + 1);
	return text;
}

static const char *cell_text(const struct profile_row *row, enum top_column column, char text[TOP_TIME_MAX])
{
	switch (column) {
	case TOP_RATE:
		return top_count_text(row->calls_rate, text);
	case TOP_CALLS:
		if (row->calls < 1000000)
			snprintf(text, TOP_TIME_MAX, "%llu", (unsigned long long)row->calls);
		else
			(void)top_count_text((double)row->calls, text);
		return text;
	default:
		return top_time_text(row, column, text);
	}
}

static size_t window_of(const struct terminal *screen)
{
	return terminal_rows(screen) > TOP_HEAD_ROWS + 1 ? terminal_rows(screen) - TOP_HEAD_ROWS - 1 : 1;
}

void top_place(struct top *top, const struct terminal *screen, const struct top_rows *rows, size_t *first,
	       size_t *count)
{
	size_t window = window_of(screen);

	/* The bar follows its function when the function's row moves. */
	for (size_t i = 0; i < rows->count && top->selected != PROFILE_NONE; i++)
		if (rows->rows[i].function == top->selected) {
			top->list.bar = i;
			break;
		}
	list_place(&top->list, rows->count, window);
	*first = top->list.first;
	*count = rows->count - top->list.first < window ? rows->count - top->list.first : window;
}

static void draw_heading(const struct top *top, struct terminal *screen, const struct top_heading *heading,
			 const struct top_rows *rows)
{
	const struct profile_totals *totals = &heading->totals;
	char line[LINE_BYTES], name[LINE_BYTES / 2];

	text_clean(name, sizeof(name), heading->what);
	snprintf(line, sizeof(line), "calltap top: %s  %llu s  %u %s in %u %s, %u %s traced%s", name,
		 (unsigned long long)(heading->elapsed_ns / 1000000000), totals->threads,
		 counted(totals->threads, "thread", "threads"), totals->processes,
		 counted(totals->processes, "process", "processes"), totals->functions,
		 counted(totals->functions, "function", "functions"), heading->ended ? "  ENDED" : "");
	terminal_put(screen, 0, 0, line, terminal_columns(screen), false, TERMINAL_BOLD);
	if (top->watched != PROFILE_NONE)
		snprintf(line, sizeof(line), "callers of %s (Esc: back)", top->watched_name);
	else
		snprintf(line, sizeof(line), "%zu of %zu %s%s%s, by %s%s%s", rows->count, rows->calls,
			 counted(rows->calls, "function", "functions"), top->filter[0] ? " matching " : "", top->filter,
			 top_column_title(top->sort), top->reverse ? " (least first)" : "",
			 top->paused ? "  PAUSED" : "");
	terminal_put(screen, 1, 0, line, terminal_columns(screen), false, TERMINAL_PLAIN);
}

static void draw_titles(const struct top *top, struct terminal *screen, const bool shown[TOP_COLUMNS], bool object)
{
	unsigned column = 0, width = terminal_columns(screen), name_width;

	terminal_put(screen, 2, 0, "", width, false, TERMINAL_REVERSE);
	for (unsigned i = 0; i < TOP_NAME; i++)
		if (shown[i])
			column = terminal_put(screen, 2, column, top_column_title((enum top_column)i), NUMBER_WIDTH,
					      true, i == top->sort ? TERMINAL_BOLD : TERMINAL_REVERSE);
	name_width = width - column - 2 - (object ? OBJECT_WIDTH : 0);
	column = terminal_put(screen, 2, column + 2, top->watched != PROFILE_NONE ? "Caller" : "Function", name_width,
			      false, top->sort == TOP_NAME ? TERMINAL_BOLD : TERMINAL_REVERSE);
	if (object)
		terminal_put(screen, 2, column, "Object", OBJECT_WIDTH, false, TERMINAL_REVERSE);
}

static void draw_row(struct terminal *screen, unsigned at, const struct profile_row *row, const bool shown[TOP_COLUMNS],
		     bool object, bool bar)
{
	unsigned column = 0, width = terminal_columns(screen), name_width;
	enum terminal_style style = bar ? TERMINAL_REVERSE : row->running ? TERMINAL_WARM : TERMINAL_PLAIN;
	char text[TOP_TIME_MAX], name[LINE_BYTES], whole[SHORTEN_MAX];

	for (unsigned i = 0; i < TOP_NAME; i++)
		if (shown[i])
			column = terminal_put(screen, at, column, cell_text(row, (enum top_column)i, text),
					      NUMBER_WIDTH, true, style);
	name_width = width - column - (object ? OBJECT_WIDTH : 0);
	snprintf(name, sizeof(name), "  %s%s", shorten(row->name, name_width > 6 ? name_width - 5 : 0, whole),
		 row->running ? " *" : "");
	column = terminal_put(screen, at, column, name, name_width, false, style);
	if (object)
		terminal_put(screen, at, column, row->object, OBJECT_WIDTH, false,
			     bar ? TERMINAL_REVERSE : TERMINAL_DIM);
}

static void draw_help(struct terminal *screen)
{
	static const char *const lines[] = {
		"q, ^C        end",
		"s, >, Right; S, <, Left   sort by the next column; by the one before",
		"R            least first, or greatest first again",
		"/, &         show only functions whose name has a text in it, or matches a glob",
		"Up, Down, PgUp, PgDn, Home, End, mouse   move the bar",
		"Enter        who calls the function under the bar",
		"Esc, Backspace   back to all functions; all functions again after /",
		"p            pause: the table stays as it is; the program goes on",
		"r            reset: count from now on",
		"Space        read now",
		"^Z           stop, until the shell goes on with it (fg)",
		"",
		"Calls/s are of the last interval, all else since the start or r.  Times are of calls that have ended;",
		"a * marks functions that a thread is in now.  Total has a recursive function's outermost call only.",
		"A ~ marks estimates (--time adaptive); of a time with a < no more is known.",
		"",
		"any key: back",
	};

	terminal_put_lines(screen, TOP_HEAD_ROWS, 2, lines, sizeof(lines) / sizeof(lines[0]));
}

void top_draw(const struct top *top, struct terminal *screen, const struct top_heading *heading,
	      const struct top_rows *rows)
{
	size_t window = window_of(screen);
	bool shown[TOP_COLUMNS], object;

	terminal_clear(screen);
	draw_heading(top, screen, heading, rows);
	if (top->help) {
		draw_help(screen);
		return;
	}
	(void)choose_columns(top, terminal_columns(screen), shown, &object);
	draw_titles(top, screen, shown, object);
	for (size_t i = 0; i < window && top->list.first + i < rows->count; i++)
		draw_row(screen, TOP_HEAD_ROWS + (unsigned)i, &rows->rows[top->list.first + i], shown, object,
			 top->list.first + i == top->list.bar);
	if (!rows->count)
		terminal_put(screen, TOP_HEAD_ROWS, 2,
			     top->watched != PROFILE_NONE ? "no call has ended since Enter was pressed"
			     : rows->calls		  ? "no function matches"
							  : "no traced call has ended yet",
			     terminal_columns(screen) > 2 ? terminal_columns(screen) - 2 : 0, false, TERMINAL_DIM);
	terminal_put_last(screen, top->editing ? "Function (part of its name, or a glob)" : NULL, top->edited,
			  top->message,
			  "q quit  s/S sort  / filter  Enter callers  Esc back  p pause  r reset  h help");
}
