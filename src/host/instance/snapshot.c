/*
 * Snapshots, and the end of a process that was recorded in overwrite mode
 * (snapshot.h): the tables as they are kept in memory (tables.c), then what is
 * in the rings (core/history.c).  Context: host.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <host/brief/brief.h>
#include <host/core/calls.h>
#include <host/core/history.h>
#include <host/counted.h>
#include <host/hook/triggers.h>
#include <host/hook/watch.h>
#include <host/session/session.h>

#include "snapshot.h"

struct snapshot {
	struct instance *instance;
	const struct snapshot_options *options;
	struct trace_writer *writer;
	struct history history;
	struct calltap_file_head head;
	char *bytes; /* a copy of the tables: the chunks behind the head */
	size_t size;
	struct calltap_file_clock clock; /* when it was taken */
	uint64_t end_ticks;		 /* no record is younger */
	uint32_t number;
	uint64_t file_bytes;
	struct history_call *calls; /* that triggers have told of */
	size_t call_count;
};

static const struct share *share_of(const struct instance *instance, uint32_t index)
{
	const struct share *share = instance->shares;

	while (share && share->target->index != index)
		share = share->next;
	return share;
}

static struct target *target_of(const struct instance *instance, uint32_t index)
{
	const struct share *share = share_of(instance, index);

	return share ? share->target : NULL;
}

/* Had the thread that holds a ring ended before its process did? */
static bool had_gone(const struct share *share, uint32_t tid)
{
	for (uint32_t i = 0; i < share->arena_count; i++)
		for (uint32_t k = 0; k < share->arenas[i].ring_count; k++)
			if (share->arenas[i].rings[k].gone == CALLTAP_RING_CLAIMED + tid)
				return true;
	return false;
}

/* A thread of a living process: the kernel knows whether it lives, and how it is called now. */
static int thread_now(void *arg, struct calltap_file_thread *row, bool holds_ring)
{
	struct instance *instance = arg;
	struct target *target;
	char name[sizeof(row->name)];
	int ret;

	session_lock(instance->session);
	target = target_of(instance, row->process);
	if (target && !target->ended && !target->other_ids && holds_ring) {
		ret = threads_kernel_name(target, row->tid, name, sizeof(name));
		if (!ret)
			threads_name_row(instance->session, target, row, name);
		row->ended = ret != 0;
	}
	session_unlock(instance->session);
	return 0;
}

/* A thread of a process that has ended: it goes to the instance's table. */
static int thread_at_end(void *arg, struct calltap_file_thread *row, bool holds_ring)
{
	struct instance *instance = arg;
	const struct share *share = share_of(instance, row->process);
	uint32_t index;
	int ret;

	if (!share)
		return -ESRCH;
	ret = threads_add(instance, share->target, row->tid, row->start_ticks, &index);
	if (ret)
		return ret;
	row->ended |= holds_ring && had_gone(share, row->tid);
	threads_name_row(instance->session, share->target, row, row->name);
	instance->threads[index].row = *row;
	instance->threads[index].dirty = false;
	return 0;
}

static struct history_arena arena_of(const struct share *share, const struct target_arena *arena)
{
	const struct calltap_file_process *row = &share->target->row;

	return (struct history_arena){
		.forked_ticks = row->start == CALLTAP_START_FORK ? row->start_ticks : 0,
		.process = share->target->index,
		.ring_count = arena->ring_count,
		.ring_stride = arena->ring_stride,
		.sub_size = arena->sub_size,
		.sub_count = arena->sub_count,
		.read = history_read_shared,
		.arg = arena->arena,
	};
}

