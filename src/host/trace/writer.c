/*
 * The trace file's write side: chunks, compression, checks.
 *
 * Context: host; one thread at a time.  A chunk is one writev(), so a tool that dies leaves at most one half chunk at
 * the end; a disk that fills up leaves none, because the file is cut back.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include <zstd.h>

#include <host/now.h>

#include "check.h"
#include "memory.h"
#include "writer.h"

#define LEVEL	     1 /* of zstd */
#define CPUS_HELD    256
#define COMPRESS_MIN 64 /* bytes; below, a zstd frame's own head eats the gain */

struct trace_writer {
	int fd;
	int error;	/* the first error, 0 = none */
	uint64_t bytes; /* in the file so far */
	struct calltap_file_head head;
	struct trace_memory *mirror; /* a flight recorder's tables, which get a copy of what describes; NULL = none */
	bool clock_mirrored;	     /* the mirror has the first clock sample */
	ZSTD_CCtx *zstd;
	void *packed; /* room for a compressed chunk */
	size_t packed_size;
	char *info; /* lines that wait for trace_writer_flush() */
	size_t info_used, info_size;
	struct calltap_file_cpu cpus[CPUS_HELD]; /* rows that wait likewise */
	uint32_t cpu_count;
};

static int write_all(int fd, struct iovec *iov, int count)
{
	while (count) {
		ssize_t done = writev(fd, iov, count);

		if (done < 0 && errno == EINTR)
			continue;
		if (done < 0)
			return -errno;
		for (; count && (size_t)done >= iov->iov_len; iov++, count--)
			done -= iov->iov_len;
		if (count) {
			iov->iov_base = (char *)iov->iov_base + done;
			iov->iov_len -= done;
		}
	}
	return 0;
}

/* Write the pieces, or leave the file as it was and keep the error. */
static int append_pieces(struct trace_writer *writer, struct iovec *iov, int count)
{
	uint64_t size = 0;
	int err;

	if (writer->error)
		return writer->error;
	for (int i = 0; i < count; i++)
		size += iov[i].iov_len;
	err = write_all(writer->fd, iov, count);
	if (err) {
		writer->error = err;
		/* A pipe cannot be cut back; its reader sees a file that was cut short. */
		if (ftruncate(writer->fd, (off_t)writer->bytes))
			return err;
		return err;
	}
	writer->bytes += size;
	return 0;
}

int trace_writer_open(struct trace_writer **out, int fd, const struct calltap_file_head *head)
{
	struct trace_writer *writer = calloc(1, sizeof(*writer));
	struct iovec iov = {(void *)(uintptr_t)head, sizeof(*head)};
	int err = -ENOMEM;

	*out = NULL;
	if (!writer) {
		close(fd);
		return err;
	}
	writer->fd = fd;
	writer->head = *head;
	writer->zstd = ZSTD_createCCtx();
	if (writer->zstd && !ZSTD_isError(ZSTD_CCtx_setParameter(writer->zstd, ZSTD_c_compressionLevel, LEVEL)))
		err = append_pieces(writer, &iov, 1);
	if (err) {
		trace_writer_close(writer);
		return err;
	}
	*out = writer;
	return 0;
}

/* Is it a descriptor of this process, which is open already? */
static bool is_ours(const char *path)
{
	return !strncmp(path, "/dev/", 5) || !strncmp(path, "/proc/", 6);
}

/* True if the descriptor leads to that regular file: programs that print to it would write over the trace. */
static bool is_open_as(int fd, const struct stat *file)
{
	struct stat st;

	return S_ISREG(file->st_mode) && !fstat(fd, &st) && st.st_dev == file->st_dev && st.st_ino == file->st_ino;
}

