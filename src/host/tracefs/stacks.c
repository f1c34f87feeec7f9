/*
 * The stack tracer: the deepest stack of each thread, with the sizes of its frames (tree.h).
 *
 * A gate records all calls of the functions that stack_trace_filter names, and where each one's frame begins.  A
 * frame's size is what lies between its beginning and that of the next inner recorded one: so it has the frames of
 * functions that are not recorded.  Context: host.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include <host/now.h>
#include <host/space.h>

#include "tree.h"

#define ABOVE_MAX (256u << 10) /* bytes above the outermost recorded frame that may be the thread's own */
#define FRAME_MAX (64u << 20)  /* a frame that is larger is one of another stack */
#define LOOK_NS	  50000000u    /* between two looks at a process' mappings */
#define RANGES	  4u

struct frame {
	uint64_t address; /* 0 = not known */
	uint32_t function;
};

struct range {
	uint64_t lo, hi;
};

/* A thread, by its slot. */
struct thread_stack {
	struct frame *frames; /* of its open calls, outermost first */
	size_t count, room;
	struct range ranges[RANGES]; /* mappings that its frames lay in, newest first */
	uint64_t looked_ns;
	uint64_t deepest;   /* bytes, 0 = nothing yet */
	uint64_t end;	    /* of that stack: above all frames */
	size_t first, last; /* its frames: in `frames` while it is the present one, else in `kept` */
	bool present;
	struct frame *kept;
};

struct tree_stacks {
	struct tree_instance *gate; /* NULL = the tracer was never on */
	struct tree_words filters;
	struct thread_stack *threads;
	size_t thread_count;
	uint64_t least; /* bytes: stacks that are not deeper are left out */
	bool has_failed;
	const struct tree *tree;
};

static struct thread_stack *thread_of(struct tree_stacks *stacks, uint32_t slot)
{
	struct thread_stack *threads = tree_grown(stacks->threads, &stacks->thread_count, slot, sizeof(*threads));

	if (!threads)
		return NULL;
	stacks->threads = threads;
	return &threads[slot];
}

/* The deepest stack is about to change: keep what it is. */
static bool keep(struct thread_stack *thread)
{
	size_t count = thread->last - thread->first;
	struct frame *kept;

	if (!thread->present)
		return true;
	thread->present = false;
	kept = reallocarray(thread->kept, count, sizeof(*kept));
	if (!kept) {
		thread->deepest = 0;
		return false;
	}
	memcpy(kept, thread->frames + thread->first, count * sizeof(*kept));
	thread->kept = kept;
	return true;
}

/* Calls at that depth and farther in have ended. */
static bool cut(struct thread_stack *thread, size_t depth)
{
	bool kept = thread->last <= depth || keep(thread);

	if (thread->count > depth)
		thread->count = depth;
	return kept;
}

static bool enter(struct thread_stack *thread, size_t depth, uint32_t function)
{
	struct frame *frames = tree_grown(thread->frames, &thread->room, depth, sizeof(*frames));

	if (!frames)
		return false;
	thread->frames = frames;
	for (; thread->count < depth; thread->count++) /* calls that were open before the tracer was on */
		thread->frames[thread->count] = (struct frame){0};
	thread->frames[thread->count++] = (struct frame){.function = function};
	return true;
}

/* The mapping that the address is in; {0} = nobody knows. */
static struct range find_range(const struct tree_stacks *stacks, struct thread_stack *thread, uint32_t slot,
			       uint64_t address)
{
	const struct tree_slot *known = &stacks->tree->slots[slot];
	struct space space;
	const struct map *map;

	for (size_t i = 0; i < RANGES; i++)
		if (address >= thread->ranges[i].lo && address < thread->ranges[i].hi)
			return thread->ranges[i];
	if (thread->looked_ns && now_ns() - thread->looked_ns < LOOK_NS)
		return (struct range){0};
	thread->looked_ns = now_ns();
	if (!known->pid || space_read(&space, (pid_t)known->tid))
		return (struct range){0};
	map = space_find(&space, address);
	if (map) {
		memmove(thread->ranges + 1, thread->ranges, (RANGES - 1) * sizeof(thread->ranges[0]));
		thread->ranges[0] = (struct range){map->lo, map->hi};
	}
	space_free(&space);
	return map ? thread->ranges[0] : (struct range){0};
}

/* The outermost frame of the innermost one's stack; frames whose place is not known are passed over. */
static size_t first_of(const struct thread_stack *thread)
{
	size_t first = thread->count - 1;

	for (size_t i = first; i--;) {
		uint64_t address = thread->frames[i].address, inner = thread->frames[first].address;

		if (!address)
			continue;
		if (address <= inner || address - inner > FRAME_MAX)
			break;
		first = i;
	}
	return first;
}

