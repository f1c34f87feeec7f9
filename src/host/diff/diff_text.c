/*
 * Printing the comparison; see diff.h.  Context: host.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include <host/counted.h>
#include <host/text.h>

#include "../view/shorten.h"
#include "../view/term.h"
#include "change.h"
#include "diff.h"
#include "twin_text.h"

#define NAME_MIN 18u /* columns are left out to make this room for names */

static const char *const words[DIFF_VERDICTS] = {
	[DIFF_SAME] = "-",	    [DIFF_MORE] = "more",     [DIFF_FEWER] = "fewer",
	[DIFF_SLOWER] = "slower",   [DIFF_FASTER] = "faster", [DIFF_SLOW_TAIL] = "tail+",
	[DIFF_FAST_TAIL] = "tail-", [DIFF_NEW] = "new",	      [DIFF_GONE] = "gone",
};

enum what { CHANGE, SELF, TOTAL, CALLS, AVG, P50, P99, Q, VERDICT };

struct column {
	enum what what;
	unsigned side;
	const char *title;
	unsigned width;
	unsigned spared; /* columns with the highest number are left out first on a narrow terminal; 0 = never */
};

static const struct column columns[] = {
	{CHANGE, 0, NULL, 12, 0},	   {SELF, SIDE_A, "Self A", 11, 6},
	{SELF, SIDE_B, "Self B", 11, 6},   {TOTAL, SIDE_A, "Total A", 11, 5},
	{TOTAL, SIDE_B, "Total B", 11, 5}, {CALLS, SIDE_A, "Calls A", 9, 0},
	{CALLS, SIDE_B, "Calls B", 9, 0},  {AVG, SIDE_A, "Avg A", 11, 1},
	{AVG, SIDE_B, "Avg B", 11, 1},	   {P50, SIDE_A, "p50 A", 11, 3},
	{P50, SIDE_B, "p50 B", 11, 3},	   {P99, SIDE_A, "p99 A", 11, 4},
	{P99, SIDE_B, "p99 B", 11, 4},	   {Q, 0, "q", 8, 2},
	{VERDICT, 0, "Verdict", 8, 0},
};

#define COLUMNS (sizeof(columns) / sizeof(columns[0]))

struct shape {
	bool shown[COLUMNS];
	unsigned name_width; /* 0 = no limit */
};

static bool is_timed(const struct diff *diff)
{
	return diff->sides[SIDE_A].timed && diff->sides[SIDE_B].timed;
}

static unsigned width_of(const struct shape *shape)
{
	unsigned width = 2;

	for (size_t i = 0; i < COLUMNS; i++)
		width += shape->shown[i] ? columns[i].width : 0;
	return width;
}

static struct shape shape_of(const struct diff *diff, const struct diff_options *options)
{
	struct shape shape = {.name_width = 0};

	for (size_t i = 0; i < COLUMNS; i++)
		shape.shown[i] = is_timed(diff) || columns[i].what == CHANGE || columns[i].what == CALLS ||
				 columns[i].what == VERDICT;
	if (!options->width)
		return shape;
	for (unsigned spared = 6; spared && width_of(&shape) + NAME_MIN > options->width; spared--) {
		for (size_t i = 0; i < COLUMNS; i++)
			shape.shown[i] &= columns[i].spared != spared;
	}
	shape.name_width = width_of(&shape) + NAME_MIN < options->width ? options->width - width_of(&shape) : NAME_MIN;
	return shape;
}

/* The column that the rows are sorted by, whose change the first column shows. */
static enum diff_sort sorted_by(const struct diff *diff, const struct diff_options *options)
{
	if (!is_timed(diff))
		return DIFF_BY_CALLS;
	return options->sort == DIFF_BY_NAME ? DIFF_BY_SELF : options->sort;
}

static void print_heading(const struct diff *diff, const struct diff_options *options, const struct shape *shape,
			  struct out *out)
{
	static const char *const titles[] = {"Self B-A", "Total B-A", "Calls B-A", "Avg B-A"};

	if (options->color)
		out_text(out, TERM_BOLD);
	for (size_t i = 0; i < COLUMNS; i++) {
		if (shape->shown[i])
			out_column(out, columns[i].title ? columns[i].title : titles[sorted_by(diff, options)],
				   columns[i].width, true);
	}
	out_text(out, "  Function");
	if (options->color)
		out_text(out, TERM_RESET);
	out_char(out, '\n');
}

