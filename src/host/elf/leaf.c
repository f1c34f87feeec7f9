/*
 * The reader of ELF files tells here which functions are leaves, which have stubs of their own (doc/design/clock.md).
 *
 * The proof over the bytes is the CPU's (arch/<cpu>/isa).  Here is what it needs of the file: a function of a known
 * size begins with the site, all its bytes from the body on are code of one section, and no other site lies among them.
 * Caller: host/target/images.c.  Context: host.
 */
#include "object_impl.h"

/* True if nothing but a landing pad and no-ops lies between the function's first byte and the site. */
static bool begins_with_site(const struct object *object, const struct object_site *site)
{
	uint64_t at = site->function;

	while (at < site->address) {
		size_t rest, length = 0;
		const uint8_t *code = object_code_at(object, at, &rest);

		if (code)
			length = object->cpu->landing_pad(code, rest);
		if (code && !length)
			length = object->cpu->nop(code, rest);
		if (!length)
			return false;
		at += length;
	}
	return at == site->address;
}

bool object_site_is_leaf(const struct object *object, const struct object_site *site)
{
	uint64_t body = site->address + site->body_off, end = site->function + site->size;
	const struct object_site *next = site + 1, *last = object->sites + object->site_count;
	const uint8_t *code;
	size_t rest;

	if (!object->cpu->leaf || site_has_block(site) || site->verdict != SITE_OK || !site->named || !site->size)
		return false;
	if (body >= end || (next < last && next->address < end) || !begins_with_site(object, site))
		return false;
	code = object_code_at(object, body, &rest);
	return code && end - body <= rest && object->cpu->leaf(code, end - body);
}
