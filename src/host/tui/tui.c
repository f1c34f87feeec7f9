/* The views of a trace; see tui.h.  Context: host. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../view/graph.h"
#include <host/terminal/matching.h>
#include "tui.h"

struct pattern {
	const struct tui *tui;
	const char *text;
};

static bool is_wanted(void *ctx, uint32_t function)
{
	const struct pattern *pattern = ctx;

	return matching_name(pattern->text, names_function(pattern->tui->report.names, function).text);
}

static int count_call(void *ctx, uint32_t function, uint64_t ns)
{
	struct tui *tui = ctx;

	return progress_step(&tui->progress);
}

struct building {
	struct tree_builder builder;
	struct progress *progress;
};

static void enter_node(void *ctx, struct walk *walk, uint32_t thread, struct call_frame *frame)
{
	struct building *building = ctx;
	int err = progress_step(building->progress);

	tree_enter(&building->builder, walk, thread, frame);
	walk->error = err ? err : walk->error;
}

static void leave_node(void *ctx, struct walk *walk, const struct call_closed *closed)
{
	struct building *building = ctx;

	tree_leave(&building->builder, walk, closed);
}

static const struct walk_ops building_ops = {.cuts = true, .on_push = enter_node, .on_close = leave_node};

static int read_trace(struct tui *tui)
{
	struct report_options options = {.size = sizeof(options), .sort = tui->sort, .on_call = count_call, .ctx = tui};
	struct building building = {.builder = {.tree = &tui->tree}, .progress = &tui->progress};
	int err;

	progress_of(&tui->progress, tui->trace);
	progress_begin(&tui->progress, 0, 50);
	err = report_run(&tui->report, tui->trace, tui->view_filter, &options, tui->diag);
	progress_begin(&tui->progress, 50, 50);
	if (!err)
		err = tree_init(&tui->tree, TREE_NODES_MAX);
	if (!err)
		err = walk_run(tui->walk, tui->trace, tui->view_filter, &building_ops, &building, tui->diag);
	if (err)
		return err;
	tree_sum(&tui->tree);
	return tree_sort(&tui->tree);
}

int tui_open(struct tui *tui, const struct trace *trace, const struct view_filter *filter, struct walk *walk,
	     int (*tell)(void *ctx, unsigned percent), void *ctx, struct calltap_diag *diag)
{
	int err;

	memset(tui, 0, sizeof(*tui));
	tui->trace = trace;
	tui->view_filter = filter;
	tui->walk = walk;
	tui->diag = diag;
	tui->progress.tell = tell;
	tui->progress.ctx = ctx;
	tui->sort = REPORT_TOTAL;
	tui->function = tui->around_of = tui->calls_of = tui->source_of = TRACE_NONE;
	err = read_trace(tui);
	if (!err && !tui->report.row_count)
		err = calltap_diag_set(diag, -ENODATA,
				       "there is no call here: 'calltap info' tells what the trace has, and --time, "
				       "--pid and --tid choose more");
	if (!err) {
		tui->rows = calloc(tui->report.row_count, sizeof(*tui->rows));
		err = tui->rows ? folding_init(&tui->whole, &tui->tree) : -ENOMEM;
	}
	/* The tree is unfolded from the root down to the first node with several callees. */
	for (uint32_t at = TREE_ROOT; !err && tui->tree.nodes[at].child != TREE_NONE;) {
		at = tui->tree.nodes[at].child;
		if (tui->tree.nodes[at].next != TREE_NONE)
			break;
		err = folding_set(&tui->whole, at, true);
	}
	if (!err)
		err = tui_arrange(tui);
	if (err == -ENOMEM)
		return calltap_diag_set(diag, err, "out of memory: choose less with --time or --tid");
	/* Calls without durations are in the table alone. */
	if (!err && !tui->whole.count)
		tui->view = TUI_FUNCTIONS;
	return err;
}

static void clear_around(struct tui *tui)
{
	folding_clear(&tui->above);
	folding_clear(&tui->below);
	tree_clear(&tui->callers);
	tree_clear(&tui->callees);
	tui->around_of = TRACE_NONE;
}

