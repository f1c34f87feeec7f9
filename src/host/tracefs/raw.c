/*
 * trace_pipe_raw: a CPU's events as the kernel's ring buffer holds them (raw.h).
 *
 * A page is made when it is read, from the oldest events that nobody has consumed, and consumes them.  splice() takes
 * whole pages alone, as with the kernel; a read takes also what does not fill one.  Context: host.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "raw.h"
#include "tree.h"

#define DELTA_BITS   27
#define TYPE_EXTEND  30u
#define MISSED	     (1ull << 31)
#define MISSED_KNOWN (1ull << 30) /* their number stands behind the data */

/* A page in the making. */
struct page {
	unsigned char *bytes; /* NULL: it is only looked whether there is one */
	size_t used;	      /* of the data */
	uint64_t began_ns, last_ns;
	bool missed_any;
	uint64_t missed; /* events before it, 0 = their number is not known */
	bool full;	 /* the next event is not for this page */
};

static void put16(unsigned char *at, uint16_t value)
{
	memcpy(at, &value, sizeof(value));
}

static void put32(unsigned char *at, uint32_t value)
{
	memcpy(at, &value, sizeof(value));
}

static void put64(unsigned char *at, uint64_t value)
{
	memcpy(at, &value, sizeof(value));
}

/* How many calls, and how long before the event the last of them was: the upper half of that in front. */
static void put_repeats(unsigned char *at, const struct tree_event *event)
{
	uint64_t since = event->ns - store_last_ns(event);

	put32(at, event->depth | (uint32_t)(since >> 32) << 16);
	put32(at + 4, (uint32_t)since);
}

static void put_payload(unsigned char *at, struct tree_instance *instance, const struct tree_event *event)
{
	uint64_t took = event->extra == UINT64_MAX ? 0 : event->extra; /* its entry is not known */

	put16(at, (uint16_t)store_type(event));
	put32(at + 4, instance->tree->slots[event->slot].tid);
	at += STORE_COMMON;
	if (event->kind == TREE_MARK) {
		put64(at, RAW_MARK_ADDRESS);
		memcpy(at + 8, event->text, strlen(event->text));
		at[8 + strlen(event->text)] = '\n';
		return;
	}
	if (event->kind == TREE_STACK || event->kind == TREE_USER_STACK) {
		put32(at, event->kind == TREE_STACK ? (uint32_t)event->extra : instance->tree->slots[event->slot].pid);
		memcpy(at + 8, event->text, event->extra * sizeof(uint64_t));
		return;
	}
	if (event->kind == TREE_DATA) {
		memcpy(at, event->text, event->extra);
		return;
	}
	put64(at, lines_address(instance, event));
	if (event->kind == TREE_CALL || event->kind == TREE_REPEATS) {
		put64(at + 8, event->extra);
		if (event->kind == TREE_REPEATS)
			put_repeats(at + 16, event);
		return;
	}
	put32(at + 8, event->depth);
	if (event->kind == TREE_EXIT) {
		put64(at + 16, event->ns - took);
		put64(at + 24, event->ns);
	}
}

/* Put an event behind the others; false: it is not for this page. */
static bool put_event(struct page *page, struct tree_instance *instance, const struct tree_event *event)
{
	size_t payload = store_payload(event), size = store_size(event), extend;
	uint64_t delta = page->used ? event->ns - page->last_ns : 0;
	unsigned char *at = page->bytes ? page->bytes + RAW_HEAD + page->used : NULL;

	extend = delta >> DELTA_BITS ? 8 : 0;
	if (page->used + extend + size > instance->page_bytes - RAW_HEAD)
		return false;
	if (!page->used)
		page->began_ns = event->ns;
	page->last_ns = event->ns;
	page->used += extend + size;
	if (!at)
		return true;
	if (extend) {
		put32(at, TYPE_EXTEND | (uint32_t)(delta & ((1u << DELTA_BITS) - 1)) << 5);
		put32(at + 4, (uint32_t)(delta >> DELTA_BITS));
		at += 8;
		delta = 0;
	}
	put32(at, (uint32_t)(payload > STORE_SMALL_MAX ? 0 : payload / 4) | (uint32_t)delta << 5);
	if (payload > STORE_SMALL_MAX) {
		put32(at + 4, (uint32_t)payload + 4);
		at += 4;
	}
	put_payload(at + 4, instance, event);
	return true;
}

/* Fill a page with the CPU's oldest events, up to the first one that is not for it; returns that one's number, or 0. */
static uint64_t fill(struct page *page, const struct tree_open *open)
{
	struct tree_store *store = &open->instance->store;
	const struct store_cpu *cpu = open->which < store->cpu_count ? &store->cpus[open->which] : NULL;
	uint64_t number = cpu ? cpu->first : 0;
	const struct tree_event *event;

	if (cpu && cpu->missed) {
		page->missed_any = true;
		page->missed = cpu->missed;
	}
	for (; (event = store_at(store, number)); number = event->next_cpu) {
		if (event->taken)
			continue;
		if (event->kind == TREE_LOST && page->used) {
			page->full = true;
			return number;
		}
		if (event->kind == TREE_LOST) {
			page->missed =
				event->extra && (page->missed || !page->missed_any) ? page->missed + event->extra : 0;
			page->missed_any = true;
		} else if (!put_event(page, open->instance, event)) {
			page->full = true;
			return number;
		}
	}
	return 0;
}

static void put_head(struct page *page, size_t bytes)
{
	uint64_t commit = page->used;

	if (page->missed_any)
		commit |= MISSED;
	if (page->missed_any && page->missed && page->used + 8 <= bytes - RAW_HEAD) {
		commit |= MISSED_KNOWN;
		put64(page->bytes + RAW_HEAD + page->used, page->missed);
	}
	put64(page->bytes, page->began_ns);
	put64(page->bytes + 8, commit);
}

int raw_begin(struct tree_open *open)
{
	open->instance->pipes++;
	return 0;
}

void raw_end(struct tree_open *open)
{
	open->instance->pipes--;
}

bool raw_is_ready(struct tree_open *open, bool whole)
{
	struct page page = {0};

	if (open->text.used || open->instance->source.ended)
		return true;
	if (whole && !buffer_is_filled(open->instance))
		return false;
	fill(&page, open);
	return page.full || (page.used && !whole);
}

void raw_fill(struct tree_open *open, bool whole)
{
	struct tree_store *store = &open->instance->store;
	const size_t bytes = open->instance->page_bytes;
	struct page page = {0};
	uint64_t end, number;

	if (open->text.used)
		return;
	tree_text_fill(&open->text, 0, bytes);
	if (open->text.failed)
		return; /* its reader is told */
	page.bytes = (unsigned char *)open->text.bytes;
	open->text.used = 0;
	buffer_limit_again(open->instance);
	end = fill(&page, open);
	if (!page.used || (whole && !page.full && !open->instance->source.ended))
		return;
	put_head(&page, bytes);
	open->text.used = bytes;
	store->cpus[open->which].missed = 0;
	while ((number = store->cpus[open->which].first) && number != end)
		store_take(store, number);
}
