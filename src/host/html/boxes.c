/*
 * The boxes of the time line (boxes.h).  Context: host.
 *
 * Whether a caller is small shows when it ends, after its callees.  So the small calls of a caller are summed up first:
 * tracks[].sums[depth] are those of the call that is open at the depth above.  They become a box when a long call
 * follows them or when their caller turns out long; with a small caller they go into the sum that the caller is in.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "boxes.h"

struct longest {
	uint64_t least_ns; /* calls from here on are among the function's longest */
	uint32_t left;	   /* so many of them are still kept */
};

struct collector {
	struct boxes *boxes;
	const struct levels *levels;
	struct used *used;
	struct longest *longest; /* by number of used function */
	uint32_t longest_count;
	struct told_table told;
	uint32_t cuts, before;
	bool wanted; /* the call that is being closed passes the filters */
};

static int grow(void **list, uint32_t *room, uint32_t count, size_t size, uint32_t first)
{
	uint32_t wanted = *room ? *room : first;
	void *grown;

	while (wanted <= count)
		wanted *= 2;
	if (wanted == *room)
		return 0;
	grown = reallocarray(*list, wanted, size);
	if (!grown)
		return -ENOMEM;
	memset((char *)grown + (size_t)*room * size, 0, (size_t)(wanted - *room) * size);
	*list = grown;
	*room = wanted;
	return 0;
}

static int add_box(struct boxes *boxes, const struct box *box)
{
	int err = grow((void **)&boxes->list, &boxes->room, boxes->count, sizeof(*box), 1024);

	if (!err)
		boxes->list[boxes->count++] = *box;
	return err;
}

/* Make a sum a box, if there is anything in it. */
static int flush_sum(struct boxes *boxes, struct box *sum)
{
	int err = 0;

	if (sum->calls || sum->deeper) {
		err = add_box(boxes, sum);
		boxes->sums++;
		boxes->small += sum->calls + sum->deeper;
	}
	*sum = (struct box){0};
	return err;
}

/* The number of the thread's current stack among the tracks; TRACE_NONE = there are too many. */
static uint32_t current_track(struct boxes *boxes, struct walk *walk, uint32_t thread)
{
	uint32_t chain = callstack_chain(walk->stack, thread), at = chain;
	struct track *track;

	if (chain >= CALLSTACK_OTHER)
		at = trace_thread_count(walk->trace) + (chain - CALLSTACK_OTHER);
	if (chain >= CALLSTACK_OTHER && at - trace_thread_count(walk->trace) >= LEVELS_TRACKS)
		return TRACE_NONE;
	if (grow((void **)&boxes->tracks, &boxes->track_room, at, sizeof(*track), 64)) {
		walk->error = -ENOMEM;
		return TRACE_NONE;
	}
	if (at >= boxes->track_count)
		boxes->track_count = at + 1;
	track = &boxes->tracks[at];
	if (!track->used)
		*track =
			(struct track){.thread = thread, .stack = callstack_current(walk->stack, thread), .used = true};
	return at;
}

/* The small calls of a depth; NULL = no memory. */
static struct box *sum_at(struct boxes *boxes, uint32_t at, uint32_t depth)
{
	struct track *track = &boxes->tracks[at];

	if (grow((void **)&track->sums, &track->room, depth, sizeof(*track->sums), 16))
		return NULL;
	return &track->sums[depth];
}

/* Add `more`, small calls of one place on the time line or a sum of deeper ones, to the sum of the place. */
static int add_to_sum(struct collector *collector, struct box *sum, const struct box *more)
{
	uint64_t cut_ns = collector->levels->cut_ns;
	bool any = sum->calls || sum->deeper;
	int err = 0;

	if (any && (more->from_ns > sum->to_ns + cut_ns || more->to_ns > sum->from_ns + cut_ns) &&
	    collector->cuts < 2 * LEVELS_CUTS) {
		err = flush_sum(collector->boxes, sum);
		collector->cuts++;
		any = false;
	}
	if (!any) {
		sum->from_ns = more->from_ns;
		sum->to_ns = more->to_ns;
	}
	sum->track = more->track;
	sum->depth = more->depth;
	sum->from_ns = more->from_ns < sum->from_ns ? more->from_ns : sum->from_ns;
	sum->to_ns = more->to_ns > sum->to_ns ? more->to_ns : sum->to_ns;
	sum->calls += more->calls;
	sum->deeper += more->deeper;
	sum->total_ns += more->total_ns;
	sum->self_ns += more->self_ns;
	return err;
}

