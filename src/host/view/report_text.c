/*
 * Printing the report as a table or as JSON; see report.h.  Context: host.
 */
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "json.h"
#include "report.h"
#include "shorten.h"
#include "term.h"
#include <host/counted.h>
#include <host/text.h>

#define COLUMN_WIDTH  11
#define PERCENT_WIDTH 8
#define NAME_WIDTH    40 /* columns are left out to make this room for names */
#define NAME_MIN      20

static const enum report_column numbers[] = {REPORT_CALLS, REPORT_TOTAL, REPORT_SELF, REPORT_MIN,
					     REPORT_AVG,   REPORT_P50,	 REPORT_P99,  REPORT_MAX};
/* Columns that are left out on a narrow terminal, the least useful one first. */
static const enum report_column spared[] = {REPORT_MIN, REPORT_P50, REPORT_AVG, REPORT_P99, REPORT_MAX};

#define NUMBERS (sizeof(numbers) / sizeof(numbers[0]))
#define SPARED	(sizeof(spared) / sizeof(spared[0]))

/* The columns of the table. */
struct shape {
	bool shown[REPORT_COLUMNS];
	bool percent;
	bool open;	     /* a column of calls that have not ended */
	bool estimated;	     /* columns of calls with exact durations, and of what totals may be off */
	unsigned name_width; /* columns to which names are shortened; 0 = no limit */
};

static const struct trace_function *source_of(const struct report *report, const struct report_row *row)
{
	const struct trace_function *function =
		report->by == REPORT_BY_FUNCTION ? trace_function(report->trace, row->key) : NULL;

	return function && function->file ? function : NULL;
}

static uint64_t unfinished_total(const struct report *report)
{
	uint64_t total = 0;

	for (uint32_t i = 0; i < report->row_count; i++)
		total += report->rows[i].unfinished;
	return total;
}

static unsigned longest_name(const struct report *report, uint32_t rows)
{
	size_t longest = 0;

	for (uint32_t i = 0; i < rows && longest < NAME_WIDTH; i++) {
		size_t length = strlen(report_row_name(report, &report->rows[i]));

		longest = length > longest ? length : longest;
	}
	return longest < NAME_WIDTH ? (unsigned)longest : NAME_WIDTH;
}

static unsigned numbers_width(const struct shape *shape)
{
	unsigned width = 2;

	for (size_t i = 0; i < NUMBERS; i++)
		width += shape->shown[numbers[i]] ? COLUMN_WIDTH : 0;
	return width + (shape->percent ? PERCENT_WIDTH : 0) + (shape->open ? COLUMN_WIDTH + 1 : 0) +
	       (shape->estimated ? 2 * COLUMN_WIDTH : 0);
}

static struct shape shape_of(const struct report *report, const struct report_options *options, uint32_t rows)
{
	struct shape shape = {
		.percent = report->timed, .open = unfinished_total(report) > 0, .estimated = report->estimated};
	unsigned names = longest_name(report, rows), used;

	for (size_t i = 0; i < (report->timed ? NUMBERS : 1); i++)
		shape.shown[numbers[i]] = true;
	if (!options->width)
		return shape;
	for (size_t i = 0; i < SPARED && numbers_width(&shape) + names > options->width; i++)
		shape.shown[spared[i]] &= spared[i] == options->sort;
	used = numbers_width(&shape);
	if (!options->source)
		shape.name_width = used + NAME_MIN < options->width ? options->width - used : NAME_MIN;
	return shape;
}

static void print_heading(const struct report *report, const struct report_options *options, const struct shape *shape,
			  struct out *out)
{
	static const char *const titles[] = {"Function", "Object", "Thread", "Call"};

	if (options->color)
		out_text(out, TERM_BOLD);
	for (size_t i = 0; i < NUMBERS; i++) {
		if (shape->shown[numbers[i]])
			out_column(out, report_column_title(numbers[i]), COLUMN_WIDTH, true);
		if (shape->percent && numbers[i] == REPORT_SELF)
			out_column(out, "%", PERCENT_WIDTH, true);
	}
	if (shape->estimated) {
		out_column(out, "Total +-", COLUMN_WIDTH, true);
		out_column(out, "Exact", COLUMN_WIDTH, true);
	}
	if (shape->open)
		out_column(out, "Unfinished", COLUMN_WIDTH + 1, true);
	out_text(out, "  ");
	out_text(out, titles[report->by]);
	if (options->color)
		out_text(out, TERM_RESET);
	out_char(out, '\n');
}

