/*
 * The sweep: every instruction of the object is read once, and what it leads to is marked (find.h).
 *
 * Code between functions, which no entry and no symbol tells of, is read as well, from where the function before it
 * ends.  Bytes that are no code may be taken for jumps; that costs a function that is not traced at the most.
 * Context: host.
 */
#include <errno.h>
#include <stdlib.h>

#include "find.h"

#define TABLES_MAX 64 /* addresses of data that a function makes, as they are collected */
#define NONE	   SIZE_MAX

/* One function, or one stretch between functions, while it is read. */
struct stretch {
	struct finding *finding;
	size_t index; /* of its start, NONE = between functions */
	uint64_t lo, hi;
	size_t at; /* of the instruction that is read */
	uint64_t tables[TABLES_MAX];
	size_t table_count;
	bool has_rows, row_known, jumps_by_table;
	struct cfi_rows rows;
	struct cfi_row row;
	struct find_values values;
};

static int add_edge(struct finding *finding, size_t from, size_t to)
{
	if (finding->edge_count == finding->edge_capacity) {
		size_t capacity = finding->edge_capacity ? finding->edge_capacity * 2 : 256;
		struct edge *edges = reallocarray(finding->edges, capacity, sizeof(*edges));

		if (!edges)
			return -ENOMEM;
		finding->edges = edges;
		finding->edge_capacity = capacity;
	}
	finding->edges[finding->edge_count++] = (struct edge){(uint32_t)from, (uint32_t)to};
	return 0;
}

static bool is_keeper(const struct stock_image *image, uint64_t slot)
{
	size_t low = 0, high = image->keeper_count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (image->keepers[middle] < slot)
			low = middle + 1;
		else
			high = middle;
	}
	return low < image->keeper_count && image->keepers[low] == slot;
}

/* Something leads to the address that is no jump of a function. */
static void use(struct finding *finding, uint64_t target)
{
	marks_set(&finding->targets, target);
	marks_set(&finding->used, target);
}

/* Note a jump from one start to another's first byte. */
static void note_jump(struct start *start, size_t from, bool conditional)
{
	if (!start->jumpers || start->jumper != from)
		start->jumpers += start->jumpers < 2;
	if (start->jumpers == 1)
		start->jumper = (uint32_t)from;
	start->branched |= conditional;
}

/* A jump out of the function: to another one, or through a linkage table. */
static int leave(struct stretch *stretch, uint64_t target, bool conditional)
{
	struct finding *finding = stretch->finding;
	size_t index, size, to;
	const struct stock_section *section = find_section(finding->image, target, &index);
	const uint8_t *code = find_code(finding->image, target, &size);
	uint64_t slot;

	if (stretch->index == NONE)
		marks_set(&finding->used, target);
	if (!code || stretch->index == NONE)
		return 0;
	if (section->plt) {
		if (finding->cpu->jump_slot(code, size, target, &slot) && is_keeper(finding->image, slot))
			finding->starts[stretch->index].keeps = true;
		return 0;
	}
	to = find_start_around(finding, target);
	if (to == SIZE_MAX || to == stretch->index)
		return 0;
	if (finding->starts[to].address == target)
		note_jump(&finding->starts[to], stretch->index, conditional);
	return add_edge(finding, stretch->index, to);
}

/* True if a jump here may be a tail call: the stack is as it was at the entry. */
static bool is_entry_stack(const struct find_cpu *cpu, const struct cfi_row *row)
{
	struct cfi_row entry = *row;

	entry.saved = false; /* compilers leave that as it was when the registers are back */
	return find_is_entry_row(cpu, &entry);
}

/* A jump or branch: where it leads to, and whether one leads to functions so. */
static int follow(struct stretch *stretch, uint64_t target, bool conditional)
{
	struct finding *finding = stretch->finding;

	marks_set(&finding->targets, target);
	if (stretch->row_known && !is_entry_stack(finding->cpu, &stretch->row))
		marks_set(&finding->unfit, target);
	return target - stretch->lo >= stretch->hi - stretch->lo ? leave(stretch, target, conditional) : 0;
}

static void note_address(struct stretch *stretch, uint64_t target)
{
	use(stretch->finding, target);
	if (stretch->table_count < TABLES_MAX)
		stretch->tables[stretch->table_count++] = target;
	else if (stretch->index != NONE)
		find_jump_table(stretch->finding, &stretch->finding->starts[stretch->index], target);
}

static int jump_by_memory(struct stretch *stretch, const struct isa_instruction *in)
{
	if (!in->has_target)
		stretch->jumps_by_table = true;
	else if (stretch->index != NONE && is_keeper(stretch->finding->image, in->target))
		stretch->finding->starts[stretch->index].keeps = true;
	return 0;
}

/* What leads there finds a function. */
static void note_entered(struct finding *finding, uint64_t target)
{
	use(finding, target);
	marks_set(&finding->entered, target);
}

/* Read one instruction's meaning; size: bytes from it to the stretch's end. */
static int note(struct stretch *stretch, const struct isa_instruction *in, const uint8_t *code, size_t size)
{
	struct finding *finding = stretch->finding;
	uint64_t value, made, address = stretch->lo + stretch->at;

	if (finding->image->fixed && isa_goes_on((enum isa_kind)in->kind) &&
	    finding->cpu->immediate(code, in->length, &value))
		use(finding, value);
	if (stretch->row_known && !in->has_target && finding->cpu->touches(code, in->length, &stretch->row))
		finding->starts[stretch->index].keeps = true;
	if (stretch->index != NONE && finding->cpu->takes_arguments && finding->cpu->takes_arguments(code, in->length))
		finding->starts[stretch->index].keeps = true;
	switch (in->kind) {
	case ISA_JUMP:
	case ISA_BRANCH:
		return follow(stretch, in->target, in->kind == ISA_BRANCH);
	case ISA_CALL:
		note_entered(finding, in->target);
		return 0;
	case ISA_ADDRESS:
		note_address(stretch, in->target);
		if (!finding->cpu->made_address)
			marks_set(&finding->entered, in->target);
		else if (finding->cpu->made_address(code, size, address, &made))
			note_entered(finding, made);
		return 0;
	case ISA_JUMP_INDIRECT:
		return jump_by_memory(stretch, in);
	default:
		return 0;
	}
}

