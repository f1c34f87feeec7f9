/*
 * The slow calls of a function beside its others; see slow.h.  Context: host.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <host/counted.h>
#include <host/text.h>

#include "similar.h"
#include "slow.h"

/* The kind of a call of the function; the list of kinds has two bits for each call. */
enum kind { NEITHER, IS_OTHER, IS_SLOW };

/* The values of a slow call that is open; a thread has one such call at the most, for others lie within it. */
struct pending {
	struct pending *next;
	uint32_t thread;
	uint64_t enter_ticks;
	char told[SLOW_TOLD_MAX];
};

struct passes {
	struct slow *slow;
	const struct slow_options *options;
	struct view_filter filter;
	bool *matches, *called; /* per function */
	uint32_t functions;
	uint64_t calls; /* outermost calls of the function so far in this pass */
	uint8_t *kinds; /* two bits per call */
	uint64_t room;	/* calls that they suffice for */
	struct histogram all;
	uint64_t finished;
	uint64_t median_ns; /* of the slow calls */
	struct pending *pending;
	struct tree trees[SIDES];
	struct tree_builder builders[SIDES];
};

/*
 * A frame's user word.  In the passes that look at durations: the number of a call of the function + 1, or INSIDE for
 * what is called in it.  In the pass that builds the trees: what the tree keeps there, SLOW for calls in a slow call,
 * or INSIDE for what is in neither tree.
 */
#define INSIDE (UINT64_C(1) << 60)
#define SLOW   (UINT64_C(1) << 61)

static uint64_t user_above(struct walk *walk, uint32_t thread, const struct call_frame *frame)
{
	return frame->depth ? callstack_frame(walk->stack, thread, frame->depth - 1)->user : 0;
}

static bool is_outermost(const struct passes *passes, const struct call_frame *frame, uint64_t above)
{
	return !above && !frame->before && frame->function < passes->functions && passes->matches[frame->function];
}

static void push_call(void *ctx, struct walk *walk, uint32_t thread, struct call_frame *frame)
{
	struct passes *passes = ctx;
	uint64_t above = user_above(walk, thread, frame);

	if (is_outermost(passes, frame, above))
		frame->user = ++passes->calls;
	else if (above)
		frame->user = INSIDE;
}

static bool is_finished(const struct call_closed *closed)
{
	return closed->frame->enter_known && closed->how != CALL_OPEN && closed->how != CALL_LOST;
}

/* A call of the function that began in the trace and is not within another one. */
static bool is_counted(const struct call_closed *closed)
{
	return closed->frame->user && closed->frame->user != INSIDE;
}

static void measure_call(void *ctx, struct walk *walk, const struct call_closed *closed)
{
	struct passes *passes = ctx;

	if (!is_counted(closed) || !is_finished(closed))
		return;
	passes->finished++;
	if (histogram_add(&passes->all, walk_running_ns(walk, closed)))
		walk->error = -ENOMEM;
}

static const struct walk_ops measuring = {.on_push = push_call, .on_close = measure_call};

static int set_kind(struct passes *passes, uint64_t number, enum kind kind)
{
	if (number >= passes->room) {
		uint64_t room = number < 2048 ? 4096 : number / 2 * 4; /* a multiple of 4 */
		uint8_t *kinds = realloc(passes->kinds, room / 4);

		if (!kinds)
			return -ENOMEM;
		memset(kinds + passes->room / 4, 0, (room - passes->room) / 4);
		passes->kinds = kinds;
		passes->room = room;
	}
	passes->kinds[number / 4] |= (uint8_t)(kind << number % 4 * 2);
	return 0;
}

static enum kind kind_of(const struct passes *passes, uint64_t number)
{
	return number < passes->room ? (enum kind)(passes->kinds[number / 4] >> number % 4 * 2 & 3) : NEITHER;
}

/* Where the call is by its duration; of one that is an estimate only if its bounds leave no doubt. */
static enum kind sort_by_time(const struct slow *slow, const struct walk *walk, const struct call_closed *closed)
{
	uint64_t ns = walk_running_ns(walk, closed), least = ns, most = ns;

	if (call_is_estimated(closed)) {
		uint64_t away = trace_duration_ns(walk->trace, closed->away_ticks);

		least = trace_duration_ns(walk->trace, call_least_ticks(closed));
		most = trace_duration_ns(walk->trace, call_most_ticks(closed));
		least = least > away ? least - away : 0;
		most = most > away ? most - away : 0;
	}
	return least >= slow->floor_ns ? IS_SLOW : most < slow->floor_ns ? IS_OTHER : NEITHER;
}