static void print_percent(const struct report *report, const struct report_row *row, struct out *out)
{
	char text[TIMETEXT_MAX];

	snprintf(text, sizeof(text), "%.1f", 100.0 * (double)row->self_ns / (double)report->whole_ns);
	out_column(out, report_has_value(row, REPORT_SELF) && report->whole_ns ? text : "-", PERCENT_WIDTH, true);
}

static void print_error(const struct report_row *row, struct out *out)
{
	char text[TIMETEXT_MAX];

	out_column(out, row->exact < row->measured ? timetext(report_error_ns(row), text) : "-", COLUMN_WIDTH, true);
	out_u64_width(out, row->exact, COLUMN_WIDTH);
}

static void print_times(const struct report *report, const struct report_row *row, const struct shape *shape,
			struct out *out)
{
	char text[REPORT_TIME_MAX];

	for (size_t i = 1; i < NUMBERS; i++) {
		if (shape->shown[numbers[i]])
			out_column(out,
				   report_has_value(row, numbers[i]) ? report_time_text(report, row, numbers[i], text)
								     : "-",
				   COLUMN_WIDTH, true);
		if (shape->percent && numbers[i] == REPORT_SELF)
			print_percent(report, row, out);
	}
}

/* What tells it apart from another row of its name. */
static void print_object(const struct report *report, const struct report_row *row, struct out *out)
{
	const struct trace_function *function = report_row_function(report, row);
	const struct trace_object *of = function ? trace_object(report->trace, function->object) : NULL;
	char object[256];

	text_clean(object, sizeof(object), of ? text_base(of->path) : "?");
	out_format(out, " [%s]", object);
}

static void print_row(const struct report *report, const struct report_options *options, const struct report_row *row,
		      const struct shape *shape, struct out *out)
{
	const struct trace_function *source = options->source ? source_of(report, row) : NULL;
	char text[SHORTEN_MAX], object[PATH_MAX];

	out_u64_width(out, row->calls, COLUMN_WIDTH);
	print_times(report, row, shape, out);
	if (shape->estimated)
		print_error(row, out);
	if (shape->open)
		out_u64_width(out, row->unfinished, COLUMN_WIDTH + 1);
	out_text(out, "  ");
	if (report->by == REPORT_BY_OBJECT) {
		text_clean(object, sizeof(object), report_row_name(report, row));
		out_text(out, object);
	} else if (shape->name_width) {
		out_text(out, shorten(report_row_name(report, row), shape->name_width, text));
	} else {
		out_text(out, report_row_name(report, row));
	}
	if (row->alike)
		print_object(report, row, out);
	if (source) {
		char clean[512];

		text_clean(clean, sizeof(clean), source->file);
		out_format(out, "  %s:%u", clean, source->line);
	}
	out_char(out, '\n');
}

/* Estimates of times in which the tool's clock was late have wider bounds than others. */
static void print_late(const struct trace *trace, struct out *out)
{
	struct trace_estimates estimates;
	char text[TIMETEXT_MAX];

	trace_estimates(trace, &estimates);
	if (estimates.late_count)
		out_format(
			out,
			"the clock was late %u %s, for %s in all: what was estimated there is less certain, as Total "
			"+- tells (--time-tick)\n",
			estimates.late_count, counted(estimates.late_count, "time", "times"),
			timetext(trace_duration_ns(trace, estimates.late_ticks), text));
}

static void print_estimated(const struct report *report, struct out *out)
{
	uint64_t measured, exact;

	report_count_exact(report, &measured, &exact);
	out_format(
		out,
		"calls with an exact duration: %llu of %llu; what has ~ is made of them and of bounds for the others "
		"(calltap-report(1), ESTIMATES)\n",
		(unsigned long long)exact, (unsigned long long)measured);
	print_late(report->trace, out);
}

static void print_table(const struct report *report, const struct report_options *options, uint32_t rows,
			struct out *out)
{
	const struct shape shape = shape_of(report, options, rows);
	uint64_t unfinished = unfinished_total(report);
	char text[TIMETEXT_MAX];

	print_heading(report, options, &shape, out);
	for (uint32_t i = 0; i < rows; i++)
		print_row(report, options, &report->rows[i], &shape, out);
	if (rows < report->row_count)
		out_format(out, "(%u more)\n", report->row_count - rows);
	if (!report->row_count)
		out_text(out, "no call was recorded, or none that was asked for\n");
	if (unfinished)
		out_format(out,
			   "unfinished calls: %llu (open at the end, exit lost, entered before the trace or a fork, or "
			   "left on another thread); their time is in Total and Self only\n",
			   (unsigned long long)unfinished);
	if (report->estimated)
		print_estimated(report, out);
	if (report->before)
		out_format(out, "entered before the trace, and not counted: %llu\n",
			   (unsigned long long)report->before);
	if (report->lost)
		out_format(out, "records lost: %llu (the counts are too low)\n", (unsigned long long)report->lost);
	if (report->gap_ns)
		out_format(out, VIEW_GAPS, timetext(report->gap_ns, text));
	if (report->wait_ns)
		out_format(out, "waiting for the tool, in the times above: %s (--mode block)\n",
			   timetext(report->wait_ns, text));
}

