/*
 * The events of an instance that nobody has consumed: a ring that grows up to what buffer_total_size_kb says.
 *
 * Room is counted in the bytes that the kernel's ring buffer would take for the same events.  Context: host.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <host/now.h>

#include "raw.h"
#include "tree.h"

#define ROOM_MIN 1024u

unsigned store_type(const struct tree_event *event)
{
	return event->kind == TREE_CALL		? RAW_FUNCTION
	       : event->kind == TREE_ENTRY	? RAW_ENTRY
	       : event->kind == TREE_EXIT	? RAW_EXIT
	       : event->kind == TREE_DATA	? RAW_DATA
	       : event->kind == TREE_STACK	? RAW_STACK
	       : event->kind == TREE_USER_STACK ? RAW_USER_STACK
	       : event->kind == TREE_REPEATS	? RAW_REPEATS
						: RAW_PRINT;
}

size_t store_payload(const struct tree_event *event)
{
	switch ((enum tree_kind)event->kind) {
	case TREE_CALL:
		return STORE_COMMON + 16;
	case TREE_ENTRY:
		return STORE_COMMON + 12;
	case TREE_EXIT:
		return STORE_COMMON + 32;
	case TREE_MARK:
		return (STORE_COMMON + 8 + strlen(event->text) + sizeof("\n") + 3) & ~(size_t)3;
	case TREE_FRAME:
		return STORE_COMMON + 8;
	case TREE_DATA:
		return (STORE_COMMON + event->extra + 3) & ~(size_t)3;
	case TREE_STACK:
		return STORE_COMMON + 8 + event->extra * sizeof(uint64_t);
	case TREE_USER_STACK:
		return STORE_COMMON + 8 + STORE_USER_STACK * sizeof(uint64_t);
	case TREE_REPEATS:
		return STORE_COMMON + 24;
	case TREE_LOST:
		break;
	}
	return 0;
}

uint64_t store_last_ns(const struct tree_event *event)
{
	uint64_t ns;

	memcpy(&ns, event->text, sizeof(ns));
	return ns;
}

size_t store_text_size(const struct tree_event *event)
{
	switch ((enum tree_kind)event->kind) {
	case TREE_DATA:
		return event->extra;
	case TREE_REPEATS:
		return sizeof(uint64_t);
	case TREE_CALL:
	case TREE_ENTRY:
	case TREE_EXIT:
		return details_size(event);
	case TREE_STACK:
	case TREE_USER_STACK:
		return event->extra * sizeof(uint64_t);
	default:
		return event->text ? strlen(event->text) + 1 : 0;
	}
}

size_t store_size(const struct tree_event *event)
{
	size_t payload = store_payload(event);

	return payload ? 4 + payload + (payload > STORE_SMALL_MAX ? 4 : 0) : 0;
}

size_t store_room(const struct tree_event *event)
{
	return store_size(event) + (event->kind == TREE_CALL || event->kind == TREE_ENTRY || event->kind == TREE_EXIT
					    ? details_size(event)
					    : 0);
}

struct tree_event *store_at(const struct tree_store *store, uint64_t number)
{
	return store->ring && number >= store->first && number < store->end ? &store->ring[number & (store->room - 1)]
									    : NULL;
}

/* An event is consumed, or goes: its room is free, and its CPU's oldest one is another. */
static void leave(struct tree_store *store, struct tree_event *event)
{
	struct store_cpu *cpu = &store->cpus[event->cpu];

	store->bytes -= store_room(event);
	cpu->bytes -= store_room(event);
	cpu->entries -= event->kind != TREE_LOST;
	store->entries -= event->kind != TREE_LOST;
	event->taken = true;
	while (cpu->first && (event = store_at(store, cpu->first)) && event->taken)
		cpu->first = event->next_cpu;
}

/* Forget consumed events that are the oldest ones. */
static void shrink(struct tree_store *store)
{
	struct tree_event *event;

	while ((event = store_at(store, store->first)) && event->taken) {
		free(event->text);
		store->first++;
	}
}

void store_take(struct tree_store *store, uint64_t number)
{
	struct tree_event *event = store_at(store, number);

	if (!event || event->taken)
		return;
	store->cpus[event->cpu].read += event->kind != TREE_LOST;
	leave(store, event);
	shrink(store);
}

static void overwrite(struct tree_store *store, uint64_t size)
{
	while (store->first < store->end && store->bytes + size > store->bytes_max) {
		struct tree_event *event = store_at(store, store->first);
		struct store_cpu *cpu = &store->cpus[event->cpu];
		bool lost = event->kind == TREE_LOST;

		store->slots[event->slot].missed += lost ? event->extra : 1;
		cpu->missed += lost ? event->extra : 1;
		cpu->overrun += !lost;
		store->overrun += !lost;
		leave(store, event);
		shrink(store);
	}
}

static bool grow(struct tree_store *store)
{
	uint64_t room = store->room ? 2 * store->room : ROOM_MIN;
	struct tree_event *ring;

	if (store->ring && store->end - store->first < store->room)
		return true;
	ring = calloc(room, sizeof(*ring));
	if (!ring)
		return false;
	for (uint64_t i = store->first; i < store->end; i++)
		ring[i & (room - 1)] = *store_at(store, i);
	free(store->ring);
	store->ring = ring;
	store->room = room;
	return true;
}

/* Make room for what the store knows of a CPU. */
static bool has_cpu(struct tree_store *store, uint32_t cpu)
{
	size_t count = cpu + 1u;
	struct store_cpu *cpus;

	if (cpu < store->cpu_count)
		return true;
	cpus = reallocarray(store->cpus, count, sizeof(*cpus));
	if (!cpus)
		return false;
	memset(cpus + store->cpu_count, 0, (count - store->cpu_count) * sizeof(*cpus));
	store->cpus = cpus;
	store->cpu_count = count;
	return true;
}

