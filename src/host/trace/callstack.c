/*
 * Open calls per thread and stack, rebuilt from events (callstack.h).
 *
 * Context: host; called by every view and export.  A thread has one stack until a STACK event says that it runs on
 * another one (coroutines, signal stacks).  Every strange sequence has one meaning here:
 *
 *   STACK: the thread goes on with that stack's open calls.  Time on other stacks does not count for open calls and
 *   their callers, except the time from the switch to the event after it: only that event tells of the switch.
 *
 *   EXIT of a frame that is not the innermost: the frames above it ended without a record; CALL_LOST if they were open
 *   when records were lost, else CALL_UNWOUND.
 *
 *   EXIT of no open frame: its entry was before the trace, in lost records, or on another thread.  The call closes
 *   alone; the open frames stay open.
 *
 *   LOST (also the cursor's own, for missing chunks): all frames stay open; a later exit shows which of them were still
 *   there.  A STACK with a number behind it tells that at once: so many are still open, and the others end there.  What
 *   was entered meanwhile and is still open has no entry here; its exit is one of no open frame.
 *
 *   TAIL: one frame of the program has one more name.  The new name nests in the name that tail-called it; where a name
 *   ends, the names below it in the same frame end with it.  UNWIND counts frames, not names.  A function may tail-call
 *   for the second time within a frame (a loop: even() and odd() tail-call each other).  Then the call of it that is
 *   open already makes the tail call, and the names above that call close.  So a frame never has more names than the
 *   loop has functions, plus one, and the parent of each name is a call of the function that tail-called it.
 *
 *   A leaf has no frame that an UNWIND could count (clock.md).  It ends with the frame around it, by the LANDING of a
 * jump that leaves that frame innermost, or by that frame's tail call.
 *
 *   A hidden name (callstack.h) lasts until the next tail call, where the names below it say as much: so a loop through
 *   hidden functions nests as it would without them.
 *
 *   Frames from before the trace leave no record when they end, so no EXIT closes them: an EXIT of their function is
 *   one of no open frame.  A RISE shows which of them are over.  Where records are overwritten, a RISE may be missing;
 *   after a loss none of these frames is known to be open.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "callstack.h"

/* Steps of search for an exit's frame that each event earns, so that all searches together are linear in the events. */
#define SEARCH_CREDIT 64
/* The most names that a frame has; another tail call replaces the last name. */
#define NAMES_MAX 32

struct call_stack {
	uint64_t address; /* as STACK events name the stack, 0 = not known */
	struct call_frame *frames;
	uint32_t depth, room;
	uint32_t base;	      /* frames below this index are from before the trace */
	uint32_t lasting;     /* frames from before the trace below this index are open still at the first record */
	uint32_t lost_depth;  /* frames below this index were open when records were lost */
	uint32_t inherited;   /* open frames of a forked child whose entries are its parent's: outside of all others */
	uint64_t credit;      /* steps of search saved up */
	uint64_t since;	      /* time of the first event, or of the last LOST event */
	uint64_t outer_ticks; /* time of outermost calls since `since` */
	uint64_t lo, hi;      /* the mapping that frames from before the trace lie in */
	uint64_t away_ticks;  /* time that the thread was on other stacks, up to its last return to this one */
	uint64_t left_ticks;  /* when the thread left the stack, while `away` */
	uint64_t since_away;  /* away_ticks at `since` */
	uint32_t other;	      /* number among stacks that are no thread's first, from 1 on */
	bool away;	      /* the thread runs on another stack */
	bool has_outer;	      /* an outermost call has ended since `since` */
	bool seen;	      /* `since` is set */
	bool doubted;	      /* frames from before the trace may be over: the RISE may have been overwritten */
	bool counted;	      /* entries of frames here were lost, and their exits come */
};

struct call_thread {
	struct call_stack *stacks;
	uint32_t count, room;
	uint32_t current;	 /* index of the stack that the thread runs on */
	uint64_t switched_ticks; /* when `current` changed last */
	bool landing;		 /* the next UNWIND leaves `function` innermost */
	bool lost;		 /* records were lost right in front of the next event */
	bool gap;		 /* nothing is known of the time from gap_ticks to the next event */
	uint64_t gap_ticks;
	uint32_t gap_stack;	 /* index of the stack that the thread was on then */
	uint64_t complete_ticks; /* of a flight recorder: older records are not complete */
	bool counted;		 /* the next UNWIND is of frames that are closed already */
	uint32_t function;
	uint32_t roots; /* open frames that are roots of trees, on all of the thread's stacks */
	uint64_t last_ticks;
};