static void sort_call(void *ctx, struct walk *walk, const struct call_closed *closed)
{
	struct passes *passes = ctx;
	struct slow *slow = passes->slow;
	uint64_t ns = walk_running_ns(walk, closed);
	enum kind kind = sort_by_time(slow, walk, closed);
	struct slow_class *of = &slow->classes[kind == IS_SLOW ? SLOW_SLOW : SLOW_OTHERS];
	int err;

	if (!is_finished(closed) && (is_counted(closed) || (!closed->frame->before && !closed->frame->user &&
							    is_outermost(passes, closed->frame, 0))))
		slow->unfinished++;
	if (!is_counted(closed) || !is_finished(closed))
		return;
	if (kind == NEITHER) {
		slow->unsure++;
		return;
	}
	slow->estimated += call_is_estimated(closed);
	if (!passes->called[closed->frame->function]) {
		passes->called[closed->frame->function] = true;
		slow->functions++;
		slow->function = closed->frame->function;
	}
	if (!of->calls || ns < of->min_ns)
		of->min_ns = ns;
	if (ns > of->max_ns)
		of->max_ns = ns;
	of->calls++;
	of->total_ns += ns;
	err = histogram_add(&of->histogram, ns);
	if (!err)
		err = set_kind(passes, closed->frame->user - 1, kind);
	walk->error = err ? err : walk->error;
}

static void add_wait(void *ctx, struct walk *walk, const struct trace_event *event)
{
	struct slow *slow = ((struct passes *)ctx)->slow;

	if (event->kind == CALLTAP_REC_WAIT)
		slow->wait_ns += trace_duration_ns(walk->trace, event->extra);
}

static const struct walk_ops sorting = {.on_push = push_call, .on_close = sort_call, .on_event = add_wait};

/* The trees.  A frame from outside of the function has user 0, as every frame above it. */
static void push_node(void *ctx, struct walk *walk, uint32_t thread, struct call_frame *frame)
{
	struct passes *passes = ctx;
	uint64_t above = user_above(walk, thread, frame);
	enum kind kind;

	if (is_outermost(passes, frame, above))
		kind = kind_of(passes, passes->calls++);
	else if (!above)
		return;
	else
		kind = above & INSIDE ? NEITHER : above & SLOW ? IS_SLOW : IS_OTHER;
	if (kind == NEITHER) {
		frame->user = INSIDE;
		return;
	}
	tree_enter(&passes->builders[kind == IS_SLOW ? SLOW_SLOW : SLOW_OTHERS], walk, thread, frame);
	frame->user |= kind == IS_SLOW ? SLOW : 0;
}

static struct pending *take_pending(struct passes *passes, uint32_t thread)
{
	for (struct pending **at = &passes->pending; *at; at = &(*at)->next) {
		struct pending *found = *at;

		if (found->thread != thread)
			continue;
		*at = found->next;
		return found;
	}
	return NULL;
}

static uint64_t apart(uint64_t a, uint64_t b)
{
	return a > b ? a - b : b - a;
}

static void set_example(struct slow_example *example, const struct walk *walk, const struct call_closed *closed,
			uint64_t ns, const struct pending *pending)
{
	example->from_ns = walk_since_ns(walk, closed->frame->enter_ticks);
	example->ns = ns;
	example->thread = closed->thread;
	memset(example->told, 0, sizeof(example->told));
	if (pending)
		memcpy(example->told, pending->told, sizeof(example->told));
}

static void pop_node(void *ctx, struct walk *walk, const struct call_closed *closed)
{
	struct passes *passes = ctx;
	struct slow *slow = passes->slow;
	uint64_t user = closed->frame->user, ns;
	struct pending *pending;

	if (!user || user & INSIDE)
		return;
	tree_leave(&passes->builders[user & SLOW ? SLOW_SLOW : SLOW_OTHERS], walk, closed);
	if (!(user & SLOW) || (closed->parent && closed->parent->user))
		return;
	ns = walk_running_ns(walk, closed);
	pending = take_pending(passes, closed->thread);
	if (pending && pending->enter_ticks != closed->frame->enter_ticks) {
		free(pending);
		pending = NULL;
	}
	if (!slow->slowest.ns || ns > slow->slowest.ns)
		set_example(&slow->slowest, walk, closed, ns, pending);
	if (!slow->median.ns || apart(ns, passes->median_ns) < apart(slow->median.ns, passes->median_ns))
		set_example(&slow->median, walk, closed, ns, pending);
	free(pending);
}

