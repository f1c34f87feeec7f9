/*
 * Lines of the replay, in order; see replay.h.  Context: host.
 *
 * Only a thread's next event decides whether an entry prints as "f();" or "f() {", and lines of other threads may come
 * in between.  So lines wait in a queue until the first of them is decided.  The queue is bounded: when it is full, its
 * first entry prints as an opening brace.  When the trace is shown as it grows, replay_settle() does that with entries
 * that have waited for a while.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "replay.h"

#define QUEUE_SIZE 65536u /* a power of two */

/*
 * A frame's user word: whether the entry's line was put; the place of the values that the call's last line is to show,
 * + 1, 0 = none; and the number of calls from before the trace below the frame that are not shown as levels.
 */
#define SHOWN		UINT64_C(1)
#define VALUES(n)	((uint64_t)(n) << 1)
#define VALUES_MAX	0x7fffffffu
#define VALUES_OF(user) ((uint32_t)(user) >> 1)
#define FOLDED(n)	((uint64_t)(n) << 32)
#define FOLDS(user)	((uint32_t)((user) >> 32))

struct replay_thread {
	uint64_t pending; /* count of the thread's undecided entry in the queue, + 1; 0 = none */
	uint32_t stack;	  /* number of the stack that the last line was of; 0: the thread's first stack */
};

/* Values of an open call whose line comes later. */
struct replay_values {
	char *arguments, *result;
	uint32_t next; /* of a place that is free: the next free one, + 1 */
};

struct replay {
	const struct replay_options *options;
	struct replay_printer *printer;
	struct out *out;
	struct replay_item *queue;
	uint64_t head, tail; /* counts; index in queue = count % QUEUE_SIZE */
	struct replay_thread *of;
	uint32_t threads;
	struct replay_item before; /* the line to come for a thread's calls from before the trace; value 0: none */
	struct walk walk;	   /* the pass over a trace that grows */
	struct replay_values *values;
	uint32_t values_count, values_room, values_free; /* free: the first free place, + 1 */
	bool shows_self;
	bool at_exit_only; /* --min: calls are shown as they end */
};

static struct replay_item *queued_item(const struct replay *replay, uint64_t count)
{
	return &replay->queue[count & (QUEUE_SIZE - 1)];
}

/* Print the thread's undecided entry, if it has one, as an opening brace. */
static void decide_entry(struct replay *replay, uint32_t thread)
{
	if (thread >= replay->threads || !replay->of[thread].pending)
		return;
	queued_item(replay, replay->of[thread].pending - 1)->ready = true;
	replay->of[thread].pending = 0;
}

static void print_item(struct replay *replay, struct walk *walk, struct replay_item *item)
{
	replay_print(replay->printer, walk, item);
	free(item->text);
	free(item->result);
	item->text = item->result = NULL;
}

static void print_ready(struct replay *replay, struct walk *walk)
{
	for (; replay->head < replay->tail && queued_item(replay, replay->head)->ready; replay->head++)
		print_item(replay, walk, queued_item(replay, replay->head));
	if (replay->out->error)
		walk->error = replay->out->error;
}

static void make_room(struct replay *replay, struct walk *walk)
{
	if (replay->tail - replay->head < QUEUE_SIZE)
		return;
	decide_entry(replay, queued_item(replay, replay->head)->thread);
	print_ready(replay, walk);
}

/* Put the line for the calls of a thread that were open when the trace began. */
static void put_before(struct replay *replay, struct walk *walk)
{
	if (!replay->before.value)
		return;
	make_room(replay, walk);
	*queued_item(replay, replay->tail++) = replay->before;
	replay->before.value = 0;
	print_ready(replay, walk);
}

static void add_before(struct replay *replay, struct walk *walk, uint32_t thread, const struct call_frame *frame)
{
	struct replay_item *before = &replay->before;

	if (before->value && before->thread != thread)
		put_before(replay, walk);
	if (!before->value)
		*before = (struct replay_item){.ticks = frame->enter_ticks,
					       .thread = thread,
					       .function = frame->function,
					       .kind = REPLAY_BEFORE,
					       .ready = true};
	before->value++;
	before->innermost = frame->function;
}

/* The number of levels below a call that are not shown as such; parent: its caller, NULL = none. */
static uint32_t folded_levels(const struct replay *replay, const struct call_frame *parent)
{
	if (!parent || replay->options->all_levels)
		return 0;
	return parent->before ? parent->depth + 1 : FOLDS(parent->user);
}

