/*
 * Counting calls and times; see report.h.  Context: host.
 *
 * All open calls are counted, whatever -f and --time say, because the calls on the stack tell a recursive call from an
 * outermost one; only calls that pass the filters are added up.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <host/text.h>

#include "active.h"
#include "report.h"

static const struct {
	const char *word, *title;
} columns[REPORT_COLUMNS] = {
	[REPORT_CALLS] = {"calls", "Calls"}, [REPORT_TOTAL] = {"total", "Total"}, [REPORT_SELF] = {"self", "Self"},
	[REPORT_MIN] = {"min", "Min"},	     [REPORT_AVG] = {"avg", "Avg"},	  [REPORT_P50] = {"p50", "p50"},
	[REPORT_P99] = {"p99", "p99"},	     [REPORT_MAX] = {"max", "Max"},	  [REPORT_NAME] = {"name", "Function"},
};

struct counter {
	struct report *report;
	struct report_row *rows; /* one per key, and a last one for keys beyond the trace's table */
	uint32_t keys;
	struct active active;
	uint64_t calls_untimed; /* CALL events */
	uint64_t calls_timed;
};

int report_parse_by(enum report_by *by, const char *text, struct calltap_diag *diag)
{
	if (strcmp(text, "function") == 0)
		*by = REPORT_BY_FUNCTION;
	else if (strcmp(text, "object") == 0)
		*by = REPORT_BY_OBJECT;
	else if (strcmp(text, "thread") == 0)
		*by = REPORT_BY_THREAD;
	else
		return calltap_diag_set(diag, -EINVAL, "'%s' is no value for --by: give function, object or thread",
					text);
	return 0;
}

int report_parse_sort(enum report_column *column, const char *text, struct calltap_diag *diag)
{
	for (unsigned i = 0; i < REPORT_COLUMNS; i++) {
		if (strcmp(text, columns[i].word) == 0) {
			*column = (enum report_column)i;
			return 0;
		}
	}
	return calltap_diag_set(diag, -EINVAL,
				"'%s' is no column: sort by calls, total, self, min, avg, p50, p99, max or name", text);
}

const char *report_column_title(enum report_column column)
{
	return columns[column].title;
}

uint64_t report_avg_ns(const struct report_row *row)
{
	return row->histogram.total ? row->sum_ns / row->histogram.total : 0;
}

static uint32_t key_of(const struct counter *counter, uint32_t thread, uint32_t function)
{
	const struct trace_function *known;
	uint32_t key = function;

	if (counter->report->by == REPORT_BY_THREAD) {
		key = thread;
	} else if (counter->report->by == REPORT_BY_OBJECT) {
		known = trace_function(counter->report->trace, function);
		key = known ? known->object : TRACE_NONE;
	}
	return key < counter->keys ? key : counter->keys;
}

static void push_frame(void *ctx, struct walk *walk, uint32_t thread, struct call_frame *frame)
{
	struct counter *counter = ctx;
	uint32_t count = 0;
	int err;

	if (frame->before)
		return; /* the frame's time is not known: calls inside of it count as outermost calls */
	err = active_enter(&counter->active, callstack_chain(walk->stack, thread),
			   key_of(counter, thread, frame->function), &count);
	if (err)
		walk->error = err;
	frame->user = count;
}

static void pop_frame(void *ctx, struct walk *walk, const struct call_closed *closed)
{
	struct counter *counter = ctx;

	if (closed->frame->user)
		active_leave(&counter->active, callstack_chain(walk->stack, closed->thread),
			     key_of(counter, closed->thread, closed->frame->function));
}

static void add_call(void *ctx, struct walk *walk, const struct call_closed *closed)
{
	struct counter *counter = ctx;
	struct report_row *row = &counter->rows[key_of(counter, closed->thread, closed->frame->function)];
	uint64_t ns;

	if (closed->frame->before) {
		counter->report->before++;
		return;
	}
	counter->calls_timed++;
	ns = walk_running_ns(walk, closed);
	row->self_ns += walk_self_ns(walk, closed);
	if (closed->frame->user == 1)
		row->total_ns += ns;
	if (!closed->frame->enter_known || closed->how == CALL_OPEN || closed->how == CALL_LOST) {
		row->unfinished++;
		return;
	}
	row->calls++;
	row->sum_ns += ns;
	if (row->calls == 1 || ns < row->min_ns)
		row->min_ns = ns;
	if (ns > row->max_ns)
		row->max_ns = ns;
	if (histogram_add(&row->histogram, ns))
		walk->error = -ENOMEM;
}

