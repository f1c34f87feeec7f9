/*
 * The unwind tables of a region of blocks: an .eh_frame_hdr with one row for each block, CIEs, FDEs.
 *
 * A block's rows are those of its function's entry up to the head's end, each at the moved form of its instruction;
 * doc/design/stock.md, "Unwinding in blocks".  No block has a personality or an exception table: an exception comes
 * from a call, and a call that was moved returns into the function itself, so no unwinder that looks for handlers ever
 * meets an address in a block.
 *
 * What a PLT entry's head does is the same in all of them, and its rules in the object, if any, look at the low bits of
 * the address, which are others in the block: they are not read.
 *
 * The size does not depend on addresses: which rows there are is said by the head's instructions, and how an advance is
 * stored by the room for the block.  Context: host.  Sources: DWARF 5 6.4, LSB 5.0 "Exception Frames".
 */
#include <dwarf.h>
#include <errno.h>
#include <stdlib.h>

#include "blocks_impl.h"

#define HEADER_SIZE  12u /* of .eh_frame_hdr, before its table */
#define ROW_SIZE     8u
#define FRAMES_ALIGN 8u
#define ENTRY_ALIGN  4u
#define END_SIZE     4u
#define ENCODING     (DW_EH_PE_pcrel | DW_EH_PE_sdata4)

/* An entry of the object's .eh_frame. */
struct known_entry {
	uint64_t start, size;
	size_t at; /* where a reader is to begin */
};

/* The object's entries, sorted by `start`. */
struct known_entries {
	struct known_entry *list;
	size_t count;
};

static int by_start(const void *a, const void *b)
{
	const struct known_entry *left = a, *right = b;

	return left->start != right->start ? (left->start > right->start) - (left->start < right->start)
					   : (left->at > right->at) - (left->at < right->at);
}

static int find_entries(struct known_entries *out, const struct cfi_section *section)
{
	struct cfi_reader reader;
	struct cfi_entry entry;
	size_t room = 0;

	*out = (struct known_entries){0};
	cfi_begin(&reader, section);
	for (size_t at = 0; cfi_next(&reader, &entry); at = reader.at) {
		if (out->count == room) {
			struct known_entry *more;

			room = room ? 2 * room : 1024;
			more = realloc(out->list, room * sizeof(*more));
			if (!more) {
				free(out->list);
				return -ENOMEM;
			}
			out->list = more;
		}
		out->list[out->count++] = (struct known_entry){entry.start, entry.size, at};
	}
	if (out->count)
		qsort(out->list, out->count, sizeof(*out->list), by_start);
	return 0;
}

/* The entry around an address; *at: from where on it is the next one. */
static bool find_entry(struct cfi_entry *entry, size_t *at, const struct known_entries *known,
		       const struct cfi_section *section, uint64_t address)
{
	struct cfi_reader reader;
	size_t low = 0, high = known->count;

	while (low < high) { /* the first one that begins behind the address */
		size_t middle = low + (high - low) / 2;

		if (known->list[middle].start <= address)
			low = middle + 1;
		else
			high = middle;
	}
	if (!low || address - known->list[low - 1].start >= known->list[low - 1].size)
		return false;
	*at = known->list[low - 1].at;
	cfi_begin(&reader, section);
	reader.at = *at;
	return cfi_next(&reader, entry);
}

/* The CIE's instructions without the padding behind them. */
static void strip(struct cfi_entry *entry)
{
	size_t end = 0;

	for (size_t at = 0; at < entry->initial_size;) {
		struct cfi_instruction in;
		size_t size = cfi_decode(&in, entry->initial + at, entry->initial_size - at);

		at += size ? size : entry->initial_size;
		if (size && in.code != DW_CFA_nop)
			end = at;
	}
	entry->initial_size = end;
}

/* Find the block's entry in the object's table, if it has any that tells of all of the head's instructions. */
static void find_need(struct stock_block *block, const struct known_entries *known, const struct stock_image *image)
{
	struct cfi_entry entry;
	struct cfi_row row;
	size_t at;

	if (!find_entry(&entry, &at, known, &image->frames, block->head) || at >= STOCK_NO_ENTRY ||
	    entry.cie >= STOCK_NO_ENTRY || !cfi_row_at(&entry, block->head - entry.start + block->length, &row))
		return;
	block->need.entry = (uint32_t)at;
	block->need.common = (uint32_t)entry.cie;
}

