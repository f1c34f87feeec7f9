/*
 * From the memory that a session writes an instance's records to, to the instance's store (tree.h).
 *
 * Records become the events that the kernel's tracers would write: a call with its caller, or entry and exit with
 * depth and duration.  Marks of other threads of the system are put among them by their time.  Context: host.
 */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <host/now.h>
#include <host/proc.h>

#include "tree.h"

#define QUEUED_MAX   (4u << 20) /* bytes of packed records that wait in the reader; about a second's at the most */
#define TAKE_NS	     20000000u	/* for taking records in at a time: requests wait meanwhile */
#define TAKE_COUNT   1024u	/* records between two looks at the clock */
#define AWAITED_NS   1000000u	/* after a call's entry at the most its arguments are recorded */
#define HELD_PERCENT 50u
#define READER_NS    3000000000u /* who has read events, or waited for some, since then will read more */

/* The slot of one of the trace's threads; UINT32_MAX = no memory. */
static uint32_t slot_of(struct tree_instance *instance, const struct trace *trace, uint32_t index)
{
	struct tree_source *source = &instance->source;
	const struct trace_thread *thread = trace_thread(trace, index);
	const struct trace_process *process = thread ? trace_process(trace, thread->process) : NULL;
	uint32_t *slots = tree_grown(source->slots, &source->slot_count, index, sizeof(*slots)), slot;

	if (!slots)
		return UINT32_MAX;
	source->slots = slots;
	slot = source->slots[index] ? source->slots[index] - 1 : parts_slot(instance->tree, thread ? thread->tid : 0);
	if (slot == UINT32_MAX)
		return slot;
	source->slots[index] = slot + 1;
	instance->tree->slots[slot].named |= options_has(instance, OPTION_RECORD_CMD);
	if (thread && thread->name[0])
		parts_name_slot(instance->tree, slot, process ? process->pid : 0, thread->name);
	return slot;
}

static bool is_kept(const struct tree_instance *instance, uint64_t ns)
{
	return ns > instance->clear_ns && (ns <= instance->off_ns || ns > instance->on_ns) &&
	       (ns <= instance->pause_ns || ns > instance->resume_ns);
}

static bool is_wanted(const struct tree_instance *instance, uint64_t ns, uint32_t slot, uint32_t cpu)
{
	char tid[16];

	if (!is_kept(instance, ns) || !cpus_is_wanted(instance, cpu))
		return false;
	if (!instance->pids.count && !instance->notrace_pids.count)
		return true;
	snprintf(tid, sizeof(tid), "%u", instance->tree->slots[slot].tid);
	if (tree_words_find(&instance->notrace_pids, tid) < instance->notrace_pids.count)
		return false;
	return !instance->pids.count || tree_words_find(&instance->pids, tid) < instance->pids.count;
}

/* Put an event into the store that the record which is being taken in tells of. */
static void put(struct tree_instance *instance, enum tree_kind kind, uint32_t function, uint64_t extra, uint32_t depth,
		char *text)
{
	const struct tree_taking *taking = &instance->source.taking;
	struct tree_event event = {
		.ns = taking->ns,
		.ticks = taking->record->ticks,
		.extra = extra,
		.text = text,
		.slot = taking->slot,
		.thread = taking->record->thread,
		.function = function,
		.depth = (uint16_t)(depth > UINT16_MAX ? UINT16_MAX : depth),
		.cpu = cpus_of_record(instance, taking),
		.kind = (uint8_t)kind,
	};

	if (is_wanted(instance, taking->ns, taking->slot, event.cpu) && (kind != TREE_MARK || text))
		store_add(&instance->store, &event);
	else
		free(text);
}

static void on_enter(void *ctx, struct callstack *stack, uint32_t thread, struct call_frame *frame)
{
	struct tree_instance *instance = ctx;

	frame->user = instance->source.taking.ns;
	put(instance, TREE_ENTRY, frame->function, 0, frame->depth, NULL);
}

