/*
 * Counting calls of a trace that grows; see tally.h.  Context: host.
 *
 * Rows lie by function id, and grow with the trace's table of functions: an id that the table does not have, which a
 * good file never brings, is not counted.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <host/now.h>
#include <host/text.h>

#include "../trace/follow.h"
#include "active.h"
#include "histogram.h"
#include "names.h"
#include "tally.h"
#include "walk.h"

#define QUEUED_MAX (8u << 20) /* bytes of chunks that are taken in one go; what is beyond is passed over */
#define RATE_NS	   200000000u /* rates are of so long at least */

/* A number that grows, what it was at the beginning of the span that rates are of, and what the next span begins at. */
struct counter {
	uint64_t now, before, next;
};

/* What was counted of a function; times in ns. */
struct sums {
	struct counter calls, self;
	uint64_t total, max;
	uint32_t running;	 /* stacks that have it open */
	struct counter calls_to; /* of the watched function, from here */
	uint64_t time_to;
	struct histogram histogram;
};

struct tally {
	struct trace_follow *follow;
	struct names *names; /* NULL: the file says nothing yet; then the pass is not open either */
	struct walk walk;
	struct active active;
	struct sums *sums; /* by function id; the last one stands for "no traced caller" */
	uint32_t count;	   /* functions that there is room for */
	uint32_t watched;
	uint64_t lost;			     /* records */
	uint64_t now_ns, before_ns, next_ns; /* of readings, as in struct counter */
	struct profile_row *rows;
};

static const struct view_filter all = {.to_ns = UINT64_MAX};

int tally_create(struct tally **out, int fd)
{
	struct tally *tally = calloc(1, sizeof(*tally));
	int ret = -ENOMEM;

	*out = NULL;
	if (tally) {
		tally->watched = PROFILE_NONE;
		tally->sums = calloc(1, sizeof(*tally->sums));
	}
	if (tally && tally->sums)
		ret = trace_follow_create(&tally->follow, fd, QUEUED_MAX);
	if (ret)
		tally_destroy(tally);
	else
		*out = tally;
	return ret;
}

void tally_destroy(struct tally *tally)
{
	if (!tally)
		return;
	for (uint32_t i = 0; tally->sums && i <= tally->count; i++)
		histogram_clear(&tally->sums[i].histogram);
	if (tally->names)
		walk_close(&tally->walk);
	names_destroy(tally->names);
	active_clear(&tally->active);
	trace_follow_destroy(tally->follow);
	free(tally->rows);
	free(tally->sums);
	free(tally);
}

/* Make room for the functions that the trace has described. */
static int grow(struct tally *tally)
{
	uint32_t count = trace_function_count(tally->walk.trace);
	struct sums *sums;

	if (count <= tally->count)
		return 0;
	sums = reallocarray(tally->sums, (size_t)count + 1, sizeof(*sums));
	if (!sums)
		return -ENOMEM;
	sums[count] = sums[tally->count];
	memset(sums + tally->count, 0, (count - tally->count) * sizeof(*sums));
	tally->sums = sums;
	tally->count = count;
	return 0;
}

static void push_frame(void *ctx, struct walk *walk, uint32_t thread, struct call_frame *frame)
{
	struct tally *tally = ctx;
	uint32_t count = 0;
	int err;

	if (frame->before || frame->function >= tally->count)
		return;
	err = active_enter(&tally->active, callstack_chain(walk->stack, thread), frame->function, &count);
	if (err)
		walk->error = err;
	frame->user = count;
	tally->sums[frame->function].running += count == 1;
}

static void pop_frame(void *ctx, struct walk *walk, const struct call_closed *closed)
{
	struct tally *tally = ctx;
	uint32_t function = closed->frame->function;

	if (!closed->frame->user)
		return;
	if (!active_leave(&tally->active, callstack_chain(walk->stack, closed->thread), function))
		tally->sums[function].running--;
}