int snapshot_of_ended(struct share *share)
{
	struct instance *instance = share->instance;
	struct history history;
	int ret = history_create(&history, instance->writer);

	if (!ret)
		ret = triggers_calls(watch_of(instance->session->images.watch, instance->set), NULL, &history.calls,
				     &history.call_count);
	if (ret) {
		history_destroy(&history);
		return ret;
	}
	history.next_thread = instance->thread_count;
	history.thread = thread_at_end;
	history.arg = instance;
	for (uint32_t i = 0; i < share->arena_count && !ret; i++) {
		const struct history_arena arena = arena_of(share, &share->arenas[i]);

		for (uint32_t ring = 0; ring < arena.ring_count && !ret;) {
			ret = history_copy(&history, &arena, &ring);
			if (!ret)
				ret = history_write(&history);
		}
	}
	if (!ret && instance->brief)
		ret = brief_write(instance->brief, instance->writer);
	instance->result->records += history.records;
	instance->result->lost += history.lost;
	instance->overwritten += history.overwritten + history.older;
	instance->holes += history.holes;
	free(history.calls);
	history_destroy(&history);
	return ret == -ENOMEM ? ret : 0; /* the writer keeps errors of the file */
}

/*
 * The rings of one process, as far as the budget goes.  The lock is held while
 * they are copied, so that none is unmapped, and not while they are written.
 */
static int take_share(struct snapshot *snapshot, struct share *share)
{
	struct instance *instance = snapshot->instance;
	uint32_t ring = 0, i = 0;
	bool more = true;
	int ret = 0;

	while (more && !ret) {
		session_lock(instance->session);
		while (i < share->arena_count && snapshot->history.copied < snapshot->history.budget && !ret) {
			const struct history_arena arena = arena_of(share, &share->arenas[i]);

			ret = history_copy(&snapshot->history, &arena, &ring);
			if (ring == arena.ring_count) {
				ring = 0;
				i++;
			}
		}
		more = i < share->arena_count;
		session_unlock(instance->session);
		if (!ret && more)
			ret = history_write(&snapshot->history);
	}
	return ret;
}

static int take_rings(struct snapshot *snapshot)
{
	struct instance *instance = snapshot->instance;
	struct share *share;
	int ret = 0;

	session_lock(instance->session);
	share = instance->shares; /* shares stay until the instance's end */
	session_unlock(instance->session);
	for (; share && !ret; share = share->next)
		ret = take_share(snapshot, share);
	if (!ret)
		ret = history_write(&snapshot->history);
	return ret ? ret : calls_write_rest(&snapshot->history);
}

/* The rings are copied: how late the clock was until now. */
static int take_ticks(struct snapshot *snapshot)
{
	struct instance *instance = snapshot->instance;
	int ret;

	snapshot->end_ticks = snapshot->clock.ticks;
	if (!instance->brief)
		return 0;
	session_lock(instance->session);
	snapshot->end_ticks = timing_now(instance->session).ticks;
	ret = brief_write_kept(instance->brief, snapshot->writer);
	session_unlock(instance->session);
	return ret;
}

static int copy_tables(struct snapshot *snapshot)
{
	const struct calltap_tables *tables = snapshot->instance->tables.tables;

	snapshot->head = *trace_writer_head(snapshot->instance->writer);
	snapshot->size = tables->used - sizeof(snapshot->head);
	snapshot->bytes = malloc(snapshot->size);
	if (!snapshot->bytes)
		return -ENOMEM;
	memcpy(snapshot->bytes, (const char *)trace_memory_bytes(tables) + sizeof(snapshot->head), snapshot->size);
	return 0;
}

/* Bytes that a writer has put into memory, to the instance's file and tables. */
static int add_bytes(struct instance *instance, int fd, size_t from, size_t to)
{
	void *bytes;
	int ret;

	if (to <= from)
		return 0;
	bytes = mmap(NULL, to, PROT_READ, MAP_SHARED, fd, 0);
	if (bytes == MAP_FAILED)
		return -errno;
	session_lock(instance->session);
	ret = trace_writer_raw(instance->writer, (char *)bytes + from, to - from);
	session_unlock(instance->session);
	munmap(bytes, to);
	return ret;
}

