/* The texts in one line of a view; see tui.h.  Context: host. */
#include <stdio.h>
#include <string.h>

#include <host/counted.h>

#include "tui.h"

#define HOT_PERCENT  50.0
#define WARM_PERCENT 10.0

static const struct tui_column tree_columns[] = {{"Total", 10, 0}, {"%", 8, 2}, {"Self", 10, 1}, {"Calls", 11, 3}};
static const struct tui_column call_columns[] = {{"Start", 16, 0}, {"Time", 11, 0}, {"Self", 11, 1}, {"Thread", 20, 2}};
static const struct tui_column inside_columns[] = {{"Start", 13, 1}, {"Time", 12, 0}};
static const struct tui_column source_columns[] = {
	{"Calls", 10, 1}, {"Total", 10, 2}, {"p50", 10, 4}, {"p99", 10, 3}, {"Line", 7, 0}};
static const struct tui_column table_columns[] = {{"Calls", 11, 2}, {"Total", 10, 0}, {"Self", 10, 1}, {"Min", 10, 7},
						  {"Avg", 10, 6},   {"p50", 10, 5},   {"p99", 10, 3},  {"Max", 10, 4}};
static const enum report_column table_order[] = {REPORT_CALLS, REPORT_TOTAL, REPORT_SELF, REPORT_MIN,
						 REPORT_AVG,   REPORT_P50,   REPORT_P99,  REPORT_MAX};

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

size_t tui_columns(const struct tui *tui, const struct tui_column **columns, const char **name)
{
	*name = "Function";
	switch (tui->view) {
	case TUI_TREE:
	case TUI_AROUND:
		*columns = tree_columns;
		return COUNT(tree_columns);
	case TUI_FUNCTIONS:
		*columns = table_columns;
		return COUNT(table_columns);
	case TUI_CALLS:
		*columns = call_columns;
		*name = "Call";
		return COUNT(call_columns);
	case TUI_CALL:
		*columns = inside_columns;
		return COUNT(inside_columns);
	default:
		*columns = source_columns;
		*name = "Source";
		return COUNT(source_columns);
	}
}

static const char *name_of(const struct tui *tui, uint32_t function)
{
	return names_function(tui->report.names, function).text;
}

static void put_time(char cell[TIMETEXT_MAX], uint64_t ns, bool estimated)
{
	char text[TIMETEXT_MAX];

	snprintf(cell, TIMETEXT_MAX, "%s%.30s", estimated ? "~" : "", timetext(ns, text));
}

static void put_count(char cell[TIMETEXT_MAX], uint64_t count)
{
	snprintf(cell, TIMETEXT_MAX, "%llu", (unsigned long long)count);
}

static void put_value(const struct tui *tui, char cell[TIMETEXT_MAX], const struct report_row *row,
		      enum report_column column)
{
	char text[REPORT_TIME_MAX];

	if (column == REPORT_CALLS)
		put_count(cell, row->calls);
	else if (!report_has_value(row, column) || !tui->report.timed)
		snprintf(cell, TIMETEXT_MAX, "-");
	else
		snprintf(cell, TIMETEXT_MAX, "%.31s", report_time_text(&tui->report, row, column, text));
}

static enum terminal_style style_of(double percent)
{
	return percent >= HOT_PERCENT ? TERMINAL_HOT : percent >= WARM_PERCENT ? TERMINAL_WARM : TERMINAL_PLAIN;
}

static void more_text(char *more, size_t size, uint64_t count, const char *what)
{
	size_t used = strlen(more);

	if (count)
		snprintf(more + used, size - used, "  (%llu %s)", (unsigned long long)count, what);
}

static void node_cells(const struct tui *tui, const struct folding *folding, uint32_t at, struct tui_cells *cells)
{
	const struct tree_node *node = &folding->tree->nodes[at];
	uint64_t whole = folding->tree->nodes[TREE_ROOT].total_ns;
	double percent = whole ? 100.0 * (double)node->total_ns / (double)whole : 0;

	put_time(cells->numbers[0], node->total_ns, false);
	snprintf(cells->numbers[1], TIMETEXT_MAX, "%.2f%%", percent);
	put_time(cells->numbers[2], node->self_ns, false);
	put_count(cells->numbers[3], node->calls);
	cells->name = name_of(tui, node->function);
	cells->is_function = true;
	cells->mark = ' ';
	if (folding_has_children(folding, at))
		cells->mark = folding_is_open(folding, at) ? '-' : '+';
	more_text(cells->more, sizeof(cells->more), node->tails, "by tail call");
	more_text(cells->more, sizeof(cells->more), node->unfinished, "unfinished");
	more_text(cells->more, sizeof(cells->more), node->before, "entered before the trace");
	cells->style = style_of(percent);
}