static void add_event(void *ctx, struct walk *walk, const struct trace_event *event)
{
	struct counter *counter = ctx;

	if (event->kind == CALLTAP_REC_LOST)
		counter->report->lost += event->extra;
	if (event->kind == CALLTAP_REC_WAIT)
		counter->report->wait_ns += trace_duration_ns(walk->trace, event->extra);
	if (event->kind != CALLTAP_REC_CALL)
		return;
	counter->rows[key_of(counter, event->thread, event->id)].calls++;
	counter->calls_untimed++;
}

static const struct walk_ops counting = {
	.on_push = push_frame, .on_pop = pop_frame, .on_close = add_call, .on_event = add_event};

uint64_t report_value(const struct report_row *row, enum report_column column)
{
	switch (column) {
	case REPORT_CALLS:
		return row->calls;
	case REPORT_SELF:
		return row->self_ns;
	case REPORT_MIN:
		return row->min_ns;
	case REPORT_AVG:
		return report_avg_ns(row);
	case REPORT_P50:
		return row->p50_ns;
	case REPORT_P99:
		return row->p99_ns;
	case REPORT_MAX:
		return row->max_ns;
	default:
		return row->total_ns;
	}
}

struct order {
	const struct report *report;
	enum report_column column;
};

/* Greatest first, names alphabetically; ties by calls, name and key, so that the order never depends on luck. */
static int compare_rows(const void *left, const void *right, void *ctx)
{
	const struct order *order = ctx;
	const struct report_row *a = left, *b = right;
	uint64_t x = report_value(a, order->column), y = report_value(b, order->column);
	int names;

	if (order->column != REPORT_NAME && x != y)
		return x < y ? 1 : -1;
	if (order->column != REPORT_NAME && a->calls != b->calls)
		return a->calls < b->calls ? 1 : -1;
	names = strcmp(report_row_name(order->report, a), report_row_name(order->report, b));
	return names ? names : a->key < b->key ? -1 : 1;
}

/* A percentile of the row: the middle of a histogram's bucket, but within the durations that were seen. */
static uint64_t row_percentile(const struct report_row *row, unsigned permille)
{
	uint64_t ns = histogram_percentile(&row->histogram, permille);

	return ns < row->min_ns ? row->min_ns : ns > row->max_ns ? row->max_ns : ns;
}

static void keep_called(struct report *report, struct counter *counter, enum report_column sort)
{
	struct order order = {report, sort};
	uint32_t kept = 0;

	for (uint32_t i = 0; i <= counter->keys; i++) {
		struct report_row *row = &counter->rows[i];

		if (!row->calls && !row->unfinished)
			continue;
		row->key = i < counter->keys ? i : TRACE_NONE;
		row->p50_ns = row_percentile(row, 500);
		row->p99_ns = row_percentile(row, 990);
		report->whole_ns += row->self_ns;
		counter->rows[kept++] = *row;
	}
	report->rows = counter->rows;
	report->row_count = kept;
	qsort_r(report->rows, kept, sizeof(*report->rows), compare_rows, &order);
}

static uint32_t key_count(const struct trace *trace, enum report_by by)
{
	if (by == REPORT_BY_OBJECT)
		return trace_object_count(trace);
	return by == REPORT_BY_THREAD ? trace_thread_count(trace) : trace_function_count(trace);
}

int report_run(struct report *report, const struct trace *trace, const struct view_filter *filter,
	       const struct report_options *options, struct calltap_diag *diag)
{
	struct counter counter = {.report = report, .keys = key_count(trace, options->by)};
	struct walk walk;
	int err;

	memset(report, 0, sizeof(*report));
	report->trace = trace;
	report->by = options->by;
	err = names_create(&report->names, trace);
	counter.rows = calloc((size_t)counter.keys + 1, sizeof(*counter.rows));
	if (err || !counter.rows) {
		free(counter.rows);
		return calltap_diag_set(diag, -ENOMEM, "out of memory for the table of functions");
	}
	err = walk_run(&walk, trace, filter, &counting, &counter, diag);
	active_clear(&counter.active);
	keep_called(report, &counter, options->sort);
	report->timed = counter.calls_timed || !counter.calls_untimed;
	report->damages = walk.damages;
	report->damage = walk.damage;
	return err;
}

void report_clear(struct report *report)
{
	for (uint32_t i = 0; i < report->row_count; i++)
		histogram_clear(&report->rows[i].histogram);
	free(report->rows);
	names_destroy(report->names);
	memset(report, 0, sizeof(*report));
}

const char *report_row_name(const struct report *report, const struct report_row *row)
{
	const struct trace_object *object;

	if (report->by == REPORT_BY_THREAD)
		return names_thread(report->names, row->key).text;
	if (report->by == REPORT_BY_FUNCTION)
		return names_function(report->names, row->key).text;
	object = trace_object(report->trace, row->key);
	return object ? text_base(object->path) : "(unknown)";
}
