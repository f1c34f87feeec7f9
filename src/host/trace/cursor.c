/*
 * Events of all threads in time order: a merge of the threads' streams.
 *
 * Context: host.  The current stream is read as long as its events are the earliest, which is a compare per event; the
 * other streams wait in a heap, by the time of their next event.  A thread's chunk is unpacked when its time has come
 * and freed at its end, so memory holds one chunk per thread that is alive then.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include <zstd.h>

#include "host/counted.h"
#include "check.h"
#include "decode.h"
#include "reader.h"
#include "verdicts.h"
#include "weights.h"

/* The events of one thread. */
struct stream {
	uint32_t thread;
	uint32_t next, end; /* chunks to come in trace.data */
	bool has_pending;
	bool lost;		    /* a LOST event is due before the next record */
	bool damaged;		    /* not all of its LOST events may have been met */
	uint64_t untold;	    /* records that the thread lost, less those of the LOST events so far */
	uint64_t untold_wait;	    /* ticks that it waited, less those of the WAIT events so far */
	uint64_t number;	    /* expected number of the next chunk */
	uint64_t last_ticks;	    /* of the last event: times never decrease */
	struct trace_event pending; /* an event that was read while another stream comes first */
	struct record_decoder decoder;
	char *payload;
	struct record_placing *placing; /* with weights */
};

struct waiting { /* a heap item: the earliest at index 0 */
	uint64_t ticks;
	uint32_t thread;
	struct stream *stream;
};

struct trace_cursor {
	const struct trace *trace;
	ZSTD_DCtx *zstd;
	char *packed;
	size_t packed_size;
	struct stream *streams;
	uint32_t stream_count;
	struct waiting *heap;
	uint32_t heap_count;
	struct stream *current;
	struct verdicts *verdicts;	      /* NULL = the trace can have none */
	const struct record_weights *weights; /* NULL = none */
	/* Not NULL: events without a time are noted there as soon as they are read, and not delivered. */
	struct weighing *weighing;
	uint64_t noted; /* events, since it was told */
};

static bool comes_earlier(const struct waiting *a, const struct waiting *b)
{
	return a->ticks != b->ticks ? a->ticks < b->ticks : a->thread < b->thread;
}

static void heap_push(struct trace_cursor *cursor, struct waiting item)
{
	struct waiting *heap = cursor->heap;
	uint32_t at = cursor->heap_count++;

	for (; at && comes_earlier(&item, &heap[(at - 1) / 2]); at = (at - 1) / 2)
		heap[at] = heap[(at - 1) / 2];
	heap[at] = item;
}

static struct stream *heap_pop(struct trace_cursor *cursor)
{
	struct waiting *heap = cursor->heap;
	struct stream *first = heap[0].stream;
	struct waiting item = heap[--cursor->heap_count];
	uint32_t at = 0, child;

	while ((child = 2 * at + 1) < cursor->heap_count) {
		if (child + 1 < cursor->heap_count && comes_earlier(&heap[child + 1], &heap[child]))
			child++;
		if (!comes_earlier(&heap[child], &item))
			break;
		heap[at] = heap[child];
		at = child;
	}
	heap[at] = item;
	return first;
}

/* True if a waiting stream comes before an event of stream at ticks. */
static inline bool is_overtaken(const struct trace_cursor *cursor, const struct stream *stream, uint64_t ticks)
{
	const struct waiting *first = cursor->heap;

	return cursor->heap_count &&
	       (ticks > first->ticks || (ticks == first->ticks && stream->thread > first->thread));
}

/* Put the stream into the heap until ticks. */
static void put_back(struct trace_cursor *cursor, struct stream *stream, uint64_t ticks)
{
	heap_push(cursor, (struct waiting){ticks, stream->thread, stream});
	cursor->current = NULL;
}

static uint64_t next_ticks(const struct trace_cursor *cursor, const struct stream *stream)
{
	uint64_t base = 0;

	if (stream->next < stream->end)
		base = TABLE_ITEM(cursor->trace->data, struct data_ref, stream->next)->head.base_ticks;
	return base > stream->last_ticks ? base : stream->last_ticks;
}

