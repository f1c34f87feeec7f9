/*
 * Sites of -pg -mfentry: a call of __fentry__ as the function's first
 * instruction (after the landing pad), directly, through the PLT, or through a
 * pointer; with -mnop-mcount a no-op of the call's size.  -mrecord-mcount
 * lists the places; without it they are looked for at each function's start.
 *
 * Caller: object_find_sites.  Context: host.
 */
#include "object_impl.h"

/* The site at address, if there is one. */
static bool decode(const struct object *object, uint64_t address, struct object_site *site)
{
	const struct elf_cpu *cpu = object->cpu;
	size_t size, length;
	const uint8_t *code = object_code_at(object, address, &size);
	uint64_t target;

	if (!code)
		return false;
	*site = (struct object_site){.address = address, .kind = SITE_FENTRY, .length = cpu->jump_bytes};
	length = cpu->call(code, size, address, &target);
	if (length && object_reaches(object, target, &object->fentry)) {
		site->code_off = site->body_off = site->span = (uint8_t)length;
		return true;
	}
	length = cpu->call_slot(code, size, address, &target);
	if (length && address_list_has(&object->fentry.slots, target)) {
		site->code_off = site->body_off = site->span = (uint8_t)length;
		return true;
	}
	site->kind = SITE_NOP_MCOUNT;
	site->code_off = site->body_off = site->span = cpu->jump_bytes;
	return cpu->nop(code, size) == cpu->jump_bytes;
}

/*
 * gcc saves a nested function's static chain on the stack around the call of __fentry__.  Where the stack has moved the
 * return address is not where a stub expects it, and a stub must not replace the word that is there.
 */
static enum site_verdict verdict_of_place(const struct object *object, uint64_t address)
{
	uint64_t start = object_last_start(object, address);
	size_t size;
	const uint8_t *code = start ? object_code_at(object, start, &size) : NULL;

	if (!code)
		return SITE_NO_ENTRY;
	return start + object->cpu->landing_pad(code, size) == address ? SITE_OK : SITE_NOT_AT_ENTRY;
}

static int from_table(struct object *object)
{
	int error = 0;

	for (size_t i = 0; i < object->mcount_loc.count && !error; i++) {
		uint64_t address = object->mcount_loc.items[i];
		struct object_site site;

		if (!decode(object, address, &site)) {
			site = (struct object_site){
				.address = address,
				.kind = SITE_FENTRY,
				.verdict = SITE_BAD_BYTES,
			};
		} else {
			site.verdict = (uint8_t)verdict_of_place(object, address);
		}
		error = object_add_site(object, &site);
	}
	return error;
}

static size_t recognise(const struct object *object, size_t (*what)(const uint8_t *code, size_t size), uint64_t address)
{
	size_t size;
	const uint8_t *code = object_code_at(object, address, &size);

	return code ? what(code, size) : 0;
}

/*
 * The site of the function that begins at address, if it has one: right there,
 * or behind the push of a static chain, which comes before the landing pad.
 */
static bool find_at_start(const struct object *object, uint64_t address, struct object_site *site)
{
	const struct elf_cpu *cpu = object->cpu;
	size_t push = 0;

	address += recognise(object, cpu->landing_pad, address);
	if (!decode(object, address, site)) {
		push = recognise(object, cpu->chain_push, address);
		address += push + recognise(object, cpu->landing_pad, address + push);
		if (!push || !decode(object, address, site))
			return false;
	}
	site->verdict = push ? SITE_NOT_AT_ENTRY : SITE_OK;
	return true;
}

static int from_symbols(struct object *object)
{
	int error = 0;

	for (size_t i = 0; i < object->symbol_count && !error; i++) {
		struct object_site site;

		if (find_at_start(object, object->symbols[i].address, &site))
			error = object_add_site(object, &site);
	}
	return error;
}

int object_find_fentry(struct object *object)
{
	int error;

	if (!object->cpu->has_fentry)
		return 0;
	error = from_table(object);
	return error ? error : from_symbols(object);
}
