/*
 * What the registers and live stacks of stopped threads hold (attach.h).
 *
 * Stacks are read many at a time, one system call for some megabytes.  The
 * ranges are looked up in a map of pages first, which most words are not in,
 * then by halves.  Context: host.
 */
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>

#include "impl.h"

#define RED_ZONE  128u
#define STACK_MAX (1u << 20)
#define BATCH_MAX 512u /* stacks at a time */
#define PAGE_BITS 20u  /* of the map of pages */

struct piece {
	size_t thread;
	uint64_t lo, hi;
	const unsigned char *bytes;
	size_t got;
};

struct scan {
	struct attach_stop *stop;
	const struct attach_range *ranges;
	size_t count;
	int (*visit)(void *context, const struct attach_hit *hit);
	void *context;
	uint64_t *pages;      /* bit per page number, modulo their count */
	uint64_t restorer;    /* an address that signal frames return to, 0 = none seen yet */
	uint64_t no_restorer; /* and one that none does */
	struct piece *pieces;
	size_t piece_count;
};

bool scan_live(const struct space *space, uint64_t sp, size_t limit, struct attach_range *live)
{
	const struct map *map = space_find(space, sp);

	/* A thread may have used its last byte: sp is the mapping's end then. */
	if (!map && sp)
		map = space_find(space, sp - 1);
	if (!map || !(map->bits & MAP_READ))
		return false;
	live->lo = sp - map->lo < RED_ZONE ? map->lo : sp - RED_ZONE;
	live->lo &= ~(uint64_t)7;
	live->hi = map->hi - live->lo > limit ? live->lo + limit : map->hi;
	return live->lo < live->hi;
}

static void set_page(struct scan *scan, uint64_t page)
{
	page &= (1u << PAGE_BITS) - 1;
	scan->pages[page / 64] |= 1ull << page % 64;
}

static void fill_pages(struct scan *scan)
{
	for (size_t i = 0; i < scan->count; i++) {
		uint64_t first = scan->ranges[i].lo / PAGE, last = (scan->ranges[i].hi - 1) / PAGE;

		if (scan->ranges[i].hi <= scan->ranges[i].lo)
			continue;
		if (last - first >= 1u << PAGE_BITS)
			last = first + (1u << PAGE_BITS) - 1;
		for (uint64_t page = first; page <= last; page++)
			set_page(scan, page);
	}
}

/* The range that the value lies in; SIZE_MAX = none. */
static size_t find_range(const struct scan *scan, uint64_t value)
{
	uint64_t page = value / PAGE & ((1u << PAGE_BITS) - 1);
	size_t lo = 0, hi = scan->count;

	if (!(scan->pages[page / 64] >> page % 64 & 1))
		return SIZE_MAX;
	while (lo < hi) {
		size_t middle = (lo + hi) / 2;

		if (scan->ranges[middle].hi <= value)
			lo = middle + 1;
		else
			hi = middle;
	}
	return lo < scan->count && scan->ranges[lo].lo <= value ? lo : SIZE_MAX;
}

/* Whether the word at this address is the pc of a signal frame: the frame's return address is a restorer's. */
static bool is_saved_pc(struct scan *scan, const struct piece *piece, uint64_t address)
{
	uint64_t frame = native_frame_of_saved_pc(address), returns;
	unsigned char bytes[NATIVE_RESTORER_MAX];

	if (frame < piece->lo || frame + 8 > piece->lo + piece->got)
		return false;
	memcpy(&returns, piece->bytes + (frame - piece->lo), sizeof(returns));
	if (!returns || returns == scan->no_restorer)
		return false;
	if (returns == scan->restorer)
		return true;
	if (memory_read(scan->stop->alive, returns, bytes, sizeof(bytes)) || !native_is_restorer(bytes)) {
		scan->no_restorer = returns;
		return false;
	}
	scan->restorer = returns;
	return true;
}

static int tell(struct scan *scan, size_t thread, uint64_t value, const struct piece *piece, uint64_t address,
		bool is_pc)
{
	struct attach_hit hit = {.thread = &scan->stop->threads[thread], .value = value, .address = address};

	hit.range = find_range(scan, value);
	if (hit.range == SIZE_MAX)
		return 0;
	hit.is_pc = is_pc;
	hit.is_saved_pc = piece && is_saved_pc(scan, piece, address);
	return scan->visit(scan->context, &hit);
}

static int scan_registers(struct scan *scan, size_t thread)
{
	const struct attach_thread *it = &scan->stop->threads[thread];
	int ret = tell(scan, thread, it->pc, NULL, 0, true);

	for (size_t i = 0; !ret && !it->asleep && i < ATTACH_REGISTERS; i++)
		ret = tell(scan, thread, it->registers[i], NULL, 0, false);
	return ret;
}

