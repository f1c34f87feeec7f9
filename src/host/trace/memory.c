/* Tables in shared memory (memory.h).  Context: host. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "check.h"
#include "memory.h"
#include "writer.h"

#define SIZE_FIRST     (256u << 10)
#define SIZE_MAX_BYTES ((size_t)1 << 30)

/* Get shared memory of that size; a file gets all its blocks, so that no write can fail later. */
static int get_memory(const struct trace_memory *memory, size_t size, int *fd, void **mapped)
{
	int error;

	*mapped = MAP_FAILED;
	*fd = memory->is_file ? memory->fd : memfd_create("calltap-tables", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (*fd < 0)
		return -errno;
	if (memory->is_file)
		error = -posix_fallocate(*fd, 0, (off_t)size);
	else
		error = ftruncate(*fd, (off_t)size) ||
					fcntl(*fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)
				? -errno
				: 0;
	if (!error) {
		*mapped = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, *fd, 0);
		error = *mapped == MAP_FAILED ? -errno : 0;
	}
	if (error && !memory->is_file)
		close(*fd);
	return error;
}

int trace_memory_create(struct trace_memory *memory, uint64_t session, int fd, bool has_times)
{
	void *mapped = NULL;
	int ret;

	*memory = (struct trace_memory){.fd = fd, .is_file = fd >= 0};
	ret = get_memory(memory, SIZE_FIRST, &memory->fd, &mapped);
	if (ret) {
		memory->fd = -1;
		return ret;
	}
	memory->tables = mapped;
	memory->size = SIZE_FIRST;
	memory->generation = 1;
	*memory->tables = (struct calltap_tables){
		.version = CALLTAP_TABLES_VERSION,
		.head_size = sizeof(*memory->tables) + (has_times ? sizeof(struct calltap_tables_times) : 0),
		.session = session,
	};
	memcpy(memory->tables->magic, CALLTAP_TABLES_MAGIC, sizeof(memory->tables->magic));
	return 0;
}

void trace_memory_destroy(struct trace_memory *memory)
{
	if (!memory->tables)
		return;
	munmap(memory->tables, memory->size);
	close(memory->fd);
	memory->tables = NULL;
	memory->fd = -1;
}

/* Double the size until it suffices.  A memfd is sealed, so the tables move to a new one. */
static int grow_memory(struct trace_memory *memory, uint64_t need)
{
	size_t size = memory->size;
	void *mapped = NULL;
	int fd, ret;

	if (need > SIZE_MAX_BYTES)
		return -ENOSPC;
	while (size < need)
		size *= 2;
	ret = get_memory(memory, size, &fd, &mapped);
	if (ret)
		return ret;
	if (!memory->is_file)
		memcpy(mapped, memory->tables, memory->size);
	munmap(memory->tables, memory->size);
	if (!memory->is_file)
		close(memory->fd);
	memory->fd = fd;
	memory->tables = mapped;
	memory->size = size;
	memory->generation++;
	return 0;
}

void trace_memory_add(struct trace_memory *memory, const struct iovec *pieces, int count)
{
	uint64_t at, need;
	char *to;

	if (memory->full)
		return;
	at = need = memory->tables->head_size + memory->tables->used;
	for (int i = 0; i < count; i++)
		need += pieces[i].iov_len;
	if (need > memory->size && grow_memory(memory, need)) {
		memory->full = true;
		return;
	}
	to = (char *)memory->tables + at;
	for (int i = 0; i < count; i++) {
		if (pieces[i].iov_len)
			memcpy(to, pieces[i].iov_base, pieces[i].iov_len);
		to += pieces[i].iov_len;
	}
	/* Release: a reader of the tables, also of a core file, finds whole chunks below `used`. */
	__atomic_store_n(&memory->tables->used, need - memory->tables->head_size, __ATOMIC_RELEASE);
}

const void *trace_memory_bytes(const struct calltap_tables *tables)
{
	return (const char *)tables + tables->head_size;
}

struct calltap_tables_times *trace_memory_times(const struct trace_memory *memory)
{
	struct calltap_tables *tables = memory->tables;

	return tables && tables->head_size > sizeof(*tables) ? (struct calltap_tables_times *)(tables + 1) : NULL;
}

