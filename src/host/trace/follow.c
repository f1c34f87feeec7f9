/*
 * A trace file that grows; see follow.h.  Context: host.
 *
 * Each thread has one unpacked chunk, whose events are handed out, and a queue of chunks that were read and are still
 * packed.  Threads that have an event wait in a heap by its time.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <zstd.h>

#include "check.h"
#include "decode.h"
#include "reader.h"
#include "follow.h"

#define CLOCK_MIN_NS 40000000u /* span of clock samples from which a rate is computed */
#define PUNCH_BYTES  (1u << 20)

/* One DATA chunk that waits: its head, then the streams as stored. */
struct piece {
	struct piece *next;
	struct data_ref ref;
	uint64_t skipped; /* records of chunks right before this one that were passed over */
	char streams[];
};

/* The events of one thread. */
struct stream {
	struct piece *first, *last;
	char *payload; /* of the chunk that is being decoded */
	struct record_decoder decoder;
	struct trace_event pending;
	uint64_t skipped;    /* records that a LOST event before the next record tells of */
	uint64_t passing;    /* records that were passed over since the last chunk in the queue */
	uint64_t passed;     /* all that were passed over */
	uint64_t last_ticks; /* of the last event: times never decrease */
	bool waits;	     /* the stream is in the heap, with `pending` */
};

struct trace_follow {
	struct trace trace; /* the tables; trace.data stays empty */
	uint64_t offset;    /* of the next chunk */
	uint64_t let_go;    /* the file was punched out below this offset */
	bool told;	    /* the head and the first INFO chunk were read */
	bool changed;	    /* the tables have changed since they were settled */
	bool finished;
	uint64_t clock_ticks; /* of the last clock sample */
	uint64_t ticks;	      /* all records up to this time were read */
	uint64_t limit;	      /* events that are later wait */
	uint64_t queued, queued_max;
	ZSTD_DCtx *zstd;
	struct stream *streams;
	uint32_t stream_count;
	uint32_t *heap; /* threads; has stream_count places */
	uint32_t heap_count;
	char *spent; /* payload of the last event that was handed out, when its stream has unpacked the next chunk */
};

int trace_follow_create(struct trace_follow **out, int fd, uint64_t queued_max)
{
	struct trace_follow *follow = calloc(1, sizeof(*follow));

	*out = NULL;
	if (!follow)
		return -ENOMEM;
	follow->queued_max = queued_max;
	follow->limit = UINT64_MAX;
	follow->trace.fd = fcntl(fd, F_DUPFD_CLOEXEC, 0);
	follow->trace.path = strdup("the recording");
	follow->zstd = ZSTD_createDCtx();
	if (follow->trace.fd < 0 || !follow->trace.path || !follow->zstd) {
		trace_follow_destroy(follow);
		return -ENOMEM;
	}
	*out = follow;
	return 0;
}

/* Free the chunks in a thread's queue; how many records they had. */
static uint64_t empty_queue(struct trace_follow *follow, struct stream *stream)
{
	uint64_t records = 0;

	for (struct piece *piece = stream->first, *next; piece; piece = next) {
		next = piece->next;
		records += piece->ref.head.count;
		follow->queued -= piece->ref.stored;
		free(piece);
	}
	stream->first = stream->last = NULL;
	return records;
}

void trace_follow_destroy(struct trace_follow *follow)
{
	if (!follow)
		return;
	for (uint32_t i = 0; i < follow->stream_count; i++) {
		empty_queue(follow, &follow->streams[i]);
		free(follow->streams[i].payload);
	}
	tables_free(&follow->trace);
	if (follow->trace.fd >= 0)
		close(follow->trace.fd);
	free(follow->trace.path);
	ZSTD_freeDCtx(follow->zstd);
	free(follow->streams);
	free(follow->heap);
	free(follow->spent);
	free(follow);
}

const struct trace *trace_follow_trace(const struct trace_follow *follow)
{
	return follow->told ? &follow->trace : NULL;
}

static bool comes_earlier(const struct trace_follow *follow, uint32_t a, uint32_t b)
{
	uint64_t x = follow->streams[a].pending.ticks, y = follow->streams[b].pending.ticks;

	return x != y ? x < y : a < b;
}

