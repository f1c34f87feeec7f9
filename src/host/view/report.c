/*
 * Counting calls and times; see report.h.  Context: host.
 *
 * All open calls are counted, whatever -f and --time say, because the calls on the stack tell a recursive call from an
 * outermost one; only calls that pass the filters are added up.
 */
#include <errno.h>
#include <math.h>
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
	struct report_row *rows; /* one per key, and a last one for keys beyond the trace's table, but of values */
	uint32_t keys;		 /* by value: so many rows there are so far */
	uint32_t room;		 /* by value: and so many there is memory for */
	struct active active;
	const struct report_options *options;
	uint64_t calls_untimed; /* CALL events */
	uint64_t calls_timed;
	struct estimates *estimates; /* NULL: all durations are exact */
	struct estimate estimate;    /* of the call that ends */
};

int report_parse_by(enum report_by *by, struct by_value **value, const char *text, struct calltap_diag *diag)
{
	by_value_destroy(*value);
	*value = NULL;
	if (by_value_is(text)) {
		*by = REPORT_BY_VALUE;
		return by_value_create(value, text, diag);
	}
	if (strcmp(text, "function") == 0)
		*by = REPORT_BY_FUNCTION;
	else if (strcmp(text, "object") == 0)
		*by = REPORT_BY_OBJECT;
	else if (strcmp(text, "thread") == 0)
		*by = REPORT_BY_THREAD;
	else
		return calltap_diag_set(diag, -EINVAL,
					"'%s' is no value for --by: give function, object, thread, "
					"'FUNCTION(ARGUMENT)' or 'FUNCTION:='",
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
	return row->measured ? row->sum_ns / row->measured : 0;
}

uint64_t report_exact_avg_ns(const struct report_row *row)
{
	return row->exact ? row->exact_ns / row->exact : 0;
}

#define LOOSE_MARGIN 2 /* rare pieces differ in their lengths, and their share is one of pieces */

uint64_t report_error_ns(const struct report_row *row)
{
	double spread = 1.96 * sqrt(row->variance);
	double by_calls = row->doubt + fabs(row->discord), by_runs = LOOSE_MARGIN * row->loose;

	/* Two answers to one question: what exact calls say, and what the runs had room for.  Both hold. */
	return estimate_whole(fmin(by_calls, by_runs) + spread + 0.5);
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

static bool is_unfinished(const struct call_closed *closed)
{
	return !closed->frame->enter_known || closed->how == CALL_OPEN || closed->how == CALL_LOST;
}

/* Count the calls that have the bound. */
static int settle_bound(const struct trace *trace, struct histogram *histogram, const struct report_bound *bound,
			uint64_t *greatest_ns)
{
	const uint64_t ns = bound->ticks == UINT64_MAX ? UINT64_MAX : trace_duration_ns(trace, bound->ticks);

	if (!bound->calls)
		return 0;
	*greatest_ns = ns > *greatest_ns ? ns : *greatest_ns;
	return histogram_add_many(histogram, ns, bound->calls);
}

/* Note a bound of a call's duration, without the time that its thread was on other stacks. */
static inline int add_bound(const struct trace *trace, struct histogram *histogram, struct report_bound *bound,
			    uint64_t *greatest_ns, uint64_t ticks, uint64_t away)
{
	int err = 0;

	if (ticks != UINT64_MAX)
		ticks = ticks > away ? ticks - away : 0;
	if (ticks != bound->ticks) {
		err = settle_bound(trace, histogram, bound, greatest_ns);
		*bound = (struct report_bound){.ticks = ticks};
	}
	bound->calls++;
	return err;
}

static int add_estimated(struct counter *counter, struct report_row *row, const struct walk *walk,
			 const struct call_closed *closed, uint64_t ns)
{
	int err = add_bound(walk->trace, &row->least, &row->least_run, &row->max_ns, call_least_ticks(closed),
			    closed->away_ticks);

	if (!err)
		err = add_bound(walk->trace, &row->most, &row->most_run, &row->most_ns, call_most_ticks(closed),
				closed->away_ticks);
	if (!err)
		err = histogram_add(&row->said, counter->estimate.said_ns);
	row->shown_max_ns = ns > row->shown_max_ns ? ns : row->shown_max_ns;
	return err ? err : histogram_add(&row->drawn, counter->estimate.drawn_ns);
}

/* Add a finished call to what the row has of single calls. */
static void add_single(struct counter *counter, struct report_row *row, struct walk *walk,
		       const struct call_closed *closed, uint64_t ns)
{
	const bool estimated = counter->estimates && call_is_estimated(closed);
	const uint64_t single = estimated ? counter->estimate.drawn_ns : ns;
	int err;

	counter->report->estimated |= estimated;
	if (estimated && counter->options->exact_only)
		return;
	if (!(row->histogram.total + row->drawn.total) || single < row->min_ns)
		row->min_ns = single;
	if (!estimated && ns > row->max_ns)
		row->max_ns = ns;
	err = estimated ? add_estimated(counter, row, walk, closed, ns) : histogram_add(&row->histogram, ns);
	walk->error = err ? err : walk->error;
}

static void add_errors(struct report_row *row, const struct estimate *estimate)
{
	row->variance += estimate->spread_ns * estimate->spread_ns;
	row->doubt += estimate->doubt_ns;
	row->discord += estimate->other_ns - estimate->ns;
	row->loose += estimate->loose_ns;
}

/*
 * Add a call to a row; outermost: no call of the row is around it.  False: the call is unfinished, or only a part of it
 * lies in the window.
 */
static bool add_to_row(struct counter *counter, struct report_row *row, struct walk *walk,
		       const struct call_closed *closed, bool outermost)
{
	uint64_t ns = walk_running_ns(walk, closed);
	bool estimated = counter->estimates && call_is_estimated(closed) && !is_unfinished(closed);

	row->self_ns += closed->frame->children_ticks ? walk_self_ns(walk, closed) : ns;
	if (outermost)
		row->total_ns += ns;
	if (is_unfinished(closed)) {
		row->unfinished++;
		return false;
	}
	row->calls++;
	if (closed->frame->cut_ticks)
		return false;
	row->measured++;
	row->sum_ns += ns;
	if (estimated) {
		estimate_call(counter->estimates, walk, closed, &counter->estimate);
		row->per_exact += counter->estimate.per_exact;
		if (outermost)
			add_errors(row, &counter->estimate);
	} else {
		row->exact++;
		row->exact_ns += ns;
	}
	add_single(counter, row, walk, closed, ns);
	return true;
}

static void add_call(void *ctx, struct walk *walk, const struct call_closed *closed)
{
	struct counter *counter = ctx;
	struct report_row *row = &counter->rows[key_of(counter, closed->thread, closed->frame->function)];

	if (closed->frame->before) {
		counter->report->before++;
		return;
	}
	counter->calls_timed++;
	if (add_to_row(counter, row, walk, closed, closed->frame->user == 1) && counter->options->on_call &&
	    !call_is_estimated(closed)) {
		int err = counter->options->on_call(counter->options->ctx, closed->frame->function,
						    walk_running_ns(walk, closed));

		walk->error = err ? err : walk->error;
	}
}

static void add_wait(void *ctx, struct walk *walk, const struct trace_event *event)
{
	struct counter *counter = ctx;

	if (event->kind == CALLTAP_REC_WAIT)
		counter->report->wait_ns += trace_duration_ns(walk->trace, event->extra);
}

static void add_event(void *ctx, struct walk *walk, const struct trace_event *event)
{
	struct counter *counter = ctx;

	add_wait(ctx, walk, event);
	if (event->kind != CALLTAP_REC_CALL)
		return;
	counter->rows[key_of(counter, event->thread, event->id)].calls++;
	counter->calls_untimed++;
}

static const struct walk_ops counting = {
	.cuts = true, .on_push = push_frame, .on_pop = pop_frame, .on_close = add_call, .on_event = add_event};

/*
 * By value. A frame's user word: the row's key + 1 in its upper half once the value is told, and in the lower half how
 * many calls of that row are open then.  A result is told at the end, so calls within calls of its row count as well.
 */
#define KEY_AT 32u

/* Make the rows for new keys. */
static int grow_rows(struct counter *counter)
{
	uint32_t wanted = counter->report->value->count;

	if (wanted > counter->room) {
		uint32_t room = wanted > UINT32_MAX / 2 ? wanted : 2 * wanted;
		struct report_row *rows = reallocarray(counter->rows, (size_t)room + 1, sizeof(*rows));

		if (!rows)
			return -ENOMEM;
		memset(rows + counter->room + 1, 0, (room - counter->room) * sizeof(*rows));
		counter->rows = rows;
		counter->room = room;
	}
	counter->keys = wanted;
	return 0;
}

static const char *function_name(const struct counter *counter, uint32_t function)
{
	return names_function(counter->report->names, function).text;
}

static void take_value(void *ctx, struct walk *walk, const struct trace_event *event,
		       const struct walk_message *message)
{
	struct counter *counter = ctx;
	struct by_value *by = counter->report->value;
	uint32_t depth = callstack_depth(walk->stack, event->thread), key, count = 0;
	struct call_frame *frame = depth ? callstack_frame(walk->stack, event->thread, depth - 1) : NULL;
	int err;

	if (!frame || frame->before || frame->function != message->function)
		return;
	err = by_value_key(&key, by, walk->trace, event, function_name(counter, frame->function));
	if (!err && key == BY_VALUE_NONE)
		return;
	if (!err)
		err = grow_rows(counter);
	if (!err && !by->result)
		err = active_enter(&counter->active, callstack_chain(walk->stack, event->thread), key, &count);
	walk->error = err ? err : walk->error;
	frame->user = err ? 0 : (uint64_t)(key + 1) << KEY_AT | count;
}

static void drop_value(void *ctx, struct walk *walk, const struct call_closed *closed)
{
	struct counter *counter = ctx;

	if (closed->frame->user & UINT32_MAX)
		active_leave(&counter->active, callstack_chain(walk->stack, closed->thread),
			     (uint32_t)(closed->frame->user >> KEY_AT) - 1);
}

static void add_valued(void *ctx, struct walk *walk, const struct call_closed *closed)
{
	struct counter *counter = ctx;
	const struct call_frame *frame = closed->frame;
	uint32_t key = (uint32_t)(frame->user >> KEY_AT);
	int err = 0;

	if (frame->before) {
		counter->report->before++;
		return;
	}
	if (!key--)
		err = by_value_untold(&key, counter->report->value, frame->function,
				      function_name(counter, frame->function));
	if (!err)
		err = grow_rows(counter);
	walk->error = err ? err : walk->error;
	counter->calls_timed++;
	if (!err)
		add_to_row(counter, &counter->rows[key], walk, closed, (frame->user & UINT32_MAX) <= 1);
}

static const struct walk_ops valuing = {
	.cuts = true, .on_message = take_value, .on_pop = drop_value, .on_close = add_valued, .on_event = add_wait};

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

bool report_has_value(const struct report_row *row, enum report_column column)
{
	switch (column) {
	case REPORT_TOTAL:
	case REPORT_SELF:
		return row->calls || row->total_ns + row->self_ns;
	case REPORT_MIN:
	case REPORT_AVG:
	case REPORT_P50:
	case REPORT_P99:
	case REPORT_MAX:
		return row->measured; /* calls of which only a part lies in the window have no value of their own */
	default:
		return row->calls;
	}
}

void report_count_exact(const struct report *report, uint64_t *measured, uint64_t *exact)
{
	*measured = *exact = 0;
	for (uint32_t i = 0; i < report->row_count; i++) {
		*measured += report->rows[i].measured;
		*exact += report->rows[i].exact;
	}
}

bool report_is_estimated(const struct report *report, const struct report_row *row, enum report_column column)
{
	if (column == REPORT_MAX)
		return row->max_estimated;
	if (column == REPORT_SELF && report->estimated && row->self_ns != row->total_ns)
		return true;
	return row->exact < row->measured;
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

void report_sort(struct report *report, enum report_column column)
{
	struct order order = {report, column};

	if (report->row_count)
		qsort_r(report->rows, report->row_count, sizeof(*report->rows), compare_rows, &order);
}

uint64_t report_percentile(const struct report_row *row, unsigned permille)
{
	uint64_t ns = histogram_percentile(&row->histogram, permille);

	return ns < row->min_ns ? row->min_ns : ns > row->max_ns ? row->max_ns : ns;
}

int report_add_row(struct report_row *to, const struct report_row *from)
{
	if (from->histogram.total && (!to->histogram.total || from->min_ns < to->min_ns))
		to->min_ns = from->min_ns;
	if (from->max_ns > to->max_ns)
		to->max_ns = from->max_ns;
	if (from->most_ns > to->most_ns)
		to->most_ns = from->most_ns;
	to->per_exact += from->per_exact;
	to->calls += from->calls;
	to->measured += from->measured;
	to->exact += from->exact;
	to->exact_ns += from->exact_ns;
	to->variance += from->variance;
	to->doubt += from->doubt;
	to->discord += from->discord;
	to->loose += from->loose;
	to->total_ns += from->total_ns;
	to->sum_ns += from->sum_ns;
	to->self_ns += from->self_ns;
	to->unfinished += from->unfinished;
	if (histogram_join(&to->least, &from->least) || histogram_join(&to->most, &from->most) ||
	    histogram_join(&to->said, &from->said))
		return -ENOMEM;
	return histogram_join(&to->histogram, &from->histogram);
}

/* Exact durations are their own bounds, and are in all of the row's histograms. */
static int join_exact(const struct trace *trace, struct report_row *row)
{
	struct histogram *const others[] = {&row->least, &row->most, &row->said};
	int err;

	row->most_ns = row->max_ns > row->most_ns ? row->max_ns : row->most_ns;
	err = settle_bound(trace, &row->least, &row->least_run, &row->max_ns);
	if (!err)
		err = settle_bound(trace, &row->most, &row->most_run, &row->most_ns);
	for (unsigned i = 0; !err && row->drawn.total && i < sizeof(others) / sizeof(*others); i++)
		err = histogram_join(others[i], &row->histogram);
	if (!err)
		err = histogram_join(&row->histogram, &row->drawn);
	histogram_clear(&row->drawn);
	return err;
}

static void settle_estimates(struct report_row *row)
{
	/* Where nothing is sure there is what was placed. */
	row->max_estimated = !row->max_ns && row->shown_max_ns;
	if (row->max_estimated)
		row->max_ns = row->shown_max_ns;
	/* Some call took as long as they do on average. */
	if (row->exact < row->measured && row->calls && report_avg_ns(row) > row->max_ns) {
		row->max_ns = report_avg_ns(row);
		row->max_estimated = true;
	}
	if (row->min_ns > row->max_ns)
		row->min_ns = row->max_ns;
}

static int keep_called(struct report *report, struct counter *counter, enum report_column sort)
{
	uint32_t kept = 0;
	int err = 0;

	for (uint32_t i = 0; i <= counter->keys; i++) {
		struct report_row *row = &counter->rows[i];

		if (!row->calls && !row->unfinished)
			continue;
		row->key = i < counter->keys ? i : TRACE_NONE;
		err = err ? err : join_exact(report->trace, row);
		settle_estimates(row);
		row->p50_ns = report_percentile(row, 500);
		row->p99_ns = report_percentile(row, 990);
		/* The histogram has them to a bucket; the bounds of all calls may tell more. */
		row->p50_ns = report_range(row, REPORT_P50).ns;
		row->p99_ns = report_range(row, REPORT_P99).ns;
		report->whole_ns += row->self_ns;
		counter->rows[kept++] = *row;
	}
	report->rows = counter->rows;
	report->row_count = kept;
	report_sort(report, sort);
	return err;
}

static uint32_t object_of(const struct report *report, const struct report_row *row)
{
	const struct trace_function *function = report_row_function(report, row);

	return function ? function->object : TRACE_NONE;
}

static int compare_names(const void *left, const void *right, void *ctx)
{
	const struct report *report = ctx;
	const struct report_row *a = *(struct report_row *const *)left, *b = *(struct report_row *const *)right;
	int names = strcmp(report_row_name(report, a), report_row_name(report, b));
	uint32_t x = object_of(report, a), y = object_of(report, b);

	return names ? names : (x > y) - (x < y);
}

/* Note rows that nothing but their objects tells apart, as a call by the PLT from the function that it calls. */
static int note_alike(struct report *report)
{
	struct report_row **sorted = calloc(report->row_count + 1u, sizeof(struct report_row *));
	uint32_t next;

	if (!sorted)
		return -ENOMEM;
	for (uint32_t i = 0; i < report->row_count; i++)
		sorted[i] = &report->rows[i];
	qsort_r(sorted, report->row_count, sizeof(struct report_row *), compare_names, report);
	for (uint32_t i = 0; i < report->row_count; i = next) {
		const char *name = report_row_name(report, sorted[i]);

		for (next = i + 1; next < report->row_count; next++)
			if (strcmp(report_row_name(report, sorted[next]), name) != 0)
				break;
		for (uint32_t k = i; k < next; k++)
			sorted[k]->alike = object_of(report, sorted[i]) != object_of(report, sorted[next - 1]);
	}
	free(sorted);
	return 0;
}

static uint32_t key_count(const struct trace *trace, enum report_by by)
{
	if (by == REPORT_BY_VALUE)
		return 0;
	if (by == REPORT_BY_OBJECT)
		return trace_object_count(trace);
	return by == REPORT_BY_THREAD ? trace_thread_count(trace) : trace_function_count(trace);
}

/*
 * Losses that no event tells of, as part of the file is damaged.  They have no place in time, so they are left out of a
 * part of the trace.
 */
static void count_untold(struct report *report, const struct view_filter *filter)
{
	const uint64_t lost = view_filter_losses(filter, report->trace).records;

	if (!filter->from_ns && filter->to_ns == UINT64_MAX && lost > report->lost)
		report->lost = lost;
}

int report_run(struct report *report, const struct trace *trace, const struct view_filter *filter,
	       const struct report_options *options, struct calltap_diag *diag)
{
	struct counter counter = {.report = report, .keys = key_count(trace, options->by), .options = options};
	const bool valued = options->by == REPORT_BY_VALUE;
	struct view_filter of_function = *filter;
	struct walk walk;
	int err, kept;

	memset(report, 0, sizeof(*report));
	report->trace = trace;
	report->by = options->by;
	report->value = options->value;
	if (valued && filter->function)
		return calltap_diag_set(diag, -EINVAL, "--by '%s...' chooses the function already; leave -f out",
					report->value->function);
	if (valued)
		of_function.function = report->value->function;
	err = names_create(&report->names, trace);
	counter.rows = calloc((size_t)counter.keys + 1, sizeof(*counter.rows));
	if (err || !counter.rows) {
		free(counter.rows);
		return calltap_diag_set(diag, -ENOMEM, "out of memory for the table of functions");
	}
	memset(&walk, 0, sizeof(walk));
	err = estimates_create(&counter.estimates, trace, filter, diag);
	if (counter.estimates) {
		of_function.passes = ESTIMATES_PASSES;
		of_function.pass = ESTIMATES_PASSES - 1;
	}
	if (!err)
		err = walk_run(&walk, trace, &of_function, valued ? &valuing : &counting, &counter, diag);
	if (!err && valued && !report->value->told)
		err = calltap_diag_set(diag, -ENODATA,
				       "no call of '%s' tells '%s': 'calltap replay -f %s' shows what is told, and "
				       "'calltap record -a' has more told",
				       report->value->function, report->value->name, report->value->function);
	active_clear(&counter.active);
	estimates_destroy(counter.estimates);
	kept = keep_called(report, &counter, options->sort);
	report->lost = walk.lost;
	count_untold(report, filter);
	report->timed = counter.calls_timed || !counter.calls_untimed;
	report->gap_ns = trace_duration_ns(trace, walk.gap_ticks);
	report->damages = walk.damages;
	report->damage = walk.damage;
	if (!err && (kept || note_alike(report)))
		err = calltap_diag_set(diag, -ENOMEM, "out of memory for the table of functions");
	return err;
}

void report_clear(struct report *report)
{
	for (uint32_t i = 0; i < report->row_count; i++) {
		histogram_clear(&report->rows[i].histogram);
		histogram_clear(&report->rows[i].least);
		histogram_clear(&report->rows[i].most);
		histogram_clear(&report->rows[i].said);
		histogram_clear(&report->rows[i].drawn);
	}
	free(report->rows);
	names_destroy(report->names);
	memset(report, 0, sizeof(*report));
}

const char *report_row_name(const struct report *report, const struct report_row *row)
{
	const struct trace_object *object;

	if (report->by == REPORT_BY_VALUE)
		return row->key < report->value->count ? report->value->rows[row->key]->text : "?";
	if (report->by == REPORT_BY_THREAD)
		return names_thread(report->names, row->key).text;
	if (report->by == REPORT_BY_FUNCTION)
		return names_function(report->names, row->key).text;
	object = trace_object(report->trace, row->key);
	return object ? text_base(object->path) : "(unknown)";
}

const struct trace_function *report_row_function(const struct report *report, const struct report_row *row)
{
	if (report->by == REPORT_BY_VALUE)
		return row->key < report->value->count
			       ? trace_function(report->trace, report->value->rows[row->key]->function)
			       : NULL;
	return report->by == REPORT_BY_FUNCTION ? trace_function(report->trace, row->key) : NULL;
}
