/*
 * The filtered pass over a trace; see walk.h.  Context: host.
 */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "walk.h"

const char *walk_end_text(enum call_end how)
{
	switch (how) {
	case CALL_RETURNED:
		return "returned";
	case CALL_UNWOUND:
		return "unwound";
	case CALL_TAILED:
		return "tail";
	case CALL_OPEN:
		return "open";
	case CALL_LOST:
		return "lost";
	case CALL_LEFT:
		return "left";
	}
	return "unknown";
}

const char *walk_entered_text(const struct call_frame *frame)
{
	return frame->before ? "before the trace" : frame->tail ? "by a tail call" : NULL;
}

uint64_t walk_since_ns(const struct walk *walk, uint64_t ticks)
{
	uint64_t start = trace_start_ticks(walk->trace);

	return ticks > start ? trace_duration_ns(walk->trace, ticks - start) : 0;
}

static uint64_t span_ticks(const struct call_closed *closed)
{
	const struct call_frame *frame = closed->frame;

	if (frame->before)
		return frame->children_ticks;
	if (!frame->enter_known || closed->exit_ticks < frame->enter_ticks)
		return 0;
	return closed->exit_ticks - frame->enter_ticks;
}

uint64_t walk_duration_ns(const struct walk *walk, const struct call_closed *closed)
{
	return trace_duration_ns(walk->trace, span_ticks(closed));
}

static uint64_t running_ticks(const struct call_closed *closed)
{
	uint64_t span = span_ticks(closed), away = closed->frame->before ? 0 : closed->away_ticks;

	return span > away ? span - away : 0;
}

uint64_t walk_running_ns(const struct walk *walk, const struct call_closed *closed)
{
	return trace_duration_ns(walk->trace, running_ticks(closed));
}

uint64_t walk_self_ns(const struct walk *walk, const struct call_closed *closed)
{
	uint64_t span = running_ticks(closed);
	uint64_t below = closed->frame->children_ticks;

	return trace_duration_ns(walk->trace, span > below ? span - below : 0);
}

static bool matches_filter(const struct walk *walk, uint32_t id)
{
	return trace_function_matches(walk->trace, id, walk->filter->function);
}

bool walk_wants(const struct walk *walk, uint32_t function)
{
	if (!walk->wanted)
		return true;
	if (function >= TRACE_UNTRACED && function - TRACE_UNTRACED < walk->untraced)
		return walk->wanted[walk->functions + function - TRACE_UNTRACED];
	if (function < walk->functions)
		return walk->wanted[function];
	return walk->filter->function && matches_filter(walk, function); /* new since the pass was opened */
}

static bool in_window(const struct walk *walk)
{
	return walk->now_ticks >= walk->from_ticks && walk->now_ticks <= walk->to_ticks && !walk->error;
}

static void begin_call(void *ctx, struct callstack *stack, uint32_t thread, struct call_frame *frame)
{
	struct walk *walk = ctx;

	if (walk->ops->on_push)
		walk->ops->on_push(walk->ctx, walk, thread, frame);
	if (walk->ops->on_enter && in_window(walk) && walk_wants(walk, frame->function))
		walk->ops->on_enter(walk->ctx, walk, thread, frame);
}

static bool long_enough(const struct walk *walk, const struct call_closed *closed)
{
	return !walk->filter->min_ns ||
	       (closed->frame->enter_known && walk_duration_ns(walk, closed) >= walk->filter->min_ns);
}

static void closed_call(void *ctx, struct callstack *stack, const struct call_closed *closed)
{
	struct walk *walk = ctx;

	if (walk->ops->on_close && in_window(walk) && walk_wants(walk, closed->frame->function) &&
	    long_enough(walk, closed))
		walk->ops->on_close(walk->ctx, walk, closed);
	if (walk->ops->on_pop)
		walk->ops->on_pop(walk->ctx, walk, closed);
}

static const struct callstack_ops stack_ops = {.on_enter = begin_call, .on_close = closed_call};