struct callstack {
	const struct trace *trace;
	struct callstack_ops ops;
	void *ctx;
	struct call_thread *threads;
	uint32_t count;
	uint32_t others; /* stacks that are no thread's first */
	uint64_t last_ticks;
	uint64_t gap_ticks; /* callstack_gaps() */
};

int callstack_create(struct callstack **out, const struct trace *trace, const struct callstack_ops *ops, void *ctx)
{
	struct callstack *stack = calloc(1, sizeof(*stack));

	*out = NULL;
	if (!stack)
		return -ENOMEM;
	stack->trace = trace;
	stack->ops = *ops;
	stack->ctx = ctx;
	*out = stack;
	return 0;
}

void callstack_destroy(struct callstack *stack)
{
	if (!stack)
		return;
	for (uint32_t t = 0; t < stack->count; t++) {
		for (uint32_t s = 0; s < stack->threads[t].count; s++)
			free(stack->threads[t].stacks[s].frames);
		free(stack->threads[t].stacks);
	}
	free(stack->threads);
	free(stack);
}

/* Make array[index] exist; new items are zero. */
static int grow_to(void **array, uint32_t *room, uint32_t index, size_t size)
{
	uint64_t want = *room ? *room : 8;
	void *grown;

	while (want <= index)
		want *= 2;
	grown = want <= UINT32_MAX ? realloc(*array, want * size) : NULL;
	if (!grown)
		return -ENOMEM;
	memset((char *)grown + *room * size, 0, (want - *room) * size);
	*array = grown;
	*room = (uint32_t)want;
	return 0;
}

static inline int reach_index(void **array, uint32_t *room, uint32_t index, size_t size)
{
	return index < *room ? 0 : grow_to(array, room, index, size);
}

/* Make the first stack of a thread; NULL = no memory. */
static struct call_stack *make_stack(struct callstack *stack, uint32_t index)
{
	struct call_thread *thread;

	if (reach_index((void **)&stack->threads, &stack->count, index, sizeof(*stack->threads)) || !stack->threads)
		return NULL;
	thread = &stack->threads[index];
	if (!thread->count) {
		if (reach_index((void **)&thread->stacks, &thread->room, 0, sizeof(*thread->stacks)))
			return NULL;
		thread->count = 1;
	}
	return &thread->stacks[thread->current];
}

/* The current stack of a thread, made when first asked for; NULL = no memory. */
static inline struct call_stack *current_stack(struct callstack *stack, uint32_t index)
{
	const struct call_thread *thread = index < stack->count ? &stack->threads[index] : NULL;

	return thread && thread->count ? &thread->stacks[thread->current] : make_stack(stack, index);
}

/* How long the thread has been on other stacks, up to the time. */
static uint64_t away_at(const struct call_stack *on, uint64_t ticks)
{
	return on->away_ticks + (on->away && ticks > on->left_ticks ? ticks - on->left_ticks : 0);
}

/* From ticks on, the thread runs on its stack `index`. */
static void run_on(struct call_thread *thread, uint32_t index, uint64_t ticks)
{
	struct call_stack *from = &thread->stacks[thread->current], *to = &thread->stacks[index];

	if (from == to)
		return;
	from->away = true;
	from->left_ticks = ticks;
	to->away_ticks = away_at(to, ticks);
	to->away = false;
	thread->current = index;
	thread->switched_ticks = ticks;
}

/* The stack's depth in frames that are shown. */
static uint32_t shown_depth(const struct call_stack *on)
{
	const struct call_frame *top = on->depth ? &on->frames[on->depth - 1] : NULL;

	return !top ? 0 : top->depth + !top->hidden;
}

/* The shown frame of that depth: of the frames that have the depth, the last one, for hidden ones lie below it. */
static struct call_frame *shown_frame(const struct call_stack *on, uint32_t depth)
{
	uint32_t first = depth, end = on->depth; /* the frame lies in first .. end - 1 */

	if (depth < end && on->frames[depth].depth == depth && !on->frames[depth].hidden)
		return &on->frames[depth];
	while (end - first > 1) {
		uint32_t middle = first + (end - first) / 2;

		if (on->frames[middle].depth <= depth)
			first = middle;
		else
			end = middle;
	}
	return &on->frames[first];
}

/* Decide whether the thread's call on top of the stack's first `below` frames is shown, and at which depth. */
static void judge_call(const struct callstack *stack, const struct call_stack *on, uint32_t below, uint32_t thread,
		       struct call_frame *frame)
{
	const struct call_frame *parent = below ? &on->frames[below - 1] : NULL;
	unsigned judgement;
	bool in_tree;