static void push_frame(void *ctx, struct walk *walk, uint32_t thread, struct call_frame *frame)
{
	const struct call_frame *parent = frame->depth ? callstack_frame(walk->stack, thread, frame->depth - 1) : NULL;

	frame->user = FOLDED(folded_levels(ctx, parent));
}

static void put_item(struct replay *replay, struct walk *walk, const struct replay_item *item)
{
	decide_entry(replay, item->thread);
	put_before(replay, walk);
	make_room(replay, walk);
	*queued_item(replay, replay->tail++) = *item;
	if (item->ready)
		print_ready(replay, walk);
	else if (item->thread < replay->threads)
		replay->of[item->thread].pending = replay->tail;
}

/* Grow the array of threads to `count` if it has not the thread; false: no such thread, or no memory. */
static bool reach_thread(struct replay *replay, uint32_t thread, uint32_t count)
{
	struct replay_thread *grown;

	if (thread < replay->threads)
		return true;
	if (thread >= count)
		return false;
	grown = reallocarray(replay->of, count, sizeof(*grown));
	if (!grown)
		return false;
	memset(grown + replay->threads, 0, (count - replay->threads) * sizeof(*grown));
	replay->of = grown;
	replay->threads = count;
	return true;
}

static bool too_deep(const struct replay *replay, uint32_t depth)
{
	return replay->options->depth && depth >= replay->options->depth;
}

/* Put a line that names the thread's stack, if it is another than that of the thread's last line. */
static void show_stack(struct replay *replay, struct walk *walk, uint32_t thread, uint64_t ticks, uint32_t depth)
{
	struct replay_item item = {.ticks = ticks,
				   .value = callstack_current(walk->stack, thread),
				   .thread = thread,
				   .depth = depth,
				   .kind = REPLAY_STACK,
				   .ready = true};

	if (thread >= replay->threads || replay->of[thread].stack == item.value)
		return;
	replay->of[thread].stack = (uint32_t)item.value;
	put_item(replay, walk, &item);
}

static void put_entry(void *ctx, struct walk *walk, uint32_t thread, struct call_frame *frame)
{
	struct replay *replay = ctx;
	struct replay_item item = {.ticks = frame->enter_ticks,
				   .thread = thread,
				   .function = frame->function,
				   .depth = frame->depth - FOLDS(frame->user),
				   .kind = REPLAY_ENTER,
				   .before = frame->before,
				   .tail = frame->tail,
				   .ready = frame->before ||
					    !reach_thread(replay, thread, trace_thread_count(walk->trace))};

	if (replay->at_exit_only)
		return;
	if (frame->before && !replay->options->all_levels) {
		add_before(replay, walk, thread, frame);
		return;
	}
	if (too_deep(replay, item.depth))
		return;
	frame->user |= SHOWN;
	show_stack(replay, walk, thread, item.ticks, item.depth);
	put_item(replay, walk, &item);
}

/* The undecided entry of the call that ends, NULL when another line of the thread came since. */
static struct replay_item *own_entry(struct replay *replay, const struct call_closed *closed)
{
	struct replay_item *entry;

	if (closed->thread >= replay->threads || !replay->of[closed->thread].pending || !(closed->frame->user & SHOWN))
		return NULL;
	entry = queued_item(replay, replay->of[closed->thread].pending - 1);
	return entry->depth == closed->frame->depth - FOLDS(closed->frame->user) &&
			       entry->function == closed->frame->function
		       ? entry
		       : NULL;
}

/* The values of a frame, made if need be; NULL = no memory. */
static struct replay_values *values_of(struct replay *replay, struct call_frame *frame)
{
	uint32_t place = VALUES_OF(frame->user);

	if (place)
		return &replay->values[place - 1];
	if (replay->values_free) {
		place = replay->values_free;
		replay->values_free = replay->values[place - 1].next;
	} else {
		if (replay->values_count == replay->values_room) {
			uint32_t room = replay->values_room ? 2 * replay->values_room : 64;
			struct replay_values *more = reallocarray(replay->values, room, sizeof(*more));

			if (!more || room > VALUES_MAX)
				return NULL;
			replay->values = more;
			replay->values_room = room;
		}
		place = ++replay->values_count;
	}
	replay->values[place - 1] = (struct replay_values){0};
	frame->user |= VALUES(place);
	return &replay->values[place - 1];
}

/* Take the values of a frame that ends: the texts are the caller's. */
static struct replay_values take_values(struct replay *replay, const struct call_frame *frame)
{
	uint32_t place = VALUES_OF(frame->user);
	struct replay_values values = {0};

	if (!place)
		return values;
	values = replay->values[place - 1];
	replay->values[place - 1] = (struct replay_values){.next = replay->values_free};
	replay->values_free = place;
	return values;
}