static struct rows_source source_of(const struct blocks_cpu *cpu, const struct stock_image *image,
				    const struct stock_block *block)
{
	struct rows_source source = {.common = block->need.common};
	struct cfi_reader reader;

	if (block->need.entry != STOCK_NO_ENTRY) {
		cfi_begin(&reader, &image->frames);
		reader.at = block->need.entry;
		source.is_known = cfi_next(&reader, &source.entry);
		source.head = block->head - source.entry.start;
	}
	if (!source.is_known)
		source = (struct rows_source){.entry = {.initial = cpu->entry,
							.initial_size = cpu->entry_size,
							.data_align = cpu->data_align,
							.return_register = cpu->return_register},
					      .is_known = blocks_is_of_plt(image, block),
					      .common = STOCK_NO_ENTRY};
	return source;
}

static void put_leb128(struct isa_out *out, uint64_t value)
{
	for (; value > 0x7f; value >>= 7)
		isa_put8(out, (uint8_t)(value | 0x80));
	isa_put8(out, (uint8_t)value);
}

static void put_sleb128(struct isa_out *out, int64_t value)
{
	for (; !isa_fits(value, 7); value >>= 7)
		isa_put8(out, (uint8_t)(value | 0x80));
	isa_put8(out, (uint8_t)(value & 0x7f));
}

/* Pad the entry that starts at its length field, and fill the length in. */
static void close_entry(struct isa_out *out, size_t start)
{
	while ((out->length - start) % ENTRY_ALIGN)
		isa_put8(out, DW_CFA_nop);
	if (out->length <= out->size)
		isa_store32(out->code + start, (uint32_t)(out->length - start - 4));
}

static bool same_cie(const struct cfi_entry *a, const struct cfi_entry *b)
{
	bool same = a->initial_size == b->initial_size && a->data_align == b->data_align &&
		    a->return_register == b->return_register && a->key_b == b->key_b;

	for (size_t i = 0; same && i < a->initial_size; i++)
		same = a->initial[i] == b->initial[i];
	return same;
}

/* See to it that the last CIE is right for the source. */
static void need_cie(struct blocks_frames *tables, const struct rows_source *source)
{
	struct isa_out *out = &tables->frames;
	struct rows_source wanted;
	size_t start = out->length;
	bool same;

	if (start && tables->cie_for.common == source->common)
		return;
	wanted = *source;
	strip(&wanted.entry);
	same = start && same_cie(&tables->cie_for.entry, &wanted.entry);
	tables->cie_for = wanted;
	if (same)
		return;
	isa_put32(out, 0);
	isa_put32(out, 0); /* a CIE */
	isa_put(out, (const uint8_t[]){1, 'z', 'R'}, 3);
	if (wanted.entry.key_b)
		isa_put8(out, 'B');
	isa_put(out, (const uint8_t[]){0, 1}, 2); /* of the letters; bytes of code that an advance counts */
	put_sleb128(out, wanted.entry.data_align);
	isa_put8(out, wanted.entry.return_register);
	isa_put8(out, 1); /* bytes of augmentation data */
	isa_put8(out, ENCODING);
	isa_put(out, wanted.entry.initial, wanted.entry.initial_size);
	close_entry(out, start);
	tables->cie = start;
}

/* Where the rows of a block have got to. */
struct block_rows {
	struct isa_out *out;
	const struct stock_block *block;
	unsigned here; /* offset in the block */
};

static void advance(struct block_rows *rows, unsigned to)
{
	unsigned bytes = to - rows->here;

	if (to <= rows->here)
		return;
	if (rows->block->size <= DW_CFA_advance_loc) {
		isa_put8(rows->out, (uint8_t)(DW_CFA_advance_loc | bytes));
	} else {
		isa_put8(rows->out, DW_CFA_advance_loc2);
		isa_put16(rows->out, (uint16_t)bytes);
	}
	rows->here = to;
}

/* The offset in the block of the head's first instruction at an offset or behind it. */
static unsigned moved_to(const struct isa_block *block, uint64_t from)
{
	unsigned i = 0;

	while (i + 1u < block->count && block->places[i].from < from)
		i++;
	return block->places[i].to;
}

