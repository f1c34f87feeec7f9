/* Where the calling convention of x86-64 has arguments: examples of the psABI's text and its corners. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "host/types/abi.h"

static const struct abi_type number = {.halves = {ABI_INTEGER}, .size = 4, .align = 4},
			     real = {.halves = {ABI_VECTOR}, .size = 8, .align = 8};
static const struct abi_type two = {.halves = {ABI_INTEGER, ABI_INTEGER}, .size = 16, .align = 8},
			     mixed = {.halves = {ABI_VECTOR, ABI_INTEGER}, .size = 16, .align = 8};
static const struct abi_type large = {.halves = {ABI_MEMORY}, .size = 40, .align = 8},
			     wide = {.halves = {ABI_MEMORY}, .size = 16, .align = 16, .x87 = true};
static const struct abi_type unknown = {.halves = {ABI_UNKNOWN}}, nothing = {.halves = {ABI_NOTHING}};
static const struct abi_type int128 = {.halves = {ABI_INTEGER, ABI_INTEGER}, .size = 16, .align = 16};

static void in_vector(struct abi_walk *walk, const struct abi_type *type, unsigned vector)
{
	struct abi_place place = abi_x86_64.next(walk, type);

	assert_int_equal(place.at, ABI_AT_REGISTERS);
	assert_int_equal(place.count, 1);
	assert_int_equal(place.pieces[0], abi_vector(vector));
}

/* Is this register its first one of integers? */
static bool has_integer(const struct abi_place *place, unsigned integer)
{
	unsigned i = 0;

	while (i < place->count && place->pieces[i] & ABI_IN_VECTOR)
		i++;
	return i < place->count && place->pieces[i] == abi_integer(integer);
}

static void in_register(struct abi_walk *walk, const struct abi_type *type, unsigned integer)
{
	struct abi_place place = abi_x86_64.next(walk, type);

	assert_int_equal(place.at, ABI_AT_REGISTERS);
	assert_true(has_integer(&place, integer));
}

static void on_stack(struct abi_walk *walk, const struct abi_type *type, uint32_t offset)
{
	struct abi_place place = abi_x86_64.next(walk, type);

	assert_int_equal(place.at, ABI_AT_STACK);
	assert_int_equal(place.offset, offset);
}

static void is_unknown(struct abi_walk *walk, const struct abi_type *type)
{
	assert_int_equal(abi_x86_64.next(walk, type).at, ABI_AT_UNKNOWN);
}

/* psABI 3.2.3, figures 3.5 and 3.6: func(e, f, s, g, h, ld, m, y, n, i, j, k), less the vector y. */
static void the_example_of_the_convention(void **state)
{
	struct abi_walk walk;

	abi_x86_64.begin(&walk, NULL);
	in_register(&walk, &number, 0);
	in_register(&walk, &number, 1);
	in_register(&walk, &mixed, 2);
	in_register(&walk, &number, 3);
	in_register(&walk, &number, 4);
	on_stack(&walk, &wide, 0);
	in_vector(&walk, &real, 1);
	in_vector(&walk, &real, 2);
	in_register(&walk, &number, 5);
	on_stack(&walk, &number, 16);
	on_stack(&walk, &number, 24);
}

/* What does not fit goes to memory whole, and leaves the registers to what comes behind. */
static void values_are_not_split(void **state)
{
	struct abi_walk walk;

	abi_x86_64.begin(&walk, NULL);
	for (unsigned i = 0; i < 5; i++)
		in_register(&walk, &number, i);
	on_stack(&walk, &two, 0);
	in_register(&walk, &number, 5);
	on_stack(&walk, &large, 16);
	on_stack(&walk, &wide, 64); /* 56 is no multiple of 16 */
	on_stack(&walk, &number, 80);
}

static void vectors_end_likewise(void **state)
{
	struct abi_walk walk;

	abi_x86_64.begin(&walk, NULL);
	for (unsigned i = 0; i < abi_x86_64.vectors; i++)
		in_vector(&walk, &real, i);
	on_stack(&walk, &real, 0);
	on_stack(&walk, &mixed, 8);
	in_register(&walk, &number, 0);
}

/* A class of C++ with a destructor of its own. */
static void an_address_goes_as_a_number(void **state)
{
	const struct abi_type class = {.halves = {ABI_INTEGER}, .size = 8, .align = 8, .by_address = true};
	struct abi_walk walk;

	abi_x86_64.begin(&walk, &class);
	in_register(&walk, &class, 1);
	in_register(&walk, &number, 2);
}

static void results_may_take_a_register(void **state)
{
	struct abi_walk walk;

	abi_x86_64.begin(&walk, &large);
	in_register(&walk, &number, 1);
	abi_x86_64.begin(&walk, &two);
	in_register(&walk, &number, 0);
	abi_x86_64.begin(&walk, &unknown);
	is_unknown(&walk, &number);
}

/* Nothing is said of what lies behind something that is not known. */
static void what_is_not_known_hides_the_rest(void **state)
{
	struct abi_walk walk;

	abi_x86_64.begin(&walk, NULL);
	in_register(&walk, &number, 0);
	assert_int_equal(abi_x86_64.next(&walk, &nothing).at, ABI_AT_NOTHING);
	in_register(&walk, &number, 1);
	is_unknown(&walk, &unknown);
	is_unknown(&walk, &number);
	is_unknown(&walk, &large);
}

/* In registers all compilers agree about it, on the stack they do not. */
static void an_int128_on_the_stack_is_not_known(void **state)
{
	struct abi_walk walk;

	abi_x86_64.begin(&walk, NULL);
	in_register(&walk, &int128, 0);
	in_register(&walk, &int128, 2);
	in_register(&walk, &number, 4);
	is_unknown(&walk, &int128);
	is_unknown(&walk, &number);
}

static void aligned_by_more_is_not_known(void **state)
{
	const struct abi_type aligned = {.halves = {ABI_MEMORY}, .size = 64, .align = 64},
			      endless = {.halves = {ABI_MEMORY}, .size = UINT64_MAX, .align = 8};
	struct abi_walk walk;

	abi_x86_64.begin(&walk, NULL);
	is_unknown(&walk, &aligned);
	abi_x86_64.begin(&walk, NULL);
	is_unknown(&walk, &endless);
	is_unknown(&walk, &number);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_example_of_the_convention),
		cmocka_unit_test(values_are_not_split),
		cmocka_unit_test(vectors_end_likewise),
		cmocka_unit_test(an_address_goes_as_a_number),
		cmocka_unit_test(results_may_take_a_register),
		cmocka_unit_test(what_is_not_known_hides_the_rest),
		cmocka_unit_test(an_int128_on_the_stack_is_not_known),
		cmocka_unit_test(aligned_by_more_is_not_known),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
