/*
 * Where the compiler says that a parameter is at its function's first instruction.
 * Source: DWARF 5, 2.6.
 *
 * Callers: function.c.  Context: host.
 */
#include <dwarf.h>

#include "impl.h"

static const struct place other = {.at = PLACE_OTHER};

/* The register of arguments that DWARF gives this number. */
static struct place in_register(uint64_t number)
{
	int integer = abi_integer_of(number), vector = abi_vector_of(number);

	if (integer >= 0)
		return (struct place){.at = PLACE_REGISTER, .number = (uint8_t)integer};
	return vector >= 0 ? (struct place){.at = PLACE_VECTOR, .number = (uint8_t)vector} : other;
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
static struct place of_one(Dwarf_Die *function, const Dwarf_Op *op, bool all)
{
	uint64_t number;

	if (is_register(op, &number))
		return in_register(number);
	if (op->atom == DW_OP_fbreg) {
		int64_t offset = (int64_t)op->number;

		if (has_call_frame(function) && offset >= 0)
			return on_stack(offset);
		return all ? (struct place){.at = PLACE_HOME} : other;
	}
	if (op->atom == DW_OP_breg0 + ABI_DWARF_STACK) {
		/* The return address is where the stack pointer leads to. */
		return all ? (struct place){.at = PLACE_HOME} : on_stack((int64_t)op->number - 8);
	}
	return op->atom == DW_OP_breg0 + ABI_DWARF_FRAME && all ? (struct place){.at = PLACE_HOME} : other;
}

/* The register's value at the function's entry, as a value. */
static struct place of_entry(Dwarf_Attribute *attribute, const Dwarf_Op *op)
{
	Dwarf_Attribute inner;
	Dwarf_Op *ops;
	size_t count;
	uint64_t number;

	if (dwarf_getlocation_attr(attribute, op, &inner) || dwarf_getlocation(&inner, &ops, &count) || count != 1 ||
	    !is_register(ops, &number))
		return other;
	return in_register(number);
}

/* A register's value, made narrower or wider. */
static struct place of_converted(const Dwarf_Op *ops, size_t count)
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
	return in_register(ops->atom - DW_OP_breg0);
}

/* Two registers that have eight bytes each, or the second one less. */
static struct place of_two(const Dwarf_Op *ops, size_t count)
{
	uint64_t first, second;
	struct place place, rest;

	if (count != 4 || !is_register(&ops[0], &first) || ops[1].atom != DW_OP_piece || ops[1].number != 8 ||
	    !is_register(&ops[2], &second) || ops[3].atom != DW_OP_piece)
		return other;
	place = in_register(first);
	rest = in_register(second);
	if (place.at == PLACE_OTHER || rest.at == PLACE_OTHER)
		return other;
	place.second_at = rest.at;
	place.second_number = rest.number;
	return place;
}

/* The value lies where a register points, or where the function will store that address. */
static struct place of_address(const Dwarf_Op *ops, size_t count)
{
	if (count == 1 && ops->atom >= DW_OP_breg0 && ops->atom <= DW_OP_breg31 && !ops->number)
		return in_register(ops->atom - DW_OP_breg0);
	if (count == 2 && ops[1].atom == DW_OP_deref &&
	    (ops->atom == DW_OP_fbreg || ops->atom == DW_OP_breg0 + ABI_DWARF_FRAME))
		return (struct place){.at = PLACE_HOME};
	return other;
}

struct place place_find(Dwarf_Die *function, Dwarf_Die *parameter, uint64_t address, bool by_address)
{
	const struct place none = {.at = PLACE_NONE};
	Dwarf_Attribute attribute;
	Dwarf_Op *ops;
	size_t count;
	int form;

	if (!dwarf_attr_integrate(parameter, DW_AT_location, &attribute))
		return dwarf_hasattr_integrate(parameter, DW_AT_const_value) ? other : none;
	form = dwarf_whatform(&attribute);
	if (dwarf_getlocation_addr(&attribute, address, &ops, &count, 1) != 1 || !count)
		return none;
	if (by_address)
		return of_address(ops, count);
	if (count == 1)
		return of_one(function, ops,
			      form == DW_FORM_exprloc || form == DW_FORM_block1 || form == DW_FORM_block);
	if (count == 2 && ops[1].atom == DW_OP_stack_value &&
	    (ops[0].atom == DW_OP_entry_value || ops[0].atom == DW_OP_GNU_entry_value))
		return of_entry(&attribute, ops);
	return ops[count - 1].atom == DW_OP_stack_value ? of_converted(ops, count) : of_two(ops, count);
}