static void on_close(void *ctx, struct callstack *stack, const struct call_closed *closed)
{
	struct tree_instance *instance = ctx;
	const struct trace *trace = trace_follow_trace(instance->source.follow);
	const struct call_frame *frame = closed->frame;
	uint64_t took = UINT64_MAX;

	if (closed->how == CALL_OPEN || closed->how == CALL_LOST || closed->how == CALL_LEFT)
		return;
	/* As the entry was judged: its place in the order may make it later than its time. */
	if (frame->enter_known && frame->user <= instance->changed_ns)
		return;
	if (frame->enter_known)
		took = trace_duration_ns(trace, closed->exit_ticks - frame->enter_ticks);
	if (frame->enter_known && took > instance->longest_ns && instance->source.taking.ns > instance->measured_ns &&
	    is_kept(instance, instance->source.taking.ns))
		instance->longest_ns = took;
	put(instance, TREE_EXIT, frame->function, took, frame->depth,
	    closed->how == CALL_RETURNED
		    ? details_result(&instance->source, instance->source.taking.slot, frame->function)
		    : NULL);
}

static const struct callstack_ops calls = {.on_enter = on_enter, .on_close = on_close};

void source_put_marks(struct tree_instance *instance, uint64_t until_ns)
{
	while (instance->marks && instance->marks->event.ns <= until_ns) {
		struct tree_mark *mark = instance->marks;

		instance->marks = mark->next;
		if (is_kept(instance, mark->event.ns))
			store_add(&instance->store, &mark->event);
		else
			free(mark->event.text);
		free(mark);
	}
}

/* Where the frame of the thread's innermost open call lies. */
static void put_frame(struct tree_instance *instance, const struct trace_event *record)
{
	struct callstack *stack = instance->source.stack;
	uint32_t depth = callstack_depth(stack, record->thread);
	const struct call_frame *frame = depth ? callstack_frame(stack, record->thread, depth - 1) : NULL;
	unsigned char bytes[CALLTAP_EVENT_BYTES_MAX];
	uint64_t address = 0;

	if (!frame || trace_event_bytes(record, bytes) < CALLTAP_EVENT_WORD_BYTES)
		return;
	memcpy(&address, bytes, CALLTAP_EVENT_WORD_BYTES);
	put(instance, TREE_FRAME, frame->function, address, frame->depth, NULL);
}

static void note_told(struct tree_source *source, uint32_t thread, uint64_t count)
{
	uint64_t *told = tree_grown(source->told, &source->told_count, thread, sizeof(*told));

	if (!told)
		return;
	source->told = told;
	told[thread] += count;
}

static uint64_t untold_of(const struct tree_source *source, uint32_t thread)
{
	uint64_t lost = trace_follow_lost(source->follow, thread);
	uint64_t told = thread < source->told_count ? source->told[thread] : 0;

	return lost > told ? lost - told : 0;
}

uint64_t source_untold(const struct tree_instance *instance, uint32_t cpu)
{
	const struct tree_source *source = &instance->source;
	const struct trace *trace = source->follow ? trace_follow_trace(source->follow) : NULL;
	uint32_t threads = trace ? trace_thread_count(trace) : 0;
	uint64_t untold = 0;

	for (uint32_t i = 0; i < threads; i++) {
		uint32_t slot = i < source->slot_count ? source->slots[i] : 0;

		if (cpu == READING_ALL || (slot && instance->tree->slots[slot - 1].cpu == cpu))
			untold += untold_of(source, i);
	}
	return untold;
}

/* The recording has ended: what threads have lost behind their last records is told now. */
static void tell_rest(struct tree_instance *instance, const struct trace *trace)
{
	struct tree_source *source = &instance->source;

	for (uint32_t i = 0; i < trace_thread_count(trace); i++) {
		const struct trace_event lost = {.ticks = source->last_ticks, .thread = i, .kind = CALLTAP_REC_LOST};
		uint64_t untold = untold_of(source, i);

		if (!untold)
			continue;
		source->taking = (struct tree_taking){&lost, source->last_ns, now_ns(), slot_of(instance, trace, i)};
		if (source->taking.slot == UINT32_MAX)
			continue;
		note_told(source, i, untold);
		put(instance, TREE_LOST, TRACE_NONE, untold, 0, NULL);
	}
}

static void reach(struct tree_instance *instance, uint64_t ticks)
{
	for (unsigned i = 0; i < TREE_BESIDES; i++)
		if (instance->besides[i])
			instance->besides[i]->reach(instance, ticks);
}

/* Take in what has come beside the instance's records, which come up to where all of that is known. */
static void pump_besides(struct tree_instance *instance)
{
	uint64_t known = UINT64_MAX;

	for (unsigned i = 0; i < TREE_BESIDES && !instance->source.ended; i++)
		if (instance->besides[i]) {
			uint64_t to;

			instance->besides[i]->pump(instance);
			to = instance->besides[i]->known(instance);
			known = to < known ? to : known;
		}
	if (instance->source.follow && !instance->source.ended)
		trace_follow_limit(instance->source.follow, known);
}

