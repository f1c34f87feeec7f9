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

#define HEAD_ROWS    3u
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

static const char *cell_text(const struct profile_row *row, enum top_column column, char text[TIMETEXT_MAX])
{
	switch (column) {
	case TOP_RATE:
		return top_count_text(row->calls_rate, text);
	case TOP_CALLS:
		if (row->calls < 1000000)
			snprintf(text, TIMETEXT_MAX, "%llu", (unsigned long long)row->calls);
		else
			(void)top_count_text((double)row->calls, text);
		return text;
	case TOP_TOTAL:
		return row->calls ? timetext(row->total_ns, text) : "-";
	case TOP_SELF:
		return row->calls ? timetext(row->self_ns, text) : "-";
	case TOP_AVG:
		return row->calls ? timetext(row->avg_ns, text) : "-";
	case TOP_P50:
		return row->calls ? timetext(row->p50_ns, text) : "-";
	case TOP_P99:
		return row->calls ? timetext(row->p99_ns, text) : "-";
	default:
		return row->calls ? timetext(row->max_ns, text) : "-";
	}
}

static size_t window_of(const struct screen *screen)
{
	return screen_rows(screen) > HEAD_ROWS + 1 ? screen_rows(screen) - HEAD_ROWS - 1 : 1;
}

void top_place(struct top *top, const struct screen *screen, const struct top_rows *rows, size_t *first, size_t *count)
{
	size_t window = window_of(screen);

	top->page = window;
	/* The bar follows its function when the function's row moves. */
	for (size_t i = 0; i < rows->count && top->selected != PROFILE_NONE; i++)
		if (rows->rows[i].function == top->selected) {
			top->bar = i;
			break;
		}
	if (top->bar >= rows->count)
		top->bar = rows->count ? rows->count - 1 : 0;
	if (top->bar < top->first)
		top->first = top->bar;
	if (top->bar >= top->first + window)
		top->first = top->bar - window + 1;
	if (top->first + window > rows->count)
		top->first = rows->count > window ? rows->count - window : 0;
	*first = top->first;
	*count = rows->count - top->first < window ? rows->count - top->first : window;
}

static void draw_heading(const struct top *top, struct screen *screen, const struct top_heading *heading,
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
	screen_put(screen, 0, 0, line, screen_columns(screen), false, SCREEN_BOLD);
	if (top->watched != PROFILE_NONE)
		snprintf(line, sizeof(line), "callers of %s (Esc: back)", top->watched_name);
	else
		snprintf(line, sizeof(line), "%zu of %zu %s%s%s, by %s%s%s", rows->count, rows->calls,
			 counted(rows->calls, "function", "functions"), top->filter[0] ? " matching " : "", top->filter,
			 top_column_title(top->sort), top->reverse ? " (least first)" : "",
			 top->paused ? "  PAUSED" : "");
	screen_put(screen, 1, 0, line, screen_columns(screen), false, SCREEN_PLAIN);
}

static void draw_titles(const struct top *top, struct screen *screen, const bool shown[TOP_COLUMNS], bool object)
{
	unsigned column = 0, width = screen_columns(screen), name_width;

	screen_put(screen, 2, 0, "", width, false, SCREEN_REVERSE);
	for (unsigned i = 0; i < TOP_NAME; i++)
		if (shown[i])
			column = screen_put(screen, 2, column, top_column_title((enum top_column)i), NUMBER_WIDTH, true,
					    i == top->sort ? SCREEN_BOLD : SCREEN_REVERSE);
	name_width = width - column - 2 - (object ? OBJECT_WIDTH : 0);
	column = screen_put(screen, 2, column + 2, top->watched != PROFILE_NONE ? "Caller" : "Function", name_width,
			    false, top->sort == TOP_NAME ? SCREEN_BOLD : SCREEN_REVERSE);
	if (object)
		screen_put(screen, 2, column, "Object", OBJECT_WIDTH, false, SCREEN_REVERSE);
}