void store_note_reader(struct tree_store *store, uint32_t cpu)
{
	if (cpu == READING_ALL)
		store->read_ns = now_ns();
	else if (has_cpu(store, cpu))
		store->cpus[cpu].read_ns = now_ns();
}

uint64_t store_awaited(const struct tree_store *store, uint64_t since_ns)
{
	uint64_t bytes = 0;

	if (store->read_ns > since_ns)
		return store->bytes;
	for (uint32_t i = 0; i < store->cpu_count; i++)
		if (store->cpus[i].read_ns > since_ns)
			bytes += store->cpus[i].bytes;
	return bytes;
}

/* Make room for what the store knows of slots. */
static bool has_slot(struct tree_store *store, uint32_t slot)
{
	struct store_slot *slots = tree_grown(store->slots, &store->slot_count, slot, sizeof(*slots));

	if (slots)
		store->slots = slots;
	return slots != NULL;
}

/* Make the newest event the last one of its slot and of its CPU. */
static void chain(struct tree_store *store, const struct tree_event *event, uint64_t number)
{
	struct tree_event *before = store_at(store, store->slots[event->slot].last);
	struct store_cpu *cpu = &store->cpus[event->cpu];

	if (before)
		before->next = number;
	store->slots[event->slot].last = number;
	before = store_at(store, cpu->last);
	if (before)
		before->next_cpu = number;
	if (!cpu->first)
		cpu->first = number;
	cpu->last = number;
}

void store_add(struct tree_store *store, struct tree_event *event)
{
	uint64_t size = store_room(event);

	if (!store->end)
		store->first = store->end = 1;
	store->written++;
	if (!store->keeps_oldest)
		overwrite(store, size);
	if (!has_slot(store, event->slot) || !has_cpu(store, event->cpu) || store->bytes + size > store->bytes_max ||
	    !grow(store) || !store->ring) {
		store->dropped++;
		if (event->cpu < store->cpu_count)
			store->cpus[event->cpu].dropped++;
		free(event->text);
		return;
	}
	event->next = event->next_cpu = 0;
	event->taken = false;
	store->ring[store->end & (store->room - 1)] = *event;
	store->end++;
	chain(store, event, store->end - 1);
	store->bytes += size;
	store->cpus[event->cpu].bytes += size;
	store->cpus[event->cpu].entries += event->kind != TREE_LOST;
	store->entries += event->kind != TREE_LOST;
	if (event->kind == TREE_LOST)
		store->cpus[event->cpu].dropped += event->extra;
}

void store_tell(struct tree_store *store, struct tree_event *event, char *text)
{
	uint64_t before = store_room(event);

	free(event->text);
	event->text = text;
	store->bytes += store_room(event) - before;
	store->cpus[event->cpu].bytes += store_room(event) - before;
}

void store_limit(struct tree_store *store, uint64_t bytes_max)
{
	store->bytes_max = bytes_max;
	overwrite(store, 0);
}

void store_clear_cpu(struct tree_store *store, uint32_t cpu)
{
	struct store_cpu *of = store->cpus && cpu < store->cpu_count ? &store->cpus[cpu] : NULL;
	struct tree_event *event;

	while (of && (event = store_at(store, of->first))) {
		leave(store, event);
		shrink(store);
	}
	if (of)
		of->overrun = of->dropped = of->read = of->missed = 0;
}

void store_clear(struct tree_store *store)
{
	for (uint32_t cpu = 0; cpu < store->cpu_count; cpu++)
		store_clear_cpu(store, cpu);
	store->written = store->overrun = store->dropped = 0;
	for (size_t i = 0; i < store->slot_count; i++)
		store->slots[i].missed = 0;
}

void store_destroy(struct tree_store *store)
{
	store_clear(store);
	free(store->ring);
	free(store->slots);
	free(store->cpus);
	*store = (struct tree_store){0};
}

void store_swap(struct tree_store *one, struct tree_store *other)
{
	struct tree_store held = *one;

	*one = *other;
	*other = held;
	other->bytes_max = one->bytes_max = held.bytes_max;
	other->keeps_oldest = one->keeps_oldest = held.keeps_oldest;
}

static char *copy_text(const struct tree_event *event)
{
	size_t size = store_text_size(event);
	char *copy = malloc(size);

	return copy ? memcpy(copy, event->text, size) : NULL;
}

int store_copy(struct tree_store *out, const struct tree_store *from)
{
	*out = *from;
	out->slots = NULL; /* no events are added */
	out->slot_count = 0;
	out->cpus = from->cpu_count ? malloc(from->cpu_count * sizeof(*out->cpus)) : NULL;
	out->ring = from->room ? malloc(from->room * sizeof(*out->ring)) : NULL;
	if ((from->room && !out->ring) || (from->cpu_count && !out->cpus)) {
		free(out->ring);
		free(out->cpus);
		*out = (struct tree_store){0};
		return -ENOMEM;
	}
	if (from->cpu_count)
		memcpy(out->cpus, from->cpus, from->cpu_count * sizeof(*out->cpus));
	for (uint64_t i = out->first; i < out->end; i++) {
		struct tree_event *event = store_at(out, i);

		*event = *store_at(from, i);
		if (!event->text)
			continue;
		event->text = event->taken ? NULL : copy_text(event);
		if (!event->taken && !event->text) {
			out->end = i;
			store_destroy(out);
			return -ENOMEM;
		}
	}
	return 0;
}