static int read_streams(struct trace_cursor *cursor, const struct data_ref *ref)
{
	if (ref->stored > cursor->packed_size) {
		char *packed = realloc(cursor->packed, ref->stored);

		if (!packed)
			return -ENOMEM;
		cursor->packed = packed;
		cursor->packed_size = ref->stored;
	}
	if (trace_read_at(cursor->trace, ref->offset, cursor->packed, ref->stored))
		return -EBADMSG;
	return (uint32_t)check_bytes(CHECK_START, cursor->packed, ref->stored) == ref->head.check ? 0 : -EBADMSG;
}

/* Unpack the chunk into stream->payload. */
static int load_chunk(struct trace_cursor *cursor, struct stream *stream, const struct data_ref *ref)
{
	size_t size = record_payload_size(&ref->head), body = size - sizeof(ref->head);
	int err = read_streams(cursor, ref);

	if (err)
		return err;
	free(stream->payload);
	stream->payload = malloc(size);
	if (!stream->payload)
		return -ENOMEM;
	memcpy(stream->payload, &ref->head, sizeof(ref->head));
	if (!(ref->flags & CALLTAP_CHUNK_ZSTD))
		memcpy(stream->payload + sizeof(ref->head), cursor->packed, body);
	else if (ZSTD_decompressDCtx(cursor->zstd, stream->payload + sizeof(ref->head), body, cursor->packed,
				     ref->stored) != body)
		return -EBADMSG;
	return record_decoder_init(&stream->decoder, stream->payload, size);
}

/* Go to the stream's next chunk; on damage the chunk is passed over. */
static int advance_stream(struct trace_cursor *cursor, struct stream *stream, struct calltap_diag *diag)
{
	const struct data_ref *ref = TABLE_ITEM(cursor->trace->data, struct data_ref, stream->next);
	int err = load_chunk(cursor, stream, ref);

	stream->next++;
	record_decoder_bound(&stream->decoder, &cursor->trace->limits,
			     stream->next == stream->end
				     ? 0
				     : TABLE_ITEM(cursor->trace->data, struct data_ref, stream->next)->head.base_ticks);
	record_decoder_weigh(&stream->decoder, cursor->weights, stream->placing);
	if (err == -ENOMEM)
		return calltap_diag_set(diag, err, "not enough memory to read %s", cursor->trace->path);
	if (err) {
		stream->decoder.left = 0;
		return calltap_diag_set(
			diag, err, "%s is damaged at byte %" PRIu64 ": up to %u %s of thread %u %s missing",
			cursor->trace->path, ref->offset, ref->head.count, counted(ref->head.count, "event", "events"),
			stream->thread, counted(ref->head.count, "is", "are"));
	}
	/* A damaged chunk did not advance stream->number, so it counts as a gap, too. */
	stream->lost |= ref->head.number != stream->number;
	stream->damaged |= stream->lost;
	stream->number = ref->head.number + 1;
	return 0;
}

static inline void make_event(struct stream *stream, const struct record *record, struct trace_event *event)
{
	if (record->ticks > stream->last_ticks)
		stream->last_ticks = record->ticks;
	event->ticks = stream->last_ticks;
	event->lo = record->lo == record->hi ? event->ticks : record->lo;
	event->hi = record->hi > event->ticks ? record->hi : event->ticks;
	event->extra = record->extra;
	event->behind = record->behind;
	event->thread = stream->thread;
	event->id = record->id;
	event->kind = record->kind;
	event->brief = record->brief;
	event->leaf = record->leaf;
	event->loose = record->loose;
}

/* Note the brief records that come next. */
static int note_brief(struct trace_cursor *cursor, struct stream *stream)
{
	struct record_passed passed;

	if (!record_decoder_pass(&stream->decoder, &passed))
		return 0;
	if (passed.ticks > stream->last_ticks)
		stream->last_ticks = passed.ticks;
	cursor->noted += passed.count;
	return weighing_note_brief(cursor->weighing, stream->thread, passed.heads, passed.count);
}

