/*
 * Where the arguments of a Rust function are when it is called.
 *
 * Rust's convention is told nowhere, and functions that nobody else calls are changed as the compiler likes.  So a
 * place is believed if two agree: what DWARF says of the parameter, read by what the function's first instructions do
 * (prologue.h), and the order in which rustc hands out registers: each part of a value takes the next one of its kind.
 * Where one parameter is not found, nothing is said about those behind it.
 *
 * Callers: function.c.  Context: host.  DWARF and code are untrusted.
 */
#include <dwarf.h>

#include "impl.h"
#include "prologue.h"

#define INTEGERS 6u
#define VECTORS	 8u

/* What DWARF's first location of a parameter means. */
struct location {
	Dwarf_Op *ops;
	size_t count;
	struct prologue prologue; /* up to where it begins to hold */
};

static bool follow(struct location *location, const struct function_about *about, Dwarf_Attribute *attribute)
{
	Dwarf_Addr base, start, end;

	if (dwarf_getlocations(attribute, 0, &base, &start, &end, &location->ops, &location->count) <= 0 ||
	    !location->count)
		return false;
	if (!start && end == UINT64_MAX) {
		prologue_follow(&location->prologue, about->bytes, about->byte_count, about->address, UINT64_MAX);
		return true;
	}
	if (start < about->address || start - about->address > about->byte_count)
		return false;
	prologue_follow(&location->prologue, about->bytes, about->byte_count, about->address, start);
	return location->prologue.end == start;
}

/* Bytes from the return address to the frame's base; false: it is not known. */
static bool frame_base(int64_t *at, const struct prologue *prologue, Dwarf_Die *function)
{
	Dwarf_Attribute attribute;
	struct origin base;
	Dwarf_Op *ops;
	size_t count;

	if (!dwarf_attr_integrate(function, DW_AT_frame_base, &attribute) ||
	    dwarf_getlocation(&attribute, &ops, &count) || count != 1)
		return false;
	if (ops->atom == DW_OP_call_frame_cfa) {
		*at = 8;
		return true;
	}
	if (ops->atom < DW_OP_reg0 || ops->atom > DW_OP_reg31)
		return false;
	base = prologue_register(prologue, ops->atom - DW_OP_reg0);
	*at = base.offset;
	return prologue->has_frame && base.of == ORIGIN_FRAME;
}

/* The first operation as an address in the frame. */
static bool frame_address(int64_t *at, const struct location *location, Dwarf_Die *function)
{
	const Dwarf_Op *op = location->ops;
	int64_t offset = (int64_t)op->number;
	struct origin base;

	if (offset > INT32_MAX || offset < INT32_MIN)
		return false;
	if (op->atom == DW_OP_fbreg) {
		if (!frame_base(at, &location->prologue, function))
			return false;
		*at += offset;
		return true;
	}
	if (op->atom < DW_OP_breg0 || op->atom > DW_OP_breg31)
		return false;
	base = prologue_register(&location->prologue, op->atom - DW_OP_breg0);
	*at = base.offset + offset;
	return base.of == ORIGIN_FRAME && location->prologue.has_frame;
}

/* A byte of arguments on the stack that nobody writes to, and so all up to the value's end. */
static bool is_untouched(const struct prologue *prologue, int64_t at, uint64_t size)
{
	for (uint32_t i = 0; i < prologue->count; i++)
		if (prologue->stores[i].at < at + (int64_t)size &&
		    at < prologue->stores[i].at + prologue->stores[i].size)
			return false;
	return true;
}

static void add_piece(struct rust_place *place, uint64_t at, const struct origin *origin)
{
	if (place->count == RUST_PIECES)
		place->others = true;
	else
		place->pieces[place->count++] = (struct rust_piece){(uint8_t)at, *origin};
}

/* The value lies in the frame: what was put there first. */
static void find_home(struct rust_place *place, const struct prologue *prologue, int64_t home, uint64_t size)
{
	place->at = RUST_PARTS;
	/* LLVM says so, too, of a value whose address is in that word; such a value has more than 8 bytes. */
	if (home >= 8 && is_untouched(prologue, home, size)) {
		if (size > 8)
			return;
		const struct origin origin = {.of = ORIGIN_STACK, .width = (uint8_t)size, .offset = home - 8};

		add_piece(place, 0, &origin);
		return;
	}
	for (uint64_t at = 0; at < size && at < 16;) {
		struct origin origin = prologue_first(prologue, home + (int64_t)at, 1);

		if (home + (int64_t)at >= 8 && is_untouched(prologue, home + (int64_t)at, 1))
			origin.of = ORIGIN_UNKNOWN;
		if (origin.of == ORIGIN_INTEGER || origin.of == ORIGIN_VECTOR || origin.of == ORIGIN_STACK)
			add_piece(place, at, &origin);
		else
			origin.width = 1;
		at += origin.width ? origin.width : 1;
	}
}

