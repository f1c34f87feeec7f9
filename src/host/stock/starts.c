/*
 * Where functions and their parts start: the entries of .eh_frame, and the symbols that have none (find.h).
 * Context: host.
 */
#include <errno.h>
#include <stdlib.h>

#include "find.h"

#define INITIAL_MAX 1024 /* bytes of a CIE's instructions, which are read anew for each of its functions */

bool find_is_entry_row(const struct find_cpu *cpu, const struct cfi_row *row)
{
	bool in_place = cpu->link ? !row->return_moved : row->return_at_cfa;

	return row->cfa_register == cpu->stack_register && row->cfa_offset == cpu->entry_cfa && in_place &&
	       !row->return_undefined && !row->saved;
}

/* How code begins at an offset of an entry. */
static enum start_kind kind_at(const struct find_cpu *cpu, const struct cfi_entry *entry, uint64_t offset)
{
	struct cfi_row row;

	if (entry->signal)
		return START_NO_CALLER;
	if (!cfi_row_at(entry, offset, &row))
		return START_FRAGMENT;
	if (row.return_undefined)
		return START_NO_CALLER;
	return find_is_entry_row(cpu, &row) ? START_FUNCTION : START_FRAGMENT;
}

/* Code that is no linkage table; *rest: bytes up to the section's end. */
static bool is_code(const struct stock_image *image, uint64_t address, uint64_t *rest)
{
	size_t index;
	const struct stock_section *section = find_section(image, address, &index);

	if (!section || !section->code || section->plt)
		return false;
	*rest = section->size - (address - section->address);
	return true;
}

static int grow(struct finding *finding, size_t *capacity)
{
	struct start *starts;

	if (finding->start_count < *capacity)
		return 0;
	if (*capacity >= UINT32_MAX / 4)
		return -E2BIG;
	*capacity = *capacity ? *capacity * 2 : 256;
	starts = reallocarray(finding->starts, *capacity, sizeof(*starts));
	if (!starts)
		return -ENOMEM;
	finding->starts = starts;
	return 0;
}

static int read_entries(struct finding *finding, size_t *capacity)
{
	struct cfi_reader reader;
	struct cfi_entry entry;
	uint64_t rest;
	int error;

	if (!finding->image->frames.size)
		return 0;
	cfi_begin(&reader, &finding->image->frames);
	while (cfi_next(&reader, &entry)) {
		if (!is_code(finding->image, entry.start, &rest))
			continue;
		error = grow(finding, capacity);
		if (error)
			return error;
		if (entry.initial_size > INITIAL_MAX)
			continue;
		if (entry.size > rest)
			entry.size = rest;
		finding->starts[finding->start_count++] = (struct start){
			.address = entry.start,
			.end = entry.start + entry.size,
			.entry = entry,
			.has_entry = true,
			.kind = (uint8_t)kind_at(finding->cpu, &entry, 0),
		};
	}
	return 0;
}

static int compare_starts(const void *a, const void *b)
{
	const struct start *left = a, *right = b;

	if (left->address != right->address)
		return left->address < right->address ? -1 : 1;
	if (left->has_entry != right->has_entry)
		return left->has_entry ? -1 : 1;
	return (left->end < right->end) - (left->end > right->end);
}

/* Cut starts that reach into the next one, and note which one an inner one lies in. */
static void bound(struct finding *finding)
{
	struct start *last = NULL;

	for (size_t i = 0; i < finding->start_count; i++) {
		struct start *start = &finding->starts[i];

		start->host = start->inner && last ? last->host : (uint32_t)i;
		if (start->inner)
			continue;
		if (last && last->end > start->address)
			last->end = start->address;
		last = start;
	}
}

/* Sort, and keep one start of each address. */
static void sort(struct finding *finding)
{
	struct start *starts = finding->starts;
	size_t kept = 0;

	if (!finding->start_count)
		return;
	qsort(starts, finding->start_count, sizeof(*starts), compare_starts);
	for (size_t i = 1; i < finding->start_count; i++)
		if (starts[i].address != starts[kept].address)
			starts[++kept] = starts[i];
	finding->start_count = kept + 1;
	bound(finding);
}

size_t find_start_around(const struct finding *finding, uint64_t address)
{
	size_t low = 0, high = finding->start_count;

	while (low < high) { /* the first one behind the address */
		size_t middle = low + (high - low) / 2;

		if (finding->starts[middle].address <= address)
			low = middle + 1;
		else
			high = middle;
	}
	if (!low)
		return SIZE_MAX;
	low = finding->starts[low - 1].host;
	return address < finding->starts[low].end ? low : SIZE_MAX;
}

/* Note a symbol at the start of an entry there; else add a start of its own.  The first `entries` starts are sorted. */
static int add_symbol(struct finding *finding, size_t *capacity, size_t entries, const struct stock_symbol *symbol)
{
	const struct finding sorted = {.starts = finding->starts, .start_count = entries};
	size_t host = find_start_around(&sorted, symbol->address);
	struct start start = {.address = symbol->address,
			      .named = true,
			      .part = symbol->part,
			      .leave = symbol->leave,
			      .led = symbol->led,
			      .keeps = symbol->twice};
	uint64_t rest;
	int error;

	if (!symbol->size || !is_code(finding->image, symbol->address, &rest))
		return 0;
	if (host != SIZE_MAX && finding->starts[host].address == symbol->address) {
		finding->starts[host].named = true;
		finding->starts[host].part |= symbol->part;
		finding->starts[host].leave |= symbol->leave;
		finding->starts[host].led |= symbol->led;
		finding->starts[host].keeps |= symbol->twice;
		return 0;
	}
	if (host != SIZE_MAX) {
		const struct cfi_entry *entry = &finding->starts[host].entry;

		finding->starts[host].keeps |= symbol->twice;
		start.inner = true;
		start.kind = (uint8_t)kind_at(finding->cpu, entry, symbol->address - entry->start);
		if (rest > finding->starts[host].end - symbol->address)
			rest = finding->starts[host].end - symbol->address;
	}
	start.end = symbol->address + (symbol->size < rest ? symbol->size : rest);
	error = grow(finding, capacity);
	if (!error)
		finding->starts[finding->start_count++] = start;
	return error;
}

int find_starts(struct finding *finding)
{
	size_t capacity = 0, entries;
	int error = read_entries(finding, &capacity);

	sort(finding);
	entries = finding->start_count;
	for (size_t i = 0; i < finding->image->symbol_count && !error; i++)
		error = add_symbol(finding, &capacity, entries, &finding->image->symbols[i]);
	sort(finding);
	finding->has_entries = entries >= finding->start_count - entries;
	return error;
}
