/*
 * Calls of other objects' functions among an object's sites: each entry of a PLT is a site by itself, under the name of
 * what it calls.
 *
 * An entry jumps by a word that the loader fills in.  Which function that is for says the relocation of that word, so
 * an entry gets its name without any symbol at it.  The jump is moved to a block like the first instructions of a
 * function (doc/design/stock.md).  What a lazy entry has behind its jump stays: the word leads there until the function
 * is bound.
 *
 * Callers: whoever opens an object and wants them.  Context: host; the file is untrusted.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "arch/generic/isa/recognise.h"
#include "libc_files.h"
#include "stock_impl.h"
#include "versions.h"

#define ENTRY_ALIGN 8u	/* each entry begins at such a multiple from its section's start */
#define ENTRY_SIZE  16u /* where no further entry follows sooner */

/* A word that the loader fills in with the address of another object's function. */
struct import_slot {
	uint64_t address;
	const char *name;
	bool libc; /* the function is the C library's */
};

struct import_slots {
	struct import_slot *items;
	size_t count, capacity;
	struct versions versions;
};

static int add_slot(struct object *object, const struct object_reloc *reloc, void *ctx)
{
	const struct elf_cpu *cpu = object->cpu;
	struct import_slots *slots = ctx;

	/* What the object defines itself is traced where it is. */
	if ((reloc->type != cpu->reloc_jump_slot && reloc->type != cpu->reloc_glob_dat) || !reloc->name ||
	    !reloc->name[0] || reloc->symbol.st_shndx != SHN_UNDEF || reloc->symbol.st_other & cpu->vector_calls)
		return 0;
	if (slots->count == slots->capacity) {
		size_t capacity = slots->capacity ? slots->capacity * 2 : 64;
		struct import_slot *items = reallocarray(slots->items, capacity, sizeof(*items));

		if (!items)
			return -ENOMEM;
		slots->items = items;
		slots->capacity = capacity;
	}
	slots->items[slots->count++] = (struct import_slot){
		reloc->rela->r_offset, reloc->name,
		libc_has_file(versions_file_of(&slots->versions, (uint32_t)ELF64_R_SYM(reloc->rela->r_info)))};
	return 0;
}

static int compare_slots(const void *a, const void *b)
{
	const struct import_slot *left = a, *right = b;

	return (left->address > right->address) - (left->address < right->address);
}

/* Make the site of an entry. */
static int add_entry(struct object *object, const struct object_code *plt, size_t at, const struct isa_plt_entry *entry,
		     const struct import_slot *slot)
{
	struct isa_plt_entry next;
	size_t rest = plt->size - at;
	size_t size = rest < ENTRY_SIZE ? rest : ENTRY_SIZE;
	struct object_site site = {
		.address = plt->address + at + entry->head,
		.function = plt->address + at,
		.kind = SITE_LIBCALL,
		.verdict = (uint8_t)(object->view->own ? SITE_OWN : site_verdict_of_call(slot->name)),
		.length = object->cpu->jump_bytes,
		.span = entry->length,
		.body_off = entry->length,
		.code_off = entry->length,
		.symbol = slot->name,
		.calls_libc = slot->libc,
	};
	struct stock_block block = {.head = site.address, .length = site.span};
	int error;

	if (rest > ENTRY_ALIGN && object->cpu->plt_entry(&next, plt->bytes + at + ENTRY_ALIGN, rest - ENTRY_ALIGN,
							 site.function + ENTRY_ALIGN))
		size = ENTRY_ALIGN;
	site.size = (uint32_t)size;
	if (site.verdict == SITE_OK && !object_is_near(object, site.address))
		site.verdict = SITE_TOO_FAR;
	rest -= entry->head;
	memcpy(site.old, plt->bytes + at + entry->head, rest < sizeof(site.old) ? rest : sizeof(site.old));
	error = stock_measure(object_view_image(object->view), &block, 1);
	site.need = block.need;
	return error && error != -ENOTSUP ? error : object_add_site(object, &site);
}

static int add_entries(struct object *object, const struct object_code *plt, const struct import_slots *slots)
{
	int error = 0;

	for (size_t at = 0; at < plt->size && !error; at += ENTRY_ALIGN) {
		struct isa_plt_entry entry;
		struct import_slot wanted, *slot;

		if (!object->cpu->plt_entry(&entry, plt->bytes + at, plt->size - at, plt->address + at))
			continue;
		wanted.address = entry.slot;
		slot = bsearch(&wanted, slots->items, slots->count, sizeof(wanted), compare_slots);
		if (slot)
			error = add_entry(object, plt, at, &entry, slot);
	}
	return error;
}

int object_find_libcalls(struct object *object)
{
	size_t before = object->site_count;
	struct import_slots slots = {0};
	int error;

	if (!object->cpu->plt_entry || !object->view || object->view->refusal)
		return 0;
	versions_find(&slots.versions, object->elf);
	error = object_visit_relocs(object, add_slot, &slots);
	if (slots.count)
		qsort(slots.items, slots.count, sizeof(*slots.items), compare_slots);
	for (size_t i = 0; i < object->code_count && slots.count && !error; i++)
		if (object->codes[i].plt)
			error = add_entries(object, &object->codes[i], &slots);
	free(slots.items);
	return object_renew_sites(object, before, error);
}
