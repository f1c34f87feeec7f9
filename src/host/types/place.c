/*
 * Where the compiler says that a parameter is at its function's first instruction.
 * Source: DWARF 5, 2.6.
 *
 * Callers: function.c.  Context: host.
 */
#include <dwarf.h>

#include "impl.h"

#define PROLOGUE_MAX 64u /* bytes in which a function makes its frame */

static const struct place other = {.at = PLACE_OTHER};

/* The register of arguments that DWARF gives this number. */
static struct place in_register(const struct abi *abi, uint64_t number)
{
	int integer = abi_integer_of(abi, number), vector = abi_vector_of(abi, number);

	if (integer >= 0)
		return (struct place){.at = PLACE_REGISTERS, .count = 1, .pieces = {abi_integer(integer)}};
	return vector >= 0 ? (struct place){.at = PLACE_REGISTERS, .count = 1, .pieces = {abi_vector(vector)}} : other;
}

/* Bytes behind the call frame's address, which is where the first argument on the stack lies. */
static struct place on_stack(int64_t offset)
{
	if (offset < 0 || offset > UINT32_MAX)
		return other;
	return (struct place){.at = PLACE_STACK, .offset = (uint32_t)offset};
}

static bool is_register(const Dwarf_Op *op, uint64_t *number)
{
	if (op->atom >= DW_OP_reg0 && op->atom <= DW_OP_reg31)
		*number = op->atom - DW_OP_reg0;
	else if (op->atom == DW_OP_regx)
		*number = op->number;
	else
		return false;
	return true;
}

/* The frame base of the function: the call frame's address (true), or a register. */
static bool has_call_frame(Dwarf_Die *function)
{
	Dwarf_Attribute attribute;
	Dwarf_Op *ops;
	size_t count;

	return dwarf_attr_integrate(function, DW_AT_frame_base, &attribute) &&
	       !dwarf_getlocation(&attribute, &ops, &count) && count == 1 && ops->atom == DW_OP_call_frame_cfa;
}

/* An expression of one operation.  all: it holds in the whole function, so it may mean what is there later. */
static struct place of_one(const struct abi *abi, Dwarf_Die *function, const Dwarf_Op *op, bool all)
{
	uint64_t number;

	if (is_register(op, &number))
		return in_register(abi, number);
	if (op->atom == DW_OP_fbreg) {
		int64_t offset = (int64_t)op->number;

		if (has_call_frame(function) && offset >= 0)
			return on_stack(offset);
		return all ? (struct place){.at = PLACE_HOME} : other;
	}
	if (op->atom == DW_OP_breg0 + abi->stack)
		return all ? (struct place){.at = PLACE_HOME} : on_stack((int64_t)op->number - (int64_t)abi->first);
	return op->atom == DW_OP_breg0 + abi->frame && all ? (struct place){.at = PLACE_HOME} : other;
}

/* The register's value at the function's entry, as a value. */
static struct place of_entry(const struct abi *abi, Dwarf_Attribute *attribute, const Dwarf_Op *op)
{
	Dwarf_Attribute inner;
	Dwarf_Op *ops;
	size_t count;
	uint64_t number;

	if (dwarf_getlocation_attr(attribute, op, &inner) || dwarf_getlocation(&inner, &ops, &count) || count != 1 ||
	    !is_register(ops, &number))
		return other;
	return in_register(abi, number);
}

/* A register's value, made narrower or wider. */
static struct place of_converted(const struct abi *abi, const Dwarf_Op *ops, size_t count)
{
	if (ops->atom < DW_OP_breg0 || ops->atom > DW_OP_breg31 || ops->number)
		return other;
	for (size_t i = 1; i < count; i++) {
		if (ops[i].atom == DW_OP_constu && ops[i].number == UINT32_MAX && i + 1 < count &&
		    ops[i + 1].atom == DW_OP_and)
			i++;
		else if (ops[i].atom != DW_OP_convert && ops[i].atom != DW_OP_GNU_convert &&
			 ops[i].atom != DW_OP_stack_value)
			return other;
	}
	return in_register(abi, ops->atom - DW_OP_breg0);
}