void tui_close(struct tui *tui)
{
	clear_around(tui);
	folding_clear(&tui->whole);
	tree_clear(&tui->tree);
	report_clear(&tui->report);
	calls_clear(&tui->calls);
	inside_clear(&tui->inside);
	source_clear(&tui->source);
	free(tui->entries);
	free(tui->rows);
	tui->rows = NULL;
	tui->entries = NULL;
}

const struct report_row *tui_row_of(const struct tui *tui, uint32_t function)
{
	for (uint32_t i = 0; i < tui->report.row_count; i++)
		if (tui->report.rows[i].key == function)
			return &tui->report.rows[i];
	return NULL;
}

int tui_arrange(struct tui *tui)
{
	const struct report *report = &tui->report;

	report_sort(&tui->report, tui->sort);
	tui->row_count = 0;
	for (uint32_t i = 0; i < report->row_count; i++) {
		uint32_t row = tui->reverse ? report->row_count - 1 - i : i;

		if (matching_name(tui->filter, report_row_name(report, &report->rows[row])))
			tui->rows[tui->row_count++] = row;
	}
	/* The table's rows have other places now. */
	tui->source_of = TRACE_NONE;
	return 0;
}

int tui_filter(struct tui *tui)
{
	struct list *tree = &tui->lists[TUI_TREE], *table = &tui->lists[TUI_FUNCTIONS];
	uint32_t node = tree->bar < tui->whole.count ? tui->whole.lines[tree->bar].node : TREE_ROOT;
	uint32_t row = table->bar < tui->row_count ? tui->rows[table->bar] : TRACE_NONE;
	struct pattern pattern = {tui, tui->filter};
	int err = tui_arrange(tui);

	if (!err)
		err = folding_filter(&tui->whole, tui->filter[0] ? is_wanted : NULL, &pattern);
	/* The bars stay with what they were on, or what is around it. */
	list_go(tree, tui->whole.count, err ? 0 : folding_line_of(&tui->whole, node));
	list_go(table, tui->row_count, 0);
	for (size_t i = 0; i < tui->row_count; i++)
		if (tui->rows[i] == row)
			list_go(table, tui->row_count, i);
	return err;
}

size_t tui_below_first(const struct tui *tui)
{
	return tui->above.count + 2;
}

size_t tui_count(const struct tui *tui)
{
	switch (tui->view) {
	case TUI_TREE:
		return tui->whole.count;
	case TUI_FUNCTIONS:
		return tui->row_count;
	case TUI_AROUND:
		return tui_below_first(tui) + tui->below.count;
	case TUI_CALLS:
		return tui->calls.count;
	case TUI_CALL:
		return tui->inside.count;
	default:
		return tui->source.count;
	}
}

struct folding *tui_folding_at(struct tui *tui, size_t line, uint32_t *node, uint32_t *depth)
{
	struct folding *folding = NULL;

	if (tui->view == TUI_TREE) {
		folding = &tui->whole;
	} else if (tui->view == TUI_AROUND && line > 0 && line <= tui->above.count) {
		folding = &tui->above;
		line -= 1;
	} else if (tui->view == TUI_AROUND && line >= tui_below_first(tui)) {
		folding = &tui->below;
		line -= tui_below_first(tui);
	}
	if (!folding || line >= folding->count)
		return NULL;
	*node = folding->lines[line].node;
	*depth = folding->lines[line].depth;
	return folding;
}

uint32_t tui_function_at(const struct tui *tui, size_t line)
{
	struct tui *shown = (struct tui *)(uintptr_t)tui; /* nothing is changed by it */
	uint32_t node, depth;
	const struct folding *folding = tui_folding_at(shown, line, &node, &depth);

	if (folding)
		return folding->tree->nodes[node].function;
	if (tui->view == TUI_FUNCTIONS && line < tui->row_count)
		return tui->report.rows[tui->rows[line]].key;
	if (tui->view == TUI_CALL && line < tui->inside.count)
		return tui->inside.lines[line].function;
	if (tui->view == TUI_SOURCE && line < tui->source.count && tui->entries[line])
		return tui->report.rows[tui->entries[line] - 1].key;
	return tui->view == TUI_FUNCTIONS || tui->view == TUI_TREE ? TRACE_NONE : tui->function;
}