/* Copy the function's rows up to and with those at `limit` bytes behind the head's start. */
static void copy_rows(struct block_rows *rows, const struct rows_source *source, const struct isa_block *block,
		      unsigned limit)
{
	const struct cfi_entry *entry = &source->entry;
	uint64_t place = 0, bytes;

	for (size_t at = 0; at < entry->code_size;) {
		struct cfi_instruction in;
		size_t size = cfi_decode(&in, entry->code + at, entry->code_size - at);

		if (!size)
			return;
		if (cfi_advances(&in, entry->code_align, &bytes)) {
			if (__builtin_add_overflow(place, bytes, &place) || place > source->head + limit)
				return;
		} else if (in.code != DW_CFA_nop) {
			if (place > source->head)
				advance(rows, moved_to(block, place - source->head));
			isa_put(rows->out, entry->code + at, size);
		}
		at += size;
	}
}

/* A moved call has pushed its return address before it jumps: the CFA, by the stack pointer, is further away. */
static void put_pushed(struct block_rows *rows, const struct blocks_cpu *cpu, const struct rows_source *source,
		       const struct isa_place *call)
{
	struct cfi_row row;

	if (!cpu->block->push_bytes || !cfi_row_at(&source->entry, source->head + call->from, &row) ||
	    row.cfa_register != cpu->stack_register || row.cfa_offset < 0)
		return;
	advance(rows, call->to + cpu->block->push_bytes);
	isa_put8(rows->out, DW_CFA_def_cfa_offset);
	put_leb128(rows->out, (uint64_t)row.cfa_offset + sizeof(uint64_t));
}

/* The rows of a block; returns how many of its bytes they are for. */
static unsigned put_rows(struct blocks_frames *tables, const struct rows_source *source,
			 const struct stock_block *block, const struct made_block *made)
{
	const struct isa_place *last = &made->block.places[made->block.count - 2];
	struct block_rows rows = {&tables->frames, block, 0};

	if (!source->is_known) /* what the head's first instruction does is not known */
		return made->block.places[1].to;
	if (!isa_ends((enum isa_kind)last->kind)) {
		copy_rows(&rows, source, &made->block, block->length);
		return made->length;
	}
	copy_rows(&rows, source, &made->block, last->from);
	if (last->kind == ISA_CALL || last->kind == ISA_CALL_INDIRECT)
		put_pushed(&rows, tables->cpu, source, last);
	return made->length;
}

static void put_header_row(struct blocks_frames *tables, uint64_t block_at, uint64_t fde_at)
{
	if (tables->header) {
		uint8_t *row = tables->header + HEADER_SIZE + tables->rows * ROW_SIZE;

		isa_store32(row, (uint32_t)(block_at - tables->header_at));
		isa_store32(row + 4, (uint32_t)(fde_at - tables->header_at));
	}
	tables->rows++;
}

/* Write the entry of a block, behind its CIE. */
static void put_fde(struct blocks_frames *tables, const struct rows_source *source, const struct stock_block *block,
		    const struct made_block *made, uint64_t block_at)
{
	struct isa_out *out = &tables->frames;
	size_t start = out->length, size_at;
	unsigned covered;

	isa_put32(out, 0);
	isa_put32(out, (uint32_t)(out->length - tables->cie));
	isa_put32(out, (uint32_t)(block_at - isa_out_here(out)));
	size_at = out->length;
	isa_put32(out, 0);
	isa_put8(out, 0); /* no augmentation data */
	covered = put_rows(tables, source, block, made);
	if (out->length <= out->size)
		isa_store32(out->code + size_at, covered);
	close_entry(out, start);
}

static void put_header(const struct blocks_frames *tables)
{
	uint8_t *header = tables->header;

	if (!header)
		return;
	header[0] = 1; /* version */
	header[1] = ENCODING;
	header[2] = DW_EH_PE_udata4;
	header[3] = DW_EH_PE_datarel | DW_EH_PE_sdata4;
	isa_store32(header + 4, (uint32_t)(tables->frames.address - tables->header_at - 4));
	isa_store32(header + 8, (uint32_t)tables->rows);
}

/* In the hub nothing of the function has run: one row, that of an entry. */
static void put_hub(struct blocks_frames *tables, const struct blocks_hub *hub, uint64_t hub_at)
{
	const struct blocks_cpu *cpu = tables->cpu;
	const struct rows_source source = {.entry = {.initial = cpu->entry,
						     .initial_size = cpu->entry_size,
						     .data_align = cpu->data_align,
						     .return_register = cpu->return_register},
					   .common = STOCK_NO_ENTRY};
	struct isa_out *out = &tables->frames;
	size_t start;

	need_cie(tables, &source);
	start = out->length;
	put_header_row(tables, hub_at, isa_out_here(out));
	isa_put32(out, 0);
	isa_put32(out, (uint32_t)(out->length - tables->cie));
	isa_put32(out, (uint32_t)(hub_at - isa_out_here(out)));
	isa_put32(out, hub->code_size);
	isa_put8(out, 0); /* no augmentation data */
	close_entry(out, start);
}