/*
 * Make the last events of a stream.  A thread tells of its losses and waits in front of its next record.  Behind its
 * last record it could not: the sums in the thread's row of the file have these, too.
 */
static bool take_last_loss(struct stream *stream, struct trace_event *event)
{
	struct record record = {.ticks = stream->last_ticks, .extra = stream->untold_wait, .kind = CALLTAP_REC_WAIT};

	if (stream->next < stream->end || stream->damaged)
		return false;
	if (stream->untold_wait) {
		stream->untold_wait = 0;
	} else if (stream->untold) {
		record.kind = CALLTAP_REC_LOST;
		record.extra = stream->untold;
		stream->untold = 0;
	} else {
		return false;
	}
	make_event(stream, &record, event);
	return true;
}

/* A LOST or WAIT record was read: the events at the stream's end are to tell of so much less. */
static void note_told(struct stream *stream, const struct record *record)
{
	uint64_t *untold = record->kind == CALLTAP_REC_LOST ? &stream->untold : &stream->untold_wait;

	*untold -= record->extra < *untold ? record->extra : *untold;
}

/* The stream's next event from its loaded chunk: 1, 0 at the chunk's end, -errno. */
static inline int read_event(struct trace_cursor *cursor, struct stream *stream, struct trace_event *event,
			     struct calltap_diag *diag)
{
	struct record record;
	int got;

	if (stream->lost && stream->decoder.left) {
		stream->lost = false;
		record = (struct record){.ticks = stream->decoder.ticks, .kind = CALLTAP_REC_LOST};
		make_event(stream, &record, event);
		return 1;
	}
	if (cursor->weighing && note_brief(cursor, stream))
		return calltap_diag_set(diag, -ENOMEM, "not enough memory to read %s", cursor->trace->path);
	got = record_decoder_next(&stream->decoder, &record);
	if (got > 0) {
		make_event(stream, &record, event);
		if (record.kind == CALLTAP_REC_LOST || record.kind == CALLTAP_REC_WAIT)
			note_told(stream, &record);
		return 1;
	}
	if (got < 0) {
		uint32_t left = stream->decoder.left;

		stream->decoder.left = 0;
		stream->lost = stream->damaged = true;
		return calltap_diag_set(diag, got, "%s is damaged: %u %s of thread %u %s no sense", cursor->trace->path,
					left, counted(left, "event", "events"), stream->thread,
					counted(left, "makes", "make"));
	}
	return take_last_loss(stream, event);
}

/* The next event as it is in the file. */
static int next_event(struct trace_cursor *cursor, struct trace_event *event, struct calltap_diag *diag)
{
	for (;;) {
		struct stream *stream = cursor->current;
		int got;

		if (!stream) {
			if (!cursor->heap_count)
				return 0;
			stream = cursor->current = heap_pop(cursor);
		}
		if (stream->has_pending) {
			stream->has_pending = false;
			*event = stream->pending;
			return 1;
		}
		got = read_event(cursor, stream, event, diag);
		if (got > 0 && is_overtaken(cursor, stream, event->ticks)) {
			stream->pending = *event;
			stream->has_pending = true;
			put_back(cursor, stream, event->ticks);
			continue;
		}
		if (got)
			return got;
		if (stream->next == stream->end || is_overtaken(cursor, stream, next_ticks(cursor, stream))) {
			free(stream->payload);
			stream->payload = NULL;
			if (stream->next == stream->end)
				cursor->current = NULL;
			else
				put_back(cursor, stream, next_ticks(cursor, stream));
			continue;
		}
		got = advance_stream(cursor, stream, diag);
		if (got)
			return got;
	}
}

