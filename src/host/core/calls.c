/*
 * The beginnings of calls whose records were overwritten (calls.h).
 *
 * A trigger tells when its call was entered and left.  In the trace such a
 * call has an ENTRY of its own before the thread's records, and a LOST record
 * of size 0 behind that: readers need to know nothing new.  Context: host.
 *
 * Between the LOST record and the call's own end come the ends of calls that
 * were entered in it and whose entries are gone, too.  An EXIT names its
 * function, so readers take it for nothing else, unless the function is the
 * same one; but an UNWIND or a TAIL would end the call in the reader's eyes.
 * Such a call is not put there: its records would say what is not true.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <calltap/abi/record.h>
#include <host/trace/decode.h>
#include <host/trace/writer.h>

#include "calls.h"

#define NEAR_TICKS (1u << 20) /* between the two clock reads of a call's entry */
#define LATE_TICKS (1u << 26) /* between the two clock reads of a call's end: the thread may have been preempted */
#define WORDS_EACH 4	      /* TIME and a record */
#define EACH_MAX   3	      /* records of a call */
#define FRAME_MAX  3	      /* records around the calls that the target has told of */

/* A record to be written. */
struct item {
	uint64_t ticks, second;
	uint32_t kind, id;
	uint32_t order;
};

struct items {
	struct item *list;
	uint32_t count;
};

static bool is_of(const struct history_call *call, uint32_t process, uint32_t tid)
{
	return !call->placed && call->process == process && call->tid == tid;
}

bool calls_any(const struct history *history, uint32_t process, uint32_t tid)
{
	for (size_t i = 0; i < history->call_count; i++)
		if (is_of(&history->calls[i], process, tid))
			return true;
	return false;
}

/* True if this record is the call's own entry, whose time is another read of the clock, or is not known exactly. */
static bool is_entry_of(const struct history_call *call, const struct record *first)
{
	if ((first->kind != CALLTAP_REC_ENTRY && first->kind != CALLTAP_REC_TAIL) || first->id != call->function)
		return false;
	if (first->lo != first->hi && call->entry_ticks >= first->lo && call->entry_ticks <= first->hi)
		return true;
	return first->ticks - call->entry_ticks < NEAR_TICKS;
}

/* True if the target has told of the call. */
static bool is_told(const struct open_calls *told, const struct history_call *call)
{
	for (size_t i = 0; i < told->count; i++)
		if (told->list[i].function == call->function && told->list[i].entry_ticks == call->entry_ticks)
			return true;
	return false;
}

/* Find the calls that were open when the records begin. */
static void begin_thread(struct history *history, struct calls_thread *thread, const struct record *first)
{
	thread->seen = true;
	thread->first_ticks = first->ticks;
	for (size_t i = 0; i < history->call_count && thread->count < CALLS_OPEN_MAX; i++) {
		struct history_call *call = &history->calls[i];

		if (!is_of(call, thread->process, thread->tid) || call->entry_ticks >= first->ticks ||
		    call->exit_ticks < first->ticks)
			continue;
		if (is_entry_of(call, first) || is_told(thread->told, call))
			call->placed = true;
		else
			thread->open[thread->count++] = (struct calls_open){.call = call};
	}
}

/* Take a record from before the call's end. */
static void take_earlier(struct calls_open *open, const struct record *record)
{
	switch (record->kind) {
	case CALLTAP_REC_ENTRY:
		open->depth++;
		break;
	case CALLTAP_REC_EXIT:
		open->hidden |= !open->depth && record->id == open->call->function;
		open->depth -= open->depth > 0;
		break;
	case CALLTAP_REC_UNWIND:
		open->hidden |= record->id > open->depth;
		open->depth -= record->id > open->depth ? open->depth : record->id;
		break;
	case CALLTAP_REC_TAIL:
		open->hidden |= !open->depth;
		break;
	default:
		break;
	}
}

static void see_record(struct calls_open *open, const struct record *record)
{
	const struct history_call *call = open->call;

	if (open->ended || open->hidden)
		return;
	/* An exit that may be the call's own is taken for it; no other exit of the function is its end. */
	if (record->hi != record->lo && record->hi >= call->exit_ticks && record->kind == CALLTAP_REC_EXIT &&
	    record->id == call->function && !open->depth)
		open->ended = true;
	else if (record->ticks < call->exit_ticks)
		take_earlier(open, record);
	else if (record->ticks - call->exit_ticks > LATE_TICKS)
		open->hidden = true;
	else
		open->ended = record->kind == CALLTAP_REC_UNWIND || record->kind == CALLTAP_REC_TAIL ||
			      (record->kind == CALLTAP_REC_EXIT && record->id == call->function);
}