static int make_around(struct tui *tui)
{
	const uint32_t count = tui->tree.count;
	bool *matches;
	int err;

	if (tui->around_of == tui->function)
		return 0;
	clear_around(tui);
	matches = calloc(count, sizeof(*matches));
	for (uint32_t i = 1; matches && i < count; i++)
		matches[i] = tui->tree.nodes[i].function == tui->function;
	err = matches ? tree_init(&tui->callers, TREE_NODES_MAX) : -ENOMEM;
	if (!err)
		err = tree_init(&tui->callees, TREE_NODES_MAX);
	if (!err)
		err = graph_callers(&tui->callers, &tui->tree, matches);
	if (!err)
		err = graph_callees(&tui->callees, &tui->tree, matches);
	if (!err)
		err = tree_sort(&tui->callers);
	if (!err)
		err = tree_sort(&tui->callees);
	if (!err)
		err = folding_init(&tui->above, &tui->callers);
	if (!err && tui->callers.nodes[TREE_ROOT].child != TREE_NONE)
		err = folding_set(&tui->above, tui->callers.nodes[TREE_ROOT].child, true);
	if (!err)
		err = folding_init(&tui->below, &tui->callees);
	if (!err && tui->callees.nodes[TREE_ROOT].child != TREE_NONE)
		err = folding_set(&tui->below, tui->callees.nodes[TREE_ROOT].child, true);
	free(matches);
	tui->around_of = err ? TRACE_NONE : tui->function;
	tui->lists[TUI_AROUND] = (struct list){.bar = tui_below_first(tui)};
	return err;
}

int tui_read_calls(struct tui *tui)
{
	int err;

	tui->calls.function = tui->function;
	err = calls_read(&tui->calls, tui->trace, tui->view_filter, &tui->progress, tui->walk, tui->diag);
	tui->calls_of = err ? TRACE_NONE : tui->function;
	tui->lists[TUI_CALLS] = (struct list){0};
	return err;
}

static int make_calls(struct tui *tui)
{
	if (tui->calls_of == tui->function)
		return 0;
	tui->calls.first = 0;
	tui->calls.slowest = false;
	return tui_read_calls(tui);
}

int tui_read_call(struct tui *tui, size_t at)
{
	int err = inside_read(&tui->inside, tui->trace, tui->view_filter, tui->function, &tui->calls.calls[at],
			      &tui->progress, tui->diag);

	tui->call = at;
	tui->lists[TUI_CALL] = (struct list){.bar = tui->inside.at};
	return err;
}

/* Note which functions of the table begin on which of the file's lines. */
static int note_entries(struct tui *tui, const char *path)
{
	free(tui->entries);
	tui->entries = calloc(tui->source.count + 1, sizeof(*tui->entries));
	if (!tui->entries)
		return -ENOMEM;
	for (uint32_t i = 0; i < tui->report.row_count && path; i++) {
		const struct trace_function *function = report_row_function(&tui->report, &tui->report.rows[i]);

		if (function && function->file && function->line && function->line <= tui->source.count &&
		    strcmp(function->file, path) == 0)
			tui->entries[function->line - 1] = i + 1;
	}
	return 0;
}

static int make_source(struct tui *tui)
{
	const struct trace_function *function = trace_function(tui->trace, tui->function);
	const char *path = function && function->line ? function->file : NULL;
	size_t bar = path ? function->line - 1 : 0;
	int err;

	if (tui->source_of == tui->function)
		return 0;
	err = source_read(&tui->source, path);
	if (!err)
		err = note_entries(tui, path);
	tui->source_of = err ? TRACE_NONE : tui->function;
	tui->lists[TUI_SOURCE] = (struct list){.bar = bar, .first = bar > 2 ? bar - 2 : 0};
	return err;
}