/* Source lines are looked up when the first one wants them, without the lock: that takes long. */
static int add_lines(struct instance *instance)
{
	struct trace_writer *writer;
	struct image *image = describe_next_without_lines(instance);
	size_t head = sizeof(struct calltap_file_head);
	int fd, ret;

	if (!image)
		return 0;
	fd = memfd_create("calltap-lines", MFD_CLOEXEC);
	if (fd < 0)
		return -errno;
	ret = trace_writer_open(&writer, fd, trace_writer_head(instance->writer));
	if (ret)
		return ret;
	for (; image && !ret; image = describe_next_without_lines(instance))
		ret = image_write_lines(image, writer);
	if (!ret)
		ret = add_bytes(instance, fd, head, trace_writer_bytes(writer));
	(void)trace_writer_close(writer); /* memory */
	return ret;
}

/* Copy the tables as they are now, and note the time. */
static int begin_snapshot(struct snapshot *snapshot)
{
	struct instance *instance = snapshot->instance;
	int ret = add_lines(instance);

	if (ret)
		return ret;
	session_lock(instance->session);
	ret = trace_writer_flush(instance->writer);
	if (!ret)
		ret = copy_tables(snapshot);
	snapshot->clock = timing_now(instance->session);
	snapshot->number = ++instance->snapshots;
	session_unlock(instance->session);
	return ret;
}

static int write_end(struct snapshot *snapshot)
{
	const struct history *history = &snapshot->history;
	const struct snapshot_options *options = snapshot->options;
	struct calltap_file_end end = {
		.records = history->records, .lost = history->lost, .ticks = snapshot->end_ticks, .status = -1};
	int ret = describe_snapshot(snapshot->instance, snapshot->writer);

	if (!ret)
		ret = trace_writer_info(snapshot->writer, "snapshot", "%" PRIu32, snapshot->number);
	if (!ret && options->reason && options->reason[0])
		ret = trace_writer_info(snapshot->writer, "reason", "%s", options->reason);
	if (!ret && options->history_ns)
		ret = trace_writer_info(snapshot->writer, "history_ns", "%" PRIu64, options->history_ns);
	if (!ret && history->overwritten + history->older)
		ret = trace_writer_info(snapshot->writer, "overwritten", "%" PRIu64 " %s of %" PRIu32 " bytes",
					history->overwritten + history->older,
					counted(history->overwritten + history->older, "sub-buffer", "sub-buffers"),
					snapshot->instance->sub_size);
	if (!ret && history->holes)
		ret = trace_writer_info(snapshot->writer, "holes", "%" PRIu64 " %s", history->holes,
					counted(history->holes, "record", "records"));
	if (!ret)
		ret = trace_writer_flush(snapshot->writer);
	if (!ret && snapshot->clock.ticks)
		ret = trace_writer_chunk(snapshot->writer, CALLTAP_CHUNK_CLOCK, &snapshot->clock,
					 sizeof(snapshot->clock));
	return ret ? ret : trace_writer_chunk(snapshot->writer, CALLTAP_CHUNK_END, &end, sizeof(end));
}

static uint64_t history_start(struct snapshot *snapshot)
{
	uint64_t ns = snapshot->options->history_ns, ticks;
	struct instance *instance = snapshot->instance;
	double rate;

	if (!ns || !snapshot->clock.ticks)
		return 0;
	session_lock(instance->session);
	rate = timing_rate(instance->session);
	session_unlock(instance->session);
	ticks = (uint64_t)((double)ns * rate);
	return rate > 0 && ticks < snapshot->clock.ticks ? snapshot->clock.ticks - ticks : 0;
}

static int take_marks(struct snapshot *snapshot)
{
	struct history *history = &snapshot->history;
	int ret;

	session_lock(snapshot->instance->session);
	ret = marks_copy(snapshot->instance, snapshot->writer, history->from_ticks, &history->next_thread,
			 &history->records);
	session_unlock(snapshot->instance->session);
	return ret;
}

