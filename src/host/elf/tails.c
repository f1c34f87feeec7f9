/*
 * Functions that end in a jump to a "finder": a function that does more with its return address than return to it.  In
 * a traced function that jumps there, that address is a stub's.
 *
 * dlsym, dlopen and their kin find out by it which object called them, and the tracer is no object that the loader
 * knows.  Code that changes to another stack may keep it apart from its stack, where nobody finds it when the stubs go.
 * So finders must not be traced, nor functions that jump to one.
 *
 * Only objects that import, define or hold a finder are read.  The bytes are not decoded in order: bytes that merely
 * look like such a jump cost one function that is not traced.  Caller: object_find_sites.  Context: host.
 */
#include <stdlib.h>

#include "object_impl.h"

#define SHORT_JUMP  2	/* bytes; compilers keep a function's cold part farther off */
#define SWITCH_SIZE 512 /* bytes, at the most, of a function that changes stacks */

static bool switches_stacks(const struct object *object, uint64_t target, size_t rest)
{
	uint64_t next = object_next_start(object, target);
	const uint8_t *code = object_code_at(object, target, &rest);
	size_t size = next - target < rest ? next - target : rest;

	return object->cpu->switches(code, size < SWITCH_SIZE ? size : SWITCH_SIZE);
}

/* True if the jump at address, in the function [lo, hi), ends up in a finder. size: bytes of code from there. */
static bool jumps_out(const struct object *object, uint64_t address, const uint8_t *code, size_t size, uint64_t lo,
		      uint64_t hi)
{
	uint64_t target, start;
	size_t rest, length = object->cpu->jump_slot(code, size, address, &target);

	if (length)
		return address_list_has(&object->finders.slots, target);
	length = object->cpu->jump(code, size, address, &target);
	if (!length || (target >= lo && target < hi) || !object_code_at(object, target, &rest))
		return false;
	if (object_reaches(object, target, &object->finders) ||
	    (object->has_switches && switches_stacks(object, target, rest)))
		return true;
	start = object_last_start(object, target);
	/* The target is inside a function: a jump from a part of the function that is kept elsewhere. */
	return length > SHORT_JUMP && start && address_list_has(&object->finders.targets, start);
}

static bool function_jumps_out(const struct object *object, const uint8_t *code, uint64_t lo, uint64_t hi)
{
	for (uint64_t at = lo; at < hi; at += object->cpu->code_align) {
		if (object->cpu->may_jump(code[at - lo]) && jumps_out(object, at, code + (at - lo), hi - at, lo, hi))
			return true;
	}
	return false;
}

/* Add to *found the functions of a section, no PLT, that jump to a finder and are none yet. */
static int scan(const struct object *object, const struct object_code *section, struct address_list *found)
{
	uint64_t end = section->address + section->size, next;
	int error = 0;

	for (uint64_t at = section->address; at < end && !error; at = next) {
		next = object_next_start(object, at);
		if (next > end)
			next = end;
		if (object_starts_function(object, at) && !address_list_has(&object->finders.targets, at) &&
		    function_jumps_out(object, section->bytes + (at - section->address), at, next))
			error = address_list_add(found, at);
	}
	return error;
}

/* Look once over all code; *more: a finder was found, and jumps to it must be found next. */
static int pass(struct object *object, bool *more)
{
	struct address_list found = {0};
	int error = 0;

	for (size_t i = 0; i < object->code_count && !error; i++) {
		if (!object->codes[i].plt)
			error = scan(object, &object->codes[i], &found);
	}
	for (size_t i = 0; i < found.count && !error; i++)
		error = address_list_add(&object->finders.targets, found.items[i]);
	address_list_sort(&object->finders.targets);
	*more = found.count > 0;
	free(found.items);
	return error;
}

int object_find_tails(struct object *object)
{
	bool more;
	int error = 0;

	for (size_t i = 0; i < object->symbol_count && !error; i++) {
		if (site_name_keeps_return(object->symbols[i].symbol))
			error = address_list_add(&object->finders.targets, object->symbols[i].address);
	}
	for (size_t i = 0; i < object->code_count && object->cpu->may_switch; i++)
		object->has_switches |= object->cpu->may_switch(object->codes[i].bytes, object->codes[i].size);
	more = object->finders.targets.count || object->finders.slots.count || object->has_switches;
	while (more && !error)
		error = pass(object, &more);
	return error;
}