	frame->depth = below;
	if (!stack->ops.judge) /* an ordinary pass, which this is not to slow down */
		return;
	judgement = stack->ops.judge(stack->ctx, frame->function);
	frame->depth = parent ? parent->depth + !parent->hidden : 0;
	frame->in_notree = (parent && parent->in_notree) || judgement & CALL_NOTREE;
	frame->root = judgement & CALL_ROOT && !frame->in_notree;
	in_tree = frame->root || stack->threads[thread].roots;
	frame->hidden = frame->in_notree || !(judgement & (in_tree ? CALL_INSIDE : CALL_OUTSIDE));
}

/* Find out which shown name of the frame has tail-called the new one; the ones in between are hidden. */
static void find_tail_caller(struct call_stack *on, struct call_frame *frame)
{
	uint32_t at = on->depth;

	if (frame->hidden || at == on->base)
		return;
	for (frame->tail = false; !frame->tail && at > on->base && on->frames[at - 1].tailed; at--)
		frame->tail = on->frames[at - 1].tail_shown = !on->frames[at - 1].hidden;
}

/* Tell the consumer of the call's end; returns the call's time without the time on other stacks. */
static uint64_t report_end(struct callstack *stack, const struct call_stack *on, const struct trace_event *event,
			   const struct call_frame *frame, enum call_end how)
{
	const struct call_frame *parent = !frame->depth	     ? NULL
					  : stack->ops.judge ? shown_frame(on, frame->depth - 1)
							     : &on->frames[frame->depth - 1];
	const struct call_closed closed = {.frame = frame,
					   .parent = parent,
					   .thread = event->thread,
					   .exit_ticks = event->ticks,
					   .exit_lo = event->lo == event->hi ? event->ticks : event->lo,
					   .exit_loose = event->loose,
					   .exit_hi = event->lo == event->hi ? event->ticks : event->hi,
					   .away_ticks = away_at(on, event->ticks) - frame->away_ticks,
					   .how = how};

	if (stack->ops.on_close && !frame->hidden)
		stack->ops.on_close(stack->ctx, stack, &closed);
	return event->ticks - frame->enter_ticks - closed.away_ticks;
}

/*
 * Count a finished call's time for its parent; outermost: also for the stack, as a call right above the base.  A hidden
 * call counts with the time of the shown calls in it.
 */
static void add_child(struct call_stack *on, struct call_frame *parent, const struct call_frame *frame, uint64_t ticks,
		      bool outermost)
{
	bool any = !frame->hidden || frame->has_children;

	if (parent) {
		parent->children_ticks += ticks;
		parent->has_children |= any;
	}
	if (outermost) {
		on->outer_ticks += ticks;
		on->has_outer |= any;
	}
}

/* Close the innermost name. */
static void close_top(struct callstack *stack, struct call_stack *on, const struct trace_event *event,
		      enum call_end how)
{
	struct call_frame *frame, *parent;
	uint64_t ticks;

	if (!on->frames || !on->depth)
		return;
	frame = &on->frames[on->depth - 1];
	parent = on->depth > 1 ? &on->frames[on->depth - 2] : NULL;
	if (parent && !frame->hidden)
		parent->has_children = true;
	ticks = report_end(stack, on, event, frame, how);
	/* A frame from before the trace counts only with the time of its recorded callees. */
	add_child(on, parent, frame, frame->before || frame->hidden ? frame->children_ticks : ticks,
		  on->depth == on->base + 1);
	if (frame->root)
		stack->threads[event->thread].roots--;
	on->depth--;
	if (on->base > on->depth)
		on->base = on->depth;
	if (on->lost_depth > on->depth)
		on->lost_depth = on->depth;
}

/* Close the innermost frame with all of its names. */
static void close_frame(struct callstack *stack, struct call_stack *on, const struct trace_event *event,
			enum call_end how)
{
	close_top(stack, on, event, how);
	while (on->depth > on->base && on->frames[on->depth - 1].tailed)
		close_top(stack, on, event,
			  how == CALL_RETURNED && on->frames[on->depth - 1].tail_shown ? CALL_TAILED : how);
}

/* Close the leaves that are innermost.  They have called nothing: a frame around them has ended or goes on. */
static void close_leaves(struct callstack *stack, struct call_stack *on, const struct trace_event *event)
{
	while (on->depth > on->base && on->frames[on->depth - 1].leaf)
		close_top(stack, on, event, CALL_UNWOUND);
}

/* True if the call that the event enters on top of the stack will be shown. */
static bool shows_function(const struct callstack *stack, const struct call_stack *on, const struct trace_event *event)
{
	struct call_frame frame = {.function = event->id};

	judge_call(stack, on, on->depth, event->thread, &frame);
	return !frame.hidden;
}