static int write_all(struct snapshot *snapshot, int fd)
{
	uint64_t bad;
	int ret = trace_writer_open(&snapshot->writer, fd, &snapshot->head);

	if (ret)
		return ret;
	ret = history_create(&snapshot->history, snapshot->writer);
	if (ret)
		return ret;
	snapshot->history.thread = thread_now;
	snapshot->history.arg = snapshot->instance;
	snapshot->history.from_ticks = history_start(snapshot);
	snapshot->history.calls = snapshot->calls;
	snapshot->history.call_count = snapshot->call_count;
	ret = trace_memory_copy(snapshot->writer, snapshot->bytes, snapshot->size, &bad);
	if (!ret)
		ret = take_rings(snapshot);
	if (!ret)
		ret = take_ticks(snapshot);
	if (!ret)
		ret = take_marks(snapshot);
	if (!ret)
		ret = write_end(snapshot);
	history_destroy(&snapshot->history);
	return ret;
}

/* The file that the instance itself writes would be lost to it. */
static bool is_own_file(const struct instance *instance, const struct snapshot_options *options)
{
	struct stat own, other;

	return !fstat(trace_writer_fd(instance->writer), &own) && S_ISREG(own.st_mode) &&
	       !(options->path ? stat(options->path, &other) : fstat(options->fd, &other)) &&
	       own.st_dev == other.st_dev && own.st_ino == other.st_ino;
}

static const char *name_of(const struct snapshot_options *options)
{
	return options->path ? options->path : "its file";
}

static int check_mode(const struct instance *instance, const struct snapshot_options *options,
		      struct calltap_diag *diag)
{
	if (instance->options->mode != CALLTAP_MODE_OVERWRITE || !instance->tables.tables)
		return calltap_diag_set(diag, -EOPNOTSUPP,
					"a snapshot needs --mode overwrite: this session writes all it records to its "
					"file");
	if (is_own_file(instance, options))
		return calltap_diag_set(diag, -EEXIST,
					"%s is that of the recording itself; name another one for the snapshot",
					name_of(options));
	return 0;
}

static int write_fd(struct snapshot *snapshot, int fd)
{
	int ret = write_all(snapshot, fd), closed;

	snapshot->file_bytes = snapshot->writer ? trace_writer_bytes(snapshot->writer) : 0;
	closed = trace_writer_close(snapshot->writer);
	return ret ? ret : closed;
}

/* Written under another name first: who finds the file finds all of it. */
static int write_path(struct snapshot *snapshot, const char *path)
{
	char part[PATH_MAX];
	int fd, ret;

	if (snprintf(part, sizeof(part), "%s.part", path) >= (int)sizeof(part))
		return -ENAMETOOLONG;
	fd = open(part, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (fd < 0)
		return -errno;
	ret = write_fd(snapshot, fd);
	if (!ret && rename(part, path))
		ret = -errno;
	if (ret)
		unlink(part);
	return ret;
}

static int write_file(struct snapshot *snapshot)
{
	int fd;

	if (snapshot->options->path)
		return write_path(snapshot, snapshot->options->path);
	fd = fcntl(snapshot->options->fd, F_DUPFD_CLOEXEC, 0);
	return fd < 0 ? -errno : write_fd(snapshot, fd);
}

int snapshot_write(struct instance *instance, const struct snapshot_options *options, struct snapshot_result *result,
		   struct calltap_diag *diag)
{
	struct snapshot snapshot = {.instance = instance, .options = options};
	int ret = check_mode(instance, options, diag);

	*result = (struct snapshot_result){0};
	if (ret)
		return ret;
	pthread_mutex_lock(&instance->snapshot_lock);
	ret = triggers_calls(watch_of(instance->session->images.watch, instance->set), options->call, &snapshot.calls,
			     &snapshot.call_count);
	if (!ret)
		ret = begin_snapshot(&snapshot);
	if (!ret)
		ret = write_file(&snapshot);
	pthread_mutex_unlock(&instance->snapshot_lock);
	free(snapshot.bytes);
	free(snapshot.calls);
	if (ret)
		return calltap_diag_set(diag, ret, "cannot write the snapshot to %s: %s", name_of(options),
					strerror(-ret));
	result->records = snapshot.history.records;
	result->threads = snapshot.history.threads;
	result->overwritten = snapshot.history.overwritten;
	result->file_bytes = snapshot.file_bytes;
	return 0;
}
