/*
 * Where functions begin by the unwind table (.eh_frame_hdr), for files whose
 * symbols were stripped.  Without it, a run of no-ops that begins before its
 * function could not be told from one that begins in it.  gcc for aarch64 and
 * riscv64 writes a function's no-ops before its entry of that table: a symbol,
 * where there is one, knows better.
 *
 * Caller: object_open.  Context: host; the table is untrusted.
 */
#include <string.h>

#include "object_impl.h"

#define ENCODING_UDATA4		0x03
#define ENCODING_DATAREL_SDATA4 0x3b
#define HEADER_BYTES		12 /* version, three encodings, frame pointer, count */

struct entry {
	int32_t function; /* relative to the start of .eh_frame_hdr */
	int32_t frame;
};

static bool is_inside_function(const struct object *object, uint64_t address)
{
	const struct object_symbol *symbol = object_symbol_around(object, address);

	return symbol && symbol->address != address;
}

static int read_table(struct object *object, uint64_t base, const uint8_t *bytes, size_t size)
{
	uint32_t count;

	if (size < HEADER_BYTES || bytes[0] != 1 || bytes[2] != ENCODING_UDATA4 || bytes[3] != ENCODING_DATAREL_SDATA4)
		return 0;
	memcpy(&count, bytes + 8, sizeof(count));
	if (count > (size - HEADER_BYTES) / sizeof(struct entry))
		return 0;
	for (uint32_t i = 0; i < count; i++) {
		struct entry entry;
		uint64_t start;
		int error;

		memcpy(&entry, bytes + HEADER_BYTES + i * sizeof(entry), sizeof(entry));
		start = base + (uint64_t)(int64_t)entry.function;
		error = is_inside_function(object, start) ? 0 : address_list_add(&object->starts, start);
		if (error)
			return error;
	}
	address_list_sort(&object->starts);
	return 0;
}

int object_read_starts(struct object *object)
{
	size_t count = 0;

	if (elf_getphdrnum(object->elf, &count) < 0)
		return 0;
	for (size_t i = 0; i < count; i++) {
		GElf_Phdr segment;
		Elf_Data *data;

		if (!gelf_getphdr(object->elf, (int)i, &segment) || segment.p_type != PT_GNU_EH_FRAME)
			continue;
		data = elf_getdata_rawchunk(object->elf, segment.p_offset, segment.p_filesz, ELF_T_BYTE);
		if (!data || !data->d_buf)
			return 0;
		return read_table(object, segment.p_vaddr, data->d_buf, data->d_size);
	}
	return 0;
}

bool object_starts_function(const struct object *object, uint64_t address)
{
	return object_symbol_at(object, address) || address_list_has(&object->starts, address);
}

uint64_t object_last_start(const struct object *object, uint64_t address)
{
	size_t symbol = object_symbol_above(object, address);
	size_t start = address_list_above(&object->starts, address);
	uint64_t last = symbol ? object->symbols[symbol - 1].address : 0;

	if (start && object->starts.items[start - 1] > last)
		last = object->starts.items[start - 1];
	return last;
}

uint64_t object_next_start(const struct object *object, uint64_t address)
{
	size_t symbol = object_symbol_above(object, address);
	size_t start = address_list_above(&object->starts, address);
	uint64_t next = symbol < object->symbol_count ? object->symbols[symbol].address : UINT64_MAX;

	if (start < object->starts.count && object->starts.items[start] < next)
		next = object->starts.items[start];
	return next;
}
