/*
 * Texts of calls' arguments and results (told.h).  Context: host.
 */
#include <stdlib.h>
#include <string.h>

#include "told.h"

static bool make_room(struct told_table *table)
{
	uint32_t room = table->room ? 2 * table->room : 64;
	struct told *list = reallocarray(table->list, room, sizeof(*list));
	uint32_t *places;

	if (!list)
		return false;
	table->list = list;
	places = reallocarray(table->free, room, sizeof(*places));
	if (!places)
		return false;
	table->free = places;
	table->room = room;
	return true;
}

/* The frame's place, made if need be; NULL = no memory. */
static struct told *place_of(struct told_table *table, struct call_frame *frame)
{
	uint32_t place = (uint32_t)(frame->user >> TOLD_AT);

	if (place)
		return &table->list[place - 1];
	if (table->free_count) {
		place = table->free[--table->free_count];
	} else {
		if (table->count == table->room && !make_room(table))
			return NULL;
		place = ++table->count;
	}
	frame->user |= (uint64_t)place << TOLD_AT;
	table->list[place - 1] = (struct told){0};
	return &table->list[place - 1];
}

bool told_keep(struct told_table *table, const struct walk *walk, uint32_t thread, const struct walk_message *message)
{
	uint32_t depth = callstack_depth(walk->stack, thread);
	struct call_frame *frame = depth ? callstack_frame(walk->stack, thread, depth - 1) : NULL;
	struct told *told;
	char **text;

	if (!frame || message->role == TRACE_ITSELF || frame->function != message->function)
		return false;
	told = place_of(table, frame);
	if (!told)
		return false;
	text = message->role == TRACE_RESULT ? &told->result : &told->arguments;
	free(*text);
	*text = strdup(message->text);
	return *text != NULL;
}

struct told told_take(struct told_table *table, const struct call_frame *frame)
{
	uint32_t place = (uint32_t)(frame->user >> TOLD_AT);
	struct told told = {0};

	if (!place)
		return told;
	told = table->list[place - 1];
	table->list[place - 1] = (struct told){0};
	table->free[table->free_count++] = place;
	return told;
}

void told_drop(struct told *told)
{
	free(told->arguments);
	free(told->result);
}

void told_clear(struct told_table *table)
{
	for (uint32_t i = 0; i < table->count; i++)
		told_drop(&table->list[i]);
	free(table->list);
	free(table->free);
}