static const char *signed_count(double change, char text[CHANGE_TEXT])
{
	char plain[CHANGE_TEXT];

	if (change == 0)
		return "0";
	snprintf(text, CHANGE_TEXT, "%c%.24s", change < 0 ? '-' : '+', change_count(fabs(change), plain));
	return text;
}

static const char *q_text(const struct diff_row *row, char text[CHANGE_TEXT])
{
	if (!row->samples[SIDE_A].count || !row->samples[SIDE_B].count)
		return "-";
	snprintf(text, CHANGE_TEXT, row->q < 0.0005 ? "<0.001" : "%.3f", row->q);
	return text;
}

static const char *part_text(const struct diff *diff, const struct report_row *part, const struct column *column,
			     char text[CHANGE_TEXT])
{
	uint64_t calls = part->calls + part->unfinished;

	switch (column->what) {
	case SELF:
		return calls ? change_time(diff_per(diff, column->side, part->self_ns), text) : "-";
	case TOTAL:
		return calls ? change_time(diff_per(diff, column->side, part->total_ns), text) : "-";
	case CALLS:
		return calls ? change_count(diff_per(diff, column->side, calls), text) : "-";
	case AVG:
		return part->measured ? timetext(report_avg_ns(part), text) : "-";
	case P50:
		return part->exact ? timetext(part->p50_ns, text) : "-";
	default:
		return part->exact ? timetext(part->p99_ns, text) : "-";
	}
}

static const char *cell(const struct diff *diff, const struct diff_options *options, const struct diff_row *row,
			const struct column *column, char text[CHANGE_TEXT])
{
	enum diff_sort sort = sorted_by(diff, options);

	switch (column->what) {
	case CHANGE:
		return sort == DIFF_BY_CALLS ? signed_count(diff_change(diff, row, sort), text)
					     : change_signed(diff_change(diff, row, sort), text);
	case Q:
		return q_text(row, text);
	case VERDICT:
		return words[row->verdict];
	default:
		return part_text(diff, &row->parts[column->side], column, text);
	}
}

static void print_row(const struct diff *diff, const struct diff_options *options, const struct shape *shape,
		      const struct diff_row *row, struct out *out)
{
	char text[CHANGE_TEXT], name[SHORTEN_MAX];
	const char *function = pair_text(diff->pair, row->name);

	for (size_t i = 0; i < COLUMNS; i++) {
		if (shape->shown[i])
			out_column(out, cell(diff, options, row, &columns[i], text), columns[i].width, true);
	}
	out_text(out, "  ");
	out_text(out, shape->name_width ? shorten(function, shape->name_width, name) : function);
	out_char(out, '\n');
}

/* Print the reasons for which a side's counts are too low, or its times too long. */
static void print_side_notes(const struct diff_side *side, char letter, struct out *out)
{
	char text[TIMETEXT_MAX];

	if (side->unfinished)
		out_format(out, "%c: unfinished calls: %llu; their time is in Total and Self only\n", letter,
			   (unsigned long long)side->unfinished);
	if (side->exact < side->measured)
		out_format(
			out,
			"%c: calls with an exact duration: %llu of %llu; verdicts and percentiles are of these alone\n",
			letter, (unsigned long long)side->exact, (unsigned long long)side->measured);
	if (side->before)
		out_format(out, "%c: entered before the trace, and not counted: %llu\n", letter,
			   (unsigned long long)side->before);
	if (side->lost)
		out_format(out, "%c: records lost: %llu (the counts are too low)\n", letter,
			   (unsigned long long)side->lost);
	if (side->wait_ns)
		out_format(out, "%c: waiting for the tool, in the times above: %s (--mode block)\n", letter,
			   timetext(side->wait_ns, text));
	if (side->absorbed)
		out_format(out, "%c: the tree is full: %llu %s\n", letter, (unsigned long long)side->absorbed,
			   counted(side->absorbed, "call is counted into its caller",
				   "calls are counted into their callers"));
	if (side->strays)
		out_format(out, "%c: calls entered before the trace, left out of the tree: %llu\n", letter,
			   (unsigned long long)side->strays);
}

#define PACE_FAR 0.05 /* the middle function's change from which it is told */