/* True if the call is one of the longest of its function that are kept. */
static bool is_longest(struct collector *collector, uint32_t number, uint64_t running_ns)
{
	struct longest *longest = number < collector->longest_count ? &collector->longest[number] : NULL;

	if (!longest || !longest->left || running_ns < longest->least_ns)
		return false;
	longest->left--;
	return true;
}

static bool is_kept(struct collector *collector, struct walk *walk, const struct call_closed *closed,
		    const struct box *box)
{
	bool longest;

	if (closed->frame->before)
		return collector->before++ < LEVELS_BEFORE;
	longest = is_longest(collector, box->function, walk_running_ns(walk, closed));
	return longest || walk_duration_ns(walk, closed) >= collector->levels->threshold_ns;
}

static void close_call(void *ctx, struct walk *walk, const struct call_closed *closed)
{
	struct collector *collector = ctx;

	collector->wanted = true;
}

/* The box of a call of its own, without texts. */
static struct box call_box(struct collector *collector, struct walk *walk, const struct call_closed *closed,
			   uint32_t track)
{
	const struct call_frame *frame = closed->frame;
	struct box box = {.track = track, .depth = frame->depth, .from_ns = walk_since_ns(walk, frame->enter_ticks)};

	box.function = used_number(collector->used, frame->function);
	box.flags = (uint32_t)closed->how | (frame->tail ? BOX_TAIL : 0) | (frame->before ? BOX_BEFORE : 0) |
		    (!frame->before && call_is_estimated(closed) ? BOX_ABOUT : 0);
	if (frame->before)
		box.to_ns = walk_since_ns(walk, closed->exit_ticks);
	else
		box.to_ns = box.from_ns + walk_duration_ns(walk, closed);
	if (box.to_ns < box.from_ns)
		box.to_ns = box.from_ns;
	box.self_ns = frame->before ? 0 : walk_self_ns(walk, closed);
	box.away_ns = frame->before ? 0 : walk_duration_ns(walk, closed) - walk_running_ns(walk, closed);
	return box;
}

/* Keep the call with the sum of its small callees, or add both to the sum that the call is in. */
static int place_call(struct collector *collector, struct box *box, bool kept, const struct told *told)
{
	struct boxes *boxes = collector->boxes;
	struct box *inner = sum_at(boxes, box->track, box->depth + 1), *sum = sum_at(boxes, box->track, box->depth),
		   more;
	int err;

	if (!inner || !sum)
		return -ENOMEM;
	if (kept) {
		err = flush_sum(boxes, sum);
		if (!err)
			err = flush_sum(boxes, inner);
		box->arguments = texts_add(&boxes->texts, told->arguments);
		box->result = texts_add(&boxes->texts, told->result);
		boxes->kept++;
		return err ? err : boxes->texts.error ? boxes->texts.error : add_box(boxes, box);
	}
	more = *box;
	more.flags = more.function = 0;
	more.deeper = inner->calls + inner->deeper;
	more.calls = collector->wanted && !(box->flags & BOX_BEFORE);
	more.total_ns = more.calls ? box->to_ns - box->from_ns : 0;
	more.self_ns = (more.calls ? box->self_ns : 0) + inner->self_ns;
	*inner = (struct box){0};
	return more.calls || more.deeper ? add_to_sum(collector, sum, &more) : 0;
}

static void pop_call(void *ctx, struct walk *walk, const struct call_closed *closed)
{
	struct collector *collector = ctx;
	struct told told = told_take(&collector->told, closed->frame);
	uint32_t track = TRACE_NONE;
	struct box box;
	int err;

	if (!closed->frame->enter_known && !closed->frame->before) {
		collector->boxes->strays += collector->wanted;
	} else {
		track = current_track(collector->boxes, walk, closed->thread);
		if (track == TRACE_NONE)
			collector->boxes->crowded += collector->wanted;
	}
	if (track != TRACE_NONE) {
		box = call_box(collector, walk, closed, track);
		err = place_call(collector, &box, collector->wanted && is_kept(collector, walk, closed, &box), &told);
		walk->error = err ? err : walk->error;
	}
	collector->wanted = false;
	told_drop(&told);
}

/* A call without a duration: the tracer "function" tells of no ends, and so of no depth. */
static void add_untimed(struct collector *collector, struct walk *walk, const struct trace_event *event, uint32_t track)
{
	uint64_t ns = walk_since_ns(walk, event->ticks);
	struct box box = {.track = track, .from_ns = ns, .to_ns = ns, .flags = BOX_CALL}, *sum;
	bool kept;
	int err;

	box.depth = callstack_depth(walk->stack, event->thread);
	box.function = used_number(collector->used, event->id);
	kept = is_longest(collector, box.function, 0) || !collector->levels->threshold_ns;
	sum = sum_at(collector->boxes, track, box.depth);
	if (!sum) {
		err = -ENOMEM;
	} else if (kept) {
		err = flush_sum(collector->boxes, sum);
		collector->boxes->kept++;
		if (!err)
			err = add_box(collector->boxes, &box);
	} else {
		box.calls = 1;
		box.function = box.flags = 0;
		err = add_to_sum(collector, sum, &box);
	}
	walk->error = err ? err : walk->error;
}