/* The calls that have come again are told of before another one. */
static void put_repeats(struct tree_instance *instance, struct tree_repeats *before)
{
	char *text = before->count ? malloc(sizeof(before->last_ns)) : NULL;

	if (!text)
		return;
	memcpy(text, &before->last_ns, sizeof(before->last_ns));
	put(instance, TREE_REPEATS, before->function, before->caller, before->count, text);
}

/* The option func-no-repeats: true if the call is like the thread's last one, and needs no event of its own. */
static bool repeats(struct tree_instance *instance, const struct trace_event *record)
{
	struct tree_source *source = &instance->source;
	const struct tree_taking *taking = &source->taking;
	struct tree_repeats *last = tree_grown(source->repeats, &source->repeat_count, taking->slot, sizeof(*last));

	if (!last)
		return false;
	source->repeats = last;
	last += taking->slot;
	if (!is_wanted(instance, taking->ns, taking->slot, cpus_of_record(instance, taking)))
		return false;
	if (last->known && last->function == record->id && last->caller == record->extra && last->count < UINT16_MAX) {
		last->count++;
		last->last_ns = taking->ns;
		return true;
	}
	put_repeats(instance, last);
	*last = (struct tree_repeats){.known = true, .function = record->id, .caller = record->extra};
	return false;
}

/* A call, and the stacks that options want below it. */
static void put_call(struct tree_instance *instance, const struct trace_event *record)
{
	static const struct {
		enum tree_option option;
		enum tree_kind kind;
	} stacks[] = {{OPTION_FUNC_STACK_TRACE, TREE_STACK}, {OPTION_USERSTACKTRACE, TREE_USER_STACK}};
	const struct tree_beside *beside = instance->besides[BESIDE_STACKS];

	if (options_has(instance, OPTION_FUNC_NO_REPEATS) && repeats(instance, record))
		return;
	put(instance, TREE_CALL, record->id, record->extra, options_has(instance, OPTION_FUNC_ARGS), NULL);
	for (size_t i = 0; i < sizeof(stacks) / sizeof(stacks[0]); i++) {
		const struct tree_event call = {.ns = instance->source.taking.ns,
						.ticks = record->ticks,
						.extra = record->extra,
						.slot = instance->source.taking.slot,
						.thread = record->thread,
						.function = record->id};
		size_t count = 0;
		char *addresses = beside && options_has(instance, stacks[i].option)
					  ? beside->stack(instance, &call, &count)
					  : NULL;

		if (stacks[i].kind == TREE_USER_STACK && count > STORE_USER_STACK)
			count = STORE_USER_STACK;
		if (addresses)
			put(instance, stacks[i].kind, TRACE_NONE, count, 0, addresses);
	}
}

static void take_record(struct tree_instance *instance, const struct trace *trace, const struct trace_event *record)
{
	struct tree_source *source = &instance->source;
	uint64_t ns = trace_mono_ns(trace, record->ticks);
	char text[TRACE_EVENT_TEXT];
	const char *name;

	source->last_ns = ns > source->last_ns ? ns : source->last_ns;
	source->last_ticks = record->ticks;
	reach(instance, record->ticks);
	source_put_marks(instance, source->last_ns);
	source->taking.record = record;
	source->taking.ns = source->last_ns;
	source->taking.slot = slot_of(instance, trace, record->thread);
	if (source->taking.slot == UINT32_MAX)
		return;
	switch ((enum calltap_record_kind)record->kind) {
	case CALLTAP_REC_CALL:
		put_call(instance, record);
		return;
	case CALLTAP_REC_EVENT:
		if (calltap_event_type(record->id) == CALLTAP_EVENT_FRAME) {
			put_frame(instance, record);
			return;
		}
		if (details_take(instance, trace, record))
			return;
		name = trace_event_text(trace, record, text);
		if (name && !strcmp(name, "mark"))
			put(instance, TREE_MARK, TRACE_NONE, 0, 0, strdup(text));
		return;
	case CALLTAP_REC_LOST:
		note_told(source, record->thread, record->extra);
		put(instance, TREE_LOST, TRACE_NONE, record->extra, 0, NULL);
		break;
	default:
		break;
	}
	if (callstack_feed(source->stack, record))
		source->failed = true;
	details_forget(source, source->taking.slot);
}