static void print_runs(const struct diff *diff, const struct diff_options *options, struct out *out)
{
	const unsigned *const of[SIDES] = {&diff->sides[SIDE_A].traces, &diff->sides[SIDE_B].traces};

	out_format(out, "%u %s in A, %u in B%s; what is claimed is more than the runs of a side differ by\n",
		   *of[SIDE_A], counted(*of[SIDE_A], "trace", "traces"), *of[SIDE_B],
		   options->per ? "" : "; Self, Total and Calls are of a trace in the mean");
	if (options->tree)
		out_format(out,
			   "* the path's total differs by more than that (q <= %.2f); - it takes less than %g %% of "
			   "all, and "
			   "is not tested\n",
			   DIFF_Q_MAX, options->min_percent);
	if (diff->input_count < DIFF_RUNS_FEW)
		out_text(out,
			 "so few runs tell very large differences alone from chance: three or more traces a side tell "
			 "smaller ones\n");
}

static bool has_estimates(const struct diff_side *side)
{
	return side->exact < side->measured;
}

static void print_notes(const struct diff *diff, const struct diff_options *options, struct out *out)
{
	const bool before = has_estimates(&diff->sides[SIDE_A]), after = has_estimates(&diff->sides[SIDE_B]);

	if (options->per)
		out_format(out, "Self, Total and Calls are per call of '%s': %.0f in A, %.0f in B\n", options->per,
			   diff->sides[SIDE_A].per, diff->sides[SIDE_B].per);
	if (diff_is_repeated(diff))
		print_runs(diff, options, out);
	if (!options->tree && !is_timed(diff))
		out_text(out, "only numbers of calls are compared: one trace has no durations (-p function)\n");
	else if (!options->tree)
		out_format(out, "durations that differ by more than chance: of %u %s %u (q <= %.2f)\n", diff->tests,
			   counted(diff->tests, "function", "functions"), diff->claims, DIFF_Q_MAX);
	if (!options->tree && diff->claims && !diff_is_repeated(diff))
		out_text(out, "two runs of the same program may differ by as much: several traces a side (--before, "
			      "--after) tell\n");
	if (diff->pace && fabs(diff->pace - 1) > PACE_FAR)
		out_format(out,
			   "a call of the middle function takes %.2f times as long in B as in A:\n"
			   "if no change of the program explains that, the machine was %s\n",
			   diff->pace, diff->pace > 1 ? "slower" : "faster");
	if (is_timed(diff) && before != after)
		out_format(
			out,
			"%c was recorded with --time adaptive, and %c was not: durations also differ by the time that "
			"recording takes\n",
			before ? 'A' : 'B', before ? 'B' : 'A');
	print_side_notes(&diff->sides[SIDE_A], 'A', out);
	print_side_notes(&diff->sides[SIDE_B], 'B', out);
}

static void part_json(const struct report_row *part, bool timed, struct json *json)
{
	json_object(json);
	json_key_u64(json, "calls", part->calls);
	json_key_u64(json, "unfinished", part->unfinished);
	if (timed) {
		json_key_u64(json, "total_ns", part->total_ns);
		json_key_u64(json, "self_ns", part->self_ns);
		json_key_u64(json, "min_ns", part->min_ns);
		json_key_u64(json, "avg_ns", report_avg_ns(part));
		json_key_u64(json, "p50_ns", part->p50_ns);
		json_key_u64(json, "p99_ns", part->p99_ns);
		json_key_u64(json, "max_ns", part->max_ns);
		if (part->exact < part->measured) {
			json_key_u64(json, "exact_calls", part->exact);
			json_key_u64(json, "total_error_ns", report_error_ns(part));
		}
	}
	json_object_end(json);
}

