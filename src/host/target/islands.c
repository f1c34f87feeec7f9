/*
 * Which heads have the islands that others lead to (doc/design/stock.md, "Islands").
 *
 * Caller: images.c, when it decides which functions are in an image.  Context: host, under the session's lock.
 */
#include <errno.h>
#include <stdlib.h>

#include "images.h"

/* What is chosen from: the object's sites, sorted by address. */
struct choice {
	const struct image *image;
	const struct object_site *sites;
	size_t count;
	const bool *wanted;
	struct stock_islands islands;
};

bool islands_need(const struct object *object, const struct object_site *site)
{
	return site->kind == SITE_STOCK && site->verdict == SITE_OK &&
	       site->length == stock_islands_of(object_machine(object)).jump;
}

/* The place of an island in the site's head. */
static uint64_t island_in(const struct choice *choice, size_t site)
{
	return choice->sites[site].address + choice->islands.jump;
}

static bool reaches(const struct choice *choice, size_t from, uint64_t island)
{
	uint64_t distance = island - choice->sites[from].address;

	return distance + choice->islands.reach < 2 * choice->islands.reach;
}

/* *need: what the block takes of the longer head. */
static bool can_be_host(const struct choice *choice, size_t at, struct stock_need *need)
{
	const struct object_site *site = &choice->sites[at];
	struct stock_block block = {.head = site->address, .length = site->host_span};

	if (site->kind != SITE_STOCK || site->verdict != SITE_OK || !site->host_span || choice->image->taken[at] ||
	    stock_measure(object_stock(choice->image->object), &block, 1))
		return false;
	*need = block.need;
	return block.need.size;
}

/*
 * The host for a site: the last one that its jump reaches, so that those behind it reach it, too.  One that is wanted
 * itself, if there is any: another one is led for the island's sake alone.  False: there is none.
 */
static bool find_host(const struct choice *choice, size_t from, size_t *host, struct stock_need *need)
{
	size_t lo = from, hi = from + 1;

	while (lo && reaches(choice, from, island_in(choice, lo - 1)))
		lo--;
	while (hi < choice->count && reaches(choice, from, island_in(choice, hi)))
		hi++;
	for (unsigned others = 0; others < 2; others++)
		for (size_t at = hi; at-- > lo;)
			if ((others || choice->wanted[at]) && can_be_host(choice, at, need)) {
				*host = at;
				return true;
			}
	return false;
}

static void choose(struct image_island *islands, const struct choice *choice)
{
	uint64_t island = 0;

	for (size_t i = 0; i < choice->count; i++) {
		size_t host;

		if (!choice->wanted[i] || !islands_need(choice->image->object, &choice->sites[i]))
			continue;
		if (!island || !reaches(choice, i, island)) {
			struct stock_need need;

			if (!find_host(choice, i, &host, &need))
				continue;
			island = island_in(choice, host);
			islands[host] = (struct image_island){island, need};
		}
		islands[i].at = island;
	}
}

int islands_choose(struct image_island **out, const struct image *image, const bool *wanted)
{
	struct choice choice = {
		.image = image,
		.wanted = wanted,
		.islands = stock_islands_of(object_machine(image->object)),
	};

	choice.count = object_sites(image->object, &choice.sites);
	*out = calloc(choice.count + 1, sizeof(**out));
	if (!*out)
		return -ENOMEM;
	choose(*out, &choice);
	return 0;
}
