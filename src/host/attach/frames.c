/*
 * Frames of stopped threads, and which of the signals' frames that lie in their stacks are over (attach.h).
 *
 * A frame that is over stays as it was in memory that its thread has not written since, a large array for example.
 * Unwinding the thread's stack by the rules of its code tells: the way up meets a living frame, and passes by a frame
 * that is over.  Files are read before the stop, and only where there was a doubt in the one before.  Context: host.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "impl.h"

#define TIME_NS	 5000000u   /* for all threads of one stop */
#define COPY_MAX (4u << 20) /* of one thread's stack */

struct attach_frames {
	struct unwinder *unwinder;
	struct space space; /* the mappings of the unwinder's modules */
	struct attach_range *regions;
	size_t region_count;
};

/* The contexts in doubt. */
struct doubts {
	struct attach_context **list;
	size_t count;
	uint64_t *highest; /* by thread: the highest address of its contexts in doubt; 0 = it has none */
};

/* How far the frames of a thread have been followed. */
struct climb {
	struct attach_frames *frames;
	bool (*visit)(void *context, const struct attach_frame *frame);
	void *context;
	uint64_t until_ns, last;
	bool guessed, at_bottom;
};

int attach_frames_open(struct attach_frames **out, pid_t pid)
{
	struct attach_frames *frames = calloc(1, sizeof(*frames));
	pid_t alive = proc_alive(pid);
	int ret = frames ? space_read(&frames->space, alive ? alive : pid) : -ENOMEM;

	if (!ret)
		ret = stubs_find(alive ? alive : pid, &frames->space, &frames->regions, &frames->region_count);
	if (!ret)
		ret = unwinder_open(&frames->unwinder, pid, alive ? alive : pid, &frames->space);
	for (size_t i = 0; !ret && i < frames->space.count; i++)
		if (frames->space.maps[i].bits & MAP_EXEC)
			(void)unwinder_has_rules(frames->unwinder, frames->space.maps[i].lo); /* reads its file */
	if (ret) {
		attach_frames_close(frames);
		return ret;
	}
	*out = frames;
	return 0;
}

void attach_frames_close(struct attach_frames *frames)
{
	if (!frames)
		return;
	unwinder_close(frames->unwinder);
	space_free(&frames->space);
	free(frames->regions);
	free(frames);
}

const char *attach_frame_symbol(struct attach_frames *frames, uint64_t pc)
{
	return unwinder_symbol(frames->unwinder, pc);
}

static bool pass_frame(void *context, const struct frame *frame)
{
	struct climb *climb = context;
	struct unwinder *unwinder = climb->frames->unwinder;
	const struct attach_frame told = {frame->pc, climb->last, frame->slot, frame->exact};
	bool has_rules = unwinder_has_rules(unwinder, frame->exact ? frame->pc : frame->pc - 1);

	/* No call returns to a function's first byte: makecontext() has put it where the stack begins. */
	climb->at_bottom = !frame->exact && !has_rules && unwinder_has_rules(unwinder, frame->pc);
	/* The frames behind a function without unwind rules are a guess. */
	climb->guessed = !has_rules || now_ns() > climb->until_ns;
	climb->last = frame->slot + sizeof(uint64_t);
	return climb->visit(climb->context, &told) && !climb->guessed;
}

/* Copy the stack, where it is one piece; words that are not copied are read one by one. */
static void copy_stack(const struct attach_stop *stop, const struct attach_thread *thread, struct stack_copy *copy)
{
	struct attach_range live;
	unsigned char *bytes;

	if (!scan_live(&stop->space, thread->sp, COPY_MAX, &live))
		return;
	bytes = malloc(live.hi - live.lo);
	if (!bytes || memory_read(stop->alive, live.lo, bytes, live.hi - live.lo)) {
		free(bytes);
		return;
	}
	copy->lo = live.lo;
	copy->hi = live.hi;
	copy->bytes = bytes;
}

bool attach_climb(struct attach_stop *stop, struct attach_frames *frames, const struct attach_thread *thread,
		  bool (*visit)(void *context, const struct attach_frame *frame), void *context)
{
	struct stack_copy from = {
		.tid = thread->tid,
		.alive = stop->alive,
		.regions = frames->regions,
		.region_count = frames->region_count,
	};
	struct climb climb = {
		.frames = frames,
		.visit = visit,
		.context = context,
		.until_ns = now_ns() + TIME_NS,
		.last = thread->sp,
	};
	bool complete;

	if (thread->asleep)
		return false;
	memcpy(from.values, thread->registers, sizeof(thread->registers));
	from.values[NATIVE_DWARF_SP] = stubs_sp(stop->alive, frames->regions, frames->region_count, thread->sp);
	from.values[NATIVE_DWARF_REGISTERS - 1] = thread->pc;
	copy_stack(stop, thread, &from);
	complete = unwinder_climb(frames->unwinder, &from, pass_frame, &climb);
	free((void *)from.bytes);
	return climb.at_bottom || (complete && !climb.guessed);
}