static void row_json(const struct diff *diff, const struct diff_row *row, struct json *json)
{
	static const char *const keys[SIDES] = {"a", "b"};

	json_object(json);
	json_key_string(json, "function", pair_raw(diff->pair, row->name));
	json_key_string(json, "verdict", words[row->verdict]);
	for (unsigned side = 0; side < SIDES; side++) {
		const struct report_row *part = &row->parts[side];

		json_key(json, keys[side]);
		if (part->calls + part->unfinished)
			part_json(part, diff->sides[side].timed, json);
		else
			json_null(json);
	}
	change_json(json, "calls_change", diff_change(diff, row, DIFF_BY_CALLS));
	if (is_timed(diff)) {
		change_json(json, "total_change_ns", diff_change(diff, row, DIFF_BY_TOTAL));
		change_json(json, "self_change_ns", diff_change(diff, row, DIFF_BY_SELF));
	}
	if (row->runs)
		change_json(json, "calls_q", row->calls_q);
	if (is_timed(diff) && row->samples[SIDE_A].count && row->samples[SIDE_B].count) {
		change_json(json, "p", row->p);
		change_json(json, "q", row->q);
		change_json(json, "b_longer", row->share);
	}
	json_object_end(json);
}

static void side_json(const struct diff_side *side, struct json *json)
{
	json_object(json);
	json_key_string(json, "trace", trace_path(side->trace));
	json_key_u64(json, "traces", side->traces);
	json_key(json, "timed");
	json_bool(json, side->timed);
	json_key_u64(json, "calls", side->calls);
	json_key_u64(json, "unfinished", side->unfinished);
	if (side->exact < side->measured)
		json_key_u64(json, "exact_calls", side->exact);
	json_key_u64(json, "self_ns", side->self_ns);
	json_key_u64(json, "lost", side->lost);
	json_key_u64(json, "untraced", side->missed);
	json_key_u64(json, "wait_ns", side->wait_ns);
	json_key_u64(json, "entered_before", side->before);
	change_json(json, "per", side->per);
	json_object_end(json);
}

static void sides_json(const struct diff *diff, const char *per, struct json *json)
{
	json_key(json, "a");
	side_json(&diff->sides[SIDE_A], json);
	json_key(json, "b");
	side_json(&diff->sides[SIDE_B], json);
	json_key_string(json, "per", per);
}

/* A row is a line of its own, or all is in one line. */
static void rows_json(const struct diff *diff, uint32_t rows, bool lines, struct json *json)
{
	json_key_u64(json, "tests", diff->tests);
	json_key_u64(json, "claims", diff->claims);
	json_key_u64(json, "rows_total", diff->count);
	json_key(json, "rows");
	json_array(json);
	for (uint32_t i = 0; i < rows; i++) {
		row_json(diff, &diff->rows[i], json);
		if (lines)
			out_char(json->out, '\n');
	}
	json_array_end(json);
}

void diff_json(const struct diff *diff, struct json *json)
{
	json_object(json);
	sides_json(diff, NULL, json);
	change_json(json, "pace", diff->pace);
	rows_json(diff, diff->count, false, json);
	json_object_end(json);
}

static void print_json(const struct diff *diff, const struct diff_options *options, const struct twin_view *view,
		       uint32_t rows, struct out *out)
{
	struct json json;

	json_begin(&json, out);
	json_object(&json);
	sides_json(diff, options->per, &json);
	if (options->tree) {
		json_key(&json, "tree");
		twin_json(&diff->twin, diff->pair, view, &json);
	} else {
		rows_json(diff, rows, true, &json);
	}
	json_object_end(&json);
	out_char(out, '\n');
}

static void print_table(const struct diff *diff, const struct diff_options *options, uint32_t rows, struct out *out)
{
	const struct shape shape = shape_of(diff, options);

	print_heading(diff, options, &shape, out);
	for (uint32_t i = 0; i < rows; i++)
		print_row(diff, options, &shape, &diff->rows[i], out);
	if (rows < diff->count)
		out_format(out, "(%u more)\n", diff->count - rows);
}

int diff_print(const struct diff *diff, const struct diff_options *options, struct out *out)
{
	const struct twin_titles titles = {"B-A", "Total A", "Total B", "Calls A", "Calls B"};
	uint32_t rows = options->limit && options->limit < diff->count ? (uint32_t)options->limit : diff->count;
	struct twin_view view = {0};
	int err = 0;

	if (options->tree)
		err = twin_view(&view, &diff->twin, diff_tree_least(diff, options), (uint32_t)options->limit);
	if (err)
		return err;
	if (options->json) {
		print_json(diff, options, &view, rows, out);
	} else {
		if (options->tree)
			twin_print(&diff->twin, diff->pair, &view, &titles, options->width, options->color, out);
		else
			print_table(diff, options, rows, out);
		print_notes(diff, options, out);
	}
	twin_view_clear(&view);
	return 0;
}
