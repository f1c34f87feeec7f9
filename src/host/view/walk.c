/*
 * The filtered pass over a trace; see walk.h.  Context: host.
 */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "chosen.h"
#include "headway.h"
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

uint64_t walk_error_ns(const struct walk *walk, uint64_t ticks, uint64_t lo, uint64_t hi)
{
	const struct trace_event event = {.ticks = ticks, .lo = lo, .hi = hi};

	return trace_duration_ns(walk->trace, trace_event_error(&event));
}

uint64_t walk_duration_error_ns(const struct walk *walk, const struct call_closed *closed)
{
	uint64_t span = span_ticks(closed), least = call_least_ticks(closed), most = call_most_ticks(closed);

	if (!call_is_estimated(closed) || !closed->frame->enter_known)
		return 0;
	least = least < span ? span - least : 0;
	most = most > span ? most - span : 0;
	return trace_duration_ns(walk->trace, least > most ? least : most);
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
	       (closed->frame->enter_known &&
		trace_duration_ns(walk->trace, span_ticks(closed) + closed->frame->cut_ticks) >= walk->filter->min_ns);
}

/* The call ended with its thread, before the window began; the pass comes to it at its end. */
static bool is_over(const struct walk *walk, const struct call_closed *closed)
{
	return closed->exit_ticks < walk->from_ticks;
}

static void closed_call(void *ctx, struct callstack *stack, const struct call_closed *closed)
{
	struct walk *walk = ctx;

	if (walk->ops->on_close && in_window(walk) && walk_wants(walk, closed->frame->function) &&
	    long_enough(walk, closed) && !is_over(walk, closed))
		walk->ops->on_close(walk->ctx, walk, closed);
	if (walk->ops->on_pop)
		walk->ops->on_pop(walk->ctx, walk, closed);
}

static unsigned judge_function(void *ctx, uint32_t function)
{
	return chosen_judge(((const struct walk *)ctx)->filter->chosen, function);
}

/* The callbacks that the pass needs: the call stacks do not tell a pass of calls that begin if it waits for none. */
static struct callstack_ops stack_ops(const struct walk *walk)
{
	return (struct callstack_ops){.judge = chosen_judges(walk->filter->chosen) ? judge_function : NULL,
				      .on_enter = walk->ops->on_push || walk->ops->on_enter ? begin_call : NULL,
				      .on_close = closed_call};
}

/* Enter the frames that were open on the thread when the trace began, once. */
static int begin_new_thread(struct walk *walk, uint32_t thread)
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

static inline int begin_thread(struct walk *walk, uint32_t thread)
{
	return thread < walk->threads && walk->begun[thread] ? 0 : begin_new_thread(walk, thread);
}

bool view_filter_has_thread(const struct view_filter *filter, const struct trace *trace, uint32_t index)
{
	const struct trace_thread *thread = trace_thread(trace, index);
	const struct trace_process *process = thread ? trace_process(trace, thread->process) : NULL;

	return thread && (!filter->tid || filter->tid == thread->tid) &&
	       (!filter->thread || filter->thread == index + 1) &&
	       (!filter->pid || (process && process->pid == filter->pid)) && chosen_has_thread(filter->chosen, index);
}

struct view_filter view_filter_whole(const struct view_filter *filter)
{
	struct view_filter whole = *filter;

	whole.function = NULL;
	whole.from_ns = whole.min_ns = 0;
	return whole;
}

/* The same as a cursor asks it. */
static bool wants_thread(const void *chosen, uint32_t thread)
{
	return chosen_has_thread(chosen, thread);
}

/* Enter the frames from before the trace of all selected threads, or of those that have no records. */
static int begin_threads(struct walk *walk, bool all)
{
	struct trace_stack stack;

	for (uint32_t i = 0; i < walk->threads; i++) {
		const struct trace_thread *thread = trace_thread(walk->trace, i);
		int err;

		if (!thread || !trace_thread_stack(walk->trace, i, &stack) || (thread->records && !all) ||
		    !view_filter_has_thread(walk->filter, walk->trace, i))
			continue;
		walk->now_ticks = stack.ticks;
		err = begin_thread(walk, i);
		if (err || walk->error)
			return err ? err : walk->error;
	}
	return 0;
}

/* False: the message is of a call that is hidden. */
static bool message_is_shown(const struct walk *walk, uint32_t thread, uint32_t function)
{
	const struct chosen *chosen = walk->filter->chosen;

	return !chosen_judges(chosen) ||
	       (chosen_judge(chosen, function) & (CALL_INSIDE | CALL_OUTSIDE) && callstack_shows(walk->stack, thread));
}

static void show_message(struct walk *walk, const struct trace_event *event)
{
	char text[TRACE_EVENT_TEXT];
	struct walk_message message = {.text = text};

	if (!walk->ops->on_message)
		return;
	message.role = trace_event_role(walk->trace, event);
	message.function = trace_event_function(walk->trace, event);
	if (message.function != TRACE_NONE &&
	    (!walk_wants(walk, message.function) || !message_is_shown(walk, event->thread, message.function)))
		return;
	message.name = trace_event_text(walk->trace, event, text);
	if (message.name)
		walk->ops->on_message(walk->ctx, walk, event, &message);
	else
		walk->undescribed++;
}