/* Does code of the agent lead back to a stub, or to the program's code? */
struct origin {
	const struct attach_frames *frames;
	uint64_t agent; /* an address in its text */
	bool found;
};

static bool look_for_origin(void *context, const struct frame *frame)
{
	struct origin *origin = context;
	const struct map *map = space_find(&origin->frames->space, frame->pc);
	const struct map *agent = space_find(&origin->frames->space, origin->agent);

	/* The agent's text is one mapping; a stub lies in another one, as all other code does. */
	origin->found = map != agent && map && map->bits & MAP_EXEC;
	return map == agent;
}

/* True if a recorder that was interrupted can go on: it has its frames, up to where it was called. */
static bool is_intact(const struct attach_stop *stop, const struct attach_frames *frames,
		      const struct attach_context *context)
{
	uint64_t words[NATIVE_SAVED_BEFORE + 1 + NATIVE_SAVED_AFTER];
	struct stack_copy from = {.tid = stop->alive, .alive = stop->alive};
	struct origin origin = {.frames = frames, .agent = context->pc};

	/* A stub has no frames of its own. */
	if (stubs_have(frames->regions, frames->region_count, context->pc))
		return true;
	if (memory_read(stop->alive, context->address - NATIVE_SAVED_BEFORE * sizeof(words[0]), words, sizeof(words)))
		return true;
	native_saved_dwarf(words + NATIVE_SAVED_BEFORE, from.values);
	unwinder_climb(frames->unwinder, &from, look_for_origin, &origin);
	return origin.found;
}

/* A thread whose contexts are looked for among its frames. */
struct thread_doubts {
	const struct doubts *doubts;
	const struct attach_thread *thread;
	uint64_t highest, lo, hi; /* [lo, hi): where the frame before lies, hi = 0: there was none */
};

/* Contexts that the last step up has passed by are over, but for the one that this frame was interrupted in. */
static void settle_contexts(const struct thread_doubts *it, const struct attach_frame *frame)
{
	for (size_t i = 0; i < it->doubts->count; i++) {
		struct attach_context *context = it->doubts->list[i];

		if (context->thread == it->thread && context->address >= it->lo && context->address < it->hi &&
		    !(frame->exact && frame->pc == context->pc))
			context->over = true;
	}
}

static bool look_at_frame(void *context, const struct attach_frame *frame)
{
	struct thread_doubts *it = context;

	settle_contexts(it, frame);
	if (it->hi > it->highest)
		return false;
	it->lo = frame->lo;
	it->hi = frame->hi;
	return true;
}

static void find_doubts(struct attach_stop *stop, const struct attach_frames *frames, struct doubts *doubts,
			bool (*doubtful)(void *context, const struct attach_context *it), void *context)
{
	for (size_t i = 0; i < stop->context_count; i++) {
		struct attach_context *it = &stop->contexts[i];
		uint64_t *highest;

		if (!it->address || !doubtful(context, it))
			continue;
		it->over = !is_intact(stop, frames, it);
		if (it->over || !it->thread || it->thread->asleep)
			continue;
		highest = &doubts->highest[it->thread - stop->threads];
		*highest = it->address > *highest ? it->address : *highest;
		doubts->list[doubts->count++] = it;
	}
}

void attach_settle(struct attach_stop *stop, struct attach_frames *frames,
		   bool (*doubtful)(void *context, const struct attach_context *it), void *context)
{
	struct doubts doubts = {.list = calloc(stop->context_count + 1, sizeof(*doubts.list)),
				.highest = calloc(stop->thread_count + 1, sizeof(*doubts.highest))};
	uint64_t until_ns = now_ns() + TIME_NS;

	if (doubts.list && doubts.highest) {
		find_doubts(stop, frames, &doubts, doubtful, context);
		for (size_t i = 0; i < stop->thread_count && now_ns() < until_ns; i++)
			if (doubts.highest[i])
				(void)attach_climb(stop, frames, &stop->threads[i], look_at_frame,
						   &(struct thread_doubts){.doubts = &doubts,
									   .thread = &stop->threads[i],
									   .highest = doubts.highest[i]});
	}
	free(doubts.list);
	free(doubts.highest);
}
