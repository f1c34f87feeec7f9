/*
 * Words in the registers and live stacks of stopped threads, and where else their registers are saved (attach.h).
 *
 * A thread's stacks are found from its stack pointer, and from the stack pointers that the kernel has saved in signals'
 * frames on them.  Stacks are read many at a time, one system call for some megabytes.  The ranges are looked up in a
 * map of pages first, which most words are not in, then by halves.  Context: host.
 */
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>

#include "impl.h"

#define RED_ZONE    128u
#define STACK_MAX   (1u << 20)	/* of a stack whose mapping may hold other things, too; */
#define DEEP_MAX    (16u << 20) /* for a stack that has left a doubt in an earlier stop */
#define WHOLE_MAX   (1u << 30)	/* of a stack that has a mapping of its own */
#define CHUNK	    (1u << 20)	/* read at once */
#define ABOVE_BLOCK (64u << 10) /* a thread's block lies so near to its stack's mapping's end */
#define BATCH_MAX   512u	/* pieces read at a time */
#define PIECES_MAX  (1u << 16)
#define AREAS_SIZE  (16u << 20) /* of memory that no thread's stack leads to, around frames that were found there */
#define LIKELY_SIZE (2u << 20)	/* and of such memory where none was found: it takes 0.7 ms */
#define PAGE_BITS   20u		/* of the map of pages */
#define NOBODY	    SIZE_MAX

/* A part of a stack: [lo, hi), which may be read together with some words around it. */
struct piece {
	size_t thread; /* index; NOBODY: look only for saved registers */
	uint64_t lo, hi;
	uint64_t stack_lo, stack_hi; /* the live part of the piece's stack */
	uint64_t read_lo, read_hi;
	const uint64_t *words; /* from read_lo on */
	size_t next;	       /* index of the thread's next piece; SIZE_MAX = none */
};

struct scan {
	struct attach_stop *stop;
	const struct attach_range *ranges;
	size_t count;
	int (*visit)(void *context, const struct attach_hit *hit);
	void *context;
	uint64_t *pages; /* map of pages: bit per page number, modulo their count */
	struct piece *pieces;
	size_t piece_count, piece_room;
	size_t *first;	    /* index of each thread's first piece; SIZE_MAX = none */
	struct ranges owns; /* mappings that are one thread's stack each; filled when areas are looked at */
};