static int enter_call(struct callstack *stack, struct call_stack *on, const struct trace_event *event)
{
	struct call_frame *frame;

	if (reach_index((void **)&on->frames, &on->room, on->depth, sizeof(*on->frames)))
		return -ENOMEM;
	frame = &on->frames[on->depth];
	*frame = (struct call_frame){.enter_ticks = event->ticks,
				     .enter_loose = event->loose,
				     .enter_lo = event->lo == event->hi ? event->ticks : event->lo,
				     .enter_hi = event->lo == event->hi ? event->ticks : event->hi,
				     .function = event->id,
				     .depth = on->depth,
				     .away_ticks = on->away_ticks,
				     .enter_known = true,
				     .tail = event->kind == CALLTAP_REC_TAIL,
				     .leaf = event->leaf && event->kind == CALLTAP_REC_ENTRY};
	if (stack->ops.judge) {
		judge_call(stack, on, on->depth, event->thread, frame);
		stack->threads[event->thread].roots += frame->root;
	}
	if (frame->tail)
		find_tail_caller(on, frame);
	on->depth++;
	on->credit += SEARCH_CREDIT;
	if (stack->ops.on_enter && !frame->hidden)
		stack->ops.on_enter(stack->ctx, stack, event->thread, frame);
	return 0;
}

/* True if the innermost name is a hidden one that has tail-calls of a shown frame pass on: nothing is lost without it.
 */
static bool is_passage(const struct call_stack *on)
{
	const struct call_frame *top = &on->frames[on->depth - 1];

	return top->hidden && on->depth - 1 > on->base && top[-1].tailed && top->in_notree == top[-1].in_notree;
}

/* The innermost function tail-calls another: open that one's name in the same frame. */
static int tail_call(struct callstack *stack, struct call_stack *on, const struct trace_event *event)
{
	uint32_t caller, at;

	close_leaves(stack, on, event);
	while (on->depth > on->base && is_passage(on))
		close_top(stack, on, event, CALL_TAILED);
	if (on->depth == on->base)
		return enter_call(stack, on, event);
	caller = on->depth - 1;
	/* Names that are not shown come and go between the shown ones, and no round of a loop ends with them. */
	for (at = caller; shows_function(stack, on, event) && at > on->base && on->frames[at - 1].tailed; at--)
		if (on->frames[at - 1].function == on->frames[on->depth - 1].function)
			caller = at - 1;
	if (caller == on->depth - 1 && caller - at + 1 == NAMES_MAX)
		caller--;
	while (on->depth - 1 > caller)
		close_top(stack, on, event, CALL_TAILED);
	on->frames[caller].tailed = true;
	return enter_call(stack, on, event);
}

/*
 * Tell of a call without a known entry.  With nothing open, all calls of this stack since `since` were inside it;
 * otherwise its length is not known.
 */
static void close_unknown(struct callstack *stack, struct call_stack *on, const struct trace_event *event,
			  enum call_end how)
{
	struct call_frame *parent = on->depth ? &on->frames[on->depth - 1] : NULL;
	struct call_frame frame = {.enter_ticks = event->ticks, .away_ticks = on->away_ticks, .function = event->id};
	uint64_t ticks;

	if (on->depth == on->base && on->inherited)
		on->inherited--;
	judge_call(stack, on, on->depth, event->thread, &frame);
	if (frame.hidden)
		return;
	if (on->depth == on->base) {
		if (parent)
			parent->children_ticks -= on->outer_ticks;
		frame.enter_ticks = on->since;
		frame.away_ticks = on->since_away;
		frame.children_ticks = on->outer_ticks;
		frame.has_children = on->has_outer;
		on->outer_ticks = 0;
	}
	ticks = report_end(stack, on, event, &frame, how);
	add_child(on, parent, &frame, ticks, on->depth == on->base);
}

/* Index + 1 of the innermost frame that goes by the function's name, 0 = none. */
static uint32_t find_frame(struct call_stack *on, uint32_t function)
{
	uint32_t stop;

	on->credit += SEARCH_CREDIT;
	stop = on->credit < on->depth - on->base ? on->depth - (uint32_t)on->credit : on->base;
	for (uint32_t at = on->depth; at > stop; at--)
		if (on->frames[at - 1].function == function && !on->frames[at - 1].tailed)
			return at;
	on->credit -= on->depth - stop;
	return 0;
}

/* Find a stack that the thread left with function innermost, and go on there in place of a new stack; NULL = none. */
static struct call_stack *join_stack(struct call_thread *thread, uint32_t function)
{
	struct call_stack *fresh = &thread->stacks[thread->current], *best = NULL;
	uint64_t best_distance = UINT64_MAX;

