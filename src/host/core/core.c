/*
 * From tables and arenas in a memory to a trace file (core.h).
 *
 * The magic at the start of a mapping shows tables and arenas; the number of their session shows which belong together.
 * All of it is untrusted: a program may have scribbled on it, or made it up.  Context: host.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <calltap/abi/tables.h>
#include <host/counted.h>
#include <host/proc.h>
#include <host/space.h>
#include <host/trace/memory.h>
#include <host/trace/writer.h>

#include "core.h"
#include "history.h"
#include "memory.h"

#define HEAD_MAX   65536u
#define TABLES_MAX (UINT64_C(1) << 30)
#define ARENAS_MAX 1024u /* in one memory: a forked child may have its parents' arenas */
#define SUB_MIN	   4096u
#define SUB_MAX	   (1u << 20)
#define RING_MAX   (UINT64_C(2) << 30)

struct found {
	const struct core_memory *memory;
	struct calltap_tables tables;
	struct calltap_tables_times times;
	uint64_t address; /* of the tables, 0 = none found */
	bool has_times;	  /* the tables tell when records without a time were written */
	char *bytes;	  /* the trace file without records */
	struct history_arena arenas[ARENAS_MAX];
	struct arena_at {
		const struct core_memory *memory;
		uint64_t base;
	} at[ARENAS_MAX];
	uint32_t arena_count;
};

static const struct calltap_file_clock *last_clock(const struct calltap_tables *tables)
{
	return tables->clock_count ? &tables->clocks[tables->clock_count % 2] : NULL;
}

/* True if `tables` is the later session's, should there be tables of several. */
static bool is_newer(const struct calltap_tables *tables, const struct calltap_tables *than)
{
	const struct calltap_file_clock *a = last_clock(tables), *b = last_clock(than);

	if (tables->session == than->session)
		return tables->used > than->used;
	return a && (!b || a->mono_ns > b->mono_ns);
}

static void look_for_tables(struct found *found, const struct core_region *region)
{
	struct calltap_tables tables;

	if (core_memory_read(found->memory, region->lo, &tables, sizeof(tables)) ||
	    memcmp(tables.magic, CALLTAP_TABLES_MAGIC, sizeof(tables.magic)) != 0 ||
	    tables.version != CALLTAP_TABLES_VERSION || tables.head_size < sizeof(tables) ||
	    tables.head_size > HEAD_MAX || tables.head_size % 8 || !tables.session)
		return;
	if (found->address && !is_newer(&tables, &found->tables))
		return;
	found->tables = tables;
	found->address = region->lo;
	found->has_times =
		tables.head_size >= sizeof(tables) + sizeof(found->times) &&
		!core_memory_read(found->memory, region->lo + sizeof(tables), &found->times, sizeof(found->times));
}

static int read_arena(void *arg, uint64_t at, void *to, size_t size)
{
	const struct arena_at *arena = arg;

	return core_memory_read(arena->memory, arena->base + at, to, size);
}

static bool is_sane(const struct calltap_arena *arena, const struct calltap_ring *ring)
{
	return arena->ring_count && arena->ring_count <= CALLTAP_ARENA_RINGS && ring->magic == CALLTAP_RING_MAGIC &&
	       ring->sub_size >= SUB_MIN && ring->sub_size <= SUB_MAX && !(ring->sub_size & (ring->sub_size - 1)) &&
	       ring->sub_count >= 2 && (uint64_t)ring->sub_size * ring->sub_count <= RING_MAX &&
	       arena->ring_stride == CALLTAP_PAGE + (uint64_t)ring->sub_size * ring->sub_count;
}

static void look_for_arena(struct found *found, const struct core_region *region)
{
	struct arena_at *at = &found->at[found->arena_count];
	struct calltap_arena arena;
	struct calltap_ring ring;

	if (found->arena_count == ARENAS_MAX || core_memory_read(found->memory, region->lo, &arena, sizeof(arena)) ||
	    arena.magic != CALLTAP_ARENA_MAGIC || arena.session != found->tables.session ||
	    core_memory_read(found->memory, region->lo + CALLTAP_PAGE, &ring, sizeof(ring)) || !is_sane(&arena, &ring))
		return;
	*at = (struct arena_at){found->memory, region->lo};
	found->arenas[found->arena_count++] = (struct history_arena){
		.process = arena.process,
		.ring_count = arena.ring_count,
		.ring_stride = arena.ring_stride,
		.sub_size = ring.sub_size,
		.sub_count = ring.sub_count,
		.read = read_arena,
		.arg = at,
	};
}

