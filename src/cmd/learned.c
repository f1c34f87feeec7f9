/*
 * Reading an earlier trace for which functions are short (learned.h).  Context: host.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <host/trace/trace.h>
#include <host/view/report.h>

#include "learned.h"

static int by_symbol(const void *left, const void *right)
{
	return strcmp(((const struct record_known *)left)->symbol, ((const struct record_known *)right)->symbol);
}

static int take_rows(struct record_known *known, size_t *count, const struct report *report, uint64_t short_ns)
{
	for (uint32_t i = 0; i < report->row_count; i++) {
		const struct trace_function *function = report_row_function(report, &report->rows[i]);

		if (!function || !function->symbol[0] || report->rows[i].exact < RECORD_SHORT_CALLS)
			continue;
		known[*count].symbol = strdup(function->symbol);
		if (!known[*count].symbol)
			return -ENOMEM;
		known[(*count)++].is_short =
			report_percentile(&report->rows[i], 1000 - 1000 / RECORD_SHORT_SHARE) < short_ns;
	}
	qsort(known, *count, sizeof(*known), by_symbol);
	return 0;
}

int learned_read(struct record_known **known, size_t *count, const char *path, uint64_t short_ns,
		 struct calltap_diag *diag)
{
	const struct report_options options = {.size = sizeof(options), .exact_only = true};
	struct view_filter filter = {.to_ns = UINT64_MAX};
	struct report report = {0};
	struct trace *trace = NULL;
	int ret = trace_open(&trace, path, diag);

	*known = NULL;
	*count = 0;
	if (!ret)
		ret = report_run(&report, trace, &filter, &options, diag);
	if (!ret) {
		*known = calloc(report.row_count + 1u, sizeof(**known));
		ret = *known ? take_rows(*known, count, &report, short_ns) : -ENOMEM;
		if (ret)
			ret = calltap_diag_set(diag, ret, "not enough memory");
	}
	report_clear(&report);
	trace_close(trace);
	return ret;
}

void learned_free(struct record_known *known, size_t count)
{
	for (size_t i = 0; i < count; i++)
		free(known[i].symbol);
	free(known);
}