static void heap_push(struct trace_follow *follow, uint32_t thread)
{
	uint32_t *heap = follow->heap, at = follow->heap_count++;

	for (; at && comes_earlier(follow, thread, heap[(at - 1) / 2]); at = (at - 1) / 2)
		heap[at] = heap[(at - 1) / 2];
	heap[at] = thread;
}

/* Put the thread in the place of the heap's top, and move it down to where it belongs. */
static void heap_sink(struct trace_follow *follow, uint32_t thread)
{
	uint32_t *heap = follow->heap, at = 0, child;

	while ((child = 2 * at + 1) < follow->heap_count) {
		if (child + 1 < follow->heap_count && comes_earlier(follow, heap[child + 1], heap[child]))
			child++;
		if (!comes_earlier(follow, heap[child], thread))
			break;
		heap[at] = heap[child];
		at = child;
	}
	heap[at] = thread;
}

static int reach_stream(struct trace_follow *follow, uint32_t thread)
{
	uint32_t room = follow->stream_count ? follow->stream_count : 16;
	struct stream *streams;
	uint32_t *heap;
	int err;

	if (thread < follow->stream_count)
		return 0;
	/* The table of threads checks forged indices, so a thread without a description gets a place there, too. */
	err = table_reach(&follow->trace.threads, sizeof(struct thread_entry), thread,
			  tables_index_limit(&follow->trace));
	if (err)
		return err;
	while (room <= thread)
		room *= 2;
	streams = reallocarray(follow->streams, room, sizeof(*streams));
	if (!streams)
		return -ENOMEM;
	memset(streams + follow->stream_count, 0, (room - follow->stream_count) * sizeof(*streams));
	follow->streams = streams;
	heap = reallocarray(follow->heap, room, sizeof(*heap));
	if (!heap)
		return -ENOMEM;
	follow->heap = heap;
	follow->stream_count = room;
	return 0;
}

/* Unpack the queue's first chunk, to be decoded next. */
static int unpack_chunk(struct trace_follow *follow, struct stream *stream)
{
	struct piece *piece = stream->first;
	size_t size = record_payload_size(&piece->ref.head), body = size - sizeof(piece->ref.head);
	int err = 0;

	stream->first = piece->next;
	if (!stream->first)
		stream->last = NULL;
	follow->queued -= piece->ref.stored;
	stream->skipped += piece->skipped;
	if (follow->spent)
		free(stream->payload);
	else
		follow->spent = stream->payload;
	stream->payload = malloc(size);
	if (!stream->payload) {
		err = -ENOMEM;
	} else {
		memcpy(stream->payload, &piece->ref.head, sizeof(piece->ref.head));
		if (!(piece->ref.flags & CALLTAP_CHUNK_ZSTD))
			memcpy(stream->payload + sizeof(piece->ref.head), piece->streams, body);
		else if (ZSTD_decompressDCtx(follow->zstd, stream->payload + sizeof(piece->ref.head), body,
					     piece->streams, piece->ref.stored) != body)
			err = -EBADMSG;
	}
	if (!err)
		err = record_decoder_init(&stream->decoder, stream->payload, size);
	record_decoder_bound(&stream->decoder, &follow->trace.limits,
			     stream->first ? stream->first->ref.head.base_ticks : RECORD_NEXT_OPEN);
	if (err) {
		stream->decoder.left = 0;
		stream->skipped += piece->ref.head.count;
	}
	free(piece);
	return err;
}

static void make_event(struct stream *stream, uint32_t thread, const struct record *record)
{
	if (record->ticks > stream->last_ticks)
		stream->last_ticks = record->ticks;
	stream->pending = (struct trace_event){.ticks = stream->last_ticks,
					       .lo = record->lo == record->hi ? stream->last_ticks : record->lo,
					       .hi = record->hi > stream->last_ticks ? record->hi : stream->last_ticks,
					       .extra = record->extra,
					       .behind = record->behind,
					       .thread = thread,
					       .id = record->id,
					       .kind = record->kind,
					       .brief = record->brief,
					       .leaf = record->leaf};
}