/* Write how far the row's figure in the column may be off; null where it has no upper bound. */
static void error_json(const struct report_row *row, enum report_column column, const char *key, struct json *json)
{
	const struct report_range range = report_range(row, column);

	if (range.high == UINT64_MAX)
		json_key_string(json, key, NULL);
	else
		json_key_u64(json, key, report_range_error(&range));
}

static void row_json(const struct report *report, const struct report_row *row, struct json *json)
{
	static const char *const keys[] = {"function", "object", "thread", "call"};
	const struct trace_function *source = source_of(report, row);
	const struct trace_function *function =
		report->by == REPORT_BY_FUNCTION ? trace_function(report->trace, row->key) : NULL;
	const struct trace_object *object = function ? trace_object(report->trace, function->object) : NULL;

	json_object(json);
	json_key_string(json, keys[report->by], function ? function->name : report_row_name(report, row));
	if (report->by == REPORT_BY_VALUE) {
		const struct by_value_row *value = report->value->rows[row->key];

		function = trace_function(report->trace, value->function);
		object = function ? trace_object(report->trace, function->object) : NULL;
		json_key_string(json, "function", function ? function->name : NULL);
		json_key_string(json, "object", object ? object->path : NULL);
		json_key_string(json, "value", value->value);
	}
	if (report->by == REPORT_BY_FUNCTION) {
		json_key_string(json, "symbol", function ? function->symbol : NULL);
		json_key_string(json, "object", object ? object->path : NULL);
		json_key_string(json, "file", source ? source->file : NULL);
		json_key_u64(json, "line", source ? source->line : 0);
	}
	json_key_u64(json, "calls", row->calls);
	json_key_u64(json, "unfinished", row->unfinished);
	if (report->timed) {
		json_key_u64(json, "total_ns", row->total_ns);
		json_key_u64(json, "self_ns", row->self_ns);
		json_key_u64(json, "min_ns", row->min_ns);
		json_key_u64(json, "avg_ns", report_avg_ns(row));
		json_key_u64(json, "p50_ns", row->p50_ns);
		json_key_u64(json, "p99_ns", row->p99_ns);
		json_key_u64(json, "max_ns", row->max_ns);
		if (report->estimated) {
			json_key_u64(json, "exact_calls", row->exact);
			json_key_u64(json, "total_error_ns", report_error_ns(row));
			error_json(row, REPORT_P50, "p50_error_ns", json);
			error_json(row, REPORT_P99, "p99_error_ns", json);
			error_json(row, REPORT_MAX, "max_error_ns", json);
		}
	}
	json_object_end(json);
}

/* The keys are those of `info`. */
static void late_json(const struct trace *trace, struct json *json)
{
	struct trace_estimates estimates;

	trace_estimates(trace, &estimates);
	json_key_u64(json, "late_rows", estimates.late_count);
	json_key_u64(json, "late_ns", trace_duration_ns(trace, estimates.late_ticks));
}

static void print_json(const struct report *report, uint32_t rows, struct out *out)
{
	static const char *const by[] = {"function", "object", "thread", "value"};
	struct json json;

	json_begin(&json, out);
	json_object(&json);
	json_key_string(&json, "by", by[report->by]);
	json_key(&json, "timed");
	json_bool(&json, report->timed);
	json_key_u64(&json, "lost", report->lost);
	json_key_u64(&json, "gap_ns", report->gap_ns);
	json_key_u64(&json, "untraced", trace_calls_missed(report->trace));
	json_key_u64(&json, "wait_ns", report->wait_ns);
	json_key_u64(&json, "entered_before", report->before);
	if (report->estimated)
		late_json(report->trace, &json);
	json_key_u64(&json, "rows_total", report->row_count);
	json_key(&json, "rows");
	json_array(&json);
	for (uint32_t i = 0; i < rows; i++) {
		row_json(report, &report->rows[i], &json);
		out_char(out, '\n');
	}
	json_array_end(&json);
	json_object_end(&json);
	out_char(out, '\n');
}

void report_print(const struct report *report, const struct report_options *options, struct out *out)
{
	uint32_t rows = report->row_count;

	if (options->limit && options->limit < rows)
		rows = (uint32_t)options->limit;
	if (options->json)
		print_json(report, rows, out);
	else
		print_table(report, options, rows, out);
}