static int scan_piece(struct scan *scan, const struct piece *piece)
{
	int ret = 0;

	for (size_t at = 0; !ret && at + 8 <= piece->got; at += 8) {
		uint64_t value;

		memcpy(&value, piece->bytes + at, sizeof(value));
		if (value >= PAGE)
			ret = tell(scan, piece->thread, value, piece, piece->lo + at, false);
	}
	return ret;
}

/* One that could not be read with the others, or only in part: what of it can be. */
static void read_by_pages(struct scan *scan, struct piece *piece, unsigned char *bytes)
{
	uint64_t at = piece->lo;

	while (at < piece->hi) {
		uint64_t end = (at | (PAGE - 1)) + 1;

		if (end > piece->hi)
			end = piece->hi;
		if (memory_read(scan->stop->alive, at, bytes + (at - piece->lo), end - at))
			memset(bytes + (at - piece->lo), 0, end - at);
		at = end;
	}
}

static int scan_batch(struct scan *scan, struct piece *pieces, size_t count)
{
	struct iovec to[BATCH_MAX], from[BATCH_MAX];
	size_t used = 0;
	ssize_t got;
	int ret = 0;

	for (size_t i = 0; i < count; i++) {
		size_t size = pieces[i].hi - pieces[i].lo;

		to[i] = (struct iovec){scan->stop->to_scan.bytes + used, size};
		from[i] = (struct iovec){(void *)(uintptr_t)pieces[i].lo, size};
		pieces[i].bytes = scan->stop->to_scan.bytes + used;
		pieces[i].got = size;
		used += size;
	}
	got = process_vm_readv(scan->stop->alive, to, count, from, count, 0);
	if (got < 0 && errno != EFAULT)
		return -errno;
	if (got != (ssize_t)used)
		for (size_t i = 0; i < count; i++)
			read_by_pages(scan, &pieces[i], to[i].iov_base);
	for (size_t i = 0; !ret && i < count; i++)
		ret = scan_piece(scan, &pieces[i]);
	return ret;
}

static int scan_pieces(struct scan *scan)
{
	size_t first = 0, size = 0;
	int ret = 0;

	for (size_t i = 0; !ret && i < scan->piece_count; i++) {
		size_t more = scan->pieces[i].hi - scan->pieces[i].lo;

		if (i > first && (i - first == BATCH_MAX || size + more > SCAN_BATCH)) {
			ret = scan_batch(scan, scan->pieces + first, i - first);
			first = i;
			size = 0;
		}
		size += more;
	}
	if (!ret && first < scan->piece_count)
		ret = scan_batch(scan, scan->pieces + first, scan->piece_count - first);
	return ret;
}

static void add_piece(struct scan *scan, size_t thread, uint64_t lo, uint64_t hi)
{
	scan->pieces[scan->piece_count++] = (struct piece){.thread = thread, .lo = lo, .hi = hi};
}

/*
 * The stack that the thread was made with, when it runs on another: the
 * initial thread's by its name, another's lies below its thread block.
 */
static void add_own_stack(struct scan *scan, size_t thread, const struct attach_range *live)
{
	const struct attach_thread *it = &scan->stop->threads[thread];
	const struct space *space = &scan->stop->space;
	uint64_t end = it->thread_pointer;
	const struct map *map = NULL;

	if (it->tid == scan->stop->pid) {
		for (size_t i = 0; i < space->count; i++)
			if (!strcmp(space->maps[i].path, "[stack]"))
				map = &space->maps[i];
		end = map ? map->hi : 0;
	} else if (end) {
		map = space_find(space, end);
	}
	if (!map || !(map->bits & MAP_READ) || (live->lo >= map->lo && live->lo < end))
		return;
	add_piece(scan, thread, end - map->lo > STACK_MAX ? (end - STACK_MAX) & ~(uint64_t)7 : map->lo,
		  end & ~(uint64_t)7);
}

static int scan_all(struct scan *scan)
{
	int ret = 0;

	fill_pages(scan);
	for (size_t i = 0; !ret && i < scan->stop->thread_count; i++) {
		struct attach_range live = {0, 0};

		ret = scan_registers(scan, i);
		if (scan_live(&scan->stop->space, scan->stop->threads[i].sp, STACK_MAX, &live))
			add_piece(scan, i, live.lo, live.hi);
		scan->stop->threads[i].deep = live.hi - live.lo >= STACK_MAX;
		add_own_stack(scan, i, &live);
	}
	return ret ? ret : scan_pieces(scan);
}

int attach_scan(struct attach_stop *stop, const struct attach_range *ranges, size_t count,
		int (*visit)(void *context, const struct attach_hit *hit), void *context)
{
	struct scan scan = {.stop = stop, .ranges = ranges, .count = count, .visit = visit, .context = context};
	int ret = -ENOMEM;

	scan.pages = calloc(1, (1u << PAGE_BITS) / 8);
	scan.pieces = calloc(2 * stop->thread_count + 1, sizeof(*scan.pieces));
	if (scan.pages && scan.pieces)
		ret = scan_all(&scan);
	free(scan.pieces);
	free(scan.pages);
	return ret;
}