static void count_caller(struct tally *tally, const struct call_closed *closed, uint64_t ns)
{
	uint32_t caller =
		closed->parent && closed->parent->function < tally->count ? closed->parent->function : tally->count;

	tally->sums[caller].calls_to.now++;
	tally->sums[caller].time_to += ns;
}

/*
 * Count what single calls took.  Of a call without an exact duration its least one is known; it counts only where that
 * is not far from what the call is shown with.
 */
static int count_single(struct sums *sums, const struct walk *walk, const struct call_closed *closed, uint64_t ns)
{
	uint64_t sure = call_is_estimated(closed) ? trace_duration_ns(walk->trace, call_least_ticks(closed)) : ns;

	if (sure > sums->max)
		sums->max = sure;
	return sure < ns / 2 ? 0 : histogram_add(&sums->histogram, ns);
}

static void add_call(void *ctx, struct walk *walk, const struct call_closed *closed)
{
	const struct call_frame *frame = closed->frame;
	struct tally *tally = ctx;
	struct sums *sums;
	uint64_t ns;

	if (!frame->user || !frame->enter_known || closed->how >= CALL_OPEN)
		return;
	sums = &tally->sums[frame->function];
	ns = walk_running_ns(walk, closed);
	sums->calls.now++;
	sums->self.now += walk_self_ns(walk, closed);
	if (frame->user == 1)
		sums->total += ns;
	if (count_single(sums, walk, closed, ns))
		walk->error = -ENOMEM;
	if (frame->function == tally->watched)
		count_caller(tally, closed, ns);
}

static void add_event(void *ctx, struct walk *walk, const struct trace_event *event)
{
	(void)walk;
	if (event->kind == CALLTAP_REC_LOST)
		((struct tally *)ctx)->lost += event->extra;
}

static const struct walk_ops counting = {
	.on_push = push_frame, .on_pop = pop_frame, .on_close = add_call, .on_event = add_event};

/* Open the pass once the file says what is recorded. */
static int begin(struct tally *tally)
{
	const struct trace *trace = trace_follow_trace(tally->follow);
	int ret;

	if (tally->names || !trace)
		return 0;
	ret = walk_open(&tally->walk, trace, &all, &counting, tally);
	if (!ret)
		ret = names_create(&tally->names, trace);
	if (ret)
		walk_close(&tally->walk);
	return ret;
}

int tally_take(struct tally *tally, bool last)
{
	struct trace_event event;
	int ret = trace_follow_poll(tally->follow);

	if (!ret)
		ret = begin(tally);
	if (ret || !tally->names)
		return ret;
	ret = grow(tally);
	if (last)
		trace_follow_finish(tally->follow);
	while (!ret && trace_follow_next(tally->follow, &event))
		ret = walk_feed(&tally->walk, &event);
	return ret;
}

static void step_on(struct counter *counter)
{
	counter->before = counter->next;
	counter->next = counter->now;
}

int tally_read(struct tally *tally)
{
	if (!tally->names)
		return -ESRCH;
	tally->now_ns = now_ns();
	if (tally->now_ns - tally->next_ns < RATE_NS)
		return 0;
	tally->before_ns = tally->next_ns;
	tally->next_ns = tally->now_ns;
	for (uint32_t i = 0; i <= tally->count; i++) {
		step_on(&tally->sums[i].calls);
		step_on(&tally->sums[i].self);
		step_on(&tally->sums[i].calls_to);
	}
	return 0;
}

void tally_reset(struct tally *tally)
{
	for (uint32_t i = 0; i <= tally->count; i++) {
		struct sums *sums = &tally->sums[i];

		histogram_clear(&sums->histogram);
		*sums = (struct sums){.running = sums->running, .calls_to = sums->calls_to, .time_to = sums->time_to};
	}
}

void tally_watch(struct tally *tally, uint32_t function)
{
	tally->watched = function;
	for (uint32_t i = 0; i <= tally->count; i++) {
		tally->sums[i].calls_to = (struct counter){0};
		tally->sums[i].time_to = 0;
	}
}