int source_open(struct tree_instance *instance)
{
	return trace_follow_create(&instance->source.follow, instance->source.memory, QUEUED_MAX);
}

/*
 * Does half of the store wait for readers who keep at it?  Records come in bursts, and a burst may be more than the
 * store has room for: it waits in the reader then, and is not overwritten before anyone could read it.  Not where
 * poll() is to tell of a buffer that is fuller than that.
 */
static bool is_held(const struct tree_instance *instance, uint64_t now)
{
	const struct tree_store *store = &instance->store;

	return instance->percent <= HELD_PERCENT &&
	       store_awaited(store, now - READER_NS) > store->bytes_max / 100 * HELD_PERCENT;
}

/* Take the records whose time has come, or some of them: a program may be faster than this is. */
static void take_records(struct tree_instance *instance, uint64_t until_ns, bool holds)
{
	struct tree_source *source = &instance->source;
	const struct trace *trace = trace_follow_trace(source->follow);
	struct trace_event record;
	uint32_t count = 0;

	source->held = source->behind = false;
	if (!trace)
		return;
	if (!source->stack && callstack_create(&source->stack, trace, &calls, instance)) {
		source->failed = true;
		return;
	}
	source->taking.now_ns = now_ns();
	source->held = source->behind = holds && is_held(instance, source->taking.now_ns);
	while (!source->failed && !source->behind && trace_follow_next(source->follow, &record)) {
		take_record(instance, trace, &record);
		if (++count % TAKE_COUNT)
			continue;
		source->taking.now_ns = now_ns();
		source->held = holds && is_held(instance, source->taking.now_ns);
		source->behind = source->held || source->taking.now_ns > until_ns;
	}
}

/* holds: not more than readers have room for (is_held()). */
static void pump(struct tree_instance *instance, bool holds)
{
	struct tree_source *source = &instance->source;

	pump_besides(instance);
	if (source->follow && !source->ended && !source->failed) {
		source->failed = trace_follow_poll(source->follow) != 0;
		take_records(instance, now_ns() + TAKE_NS, holds);
	}
	if (!source->behind) {
		if (source->follow)
			reach(instance, trace_follow_ticks(source->follow));
		source_put_marks(instance, source_known_ns(instance));
	}
	for (unsigned i = 0; i < TREE_BESIDES; i++)
		if (instance->besides[i] && instance->besides[i]->settle)
			instance->besides[i]->settle(instance);
}

void source_pump(struct tree_instance *instance)
{
	pump(instance, true);
}

/* Take in, for a while, the rest of what comes beside the instance's records; true: there is no more. */
static bool end_besides(struct tree_instance *instance)
{
	bool all = true;

	for (unsigned i = 0; i < TREE_BESIDES; i++)
		if (instance->besides[i]) {
			instance->besides[i]->end(instance);
			all &= instance->besides[i]->known(instance) == UINT64_MAX;
		}
	return all;
}

/* holds: as with pump(). */
static void end(struct tree_instance *instance, bool holds)
{
	struct tree_source *source = &instance->source;

	if (source->ended)
		return;
	pump(instance, holds);
	if (!source->finished && !end_besides(instance)) {
		source->behind = true;
		return;
	}
	if (!source->finished && source->follow && !source->failed) {
		trace_follow_finish(source->follow);
		take_records(instance, now_ns() + TAKE_NS, holds);
	}
	source->finished = true;
	if (source->behind && !source->failed)
		return;
	if (source->follow && trace_follow_trace(source->follow))
		tell_rest(instance, trace_follow_trace(source->follow));
	reach(instance, UINT64_MAX);
	source->ended = true;
	source->held = source->behind = false;
	source_put_marks(instance, UINT64_MAX);
}

void source_end(struct tree_instance *instance)
{
	end(instance, true);
}

/* Take some of what has come into the store, though readers may have no room for it. */
static void take_up(struct tree_instance *instance)
{
	if (instance->tree->over)
		end(instance, false);
	else
		pump(instance, false);
}

uint64_t source_known_ns(const struct tree_instance *instance)
{
	const struct tree_source *source = &instance->source;
	const struct trace *trace = source->follow ? trace_follow_trace(source->follow) : NULL;
	uint64_t ticks = trace ? trace_follow_ticks(source->follow) : 0;

	if (!source->follow || source->ended || source->failed)
		return UINT64_MAX;
	if (source->behind)
		return source->last_ns;
	return ticks ? trace_mono_ns(trace, ticks) : 0;
}

