/* The calls of a function; see calls.h.  Context: host. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <host/text.h>

#include "calls.h"

#define FIRST_ROOM 1024u

struct reading {
	struct calls *calls;
	struct progress *progress;
};

void calls_clear(struct calls *calls)
{
	free(calls->calls);
	calls->calls = NULL;
	calls->count = calls->room = 0;
	calls->seen = 0;
}

static int compare_times(const void *left, const void *right)
{
	const struct calls_call *a = left, *b = right;

	if (a->enter_ticks != b->enter_ticks)
		return a->enter_ticks < b->enter_ticks ? -1 : 1;
	return a->thread != b->thread ? (a->thread < b->thread ? -1 : 1)
	       : a->depth < b->depth  ? -1
				      : a->depth > b->depth;
}

/* The order of "slowest first": ties by time and thread, so that it never depends on luck. */
static int compare_slow(const void *left, const void *right)
{
	const struct calls_call *a = left, *b = right;

	if (a->ns != b->ns)
		return a->ns < b->ns ? 1 : -1;
	return compare_times(left, right);
}

static int make_room(struct calls *calls)
{
	size_t room = calls->room ? calls->room * 2 : FIRST_ROOM;
	struct calls_call *grown;

	if (calls->count < calls->room)
		return 0;
	room = room < calls->room_max ? room : calls->room_max;
	grown = reallocarray(calls->calls, room, sizeof(*grown));
	if (!grown)
		return -ENOMEM;
	calls->calls = grown;
	calls->room = room;
	return 0;
}

/* The kept calls are a heap with the fastest on top: replace that one. */
static void replace_fastest(struct calls *calls, const struct calls_call *call)
{
	size_t at = 0;

	if (compare_slow(call, &calls->calls[0]) >= 0)
		return;
	for (;;) {
		size_t child = 2 * at + 1;

		if (child + 1 < calls->count && compare_slow(&calls->calls[child + 1], &calls->calls[child]) > 0)
			child++;
		if (child >= calls->count || compare_slow(&calls->calls[child], call) <= 0)
			break;
		calls->calls[at] = calls->calls[child];
		at = child;
	}
	calls->calls[at] = *call;
}

static int keep_call(struct calls *calls, const struct calls_call *call)
{
	uint64_t number = calls->seen++;
	size_t at;
	int err;

	if (!calls->slowest && number < calls->first)
		return 0;
	if (calls->count == calls->room_max) {
		if (calls->slowest)
			replace_fastest(calls, call);
		return 0;
	}
	err = make_room(calls);
	if (err)
		return err;
	at = calls->count++;
	if (calls->slowest)
		for (; at && compare_slow(&calls->calls[(at - 1) / 2], call) < 0; at = (at - 1) / 2)
			calls->calls[at] = calls->calls[(at - 1) / 2];
	calls->calls[at] = *call;
	return 0;
}

static void close_call(void *ctx, struct walk *walk, const struct call_closed *closed)
{
	struct reading *reading = ctx;
	const struct call_frame *frame = closed->frame;
	int err = progress_step(reading->progress);

	if (!err && frame->function == reading->calls->function && !frame->before)
		err = keep_call(reading->calls,
				&(struct calls_call){.enter_ticks = frame->enter_ticks,
						     .start_ns = walk_since_ns(walk, frame->enter_ticks),
						     .ns = walk_running_ns(walk, closed),
						     .self_ns = walk_self_ns(walk, closed),
						     .thread = closed->thread,
						     .depth = frame->depth,
						     .how = (uint8_t)closed->how,
						     .estimated = call_is_estimated(closed),
						     .begun = frame->enter_known});
	walk->error = err ? err : walk->error;
}

static const struct walk_ops reading_ops = {.on_close = close_call};

int calls_read(struct calls *calls, const struct trace *trace, const struct view_filter *filter,
	       struct progress *progress, struct walk *walk, struct calltap_diag *diag)
{
	struct reading reading = {calls, progress};
	int err;

	calls_clear(calls);
	if (!calls->room_max)
		calls->room_max = CALLS_MAX;
	progress_begin(progress, 0, 100);
	err = walk_run(walk, trace, filter, &reading_ops, &reading, diag);
	if (calls->count)
		qsort(calls->calls, calls->count, sizeof(*calls->calls), calls->slowest ? compare_slow : compare_times);
	return err;
}

struct opening {
	struct inside *inside;
	struct progress *progress;
	uint32_t function;
	const struct calls_call *call;
	bool open, done;
};

void inside_clear(struct inside *inside)
{
	for (size_t i = 0; i < inside->count; i++)
		free(inside->lines[i].values);
	free(inside->lines);
	inside->lines = NULL;
	inside->count = inside->room = inside->at = 0;
	inside->beyond = 0;
}