static double span_s(const struct tally *tally)
{
	return tally->before_ns ? (double)(tally->now_ns - tally->before_ns) / 1e9 : 0;
}

/* By how much the counter has grown a second; `scale` of it are one. */
static double rate_of(const struct tally *tally, const struct counter *counter, double scale)
{
	double seconds = span_s(tally);

	return seconds > 0 ? (double)(counter->now - counter->before) / scale / seconds : 0;
}

static void name_row(struct tally *tally, uint32_t id, struct profile_row *row)
{
	const struct trace_function *function = trace_function(tally->walk.trace, id);
	const struct trace_object *object = function ? trace_object(tally->walk.trace, function->object) : NULL;

	*row = (struct profile_row){.function = id, .name = "?", .object = object ? text_base(object->path) : "?"};
	if (function)
		row->name = names_function(tally->names, id).text;
}

static void fill_row(struct tally *tally, uint32_t id, struct profile_row *row)
{
	const struct sums *sums = &tally->sums[id];

	name_row(tally, id, row);
	row->running = sums->running;
	row->calls = sums->calls.now;
	row->total_ns = sums->total;
	row->self_ns = sums->self.now;
	row->avg_ns = row->calls ? row->total_ns / row->calls : 0;
	row->max_ns = sums->max;
	row->measured = true;
	row->p50_ns = histogram_percentile(&sums->histogram, 500);
	row->p99_ns = histogram_percentile(&sums->histogram, 990);
	row->p50_ns = row->p50_ns < row->max_ns ? row->p50_ns : row->max_ns;
	row->p99_ns = row->p99_ns < row->max_ns ? row->p99_ns : row->max_ns;
	row->calls_rate = rate_of(tally, &sums->calls, 1);
	row->self_rate = rate_of(tally, &sums->self, 1e9);
}

static bool make_rows(struct tally *tally)
{
	free(tally->rows);
	tally->rows = calloc((size_t)tally->count + 1, sizeof(*tally->rows));
	return tally->rows;
}

struct profile_row *tally_rows(struct tally *tally, size_t *count)
{
	*count = 0;
	if (!make_rows(tally))
		return NULL;
	for (uint32_t id = 0; id < tally->count; id++)
		if (tally->sums[id].calls.now || tally->sums[id].running)
			fill_row(tally, id, &tally->rows[(*count)++]);
	return tally->rows;
}

struct profile_row *tally_callers(struct tally *tally, size_t *count)
{
	*count = 0;
	if (!make_rows(tally))
		return NULL;
	for (uint32_t id = 0; id <= tally->count; id++) {
		const struct sums *sums = &tally->sums[id];
		struct profile_row *row = &tally->rows[*count];

		if (!sums->calls_to.now)
			continue;
		++*count;
		name_row(tally, id, row);
		if (id == tally->count) {
			row->function = PROFILE_NONE;
			row->name = row->object = "-";
		}
		row->calls = sums->calls_to.now;
		row->total_ns = sums->time_to;
		row->avg_ns = row->total_ns / row->calls;
		row->calls_rate = rate_of(tally, &sums->calls_to, 1);
	}
	return tally->rows;
}

struct profile_totals tally_totals(const struct tally *tally)
{
	const struct trace *trace = tally_trace(tally);
	struct profile_totals totals = {.seconds = span_s(tally)};

	if (!trace)
		return totals;
	totals.functions = trace_function_count(trace);
	totals.lost = tally->lost;
	for (uint32_t i = 0; i < trace_process_count(trace); i++)
		totals.processes += trace_process(trace, i) && !trace_process(trace, i)->end_ticks;
	for (uint32_t i = 0; i < trace_thread_count(trace); i++) {
		const struct trace_thread *thread = trace_thread(trace, i);
		const struct trace_process *process = thread ? trace_process(trace, thread->process) : NULL;

		totals.threads += thread && !thread->ended && process && !process->end_ticks;
	}
	return totals;
}

const struct trace *tally_trace(const struct tally *tally)
{
	return trace_follow_trace(tally->follow);
}