uint64_t source_until(const struct tree *tree)
{
	return tree->over ? tree->over_ns + TREE_END_NS : now_ns() + TREE_SETTLE_NS;
}

void source_settle(struct tree_instance *instance)
{
	const uint64_t now = now_ns(), until_ns = source_until(instance->tree);

	take_up(instance);
	while (source_known_ns(instance) < now && now_ns() < until_ns) {
		(void)poll(NULL, 0, TREE_SETTLE_MS);
		take_up(instance);
	}
}

void source_forget(struct tree_instance *instance)
{
	store_clear(&instance->store);
	instance->clear_ns = instance->emptied_ns = now_ns();
}

/* The span of a pause before this one is known as long as records of it can come. */
void source_pause(struct tree_instance *instance)
{
	if (instance->pauses++)
		return;
	if (source_known_ns(instance) < instance->resume_ns)
		source_settle(instance);
	instance->pause_ns = now_ns();
	instance->resume_ns = UINT64_MAX;
}

void source_resume(struct tree_instance *instance)
{
	if (!--instance->pauses)
		instance->resume_ns = now_ns();
}

void source_forget_cpu(struct tree_instance *instance, uint32_t cpu)
{
	source_settle(instance);
	store_clear_cpu(&instance->store, cpu);
}

void source_put_stack(struct tree_instance *instance, const struct tree_event *call, char *text)
{
	struct tree_event event = {.ns = call->ns > instance->source.last_ns ? call->ns : instance->source.last_ns,
				   .ticks = call->ticks,
				   .extra = 1,
				   .text = text,
				   .slot = call->slot,
				   .cpu = call->cpu,
				   .thread = TRACE_NONE,
				   .function = TRACE_NONE,
				   .kind = TREE_MARK};

	if (is_wanted(instance, event.ns, event.slot, event.cpu))
		store_add(&instance->store, &event);
	else
		free(text);
}

int source_mark(struct tree_instance *instance, pid_t tid, enum tree_kind kind, char *text, size_t size)
{
	struct tree_mark *mark = calloc(1, sizeof(*mark)), **end = &instance->marks;
	uint32_t slot = mark ? parts_slot(instance->tree, (uint32_t)tid) : UINT32_MAX;
	char name[32];

	if (slot == UINT32_MAX) {
		free(mark);
		free(text);
		return -ENOMEM;
	}
	if (!proc_text(tid, "comm", name, sizeof(name)) && name[0]) {
		long pid = proc_number(tid, "Tgid");

		name[strcspn(name, "\n")] = 0;
		parts_name_slot(instance->tree, slot, (uint32_t)(pid ? pid : tid), name);
	}
	instance->tree->slots[slot].named |= options_has(instance, OPTION_RECORD_CMD);
	mark->event = (struct tree_event){.ns = now_ns(),
					  .text = text,
					  .extra = size,
					  .slot = slot,
					  .thread = TRACE_NONE,
					  .function = TRACE_NONE,
					  .cpu = cpus_of_slot(instance->tree, slot, now_ns()),
					  .kind = (uint8_t)kind};
	while (*end)
		end = &(*end)->next;
	*end = mark;
	source_put_marks(instance, source_known_ns(instance));
	return 0;
}

void source_close(struct tree_instance *instance)
{
	struct tree_source *source = &instance->source;

	callstack_destroy(source->stack);
	trace_follow_destroy(source->follow);
	free(source->slots);
	free(source->told);
	details_clear(source);
	free(source->repeats);
	free(source->places);
	for (struct tree_mark *mark = instance->marks, *next; mark; mark = next) {
		next = mark->next;
		free(mark->event.text);
		free(mark);
	}
	instance->marks = NULL;
	if (source->memory >= 0 && source->memory != instance->tree->options->memory)
		close(source->memory);
	if (source->connection >= 0)
		close(source->connection);
	*source = (struct tree_source){.memory = -1, .connection = -1};
}

bool source_awaits(const struct tree_instance *instance, const struct tree_event *event)
{
	const bool graph =
		options_has(instance, OPTION_FUNCGRAPH_ARGS) || options_has(instance, OPTION_FUNCGRAPH_RETADDR);

	return (event->kind == TREE_CALL ? event->depth : event->kind == TREE_ENTRY && graph) && !event->text &&
	       !event->next && source_known_ns(instance) < event->ns + AWAITED_NS;
}