/* The innermost call's place is known: is this the thread's deepest stack? */
static void look(struct tree_stacks *stacks, struct thread_stack *thread, uint32_t slot)
{
	uint64_t address = thread->frames[thread->count - 1].address, end;
	const struct range range = find_range(stacks, thread, slot, address);
	size_t first;

	/* Most calls are not: no look at their callers. */
	if (range.hi && range.hi - address <= thread->deepest)
		return;
	first = first_of(thread);
	end = thread->frames[first].address;
	if (range.hi > end && range.hi - end <= ABOVE_MAX)
		end = range.hi;
	if (end - address <= thread->deepest || end - address <= stacks->least)
		return;
	thread->deepest = end - address;
	thread->end = end;
	thread->first = first;
	thread->last = thread->count;
	thread->present = true;
}

static void take(void *ctx, const struct tree_event *event)
{
	struct tree_stacks *stacks = ctx;
	struct thread_stack *thread = thread_of(stacks, event->slot);
	bool done = thread != NULL;

	if (!thread) {
		stacks->has_failed = true;
		return;
	}
	switch ((enum tree_kind)event->kind) {
	case TREE_ENTRY:
		done = cut(thread, event->depth) && enter(thread, event->depth, event->function);
		break;
	case TREE_EXIT:
		done = cut(thread, event->depth);
		break;
	case TREE_FRAME:
		if (event->depth + 1u == thread->count && thread->frames[event->depth].function == event->function) {
			thread->frames[event->depth].address = event->extra;
			look(stacks, thread, event->slot);
		}
		break;
	case TREE_LOST:
		done = cut(thread, 0);
		break;
	default:
		break;
	}
	stacks->has_failed |= !done;
}

bool stacks_pump(struct tree *tree)
{
	return !tree->stacks || gate_drain(tree->stacks->gate, take, tree->stacks);
}

/* Forget the deepest stacks. */
static void reset(struct tree_stacks *stacks)
{
	for (size_t i = 0; i < stacks->thread_count; i++) {
		stacks->threads[i].deepest = 0;
		stacks->threads[i].present = false;
	}
	stacks->has_failed = false;
}

/* The functions of their frames are those of a gate. */
static void forget_threads(struct tree *tree)
{
	struct tree_stacks *stacks = tree->stacks;

	for (size_t i = 0; i < stacks->thread_count; i++) {
		free(stacks->threads[i].frames);
		free(stacks->threads[i].kept);
	}
	free(stacks->threads);
	stacks->threads = NULL;
	stacks->thread_count = 0;
}

void stacks_destroy(struct tree *tree)
{
	if (!tree->stacks)
		return;
	gate_end(&tree->stacks->gate);
	forget_threads(tree);
	tree_words_clear(&tree->stacks->filters);
	free(tree->stacks);
	tree->stacks = NULL;
}

static struct tree_stacks *stacks_of(struct tree *tree)
{
	if (!tree->stacks)
		tree->stacks = calloc(1, sizeof(*tree->stacks));
	if (tree->stacks)
		tree->stacks->tree = tree;
	return tree->stacks;
}

static bool is_on(const struct tree *tree)
{
	return tree->stacks && gate_is_open(tree->stacks->gate);
}

int stacks_filters(const struct tree *tree, struct tree_words *out)
{
	static const struct tree_words none;

	return tree_words_copy(out, tree->stacks ? &tree->stacks->filters : &none);
}

int stacks_filter(struct tree *tree, const struct tree_words *filters)
{
	struct tree_stacks *stacks = stacks_of(tree);
	struct tree_words copy = {0}, changes = {0};
	int ret = stacks ? tree_words_copy(&copy, filters) : -ENOMEM;

	if (!ret && is_on(tree)) {
		ret = ask_add_values(&changes, "trace", filters);
		if (!ret)
			ret = ask_change(stacks->gate, "stack_trace_filter", &changes);
		tree_words_clear(&changes);
	}
	if (ret) {
		tree_words_clear(&copy);
		return ret;
	}
	tree_words_clear(&stacks->filters);
	stacks->filters = copy;
	return 0;
}

static int first_filters(struct tree *tree, struct tree_words *out)
{
	return tree->stacks->filters.count ? ask_add_values(out, "trace", &tree->stacks->filters) : 0;
}

static const struct gate_kind gate_kind = {.name = "stacks",
					   .settings = {"tracer=function_graph", "frames=1", "buffer=4M"},
					   .take = take,
					   .filters = first_filters,
					   .forget = forget_threads};