/* Make the thread's next event its `pending` one; false: there is none now. */
static bool load_event(struct trace_follow *follow, uint32_t thread)
{
	struct stream *stream = &follow->streams[thread];
	struct record record;

	for (;;) {
		int got;

		if (stream->skipped && stream->decoder.left) {
			record = (struct record){
				.ticks = stream->decoder.ticks, .extra = stream->skipped, .kind = CALLTAP_REC_LOST};
			stream->skipped = 0;
			make_event(stream, thread, &record);
			return true;
		}
		got = record_decoder_next(&stream->decoder, &record);
		if (got > 0) {
			make_event(stream, thread, &record);
			return true;
		}
		if (got < 0) {
			stream->skipped += stream->decoder.left;
			stream->decoder.left = 0;
		}
		if (!stream->first)
			return false;
		if (unpack_chunk(follow, stream))
			stream->decoder.left = 0; /* counted as skipped */
	}
}

/* Put a DATA chunk into the queue of its thread, or pass it over when too much is queued. */
static int take_data(struct trace_follow *follow, uint64_t offset, const struct calltap_chunk *chunk)
{
	struct stream *stream;
	struct piece *piece;
	struct data_ref ref;
	int err = trace_read_data(&follow->trace, offset, chunk, &ref);

	if (!err)
		err = reach_stream(follow, ref.head.thread);
	if (err)
		return err;
	stream = &follow->streams[ref.head.thread];
	if (follow->queued + ref.stored > follow->queued_max) {
		stream->passing += ref.head.count;
		stream->passed += ref.head.count;
		return 0;
	}
	piece = malloc(sizeof(*piece) + ref.stored);
	if (!piece)
		return -ENOMEM;
	*piece = (struct piece){.ref = ref, .skipped = stream->passing};
	err = trace_read_at(&follow->trace, ref.offset, piece->streams, ref.stored);
	if (!err && (uint32_t)check_bytes(CHECK_START, piece->streams, ref.stored) != ref.head.check)
		err = -EBADMSG;
	if (err) {
		free(piece);
		return err;
	}
	stream->passing = 0;
	follow->queued += ref.stored;
	if (stream->last)
		stream->last->next = piece;
	else
		stream->first = piece;
	stream->last = piece;
	if (!stream->waits && load_event(follow, ref.head.thread)) {
		stream->waits = true;
		heap_push(follow, ref.head.thread);
	}
	return 0;
}

/* A clock sample came: all records older than the sample before it were read. */
static void take_clock(struct trace_follow *follow, uint64_t before)
{
	const struct trace *trace = &follow->trace;

	if (trace->last_clock.mono_ns - trace->first_clock.mono_ns >= CLOCK_MIN_NS && before > follow->ticks)
		follow->ticks = before;
	follow->clock_ticks = trace->last_clock.ticks;
}

static int take_chunk(struct trace_follow *follow, const struct calltap_chunk *chunk)
{
	uint64_t payload = follow->offset + sizeof(*chunk), before = follow->clock_ticks;
	const char *fault;
	int err;

	if (chunk->type == CALLTAP_CHUNK_DATA)
		return take_data(follow, payload, chunk);
	err = trace_take_table(&follow->trace, payload, chunk, &fault);
	if (err)
		return err;
	/* Decoders hold on to the limits, and may go on before the other tables are settled. */
	if (chunk->type != CALLTAP_CHUNK_CPUS)
		ticks_settle(&follow->trace);
	if (chunk->type == CALLTAP_CHUNK_CLOCK) {
		clock_settle(&follow->trace);
		take_clock(follow, before);
	} else if (chunk->type != CALLTAP_CHUNK_INFO && chunk->type != CALLTAP_CHUNK_END &&
		   chunk->type != CALLTAP_CHUNK_CPUS) {
		follow->changed = true;
	}
	follow->told |= chunk->type == CALLTAP_CHUNK_INFO;
	return 0;
}