/* Enter the frames that were open on the thread when the trace began, once. */
static int begin_thread(struct walk *walk, uint32_t thread)
{
	if (thread >= walk->threads) { /* the thread is new since the pass was opened */
		uint32_t count = trace_thread_count(walk->trace);
		bool *begun = thread < count ? realloc(walk->begun, count * sizeof(*begun)) : NULL;

		if (!begun)
			return thread < count ? -ENOMEM : 0;
		memset(begun + walk->threads, 0, (count - walk->threads) * sizeof(*begun));
		walk->begun = begun;
		walk->threads = count;
	}
	if (walk->begun[thread])
		return 0;
	walk->begun[thread] = true;
	return callstack_begin(walk->stack, thread);
}

static bool is_selected(const struct walk *walk, const struct trace_thread *thread)
{
	const struct trace_process *process = trace_process(walk->trace, thread->process);

	return (!walk->filter->tid || walk->filter->tid == thread->tid) &&
	       (!walk->filter->pid || (process && process->pid == walk->filter->pid));
}

/* Enter the frames from before the trace of all selected threads, or of those that have no records. */
static int begin_threads(struct walk *walk, bool all)
{
	struct trace_stack stack;

	for (uint32_t i = 0; i < walk->threads; i++) {
		const struct trace_thread *thread = trace_thread(walk->trace, i);
		int err;

		if (!thread || !trace_thread_stack(walk->trace, i, &stack) || (thread->records && !all) ||
		    !is_selected(walk, thread))
			continue;
		walk->now_ticks = stack.ticks;
		err = begin_thread(walk, i);
		if (err || walk->error)
			return err ? err : walk->error;
	}
	return 0;
}

static void show_message(struct walk *walk, const struct trace_event *event)
{
	char text[TRACE_EVENT_TEXT];
	struct walk_message message = {.text = text};

	if (!walk->ops->on_message)
		return;
	message.role = trace_event_role(walk->trace, event);
	message.function = trace_event_function(walk->trace, event);
	if (message.function != TRACE_NONE && !walk_wants(walk, message.function))
		return;
	message.name = trace_event_text(walk->trace, event, text);
	if (message.name)
		walk->ops->on_message(walk->ctx, walk, event, &message);
	else
		walk->undescribed++;
}

/* Hand the event to the consumer, if it is of a kind that the stacks do not turn into calls. */
static void show_event(struct walk *walk, const struct trace_event *event)
{
	if (!in_window(walk))
		return;
	switch ((enum calltap_record_kind)event->kind) {
	case CALLTAP_REC_CALL:
		if (!walk_wants(walk, event->id))
			return;
		break;
	case CALLTAP_REC_STACK:
	case CALLTAP_REC_LOST:
	case CALLTAP_REC_WAIT:
		break;
	case CALLTAP_REC_EVENT:
		show_message(walk, event);
		return;
	case CALLTAP_REC_ENTRY:
	case CALLTAP_REC_EXIT:
	case CALLTAP_REC_TAIL:
	case CALLTAP_REC_UNWIND:
	case CALLTAP_REC_LANDING:
	case CALLTAP_REC_RISE:
		return; /* the stacks turn these kinds into calls */
	case CALLTAP_REC_NONE:
	case CALLTAP_REC_TIME:
	case CALLTAP_REC_OPEN:
	case CALLTAP_REC_KINDS:
		return; /* in no file */
	}
	if (walk->ops->on_event)
		walk->ops->on_event(walk->ctx, walk, event);
}

int walk_feed(struct walk *walk, const struct trace_event *event)
{
	int err;

	walk->now_ticks = event->ticks;
	err = begin_thread(walk, event->thread);
	if (err)
		return err;
	if (event->ticks > walk->last_ticks)
		walk->last_ticks = event->ticks;
	show_event(walk, event);
	err = callstack_feed(walk->stack, event);
	if (err)
		return err;
	return walk->error;
}

/* Damage that keeps the cursor from getting on must not spin here: the pass ends after this many damages in a row. */
#define DAMAGES_IN_A_ROW 100000u