void trace_memory_tell(const struct trace_memory *memory, uint64_t span, const struct calltap_file_late *rows,
		       size_t count, uint64_t until)
{
	struct calltap_tables_times *times = trace_memory_times(memory);

	if (!times)
		return;
	times->span = span;
	for (size_t i = 0; i < count; i++) {
		times->late[times->count % CALLTAP_TABLES_LATE] = rows[i];
		__atomic_store_n(&times->count, times->count + 1, __ATOMIC_RELEASE);
	}
	__atomic_store_n(&times->until, until, __ATOMIC_RELEASE);
}

/*
 * The rows that are told, oldest first: the newest ones, as far back as they are in order.  *begin: nothing is known
 * before that.
 */
static uint32_t read_late(const struct calltap_tables_times *times, struct calltap_file_late *rows, uint64_t *begin)
{
	uint64_t first = times->count < CALLTAP_TABLES_LATE ? 0 : times->count - (CALLTAP_TABLES_LATE - 1);
	uint64_t next = times->until;
	uint32_t at = CALLTAP_TABLES_LATE, count;

	*begin = 0;
	for (uint64_t n = times->count; n > first; n--) {
		const struct calltap_file_late *row = &times->late[(n - 1) % CALLTAP_TABLES_LATE];

		if (row->from >= next || row->from > row->to)
			break;
		rows[--at] = *row;
		next = row->from;
	}
	count = CALLTAP_TABLES_LATE - at;
	memmove(rows, rows + at, count * sizeof(*rows));
	if (count < times->count)
		*begin = next;
	return count;
}

int trace_memory_write_times(struct trace_writer *writer, const struct calltap_tables_times *times)
{
	struct {
		struct calltap_file_ticks head;
		struct calltap_file_late rows[CALLTAP_TABLES_LATE + 2];
	} chunk = {.head = {.span = times->span}};
	uint64_t begin;
	uint32_t count = read_late(times, chunk.rows, &begin);

	if (begin)
		chunk.rows[count++] = (struct calltap_file_late){0, begin};
	chunk.rows[count++] = (struct calltap_file_late){times->until, UINT64_MAX};
	chunk.head.count = count;
	return trace_writer_chunk(writer, CALLTAP_CHUNK_TICKS, &chunk,
				  sizeof(chunk.head) + count * sizeof(*chunk.rows));
}

void trace_memory_clock(struct trace_memory *memory, const struct calltap_file_clock *clock)
{
	struct calltap_tables *tables = memory->tables;
	uint64_t count = tables->clock_count + 1;

	tables->clocks[count % 2] = *clock;
	__atomic_store_n(&tables->clock_count, count, __ATOMIC_RELEASE);
}

/* The size of the good chunk at bytes, 0 if there is none. */
static size_t chunk_size(const unsigned char *bytes, size_t size)
{
	struct calltap_chunk chunk;
	uint64_t check;
	size_t padded;

	if (size < sizeof(chunk))
		return 0;
	memcpy(&chunk, bytes, sizeof(chunk));
	if (chunk.magic != CALLTAP_CHUNK_MAGIC || chunk.stored > size - sizeof(chunk) ||
	    chunk.type == CALLTAP_CHUNK_DATA || chunk.type == CALLTAP_CHUNK_END)
		return 0;
	padded = sizeof(chunk) + ((chunk.stored + 7) & ~UINT64_C(7));
	check = chunk.check;
	chunk.check = 0;
	if (padded > size || check != (uint32_t)check_bytes(check_bytes(CHECK_START, &chunk, sizeof(chunk)),
							    bytes + sizeof(chunk), chunk.stored))
		return 0;
	return padded;
}

int trace_memory_copy(struct trace_writer *writer, const void *bytes, size_t size, uint64_t *bad)
{
	const unsigned char *at = bytes, *end = at + size;
	bool was_good = true;

	*bad = 0;
	while (at < end) {
		size_t chunk = chunk_size(at, (size_t)(end - at));
		int ret = chunk ? trace_writer_raw(writer, at, chunk) : 0;

		if (ret)
			return ret;
		*bad += !chunk && was_good;
		was_good = chunk != 0;
		at += chunk ? chunk : (size_t)(end - at) < 8 ? (size_t)(end - at) : 8;
	}
	return 0;
}
