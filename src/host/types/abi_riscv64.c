/*
 * The calling convention LP64D of RISC-V (abi.h).
 * Source: RISC-V ELF psABI 1.0, 2.1 and 2.2; RISC-V DWARF Specification 1.0, table 1.
 *
 * Context: host.  Pure.
 */
#include <elf.h>
#include <stddef.h>

#include "abi.h"

#define REGISTERS 8u /* a0 to a7, fa0 to fa7 */

/* The class of the type's only number, or of each of its two, if floating-point registers are for it. */
static bool is_flat(const struct abi_type *type)
{
	bool real = false;

	if (type->has_union || !type->leaf_count || type->leaf_count > 2)
		return false;
	for (unsigned i = 0; i < type->leaf_count; i++) {
		if (type->leaves[i].size > 8)
			return false;
		real |= type->leaves[i].class == ABI_VECTOR;
	}
	return real;
}

/* Is it one of which compilers differ, or that nobody has in mind? */
static bool is_odd(const struct abi_type *type)
{
	uint32_t second = type->leaves[1].offset;

	return type->has_bits || type->has_empty || type->leaves[0].offset ||
	       (type->leaf_count == 2 && second != 4 && second != 8);
}

static void settle(struct abi_type *type)
{
	if (!type->size)
		return;
	type->x87 = false;
	if (type->size > 16) {
		abi_make_address(type);
	} else if (type->realigned || (is_flat(type) && is_odd(type))) {
		type->halves[0] = ABI_UNKNOWN;
	} else if (is_flat(type)) {
		type->halves[0] = type->leaves[0].class;
		type->halves[1] = type->leaf_count == 2 ? type->leaves[1].class : ABI_NOTHING;
	} else {
		type->halves[0] = ABI_INTEGER;
		type->halves[1] = type->size > 8 ? ABI_INTEGER : ABI_NOTHING;
	}
}

static void begin(struct abi_walk *walk, const struct abi_type *result)
{
	*walk = (struct abi_walk){0};
	if (!result)
		return;
	/* The address of a result in memory is a hidden first argument. */
	walk->integers = result->by_address;
	walk->lost = result->halves[0] == ABI_UNKNOWN;
}

static struct abi_place in_registers(struct abi_walk *walk, const struct abi_type *type)
{
	struct abi_place place = abi_by_halves(type, walk->integers, walk->vectors);

	walk->integers += abi_count(type, ABI_INTEGER);
	walk->vectors += abi_count(type, ABI_VECTOR);
	if (place.count == 2 && abi_count(type, ABI_VECTOR))
		place.step = (uint8_t)type->leaves[1].offset;
	return place;
}

/* As integers: in registers, on the stack, or with the one half in the last register. */
static struct abi_place as_integers(struct abi_walk *walk, const struct abi_type *type)
{
	struct abi_place place = {.at = ABI_AT_REGISTERS, .step = 8};

	for (uint64_t at = 0; at < type->size && walk->integers < REGISTERS; at += 8)
		place.pieces[place.count++] = abi_integer(walk->integers++);
	if (!place.count)
		return abi_on_stack(walk, type, type->align > 8 ? type->align : 8);
	place.split = type->size > 8ull * place.count;
	if (place.split)
		walk->stack = 8; /* nothing is there before the registers end */
	return place;
}

static struct abi_place next(struct abi_walk *walk, const struct abi_type *type)
{
	uint32_t vectors = abi_count(type, ABI_VECTOR), integers = abi_count(type, ABI_INTEGER);

	walk->lost |= type->halves[0] == ABI_UNKNOWN;
	if (walk->lost)
		return (struct abi_place){.at = ABI_AT_UNKNOWN};
	if (type->halves[0] == ABI_NOTHING)
		return (struct abi_place){.at = ABI_AT_NOTHING};
	if (!vectors || walk->vectors + vectors > REGISTERS || walk->integers + integers > REGISTERS)
		return as_integers(walk, type);
	return in_registers(walk, type);
}

/* As a first argument; nothing says that a0 still has the address of a result in memory. */
static struct abi_place result_of(const struct abi_type *type)
{
	struct abi_walk walk = {0};

	if (type->by_address)
		return (struct abi_place){.at = ABI_AT_UNKNOWN};
	return next(&walk, type);
}

const struct abi abi_riscv64 = {
	.machine = EM_RISCV,
	.frame = 8, /* s0 */
	.stack = 2,
	.integers = REGISTERS,
	.vectors = REGISTERS,
	.settle = settle,
	.begin = begin,
	.next = next,
	.result = result_of,
	.integer_numbers = {10, 11, 12, 13, 14, 15, 16, 17},
	.first_vector = 42, /* fa0 */
};
