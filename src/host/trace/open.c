/*
 * Opening a trace file: from chunk to chunk, past damaged places.
 *
 * Context: host; called by everything that reads traces.  Opening reads of a DATA chunk only the head; the cursors read
 * its streams.  The file is read, not mapped: a recording that truncates it must not kill the reader.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <zstd.h>

#include "check.h"
#include "decode.h"
#include "reader.h"
#include "weights.h"

/*
 * Bounds on the cost of a hostile file: unpacked tables relative to the file's size, and bytes of chunks whose check
 * fails.
 */
#define KEPT_RATIO    64
#define KEPT_FREE     (1u << 20)
#define WASTE_FREE    (256u << 20)
#define HEAD_SIZE_MAX 4096
#define SEARCH_BLOCK  65536

int trace_read_at(const struct trace *trace, uint64_t offset, void *to, size_t size)
{
	char *bytes = to;

	while (size) {
		ssize_t got = pread(trace->fd, bytes, size, (off_t)offset);

		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0)
			return -errno;
		if (!got)
			return -EBADMSG;
		bytes += got;
		offset += (uint64_t)got;
		size -= (size_t)got;
	}
	return 0;
}

static void note_damage(struct trace *trace, uint64_t offset, const char *reason)
{
	if (!trace->bad_places++) {
		trace->first_bad = offset;
		trace->first_reason = reason;
	}
}

const char *trace_chunk_fault(const struct trace *trace, uint64_t offset, const struct calltap_chunk *chunk)
{
	if (chunk->magic != CALLTAP_CHUNK_MAGIC)
		return "no chunk starts there";
	if (chunk->raw > CALLTAP_CHUNK_RAW_MAX || chunk->stored > chunk->raw || chunk->flags & ~CALLTAP_CHUNK_ZSTD)
		return "the chunk's head makes no sense";
	if (!(chunk->flags & CALLTAP_CHUNK_ZSTD) && chunk->stored != chunk->raw)
		return "the chunk's head makes no sense";
	if (chunk->stored > trace->size - offset - sizeof(*chunk))
		return "the file ends inside the chunk";
	return NULL;
}

static uint64_t head_check(struct calltap_chunk chunk)
{
	chunk.check = 0;
	return check_bytes(CHECK_START, &chunk, sizeof(chunk));
}

int trace_read_data(const struct trace *trace, uint64_t offset, const struct calltap_chunk *chunk, struct data_ref *ref)
{
	int err;

	*ref = (struct data_ref){.offset = offset + sizeof(ref->head), .flags = chunk->flags};
	if (chunk->stored < sizeof(ref->head))
		return -EBADMSG;
	ref->stored = chunk->stored - sizeof(ref->head);
	err = trace_read_at(trace, offset, &ref->head, sizeof(ref->head));
	if (err)
		return err;
	if ((uint32_t)check_bytes(head_check(*chunk), &ref->head, sizeof(ref->head)) != chunk->check ||
	    record_payload_size(&ref->head) != chunk->raw)
		return -EBADMSG;
	return 0;
}

static int take_data(struct trace *trace, uint64_t offset, const struct calltap_chunk *chunk, const char **fault)
{
	struct data_ref ref;
	int err = trace_read_data(trace, offset, chunk, &ref);

	*fault = "the chunk's head is damaged";
	return err ? err : tables_take_data(trace, &ref);
}

/* Unpack a chunk to the payload as the writer got it, with a NUL behind it. */
static int unpack_payload(const struct calltap_chunk *chunk, char *stored, char **payload)
{
	char *raw;
	size_t got;

	*payload = stored;
	if (!(chunk->flags & CALLTAP_CHUNK_ZSTD))
		return 0;
	raw = malloc(chunk->raw + 1);
	if (!raw)
		return -ENOMEM;
	got = ZSTD_decompress(raw, chunk->raw, stored, chunk->stored);
	if (ZSTD_isError(got) || got != chunk->raw) {
		free(raw);
		return -EBADMSG;
	}
	raw[chunk->raw] = '\0';
	free(stored);
	*payload = raw;
	return 0;
}

int trace_keep(struct trace *trace, char *payload, uint64_t size)
{
	int err = table_reach(&trace->kept, sizeof(char *), trace->kept.count, UINT32_MAX);

	if (err)
		return err;
	*TABLE_ITEM(trace->kept, char *, trace->kept.count - 1) = payload;
	trace->kept_size += size;
	return 0;
}

int trace_take_table(struct trace *trace, uint64_t offset, const struct calltap_chunk *chunk, const char **fault)
{
	char *payload;
	bool keep = false;
	int err;

	*fault = "the chunk is damaged";
	if (trace->kept_size + chunk->raw > trace->size * KEPT_RATIO + KEPT_FREE)
		return -EBADMSG;
	payload = malloc(chunk->stored + 1);
	if (!payload)
		return -ENOMEM;
	err = trace_read_at(trace, offset, payload, chunk->stored);
	payload[chunk->stored] = '\0';
	if (!err && (uint32_t)check_bytes(head_check(*chunk), payload, chunk->stored) != chunk->check) {
		trace->wasted += chunk->stored;
		err = -EBADMSG;
	}
	if (!err)
		err = unpack_payload(chunk, payload, &payload);
	if (!err) {
		*fault = "the chunk makes no sense";
		err = tables_take(trace, chunk->type, payload, chunk->raw, &keep);
	}
	/* A table that failed half way may point into the payload already. */
	if (keep && !trace_keep(trace, payload, chunk->raw))
		return err;
	free(payload);
	return keep && !err ? -ENOMEM : err;
}

