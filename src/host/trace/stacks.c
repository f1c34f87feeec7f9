/*
 * Frames that were open when the trace began in the midst of a run: STACK chunks (abi/file.h).
 *
 * Context: host; called by tables.c, and by the views through trace.h.  Traced functions have their ids in the table of
 * functions already.  Other functions get ids from TRACE_UNTRACED on, one for each object and name, so that views can
 * show and merge them like traced ones.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "reader.h"

#define FRAMES_MAX     (1u << 20) /* of all stacks */
#define NAME_MAX_BYTES 4096	  /* of a symbol; the rest of a longer one is not compared */
#define PLACE_MAX      300	  /* "object+0x1234" */
#define FIRST_BITS     8

int stacks_take(struct trace *trace, const char *payload, size_t size)
{
	struct calltap_file_stack head;
	struct calltap_file_frame from;
	const char *strings;
	struct stack_entry *stack;
	uint32_t first = trace->frames.count;
	int err;

	if (size < sizeof(head))
		return -EBADMSG;
	memcpy(&head, payload, sizeof(head));
	if (sizeof(head) + head.count * (uint64_t)sizeof(from) + head.strings_size != size ||
	    (head.strings_size && payload[size - 1]))
		return -EBADMSG;
	if (!head.count)
		return 0;
	err = table_reach(&trace->frames, sizeof(struct frame_entry), (uint64_t)first + head.count - 1, FRAMES_MAX);
	if (err)
		return err;
	strings = payload + size - head.strings_size;
	for (uint32_t i = 0; i < head.count; i++) {
		struct frame_entry *frame = TABLE_ITEM(trace->frames, struct frame_entry, first + head.count - 1 - i);

		memcpy(&from, payload + sizeof(head) + i * sizeof(from), sizeof(from));
		frame->about = (struct trace_frame){from.address, from.slot, from.function};
		frame->symbol = from.name < head.strings_size ? strings + from.name : "";
		frame->process = head.process;
		frame->ticks = head.ticks;
	}
	err = table_reach(&trace->stacks, sizeof(*stack), trace->stacks.count, FRAMES_MAX);
	if (err)
		return err;
	stack = TABLE_ITEM(trace->stacks, struct stack_entry, trace->stacks.count - 1);
	*stack = (struct stack_entry){.ticks = head.ticks,
				      .name = head.strings_size ? strings : "",
				      .process = head.process,
				      .tid = head.tid,
				      .first = first,
				      .count = head.count,
				      .lo = head.lo,
				      .hi = head.hi};
	return 0;
}

/*
 * A thread by process and tid, then by index: the kernel reuses tids, and a thread that was stopped for the attach is
 * the first with its tid.
 */
struct thread_key {
	uint32_t process, tid, thread;
};

static int compare_keys(const void *left, const void *right)
{
	const struct thread_key *a = left, *b = right;

	if (a->process != b->process)
		return a->process < b->process ? -1 : 1;
	if (a->tid != b->tid)
		return a->tid < b->tid ? -1 : 1;
	return a->thread < b->thread ? -1 : a->thread > b->thread;
}

static uint32_t sort_threads(const struct trace *trace, struct thread_key *keys)
{
	uint32_t count = 0;

	for (uint32_t i = 0; i < trace->threads.count; i++) {
		const struct thread_entry *entry = TABLE_ITEM(trace->threads, struct thread_entry, i);

		if (entry->described)
			keys[count++] = (struct thread_key){entry->about.process, entry->about.tid, i};
	}
	qsort(keys, count, sizeof(*keys), compare_keys);
	return count;
}