int stacks_read_enabled(struct tree_open *open, struct tree_text *out)
{
	tree_text_string(out, is_on(open->instance->tree) ? "1\n" : "0\n");
	return 0;
}

int stacks_write_enabled(struct tree_open *open, const char *text, size_t size)
{
	struct tree_stacks *stacks = stacks_of(open->instance->tree);

	return stacks ? gate_switch(&stacks->gate, &gate_kind, stacks, open, text, size) : -ENOMEM;
}

static void settle(struct tree *tree)
{
	if (tree->stacks && gate_has_more(tree->stacks->gate))
		gate_settle(tree->stacks->gate, take, tree->stacks);
}

int stacks_read_size(struct tree_open *open, struct tree_text *out)
{
	struct tree *tree = open->instance->tree;
	uint64_t deepest = tree->stacks ? tree->stacks->least : 0;

	settle(tree);
	for (size_t i = 0; tree->stacks && i < tree->stacks->thread_count; i++)
		if (tree->stacks->threads[i].deepest > deepest)
			deepest = tree->stacks->threads[i].deepest;
	tree_text_format(out, "%" PRIu64 "\n", deepest);
	return 0;
}

int stacks_write_size(struct tree_open *open, const char *text, size_t size)
{
	struct tree *tree = open->instance->tree;
	uint64_t least = 0;
	int ret = control_number(open, text, &least);

	if (ret)
		return ret;
	if (!stacks_of(tree))
		return -ENOMEM;
	settle(tree);
	reset(tree->stacks);
	tree->stacks->least = least;
	return (int)size;
}

static void put_frame(const struct tree_stacks *stacks, size_t number, uint64_t depth, uint64_t size, uint32_t function,
		      struct tree_text *out)
{
	tree_text_format(out, "%3zu) %8" PRIu64 "   %5" PRIu64 "   ", number, depth, size);
	lines_function(stacks->gate, function, out);
	tree_text_add(out, "\n", 1);
}

/*
 * The table of a thread, as the kernel prints the only one that it has: the depth of a line is that at the function's
 * own call of the next inner one, and the outermost line has all that lies above it.  How large the innermost frame
 * becomes is not known: the call was recorded at its entry.
 */
static void put_thread(const struct tree_stacks *stacks, const struct thread_stack *thread, struct tree_text *out)
{
	const struct frame *frames = thread->present ? thread->frames + thread->first : thread->kept;
	size_t count = thread->last - thread->first, known = 0, number = 0;
	uint64_t inner = 0;

	for (size_t i = 0; i < count; i++)
		known += frames[i].address != 0;
	tree_text_format(out,
			 "        Depth    Size   Location    (%zu entries)\n"
			 "        -----    ----   --------\n",
			 known);
	for (size_t i = count; i--;) {
		uint64_t address = frames[i].address, depth, size;

		if (!address)
			continue;
		depth = thread->end - (inner ? inner : address);
		size = ++number == known ? depth : inner ? address - inner : 0;
		put_frame(stacks, number - 1, depth, size, frames[i].function, out);
		inner = address;
	}
}

/* The thread with the deepest stack of those that are not deeper than `below`, or as deep and behind `after`. */
static size_t next_thread(const struct tree_stacks *stacks, uint64_t below, size_t after)
{
	size_t found = stacks->thread_count;

	for (size_t i = 0; i < stacks->thread_count; i++) {
		uint64_t deepest = stacks->threads[i].deepest;

		if (!deepest || deepest > below || (deepest == below && i <= after))
			continue;
		if (found == stacks->thread_count || deepest > stacks->threads[found].deepest)
			found = i;
	}
	return found;
}

int stacks_read(struct tree_open *open, struct tree_text *out)
{
	struct tree *tree = open->instance->tree;
	const struct tree_stacks *stacks = tree->stacks;
	size_t at = SIZE_MAX;
	bool any = false;

	settle(tree);
	for (uint64_t below = UINT64_MAX; stacks; below = stacks->threads[at].deepest) {
		at = next_thread(stacks, below, at);
		if (at == stacks->thread_count)
			break;
		tree_text_format(out, "%s# %s-%u\n", any ? "\n" : "", tree->slots[at].name, tree->slots[at].tid);
		put_thread(stacks, &stacks->threads[at], out);
		any = true;
	}
	if (!any)
		tree_text_string(out, is_on(tree) ? "        Depth    Size   Location    (0 entries)\n"
						    "        -----    ----   --------\n"
						  : "#\n#  Stack tracer disabled\n#\n# To enable the stack tracer:\n"
						    "# echo 1 > stack_tracer_enabled\n#\n");
	if (stacks && stacks->has_failed)
		tree_text_string(out, "# there was not enough memory for all stacks\n");
	return 0;
}