static void row_cells(const struct tui *tui, const struct report_row *row, struct tui_cells *cells)
{
	const struct trace_function *function = report_row_function(&tui->report, row);
	const struct trace_object *object = function ? trace_object(tui->trace, function->object) : NULL;

	for (size_t i = 0; i < COUNT(table_order); i++)
		put_value(tui, cells->numbers[i], row, table_order[i]);
	cells->name = name_of(tui, row->key);
	cells->is_function = true;
	if (row->alike && object)
		snprintf(cells->more, sizeof(cells->more), " [%.60s]", text_base(object->path));
	more_text(cells->more, sizeof(cells->more), row->unfinished, "unfinished");
	cells->style = tui->report.whole_ns ? style_of(100.0 * (double)row->self_ns / (double)tui->report.whole_ns)
					    : TERMINAL_PLAIN;
}

static void put_since(char cell[TIMETEXT_MAX], uint64_t ns)
{
	snprintf(cell, TIMETEXT_MAX, "%llu.%09llu", (unsigned long long)(ns / 1000000000u),
		 (unsigned long long)(ns % 1000000000u));
}

static void call_cells(const struct tui *tui, const struct calls_call *call, struct tui_cells *cells)
{
	const struct report_row *row = tui_row_of(tui, tui->function);
	enum call_end how = (enum call_end)call->how;

	put_since(cells->numbers[0], call->start_ns);
	if (!call->begun)
		snprintf(cells->numbers[0], TIMETEXT_MAX, "?");
	put_time(cells->numbers[1], call->ns, call->estimated);
	put_time(cells->numbers[2], call->self_ns, call->estimated);
	snprintf(cells->numbers[3], TIMETEXT_MAX, "%.31s", names_thread(tui->report.names, call->thread).text);
	snprintf(cells->more, sizeof(cells->more), "in %u %s%s%s", call->depth, counted(call->depth, "call", "calls"),
		 how == CALL_RETURNED ? "" : ", ", how == CALL_RETURNED ? "" : walk_end_text(how));
	cells->name = "";
	cells->style = row && row->calls > 1 && call->ns >= row->p99_ns ? TERMINAL_HOT : TERMINAL_PLAIN;
}

static void inside_cells(const struct tui *tui, size_t at, struct tui_cells *cells)
{
	const struct inside *inside = &tui->inside;
	const struct inside_line *line = &inside->lines[at], *call = &inside->lines[inside->at];
	char text[TIMETEXT_MAX];

	if (at >= inside->at)
		snprintf(cells->numbers[0], TIMETEXT_MAX, "+%.30s",
			 timetext(line->start_ns > call->start_ns ? line->start_ns - call->start_ns : 0, text));
	else
		snprintf(cells->numbers[0], TIMETEXT_MAX, "-%.30s",
			 timetext(call->start_ns > line->start_ns ? call->start_ns - line->start_ns : 0, text));
	if (line->ended)
		put_time(cells->numbers[1], line->ns, line->estimated);
	cells->indent = line->depth;
	cells->mark = at == inside->at ? '>' : ' ';
	cells->name = name_of(tui, line->function);
	cells->is_function = true;
	snprintf(cells->more, sizeof(cells->more), "%s", line->values ? line->values : "");
	cells->style = at < inside->at	  ? TERMINAL_DIM
		       : at == inside->at ? TERMINAL_BOLD
		       : call->ns	  ? style_of(100.0 * (double)line->ns / (double)call->ns)
					  : TERMINAL_PLAIN;
}

static void source_cells(const struct tui *tui, size_t at, struct tui_cells *cells)
{
	static const enum report_column shown[] = {REPORT_CALLS, REPORT_TOTAL, REPORT_P50, REPORT_P99};

	for (size_t i = 0; i < COUNT(shown) && tui->entries[at]; i++)
		put_value(tui, cells->numbers[i], &tui->report.rows[tui->entries[at] - 1], shown[i]);
	put_count(cells->numbers[4], at + 1);
	cells->name = tui->source.lines[at];
	cells->style = tui->entries[at] ? TERMINAL_COOL : TERMINAL_PLAIN;
}

