/*
 * The live table's state: order, filter, selection, keys; see top.h.
 * Context: host.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <host/terminal/edit.h>

#include <host/terminal/matching.h>
#include "top.h"

static const struct {
	const char *word, *title;
} columns[TOP_COLUMNS] = {
	[TOP_RATE] = {"rate", "Calls/s"}, [TOP_CALLS] = {"calls", "Calls"}, [TOP_TOTAL] = {"total", "Total"},
	[TOP_SELF] = {"self", "Self"},	  [TOP_AVG] = {"avg", "Avg"},	    [TOP_P50] = {"p50", "p50"},
	[TOP_P99] = {"p99", "p99"},	  [TOP_MAX] = {"max", "Max"},	    [TOP_NAME] = {"name", "Function"},
};

void top_init(struct top *top)
{
	memset(top, 0, sizeof(*top));
	top->sort = TOP_SELF;
	top->selected = PROFILE_NONE;
	top->watched = PROFILE_NONE;
}

int top_parse_column(enum top_column *column, const char *text, struct calltap_diag *diag)
{
	for (unsigned i = 0; i < TOP_COLUMNS; i++)
		if (strcmp(text, columns[i].word) == 0) {
			*column = (enum top_column)i;
			return 0;
		}
	return calltap_diag_set(
		diag, -EINVAL, "'%s' is no column: sort by rate, calls, total, self, avg, p50, p99, max or name", text);
}

const char *top_column_title(enum top_column column)
{
	return columns[column].title;
}

bool top_sorts_by_percentile(const struct top *top)
{
	return top->watched == PROFILE_NONE && (top->sort == TOP_P50 || top->sort == TOP_P99);
}

static double value_of(const struct profile_row *row, enum top_column column)
{
	switch (column) {
	case TOP_RATE:
		return row->calls_rate;
	case TOP_CALLS:
		return (double)row->calls;
	case TOP_TOTAL:
		return (double)row->total_ns;
	case TOP_AVG:
		return (double)row->avg_ns;
	case TOP_P50:
		return (double)row->p50_ns;
	case TOP_P99:
		return (double)row->p99_ns;
	case TOP_MAX:
		return (double)row->max_ns;
	default:
		return (double)row->self_ns;
	}
}

/* Greatest first, names alphabetically; ties by calls, name and id, so that rows do not jump about. */
static int compare_rows(const void *left, const void *right, void *ctx)
{
	const struct profile_row *a = left, *b = right;
	const struct top *top = ctx;
	int order = strcmp(a->name, b->name);

	if (top->sort != TOP_NAME) {
		double x = value_of(a, top->sort), y = value_of(b, top->sort);

		order = x != y ? (x < y ? 1 : -1) : a->calls != b->calls ? (a->calls < b->calls ? 1 : -1) : order;
	}
	if (!order)
		order = a->function < b->function ? -1 : a->function > b->function;
	return top->reverse ? -order : order;
}

void top_arrange(const struct top *top, struct top_rows *rows)
{
	size_t kept = 0;

	rows->calls = rows->count;
	for (size_t i = 0; i < rows->count; i++)
		if (matching_name(top->filter, rows->rows[i].name))
			rows->rows[kept++] = rows->rows[i];
	rows->count = kept;
	if (kept)
		qsort_r(rows->rows, kept, sizeof(*rows->rows), compare_rows, (void *)(uintptr_t)top);
}

/* Put a key into the filter that is being typed; the filter applies while it is typed. */
static enum top_action edit_filter(struct top *top, int key)
{
	enum edit_state state = edit_key(top->edited, sizeof(top->edited), key);

	top->editing = state == EDIT_GOES_ON;
	if (state == EDIT_LEFT)
		top->edited[0] = '\0';
	memcpy(top->filter, top->edited, sizeof(top->filter));
	return TOP_ARRANGE;
}

/* The bar was moved: it stays with the function that it is on now. */
static enum top_action select_row(struct top *top, const struct top_rows *rows)
{
	top->selected = rows->count ? rows->rows[top->list.bar].function : PROFILE_NONE;
	return TOP_REDRAW;
}

static void sort_by(struct top *top, int step)
{
	top->sort = (enum top_column)((top->sort + TOP_COLUMNS + step) % TOP_COLUMNS);
	top->reverse = false;
}

static enum top_action watch_callers(struct top *top, const struct top_rows *rows)
{
	if (top->list.bar >= rows->count || rows->rows[top->list.bar].function == PROFILE_NONE)
		return TOP_NOTHING;
	top->watched = rows->rows[top->list.bar].function;
	snprintf(top->watched_name, sizeof(top->watched_name), "%s", rows->rows[top->list.bar].name);
	top->filter[0] = top->edited[0] = '\0';
	top->list.first = top->list.bar = 0;
	top->selected = PROFILE_NONE;
	return TOP_WATCH;
}

static enum top_action go_back(struct top *top)
{
	if (top->watched == PROFILE_NONE) {
		if (!top->filter[0])
			return TOP_NOTHING;
		top->filter[0] = top->edited[0] = '\0';
		return TOP_ARRANGE;
	}
	top->selected = top->watched;
	top->watched = PROFILE_NONE;
	return TOP_WATCH;
}

static enum top_action move_key(struct top *top, int key, const struct top_rows *rows)
{
	return list_key(&top->list, rows->count, key) ? select_row(top, rows) : TOP_NOTHING;
}

enum top_action top_click(struct top *top, size_t row, const struct top_rows *rows)
{
	if (top->help || top->list.first + row >= rows->count)
		return TOP_NOTHING;
	list_go(&top->list, rows->count, top->list.first + row);
	return select_row(top, rows);
}

enum top_action top_key(struct top *top, int key, const struct top_rows *rows)
{
	if (top->editing)
		return edit_filter(top, key);
	if (top->help) {
		top->help = false;
		return key == 'q' || key == 3 ? TOP_QUIT : TOP_REDRAW;
	}
	switch (key) {
	case 'q':
	case 3:
		return TOP_QUIT;
	case 's':
	case '>':
	case TERMINAL_KEY_RIGHT:
		sort_by(top, 1);
		return TOP_ARRANGE;
	case 'S':
	case '<':
	case TERMINAL_KEY_LEFT:
		sort_by(top, -1);
		return TOP_ARRANGE;
	case 'R':
		top->reverse = !top->reverse;
		return TOP_ARRANGE;
	case '/':
	case '&':
		top->editing = true;
		memcpy(top->edited, top->filter, sizeof(top->edited));
		return TOP_REDRAW;
	case TERMINAL_KEY_ENTER:
		return watch_callers(top, rows);
	case TERMINAL_KEY_ESCAPE:
	case TERMINAL_KEY_BACKSPACE:
		return go_back(top);
	case 'p':
		top->paused = !top->paused;
		return top->paused ? TOP_REDRAW : TOP_READ;
	case 'r':
		return TOP_RESET;
	case ' ':
		return TOP_READ;
	case 'h':
	case '?':
		top->help = true;
		return TOP_REDRAW;
	default:
		return move_key(top, key, rows);
	}
}