int trace_writer_create(struct trace_writer **out, const char *path, uint32_t arch, struct calltap_diag *diag)
{
	struct calltap_file_head head = {
		.magic = CALLTAP_FILE_MAGIC, .version = CALLTAP_FILE_VERSION, .head_size = sizeof(head), .arch = arch};
	struct stat st;
	bool there = !stat(path, &st);
	int fd, err;

	*out = NULL;
	/* To open a named pipe would wait for somebody who reads it. */
	if (there && S_ISFIFO(st.st_mode) && !is_ours(path))
		return calltap_diag_set(diag, -EINVAL,
					"%s is a named pipe, for which somebody else has to wait; name a file with -o",
					path);
	if (there && (is_open_as(STDOUT_FILENO, &st) || is_open_as(STDERR_FILENO, &st)))
		return calltap_diag_set(
			diag, -EINVAL,
			"%s is where output of programs goes, which would be in the midst of the trace; "
			"name another file with -o",
			path);
	fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	err = fd < 0 ? -errno : 0;
	if (!err) {
		head.created_ns = now_real_ns();
		err = trace_writer_open(out, fd, &head);
	}
	if (err == -ENOMEM)
		return calltap_diag_set(diag, err, "not enough memory to write a trace");
	if (err)
		return calltap_diag_set(diag, err, "cannot write the trace %s: %s%s", path, strerror(-err),
					err == -EMFILE || err == -ENFILE ? "" : "; name another file with -o");
	return 0;
}

void trace_writer_mirror(struct trace_writer *writer, struct trace_memory *memory)
{
	struct iovec iov = {&writer->head, sizeof(writer->head)};

	writer->mirror = memory;
	trace_memory_add(memory, &iov, 1);
}

/*
 * Copy a chunk to the tables in memory.  Records, their CPUs, the end, and clock samples after the first are left out,
 * and so are frames that were open at the start: by the time of the oldest record that is left, they may have ended.
 * TICKS chunks are left out, too: they would grow for as long as the session lasts, and trace_memory_tell() has a place
 * of bounded size for what they say.
 */
static void mirror_chunk(struct trace_writer *writer, uint32_t type, const void *payload, const struct iovec *iov,
			 int count)
{
	if (!writer->mirror || type == CALLTAP_CHUNK_DATA || type == CALLTAP_CHUNK_END || type == CALLTAP_CHUNK_STACK ||
	    type == CALLTAP_CHUNK_TICKS || type == CALLTAP_CHUNK_CPUS)
		return;
	if (type == CALLTAP_CHUNK_CLOCK && writer->clock_mirrored) {
		trace_memory_clock(writer->mirror, payload);
		return;
	}
	writer->clock_mirrored |= type == CALLTAP_CHUNK_CLOCK;
	trace_memory_add(writer->mirror, iov, count);
}

/* Compress body; true when *stored bytes of writer->packed are smaller than it. */
static bool compress_body(struct trace_writer *writer, const void *body, size_t size, size_t *stored)
{
	size_t bound = ZSTD_compressBound(size);

	if (size < COMPRESS_MIN)
		return false;
	if (bound > writer->packed_size) {
		void *packed = realloc(writer->packed, bound);

		if (!packed)
			return false; /* the chunk is stored as it is: larger, not lost */
		writer->packed = packed;
		writer->packed_size = bound;
	}
	*stored = ZSTD_compress2(writer->zstd, writer->packed, writer->packed_size, body, size);
	return !ZSTD_isError(*stored) && *stored < size;
}

int trace_writer_chunk(struct trace_writer *writer, uint32_t type, const void *payload, size_t size)
{
	static const char zeros[8];
	struct calltap_chunk chunk = {.magic = CALLTAP_CHUNK_MAGIC, .type = type, .raw = size};
	struct calltap_file_data data;
	size_t front = type == CALLTAP_CHUNK_DATA ? sizeof(data) : 0;
	const void *body = (const char *)payload + front;
	size_t body_size = size - front;
	uint64_t check;

	if (writer->error && !writer->mirror)
		return writer->error;
	if (size < front)
		return -EINVAL;
	if (size > CALLTAP_CHUNK_RAW_MAX)
		return -E2BIG;
	if (compress_body(writer, body, body_size, &body_size)) {
		chunk.flags = CALLTAP_CHUNK_ZSTD;
		body = writer->packed;
	} else {
		body_size = size - front;
	}
	chunk.stored = front + body_size;
	check = check_bytes(CHECK_START, &chunk, sizeof(chunk));
	if (front) {
		memcpy(&data, payload, sizeof(data));
		data.check = (uint32_t)check_bytes(CHECK_START, body, body_size);
		chunk.check = (uint32_t)check_bytes(check, &data, sizeof(data));
	} else {
		chunk.check = (uint32_t)check_bytes(check, body, body_size);
	}

	struct iovec iov[] = {
		{&chunk, sizeof(chunk)},
		{&data, front},
		{(void *)(uintptr_t)body, body_size},
		{(void *)(uintptr_t)zeros, (size_t)(-chunk.stored & 7)},
	};
	mirror_chunk(writer, type, payload, iov, 4);
	return append_pieces(writer, iov, 4);
}