/* Registers that have as many bytes each, or the last one less. */
static struct place of_pieces(const struct abi *abi, const Dwarf_Op *ops, size_t count)
{
	struct place place = {.at = PLACE_REGISTERS};

	if (count < 4 || count % 2 || count / 2 > ABI_PIECES || ops[1].number > 16)
		return other;
	place.step = (uint8_t)ops[1].number;
	for (size_t i = 0; i < count; i += 2) {
		struct place piece;
		uint64_t number;

		if (!is_register(&ops[i], &number) || ops[i + 1].atom != DW_OP_piece ||
		    (ops[i + 1].number != place.step && i + 2 < count))
			return other;
		piece = in_register(abi, number);
		if (piece.at == PLACE_OTHER)
			return other;
		place.pieces[place.count++] = piece.pieces[0];
	}
	return place;
}

/*
 * The value lies where a register points, or where the function will store that address; all: the expression holds in
 * the whole function, so a register that is none of arguments is one that the function will move the address to.
 */
static struct place of_address(const struct abi *abi, const Dwarf_Op *ops, size_t count, bool all)
{
	if (count == 1 && ops->atom >= DW_OP_breg0 && ops->atom <= DW_OP_breg31 && !ops->number) {
		const struct place place = in_register(abi, ops->atom - DW_OP_breg0);

		return all && place.at == PLACE_OTHER ? (struct place){.at = PLACE_HOME} : place;
	}
	if (count == 2 && ops[1].atom == DW_OP_deref &&
	    (ops->atom == DW_OP_fbreg || ops->atom == DW_OP_breg0 + abi->frame))
		return (struct place){.at = PLACE_HOME};
	return other;
}

static bool is_expression(int form)
{
	return form == DW_FORM_exprloc || form == DW_FORM_block1 || form == DW_FORM_block;
}

struct place place_find(const struct abi *abi, Dwarf_Die *function, Dwarf_Die *parameter, uint64_t address,
			bool by_address)
{
	const struct place none = {.at = PLACE_NONE};
	Dwarf_Attribute attribute;
	Dwarf_Op *ops;
	size_t count;
	bool all;

	if (!dwarf_attr_integrate(parameter, DW_AT_location, &attribute))
		return dwarf_hasattr_integrate(parameter, DW_AT_const_value) ? other : none;
	all = is_expression(dwarf_whatform(&attribute));
	if (dwarf_getlocation_addr(&attribute, address, &ops, &count, 1) != 1 || !count)
		return none;
	if (by_address)
		return of_address(abi, ops, count, all);
	if (count == 1)
		return of_one(abi, function, ops, all);
	if (count == 2 && ops[1].atom == DW_OP_stack_value &&
	    (ops[0].atom == DW_OP_entry_value || ops[0].atom == DW_OP_GNU_entry_value))
		return of_entry(abi, &attribute, ops);
	return ops[count - 1].atom == DW_OP_stack_value ? of_converted(abi, ops, count) : of_pieces(abi, ops, count);
}

struct place place_find_first(const struct abi *abi, Dwarf_Die *parameter, uint64_t address)
{
	struct place place = {.at = PLACE_NONE};
	Dwarf_Attribute attribute;
	Dwarf_Addr base, start, end;
	Dwarf_Op *ops;
	size_t count;

	if (!dwarf_attr_integrate(parameter, DW_AT_location, &attribute) ||
	    dwarf_getlocations(&attribute, 0, &base, &start, &end, &ops, &count) <= 0 || start < address ||
	    start - address > PROLOGUE_MAX)
		return place;
	place = of_address(abi, ops, count, false);
	place.at = place.at == PLACE_REGISTERS || place.at == PLACE_HOME ? PLACE_HOME : PLACE_NONE;
	return place;
}