/* From .eh_frame_hdr to .eh_frame. */
static uint64_t frames_off(const struct blocks_hub *hub, const struct stock_block *blocks, size_t count)
{
	uint64_t rows = hub != NULL;

	for (size_t i = 0; i < count; i++)
		rows += blocks[i].size != 0;
	return (HEADER_SIZE + rows * ROW_SIZE + FRAMES_ALIGN - 1) / FRAMES_ALIGN * FRAMES_ALIGN;
}

/* Measure the entry of one block. */
static int measure_one(const struct blocks_cpu *cpu, const struct stock_image *image, struct stock_block *block)
{
	struct blocks_frames tables = {.cpu = cpu, .image = image};
	struct rows_source source = source_of(cpu, image, block);
	uint64_t at = blocks_nominal(block);
	struct made_block made;
	int ret = blocks_make_one(&made, cpu, image, block, at, BLOCKS_NOMINAL_BASE);

	if (ret)
		return ret;
	block->size = block->need.size; /* how advances are stored */
	put_fde(&tables, &source, block, &made, at);
	if (tables.frames.length > UINT16_MAX)
		return -ERANGE;
	block->need.frame = (uint16_t)tables.frames.length;
	return 0;
}

int blocks_frames_measure(const struct stock_image *image, struct stock_block *blocks, size_t count)
{
	const struct blocks_cpu *cpu = blocks_cpu_find(image->machine);
	struct known_entries known = {0};
	bool read = false;
	int ret = 0;

	for (size_t i = 0; i < count && !ret; i++) {
		struct stock_block *block = &blocks[i];
		bool own = block->need.size && !blocks_is_of_plt(image, block);

		if (own && !read)
			ret = find_entries(&known, &image->frames);
		if (ret)
			break;
		read |= own;
		if (own)
			find_need(block, &known, image);
		if (block->need.size && measure_one(cpu, image, block))
			block->need.size = 0;
	}
	free(known.list);
	return ret;
}

uint64_t blocks_frames_size(const struct stock_image *image, const struct stock_block *blocks, size_t count)
{
	const struct blocks_cpu *cpu = blocks_cpu_find(image->machine);
	const struct blocks_hub *hub = blocks_hub_of(cpu, blocks, count);
	struct blocks_frames tables = {.cpu = cpu, .image = image};

	if (hub)
		put_hub(&tables, hub, STOCK_BLOCKS_HEAD);
	for (size_t i = 0; i < count; i++) {
		struct rows_source source;

		if (!blocks[i].size)
			continue;
		if (!tables.frames.length || tables.cie_for.common != blocks[i].need.common) {
			source = source_of(cpu, image, &blocks[i]);
			need_cie(&tables, &source);
		}
		tables.frames.length += blocks[i].need.frame;
	}
	return frames_off(hub, blocks, count) + tables.frames.length + END_SIZE;
}

void blocks_frames_begin(struct blocks_frames *frames, uint8_t *out, const struct stock_layout *layout,
			 const struct stock_image *image, const struct stock_block *blocks, size_t count, uint64_t at)
{
	const struct blocks_cpu *cpu = blocks_cpu_find(image->machine);
	const struct blocks_hub *hub = blocks_hub_of(cpu, blocks, count);
	uint64_t off = frames_off(hub, blocks, count);

	*frames = (struct blocks_frames){
		.cpu = cpu,
		.image = image,
		.frames = {out + layout->header_off + off, layout->header_size - off, 0, at + layout->header_off + off},
		.header = out + layout->header_off,
		.header_at = at + layout->header_off,
	};
	if (hub)
		put_hub(frames, hub, at + STOCK_BLOCKS_HEAD);
}

void blocks_frames_put(struct blocks_frames *frames, const struct stock_block *block, const struct made_block *made,
		       uint64_t block_at)
{
	struct rows_source source = source_of(frames->cpu, frames->image, block);

	need_cie(frames, &source);
	put_header_row(frames, block_at, isa_out_here(&frames->frames));
	put_fde(frames, &source, block, made, block_at);
}

int blocks_frames_end(struct blocks_frames *frames)
{
	isa_put32(&frames->frames, 0);
	put_header(frames);
	return frames->frames.length == frames->frames.size ? 0 : -ERANGE;
}