static void draw_row(struct screen *screen, unsigned at, const struct profile_row *row, const bool shown[TOP_COLUMNS],
		     bool object, bool bar)
{
	unsigned column = 0, width = screen_columns(screen), name_width;
	enum screen_style style = bar ? SCREEN_REVERSE : SCREEN_PLAIN;
	char text[TIMETEXT_MAX], name[LINE_BYTES], whole[SHORTEN_MAX];

	for (unsigned i = 0; i < TOP_NAME; i++)
		if (shown[i])
			column = screen_put(screen, at, column, cell_text(row, (enum top_column)i, text), NUMBER_WIDTH,
					    true, style);
	name_width = width - column - (object ? OBJECT_WIDTH : 0);
	snprintf(name, sizeof(name), "  %s%s", shorten(row->name, name_width > 6 ? name_width - 5 : 0, whole),
		 row->running ? " *" : "");
	column = screen_put(screen, at, column, name, name_width, false, style);
	if (object)
		screen_put(screen, at, column, row->object, OBJECT_WIDTH, false, bar ? SCREEN_REVERSE : SCREEN_DIM);
}

static void draw_last(const struct top *top, struct screen *screen)
{
	unsigned row = screen_rows(screen) - 1, width = screen_columns(screen);
	char line[LINE_BYTES];

	if (top->editing) {
		snprintf(line, sizeof(line), "Function (part of its name, or a glob): %s_", top->edited);
		screen_put(screen, row, 0, line, width, false, SCREEN_BOLD);
	} else if (top->message[0]) {
		screen_put(screen, row, 0, top->message, width, false, SCREEN_BOLD);
	} else {
		screen_put(screen, row, 0,
			   "q quit  s/S sort  / filter  Enter callers  Esc back  p pause  r reset  h help", width,
			   false, SCREEN_DIM);
	}
}

static void draw_help(struct screen *screen)
{
	static const char *const lines[] = {
		"q, ^C        end",
		"s, >, Right  sort by the next column",
		"S, <, Left   sort by the column before",
		"R            least first, or greatest first again",
		"/            show only functions whose name has a text in it, or matches a glob",
		"Up, Down, PgUp, PgDn, Home, End   move the bar",
		"Enter        who calls the function under the bar",
		"Esc, Backspace   back to all functions; all functions again after /",
		"p            pause: the table stays as it is; the program goes on",
		"r            reset: count from now on",
		"Space        read now",
		"",
		"Calls/s are of the last interval, all else since the start or r.  Times are of calls that have ended;",
		"a * marks functions that a thread is in now.  Total has a recursive function's outermost call only.",
		"",
		"any key: back",
	};

	for (unsigned i = 0; i < sizeof(lines) / sizeof(lines[0]); i++)
		screen_put(screen, HEAD_ROWS + i, 2, lines[i],
			   screen_columns(screen) > 2 ? screen_columns(screen) - 2 : 0, false, SCREEN_PLAIN);
}

void top_draw(const struct top *top, struct screen *screen, const struct top_heading *heading,
	      const struct top_rows *rows)
{
	size_t window = window_of(screen);
	bool shown[TOP_COLUMNS], object;

	screen_clear(screen);
	draw_heading(top, screen, heading, rows);
	if (top->help) {
		draw_help(screen);
		return;
	}
	(void)choose_columns(top, screen_columns(screen), shown, &object);
	draw_titles(top, screen, shown, object);
	for (size_t i = 0; i < window && top->first + i < rows->count; i++)
		draw_row(screen, HEAD_ROWS + (unsigned)i, &rows->rows[top->first + i], shown, object,
			 top->first + i == top->bar);
	if (!rows->count)
		screen_put(screen, HEAD_ROWS, 2,
			   top->watched != PROFILE_NONE ? "no call has ended since Enter was pressed"
			   : rows->calls		? "no function matches"
							: "no traced call has ended yet",
			   screen_columns(screen) > 2 ? screen_columns(screen) - 2 : 0, false, SCREEN_DIM);
	draw_last(top, screen);
}