	if (fresh->depth > fresh->base || !fresh->address || fresh->counted)
		return NULL;
	for (uint32_t i = 0; i < thread->count; i++) {
		struct call_stack *on = &thread->stacks[i];
		uint64_t distance =
			on->address > fresh->address ? on->address - fresh->address : fresh->address - on->address;

		if (on == fresh || on->depth == on->base || on->frames[on->depth - 1].function != function)
			continue;
		if (distance < best_distance) {
			best = on;
			best_distance = distance;
		}
	}
	if (best) {
		best->address = fresh->address;
		fresh->address = 0;
		run_on(thread, (uint32_t)(best - thread->stacks), thread->switched_ticks);
	}
	return best;
}

static void leave_call(struct callstack *stack, struct call_stack *on, const struct trace_event *event,
		       enum call_end how)
{
	uint32_t at;

	if (on->depth > on->base && on->frames[on->depth - 1].function == event->id) {
		close_frame(stack, on, event, how);
		return;
	}
	at = find_frame(on, event->id);
	if (!at) {
		struct call_stack *joined = join_stack(&stack->threads[event->thread], event->id);

		if (joined)
			close_frame(stack, joined, event, how);
		else
			close_unknown(stack, on, event, how);
		return;
	}
	while (on->depth > at)
		close_top(stack, on, event, on->depth <= on->lost_depth ? CALL_LOST : CALL_UNWOUND);
	close_frame(stack, on, event, how);
}

/* The depth without the leaves that are innermost among the first `depth` frames. */
static uint32_t depth_without_leaves(const struct call_stack *on, uint32_t depth)
{
	while (depth > on->base && on->frames[depth - 1].leaf)
		depth--;
	return depth;
}

/*
 * The stack's depth after the end of so many frames, and of the leaves inside the next one; UINT32_MAX = it has fewer.
 */
static uint32_t depth_after(const struct call_stack *on, uint64_t frames)
{
	uint32_t depth = depth_without_leaves(on, on->depth);

	for (; frames && depth > on->base; frames--) {
		for (depth--; depth > on->base && on->frames[depth - 1].tailed;)
			depth--;
		depth = depth_without_leaves(on, depth);
	}
	return frames ? UINT32_MAX : depth;
}

static bool leaves_innermost(const struct call_stack *on, uint64_t frames, uint32_t function)
{
	uint32_t depth = depth_after(on, frames);

	return depth != UINT32_MAX && depth > on->base && on->frames[depth - 1].function == function;
}

/* Close innermost frames: as many as the event says, or one more or less where LANDING shows that. */
static void unwind_frames(struct callstack *stack, struct call_thread *thread, struct call_stack *on,
			  const struct trace_event *event)
{
	uint64_t count = event->id;
	bool landing = thread->landing;

	if (thread->counted)
		count = 0;
	else if (thread->landing && !leaves_innermost(on, count, thread->function)) {
		if (leaves_innermost(on, count + 1, thread->function))
			count++;
		else if (count && leaves_innermost(on, count - 1, thread->function))
			count--;
	}
	thread->landing = thread->counted = false;
	for (; count && on->depth > on->base; count--) {
		close_leaves(stack, on, event);
		if (on->depth > on->base)
			close_frame(stack, on, event, CALL_UNWOUND);
	}
	on->inherited -= count < on->inherited ? (uint32_t)count : on->inherited;
	if (landing)
		close_leaves(stack, on, event);
}

/* A call of which only the end is known began then, or later. */
static void set_since(struct call_stack *on, uint64_t ticks)
{
	on->since = ticks;
	on->since_away = away_at(on, ticks);
	on->outer_ticks = 0;
	on->has_outer = false;
}

/* The depth up to the end of so many frames, counted from the outermost one, with the leaves between them. */
static uint32_t depth_of(const struct call_stack *on, uint64_t frames)
{
	uint32_t depth = on->base;

	for (; frames && depth < on->depth; depth++)
		frames -= !on->frames[depth].tailed && !on->frames[depth].leaf;
	return depth;
}

/* Records were lost behind the thread's last event. */
static void open_gap(struct call_thread *thread, uint64_t ticks)
{
	if (thread->gap)
		return;
	thread->gap = true;
	thread->gap_ticks = thread->last_ticks ? thread->last_ticks : ticks;
	thread->gap_stack = thread->current;
}

/*
 * The first event behind a loss.  Calls may have begun and ended meanwhile: the time in between counts as that of the
 * call that is innermost still on the stack on which the loss began, but for its own time, as if it had been in a call.
 */
static void close_gap(struct callstack *stack, struct call_thread *thread, uint64_t ticks)
{
	struct call_stack *on = &thread->stacks[thread->gap_stack];

	if (!thread->gap)
		return;
	thread->gap = false;
	stack->gap_ticks += ticks - thread->gap_ticks;
	if (on->depth)
		on->frames[on->depth - 1].children_ticks += ticks - thread->gap_ticks;
}