bool scan_live(const struct space *space, uint64_t sp, size_t limit, struct attach_range *live)
{
	const struct map *map = space_find(space, sp);

	/* A thread may have used all of its stack: sp is the mapping's end then. */
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

size_t attach_range_find(const struct attach_range *ranges, size_t count, uint64_t address)
{
	size_t lo = 0, hi = count;

	while (lo < hi) {
		size_t middle = (lo + hi) / 2;

		if (ranges[middle].hi <= address)
			lo = middle + 1;
		else
			hi = middle;
	}
	return lo < count && ranges[lo].lo <= address ? lo : SIZE_MAX;
}

/* The range that the value lies in; SIZE_MAX = none. */
static size_t find_range(const struct scan *scan, uint64_t value)
{
	uint64_t page = value / PAGE & ((1u << PAGE_BITS) - 1);

	if (!(scan->pages[page / 64] >> page % 64 & 1))
		return SIZE_MAX;
	return attach_range_find(scan->ranges, scan->count, value);
}

static int tell_hit(struct scan *scan, size_t thread, uint64_t value, uint64_t address)
{
	struct attach_hit hit = {.thread = &scan->stop->threads[thread], .value = value, .address = address};

	hit.range = find_range(scan, value);
	return hit.range == SIZE_MAX ? 0 : scan->visit(scan->context, &hit);
}

static int add_context(struct attach_stop *stop, const struct attach_context *context)
{
	if (stop->context_count == stop->context_room) {
		size_t room = stop->context_room ? 2 * stop->context_room : stop->thread_count + 64;
		struct attach_context *more = reallocarray(stop->contexts, room, sizeof(*more));

		if (!more)
			return -ENOMEM;
		stop->contexts = more;
		stop->context_room = room;
	}
	stop->contexts[stop->context_count++] = *context;
	return 0;
}

static int add_piece(struct scan *scan, const struct piece *piece)
{
	if (scan->piece_count == PIECES_MAX)
		return 0;
	if (scan->piece_count == scan->piece_room) {
		size_t room = 2 * scan->piece_room;
		struct piece *more = reallocarray(scan->pieces, room, sizeof(*more));

		if (!more)
			return -ENOMEM;
		scan->pieces = more;
		scan->piece_room = room;
	}
	scan->pieces[scan->piece_count] = *piece;
	if (piece->thread != NOBODY) {
		scan->pieces[scan->piece_count].next = scan->first[piece->thread];
		scan->first[piece->thread] = scan->piece_count;
	}
	scan->piece_count++;
	return 0;
}

/* Add the live part of a stack, in chunks.  Each chunk is read with the words beside it that a frame may reach into. */
static int add_stack(struct scan *scan, size_t thread, uint64_t lo, uint64_t hi)
{
	struct piece piece = {.thread = thread, .stack_lo = lo, .stack_hi = hi};
	int ret = 0;

	for (uint64_t at = lo; at < hi && !ret; at = piece.hi) {
		piece.lo = at;
		piece.hi = hi - at > CHUNK ? at + CHUNK : hi;
		piece.read_lo = at - lo < NATIVE_SAVED_BEFORE * 8 ? lo : at - NATIVE_SAVED_BEFORE * 8;
		piece.read_hi = hi - piece.hi < NATIVE_SAVED_AFTER * 8 ? hi : piece.hi + NATIVE_SAVED_AFTER * 8;
		ret = add_piece(scan, &piece);
	}
	return ret;
}

static bool is_covered(const struct scan *scan, size_t thread, uint64_t address)
{
	for (size_t i = scan->first[thread]; i != SIZE_MAX; i = scan->pieces[i].next)
		if (address >= scan->pieces[i].stack_lo && address <= scan->pieces[i].stack_hi)
			return true;
	return false;
}

/* The stack that the thread was made with: the initial thread's by its name, another's lies below its thread block. */
static const struct map *own_stack(const struct attach_stop *stop, const struct attach_thread *thread, uint64_t *end)
{
	const struct space *space = &stop->space;
	const struct map *map = NULL;

	if (thread->tid == stop->pid) {
		for (size_t i = 0; i < space->count; i++)
			if (!strcmp(space->maps[i].path, "[stack]"))
				map = &space->maps[i];
		*end = map ? map->hi : 0;
	} else if (thread->thread_pointer) {
		map = space_find(space, thread->thread_pointer);
		*end = thread->thread_pointer;
	}
	return map && map->bits & MAP_READ ? map : NULL;
}

/* True if the mapping holds little else than that stack. */
static bool is_alone(const struct map *map, uint64_t end)
{
	return map->hi - end < ABOVE_BLOCK;
}

/* Add the stack on which the thread is, or will be again, with this stack pointer. */
static int add_live(struct scan *scan, size_t thread, uint64_t sp)
{
	struct attach_thread *it = &scan->stop->threads[thread];
	uint64_t end = 0;
	const struct map *own = own_stack(scan->stop, it, &end);
	bool whole = own && sp >= own->lo && sp <= own->hi && is_alone(own, end);
	size_t limit = whole ? WHOLE_MAX : scan->stop->looks_deeper ? DEEP_MAX : STACK_MAX;
	struct attach_range live;

	if (is_covered(scan, thread, sp) || !scan_live(&scan->stop->space, sp, limit, &live))
		return 0;
	it->deep |= live.hi - live.lo >= limit;
	return add_stack(scan, thread, live.lo, live.hi);
}

static int scan_registers(struct scan *scan, size_t thread)
{
	const struct attach_thread *it = &scan->stop->threads[thread];
	const struct attach_context own = {.thread = it, .pc = it->pc, .sp = it->sp};
	int ret = add_context(scan->stop, &own);

	if (!ret)
		ret = tell_hit(scan, thread, it->pc, 0);
	for (size_t i = 0; !ret && !it->asleep && i < ATTACH_REGISTERS; i++)
		ret = tell_hit(scan, thread, it->registers[i], 0);
	return ret;
}

/* True if all marks are there that the kernel writes into a signal frame: a frame that is over has mostly lost some. */
static bool is_whole(const struct scan *scan, const uint64_t *words)
{
	uint64_t first = native_saved_mark(words), second;
	unsigned char bytes[NATIVE_MARK_BYTES];
	uint32_t word;

	if (!first)
		return true;
	if (memory_read(scan->stop->alive, first, bytes, sizeof(bytes)))
		return false;
	second = native_second_mark(first, bytes);
	return second && !memory_read(scan->stop->alive, second, &word, sizeof(word)) && native_is_second_mark(word);
}

/* A signal has interrupted these registers: their stack is live above their stack pointer. */
static int meet_saved(struct scan *scan, size_t thread, const uint64_t *words, uint64_t address)
{
	struct attach_context saved = {.pc = words[0], .sp = native_saved_sp(words), .address = address};
	int ret;

	if (!space_find(&scan->stop->space, saved.pc) || !is_whole(scan, words))
		return 0;
	saved.thread = &scan->stop->threads[thread];
	ret = add_context(scan->stop, &saved);
	return ret ? ret : add_live(scan, thread, saved.sp);
}

static int compare_ranges(const void *a, const void *b)
{
	const struct attach_range *left = a, *right = b;

	return left->lo < right->lo ? -1 : left->lo > right->lo;
}

static int find_owns(struct scan *scan)
{
	scan->owns.list = calloc(scan->stop->thread_count + 1, sizeof(*scan->owns.list));
	if (!scan->owns.list)
		return -ENOMEM;
	for (size_t i = 0; i < scan->stop->thread_count; i++) {
		uint64_t end = 0;
		const struct map *own = own_stack(scan->stop, &scan->stop->threads[i], &end);

		if (own && is_alone(own, end))
			scan->owns.list[scan->owns.count++] = (struct attach_range){own->lo, own->hi};
	}
	qsort(scan->owns.list, scan->owns.count, sizeof(*scan->owns.list), compare_ranges);
	return 0;
}

/* True if the address lies in a thread's stack, alive or dead. */
static bool is_own(const struct scan *scan, uint64_t address)
{
	return attach_range_find(scan->owns.list, scan->owns.count, address) != SIZE_MAX;
}

static bool is_live(const struct scan *scan, uint64_t address)
{
	for (size_t i = 0; i < scan->stop->thread_count; i++)
		if (is_covered(scan, i, address))
			return true;
	return false;
}

/* A signal frame in memory that no thread's stack leads to.  On an alternate stack that is not in use it is over. */
static int meet_elsewhere(struct scan *scan, const uint64_t *words, uint64_t address)
{
	const struct attach_context saved = {.pc = words[0], .sp = native_saved_sp(words), .address = address};

	if (native_saved_on_other_stack(words, address) || !space_find(&scan->stop->space, saved.pc) ||
	    is_own(scan, address) || is_live(scan, address) || !is_whole(scan, words))
		return 0;
	return add_context(scan->stop, &saved);
}

static int scan_words(struct scan *scan, const struct piece *piece)
{
	const uint64_t *words = piece->words + (piece->lo - piece->read_lo) / 8;
	size_t count = (piece->hi - piece->lo) / 8;
	int ret = 0;

	for (size_t i = 0; !ret && i < count; i++)
		if (words[i] >= PAGE)
			ret = tell_hit(scan, piece->thread, words[i], piece->lo + i * 8);
	return ret;
}

static int scan_saved(struct scan *scan, const struct piece *piece)
{
	size_t first = (piece->lo - piece->read_lo) / 8, all = (piece->read_hi - piece->read_lo) / 8;
	size_t end = (piece->hi - piece->read_lo) / 8;
	int ret = 0;

	if (first < NATIVE_SAVED_BEFORE)
		first = NATIVE_SAVED_BEFORE;
	if (all < first + NATIVE_SAVED_AFTER)
		return 0;
	if (end > all - NATIVE_SAVED_AFTER)
		end = all - NATIVE_SAVED_AFTER;
	for (size_t i = first; !ret && (i = native_find_saved(piece->words, i, end)) < end; i++) {
		uint64_t address = piece->read_lo + i * 8;

		if (piece->thread == NOBODY)
			ret = meet_elsewhere(scan, piece->words + i, address);
		else
			ret = meet_saved(scan, piece->thread, piece->words + i, address);
	}
	return ret;
}

static int scan_piece(struct scan *scan, size_t number)
{
	const struct piece piece = scan->pieces[number]; /* the list may move */
	int ret = piece.thread == NOBODY ? 0 : scan_words(scan, &piece);

	return ret ? ret : scan_saved(scan, &piece);
}

/* Read a piece that could not be read with the others page by page; pages that are not there become zeros. */
static void read_by_pages(struct scan *scan, const struct piece *piece, unsigned char *bytes)
{
	uint64_t at = piece->read_lo;

	while (at < piece->read_hi) {
		uint64_t end = (at | (PAGE - 1)) + 1;

		if (end > piece->read_hi)
			end = piece->read_hi;
		if (memory_read(scan->stop->alive, at, bytes + (at - piece->read_lo), end - at))
			memset(bytes + (at - piece->read_lo), 0, end - at);
		at = end;
	}
}

static int scan_batch(struct scan *scan, size_t first, size_t count)
{
	struct iovec to[BATCH_MAX], from[BATCH_MAX];
	size_t used = 0;
	ssize_t got;
	int ret = 0;

	for (size_t i = 0; i < count; i++) {
		struct piece *piece = &scan->pieces[first + i];
		size_t size = piece->read_hi - piece->read_lo;

		to[i] = (struct iovec){scan->stop->to_scan.bytes + used, size};
		from[i] = (struct iovec){(void *)(uintptr_t)piece->read_lo, size};
		piece->words = to[i].iov_base;
		used += size;
	}
	got = process_vm_readv(scan->stop->alive, to, count, from, count, 0);
	if (got < 0 && errno != EFAULT)
		return -errno;
	if (got != (ssize_t)used)
		for (size_t i = 0; i < count; i++)
			read_by_pages(scan, &scan->pieces[first + i], to[i].iov_base);
	for (size_t i = 0; !ret && i < count; i++)
		ret = scan_piece(scan, first + i);
	return ret;
}

/* Scan the pieces from *next on, and those that join the list meanwhile. */
static int scan_pieces(struct scan *scan, size_t *next)
{
	int ret = 0;

	while (!ret && *next < scan->piece_count) {
		size_t first = *next, size = 0;

		while (*next < scan->piece_count && *next - first < BATCH_MAX) {
			size_t more = scan->pieces[*next].read_hi - scan->pieces[*next].read_lo;

			if (*next > first && size + more > SCAN_BATCH)
				break;
			size += more;
			++*next;
		}
		ret = scan_batch(scan, first, *next - first);
	}
	return ret;
}

/* A thread that runs on a stack of the program's making has left its own one: nobody knows how much of that is live. */
static int add_left_stack(struct scan *scan, size_t thread)
{
	uint64_t end = 0;
	const struct map *map = own_stack(scan->stop, &scan->stop->threads[thread], &end);

	for (size_t i = scan->first[thread]; map && i != SIZE_MAX; i = scan->pieces[i].next)
		if (scan->pieces[i].lo >= map->lo && scan->pieces[i].lo < end)
			return 0;
	if (!map)
		return 0;
	return add_stack(scan, thread, end - map->lo > STACK_MAX ? (end - STACK_MAX) & ~(uint64_t)7 : map->lo,
			 end & ~(uint64_t)7);
}

/* Add ranges, but those in threads' stacks. *room: how much more may be looked at. */
static int add_ranges(struct scan *scan, const struct ranges *ranges, uint64_t *room)
{
	int ret = 0;

	for (size_t i = 0; !ret && i < ranges->count && *room; i++) {
		const struct attach_range *area = &ranges->list[i];

		if (is_own(scan, area->lo) && is_own(scan, area->hi - 1))
			continue;
		ret = add_stack(scan, NOBODY, area->lo, area->hi);
		*room -= area->hi - area->lo < *room ? area->hi - area->lo : *room;
	}
	return ret;
}

/*
 * Add memory that no thread led to when it was read ahead.  A thread's stack may be among it, for the thread may be
 * newer.
 */
static int add_areas(struct scan *scan)
{
	const struct attach_ahead *ahead = scan->stop->ahead;
	struct ranges found = {0};
	uint64_t room = AREAS_SIZE, likely_room = LIKELY_SIZE;
	int ret;

	if (!ahead)
		return 0;
	ret = find_owns(scan);
	if (!ret)
		ret = add_ranges(scan, &ahead->areas, &room);
	if (!ret)
		ret = elsewhere_find_new(ahead, scan->stop, &scan->owns, &found);
	if (!ret)
		ret = add_ranges(scan, &found, &likely_room);
	if (!ret)
		ret = add_ranges(scan, &ahead->likely, &likely_room);
	free(found.list);
	return ret;
}

static int scan_all(struct scan *scan)
{
	size_t next = 0;
	int ret = 0;

	fill_pages(scan);
	for (size_t i = 0; !ret && i < scan->stop->thread_count; i++) {
		scan->stop->threads[i].deep = false;
		ret = scan_registers(scan, i);
		if (!ret)
			ret = add_live(scan, i, scan->stop->threads[i].sp);
	}
	if (!ret)
		ret = scan_pieces(scan, &next);
	for (size_t i = 0; !ret && i < scan->stop->thread_count; i++)
		ret = add_left_stack(scan, i);
	if (!ret)
		ret = scan_pieces(scan, &next);
	if (ret || scan->stop->looked_elsewhere)
		return ret;
	ret = add_areas(scan);
	if (!ret)
		ret = scan_pieces(scan, &next);
	scan->stop->looked_elsewhere = !ret;
	return ret;
}

/*
 * Only contexts that were found elsewhere stay from one scan of a stop to the next: finding them takes longest, and
 * they do not change.
 */
static void keep_contexts(struct attach_stop *stop)
{
	size_t kept = 0;

	for (size_t i = 0; stop->looked_elsewhere && i < stop->context_count; i++)
		if (!stop->contexts[i].thread)
			stop->contexts[kept++] = stop->contexts[i];
	stop->context_count = kept;
}

void attach_look_deeper(struct attach_stop *stop)
{
	stop->looks_deeper = true;
}

int attach_scan(struct attach_stop *stop, const struct attach_range *ranges, size_t count,
		int (*visit)(void *context, const struct attach_hit *hit), void *context)
{
	struct scan scan = {.stop = stop, .ranges = ranges, .count = count, .visit = visit, .context = context};
	int ret = -ENOMEM;

	keep_contexts(stop);
	scan.piece_room = 2 * stop->thread_count + 64;
	scan.pages = calloc(1, (1u << PAGE_BITS) / 8);
	scan.pieces = calloc(scan.piece_room, sizeof(*scan.pieces));
	scan.first = malloc((stop->thread_count + 1) * sizeof(*scan.first));
	for (size_t i = 0; scan.first && i < stop->thread_count; i++)
		scan.first[i] = SIZE_MAX;
	if (scan.pages && scan.pieces && scan.first)
		ret = scan_all(&scan);
	free(scan.owns.list);
	free(scan.first);
	free(scan.pieces);
	free(scan.pages);
	return ret;
}

const struct attach_context *attach_contexts(const struct attach_stop *stop, size_t *count)
{
	*count = stop->context_count;
	return stop->contexts;
}