/* Punch out the part of the file that was read. */
static void let_go(struct trace_follow *follow)
{
	uint64_t end = follow->offset & ~(uint64_t)4095;

	if (end - follow->let_go < PUNCH_BYTES)
		return;
	/* On a file system without holes the file grows. */
	if (fallocate(follow->trace.fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)follow->let_go,
		      (off_t)(end - follow->let_go)))
		return;
	follow->let_go = end;
}

static int read_head(struct trace_follow *follow)
{
	struct calltap_file_head *head = &follow->trace.head;

	if (follow->trace.size < sizeof(*head))
		return 0;
	if (trace_read_at(&follow->trace, 0, head, sizeof(*head)) ||
	    memcmp(head->magic, CALLTAP_FILE_MAGIC, sizeof(head->magic)) != 0 ||
	    head->version != CALLTAP_FILE_VERSION || head->head_size < sizeof(*head) || head->head_size % 8)
		return -EBADMSG;
	follow->offset = head->head_size;
	return 0;
}

int trace_follow_poll(struct trace_follow *follow)
{
	struct calltap_chunk chunk;
	struct stat about;
	int err = 0;

	if (fstat(follow->trace.fd, &about))
		return -errno;
	follow->trace.size = (uint64_t)about.st_size;
	if (!follow->offset)
		err = read_head(follow);
	while (!err && follow->offset && follow->trace.size >= follow->offset + sizeof(chunk)) {
		err = trace_read_at(&follow->trace, follow->offset, &chunk, sizeof(chunk));
		/* A chunk is one write(), but a reader may see its beginning first: the rest will come. */
		if (!err && chunk.stored > follow->trace.size - follow->offset - sizeof(chunk))
			break;
		if (!err && trace_chunk_fault(&follow->trace, follow->offset, &chunk))
			err = -EBADMSG;
		if (!err)
			err = take_chunk(follow, &chunk);
		if (!err)
			follow->offset += sizeof(chunk) + ((chunk.stored + 7) & ~UINT64_C(7));
	}
	if (!err && follow->changed) {
		err = tables_settle_more(&follow->trace);
		follow->changed = false;
	}
	let_go(follow);
	return err;
}

void trace_follow_finish(struct trace_follow *follow)
{
	follow->finished = true;
}

void trace_follow_limit(struct trace_follow *follow, uint64_t ticks)
{
	follow->limit = ticks;
}

uint64_t trace_follow_ticks(const struct trace_follow *follow)
{
	return follow->ticks < follow->limit ? follow->ticks : follow->limit;
}

int trace_follow_next(struct trace_follow *follow, struct trace_event *event)
{
	uint32_t thread;
	struct stream *stream;

	free(follow->spent);
	follow->spent = NULL;
	if (!follow->heap_count)
		return 0;
	thread = follow->heap[0];
	stream = &follow->streams[thread];
	if (stream->pending.ticks > trace_follow_ticks(follow) && !follow->finished)
		return 0;
	*event = stream->pending;
	cpus_forget(&follow->trace, thread, event->ticks);
	stream->waits = load_event(follow, thread);
	if (stream->waits)
		heap_sink(follow, thread);
	else if (--follow->heap_count)
		heap_sink(follow, follow->heap[follow->heap_count]);
	return 1;
}

void trace_follow_pass_over(struct trace_follow *follow)
{
	for (uint32_t i = 0; i < follow->heap_count; i++) {
		struct stream *stream = &follow->streams[follow->heap[i]];

		stream->passed += 1 + stream->decoder.left + empty_queue(follow, stream); /* the pending one, too */
		stream->decoder.left = 0;
		stream->waits = false;
	}
	follow->heap_count = 0;
}

uint64_t trace_follow_lost(const struct trace_follow *follow, uint32_t thread)
{
	const struct trace_thread *row = trace_thread(&follow->trace, thread);

	return (row ? row->lost : 0) + (thread < follow->stream_count ? follow->streams[thread].passed : 0);
}

uint64_t trace_follow_passed_over(const struct trace_follow *follow)
{
	uint64_t passed = 0;

	for (uint32_t i = 0; i < follow->stream_count; i++)
		passed += follow->streams[i].passed;
	return passed;
}
