/*
 * Drawing the views; see draw.h.  Context: host.
 *
 *     row 0        the trace
 *     row 1        the view
 *     row 2        the columns' titles
 *     row 3...     lines
 *     last row     keys, a message, or the text that is being typed
 */
#include <stdio.h>
#include <string.h>

#include <host/counted.h>

#include "../view/shorten.h"
#include "draw.h"

#define NAME_MIN   24u
#define SOURCE_MIN 48u /* columns of a source line */
#define LINE_BYTES 1024
#define TAB_STOP   8u

static size_t window_of(const struct terminal *terminal)
{
	return terminal_rows(terminal) > DRAW_HEAD_ROWS + 1 ? terminal_rows(terminal) - DRAW_HEAD_ROWS - 1 : 1;
}

/* Choose the columns that there is room for, by their ranks. */
static void choose_columns(const struct tui_column *columns, size_t count, unsigned width, unsigned name_min,
			   bool shown[TUI_COLUMNS_MAX])
{
	unsigned used = 0;

	memset(shown, 0, TUI_COLUMNS_MAX * sizeof(*shown));
	for (unsigned rank = 0; rank < TUI_COLUMNS_MAX; rank++)
		for (size_t i = 0; i < count; i++)
			if (columns[i].rank == rank && used + columns[i].width + name_min <= width) {
				shown[i] = true;
				used += columns[i].width;
			}
}

static void draw_heading(const struct tui *tui, struct terminal *terminal)
{
	char line[LINE_BYTES], path[LINE_BYTES / 2];
	uint64_t calls = 0;

	for (uint32_t i = 0; i < tui->report.row_count; i++)
		calls += tui->report.rows[i].calls + tui->report.rows[i].unfinished;
	text_clean(path, sizeof(path), trace_path(tui->trace));
	snprintf(line, sizeof(line), "calltap tui: %s  %llu %s of %u %s, %u %s%s%s", text_base(path),
		 (unsigned long long)calls, counted(calls, "call", "calls"), tui->report.row_count,
		 counted(tui->report.row_count, "function", "functions"), trace_thread_count(tui->trace),
		 counted(trace_thread_count(tui->trace), "thread", "threads"), tui->report.lost ? "  RECORDS LOST" : "",
		 trace_end(tui->trace) ? "" : "  CUT SHORT");
	terminal_put(terminal, 0, 0, line, terminal_columns(terminal), false, TERMINAL_BOLD);
	tui_heading(tui, line, sizeof(line));
	terminal_put(terminal, 1, 0, line, terminal_columns(terminal), false, TERMINAL_PLAIN);
}

static void draw_titles(const struct tui *tui, struct terminal *terminal, const bool shown[TUI_COLUMNS_MAX])
{
	unsigned column = 0, width = terminal_columns(terminal);
	const struct tui_column *columns;
	const char *name;
	size_t count = tui_columns(tui, &columns, &name);

	terminal_put(terminal, 2, 0, "", width, false, TERMINAL_REVERSE);
	for (size_t i = 0; i < count; i++)
		if (shown[i]) {
			bool sorted = tui->view == TUI_FUNCTIONS &&
				      strcmp(columns[i].title, report_column_title(tui->sort)) == 0;

			column = terminal_put(terminal, 2, column, columns[i].title, columns[i].width, true,
					      sorted ? TERMINAL_BOLD : TERMINAL_REVERSE);
		}
	terminal_put(terminal, 2, column + 2, name, width > column + 2 ? width - column - 2 : 0, false,
		     TERMINAL_REVERSE);
}

/* Copy a source line with its tabs as blanks. */
static void expand_tabs(char *to, size_t size, const char *from)
{
	size_t used = 0;

	for (; *from && used + TAB_STOP + 1 < size; from++) {
		if (*from != '\t') {
			to[used++] = *from;
			continue;
		}
		do
			to[used++] = ' ';
		while (used % TAB_STOP);
	}
	to[used] = '\0';
}

/* Put the name, shortened so that there is room for what is behind it. */
static void draw_name(const struct tui *tui, struct terminal *terminal, unsigned row, unsigned column,
		      const struct tui_cells *cells, enum terminal_style style)
{
	unsigned width = terminal_columns(terminal), room = width > column ? width - column : 0;
	unsigned levels = cells->indent < TUI_INDENT_MAX ? cells->indent : TUI_INDENT_MAX;
	unsigned indent = 2 * levels < room / 2 ? 2 * levels : room / 2, more = (unsigned)strlen(cells->more);
	unsigned for_name, name_min;
	char text[LINE_BYTES * 2], shortened[SHORTEN_MAX], tabs[LINE_BYTES], deep[16] = "";
	const char *name = cells->name;

	/* Where there is no room for the indent its depth is told. */
	if (2 * cells->indent > indent)
		snprintf(deep, sizeof(deep), "%u: ", cells->indent);
	for_name = indent + 3 + (unsigned)strlen(deep);
	for_name = room > for_name ? room - for_name : 0;
	/* A name that can be told from others comes before what is said behind it. */
	name_min = strlen(name) < NAME_MIN ? (unsigned)strlen(name) : NAME_MIN;
	if (more > for_name || for_name - more < name_min)
		more = for_name > name_min ? for_name - name_min : 0;
	for_name -= more;
	if (tui->view == TUI_SOURCE) {
		expand_tabs(tabs, sizeof(tabs), name);
		name = tabs;
	} else if (cells->is_function) {
		name = shorten(name, for_name, shortened);
	}
	if (cells->mark)
		snprintf(text, sizeof(text), "%*s%c %s%.1500s%.*s", (int)indent, "", cells->mark, deep, name, (int)more,
			 cells->more);
	else
		snprintf(text, sizeof(text), "%*s%.1500s%.*s", (int)indent, "", name, (int)more, cells->more);
	terminal_put(terminal, row, column, text, room, false, style);
}