static void take_values(void *ctx, struct walk *walk, const struct trace_event *event,
			const struct walk_message *message)
{
	struct passes *passes = ctx;
	uint32_t depth = callstack_depth(walk->stack, event->thread);
	const struct call_frame *frame = depth ? callstack_frame(walk->stack, event->thread, depth - 1) : NULL;
	struct pending *pending;

	if (message->role != TRACE_ARGUMENTS || !frame || !frame->user || frame->user & INSIDE ||
	    frame->function != message->function || user_above(walk, event->thread, frame))
		return;
	if (met_add(&passes->slow->met, frame->user & SLOW ? SLOW_SLOW : SLOW_OTHERS, walk->trace, event))
		walk->error = -ENOMEM;
	if (!(frame->user & SLOW))
		return;
	pending = take_pending(passes, event->thread);
	if (!pending)
		pending = malloc(sizeof(*pending));
	if (!pending) {
		walk->error = -ENOMEM;
		return;
	}
	text_clean(pending->told, sizeof(pending->told), message->text);
	pending->thread = event->thread;
	pending->enter_ticks = frame->enter_ticks;
	pending->next = passes->pending;
	passes->pending = pending;
}

static const struct walk_ops building = {.on_push = push_node, .on_pop = pop_node, .on_message = take_values};

static int mark_matches(struct passes *passes, const struct trace *trace, const char *glob, struct calltap_diag *diag)
{
	char names[1024];
	bool any = false;

	passes->functions = trace_function_count(trace);
	passes->matches = calloc((size_t)passes->functions + 1, sizeof(*passes->matches));
	passes->called = calloc((size_t)passes->functions + 1, sizeof(*passes->called));
	if (!passes->matches || !passes->called)
		return -ENOMEM;
	for (uint32_t i = 0; i < passes->functions; i++) {
		passes->matches[i] = trace_function_matches(trace, i, glob);
		any |= passes->matches[i];
	}
	if (any)
		return 0;
	similar_names(names, sizeof(names), trace, glob);
	if (!names[0])
		return calltap_diag_set(
			diag, -ENOENT,
			"no function of the trace matches '%s': 'calltap report' lists their names, and "
			"'*part*' matches a part of one",
			glob);
	return calltap_diag_set(diag, -ENOENT, "no function of the trace matches '%s'; like it: %s", glob, names);
}

static int run_pass(struct passes *passes, const struct walk_ops *ops, const struct view_filter *filter,
		    struct calltap_diag *diag)
{
	struct slow *slow = passes->slow;
	struct walk walk;
	int err;

	passes->calls = 0;
	err = walk_run(&walk, slow->trace, filter, ops, passes, diag);
	slow->lost = walk.lost;
	slow->damages = walk.damages;
	slow->damage = walk.damage;
	return err;
}

/* From which duration on a call is one of the slowest hundredth: by whole buckets of the histogram. */
static int find_floor(struct passes *passes, struct calltap_diag *diag)
{
	uint64_t hundredth = passes->finished < 100 ? 1 : passes->finished / 100;
	uint64_t floor = histogram_floor(&passes->all, hundredth), least, last = 0, count = 0, of_bucket;

	for (uint32_t at = 0; histogram_next(&passes->all, &at, &least, &of_bucket);) {
		last = least;
		count = of_bucket;
	}
	if (floor > last) { /* more than a hundredth are in the last bucket: it is taken whole */
		floor = last;
		if (count > passes->finished / 2)
			return calltap_diag_set(diag, -ENODATA,
						"the calls of '%s' all take about as long, so none of them is slow: "
						"'calltap report -f' shows their times, and '--over 10us' sets a limit",
						passes->options->function);
	}
	passes->slow->floor_ns = floor;
	return 0;
}

uint64_t slow_median_ns(const struct slow_class *of)
{
	uint64_t ns = histogram_percentile(&of->histogram, 500);

	return ns < of->min_ns ? of->min_ns : ns > of->max_ns ? of->max_ns : ns;
}