static void drop_values(struct replay *replay, const struct call_frame *frame)
{
	struct replay_values values = take_values(replay, frame);

	free(values.arguments);
	free(values.result);
}

static void close_call(void *ctx, struct walk *walk, const struct call_closed *closed)
{
	struct replay *replay = ctx;
	struct replay_item *entry;
	struct replay_values values;
	struct replay_item item = {.ticks = closed->exit_ticks,
				   .thread = closed->thread,
				   .function = closed->frame->function,
				   .depth = closed->frame->depth - folded_levels(replay, closed->parent),
				   .kind = REPLAY_CLOSE,
				   .how = (uint8_t)closed->how,
				   .ready = true,
				   .tail = closed->frame->tail,
				   .named = !(closed->frame->user & SHOWN)};

	if (too_deep(replay, item.depth)) {
		drop_values(replay, closed->frame);
		return;
	}
	if (closed->frame->before && !replay->options->all_levels &&
	    (closed->how == CALL_LEFT || closed->how == CALL_OPEN))
		return; /* the line of put_before() has the call, and nobody knows when it ended */
	show_stack(replay, walk, item.thread, item.ticks, item.depth);
	entry = own_entry(replay, closed);
	item.timed = closed->frame->enter_known && closed->how != CALL_OPEN && closed->how != CALL_LOST;
	item.value = item.timed ? walk_duration_ns(walk, closed) : 0;
	item.self_ns = item.timed && replay->shows_self ? walk_self_ns(walk, closed) : 0;
	item.estimated = walk_duration_error_ns(walk, closed) > 0;
	values = take_values(replay, closed->frame);
	item.text = values.arguments;
	item.result = values.result;
	if (!entry) {
		put_item(replay, walk, &item);
		return;
	}
	item.kind = REPLAY_LEAF;
	item.ticks = entry->ticks;
	item.text = entry->text; /* its arguments */
	free(values.arguments);
	*entry = item;
	replay->of[closed->thread].pending = 0;
	print_ready(replay, walk);
}

/* Indent a line as one within the innermost open call. */
static void place_item(struct replay *replay, struct walk *walk, struct replay_item *item)
{
	item->depth = callstack_depth(walk->stack, item->thread);
	if (item->depth)
		item->depth -= folded_levels(replay, callstack_frame(walk->stack, item->thread, item->depth - 1));
	if (too_deep(replay, item->depth))
		item->depth = replay->options->depth;
	show_stack(replay, walk, item->thread, item->ticks, item->depth);
}

/* Keep the values of the innermost call for its line.  False: it is another function's, or not shown. */
static bool keep_values(struct replay *replay, const struct walk *walk, uint32_t thread,
			const struct walk_message *message)
{
	uint32_t depth = callstack_depth(walk->stack, thread);
	struct call_frame *frame = depth ? callstack_frame(walk->stack, thread, depth - 1) : NULL;
	struct replay_item *entry;
	struct replay_values *values;
	char **place;

	if (!frame || frame->function != message->function)
		return false;
	if (message->role == TRACE_ARGUMENTS && frame->user & SHOWN && thread < replay->threads &&
	    replay->of[thread].pending) {
		entry = queued_item(replay, replay->of[thread].pending - 1);
		place = entry->function == frame->function && !entry->text ? &entry->text : NULL;
	} else {
		values = values_of(replay, frame);
		place = !values ? NULL : message->role == TRACE_RESULT ? &values->result : &values->arguments;
	}
	if (!place)
		return false;
	free(*place);
	*place = strdup(message->text);
	return true;
}

static void put_message(void *ctx, struct walk *walk, const struct trace_event *event,
			const struct walk_message *message)
{
	uint32_t type = calltap_event_type(event->id);
	bool bare = type == CALLTAP_EVENT_MARK || type == CALLTAP_EVENT_VERDICT;
	/* A trace that grows shows a call before its verdict is known (trace/verdicts.h). */
	const char *text = type == CALLTAP_EVENT_VERDICT ? "its condition is false" : message->text;
	struct replay_item item = {
		.ticks = event->ticks, .thread = event->thread, .kind = REPLAY_MESSAGE, .ready = true};

	if (message->role != TRACE_ITSELF && keep_values(ctx, walk, event->thread, message))
		return;
	if (asprintf(&item.text, "%s%s%s", bare ? "" : message->name, bare ? "" : ": ", text) < 0) {
		walk->error = -ENOMEM;
		return;
	}
	place_item(ctx, walk, &item);
	put_item(ctx, walk, &item);
}

