/*
 * The calling convention of AArch64 on Linux (abi.h).
 * Source: Procedure Call Standard for the Arm 64-bit Architecture (AAPCS64) 2023Q3, 5.9.5 and 6.8; DWARF for the Arm
 * 64-bit Architecture, 4.1.
 *
 * Context: host.  Pure.
 */
#include <elf.h>
#include <stddef.h>

#include "abi.h"

#define REGISTERS 8u /* x0 to x7, v0 to v7 */

/* Up to four floating-point numbers of one size and nothing else: each has a register of its own. */
static bool is_homogeneous(const struct abi_type *type)
{
	uint8_t size = type->leaves[0].size;

	if (!type->leaf_count || type->leaf_count > ABI_LEAVES || type->has_bits ||
	    type->size != (uint64_t)type->leaf_count * size)
		return false;
	for (unsigned i = 0; i < type->leaf_count; i++)
		if (type->leaves[i].class != ABI_VECTOR || type->leaves[i].size != size)
			return false;
	return true;
}

static void settle(struct abi_type *type)
{
	if (!type->size)
		return;
	type->halves[1] = ABI_NOTHING;
	type->x87 = false;
	if (is_homogeneous(type)) {
		type->halves[0] = ABI_VECTOR;
	} else if (type->size > 16) {
		abi_make_address(type);
	} else {
		/* Compilers have disagreed about types that their source aligns. */
		type->halves[0] = type->realigned ? ABI_UNKNOWN : ABI_INTEGER;
	}
}

/* x8 has the address of a result in memory: so no register of arguments is taken, whatever the result is. */
static void begin(struct abi_walk *walk, const struct abi_type *result)
{
	(void)result;
	*walk = (struct abi_walk){0};
}

static struct abi_place in_vectors(const struct abi_type *type, uint32_t first)
{
	struct abi_place place = {.at = ABI_AT_REGISTERS, .step = type->leaves[0].size, .count = type->leaf_count};

	for (unsigned i = 0; i < place.count; i++)
		place.pieces[i] = abi_vector(first + i);
	return place;
}

static struct abi_place in_integers(const struct abi_type *type, uint32_t first)
{
	struct abi_place place = {.at = ABI_AT_REGISTERS, .step = 8, .count = type->size > 8 ? 2 : 1};

	for (unsigned i = 0; i < place.count; i++)
		place.pieces[i] = abi_integer(first + i);
	return place;
}

static struct abi_place next(struct abi_walk *walk, const struct abi_type *type)
{
	bool vector = type->halves[0] == ABI_VECTOR;
	uint32_t *taken = vector ? &walk->vectors : &walk->integers, needed;

	walk->lost |= type->halves[0] == ABI_UNKNOWN;
	if (walk->lost)
		return (struct abi_place){.at = ABI_AT_UNKNOWN};
	if (type->halves[0] == ABI_NOTHING)
		return (struct abi_place){.at = ABI_AT_NOTHING};
	needed = vector ? type->leaf_count : type->size > 8 ? 2 : 1;
	if (!vector && type->align == 16)
		*taken = (*taken + 1) / 2 * 2;
	if (*taken + needed > REGISTERS) {
		*taken = REGISTERS; /* what comes behind has none either */
		return abi_on_stack(walk, type, type->align > 8 ? type->align : 8);
	}
	*taken += needed;
	return vector ? in_vectors(type, *taken - needed) : in_integers(type, *taken - needed);
}

/* Nothing says that x8 still has the address of a result in memory. */
static struct abi_place result_of(const struct abi_type *type)
{
	if (type->halves[0] == ABI_UNKNOWN || type->by_address)
		return (struct abi_place){.at = ABI_AT_UNKNOWN};
	if (type->halves[0] == ABI_NOTHING)
		return (struct abi_place){.at = ABI_AT_NOTHING};
	return type->halves[0] == ABI_VECTOR ? in_vectors(type, 0) : in_integers(type, 0);
}

const struct abi abi_aarch64 = {
	.machine = EM_AARCH64,
	.frame = 29,
	.stack = 31,
	.integers = REGISTERS,
	.vectors = REGISTERS,
	.settle = settle,
	.begin = begin,
	.next = next,
	.result = result_of,
	.integer_numbers = {0, 1, 2, 3, 4, 5, 6, 7},
	.first_vector = 64,
};