static int read_tables(struct found *found)
{
	const struct calltap_file_head *head;
	uint64_t used = found->tables.used;

	/* The size is bounded by the files', which is no more than there is memory for. */
	if (used < sizeof(*head) || used > TABLES_MAX || used > found->memory->file_bytes)
		return -EBADMSG;
	found->bytes = malloc(used);
	if (!found->bytes)
		return -ENOMEM;
	if (core_memory_read(found->memory, found->address + found->tables.head_size, found->bytes, used))
		return -EBADMSG;
	head = (const void *)found->bytes;
	return memcmp(head->magic, CALLTAP_FILE_MAGIC, sizeof(head->magic)) != 0 ||
			       head->version != CALLTAP_FILE_VERSION || head->head_size != sizeof(*head)
		       ? -EBADMSG
		       : 0;
}

static int look_through_memory(struct found *found)
{
	const struct core_memory *memory = found->memory;

	for (uint32_t i = 0; i < memory->count; i++)
		look_for_tables(found, &memory->regions[i]);
	if (!found->address)
		return -ENODATA;
	for (uint32_t i = 0; i < memory->count; i++)
		look_for_arena(found, &memory->regions[i]);
	return read_tables(found);
}

/* Ask the kernel about a thread of a living process: does it live, and what is its name now? */
static int name_living(void *arg, struct calltap_file_thread *row, bool holds_ring)
{
	const struct core_memory *memory = arg;
	char path[64], name[sizeof(row->name)];
	FILE *file;

	if (!memory->pid || !holds_ring)
		return 0;
	snprintf(path, sizeof(path), "/proc/%d/task/%" PRIu32 "/comm", (int)memory->pid, row->tid);
	file = fopen(path, "re");
	row->ended = !file;
	if (!file)
		return 0;
	if (fgets(name, sizeof(name), file)) {
		name[strcspn(name, "\n")] = 0;
		snprintf(row->name, sizeof(row->name), "%s", name);
	}
	fclose(file);
	return 0;
}

static int take_rings(const struct found *found, struct history *history)
{
	int ret = 0;

	for (uint32_t i = 0; i < found->arena_count && !ret; i++)
		for (uint32_t ring = 0; ring < found->arenas[i].ring_count && !ret;) {
			ret = history_copy(history, &found->arenas[i], &ring);
			if (!ret && history->copied >= history->budget)
				ret = history_write(history);
		}
	return ret ? ret : history_write(history);
}

static int write_end(const struct found *found, struct trace_writer *writer, const struct history *history,
		     const char *source, bool damaged)
{
	const struct calltap_file_clock *clock = last_clock(&found->tables);
	struct calltap_file_end end = {
		.records = history->records, .lost = history->lost, .ticks = history->last_ticks, .status = -1};
	int ret = trace_writer_info(writer, "recovered", "%s", source);

	if (!ret && history->overwritten + history->older)
		ret = trace_writer_info(writer, "overwritten", "%" PRIu64 " %s", history->overwritten + history->older,
					counted(history->overwritten + history->older, "sub-buffer", "sub-buffers"));
	if (!ret)
		ret = trace_writer_flush(writer);
	if (!ret && clock)
		ret = trace_writer_chunk(writer, CALLTAP_CHUNK_CLOCK, clock, sizeof(*clock));
	if (ret || damaged)
		return ret; /* without an end, readers say that something is missing */
	return trace_writer_chunk(writer, CALLTAP_CHUNK_END, &end, sizeof(end));
}

static int write_trace(const struct found *found, struct trace_writer *writer, const char *source,
		       struct core_result *result)
{
	const size_t head = sizeof(struct calltap_file_head);
	struct history history;
	uint64_t bad;
	int ret = history_create(&history, writer);