void tui_cells(const struct tui *tui, size_t line, struct tui_cells *cells)
{
	struct tui *shown = (struct tui *)(uintptr_t)tui; /* nothing is changed by it */
	uint32_t node;

	memset(cells, 0, sizeof(*cells));
	cells->name = "";
	if (tui->view == TUI_TREE || tui->view == TUI_AROUND) {
		const struct folding *folding = tui_folding_at(shown, line, &node, &cells->indent);

		if (folding) {
			node_cells(tui, folding, node, cells);
		} else if (tui->view == TUI_AROUND) {
			cells->name = line ? "WHAT IT CALLS" : "WHAT CALLS IT";
			cells->style = TERMINAL_COOL;
		}
	} else if (tui->view == TUI_FUNCTIONS && line < tui->row_count) {
		row_cells(tui, &tui->report.rows[tui->rows[line]], cells);
	} else if (tui->view == TUI_CALLS && line < tui->calls.count) {
		call_cells(tui, &tui->calls.calls[line], cells);
	} else if (tui->view == TUI_CALL && line < tui->inside.count) {
		inside_cells(tui, line, cells);
	} else if (tui->view == TUI_SOURCE && line < tui->source.count) {
		source_cells(tui, line, cells);
	}
}

static void calls_heading(const struct tui *tui, const char *name, char *text, size_t size)
{
	const struct calls *calls = &tui->calls;
	unsigned long long seen = calls->seen, first = calls->first, count = calls->count;

	if (calls->slowest && count < seen)
		snprintf(text, size, "the slowest %llu of %llu, calls of %s", count, seen, name);
	else if (calls->slowest)
		snprintf(text, size, "%llu %s, slowest first, of %s", seen, counted(seen, "call", "calls"), name);
	else if (count < seen)
		snprintf(text, size, "calls %llu to %llu of %llu ([ ] others) in order of time, of %s",
			 count ? first + 1 : 0, first + count, seen, name);
	else
		snprintf(text, size, "%llu %s in order of time, of %s", seen, counted(seen, "call", "calls"), name);
}

void tui_heading(const struct tui *tui, char *text, size_t size)
{
	const char *name = tui->function == TRACE_NONE ? "" : name_of(tui, tui->function);
	const struct trace_function *function = trace_function(tui->trace, tui->function);
	const char *filter = tui->filter[0] ? " matching " : "";
	size_t used;

	switch (tui->view) {
	case TUI_TREE:
		snprintf(text, size, "all calls, merged by the path of their callers%s%s", filter, tui->filter);
		used = strlen(text);
		if (tui->tree.absorbed && used < size)
			snprintf(text + used, size - used, "  (the tree is full: %llu %s)",
				 (unsigned long long)tui->tree.absorbed,
				 counted(tui->tree.absorbed, "call is in its caller", "calls are in their callers"));
		break;
	case TUI_FUNCTIONS:
		snprintf(text, size, "%zu of %u %s%s%s, by %s%s", tui->row_count, tui->report.row_count,
			 counted(tui->report.row_count, "function", "functions"), filter, tui->filter,
			 report_column_title(tui->sort), tui->reverse ? " (least first)" : "");
		break;
	case TUI_AROUND:
		snprintf(text, size, "around %s", name);
		break;
	case TUI_CALLS:
		calls_heading(tui, name, text, size);
		break;
	case TUI_CALL:
		snprintf(text, size, "call %zu of %zu ([ ] others) of %s%s", tui->call + 1, tui->calls.count, name,
			 tui->inside.beyond ? " (it has more calls than are shown)" : "");
		break;
	default:
		snprintf(text, size, "%s%s%s", name, function && function->file ? ": " : "",
			 function && function->file ? function->file : "");
	}
}

void tui_help_line(const struct tui *tui, char *text, size_t size)
{
	static const char *const lines[TUI_VIEWS] = {
		"q quit  f table  a callers  c calls  l lines  / search  & filter  h help",
		"q quit  s sort  t tree  a callers  c calls  l lines  / search  & filter  h help",
		"q quit  Enter go there  Space fold  c calls  l lines  Esc back  h help",
		"q quit  Enter the call  s slowest first  Esc back  h help",
		"q quit  [ ] other calls  Enter around  c calls  / search  Esc back  h help",
		"q quit  / search  n next  Esc back  h help",
	};

	snprintf(text, size, "%s", lines[tui->view]);
}