static void add_moment(struct collector *collector, struct walk *walk, const struct moment *moment)
{
	struct boxes *boxes = collector->boxes;

	if (boxes->moments_by_kind[moment->kind]++ >= LEVELS_EVENTS) {
		boxes->moments_left++;
		return;
	}
	if (grow((void **)&boxes->moments, &boxes->moment_room, boxes->moment_count, sizeof(*moment), 64))
		walk->error = -ENOMEM;
	else
		boxes->moments[boxes->moment_count++] = *moment;
}

static void take_event(void *ctx, struct walk *walk, const struct trace_event *event)
{
	struct collector *collector = ctx;
	uint32_t track = current_track(collector->boxes, walk, event->thread);
	struct moment moment = {.ns = walk_since_ns(walk, event->ticks), .track = track};

	if (track == TRACE_NONE) {
		collector->boxes->crowded += event->kind == CALLTAP_REC_CALL;
		return;
	}
	if (event->kind == CALLTAP_REC_CALL) {
		add_untimed(collector, walk, event, track);
	} else if (event->kind == CALLTAP_REC_LOST) {
		moment.kind = MOMENT_LOST;
		moment.value = event->extra;
		add_moment(collector, walk, &moment);
	} else if (event->kind == CALLTAP_REC_WAIT) {
		moment.kind = MOMENT_WAIT;
		moment.value = trace_duration_ns(walk->trace, event->extra);
		add_moment(collector, walk, &moment);
	}
}

static void take_message(void *ctx, struct walk *walk, const struct trace_event *event,
			 const struct walk_message *message)
{
	struct collector *collector = ctx;
	struct moment moment = {.kind = MOMENT_MARK, .ns = walk_since_ns(walk, event->ticks)};

	if (told_keep(&collector->told, walk, event->thread, message))
		return;
	moment.track = current_track(collector->boxes, walk, event->thread);
	if (moment.track == TRACE_NONE)
		return;
	moment.value = texts_add(&collector->boxes->texts, message->text);
	walk->error = collector->boxes->texts.error ? collector->boxes->texts.error : walk->error;
	add_moment(collector, walk, &moment);
}

static const struct walk_ops collecting = {
	.on_pop = pop_call, .on_close = close_call, .on_event = take_event, .on_message = take_message};

/* From the report's histograms: from which duration on a call is one of its function's longest. */
static int find_longest(struct collector *collector, const struct report *report)
{
	uint32_t each = report->row_count ? LEVELS_LONGEST / report->row_count : 0;

	each = each > LEVELS_EACH ? LEVELS_EACH : each;
	for (uint32_t i = 0; i < report->row_count; i++)
		used_number(collector->used, report->rows[i].key);
	collector->longest_count = collector->used->count + 1;
	collector->longest = calloc(collector->longest_count, sizeof(*collector->longest));
	if (!collector->longest)
		return -ENOMEM;
	for (uint32_t i = 0; i < report->row_count; i++) {
		const struct report_row *row = &report->rows[i];
		struct longest *longest = &collector->longest[used_number(collector->used, row->key)];

		longest->least_ns = histogram_floor(&row->histogram, each);
		if (longest->least_ns > row->max_ns)
			longest->least_ns = row->max_ns; /* many calls are about as long */
		longest->left = each;
	}
	return 0;
}

static int compare_boxes(const void *left, const void *right)
{
	const struct box *a = left, *b = right;

	if (a->track != b->track)
		return a->track < b->track ? -1 : 1;
	if (a->depth != b->depth)
		return a->depth < b->depth ? -1 : 1;
	if (a->from_ns != b->from_ns)
		return a->from_ns < b->from_ns ? -1 : 1;
	return a->to_ns < b->to_ns ? -1 : a->to_ns > b->to_ns;
}

