/*
 * Calls that were open where a thread's records begin (open.h).
 *
 * The calls that a sub-buffer tells of and the records after it give the stack
 * at each record.  A signal handler may have opened the sub-buffer between a
 * recorder's record and its change of the frames, so that one call is told too
 * much or too little: then an EXIT comes that is not the innermost call's, and
 * the list is not used.  Where the first record takes frames away (UNWIND,
 * LANDING in front of it, TAIL), the recorder had done so before it opened the
 * sub-buffer.  Context: host.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <calltap/abi/record.h>
#include <host/trace/decode.h>

#include "open.h"

#define DEPTH_MAX (1u << 20)

/* Parse the words' order: the stack, then its frames from the innermost on.  Returns how many frames; 0 = nothing. */
static size_t parse_words(const uint64_t *words, size_t nwords, struct open_call *calls, uint64_t *stack)
{
	size_t count = 0, at = 0;

	for (; at + 1 < nwords && calltap_record_kind(words[at]) == CALLTAP_REC_OPEN; at += 2) {
		uint32_t id = calltap_record_id(words[at]);

		if ((!at && id != CALLTAP_RECORD_ID_MAX) || (count && id == CALLTAP_RECORD_ID_MAX) ||
		    count == CALLTAP_RECORD_OPEN_MAX)
			return 0;
		if (at)
			calls[count++] = (struct open_call){words[at + 1], id, true};
		else
			*stack = words[at + 1];
		/* Times do not go down on the way inwards. */
		if (count > 1 && calls[count - 2].entry_ticks < calls[count - 1].entry_ticks)
			return 0;
	}
	return count;
}

static bool is_kind(const uint64_t *words, size_t nwords, size_t at, unsigned kind)
{
	return at < nwords && calltap_record_kind(words[at]) == kind;
}

/* Records that stand side by side were written one right after the other. */
void open_calls_fit(uint64_t *words, size_t nwords)
{
	size_t at = 0;

	while (is_kind(words, nwords, at, CALLTAP_REC_OPEN))
		at += 2;
	if (!at)
		return;
	if (is_kind(words, nwords, at, CALLTAP_REC_TIME))
		at += 2;
	if (is_kind(words, nwords, at, CALLTAP_REC_LANDING))
		at++;
	if (is_kind(words, nwords, at, CALLTAP_REC_UNWIND))
		words[at] = calltap_record_make(CALLTAP_REC_UNWIND, 0, (uint32_t)words[at]);
}

int open_calls_begin(struct open_calls *open, const uint64_t *words, size_t nwords, uint64_t from_ticks)
{
	struct open_call calls[CALLTAP_RECORD_OPEN_MAX];

	*open = (struct open_calls){.from_ticks = from_ticks};
	open->now_count = parse_words(words, nwords, calls, &open->stack);
	if (!open->now_count)
		return 0;
	open->now_room = (size_t)2 * CALLTAP_RECORD_OPEN_MAX;
	open->now = calloc(open->now_room, sizeof(*open->now));
	if (!open->now)
		return -ENOMEM;
	for (size_t i = 0; i < open->now_count; i++)
		open->now[i] = calls[open->now_count - 1 - i];
	open->stack_now = open->stack;
	return 0;
}

static struct open_call call_of(const struct record *record)
{
	return (struct open_call){record->lo, record->id, record->lo == record->hi};
}

static int push_call(struct open_calls *open, const struct record *record)
{
	if (open->now_count == open->now_room) {
		struct open_call *more =
			open->now_room < DEPTH_MAX ? reallocarray(open->now, open->now_room * 2, sizeof(*more)) : NULL;

		if (!more)
			return -ENOMEM;
		open->now = more;
		open->now_room *= 2;
	}
	open->now[open->now_count++] = call_of(record);
	return 0;
}

/* An EXIT while no call is known belongs to a call farther out. */
static void pop_call(struct open_calls *open, uint32_t function)
{
	if (open->now_count && open->now[open->now_count - 1].function != function)
		open->wrong = true;
	else
		open->now_count -= open->now_count > 0;
}

