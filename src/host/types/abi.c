/*
 * Calling conventions: the parts that several CPUs' have in common (abi.h).  Context: host.  Pure.
 */
#include <stddef.h>

#include "abi.h"

#define STACK_MAX (UINT64_C(1) << 20) /* bytes of arguments; beyond, nothing is known */

const struct abi *abi_find(uint16_t machine)
{
	static const struct abi *const all[] = {&abi_x86_64, &abi_aarch64, &abi_riscv64};

	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
		if (all[i]->machine == machine)
			return all[i];
	return NULL;
}

int abi_integer_of(const struct abi *abi, uint64_t dwarf_number)
{
	for (int i = 0; i < abi->integers; i++)
		if (abi->integer_numbers[i] == dwarf_number)
			return i;
	return -1;
}

int abi_vector_of(const struct abi *abi, uint64_t dwarf_number)
{
	uint64_t number = dwarf_number - abi->first_vector;

	return number < abi->vectors ? (int)number : -1;
}

uint32_t abi_count(const struct abi_type *type, enum abi_class class)
{
	return (uint32_t)(type->halves[0] == class) + (type->halves[1] == class);
}

struct abi_place abi_by_halves(const struct abi_type *type, uint32_t integer, uint32_t vector)
{
	struct abi_place place = {.at = ABI_AT_REGISTERS, .step = 8};

	for (unsigned i = 0; i < 2; i++) {
		if (type->halves[i] == ABI_INTEGER)
			place.pieces[place.count++] = abi_integer(integer++);
		else if (type->halves[i] == ABI_VECTOR)
			place.pieces[place.count++] = abi_vector(vector++);
	}
	return place;
}

void abi_make_address(struct abi_type *type)
{
	*type = (struct abi_type){.halves = {ABI_INTEGER}, .size = 8, .align = 8, .by_address = true};
}

struct abi_place abi_on_stack(struct abi_walk *walk, const struct abi_type *type, uint64_t align)
{
	uint64_t at = (walk->stack + align - 1) / align * align;

	/* The conventions say it of multiples of 16 bytes at the most. */
	if (align > 16 || type->size > STACK_MAX || at + type->size > STACK_MAX) {
		walk->lost = true;
		return (struct abi_place){.at = ABI_AT_UNKNOWN};
	}
	walk->stack = at + (type->size + 7) / 8 * 8;
	return (struct abi_place){.at = ABI_AT_STACK, .offset = (uint32_t)at};
}