/* Learn more of an instruction from those before it. */
static void learn(struct stretch *stretch, struct isa_instruction *in, const uint8_t *code)
{
	struct finding *finding = stretch->finding;
	unsigned found = finding->cpu->follow ? finding->cpu->follow(&stretch->values, in, code) : 0;

	if (found & FIND_USES_LINK && stretch->index != NONE)
		finding->starts[stretch->index].keeps = true;
	if (found & FIND_OTHER_LINK)
		marks_set(&finding->unfit, in->target);
}

/* Read the code of [lo, hi), which is all of one section. */
static int read_stretch(struct stretch *stretch)
{
	const struct finding *finding = stretch->finding;
	size_t size, step;
	const uint8_t *code = find_code(finding->image, stretch->lo, &size);
	int error = 0;

	if (!code)
		return 0;
	stretch->values.fixed = finding->image->fixed;
	if (size > stretch->hi - stretch->lo)
		size = stretch->hi - stretch->lo;
	for (size_t at = 0; at < size && !error; at += step) {
		struct isa_instruction in;
		int length = finding->cpu->block->decode(&in, code + at, size - at, stretch->lo + at);

		step = length > 0 ? (size_t)length : finding->cpu->code_align;
		if (length <= 0)
			continue;
		stretch->at = at;
		if (stretch->has_rows)
			stretch->row_known = cfi_rows_to(&stretch->rows, at, &stretch->row);
		learn(stretch, &in, code + at);
		error = note(stretch, &in, code + at, size - at);
	}
	return error;
}

/*
 * A function that a symbol alone tells of, and no unwind table, as those of Free Pascal: does it read or pop its return
 * address before it moves the stack?
 */
static bool keeps_at_once(const struct finding *finding, const struct start *start)
{
	const struct find_cpu *cpu = finding->cpu;
	const struct cfi_row row = {.cfa_register = cpu->stack_register, .cfa_offset = cpu->entry_cfa};
	size_t size, at = 0;
	const uint8_t *code = find_code(finding->image, start->address, &size);
	struct isa_instruction in;
	int length;

	if (!code || !cpu->moves_stack)
		return false;
	if (size > start->end - start->address)
		size = start->end - start->address;
	for (; at < size; at += (size_t)length) {
		length = cpu->block->decode(&in, code + at, size - at, start->address + at);
		if (length <= 0 || !isa_goes_on((enum isa_kind)in.kind))
			return false;
		if (!in.has_target && cpu->touches(code + at, in.length, &row))
			return true;
		if (cpu->moves_stack(code + at, in.length))
			return false;
	}
	return false;
}

static int sweep_start(struct finding *finding, size_t index)
{
	const struct start *start = &finding->starts[index];
	struct stretch stretch = {.finding = finding,
				  .index = index,
				  .lo = start->address,
				  .hi = start->end,
				  .has_rows = start->has_entry};
	int error;

	marks_set(&finding->targets, start->address);
	if (start->inner)
		return 0;
	if (start->has_entry) {
		cfi_rows_begin(&stretch.rows, &start->entry);
		find_landings(finding, &start->entry);
	} else {
		finding->starts[index].keeps |= keeps_at_once(finding, start);
	}
	error = read_stretch(&stretch);
	for (size_t i = 0; i < stretch.table_count && stretch.jumps_by_table; i++)
		find_jump_table(finding, start, stretch.tables[i]);
	return error;
}

/* Read a section: its functions, and what lies between them. */
static int sweep_section(struct finding *finding, const struct stock_section *section, size_t *next)
{
	uint64_t end = section->address + section->size, at = section->address;
	int error = 0;

	while (*next < finding->start_count && finding->starts[*next].address < section->address)
		++*next;
	while (at < end && !error) {
		bool is_last = *next >= finding->start_count || finding->starts[*next].address >= end;
		uint64_t until = is_last ? end : finding->starts[*next].address;

		if (at < until) {
			struct stretch gap = {.finding = finding, .index = NONE, .lo = at, .hi = until};

			error = read_stretch(&gap);
			at = until;
		}
		if (is_last || error)
			continue;
		error = sweep_start(finding, *next);
		if (!finding->starts[*next].inner && finding->starts[*next].end > at)
			at = finding->starts[*next].end;
		++*next;
	}
	return error;
}

int find_sweep(struct finding *finding)
{
	const struct stock_image *image = finding->image;
	size_t next = 0;
	int error = 0;

	for (size_t i = 0; i < image->pointed_count; i++)
		note_entered(finding, image->pointed[i]);
	for (size_t i = 0; i < image->symbol_count; i++) {
		marks_set(&finding->targets, image->symbols[i].address);
		if (!image->symbols[i].part)
			marks_set(&finding->entered, image->symbols[i].address);
	}
	if (image->fixed)
		find_words(finding);
	for (size_t i = 0; i < image->section_count && !error; i++)
		if (image->sections[i].code && image->sections[i].bytes && !image->sections[i].plt)
			error = sweep_section(finding, &image->sections[i], &next);
	return error;
}