/* The current stack's innermost frame has ended in the gap, nobody knows when: it is told as if at its beginning. */
static void close_lost(struct callstack *stack, const struct call_thread *thread, struct call_stack *on,
		       const struct trace_event *event)
{
	if (thread->gap && thread->gap_stack == thread->current)
		on->frames[on->depth - 1].away_ticks -= event->ticks - thread->gap_ticks;
	close_top(stack, on, event, CALL_LOST);
}

/*
 * Records were lost, and of the stack's recorded frames so many are left, the outermost ones.  first: nothing of the
 * stack was read so far, so these are frames of before a fork.
 */
static void keep_frames(struct callstack *stack, struct call_thread *thread, const struct trace_event *event,
			bool first)
{
	struct call_stack *on = &thread->stacks[thread->current];
	uint32_t left = event->id - 1u, depth;

	if (first || left < on->inherited)
		on->inherited = left;
	if (first)
		return;
	depth = depth_of(on, left - on->inherited);

	while (on->depth > depth)
		close_lost(stack, thread, on, event);
	close_gap(stack, thread, event->ticks);
	on->lost_depth = on->base; /* of the others each is known to be open */
	on->counted = true;
	set_since(on, event->ticks);
	thread->counted = thread->lost;
}

/* Make the stack with that address the current one. */
static int switch_stack(struct callstack *stack, struct call_thread *thread, uint64_t address, uint64_t ticks)
{
	uint32_t at, unused = thread->count;
	struct call_stack *first = &thread->stacks[0];

	/* Frames from before the trace were open on the stack that the thread's first STACK event names. */
	if (thread->count == 1 && !first->address && first->depth == first->base) {
		first->address = address;
		return 0;
	}
	for (at = 0; at < thread->count && thread->stacks[at].address != address; at++)
		if (!thread->stacks[at].depth && !thread->stacks[at].inherited && unused == thread->count)
			unused = at;
	if (at == thread->count)
		at = unused;
	if (at == thread->count) {
		if (reach_index((void **)&thread->stacks, &thread->room, at, sizeof(*thread->stacks)))
			return -ENOMEM;
		thread->count++;
		thread->stacks[at].other = ++stack->others;
	}
	run_on(thread, at, ticks);
	if (thread->stacks[at].address != address && !thread->stacks[at].depth) {
		/* The array's element was another stack's before. */
		thread->stacks[at].seen = thread->stacks[at].has_outer = thread->stacks[at].counted = false;
		thread->stacks[at].outer_ticks = 0;
		thread->stacks[at].inherited = 0;
	}
	thread->stacks[at].address = address;
	return 0;
}

/* An outermost call at this slot: all recorded calls have ended, and frames from before the trace up to the slot. */
static void take_rise(struct callstack *stack, struct call_stack *on, const struct trace_event *event)
{
	uint64_t slot = event->extra;

	if (slot < on->lo || slot >= on->hi)
		return; /* the call is on another stack */
	while (on->depth > on->base)
		close_top(stack, on, event, on->depth <= on->lost_depth ? CALL_LOST : CALL_UNWOUND);
	while (on->base && on->frames[on->base - 1].slot && on->frames[on->base - 1].slot <= slot)
		close_top(stack, on, event, CALL_LEFT);
}

/* A RISE may have been overwritten: nobody knows any more which frames from before the trace are open. */
static void doubt_frames(struct callstack *stack, struct call_thread *thread)
{
	const char *mode = stack->trace ? trace_info(stack->trace, "mode") : NULL;

	for (uint32_t i = 0; mode && !strcmp(mode, "overwrite") && i < thread->count; i++)
		thread->stacks[i].doubted = true;
}

/* Close doubted frames as soon as no recorded call is inside them. */
static void leave_doubted(struct callstack *stack, struct call_stack *on, const struct trace_event *event)
{
	while (on->doubted && on->base && on->depth == on->base)
		close_top(stack, on, event, CALL_LEFT);
}

static void mark_lost(struct call_thread *thread, uint64_t ticks)
{
	for (uint32_t i = 0; i < thread->count; i++) {
		struct call_stack *on = &thread->stacks[i];

		on->lost_depth = on->depth;
		set_since(on, ticks);
	}
}