int boxes_collect(struct boxes *boxes, const struct levels *levels, const struct report *report,
		  const struct view_filter *filter, struct used *used, struct walk *walk, struct calltap_diag *diag)
{
	struct collector collector = {.boxes = boxes, .levels = levels, .used = used};
	int err;

	*boxes = (struct boxes){0};
	err = find_longest(&collector, report);
	if (!err)
		err = walk_run(walk, report->trace, filter, &collecting, &collector, diag);
	for (uint32_t t = 0; t < boxes->track_count && !err; t++) {
		for (uint32_t depth = 0; depth < boxes->tracks[t].room && !err; depth++)
			err = flush_sum(boxes, &boxes->tracks[t].sums[depth]);
	}
	if (!err && boxes->count)
		qsort(boxes->list, boxes->count, sizeof(*boxes->list), compare_boxes);
	told_clear(&collector.told);
	free(collector.longest);
	return err;
}

static void put_texts(const struct boxes *boxes, struct columns *columns)
{
	struct column *step = columns_add(columns, "told.step"), *arguments = columns_add(columns, "told.arguments");
	struct column *result = columns_add(columns, "told.result");
	uint32_t last = 0;

	for (uint32_t i = 0; i < boxes->count; i++) {
		if (!boxes->list[i].arguments && !boxes->list[i].result)
			continue;
		columns_put(columns, step, i - last);
		columns_put(columns, arguments, boxes->list[i].arguments);
		columns_put(columns, result, boxes->list[i].result);
		last = i;
	}
}

static void put_away(const struct boxes *boxes, struct columns *columns)
{
	struct column *step = columns_add(columns, "away.step"), *ns = columns_add(columns, "away.ns");
	uint32_t last = 0;

	for (uint32_t i = 0; i < boxes->count; i++) {
		if (!boxes->list[i].away_ns)
			continue;
		columns_put(columns, step, i - last);
		columns_put(columns, ns, boxes->list[i].away_ns);
		last = i;
	}
}

/* Rows: the boxes of a stack and depth. */
static void put_rows(const struct boxes *boxes, struct columns *columns)
{
	struct column *track = columns_add(columns, "row.track"), *depth = columns_add(columns, "row.depth");
	struct column *count = columns_add(columns, "row.boxes");

	for (uint32_t i = 0, next; i < boxes->count; i = next) {
		for (next = i + 1; next < boxes->count && boxes->list[next].track == boxes->list[i].track &&
				   boxes->list[next].depth == boxes->list[i].depth;
		     next++)
			;
		columns_put(columns, track, boxes->list[i].track);
		columns_put(columns, depth, boxes->list[i].depth);
		columns_put(columns, count, next - i);
	}
}

static void put_moments(const struct boxes *boxes, struct columns *columns)
{
	struct column *kind = columns_add(columns, "moment.kind"), *track = columns_add(columns, "moment.track");
	struct column *ns = columns_add(columns, "moment.ns"), *value = columns_add(columns, "moment.value");

	for (uint32_t i = 0; i < boxes->moment_count; i++) {
		columns_put(columns, kind, boxes->moments[i].kind);
		columns_put(columns, track, boxes->moments[i].track);
		columns_put(columns, ns, boxes->moments[i].ns);
		columns_put(columns, value, boxes->moments[i].value);
	}
}

void boxes_put(const struct boxes *boxes, struct columns *columns)
{
	struct column *gap = columns_add(columns, "box.gap"), *ns = columns_add(columns, "box.ns");
	struct column *function = columns_add(columns, "box.function"), *self = columns_add(columns, "box.self");
	struct column *flags = columns_add(columns, "box.flags"), *calls = columns_add(columns, "sum.calls");
	struct column *deeper = columns_add(columns, "sum.deeper"), *total = columns_add(columns, "sum.total");
	uint64_t end = 0;

	for (uint32_t i = 0; i < boxes->count; i++) {
		const struct box *box = &boxes->list[i];

		if (i && (box->track != box[-1].track || box->depth != box[-1].depth))
			end = 0;
		columns_put_signed(columns, gap, (int64_t)(box->from_ns - end));
		columns_put(columns, ns, box->to_ns - box->from_ns);
		columns_put(columns, function, box->function);
		columns_put(columns, self, box->self_ns);
		end = box->to_ns;
		if (box->function) {
			columns_put(columns, flags, box->flags);
			continue;
		}
		columns_put(columns, calls, box->calls);
		columns_put(columns, deeper, box->deeper);
		columns_put(columns, total, box->total_ns);
	}
	put_rows(boxes, columns);
	put_texts(boxes, columns);
	put_away(boxes, columns);
	put_moments(boxes, columns);
}

void boxes_clear(struct boxes *boxes)
{
	for (uint32_t t = 0; t < boxes->track_count; t++)
		free(boxes->tracks[t].sums);
	free(boxes->tracks);
	free(boxes->list);
	free(boxes->moments);
	texts_clear(&boxes->texts);
	*boxes = (struct boxes){0};
}