static int say_few(const struct passes *passes, struct calltap_diag *diag)
{
	const struct slow *slow = passes->slow;
	const struct slow_class *others = &slow->classes[SLOW_OTHERS], *slows = &slow->classes[SLOW_SLOW];
	const char *function = passes->options->function;
	char limit[TIMETEXT_MAX], text[TIMETEXT_MAX];

	timetext(slow->floor_ns - 1, limit);
	if (!others->calls && !slows->calls)
		return calltap_diag_set(diag, -ENODATA,
					"no call of '%s' has ended in the trace, or none that was asked for, with a "
					"duration: 'calltap report' lists what was called, and '-p function_graph' "
					"records durations",
					function);
	if (others->calls + slows->calls == 1)
		return calltap_diag_set(diag, -ENODATA,
					"'%s' was called once: there is nothing to compare the call with", function);
	if (!slows->calls)
		return calltap_diag_set(diag, -ENODATA, "no call of '%s' took longer than %s: the longest took %s",
					function, limit, timetext(others->max_ns, text));
	if (!others->calls && passes->options->over_ns == UINT64_MAX)
		return calltap_diag_set(
			diag, -ENODATA,
			"of no call of '%s' it is sure that it was not slow: give --over TIME, or record "
			"with --time exact",
			function);
	if (!others->calls)
		return calltap_diag_set(diag, -ENODATA,
					"all calls of '%s' took longer than %s: the shortest took %s, so give more",
					function, limit, timetext(slows->min_ns, text));
	return 0;
}

static int build_trees(struct passes *passes, struct calltap_diag *diag)
{
	struct slow *slow = passes->slow;
	/* The calls are chosen already; what happened in them is wanted whole. */
	struct view_filter whole = view_filter_whole(&passes->filter);
	int err = 0;

	for (unsigned side = 0; side < SIDES && !err; side++) {
		passes->builders[side].tree = &passes->trees[side];
		err = tree_init(&passes->trees[side], TREE_NODES_MAX);
	}
	passes->median_ns = slow_median_ns(&slow->classes[SLOW_SLOW]);
	if (!err)
		err = run_pass(passes, &building, &whole, diag);
	if (!err)
		err = pair_create(&slow->pair, (const struct trace *const[]){slow->trace, slow->trace}, SIDES);
	if (!err)
		err = twin_begin(&slow->twin, 0);
	for (unsigned side = 0; side < SIDES && !err; side++)
		err = twin_add(&slow->twin, slow->pair,
			       &(struct twin_input){.tree = &passes->trees[side], .at = side, .side = side});
	if (!err)
		err = twin_finish(&slow->twin,
				  (const double[]){(double)slow->classes[0].calls, (double)slow->classes[1].calls});
	for (unsigned side = 0; side < SIDES; side++) {
		slow->absorbed += passes->trees[side].absorbed;
		tree_clear(&passes->trees[side]);
	}
	return err;
}

static void clear_passes(struct passes *passes)
{
	while (passes->pending) {
		struct pending *next = passes->pending->next;

		free(passes->pending);
		passes->pending = next;
	}
	histogram_clear(&passes->all);
	free(passes->matches);
	free(passes->called);
	free(passes->kinds);
}

int slow_run(struct slow *slow, const struct trace *trace, const struct view_filter *filter,
	     const struct slow_options *options, struct calltap_diag *diag)
{
	struct passes passes = {.slow = slow, .options = options, .filter = *filter};
	int err;

	memset(slow, 0, sizeof(*slow));
	slow->trace = trace;
	slow->floor_ns = options->over_ns + 1;
	err = names_create(&slow->names, trace);
	if (!err)
		err = mark_matches(&passes, trace, options->function, diag);
	if (!err && options->over_ns == UINT64_MAX) {
		err = run_pass(&passes, &measuring, filter, diag);
		if (!err && passes.finished > 1)
			err = find_floor(&passes, diag);
	}
	if (!err)
		err = run_pass(&passes, &sorting, filter, diag);
	if (!err)
		err = say_few(&passes, diag);
	if (!err)
		err = build_trees(&passes, diag);
	clear_passes(&passes);
	if (err == -ENOMEM)
		calltap_diag_set(diag, err, "out of memory for the comparison: choose less with --time or --tid");
	return err;
}

void slow_clear(struct slow *slow)
{
	for (unsigned side = 0; side < SIDES; side++)
		histogram_clear(&slow->classes[side].histogram);
	twin_clear(&slow->twin);
	met_clear(&slow->met);
	pair_destroy(slow->pair);
	names_destroy(slow->names);
	memset(slow, 0, sizeof(*slow));
}