void calls_see(struct history *history, struct calls_thread *thread, const void *payload, size_t size)
{
	struct record_decoder decoder;
	struct record record;

	if (record_decoder_init(&decoder, payload, size))
		return;
	while (record_decoder_next(&decoder, &record) > 0) {
		if (!thread->seen)
			begin_thread(history, thread, &record);
		if (record.ticks > thread->last_ticks)
			thread->last_ticks = record.ticks;
		for (uint32_t i = 0; i < thread->count; i++)
			see_record(&thread->open[i], &record);
	}
}

static void add_item(struct items *items, uint64_t ticks, uint32_t kind, uint32_t id)
{
	items->list[items->count] = (struct item){.ticks = ticks, .kind = kind, .id = id, .order = items->count};
	items->count++;
}

static void add_stack(struct items *items, uint64_t ticks, uint64_t stack)
{
	add_item(items, ticks, CALLTAP_REC_STACK, 0);
	items->list[items->count - 1].second = stack;
}

/*
 * Add the calls that the target has told of, on their stack; the thread may be on another stack since.  A brief entry
 * needs the time that was in front of it: its STACK record is there for that.
 */
static void add_told(struct items *items, const struct open_calls *told)
{
	uint64_t stack_ticks = 0;

	for (size_t i = 0; i < told->count; i++) {
		const struct open_call *call = &told->list[i];

		if (!i || (!call->timed && call->entry_ticks != stack_ticks)) {
			add_stack(items, call->entry_ticks, told->stack);
			stack_ticks = call->entry_ticks;
		}
		add_item(items, call->entry_ticks, call->timed ? CALLTAP_REC_ENTRY : CALLTAP_REC_BRIEF_ENTRY,
			 call->function);
	}
}

static void add_end(struct items *items, const struct history_call *call)
{
	add_item(items, call->exit_ticks, call->threw ? CALLTAP_REC_UNWIND : CALLTAP_REC_EXIT,
		 call->threw ? 1 : call->function);
}

static void add_whole(struct items *items, struct history_call *call)
{
	add_item(items, call->entry_ticks, CALLTAP_REC_ENTRY, call->function);
	add_item(items, call->entry_ticks, CALLTAP_REC_LOST, 0);
	add_end(items, call);
	call->placed = true;
}

static int compare_items(const void *left, const void *right)
{
	const struct item *a = left, *b = right;

	if (a->ticks != b->ticks)
		return a->ticks < b->ticks ? -1 : 1;
	return a->order < b->order ? -1 : a->order > b->order;
}

/*
 * Write each record that has a time with its full time in front: the time between two records may be longer than the
 * clock's low half holds.
 */
static size_t to_words(const struct items *items, uint64_t *words)
{
	size_t count = 0;

	for (uint32_t i = 0; i < items->count; i++) {
		const struct item *item = &items->list[i];

		if (item->kind == CALLTAP_REC_BRIEF_ENTRY) {
			words[count++] = item->kind << CALLTAP_RECORD_ID_BITS | item->id;
			continue;
		}
		words[count++] = calltap_record_make(CALLTAP_REC_TIME, 0, 0);
		words[count++] = item->ticks;
		words[count] =
			calltap_record_make((enum calltap_record_kind)item->kind, item->id, (uint32_t)item->ticks);
		if (calltap_record_words(words[count++]) == 2)
			words[count++] = item->second;
	}
	return count;
}

/* Write the items as DATA chunk *number of the thread, and free them. */
static int write_items(struct history *history, struct items *items, uint32_t index, uint64_t *number)
{
	uint64_t *words = calloc((size_t)items->count * WORDS_EACH + 1, sizeof(*words));
	struct encode_result encoded;
	const void *payload;
	size_t size, count;
	int ret = words ? 0 : -ENOMEM;

	if (!ret && items->count) {
		qsort(items->list, items->count, sizeof(*items->list), compare_items);
		count = to_words(items, words);
		ret = record_encode(history->call_encoder, index, *number, items->list[0].ticks, words, count, &payload,
				    &size, &encoded);
		if (!ret)
			ret = trace_writer_chunk(history->writer, CALLTAP_CHUNK_DATA, payload, size);
		(*number)++;
		history->records += encoded.records;
		if (encoded.last_ticks > history->last_ticks)
			history->last_ticks = encoded.last_ticks;
	}
	free(words);
	free(items->list);
	return ret;
}

