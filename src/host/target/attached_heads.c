/*
 * Threads that stand where a head is to be written, or in a block that is to go: where they go on instead
 * (doc/design/stock.md, "Who may be where").
 *
 * A head's instructions and their moved forms in its block do the same, so a thread may be moved from one to the other
 * between two of them.  Called by the server thread while the threads are stopped.  Context: host.
 */
#include <string.h>
#include <unistd.h>

#include "attached.h"

/* A function's head in the process, and its block. */
struct place {
	const struct target_map *map;
	const struct object_site *source;
	const struct stock_block *block;
	struct stock_region region;
};

static void set_place(struct place *place, const struct target_map *map, uint32_t index)
{
	const struct image *image = map->image;

	*place = (struct place){
		.map = map,
		.source = image->sources[image->block_first + index],
		.block = &image->blocks[index],
		.region = {object_stock(image->object), map->blocks, map->base},
	};
}

/* True if the map's object has heads in the process. */
static bool has_heads(const struct target_map *map)
{
	return map->mapped && !map->stubs && map->blocks && map->region && map->image->object;
}

/* The last block whose head lies at the ELF address or before it, or whose offset does; UINT32_MAX: none. */
static uint32_t last_block(const struct image *image, uint64_t value, bool by_offset)
{
	uint32_t lo = 0, hi = image_block_sites(image);

	while (lo < hi) {
		uint32_t middle = (lo + hi) / 2;
		const struct stock_block *block = &image->blocks[middle];

		if ((by_offset ? block->offset : block->head) <= value)
			lo = middle + 1;
		else
			hi = middle;
	}
	return lo - 1;
}

/* The head that is to be led, and that the address lies in, or ends at. */
static bool find_waiting_head(struct place *place, const struct target *target, uint64_t address)
{
	for (uint32_t i = 0; i < target->map_count; i++) {
		const struct target_map *map = &target->maps[i];
		uint64_t at = address - map->base;
		uint32_t index;

		if (!has_heads(map) || !map->waits)
			continue;
		/* At a head's end another one may begin: a thread there is in front of that. */
		index = last_block(map->image, at - 1, false);
		if (index == UINT32_MAX || at > map->image->blocks[index].head + map->image->blocks[index].length)
			continue;
		set_place(place, map, index);
		return true;
	}
	return false;
}

static bool find_block(struct place *place, const struct target *target, uint64_t address)
{
	for (uint32_t i = 0; i < target->map_count; i++) {
		const struct target_map *map = &target->maps[i];
		uint32_t index;

		if (!has_heads(map) || address < map->blocks || address - map->blocks >= map->image->layout.code_size)
			continue;
		index = last_block(map->image, address - map->blocks, true);
		if (index == UINT32_MAX)
			continue;
		set_place(place, map, index);
		return address - map->blocks - place->block->offset < place->block->size;
	}
	return false;
}

static uint64_t head_of(const struct place *place)
{
	return place->map->base + place->block->head;
}

/* True if the head has its own bytes in the process: only then do the block's instructions stand for them. */
static bool has_own_bytes(const struct place *place, int mem)
{
	uint8_t bytes[sizeof(place->source->old)];
	size_t size = place->block->length;

	return size <= sizeof(bytes) && pread(mem, bytes, size, (off_t)head_of(place)) == (ssize_t)size &&
	       !memcmp(bytes, place->source->old, size);
}

bool attached_is_in_jump(const struct target *target, const struct attach_context *context, uint64_t *head)
{
	uint64_t back = context->thread && !context->address ? context->thread->back : 0;
	const uint64_t places[] = {context->pc, context->pc - back};
	struct place place;

	for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
		if (!find_waiting_head(&place, target, places[i]) ||
		    places[i] - head_of(&place) >= place.source->length)
			continue;
		*head = head_of(&place);
		return true;
	}
	return false;
}

/*
 * A system call that is made again is made by the instruction in front of the pc: true if that instruction, and not
 * another one, stands in front of both places.
 */
static bool is_same_call(const struct place *place, unsigned back, unsigned in_block, unsigned in_head)
{
	unsigned call;

	return !back ||
	       (in_block > back && in_head >= back &&
		stock_out_of_block(&place->region, place->block, in_block - back, &call) && call == in_head - back);
}

bool attached_into_block(const struct target *target, int mem, const struct attach_thread *thread, uint64_t *pc)
{
	unsigned offset, to, back = thread->back, from;
	struct place place;

	if (thread->asleep || !find_waiting_head(&place, target, thread->pc) || !has_own_bytes(&place, mem))
		return false;
	offset = (unsigned)(thread->pc - head_of(&place));
	if (offset == place.block->length) {
		/* Behind the head's last instruction, which is a system call: behind its moved form. */
		if (offset <= back || !back || !stock_into_block(&place.region, place.block, offset - back, &to))
			return false;
		to += back;
	} else if (!stock_into_block(&place.region, place.block, offset, &to)) {
		return false;
	}
	if (!stock_out_of_block(&place.region, place.block, to, &from) || from != offset ||
	    !is_same_call(&place, back, to, offset))
		return false;
	*pc = place.region.at + place.block->offset + to;
	return true;
}

bool attached_out_of_block(const struct target *target, int mem, const struct attach_thread *thread, uint64_t *pc)
{
	struct place place;
	unsigned offset, to;

	if (thread->asleep || !find_block(&place, target, thread->pc) || !has_own_bytes(&place, mem))
		return false;
	offset = (unsigned)(thread->pc - place.region.at - place.block->offset);
	if (!stock_out_of_block(&place.region, place.block, offset, &to) ||
	    !is_same_call(&place, thread->back, offset, to))
		return false;
	*pc = head_of(&place) + to;
	return true;
}