static int take_record(struct open_calls *open, const struct record *record)
{
	switch (record->kind) {
	case CALLTAP_REC_ENTRY:
		return push_call(open, record);
	case CALLTAP_REC_EXIT:
		pop_call(open, record->id);
		break;
	case CALLTAP_REC_UNWIND:
		open->now_count -= record->id < open->now_count ? record->id : open->now_count;
		break;
	case CALLTAP_REC_TAIL:
		if (open->now_count)
			open->now[open->now_count - 1] = call_of(record);
		break;
	case CALLTAP_REC_LANDING:
		open->stopped = true; /* the next UNWIND's count may be one off */
		break;
	default:
		break;
	}
	return 0;
}

/*
 * Take the thread's first event: an EXIT names the call that was just being left, a LANDING the one that a jump went
 * to. An UNWIND takes none away (open_calls_fit()).
 */
static void begin_thread(struct open_calls *open, const struct record *record)
{
	struct open_call *innermost = &open->now[open->now_count - 1];

	open->began = true;
	if (record->kind == CALLTAP_REC_EXIT && innermost->function == CALLTAP_RECORD_ID_MAX)
		innermost->function = record->id;
	open->wrong = innermost->function == CALLTAP_RECORD_ID_MAX || record->kind == CALLTAP_REC_TAIL ||
		      (record->kind == CALLTAP_REC_UNWIND && record->id) ||
		      (record->kind == CALLTAP_REC_LANDING && record->id != innermost->function);
}

static bool is_of_frames(const struct record *record)
{
	return record->kind == CALLTAP_REC_ENTRY || record->kind == CALLTAP_REC_EXIT ||
	       record->kind == CALLTAP_REC_UNWIND || record->kind == CALLTAP_REC_TAIL ||
	       record->kind == CALLTAP_REC_LANDING;
}

/* Take the first record that is kept: the calls that are open now are the result. */
static int note_open(struct open_calls *open, uint64_t ticks)
{
	open->found = true;
	open->first_ticks = ticks;
	open->stack_then = open->stack_now;
	open->count = open->now_count;
	open->list = calloc(open->count + 1, sizeof(*open->list));
	if (!open->list)
		return -ENOMEM;
	memcpy(open->list, open->now, open->count * sizeof(*open->list));
	return 0;
}

/* True if record_skip_older() keeps the record: a brief one has to lie next to a time that is not older. */
static bool is_kept(const struct record *record, uint64_t from_ticks)
{
	return record->lo >= from_ticks ||
	       (record->lo != record->hi && record->hi != UINT64_MAX && record->hi >= from_ticks);
}

static int see_record(struct open_calls *open, const struct record *record)
{
	bool first = !open->began && is_of_frames(record);
	int ret = 0;

	if (first)
		begin_thread(open, record);
	else if (open->landed && is_of_frames(record)) /* the jump's second record; else others came between */
		open->wrong |= record->kind != CALLTAP_REC_UNWIND || record->id;
	if (is_of_frames(record))
		open->landed = first && record->kind == CALLTAP_REC_LANDING;
	if (!open->found && open->began && is_kept(record, open->from_ticks))
		ret = note_open(open, record->lo);
	if (record->kind == CALLTAP_REC_STACK)
		open->stack_now = record->extra;
	if (ret || !is_of_frames(record) || open->landed)
		return ret;
	return open->stack_now == open->stack ? take_record(open, record) : 0;
}

bool open_calls_wants(const struct open_calls *open)
{
	return open->now && !open->stopped && !open->wrong;
}

int open_calls_see(struct open_calls *open, const void *payload, size_t size)
{
	struct record_decoder decoder;
	struct record record;
	int ret = 0;

	if (record_decoder_init(&decoder, payload, size))
		return 0;
	while (!ret && open_calls_wants(open) && record_decoder_next(&decoder, &record) > 0)
		ret = see_record(open, &record);
	return ret;
}

void open_calls_gap(struct open_calls *open)
{
	open->stopped = true;
}

void open_calls_end(struct open_calls *open)
{
	bool good = open->found && !open->wrong;

	for (size_t i = 0; i < open->count && good; i++)
		good = open->list[i].entry_ticks && open->list[i].entry_ticks <= open->first_ticks;
	if (!good)
		open->count = 0;
}

void open_calls_destroy(struct open_calls *open)
{
	free(open->list);
	free(open->now);
}
