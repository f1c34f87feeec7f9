/*
 * The calling convention of x86-64 (abi.h).
 * Source: System V Application Binary Interface, AMD64 Architecture Processor Supplement 1.0, 3.2.3 and 3.6.2.
 *
 * Context: host.  Pure.
 */
#include <elf.h>
#include <stddef.h>

#include "abi.h"

#define INTEGERS 6u
#define VECTORS	 8u

static void settle(struct abi_type *type)
{
	if (type->size > 8 && type->size <= 16 && type->halves[1] == ABI_NOTHING && type->halves[0] != ABI_MEMORY)
		type->halves[0] = ABI_UNKNOWN;
	else if (type->size > 16 || type->halves[0] == ABI_MEMORY || type->halves[1] == ABI_MEMORY)
		type->halves[0] = ABI_MEMORY, type->halves[1] = ABI_NOTHING;
	type->x87 = type->x87 && type->size == 16;
}

static void begin(struct abi_walk *walk, const struct abi_type *result)
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
	/* An __int128 is passed in another way by Clang before 18: half of it in the last register, or at any multiple
	 * of 8.
	 */
	if (type->align == 16 && type->halves[0] == ABI_INTEGER) {
		walk->lost = true;
		return (struct abi_place){.at = ABI_AT_UNKNOWN};
	}
	return abi_on_stack(walk, type, type->align > 8 ? type->align : 8);
}

static struct abi_place next(struct abi_walk *walk, const struct abi_type *type)
{
	uint32_t integers = abi_count(type, ABI_INTEGER), vectors = abi_count(type, ABI_VECTOR);
	struct abi_place place;

	walk->lost |= type->halves[0] == ABI_UNKNOWN;
	if (walk->lost)
		return (struct abi_place){.at = ABI_AT_UNKNOWN};
	if (type->halves[0] == ABI_MEMORY)
		return on_stack(walk, type);
	if (!integers && !vectors)
		return (struct abi_place){.at = ABI_AT_NOTHING};
	/* All of it in registers, or nothing. */
	if (walk->integers + integers > INTEGERS || walk->vectors + vectors > VECTORS)
		return on_stack(walk, type);
	place = abi_by_halves(type, walk->integers, walk->vectors);
	walk->integers += integers;
	walk->vectors += vectors;
	return place;
}

static struct abi_place result_of(const struct abi_type *type)
{
	if (type->halves[0] == ABI_MEMORY && !type->x87)
		return (struct abi_place){.at = ABI_AT_ADDRESS};
	if (type->halves[0] == ABI_UNKNOWN || type->halves[0] == ABI_MEMORY)
		return (struct abi_place){.at = ABI_AT_UNKNOWN};
	return abi_by_halves(type, 0, 0);
}

const struct abi abi_x86_64 = {
	.machine = EM_X86_64,
	.frame = 6, /* rbp */
	.stack = 7, /* rsp, where the return address is */
	.first = 8,
	.integers = INTEGERS,
	.vectors = VECTORS,
	.settle = settle,
	.begin = begin,
	.next = next,
	.result = result_of,
	.integer_numbers = {5, 4, 1, 2, 8, 9}, /* rdi rsi rdx rcx r8 r9 */
	.first_vector = 17,		       /* xmm0 */
};
