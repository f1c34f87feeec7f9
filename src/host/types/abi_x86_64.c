/*
 * Handing out registers and words of the stack to arguments in turn (abi_x86_64.h).  Context: host.  Pure.
 */
#include "abi_x86_64.h"

#define XMM0	  17u		      /* DWARF's number */
#define STACK_MAX (UINT64_C(1) << 20) /* bytes of arguments; beyond, nothing is known */

static uint8_t count_of(const struct abi_type *type, enum abi_class class)
{
	return (uint8_t)((type->halves[0] == class) + (type->halves[1] == class));
}

void abi_begin(struct abi_walk *walk, const struct abi_type *result)
{
	*walk = (struct abi_walk){0};
	if (!result)
		return;
	/* The address of a result in memory is a hidden first argument. */
	walk->integers = result->by_address || (result->halves[0] == ABI_MEMORY && !result->x87);
	walk->lost = result->halves[0] == ABI_UNKNOWN;
}

static struct abi_place on_stack(struct abi_walk *walk, const struct abi_type *type)
{
	uint64_t align = type->align > 8 ? type->align : 8;
	uint64_t at = (walk->stack + align - 1) / align * align;

	/*
	 * The convention says it of multiples of 16 bytes at the most.  An __int128 is passed in another way by Clang
	 * before 18: half of it in the last register, or at any multiple of 8.
	 */
	if (align > 16 || (align == 16 && type->halves[0] == ABI_INTEGER) || type->size > STACK_MAX ||
	    at + type->size > STACK_MAX) {
		walk->lost = true;
		return (struct abi_place){.at = ABI_AT_UNKNOWN};
	}
	walk->stack = at + (type->size + 7) / 8 * 8;
	return (struct abi_place){.at = ABI_AT_STACK, .offset = (uint32_t)at};
}

struct abi_place abi_next(struct abi_walk *walk, const struct abi_type *type)
{
	uint8_t integers = count_of(type, ABI_INTEGER), vectors = count_of(type, ABI_VECTOR);
	struct abi_place place = {.at = ABI_AT_REGISTERS, .integers = integers, .vectors = vectors};

	walk->lost |= type->halves[0] == ABI_UNKNOWN;
	if (walk->lost)
		return (struct abi_place){.at = ABI_AT_UNKNOWN};
	if (type->halves[0] == ABI_MEMORY)
		return on_stack(walk, type);
	if (!integers && !vectors)
		return (struct abi_place){.at = ABI_AT_NOTHING};
	/* All of it in registers, or nothing. */
	if (walk->integers + integers > ABI_INTEGERS || walk->vectors + vectors > ABI_VECTORS)
		return on_stack(walk, type);
	place.integer = (uint8_t)walk->integers;
	place.vector = (uint8_t)walk->vectors;
	walk->integers += integers;
	walk->vectors += vectors;
	return place;
}

bool abi_is_integer(const struct abi_type *type)
{
	return type->halves[0] == ABI_INTEGER && type->halves[1] == ABI_NOTHING && type->size && type->size <= 8;
}

bool abi_is_vector(const struct abi_type *type)
{
	return type->halves[0] == ABI_VECTOR && type->halves[1] == ABI_NOTHING && type->size && type->size <= 8;
}

int abi_vector_of(uint64_t dwarf_number)
{
	return dwarf_number >= XMM0 && dwarf_number < XMM0 + ABI_VECTORS ? (int)(dwarf_number - XMM0) : -1;
}

int abi_integer_of(uint64_t dwarf_number)
{
	static const uint8_t numbers[ABI_INTEGERS] = {5, 4, 1, 2, 8, 9}; /* rdi rsi rdx rcx r8 r9 */

	for (int i = 0; i < (int)ABI_INTEGERS; i++)
		if (numbers[i] == dwarf_number)
			return i;
	return -1;
}