int trace_writer_raw(struct trace_writer *writer, const void *chunks, size_t size)
{
	struct iovec iov = {(void *)(uintptr_t)chunks, size};

	mirror_chunk(writer, CALLTAP_CHUNK_INFO, NULL, &iov, 1); /* of whatever types: all of it is copied */
	return append_pieces(writer, &iov, 1);
}

static int info_reserve(struct trace_writer *writer, size_t extra)
{
	size_t size = writer->info_size ? writer->info_size : 256;
	char *info;

	while (size - writer->info_used < extra)
		size *= 2;
	if (size == writer->info_size)
		return 0;
	info = realloc(writer->info, size);
	if (!info)
		return -ENOMEM;
	writer->info = info;
	writer->info_size = size;
	return 0;
}

int trace_writer_info(struct trace_writer *writer, const char *key, const char *format, ...)
{
	char *value = NULL;
	va_list args;
	size_t need;
	int err;

	va_start(args, format);
	err = vasprintf(&value, format, args) < 0 ? -ENOMEM : 0;
	va_end(args);
	if (err)
		return err;
	for (char *c = value; *c; c++)
		if (*c == '\n')
			*c = ' '; /* each line is an entry */
	need = strlen(key) + strlen(value) + 3;
	err = info_reserve(writer, need);
	if (!err)
		writer->info_used += (size_t)snprintf(writer->info + writer->info_used, need, "%s=%s\n", key, value);
	free(value);
	return err ? err : writer->error;
}

static int flush_cpus(struct trace_writer *writer)
{
	size_t size = writer->cpu_count * sizeof(writer->cpus[0]);

	writer->cpu_count = 0;
	return size ? trace_writer_chunk(writer, CALLTAP_CHUNK_CPUS, writer->cpus, size) : writer->error;
}

int trace_writer_cpu(struct trace_writer *writer, uint32_t thread, uint64_t ticks, uint32_t cpu)
{
	if (!cpu || !ticks)
		return writer->error;
	writer->cpus[writer->cpu_count++] = (struct calltap_file_cpu){thread, cpu - 1, ticks};
	return writer->cpu_count < CPUS_HELD ? writer->error : flush_cpus(writer);
}

int trace_writer_cpus(struct trace_writer *writer, uint32_t thread, const struct calltap_subbuf *head,
		      const struct encode_result *result)
{
	int err = head ? trace_writer_cpu(writer, thread, head->ticks, head->cpu) : 0;

	for (uint32_t i = 0; i < result->cpu_count && !err; i++)
		err = trace_writer_cpu(writer, thread, result->cpus[i].ticks, result->cpus[i].cpu);
	return err;
}

int trace_writer_flush(struct trace_writer *writer)
{
	size_t used = writer->info_used;
	int err = flush_cpus(writer);

	if (err)
		return err;
	if (!used)
		return writer->error;
	writer->info_used = 0;
	return trace_writer_chunk(writer, CALLTAP_CHUNK_INFO, writer->info, used);
}

const struct calltap_file_head *trace_writer_head(const struct trace_writer *writer)
{
	return &writer->head;
}

int trace_writer_fd(const struct trace_writer *writer)
{
	return writer->fd;
}

uint64_t trace_writer_bytes(const struct trace_writer *writer)
{
	return writer->bytes;
}

int trace_writer_error(const struct trace_writer *writer)
{
	return writer->error;
}

int trace_writer_close(struct trace_writer *writer)
{
	int err;

	if (!writer)
		return 0;
	err = trace_writer_flush(writer);
	/* NFS and quotas may report a failed write here only. */
	if (writer->fd >= 0 && close(writer->fd) && !err)
		err = -errno;
	ZSTD_freeCCtx(writer->zstd);
	free(writer->packed);
	free(writer->info);
	free(writer);
	return err;
}