/* Add a line for the frame, whose user word becomes the line's number + 1. */
static int add_line(struct inside *inside, const struct walk *walk, struct call_frame *frame)
{
	if (inside->count == inside->room_max) {
		inside->beyond++;
		return 0;
	}
	if (inside->count == inside->room) {
		size_t room = inside->room ? inside->room * 2 : FIRST_ROOM;
		struct inside_line *lines;

		room = room < inside->room_max ? room : inside->room_max;
		lines = reallocarray(inside->lines, room, sizeof(*lines));
		if (!lines)
			return -ENOMEM;
		inside->lines = lines;
		inside->room = room;
	}
	inside->lines[inside->count++] = (struct inside_line){.function = frame->function,
							      .depth = frame->depth,
							      .start_ns = walk_since_ns(walk, frame->enter_ticks)};
	frame->user = inside->count;
	return 0;
}

static bool is_call(const struct opening *opening, uint32_t thread, const struct call_frame *frame)
{
	const struct calls_call *call = opening->call;

	return frame->function == opening->function && thread == call->thread && frame->depth == call->depth &&
	       frame->enter_ticks == call->enter_ticks;
}

static void open_frame(void *ctx, struct walk *walk, uint32_t thread, struct call_frame *frame)
{
	struct opening *opening = ctx;
	int err = progress_step(opening->progress);

	if (!err && !opening->open && !opening->done && is_call(opening, thread, frame)) {
		opening->open = true;
		for (uint32_t i = 0; !err && i < frame->depth; i++)
			err = add_line(opening->inside, walk, callstack_frame(walk->stack, thread, i));
		opening->inside->at = opening->inside->count;
		if (!err)
			err = add_line(opening->inside, walk, frame);
	} else if (!err && opening->open && thread == opening->call->thread) {
		err = add_line(opening->inside, walk, frame);
	}
	walk->error = err ? err : walk->error;
}

static void close_frame(void *ctx, struct walk *walk, const struct call_closed *closed)
{
	struct opening *opening = ctx;
	struct inside *inside = opening->inside;
	const struct call_frame *frame = closed->frame;

	if (!opening->open || closed->thread != opening->call->thread)
		return;
	if (frame->user && frame->user <= inside->count) {
		struct inside_line *line = &inside->lines[frame->user - 1];

		line->ns = walk_running_ns(walk, closed);
		line->ended = frame->enter_known;
		line->estimated = call_is_estimated(closed);
	}
	if (is_call(opening, closed->thread, frame)) {
		opening->open = false;
		opening->done = true;
		walk->error = walk->error ? walk->error : -EALREADY; /* what comes later is not wanted */
	}
}

/* Keep the values of the innermost call. */
static void take_values(void *ctx, struct walk *walk, const struct trace_event *event,
			const struct walk_message *message)
{
	struct opening *opening = ctx;
	struct inside *inside = opening->inside;
	uint32_t depth = callstack_depth(walk->stack, event->thread);
	const struct call_frame *frame = depth ? callstack_frame(walk->stack, event->thread, depth - 1) : NULL;
	char text[INSIDE_VALUES_MAX * 2], clean[INSIDE_VALUES_MAX];
	struct inside_line *line;

	if (!opening->open || event->thread != opening->call->thread || message->role == TRACE_ITSELF || !frame ||
	    frame->function != message->function || !frame->user || frame->user > inside->count)
		return;
	line = &inside->lines[frame->user - 1];
	text_clean(clean, sizeof(clean), message->text);
	snprintf(text, sizeof(text), message->role == TRACE_RESULT ? "%s = %s" : "%s(%s)",
		 line->values ? line->values : "", clean);
	text[INSIDE_VALUES_MAX - 1] = '\0';
	free(line->values);
	line->values = strdup(text);
	if (!line->values)
		walk->error = -ENOMEM;
}

static const struct walk_ops opening_ops = {.on_push = open_frame, .on_pop = close_frame, .on_message = take_values};

int inside_read(struct inside *inside, const struct trace *trace, const struct view_filter *filter, uint32_t function,
		const struct calls_call *call, struct progress *progress, struct calltap_diag *diag)
{
	struct opening opening = {.inside = inside, .progress = progress, .function = function, .call = call};
	struct view_filter of_thread = *filter;
	struct walk walk;
	int err;

	inside_clear(inside);
	if (!inside->room_max)
		inside->room_max = INSIDE_MAX;
	of_thread.thread = call->thread + 1;
	of_thread.function = NULL;
	of_thread.min_ns = 0;
	progress_begin(progress, 0, 100);
	err = walk_run(&walk, trace, &of_thread, &opening_ops, &opening, diag);
	return err == -EALREADY ? 0 : err;
}