/* Take the current stream's next record if it was placed with others, as most events of an adaptive trace are. */
static inline bool take_placed(struct trace_cursor *cursor, struct trace_event *event)
{
	struct stream *stream = cursor->current;
	struct record record;
	uint64_t ticks;

	if (!stream || stream->has_pending || !record_decoder_has_placed(&stream->decoder))
		return false;
	ticks = record_decoder_placed_ticks(&stream->decoder);
	if (is_overtaken(cursor, stream, ticks > stream->last_ticks ? ticks : stream->last_ticks))
		return false;
	record_decoder_take(&stream->decoder, &record);
	make_event(stream, &record, event);
	return true;
}

int trace_cursor_next(struct trace_cursor *cursor, struct trace_event *event, struct calltap_diag *diag)
{
	int got;

	if (!cursor->verdicts)
		return take_placed(cursor, event) ? 1 : next_event(cursor, event, diag);
	got = next_event(cursor, event, diag);
	while (got > 0) {
		int passes = verdicts_pass(cursor->verdicts, event);

		if (passes)
			return passes < 0 ? calltap_diag_set(diag, passes, "not enough memory to read %s",
							     cursor->trace->path)
					  : 1;
		got = next_event(cursor, event, diag);
	}
	return got;
}

static bool is_selected(const struct trace *trace, const struct trace_select *select, uint32_t thread)
{
	const struct thread_entry *entry = TABLE_ITEM(trace->threads, struct thread_entry, thread);
	const struct trace_process *process = trace_process(trace, entry->about.process);

	if (entry->first_data == entry->end_data && (!entry->about.lost || !trace_end(trace)))
		return false;
	if (!select)
		return true;
	return (select->thread == TRACE_NONE || select->thread == thread) &&
	       (!select->tid || select->tid == entry->about.tid) &&
	       (!select->pid || (process && process->pid == select->pid)) &&
	       (!select->wants || select->wants(select->ctx, thread));
}

static int add_streams(struct trace_cursor *cursor, const struct trace_select *select)
{
	const struct trace *trace = cursor->trace;
	uint32_t threads = trace->threads.count, count = 0;

	for (uint32_t i = 0; i < threads; i++)
		count += is_selected(trace, select, i);
	cursor->streams = calloc(count + 1, sizeof(*cursor->streams));
	cursor->heap = calloc(count + 1, sizeof(*cursor->heap));
	if (!cursor->streams || !cursor->heap)
		return -ENOMEM;
	for (uint32_t i = 0; i < threads; i++) {
		const struct thread_entry *entry = TABLE_ITEM(trace->threads, struct thread_entry, i);
		struct stream *stream = &cursor->streams[cursor->stream_count];

		if (!is_selected(trace, select, i))
			continue;
		cursor->stream_count++;
		stream->thread = i;
		stream->next = entry->first_data;
		stream->end = entry->end_data;
		/* Where the end is missing, the events that tell of it may be. */
		if (trace_end(trace)) {
			stream->untold = entry->about.lost;
			stream->untold_wait = entry->about.wait_ticks;
		}
		if (stream->next == stream->end)
			stream->last_ticks = entry->about.start_ticks;
		put_back(cursor, stream, next_ticks(cursor, stream));
	}
	return 0;
}

static int open_cursor(struct trace_cursor **out, const struct trace *trace, const struct trace_select *select,
		       struct calltap_diag *diag)
{
	struct trace_cursor *cursor = calloc(1, sizeof(*cursor));

	*out = NULL;
	if (cursor) {
		cursor->trace = trace;
		cursor->zstd = ZSTD_createDCtx();
	}
	if (!cursor || !cursor->zstd || add_streams(cursor, select)) {
		trace_cursor_close(cursor);
		(void)calltap_diag_set(diag, -ENOMEM, "not enough memory to read %s", trace->path);
		return -ENOMEM;
	}
	*out = cursor;
	return 0;
}

/* Damage that keeps the cursor from getting on must not spin here; the next reading tells of it. */
#define DAMAGES_IN_A_ROW 100000u

static void tell_noted(const struct trace_select *select, uint64_t events)
{
	if (select && select->noted)
		select->noted(select->of, events);
}

