/*
 * Sites of -fpatchable-function-entry=N,M: N no-ops, M of them before the
 * function's symbol, a table entry for the first.
 *
 *     entry -> nop ... nop        (M of them; reached by no path)
 *     symbol:  [landing pad]
 *     site  -> nop ... nop        (N - M of them, more if padding follows)
 *              the body
 *
 * The table does not say N and M; the code and the functions' starts do.  A
 * CPU whose jump must be aligned has its site at the first no-op that is.
 * Caller: object_find_sites.  Context: host.
 */
#include "../stock/stock.h"
#include "object_impl.h"

/* A body farther off than this is not reached by a jump; more no-ops simply run. */
#define SKIP_MAX 128

/* The surroundings of one table entry. */
struct entry {
	uint64_t function; /* where callers enter */
	uint64_t site;	   /* after the landing pad */
	size_t before;	   /* bytes of no-ops before function */
};

/* Whole no-ops from address on, not into the next function, until they are `enough` bytes. */
static size_t nop_run(const struct object *object, uint64_t address, size_t enough)
{
	uint64_t limit = object_next_start(object, address) - address;
	size_t size = 0, run = 0, length;
	const uint8_t *code = object_code_at(object, address, &size);

	if (size > limit)
		size = limit;
	while (run < enough && (length = object->cpu->nop(code + run, size - run)))
		run += length;
	return run;
}

static size_t landing_pad(const struct object *object, uint64_t address)
{
	size_t size;
	const uint8_t *code = object_code_at(object, address, &size);

	return code ? object->cpu->landing_pad(code, size) : 0;
}

/* True if address is right behind a landing pad: only a function begins so. */
static bool follows_landing_pad(const struct object *object, uint64_t address)
{
	for (size_t back = 1; back <= 4 && back <= address; back++) {
		if (landing_pad(object, address - back) == back)
			return true;
	}
	return false;
}

static enum site_verdict locate_site(const struct object *object, uint64_t address, struct entry *entry)
{
	size_t run, pad;

	*entry = (struct entry){.function = address, .site = address};
	if (follows_landing_pad(object, address))
		return SITE_OK; /* with M = 0 the function's start does not matter */
	if (!object_starts_function(object, address)) {
		run = nop_run(object, address, SKIP_MAX);
		pad = landing_pad(object, address + run);
		if (!pad && !object_starts_function(object, address + run))
			return run ? SITE_NO_ENTRY : SITE_BAD_BYTES;
		entry->before = run;
		entry->function = address + run;
	}
	entry->site = entry->function + landing_pad(object, entry->function);
	return SITE_OK;
}

/* True if the jump can lie here, in the place of whole no-ops of span bytes. */
static bool jump_fits(const struct elf_cpu *cpu, uint64_t address, size_t span)
{
	return address % cpu->jump_align == 0 && (span == cpu->jump_bytes || !cpu->body_follows);
}

/* Find the first place that fits among the no-ops of a site, up to end. */
static enum site_verdict place_jump(const struct object *object, uint64_t end, struct object_site *site)
{
	const struct elf_cpu *cpu = object->cpu;
	uint64_t at = site->address;
	size_t span = nop_run(object, at, cpu->jump_bytes);

	while (!jump_fits(cpu, at, span)) {
		at += nop_run(object, at, 1);
		if (end - at < cpu->jump_bytes)
			return SITE_NOT_ALIGNED;
		span = nop_run(object, at, cpu->jump_bytes);
	}
	if (span >= sizeof(site->old))
		return SITE_BAD_BYTES;
	site->address = at;
	site->length = cpu->jump_bytes;
	site->span = (uint8_t)span;
	site->code_off = (uint8_t)(end - at);
	site->body_off = cpu->body_follows ? site->span : site->code_off;
	return SITE_OK;
}

/*
 * All no-ops lie before the address that the unwind table calls the function: gcc's way on some CPUs, which leaves open
 * how many of them callers skip.  They do not skip the last one, and a single no-op is safe to replace in any case.
 */
static enum site_verdict place_last(const struct elf_cpu *cpu, const struct entry *entry, struct object_site *site)
{
	if (cpu->jump_bytes != cpu->code_align)
		return SITE_NO_ENTRY;
	site->address = entry->function - cpu->jump_bytes;
	site->length = site->span = site->body_off = site->code_off = cpu->jump_bytes;
	return SITE_OK;
}

static enum site_verdict measure_site(const struct object *object, const struct entry *entry, struct object_site *site)
{
	const struct elf_cpu *cpu = object->cpu;
	size_t run = nop_run(object, entry->site, SKIP_MAX);

	if (run >= cpu->jump_bytes)
		return place_jump(object, entry->site + run, site);
	if (!run && entry->before >= cpu->jump_bytes && !object_symbol_at(object, entry->function))
		return place_last(cpu, entry, site);
	site->body_off = site->code_off = (uint8_t)run;
	if (cpu->short_jump_bytes && run >= cpu->short_jump_bytes && entry->before >= cpu->jump_bytes) {
		site->length = cpu->short_jump_bytes;
		site->span = (uint8_t)nop_run(object, entry->site, cpu->short_jump_bytes);
		site->tramp_off = (int8_t)(entry->function - cpu->jump_bytes - entry->site);
		return SITE_OK;
	}
	return run || entry->before ? SITE_TOO_SHORT : SITE_BAD_BYTES;
}

/* As Clang's local functions on RISC-V with more arguments than registers for them.  judge: NULL = no CPU's. */
static bool takes_more(const struct object *object, uint64_t function, stock_takes_more judge)
{
	size_t size = 0;
	const uint8_t *code = judge ? object_code_at(object, function, &size) : NULL;
	uint64_t limit = code ? object_next_start(object, function) - function : 0;

	return code && judge(code, size < limit ? size : limit, function);
}

int object_find_patchable(struct object *object)
{
	stock_takes_more judge = stock_takes_more_of(object->cpu->machine);
	int error = 0;

	for (size_t i = 0; i < object->patchable.count && !error; i++) {
		struct object_site site = {.kind = SITE_PATCHABLE};
		struct entry entry;

		site.verdict = (uint8_t)locate_site(object, object->patchable.items[i], &entry);
		site.address = entry.site;
		if (site.verdict == SITE_OK)
			site.verdict = (uint8_t)measure_site(object, &entry, &site);
		if (site.verdict == SITE_OK && takes_more(object, entry.function, judge))
			site.verdict = SITE_OWN_RULES;
		error = object_add_site(object, &site);
	}
	return error;
}
