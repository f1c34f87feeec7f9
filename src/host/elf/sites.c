/*
 * The list of an object's sites: the finder of each kind of instrumentation fills it, then this file adds names and
 * verdicts.  Only an object that has sites is searched for functions that must be left alone (tails.c).
 *
 * Caller: object_open.  Context: host.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "object_impl.h"

#define STUBS_ROOM (32ull << 20) /* part of a jump's reach: for stubs and what lies between them and the object */

int object_add_site(struct object *object, const struct object_site *site)
{
	if (object->site_count == object->site_capacity) {
		size_t capacity = object->site_capacity ? object->site_capacity * 2 : 64;
		struct object_site *sites = reallocarray(object->sites, capacity, sizeof(*sites));

		if (!sites)
			return -ENOMEM;
		object->sites = sites;
		object->site_capacity = capacity;
	}
	object->sites[object->site_count++] = *site;
	return 0;
}

/* By address; of two sites at one address the traceable one comes first, then the one from a table. */
static int compare(const void *a, const void *b)
{
	const struct object_site *left = a, *right = b;

	if (left->address != right->address)
		return left->address < right->address ? -1 : 1;
	if ((left->verdict == SITE_OK) != (right->verdict == SITE_OK))
		return left->verdict == SITE_OK ? -1 : 1;
	return (int)left->kind - (int)right->kind;
}

static void sort_and_unite(struct object *object)
{
	struct object_site *sites = object->sites;
	size_t kept = 0;

	if (!object->site_count)
		return;
	object_sort(sites, object->site_count, sizeof(*sites), compare);
	for (size_t i = 1; i < object->site_count; i++) {
		if (sites[i].address != sites[kept].address)
			sites[++kept] = sites[i];
	}
	object->site_count = kept + 1;
}

static void copy_code(const struct object *object, uint64_t address, uint8_t *out, size_t room)
{
	size_t size = 0;
	const uint8_t *code = object_code_at(object, address, &size);

	if (code)
		memcpy(out, code, size < room ? size : room);
}

bool object_is_near(const struct object *object, uint64_t address)
{
	return address - object->lo < object->cpu->reach - STUBS_ROOM;
}

static void complete(struct object *object, struct object_site *site)
{
	const struct object_symbol *symbol = object_symbol_around(object, site->address);
	uint64_t start = object_last_start(object, site->address + site->code_off);

	site->function = site->address;
	site->symbol = "";
	copy_code(object, site->address, site->old, sizeof(site->old));
	if (site->tramp_off)
		copy_code(object, site->address + (uint64_t)(int64_t)site->tramp_off, site->tramp_old,
			  sizeof(site->tramp_old));
	if (site->verdict == SITE_OK && !object_is_near(object, site->address))
		site->verdict = SITE_TOO_FAR;
	if (site->verdict == SITE_OK &&
	    (address_list_has(&object->finders.targets, start) || address_list_has(&object->entered, start)))
		site->verdict = SITE_LOOKS_AT_CALLER;
	if (!symbol)
		return;
	site->function = symbol->address;
	site->size = symbol->size;
	site->symbol = symbol->symbol;
	site->named = (uint32_t)(symbol - object->symbols) + 1;
	if (symbol->verdict != SITE_OK)
		site->verdict = symbol->verdict;
}

static int make_names(struct object *object)
{
	object->site_names = calloc(object->site_count + 1, sizeof(*object->site_names));
	object->site_short_names = calloc(object->site_count + 1, sizeof(*object->site_short_names));
	return object->site_names && object->site_short_names ? 0 : -ENOMEM;
}

int object_find_sites(struct object *object)
{
	int error = object_find_patchable(object);

	if (!error)
		error = object_find_fentry(object);
	sort_and_unite(object);
	if (!error && object->site_count)
		error = object_find_tails(object);
	if (error)
		return error;
	for (size_t i = 0; i < object->site_count; i++) {
		complete(object, &object->sites[i]);
		object->traceable += object->sites[i].verdict == SITE_OK;
	}
	return make_names(object);
}

int object_renew_sites(struct object *object, size_t before, int error)
{
	int ret;

	if (object->site_count == before)
		return error;
	object_sort(object->sites, object->site_count, sizeof(*object->sites), compare);
	for (size_t i = 0; i < before; i++) {
		free(object->site_names[i]);
		free(object->site_short_names[i]);
	}
	free(object->site_names);
	free(object->site_short_names);
	object->traceable = 0;
	for (size_t i = 0; i < object->site_count; i++)
		object->traceable += object->sites[i].verdict == SITE_OK;
	ret = make_names(object);
	return error ? error : ret;
}