static int make_view(struct tui *tui, enum tui_view view)
{
	switch (view) {
	case TUI_AROUND:
		return make_around(tui);
	case TUI_CALLS:
		return make_calls(tui);
	case TUI_SOURCE:
		return make_source(tui);
	default:
		return 0;
	}
}

int tui_show(struct tui *tui, enum tui_view view, uint32_t function)
{
	struct tui_place from = {tui->view, tui->function, tui->lists[tui->view]};
	bool of_function = view != TUI_TREE && view != TUI_FUNCTIONS;
	int err;

	if (of_function && function == TRACE_NONE) {
		snprintf(tui->message, sizeof(tui->message), "choose a function first");
		return 0;
	}
	if (of_function)
		tui->function = function;
	err = make_view(tui, view);
	if (err == -ECANCELED) {
		tui->function = from.function;
		snprintf(tui->message, sizeof(tui->message), "stopped");
		return 0;
	}
	if (err)
		return err;
	if (tui->back_count == TUI_BACK_MAX)
		memmove(tui->back, tui->back + 1, --tui->back_count * sizeof(*tui->back));
	if (view != from.view || tui->function != from.function)
		tui->back[tui->back_count++] = from;
	tui->view = view;
	return 0;
}

int tui_return(struct tui *tui)
{
	struct tui_place place;
	int err;

	if (tui->filter[0] && (tui->view == TUI_TREE || tui->view == TUI_FUNCTIONS)) {
		tui->filter[0] = '\0';
		return tui_filter(tui);
	}
	if (!tui->back_count)
		return 0;
	place = tui->back[--tui->back_count];
	tui->function = place.function;
	err = place.view == TUI_CALL && tui->calls_of != place.function ? -ECANCELED : make_view(tui, place.view);
	if (err == -ECANCELED) {
		/* What was read for it is gone: the table is where everything begins. */
		place.view = TUI_FUNCTIONS;
		err = 0;
	} else {
		tui->lists[place.view] = place.list;
	}
	tui->view = place.view;
	return err;
}

/* Find a node of one of the trees of the view. */
static int find_node(struct tui *tui, bool back)
{
	struct pattern pattern = {tui, tui->search};
	struct list *list = &tui->lists[tui->view];
	uint32_t node = TREE_ROOT, depth, found;
	struct folding *folding = tui_folding_at(tui, list->bar, &node, &depth);
	size_t before = 0;
	int err;

	if (!folding)
		folding = tui->view == TUI_TREE ? &tui->whole : list->bar ? &tui->below : &tui->above;
	if (folding != &tui->whole)
		before = folding == &tui->above ? 1 : tui_below_first(tui);
	found = folding_find(folding, node, back, is_wanted, &pattern);
	if (found == TREE_NONE) {
		snprintf(tui->message, sizeof(tui->message), "no function here matches %s", tui->search);
		return 0;
	}
	err = folding_reveal(folding, found);
	if (folding == &tui->below)
		before = tui_below_first(tui);
	list_go(list, tui_count(tui), before + folding_line_of(folding, found));
	return err;
}

static bool line_matches(const struct tui *tui, size_t line)
{
	uint32_t function;

	if (tui->view == TUI_SOURCE)
		return strstr(tui->source.lines[line], tui->search) != NULL;
	function = tui_function_at(tui, line);
	return function != TRACE_NONE && matching_name(tui->search, names_function(tui->report.names, function).text);
}

int tui_find(struct tui *tui, bool back)
{
	struct list *list = &tui->lists[tui->view];
	size_t count = tui_count(tui);

	if (!tui->search[0]) {
		snprintf(tui->message, sizeof(tui->message), "/ searches; n and N go on");
		return 0;
	}
	if (tui->view == TUI_TREE || tui->view == TUI_AROUND)
		return find_node(tui, back);
	for (size_t i = 1; i <= count && tui->view != TUI_CALLS; i++) {
		size_t line = (list->bar + (back ? count - i : i)) % count;

		if (line_matches(tui, line)) {
			list_go(list, count, line);
			return 0;
		}
	}
	snprintf(tui->message, sizeof(tui->message), "nothing here matches %s", tui->search);
	return 0;
}