/* False: a call of the tracer `function` is left out; its trees are not known. */
static bool call_is_shown(const struct walk *walk, uint32_t function)
{
	return !chosen_judges(walk->filter->chosen) || chosen_judge(walk->filter->chosen, function) & CALL_OUTSIDE;
}

/* Hand the event to the consumer, if it is of a kind that the stacks do not turn into calls. */
static void show_event(struct walk *walk, const struct trace_event *event)
{
	if (!in_window(walk))
		return;
	switch ((enum calltap_record_kind)event->kind) {
	case CALLTAP_REC_CALL:
		if (!walk_wants(walk, event->id) || !call_is_shown(walk, event->id))
			return;
		break;
	case CALLTAP_REC_STACK:
		/* Behind a loss: the thread may be where it was. */
		if (event->id && (!event->extra || callstack_is_on(walk->stack, event->thread, event->extra)))
			return;
		break;
	case CALLTAP_REC_LOST:
		walk->lost += event->extra;
		break;
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
	case CALLTAP_REC_BRIEF_ENTRY:
	case CALLTAP_REC_BRIEF_EXIT:
		return; /* ENTRY and EXIT by now */
	}
	if (walk->ops->on_event)
		walk->ops->on_event(walk->ctx, walk, event);
}

static void begin_window(struct walk *walk)
{
	walk->is_cut = true;
	if (walk->ops->cuts && walk->from_ticks)
		callstack_cut(walk->stack, walk->from_ticks);
}

int walk_feed(struct walk *walk, const struct trace_event *event)
{
	int err;

	walk->now_ticks = event->ticks;
	if (!walk->is_cut && event->ticks >= walk->from_ticks)
		begin_window(walk);
	err = begin_thread(walk, event->thread);
	if (err)
		return err;
	if (event->ticks > walk->last_ticks)
		walk->last_ticks = event->ticks;
	if (event->kind != CALLTAP_REC_ENTRY && event->kind != CALLTAP_REC_EXIT)
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
		headway_add(walk->filter->headway, 1);
		if (event.ticks > walk->to_ticks) {
			walk->is_beyond = true;
			break;
		}
		err = walk_feed(walk, &event);
		if (err)
			return err;
	}
	return walk_end(walk);
}

int walk_end(struct walk *walk)
{
	/* All that is in the window are calls that were open throughout. */
	if (!walk->is_cut && walk->is_beyond) {
		begin_window(walk);
		walk->now_ticks = walk->from_ticks;
	}
	/* Calls that were open when --time ended the pass end with the window. */
	callstack_finish(walk->stack, walk->to_ticks);
	walk->gap_ticks = callstack_gaps(walk->stack);
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
	struct callstack_ops stacks;
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
	stacks = stack_ops(walk);
	return err ? err : callstack_create(&walk->stack, trace, &stacks, walk);
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

struct noting {
	struct headway *headway;
	uint64_t records;
	bool any;
};

static void note_events(void *of, uint64_t events)
{
	struct noting *noting = of;

	if (!noting->any)
		headway_begin(noting->headway, "reading times", noting->records);
	noting->any = true;
	headway_add(noting->headway, events);
}

static int open_cursor(struct trace_cursor **cursor, struct walk *walk, struct trace_select *select,
		       struct calltap_diag *diag)
{
	struct headway *headway = walk->filter->headway;
	uint64_t records = headway ? view_filter_records(walk->filter, walk->trace) : 0;
	struct noting noting = {.headway = headway, .records = records};
	int err;

	/* Opening may make a pass of its own. */
	select->noted = headway ? note_events : NULL;
	select->of = &noting;
	err = trace_cursor_open(cursor, walk->trace, select, diag);
	headway_begin_pass(headway, "reading", records, walk->filter->pass,
			   walk->filter->passes ? walk->filter->passes : 1);
	return err;
}

struct view_losses view_filter_losses(const struct view_filter *filter, const struct trace *trace)
{
	struct view_losses losses = {0};

	for (uint32_t i = 0; i < trace_thread_count(trace); i++) {
		if (!view_filter_has_thread(filter, trace, i))
			continue;
		losses.records += trace_thread(trace, i)->lost;
		losses.overwritten |= trace_thread(trace, i)->history_ticks != 0;
	}
	return losses;
}

uint64_t view_filter_records(const struct view_filter *filter, const struct trace *trace)
{
	uint64_t records = 0;

	for (uint32_t i = 0; i < trace_thread_count(trace); i++)
		if (view_filter_has_thread(filter, trace, i))
			records += trace_thread(trace, i)->records;
	return records;
}

int walk_run(struct walk *walk, const struct trace *trace, const struct view_filter *filter, const struct walk_ops *ops,
	     void *ctx, struct calltap_diag *diag)
{
	struct trace_select select = {.size = sizeof(select),
				      .thread = filter->thread ? filter->thread - 1 : TRACE_NONE,
				      .pid = filter->pid,
				      .tid = filter->tid,
				      .wants = filter->chosen ? wants_thread : NULL,
				      .ctx = filter->chosen};
	struct trace_cursor *cursor = NULL;
	int err = walk_open(walk, trace, filter, ops, ctx);

	if (!err && walk->wanted && !walk->any_wanted)
		err = calltap_diag_set(diag, -ENOENT,
				       "no function of the trace matches '%s': 'calltap report' lists their names, "
				       "and '*part*' matches a part of one",
				       filter->function);
	if (!err)
		err = open_cursor(&cursor, walk, &select, diag);
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