	if (ret)
		return ret;
	history.limit = found->memory->file_bytes;
	history.thread = name_living;
	history.arg = (void *)(uintptr_t)found->memory;
	ret = trace_memory_copy(writer, found->bytes + head, found->tables.used - head, &bad);
	if (!ret && found->has_times)
		ret = trace_memory_write_times(writer, &found->times);
	if (!ret)
		ret = take_rings(found, &history);
	if (!ret)
		ret = write_end(found, writer, &history, source, bad || history.absent);
	result->records = history.records;
	result->threads = history.threads;
	result->overwritten = history.overwritten;
	history_destroy(&history);
	return ret;
}

static int write_found(const struct found *found, int fd, const char *source, struct core_result *result)
{
	struct trace_writer *writer;
	int own = fcntl(fd, F_DUPFD_CLOEXEC, 0), ret, closed;

	if (own < 0)
		return -errno;
	ret = trace_writer_open(&writer, own, (const void *)found->bytes);
	if (ret)
		return ret;
	ret = write_trace(found, writer, source, result);
	result->file_bytes = trace_writer_bytes(writer);
	closed = trace_writer_close(writer);
	return ret ? ret : closed;
}

static int read_memory(const struct core_memory *memory, const char *source, int fd, struct core_result *result,
		       struct calltap_diag *diag)
{
	struct found *found = calloc(1, sizeof(*found));
	int ret = found ? 0 : -ENOMEM;

	if (!ret) {
		found->memory = memory;
		ret = look_through_memory(found);
	}
	if (ret == -ENODATA)
		calltap_diag_set(diag, ret,
				 "there is no flight recorder in %s: it has one when the process was recorded with "
				 "--mode overwrite, and with --buffer-dir in that folder alone, which --buffers reads",
				 source);
	else if (ret == -EBADMSG)
		calltap_diag_set(diag, ret, "the flight recorder's tables in %s are damaged or were cut off", source);
	else if (!ret)
		ret = write_found(found, fd, source, result);
	if (found)
		free(found->bytes);
	free(found);
	if (ret && ret != -ENODATA && ret != -EBADMSG)
		calltap_diag_set(diag, ret, "cannot write the trace of %s: %s", source, strerror(-ret));
	return ret;
}

int core_read_file(const char *path, int fd, struct core_result *result, struct calltap_diag *diag)
{
	struct core_memory memory;
	int ret = core_memory_file(&memory, path, diag);

	*result = (struct core_result){0};
	if (!ret)
		ret = read_memory(&memory, path, fd, result, diag);
	core_memory_close(&memory);
	return ret;
}

/*
 * The folder that the process' buffers are files of (record --buffer-dir), for free().  NULL: they are none.  The
 * tables are a file there, too, which the process has not mapped.
 */
static char *find_folder(pid_t pid)
{
	struct space space;
	char *folder = NULL;

	if (space_read(&space, proc_alive(pid)))
		return NULL;
	for (size_t i = 0; i < space.count && !folder; i++) {
		const struct map *map = &space.maps[i];
		const char *file = strrchr(map->path, '/');

		if (map->path[0] == '/' && map->bits & MAP_PUBLIC && !strncmp(file, "/arena-", 7))
			folder = strndup(map->path, (size_t)(file - map->path));
	}
	space_free(&space);
	return folder;
}

int core_read_process(pid_t pid, int fd, struct core_result *result, struct calltap_diag *diag)
{
	struct core_memory memory;
	char source[40], *folder;
	int ret = core_memory_process(&memory, pid, diag);

	*result = (struct core_result){0};
	snprintf(source, sizeof(source), "process %d", (int)pid);
	if (!ret)
		ret = read_memory(&memory, source, fd, result, diag);
	core_memory_close(&memory);
	if (ret != -ENODATA)
		return ret;
	folder = find_folder(pid);
	if (folder)
		ret = core_read_folder(folder, fd, result, diag);
	free(folder);
	return ret;
}

int core_read_folder(const char *path, int fd, struct core_result *result, struct calltap_diag *diag)
{
	struct core_memory memory;
	int ret = core_memory_folder(&memory, path, diag);

	*result = (struct core_result){0};
	if (!ret)
		ret = read_memory(&memory, path, fd, result, diag);
	core_memory_close(&memory);
	return ret;
}