static void put_event(void *ctx, struct walk *walk, const struct trace_event *event)
{
	struct replay *replay = ctx;
	struct replay_item item = {.ticks = event->ticks,
				   .value = event->extra,
				   .thread = event->thread,
				   .function = event->id,
				   .ready = true};

	switch (event->kind) {
	case CALLTAP_REC_CALL:
		item.kind = REPLAY_CALL;
		break;
	case CALLTAP_REC_LOST:
		item.kind = REPLAY_LOST;
		break;
	case CALLTAP_REC_WAIT:
		item.kind = REPLAY_WAIT;
		item.value = trace_duration_ns(walk->trace, event->extra);
		place_item(replay, walk, &item);
		break;
	default:
		/* A stack switch: the pending entry belongs to the stack that the thread left. */
		put_before(replay, walk);
		decide_entry(replay, event->thread);
		print_ready(replay, walk);
		return;
	}
	put_item(replay, walk, &item);
}

static const struct walk_ops replaying = {.late_stacks = true,
					  .on_push = push_frame,
					  .on_enter = put_entry,
					  .on_close = close_call,
					  .on_event = put_event,
					  .on_message = put_message};

static int init_replay(struct replay *replay, const struct trace *trace, const struct view_filter *filter,
		       const struct replay_options *options, struct out *out)
{
	int err;

	*replay = (struct replay){.options = options,
				  .out = out,
				  .threads = trace_thread_count(trace),
				  .shows_self = replay_columns_have(&options->columns, COLUMN_SELF),
				  .at_exit_only = filter->min_ns > 0};
	err = replay_printer_create(&replay->printer, trace, options, out);
	replay->queue = malloc(QUEUE_SIZE * sizeof(*replay->queue));
	replay->of = calloc((size_t)replay->threads + 1, sizeof(*replay->of));
	return err || !replay->queue || !replay->of ? -ENOMEM : 0;
}

static void clear_replay(struct replay *replay)
{
	for (; replay->queue && replay->head < replay->tail; replay->head++) {
		free(queued_item(replay, replay->head)->text);
		free(queued_item(replay, replay->head)->result);
	}
	for (uint32_t i = 0; i < replay->values_count; i++) {
		free(replay->values[i].arguments);
		free(replay->values[i].result);
	}
	free(replay->values);
	free(replay->of);
	free(replay->queue);
	replay_printer_destroy(replay->printer);
}

static void decide_all(struct replay *replay, struct walk *walk)
{
	put_before(replay, walk);
	for (uint32_t i = 0; i < replay->threads; i++)
		decide_entry(replay, i);
	print_ready(replay, walk);
}

int replay_run(const struct trace *trace, const struct view_filter *filter, const struct replay_options *options,
	       struct out *out, struct walk *walk, struct calltap_diag *diag)
{
	struct replay replay;
	int err = init_replay(&replay, trace, filter, options, out);

	if (err) {
		calltap_diag_set(diag, err, "out of memory for the lines of the replay");
	} else {
		replay_print_heading(replay.printer);
		err = walk_run(walk, trace, filter, &replaying, &replay, diag);
		decide_all(&replay, walk);
		if (!err)
			replay_print_end(replay.printer);
	}
	clear_replay(&replay);
	return err;
}

int replay_create(struct replay **out_replay, const struct trace *trace, const struct view_filter *filter,
		  const struct replay_options *options, struct out *out)
{
	struct replay *replay = malloc(sizeof(*replay));
	int err;

	*out_replay = NULL;
	if (!replay)
		return -ENOMEM;
	err = init_replay(replay, trace, filter, options, out);
	if (!err)
		err = walk_open(&replay->walk, trace, filter, &replaying, replay);
	if (err) {
		replay_destroy(replay);
		return err;
	}
	replay_print_heading(replay->printer);
	*out_replay = replay;
	return 0;
}

int replay_feed(struct replay *replay, const struct trace_event *event)
{
	return walk_feed(&replay->walk, event);
}

int replay_settle(struct replay *replay, uint64_t before_ticks)
{
	while (replay->head < replay->tail && queued_item(replay, replay->head)->ticks < before_ticks) {
		decide_entry(replay, queued_item(replay, replay->head)->thread);
		print_ready(replay, &replay->walk);
	}
	return replay->walk.error;
}

int replay_end(struct replay *replay)
{
	int err = walk_end(&replay->walk);

	decide_all(replay, &replay->walk);
	replay_print_end(replay->printer);
	return err ? err : replay->walk.error;
}

void replay_destroy(struct replay *replay)
{
	if (!replay)
		return;
	walk_close(&replay->walk);
	clear_replay(replay);
	free(replay);
}