int callstack_begin(struct callstack *stack, uint32_t thread)
{
	struct call_stack *on = current_stack(stack, thread);
	struct trace_stack open;

	if (!on)
		return -ENOMEM;
	if (!stack->trace || !trace_thread_stack(stack->trace, thread, &open) || on->depth || on->seen)
		return 0;
	for (uint32_t i = 0; i < open.count; i++) {
		struct call_frame *frame;

		if (reach_index((void **)&on->frames, &on->room, on->depth, sizeof(*on->frames)))
			return -ENOMEM;
		frame = &on->frames[on->depth];
		*frame = (struct call_frame){.enter_ticks = open.ticks,
					     .slot = trace_frame(stack->trace, open.first + i)->slot,
					     .function = trace_frame(stack->trace, open.first + i)->function,
					     .before = true};
		judge_call(stack, on, on->depth, thread, frame);
		stack->threads[thread].roots += frame->root;
		on->base = ++on->depth;
		if (stack->ops.on_enter && !frame->hidden)
			stack->ops.on_enter(stack->ctx, stack, thread, frame);
	}
	on->lasting = open.lasting;
	on->lo = open.lo;
	on->hi = open.hi;
	return 0;
}

/* first: nothing was read so far of the stack that was the current one until now. */
static int take_stack(struct callstack *stack, bool first, const struct trace_event *event)
{
	struct call_thread *thread = &stack->threads[event->thread];
	const uint32_t before = thread->current;
	int ret = 0;

	/* Without an address it is of a further instance, which records no stacks. */
	if (event->extra || !event->id)
		ret = switch_stack(stack, thread, event->extra, event->ticks);
	if (!ret && event->id)
		keep_frames(stack, thread, event,
			    thread->current == before ? first : !thread->stacks[thread->current].seen);
	return ret;
}

/* Note the event's time, and whether nothing is known of the time in front of it. */
static void pass_time(struct callstack *stack, struct call_thread *thread, const struct trace_event *event)
{
	const struct trace_thread *about =
		stack->trace && !thread->last_ticks ? trace_thread(stack->trace, event->thread) : NULL;

	if (about)
		thread->complete_ticks = about->history_ticks;
	if (event->kind == CALLTAP_REC_LOST || (thread->last_ticks && thread->last_ticks < thread->complete_ticks))
		open_gap(thread, event->ticks);
	if (event->kind != CALLTAP_REC_LOST && event->kind != CALLTAP_REC_WAIT &&
	    !(event->kind == CALLTAP_REC_STACK && event->id))
		close_gap(stack, thread, event->ticks);
	if (event->ticks > stack->last_ticks)
		stack->last_ticks = event->ticks;
	if (event->ticks > thread->last_ticks)
		thread->last_ticks = event->ticks;
}

int callstack_feed(struct callstack *stack, const struct trace_event *event)
{
	struct call_stack *on = current_stack(stack, event->thread);
	bool *lost, first;

	if (!on)
		return -ENOMEM;
	if (event->kind != CALLTAP_REC_UNWIND && event->kind != CALLTAP_REC_LANDING)
		stack->threads[event->thread].counted = false;
	first = !on->seen;
	lost = &stack->threads[event->thread].lost;
	*lost = event->kind == CALLTAP_REC_LOST ||
		(*lost && (event->kind == CALLTAP_REC_WAIT || event->kind == CALLTAP_REC_STACK));
	pass_time(stack, &stack->threads[event->thread], event);
	if (!on->seen) {
		on->seen = true;
		on->since = event->ticks;
		on->since_away = on->away_ticks;
		while (on->base > on->lasting)
			close_top(stack, on, event, CALL_LEFT);
	}
	switch (event->kind) {
	case CALLTAP_REC_ENTRY:
		leave_doubted(stack, on, event);
		return enter_call(stack, on, event);
	case CALLTAP_REC_EXIT:
		leave_call(stack, on, event, CALL_RETURNED);
		return 0;
	case CALLTAP_REC_TAIL:
		return tail_call(stack, on, event);
	case CALLTAP_REC_UNWIND:
		unwind_frames(stack, &stack->threads[event->thread], on, event);
		return 0;
	case CALLTAP_REC_LANDING:
		stack->threads[event->thread].landing = true;
		stack->threads[event->thread].function = event->id;
		return 0;
	case CALLTAP_REC_STACK:
		return take_stack(stack, first, event);
	case CALLTAP_REC_RISE:
		take_rise(stack, on, event);
		return 0;
	case CALLTAP_REC_LOST:
		doubt_frames(stack, &stack->threads[event->thread]);
		mark_lost(&stack->threads[event->thread], event->ticks);
		leave_doubted(stack, on, event);
		return 0;
	default:
		return 0; /* CALL and WAIT open and close nothing */
	}
}

