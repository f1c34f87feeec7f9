/*
 * Readers of an object that was opened (object.h).
 *
 * Callers: everybody who has one, the other files of this room as well.  Context: host.
 */
#include <stdlib.h>
#include <string.h>

#include <host/stock/choice.h>

#include "object_impl.h"

#define PAGE 4096ull

const uint8_t *object_code_at(const struct object *object, uint64_t address, size_t *size)
{
	size_t lo = 0, hi = object->code_count;

	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;
		const struct object_code *code = &object->codes[mid];

		if (address < code->address) {
			hi = mid;
		} else if (address - code->address >= code->size) {
			lo = mid + 1;
		} else {
			*size = code->size - (address - code->address);
			return code->bytes + (address - code->address);
		}
	}
	*size = 0;
	return NULL;
}

const char *object_path(const struct object *object)
{
	return object->path;
}

const struct aliases *object_aliases(const struct object *object)
{
	return &object->aliases;
}

void object_be_called(struct object *object, const char *name)
{
	free(object->aliases.called);
	object->aliases.called = strdup(name);
}

enum object_names object_names_from(const struct object *object)
{
	return (enum object_names)object->names;
}

uint16_t object_machine(const struct object *object)
{
	return object->cpu->machine;
}

bool object_is_static(const struct object *object)
{
	return !object->interpreter && (object->type == ET_EXEC || object->pie);
}

bool object_is_executable(const struct object *object)
{
	return object->type == ET_EXEC || object->interpreter || object->pie;
}

bool object_is_program(const struct object *object)
{
	return object_is_executable(object) && !object->named;
}

bool object_is_own(const struct object *object)
{
	return object->own || object_is_program(object) || stock_is_own_library(object->path);
}

void object_be_own(struct object *object)
{
	object->own = true;
}

const char *object_interpreter(const struct object *object)
{
	return object->interpreter;
}

size_t object_build_id(const struct object *object, uint8_t id[32])
{
	memcpy(id, object->build_id, object->build_id_size);
	return object->build_id_size;
}

void object_extent(const struct object *object, uint64_t *lo, uint64_t *hi)
{
	*lo = object->lo;
	*hi = object->hi;
}

uint64_t object_reach(const struct object *object)
{
	return object->cpu->reach;
}

void object_near(const struct object *object, uint64_t *lo, uint64_t *hi)
{
	*lo = *hi = object->lo;
	for (size_t i = object->site_count; i-- && *hi == *lo;) {
		if (object->sites[i].verdict == SITE_OK)
			*hi = (object->sites[i].address + object->sites[i].span + PAGE - 1) & ~(PAGE - 1);
	}
}

uint64_t object_dynamic(const struct object *object)
{
	return object->dynamic;
}

void object_refuse_site(struct object *object, size_t place, enum site_verdict verdict)
{
	object->sites[place].verdict = (uint8_t)verdict;
}

size_t object_sites(const struct object *object, const struct object_site **sites)
{
	*sites = object->sites;
	return object->site_count;
}

size_t object_traceable(const struct object *object)
{
	return object->traceable;
}