static int run_pass(struct walk *walk, struct trace_cursor *cursor)
{
	struct calltap_diag damage = {0};
	struct trace_event event;
	unsigned in_a_row = 0;
	int err;

	while ((err = trace_cursor_next(cursor, &event, &damage))) {
		if (err == -ENOMEM)
			return err;
		if (err < 0) {
			if (!walk->damages++)
				walk->damage = damage;
			if (++in_a_row > DAMAGES_IN_A_ROW)
				break;
			continue;
		}
		in_a_row = 0;
		if (event.ticks > walk->to_ticks)
			break;
		err = walk_feed(walk, &event);
		if (err)
			return err;
	}
	return walk_end(walk);
}

int walk_end(struct walk *walk)
{
	/* Calls that were open when --time ended the pass end with the window. */
	callstack_finish(walk->stack, walk->to_ticks);
	return walk->error;
}

static uint64_t ticks_at(const struct trace *trace, uint64_t ns)
{
	double ticks = (double)ns * trace_ticks_per_ns(trace);
	uint64_t start = trace_start_ticks(trace);

	if (ns == UINT64_MAX || !(ticks < 1e19) || (uint64_t)ticks > UINT64_MAX - start)
		return UINT64_MAX;
	return start + (uint64_t)llround(ticks);
}

static int mark_wanted(struct walk *walk)
{
	walk->functions = trace_function_count(walk->trace);
	walk->untraced = trace_untraced_count(walk->trace);
	if (!walk->filter->function)
		return 0;
	walk->wanted = calloc((size_t)walk->functions + walk->untraced + 1, sizeof(*walk->wanted));
	if (!walk->wanted)
		return -ENOMEM;
	for (uint32_t i = 0; i < walk->functions + walk->untraced; i++) {
		walk->wanted[i] = matches_filter(walk, i < walk->functions ? i : TRACE_UNTRACED + i - walk->functions);
		walk->any_wanted |= walk->wanted[i];
	}
	return 0;
}

int walk_open(struct walk *walk, const struct trace *trace, const struct view_filter *filter,
	      const struct walk_ops *ops, void *ctx)
{
	int err;

	memset(walk, 0, sizeof(*walk));
	walk->trace = trace;
	walk->filter = filter;
	walk->ops = ops;
	walk->ctx = ctx;
	walk->from_ticks = filter->from_ns ? ticks_at(trace, filter->from_ns) : 0;
	walk->to_ticks = ticks_at(trace, filter->to_ns);
	walk->threads = trace_thread_count(trace);
	walk->begun = calloc((size_t)walk->threads + 1, sizeof(*walk->begun));
	err = walk->begun ? mark_wanted(walk) : -ENOMEM;
	return err ? err : callstack_create(&walk->stack, trace, &stack_ops, walk);
}

void walk_close(struct walk *walk)
{
	callstack_destroy(walk->stack);
	free(walk->wanted);
	free(walk->begun);
	walk->stack = NULL;
	walk->wanted = NULL;
	walk->begun = NULL;
}

int walk_run(struct walk *walk, const struct trace *trace, const struct view_filter *filter, const struct walk_ops *ops,
	     void *ctx, struct calltap_diag *diag)
{
	struct trace_select select = {
		.size = sizeof(select), .thread = TRACE_NONE, .pid = filter->pid, .tid = filter->tid};
	struct trace_cursor *cursor = NULL;
	int err = walk_open(walk, trace, filter, ops, ctx);

	if (!err && walk->wanted && !walk->any_wanted)
		err = calltap_diag_set(diag, -ENOENT,
				       "no function of the trace matches '%s': 'calltap report' lists their names, "
				       "and '*part*' matches a part of one",
				       filter->function);
	if (!err)
		err = trace_cursor_open(&cursor, trace, &select, diag);
	if (!err)
		err = begin_threads(walk, !ops->late_stacks);
	if (!err)
		err = run_pass(walk, cursor);
	trace_cursor_close(cursor);
	walk_close(walk);
	if (err == -ENOMEM)
		calltap_diag_set(diag, err, "out of memory: choose less with --time, --tid or -f");
	return err;
}