/* Read all events once, for the verdicts. */
static int read_verdicts(struct trace_cursor *cursor, const struct trace_select *select)
{
	struct trace_cursor *first = NULL;
	struct trace_event event = {0};
	unsigned in_a_row = 0;
	int got = 1, ret = verdicts_create(&cursor->verdicts, cursor->trace);

	if (!ret)
		ret = open_cursor(&first, cursor->trace, select, NULL);
	if (ret)
		return ret;
	while (!ret && got && in_a_row <= DAMAGES_IN_A_ROW) {
		got = next_event(first, &event, NULL);
		tell_noted(select, 1);
		in_a_row = got < 0 ? in_a_row + 1 : 0;
		if (got)
			ret = got == -ENOMEM ? got : got > 0 ? verdicts_note(cursor->verdicts, &event) : 0;
	}
	trace_cursor_close(first);
	return ret ? ret : verdicts_begin(cursor->verdicts);
}

/* Read all events once, for the weights of the trace, unless that was done. */
static int read_weights(const struct trace *trace, const struct trace_select *select)
{
	struct trace_cursor *cursor = NULL;
	struct weighing *weighing = NULL;
	struct trace_event event = {0};
	unsigned in_a_row = 0;
	struct trace_estimates estimates;
	int got = 1, ret;

	if (trace->weights->ready)
		return 0;
	trace_estimates(trace, &estimates);
	ret = weighing_create(&weighing, trace_function_count(trace), trace_thread_count(trace), estimates.span_ticks);
	if (ret)
		return ret;
	ret = open_cursor(&cursor, trace, NULL, NULL);
	if (!ret)
		cursor->weighing = weighing;
	while (!ret && got && in_a_row <= DAMAGES_IN_A_ROW) {
		got = next_event(cursor, &event, NULL);
		tell_noted(select, cursor->noted + 1);
		cursor->noted = 0;
		in_a_row = got < 0 ? in_a_row + 1 : 0;
		if (got)
			ret = got == -ENOMEM ? got : got > 0 ? weighing_note(weighing, &event) : 0;
	}
	trace_cursor_close(cursor);
	if (!ret)
		ret = weighing_settle(weighing, trace->weights);
	weighing_destroy(weighing);
	return ret;
}

static int weigh_streams(struct trace_cursor *cursor, const struct trace_select *select)
{
	int ret = read_weights(cursor->trace, select);

	for (uint32_t i = 0; !ret && i < cursor->stream_count; i++) {
		cursor->streams[i].placing = calloc(1, sizeof(struct record_placing));
		if (!cursor->streams[i].placing)
			ret = -ENOMEM;
	}
	/* Where no piece was measured, equal distances are as good as any. */
	if (!ret && cursor->trace->weights->table.other > 0)
		cursor->weights = &cursor->trace->weights->table;
	return ret;
}

int trace_cursor_open(struct trace_cursor **out, const struct trace *trace, const struct trace_select *select,
		      struct calltap_diag *diag)
{
	int ret;

	*out = NULL;
	if (select && select->size != sizeof(*select))
		return calltap_diag_set(diag, -EINVAL, "the caller was built for another version of calltap");
	ret = open_cursor(out, trace, select, diag);
	if (!ret && *out &&
	    ((trace->has_ticks && trace->weights && weigh_streams(*out, select)) ||
	     (verdicts_are_in(trace) && read_verdicts(*out, select)))) {
		trace_cursor_close(*out);
		*out = NULL;
		ret = calltap_diag_set(diag, -ENOMEM, "not enough memory to read %s", trace->path);
	}
	return ret;
}

void trace_cursor_close(struct trace_cursor *cursor)
{
	if (!cursor)
		return;
	for (uint32_t i = 0; i < cursor->stream_count; i++) {
		free(cursor->streams[i].payload);
		free(cursor->streams[i].placing);
	}
	verdicts_destroy(cursor->verdicts);
	ZSTD_freeDCtx(cursor->zstd);
	free(cursor->packed);
	free(cursor->streams);
	free(cursor->heap);
	free(cursor);
}