static bool is_register(const Dwarf_Op *op)
{
	return op->atom >= DW_OP_reg0 && op->atom <= DW_OP_reg31;
}

/* Registers, each with a number of bytes. */
static void find_pieces(struct rust_place *place, const struct location *location)
{
	uint64_t at = 0;

	for (size_t i = 0; i + 1 < location->count; i += 2) {
		const Dwarf_Op *op = &location->ops[i];
		struct origin origin;

		if (!is_register(op) || op[1].atom != DW_OP_piece || op[1].number > 8 || at > 8)
			return;
		origin = prologue_register(&location->prologue, op->atom - DW_OP_reg0);
		/* What is in the register behind the piece is none of the value's. */
		if (origin.width > op[1].number)
			origin.width = (uint8_t)op[1].number;
		add_piece(place, at, &origin);
		at += op[1].number;
	}
	place->at = location->count % 2 ? RUST_ELSEWHERE : RUST_PARTS;
}

static void find_address(struct rust_place *place, const struct origin *origin)
{
	if (origin->width != 8)
		return;
	place->at = RUST_ADDRESS;
	add_piece(place, 0, origin);
}

void rust_place(struct rust_place *out, Dwarf_Die *function, Dwarf_Die *parameter, const struct function_about *about,
		uint64_t size)
{
	struct location location = {.count = 0};
	Dwarf_Attribute attribute;
	struct origin origin;
	int64_t at;

	*out = (struct rust_place){.at = RUST_NOWHERE};
	if (!dwarf_attr_integrate(parameter, DW_AT_location, &attribute))
		return;
	out->at = RUST_ELSEWHERE;
	if (!about->byte_count || !follow(&location, about, &attribute))
		return;
	if (location.count == 1 && is_register(location.ops)) {
		origin = prologue_register(&location.prologue, location.ops->atom - DW_OP_reg0);
		out->at = RUST_PARTS;
		add_piece(out, 0, &origin);
	} else if (location.count == 1 && frame_address(&at, &location, function)) {
		find_home(out, &location.prologue, at, size);
	} else if (location.count == 1 && location.ops->atom >= DW_OP_breg0 && location.ops->atom <= DW_OP_breg31 &&
		   !location.ops->number) {
		origin = prologue_register(&location.prologue, location.ops->atom - DW_OP_breg0);
		find_address(out, &origin);
	} else if (location.count == 2 && location.ops[1].atom == DW_OP_deref &&
		   frame_address(&at, &location, function)) {
		origin = prologue_first(&location.prologue, at, 8);
		find_address(out, &origin);
	} else {
		find_pieces(out, &location);
	}
}

/* The next word of the stack, of so many bytes, once registers of the kind have been handed out. */
static bool take_word(struct rust_walk *walk, const struct origin *origin, uint64_t size)
{
	if ((walk->integers < INTEGERS && walk->vectors < VECTORS) || origin->offset != (int64_t)walk->stack)
		return false;
	walk->stack += (size + 7) / 8 * 8;
	return true;
}

static bool take_piece(struct rust_walk *walk, const struct origin *origin, uint64_t size)
{
	switch (origin->of) {
	case ORIGIN_INTEGER:
		if (walk->either && !walk->integers && origin->number == 1)
			walk->integers = 1;
		walk->either = false;
		walk->has_second |= origin->number == 1 && walk->integers == 1;
		return origin->number == walk->integers && walk->integers++ < INTEGERS;
	case ORIGIN_VECTOR:
		return origin->number == walk->vectors && walk->vectors++ < VECTORS;
	case ORIGIN_STACK:
		return take_word(walk, origin, size);
	default:
		return false;
	}
}

bool rust_next(struct rust_walk *walk, const struct rust_place *place, uint64_t size)
{
	uint64_t found = 0;

	if (!size)
		return !walk->lost;
	walk->lost |= place->others || !place->count ||
		      (place->at == RUST_ADDRESS ? size <= 8 : place->at != RUST_PARTS || size > 16);
	for (uint32_t i = 0; i < place->count && !walk->lost; i++) {
		const struct rust_piece *piece = &place->pieces[i];

		found = piece->at + (uint64_t)piece->origin.width;
		walk->lost = !take_piece(walk, &piece->origin, place->at == RUST_ADDRESS ? 8 : piece->origin.width);
	}
	/* All of a value of 8 bytes is in what was found; of a larger one there may be more. */
	if (place->at == RUST_PARTS && size > 8 && place->count < 2 && found <= 8)
		walk->lost = true;
	return !walk->lost;
}