/* Take the chunk at *offset and step past it; -EBADMSG and *fault if there is no good chunk. */
static int take_chunk(struct trace *trace, uint64_t *offset, const char **fault)
{
	struct calltap_chunk chunk;
	uint64_t payload = *offset + sizeof(chunk);
	int err = trace_read_at(trace, *offset, &chunk, sizeof(chunk));

	*fault = "the file got shorter";
	if (err)
		return err;
	*fault = trace_chunk_fault(trace, *offset, &chunk);
	if (*fault)
		return -EBADMSG;
	if (chunk.type == CALLTAP_CHUNK_DATA)
		err = take_data(trace, payload, &chunk, fault);
	else
		err = trace_take_table(trace, payload, &chunk, fault);
	if (!err)
		*offset = payload + ((chunk.stored + 7) & ~UINT64_C(7));
	return err;
}

/* The first place from offset on where a chunk may start; the file's size if there is none. */
static uint64_t find_chunk(const struct trace *trace, uint64_t offset)
{
	static const uint32_t magic = CALLTAP_CHUNK_MAGIC;
	unsigned char block[SEARCH_BLOCK];

	while (offset < trace->size) {
		uint64_t left = trace->size - offset;
		size_t size = left < sizeof(block) ? left : sizeof(block);

		if (trace_read_at(trace, offset, block, size))
			return trace->size;
		for (size_t i = 0; i + sizeof(magic) <= size; i += 8)
			if (memcmp(block + i, &magic, sizeof(magic)) == 0)
				return offset + i;
		offset += size;
	}
	return trace->size;
}

static int scan_chunks(struct trace *trace)
{
	uint64_t offset = trace->head.head_size;
	const char *fault;

	while (offset < trace->size) {
		int err = -EBADMSG;

		fault = "the file ends inside the chunk";
		if (trace->size - offset >= sizeof(struct calltap_chunk))
			err = take_chunk(trace, &offset, &fault);
		if (err && err != -EBADMSG)
			return err;
		if (!err)
			continue;
		note_damage(trace, offset, fault);
		if (trace->wasted > trace->size + WASTE_FREE)
			break;
		offset = find_chunk(trace, offset + 8);
	}
	return 0;
}

static void describe_damage(struct trace *trace)
{
	if (trace->bad_places && trace->ended)
		snprintf(trace->damage, sizeof(trace->damage),
			 "the trace is damaged in %" PRIu64 " place(s), first at byte %" PRIu64
			 " (%s): what was there is missing",
			 trace->bad_places, trace->first_bad, trace->first_reason);
	else if (trace->bad_places)
		snprintf(trace->damage, sizeof(trace->damage),
			 "the trace was cut short or is damaged in %" PRIu64 " place(s), first at byte %" PRIu64
			 " of %" PRIu64 " (%s): what was there and after its end is missing",
			 trace->bad_places, trace->first_bad, trace->size, trace->first_reason);
	else if (!trace->ended)
		snprintf(trace->damage, sizeof(trace->damage),
			 "the trace was cut short: it has no end mark, so what came after byte %" PRIu64
			 " is missing, and calls that were open count up to its end, even where their thread had "
			 "ended",
			 trace->size);
}

static int open_head(struct trace *trace, struct calltap_diag *diag)
{
	struct stat about;

	trace->fd = open(trace->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (trace->fd < 0 || fstat(trace->fd, &about))
		return calltap_diag_set(diag, -errno, "cannot open the trace %s: %s", trace->path, strerror(errno));
	if (!S_ISREG(about.st_mode))
		return calltap_diag_set(diag, -EINVAL, "%s is not a Calltap trace: it is no regular file", trace->path);
	trace->size = (uint64_t)about.st_size;
	if (trace->size < sizeof(trace->head) || trace_read_at(trace, 0, &trace->head, sizeof(trace->head)) ||
	    memcmp(trace->head.magic, CALLTAP_FILE_MAGIC, sizeof(trace->head.magic)) != 0)
		return calltap_diag_set(diag, -EINVAL,
					"%s is not a Calltap trace; name a file that `calltap record` wrote",
					trace->path);
	if (trace->head.version != CALLTAP_FILE_VERSION)
		return calltap_diag_set(diag, -EPROTONOSUPPORT,
					"%s has trace format %u, this calltap reads format %u; read it with the "
					"calltap that wrote it",
					trace->path, trace->head.version, CALLTAP_FILE_VERSION);
	if (trace->head.head_size < sizeof(trace->head) || trace->head.head_size > HEAD_SIZE_MAX ||
	    trace->head.head_size % 8)
		return calltap_diag_set(diag, -EINVAL, "%s is not a Calltap trace: its head is damaged", trace->path);
	return 0;
}

int trace_open(struct trace **out, const char *path, struct calltap_diag *diag)
{
	struct trace *trace = calloc(1, sizeof(*trace));
	int err;

	*out = NULL;
	if (!trace)
		return calltap_diag_set(diag, -ENOMEM, "not enough memory to open %s", path);
	trace->fd = -1;
	trace->path = strdup(path);
	trace->weights = calloc(1, sizeof(*trace->weights));
	if (!trace->path || !trace->weights) {
		trace_close(trace);
		return calltap_diag_set(diag, -ENOMEM, "not enough memory to open %s", path);
	}
	err = open_head(trace, diag);
	if (err) {
		trace_close(trace);
		return err;
	}
	err = scan_chunks(trace);
	if (!err)
		err = tables_settle(trace);
	if (err) {
		trace_close(trace);
		return calltap_diag_set(diag, err, "cannot read the trace %s: %s", path, strerror(-err));
	}
	describe_damage(trace);
	*out = trace;
	return 0;
}

void trace_close(struct trace *trace)
{
	if (!trace)
		return;
	tables_free(trace);
	if (trace->fd >= 0)
		close(trace->fd);
	free(trace->path);
	free(trace);
}