/* The end of a thread's open calls: the end of the thread, of its process, or of the recording. */
static uint64_t end_of(const struct callstack *stack, uint32_t index)
{
	const struct trace_thread *thread = stack->trace ? trace_thread(stack->trace, index) : NULL;
	const struct trace_process *process = thread ? trace_process(stack->trace, thread->process) : NULL;
	const struct calltap_file_end *mark = stack->trace ? trace_end(stack->trace) : NULL;

	if (thread && thread->ended)
		return thread->end_ticks;
	if (process && process->end_ticks)
		return process->end_ticks;
	return mark && mark->ticks > stack->last_ticks ? mark->ticks : stack->last_ticks;
}

/* The thread's open calls have ended with it, or with its process. */
static bool has_ended_before(const struct callstack *stack, uint32_t index, uint64_t ticks)
{
	const struct trace_thread *thread = stack->trace ? trace_thread(stack->trace, index) : NULL;
	const struct trace_process *process = thread ? trace_process(stack->trace, thread->process) : NULL;

	return (thread && thread->ended && thread->end_ticks < ticks) ||
	       (process && process->end_ticks && process->end_ticks < ticks);
}

static void cut_stack(struct call_stack *on, uint64_t ticks)
{
	const uint64_t away = away_at(on, ticks);

	if (on->seen && on->since < ticks)
		set_since(on, ticks);
	for (uint32_t i = 0; i < on->depth; i++) {
		struct call_frame *frame = &on->frames[i];

		frame->children_ticks = 0;
		frame->away_ticks = away;
		if (frame->before || frame->enter_ticks >= ticks)
			continue;
		frame->cut_ticks = ticks - frame->enter_ticks;
		frame->enter_ticks = frame->enter_lo = frame->enter_hi = ticks;
		frame->enter_loose = 0;
	}
}

void callstack_cut(struct callstack *stack, uint64_t ticks)
{
	for (uint32_t t = 0; t < stack->count; t++) {
		for (uint32_t s = 0; s < stack->threads[t].count && !has_ended_before(stack, t, ticks); s++)
			cut_stack(&stack->threads[t].stacks[s], ticks);
		if (stack->threads[t].gap_ticks < ticks)
			stack->threads[t].gap_ticks = ticks;
	}
	stack->gap_ticks = 0;
}

void callstack_finish(struct callstack *stack, uint64_t to_ticks)
{
	for (uint32_t t = 0; t < stack->count; t++) {
		struct trace_event end = {.ticks = end_of(stack, t), .thread = t};

		if (end.ticks > to_ticks)
			end.ticks = to_ticks;
		if (stack->threads[t].gap && end.ticks > stack->threads[t].gap_ticks) {
			stack->gap_ticks += end.ticks - stack->threads[t].gap_ticks;
			end.ticks = stack->threads[t].gap_ticks;
		}
		if (end.ticks < stack->threads[t].last_ticks)
			end.ticks = stack->threads[t].last_ticks;
		for (uint32_t s = 0; s < stack->threads[t].count; s++) {
			stack->threads[t].current = s;
			/* Behind a loss nobody knows whether they were open at the end. */
			while (stack->threads[t].stacks[s].depth)
				close_top(stack, &stack->threads[t].stacks[s], &end,
					  stack->threads[t].lost ? CALL_LOST : CALL_OPEN);
		}
	}
}

uint64_t callstack_gaps(const struct callstack *stack)
{
	return stack->gap_ticks;
}

uint32_t callstack_current(const struct callstack *stack, uint32_t thread)
{
	return thread < stack->count ? stack->threads[thread].current : 0;
}

bool callstack_is_on(const struct callstack *stack, uint32_t thread, uint64_t address)
{
	const struct call_thread *known = thread < stack->count ? &stack->threads[thread] : NULL;

	return known && known->count && known->stacks[known->current].address == address;
}

uint32_t callstack_chain(const struct callstack *stack, uint32_t thread)
{
	const struct call_thread *known = thread < stack->count ? &stack->threads[thread] : NULL;

	return known && known->current ? CALLSTACK_OTHER + known->stacks[known->current].other : thread;
}

uint32_t callstack_depth(const struct callstack *stack, uint32_t thread)
{
	if (thread >= stack->count || !stack->threads[thread].count)
		return 0;
	return shown_depth(&stack->threads[thread].stacks[stack->threads[thread].current]);
}

bool callstack_shows(const struct callstack *stack, uint32_t thread)
{
	const struct call_thread *known = thread < stack->count ? &stack->threads[thread] : NULL;
	const struct call_stack *on = known && known->count ? &known->stacks[known->current] : NULL;

	return !on || !on->depth || !on->frames[on->depth - 1].hidden;
}

struct call_frame *callstack_frame(struct callstack *stack, uint32_t thread, uint32_t depth)
{
	if (depth >= callstack_depth(stack, thread))
		return NULL;
	return shown_frame(&stack->threads[thread].stacks[stack->threads[thread].current], depth);
}