static int make_room(struct items *items, size_t calls)
{
	*items = (struct items){.list = calloc(calls * EACH_MAX + 1, sizeof(*items->list))};
	return items->list ? 0 : -ENOMEM;
}

int calls_write_before(struct history *history, struct calls_thread *thread, uint32_t index, uint64_t *number)
{
	const struct open_calls *told = thread->told;
	struct items items;
	int ret = make_room(&items, history->call_count + told->count + FRAME_MAX);

	if (ret)
		return ret;
	add_told(&items, told);
	for (size_t i = 0; thread->seen && i < history->call_count; i++) {
		struct history_call *call = &history->calls[i];

		if (call->wanted && is_of(call, thread->process, thread->tid) && call->exit_ticks < thread->first_ticks)
			add_whole(&items, call);
	}
	for (uint32_t i = 0; i < thread->count; i++) {
		const struct calls_open *open = &thread->open[i];

		/* The exit of a wanted call may be among records that are not read yet. */
		if (open->hidden ||
		    !(open->ended || (open->call->wanted && thread->last_ticks < open->call->exit_ticks)))
			continue;
		add_item(&items, open->call->entry_ticks, CALLTAP_REC_ENTRY, open->call->function);
		open->call->placed = true;
	}
	if (items.count)
		add_item(&items, told->count ? told->first_ticks : thread->first_ticks, CALLTAP_REC_LOST, 0);
	if (told->count && told->stack_then != told->stack)
		add_stack(&items, told->first_ticks, told->stack_then);
	return write_items(history, &items, index, number);
}

int calls_write_after(struct history *history, struct calls_thread *thread, uint32_t index, uint64_t *number)
{
	struct items items;
	int ret = make_room(&items, history->call_count);

	if (ret)
		return ret;
	for (size_t i = 0; thread->seen && i < history->call_count; i++) {
		struct history_call *call = &history->calls[i];

		if (!call->wanted || call->process != thread->process || call->tid != thread->tid)
			continue;
		if (call->entry_ticks >= thread->first_ticks)
			call->placed = true; /* the call's entry is among the records */
		if (call->placed && call->exit_ticks > thread->last_ticks)
			add_end(&items, call);
	}
	return write_items(history, &items, index, number);
}

static int write_alone(struct history *history, struct history_call *call)
{
	struct calltap_file_thread row = {
		.thread = history->next_thread,
		.process = call->process,
		.tid = call->tid,
		.start_ticks = call->entry_ticks,
		.end_ticks = call->exit_ticks,
	};
	struct items items;
	uint64_t number = 0;
	int ret = make_room(&items, 1);

	if (ret)
		return ret;
	add_whole(&items, call);
	history->next_thread++;
	history->threads++;
	ret = write_items(history, &items, row.thread, &number);
	if (!ret && history->thread)
		ret = history->thread(history->arg, &row, true);
	return ret ? ret : trace_writer_chunk(history->writer, CALLTAP_CHUNK_THREAD, &row, sizeof(row));
}

int calls_write_rest(struct history *history)
{
	int ret = 0;

	for (size_t i = 0; i < history->call_count && !ret; i++)
		if (history->calls[i].wanted && !history->calls[i].placed)
			ret = write_alone(history, &history->calls[i]);
	return ret;
}

void history_call_print(const struct history_call *call, char text[HISTORY_CALL_TEXT])
{
	snprintf(text, HISTORY_CALL_TEXT, "%" PRIu32 " %" PRIu32 " %" PRIu32 " %" PRIu64 " %" PRIu64 " %d",
		 call->process, call->tid, call->function, call->entry_ticks, call->exit_ticks, call->threw);
}

bool history_call_parse(struct history_call *call, const char *text)
{
	int threw = 0;

	*call = (struct history_call){0};
	if (sscanf(text, "%" SCNu32 " %" SCNu32 " %" SCNu32 " %" SCNu64 " %" SCNu64 " %d", &call->process, &call->tid,
		   &call->function, &call->entry_ticks, &call->exit_ticks, &threw) != 6)
		return false;
	call->threw = threw;
	return call->entry_ticks && call->exit_ticks >= call->entry_ticks;
}
