/*
 * Printing the live table where there is no terminal; see top.h.  Context: host.
 */
#include "host/counted.h"
#include "json.h"
#include "names.h"
#include <host/text.h>
#include "top.h"

#define COLUMN_WIDTH 11

static size_t shown_of(const struct top_rows *rows, size_t limit)
{
	return limit && limit < rows->count ? limit : rows->count;
}

void top_print(const struct top *top, const struct top_heading *heading, const struct top_rows *rows, size_t limit,
	       struct out *out)
{
	char text[TOP_TIME_MAX], name[256];
	size_t shown = shown_of(rows, limit);

	text_clean(name, sizeof(name), heading->what);
	out_format(out, "# %s: %.1f s, %u %s in %u %s, by %s%s\n", name, (double)heading->elapsed_ns / 1e9,
		   heading->totals.threads, counted(heading->totals.threads, "thread", "threads"),
		   heading->totals.processes, counted(heading->totals.processes, "process", "processes"),
		   top_column_title(top->sort), heading->ended ? ", ended" : "");
	for (unsigned i = 0; i < TOP_NAME; i++)
		out_column(out, top_column_title((enum top_column)i), COLUMN_WIDTH, true);
	if (heading->totals.estimated) {
		out_column(out, "Total +-", COLUMN_WIDTH, true);
		out_column(out, "Self +-", COLUMN_WIDTH, true);
	}
	out_text(out, "  Function\n");
	for (size_t i = 0; i < shown; i++) {
		const struct profile_row *row = &rows->rows[i];
		out_column(out, top_count_text(row->calls_rate, text), COLUMN_WIDTH, true);
		out_u64_width(out, row->calls, COLUMN_WIDTH);
		for (unsigned k = TOP_TOTAL; k <= TOP_MAX; k++)
			out_column(out, top_time_text(row, (enum top_column)k, text), COLUMN_WIDTH, true);
		if (heading->totals.estimated) {
			out_column(out, row->calls ? timetext(row->total_error_ns, text) : "-", COLUMN_WIDTH, true);
			out_column(out, row->calls ? timetext(row->self_error_ns, text) : "-", COLUMN_WIDTH, true);
		}
		out_text(out, "  ");
		out_text(out, row->name);
		out_text(out, row->running ? " *\n" : "\n");
	}
	if (shown < rows->count)
		out_format(out, "(%zu more)\n", rows->count - shown);
	if (heading->totals.beyond)
		out_format(out, "calls of functions that came when the tables were full: %llu\n",
			   (unsigned long long)heading->totals.beyond);
	if (heading->totals.lost)
		out_format(out, "records that were lost, and whose calls are missing: %llu\n",
			   (unsigned long long)heading->totals.lost);
	out_char(out, '\n');
}

static void row_json(const struct profile_row *row, struct json *json)
{
	json_object(json);
	json_key_string(json, "function", row->name);
	json_key_string(json, "object", row->object);
	json_key(json, "calls_per_s");
	json_milli(json, row->calls_rate < 1e15 ? (uint64_t)(row->calls_rate * 1e3) : 0);
	json_key_u64(json, "running", row->running);
	json_key_u64(json, "calls", row->calls);
	json_key_u64(json, "total_ns", row->total_ns);
	json_key_u64(json, "self_ns", row->self_ns);
	json_key_u64(json, "avg_ns", row->avg_ns);
	json_key_u64(json, "p50_ns", row->p50_ns);
	json_key_u64(json, "p99_ns", row->p99_ns);
	json_key_u64(json, "max_ns", row->max_ns);
	if (row->estimated) {
		json_key_u64(json, "total_error_ns", row->total_error_ns);
		json_key_u64(json, "self_error_ns", row->self_error_ns);
		json_key_u64(json, "p50_error_ns", row->span_ns);
		json_key_u64(json, "p99_error_ns", row->span_ns);
		json_key_u64(json, "max_error_ns", row->max_error_ns);
	}
	json_object_end(json);
}

void top_print_json(const struct top *top, const struct top_heading *heading, const struct top_rows *rows, size_t limit,
		    struct out *out)
{
	size_t shown = shown_of(rows, limit);
	struct json json;

	json_begin(&json, out);
	json_object(&json);
	json_key_string(&json, "what", heading->what);
	json_key_u64(&json, "elapsed_ns", heading->elapsed_ns);
	json_key(&json, "interval_s");
	json_milli(&json, (uint64_t)(heading->totals.seconds * 1e3));
	json_key(&json, "ended");
	json_bool(&json, heading->ended);
	json_key_u64(&json, "threads", heading->totals.threads);
	json_key_u64(&json, "processes", heading->totals.processes);
	json_key_u64(&json, "functions_traced", heading->totals.functions);
	json_key_u64(&json, "functions_called", rows->calls);
	json_key_u64(&json, "calls_beyond", heading->totals.beyond);
	json_key_u64(&json, "calls_vanished", heading->totals.vanished);
	json_key_u64(&json, "records_lost", heading->totals.lost);
	json_key(&json, "estimated");
	json_bool(&json, heading->totals.estimated);
	json_key(&json, "rows");
	json_array(&json);
	for (size_t i = 0; i < shown; i++)
		row_json(&rows->rows[i], &json);
	json_array_end(&json);
	json_object_end(&json);
	out_char(out, '\n');
}