static uint32_t find_thread(const struct thread_key *keys, uint32_t count, const struct stack_entry *stack)
{
	const struct thread_key wanted = {stack->process, stack->tid, 0};
	uint32_t lo = 0, hi = count;

	while (lo < hi) {
		uint32_t mid = lo + (hi - lo) / 2;

		if (compare_keys(&keys[mid], &wanted) < 0)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo < count && keys[lo].process == stack->process && keys[lo].tid == stack->tid ? keys[lo].thread
											      : TRACE_NONE;
}

static int make_thread(struct trace *trace, const struct stack_entry *stack, uint32_t *thread)
{
	struct thread_entry *entry;
	int err;

	*thread = trace->threads.count;
	err = table_reach(&trace->threads, sizeof(*entry), *thread, tables_index_limit(trace));
	if (err)
		return err;
	entry = TABLE_ITEM(trace->threads, struct thread_entry, *thread);
	entry->described = true;
	entry->about = (struct trace_thread){
		.process = stack->process, .tid = stack->tid, .start_ticks = stack->ticks, .end_ticks = stack->ticks};
	memcpy(entry->about.name, stack->name, strnlen(stack->name, sizeof(entry->about.name) - 1));
	return 0;
}

int stacks_settle_threads(struct trace *trace, bool make)
{
	struct thread_key *keys;
	uint32_t count;
	int err = 0;

	if (!trace->stacks.count)
		return 0;
	keys = calloc((size_t)trace->threads.count + 1, sizeof(*keys));
	if (!keys)
		return -ENOMEM;
	count = sort_threads(trace, keys);
	/* A later stack of a thread takes the place of an earlier one. */
	for (uint32_t i = 0; i < trace->stacks.count && !err; i++) {
		const struct stack_entry *stack = TABLE_ITEM(trace->stacks, struct stack_entry, i);
		uint32_t thread = find_thread(keys, count, stack);

		if (thread == TRACE_NONE && make)
			err = make_thread(trace, stack, &thread);
		if (thread != TRACE_NONE && !err)
			TABLE_ITEM(trace->threads, struct thread_entry, thread)->stack = i + 1;
	}
	free(keys);
	return err;
}

static uint32_t hash_of(uint32_t object, const char *symbol)
{
	uint64_t h = 0xcbf29ce484222325ull ^ object;

	for (unsigned i = 0; symbol[i] && i < NAME_MAX_BYTES; i++)
		h = (h ^ (unsigned char)symbol[i]) * 0x100000001b3ull;
	return (uint32_t)(h ^ h >> 32);
}

/* The function's place in the hash, or the free place for it. */
static uint32_t *find_bucket(const struct trace *trace, uint32_t object, const char *symbol)
{
	uint32_t mask = (1u << trace->untraced_bits) - 1;

	for (uint32_t at = hash_of(object, symbol) & mask;; at = (at + 1) & mask) {
		uint32_t *bucket = &trace->untraced_buckets[at];
		const struct trace_function *known;

		if (!*bucket)
			return bucket;
		known = TABLE_ITEM(trace->untraced, struct trace_function, *bucket - 1);
		if (known->object == object && strncmp(known->symbol, symbol, NAME_MAX_BYTES) == 0)
			return bucket;
	}
}

static int make_room(struct trace *trace)
{
	uint32_t *old = trace->untraced_buckets;

	if (old && trace->untraced.count < 1u << (trace->untraced_bits - 1))
		return 0;
	trace->untraced_bits = old ? trace->untraced_bits + 1 : FIRST_BITS;
	trace->untraced_buckets = calloc((size_t)1 << trace->untraced_bits, sizeof(*trace->untraced_buckets));
	if (!trace->untraced_buckets) {
		trace->untraced_buckets = old;
		trace->untraced_bits -= old != NULL;
		return -ENOMEM;
	}
	free(old);
	for (uint32_t i = 0; i < trace->untraced.count; i++) {
		const struct trace_function *known = TABLE_ITEM(trace->untraced, struct trace_function, i);

		*find_bucket(trace, known->object, known->symbol) = i + 1;
	}
	return 0;
}

/* The id of an untraced function; a new id at its first frame. */
static int intern_function(struct trace *trace, uint32_t object, const char *symbol, uint32_t *id)
{
	struct trace_function *function;
	uint32_t *bucket;
	int err = make_room(trace);

	if (err)
		return err;
	bucket = find_bucket(trace, object, symbol);
	if (!*bucket) {
		err = table_reach(&trace->untraced, sizeof(*function), trace->untraced.count, FRAMES_MAX);
		if (err)
			return err;
		function = TABLE_ITEM(trace->untraced, struct trace_function, trace->untraced.count - 1);
		*function = (struct trace_function){.object = object, .symbol = symbol};
		*bucket = trace->untraced.count;
	}
	*id = TRACE_UNTRACED + *bucket - 1;
	return 0;
}

/* Name a frame whose function's name is not known by its address. */
static int name_by_place(struct trace *trace, struct frame_entry *frame)
{
	char place[PLACE_MAX], *copy;
	int err;

	trace_describe_address(trace, frame->process, frame->about.address, frame->ticks, place, sizeof(place));
	copy = strdup(place);
	if (!copy)
		return -ENOMEM;
	err = trace_keep(trace, copy, 0);
	if (err)
		free(copy);
	else
		frame->symbol = copy;
	return err;
}

/*
 * The number of outermost frames that are taken to be open at the thread's first record.  A call of a traced function
 * comes from the innermost traced frame, or from a function that it has called since: the frames inside of it are
 * over.  Without a traced frame, most calls come from an object that has traced functions.
 */
static uint32_t lasting_frames(const struct trace *trace, const struct stack_entry *stack, const bool *traced)
{
	const struct frame_entry *frames = &TABLE_ITEM(trace->frames, struct frame_entry, 0)[stack->first];

	for (uint32_t i = stack->count; i > 0; i--)
		if (frames[i - 1].about.function < TRACE_UNTRACED)
			return i;
	for (uint32_t i = stack->count; i > 1; i--) {
		const struct trace_function *function = trace_function(trace, frames[i - 1].about.function);

		if (function && function->object < trace->objects.count && traced[function->object])
			return i;
	}
	return 1;
}

static int settle_lasting(struct trace *trace)
{
	bool *traced = calloc((size_t)trace->objects.count + 1, sizeof(*traced)); /* per object: has traced functions */

	if (!traced)
		return -ENOMEM;
	for (uint32_t id = 0; id < trace->functions.count; id++) {
		const struct trace_function *function = TABLE_ITEM(trace->functions, struct trace_function, id);

		if (function->symbol && function->object < trace->objects.count)
			traced[function->object] = true;
	}
	for (; trace->stacks_settled < trace->stacks.count; trace->stacks_settled++) {
		struct stack_entry *stack = TABLE_ITEM(trace->stacks, struct stack_entry, trace->stacks_settled);

		stack->lasting = lasting_frames(trace, stack, traced);
	}
	free(traced);
	return 0;
}

int stacks_settle_functions(struct trace *trace)
{
	for (; trace->frames_settled < trace->frames.count; trace->frames_settled++) {
		struct frame_entry *frame = TABLE_ITEM(trace->frames, struct frame_entry, trace->frames_settled);
		uint32_t object;
		int err = 0;

		if (frame->about.function < TRACE_UNTRACED && trace_function(trace, frame->about.function))
			continue;
		frame->about.function = TRACE_NONE;
		object = address_object(trace, frame->process, frame->about.address, frame->ticks);
		if (!frame->symbol[0])
			err = name_by_place(trace, frame);
		if (!err)
			err = intern_function(trace, object, frame->symbol, &frame->about.function);
		if (err)
			return err;
	}
	return trace->stacks_settled < trace->stacks.count ? settle_lasting(trace) : 0;
}

bool trace_thread_stack(const struct trace *trace, uint32_t index, struct trace_stack *stack)
{
	const struct thread_entry *entry;
	const struct stack_entry *from;

	if (index >= trace->threads.count)
		return false;
	entry = TABLE_ITEM(trace->threads, struct thread_entry, index);
	if (!entry->stack)
		return false;
	from = TABLE_ITEM(trace->stacks, struct stack_entry, entry->stack - 1);
	*stack = (struct trace_stack){from->ticks, from->first, from->count, from->lasting, from->lo, from->hi};
	return true;
}

uint32_t trace_frame_count(const struct trace *trace)
{
	return trace->frames.count;
}

const struct trace_frame *trace_frame(const struct trace *trace, uint32_t index)
{
	return index < trace->frames.count ? &TABLE_ITEM(trace->frames, struct frame_entry, index)->about : NULL;
}