static void draw_line(const struct tui *tui, struct terminal *terminal, size_t line, unsigned row,
		      const bool shown[TUI_COLUMNS_MAX])
{
	const struct tui_column *columns;
	const char *name;
	size_t count = tui_columns(tui, &columns, &name);
	struct tui_cells cells;
	enum terminal_style style;
	unsigned column = 0;

	tui_cells(tui, line, &cells);
	style = line == tui->lists[tui->view].bar ? TERMINAL_REVERSE : cells.style;
	for (size_t i = 0; i < count; i++)
		if (shown[i])
			column = terminal_put(terminal, row, column, cells.numbers[i], columns[i].width, true, style);
	column = terminal_put(terminal, row, column, "", 2, false, style);
	draw_name(tui, terminal, row, column, &cells, style);
}

static void draw_last(const struct tui *tui, struct terminal *terminal)
{
	static const char *const prompts[] = {[TUI_EDIT_FILTER] = "Show only (a part of the name, or a glob)",
					      [TUI_EDIT_SEARCH] = "Search (a part of the name, or a glob)"};
	char keys[LINE_BYTES];

	tui_help_line(tui, keys, sizeof(keys));
	terminal_put_last(terminal, prompts[tui->editing], tui->edited, tui->message, keys);
}

static void draw_help(struct terminal *terminal)
{
	static const char *const lines[] = {
		"t, f, Tab   the tree of all calls; the table of functions",
		"a, Enter    callers and callees of the bar's function (tree: Enter folds)",
		"c           its calls themselves, in order; Enter: what happened in one",
		"l           its source lines, with times beside the entries",
		"Esc, BSpc   back to where you were; without the filter",
		"Space, Right, Left    fold, unfold;  * and - all below",
		"[ ]         the call before, the next call",
		"s S < > R   sort by another column, least first; calls: slowest first",
		"/ n N       search: a part of a name, or a glob; the next; the one before",
		"&           show only what matches, and its callers",
		"Up Down PgUp PgDn Home End j k g G mouse   move the bar; a second click: Enter",
		"q ^C ^Z     end; stop until fg",
		"",
		"Figures are those of calltap report and graph: total with callees, self without;",
		"open calls count to the end; a recursion counts once; ~ is an estimate, < and > are bounds.",
		"any key: back",
	};

	terminal_put_lines(terminal, DRAW_HEAD_ROWS, 1, lines, sizeof(lines) / sizeof(lines[0]));
}

/* Why there is no line. */
static const char *empty_text(const struct tui *tui)
{
	if (tui->view == TUI_SOURCE)
		return tui->source.error;
	if (tui->view == TUI_CALLS)
		return tui->report.timed ? "no call of it is here"
					 : "the trace has no single calls: record with -p function_graph";
	return tui->filter[0] ? "no function matches" : "no call with a duration is here: f shows the table";
}

void draw_tui(struct tui *tui, struct terminal *terminal)
{
	size_t window = window_of(terminal), count = tui_count(tui);
	struct list *list = &tui->lists[tui->view];
	bool shown[TUI_COLUMNS_MAX];
	const struct tui_column *columns;
	const char *name;
	size_t column_count = tui_columns(tui, &columns, &name);

	list_place(list, count, window);
	terminal_clear(terminal);
	draw_heading(tui, terminal);
	if (tui->help) {
		draw_help(terminal);
		terminal_show(terminal);
		return;
	}
	choose_columns(columns, column_count, terminal_columns(terminal),
		       tui->view == TUI_SOURCE ? SOURCE_MIN : NAME_MIN, shown);
	draw_titles(tui, terminal, shown);
	for (size_t i = 0; i < window && list->first + i < count; i++)
		draw_line(tui, terminal, list->first + i, DRAW_HEAD_ROWS + (unsigned)i, shown);
	if (!count)
		terminal_put(terminal, DRAW_HEAD_ROWS, 2, empty_text(tui),
			     terminal_columns(terminal) > 2 ? terminal_columns(terminal) - 2 : 0, false, TERMINAL_DIM);
	draw_last(tui, terminal);
	terminal_show(terminal);
}

void draw_progress(struct terminal *terminal, unsigned percent, bool opening)
{
	char line[LINE_BYTES];

	snprintf(line, sizeof(line), "reading the trace: %u %%  (Esc: %s)", percent, opening ? "quit" : "stop");
	terminal_put(terminal, terminal_rows(terminal) - 1, 0, line, terminal_columns(terminal), false, TERMINAL_BOLD);
	terminal_show(terminal);
}
