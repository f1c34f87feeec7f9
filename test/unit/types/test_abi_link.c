/* Where the calling conventions of AArch64 and RISC-V have arguments and results: examples and corners. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "host/types/abi.h"

#define PLACE_MAX 64

/* Types by their parts, "i4@0 f8@8"; the size and what is special follow. */
struct kind {
	const char *parts;
	uint32_t size, align;
	bool has_union, has_bits, realigned;
};

#define KIND(of, bytes, by, ...)                                                                                       \
	{                                                                                                              \
		.parts = (of), .size = (bytes), .align = (by), ##__VA_ARGS__                                           \
	}
static const struct kind number = KIND("i4@0", 4, 4), real = KIND("f8@0", 8, 8), single = KIND("f4@0", 4, 4);
static const struct kind two = KIND("i8@0 i8@8", 16, 8), three = KIND("i4@0 i4@4 i4@8", 12, 4),
			 large = KIND("i8@0 i8@8 i8@16", 24, 8);
static const struct kind int128 = KIND("i16@0", 16, 16), quad = KIND("f16@0", 16, 16);
static const struct kind floats = KIND("f4@0 f4@4", 8, 4), doubles = KIND("f8@0 f8@8 f8@16 f8@24", 32, 8);
static const struct kind five = KIND("f4@0 f4@4 f4@8 f4@12 f4@16", 20, 4), mixed = KIND("f8@0 i4@8", 16, 8);
static const struct kind close = KIND("i1@0 f4@4", 8, 4), unlike = KIND("f4@0 f8@8", 16, 8), boxed = KIND("f8@0", 8, 8);
static const struct kind either = KIND("i8@0 f4@0", 8, 8, .has_union = true),
			 alike = KIND("f4@0", 4, 4, .has_union = true);
static const struct kind bits = KIND("i4@0 f4@4", 8, 4, .has_bits = true),
			 aligned = KIND("i8@0", 16, 16, .realigned = true);
static const struct kind nothing = KIND("", 0, 1);

static struct abi_type type_of(const struct abi *abi, const struct kind *kind)
{
	struct abi_type type = {.size = kind->size,
				.align = kind->align,
				.has_union = kind->has_union,
				.has_bits = kind->has_bits,
				.realigned = kind->realigned};
	int used;

	for (const char *at = kind->parts; *at; at += used) {
		struct abi_leaf leaf;
		unsigned size, offset;
		char class;

		assert_int_equal(sscanf(at, " %c%u@%u%n", &class, &size, &offset, &used), 3);
		leaf = (struct abi_leaf){class == 'f' ? ABI_VECTOR : ABI_INTEGER, (uint8_t)size, offset};
		if (type.leaf_count < ABI_LEAVES)
			type.leaves[type.leaf_count] = leaf;
		type.leaf_count += type.leaf_count <= ABI_LEAVES;
		for (uint32_t half = offset / 8; half <= (offset + size - 1) / 8 && half < 2; half++)
			if (type.halves[half] != ABI_INTEGER)
				type.halves[half] = leaf.class;
	}
	abi->settle(&type);
	return type;
}

static void write_place(char *out, const struct abi_place *place)
{
	switch (place->at) {
	case ABI_AT_REGISTERS:
		*out = 0;
		for (unsigned i = 0; i < place->count; i++)
			sprintf(out + strlen(out), "%s%c%u", i ? " " : "", place->pieces[i] & ABI_IN_VECTOR ? 'v' : 'r',
				place->pieces[i] & ~ABI_IN_VECTOR);
		if (place->count > 1 && place->step != 8)
			sprintf(out + strlen(out), " by %u", place->step);
		if (place->split)
			strcat(out, " s0");
		break;
	case ABI_AT_STACK:
		sprintf(out, "s%u", place->offset);
		break;
	default:
		strcpy(out, place->at == ABI_AT_NOTHING ? "nothing" : "unknown");
	}
}

/* Kinds of arguments, and where each is; the first one is of the result, NULL = none. */
struct example {
	const struct kind *kind;
	const char *where;
};

static void check(const struct abi *abi, const struct kind *result, const char *returned, const struct example *list)
{
	char text[PLACE_MAX];
	struct abi_walk walk;
	struct abi_place place;

	if (result) {
		struct abi_type type = type_of(abi, result);

		place = abi->result(&type);
		write_place(text, &place);
		assert_string_equal(text, returned);
		abi->begin(&walk, &type);
	} else {
		abi->begin(&walk, NULL);
	}
	for (; list->kind; list++) {
		struct abi_type type = type_of(abi, list->kind);

		place = abi->next(&walk, &type);
		write_place(text, &place);
		assert_string_equal(text, list->where);
	}
}

#define check_all(abi, result, returned, ...)                                                                          \
	check(abi, result, returned, (const struct example[]){__VA_ARGS__, {NULL, NULL}})

static void aarch64_counts_apart(void **state)
{
	check_all(&abi_aarch64, &number, "r0", {&number, "r0"}, {&real, "v0"}, {&two, "r1 r2"}, {&single, "v1"},
		  {&three, "r3 r4"}, {&nothing, "nothing"}, {&floats, "v2 v3 by 4"}, {&number, "r5"});
	check_all(&abi_aarch64, &doubles, "v0 v1 v2 v3", {&doubles, "v0 v1 v2 v3"}, {&floats, "v4 v5 by 4"},
		  {&mixed, "r0 r1"}, {&close, "r2"}, {&unlike, "r3 r4"}, {&either, "r5"}, {&alike, "v6"});
	check_all(&abi_aarch64, &floats, "v0 v1 by 4", {&quad, "v0"});
}

/* A large structure is copied; its address goes in its place.  A large result's goes in x8, which is no argument. */
static void aarch64_copies(void **state)
{
	check_all(&abi_aarch64, &large, "unknown", {&large, "r0"}, {&five, "r1"}, {&number, "r2"});
	check_all(&abi_aarch64, &two, "r0 r1", {&number, "r0"});
}

static void aarch64_aligns(void **state)
{
	check_all(&abi_aarch64, &int128, "r0 r1", {&number, "r0"}, {&int128, "r2 r3"}, {&number, "r4"},
		  {&int128, "r6 r7"}, {&number, "s0"}, {&int128, "s16"}, {&number, "s32"});
	check_all(&abi_aarch64, NULL, NULL, {&aligned, "unknown"}, {&number, "unknown"});
}

/* What does not fit goes to the stack whole, and takes what was left of the registers with it. */
static void aarch64_ends(void **state)
{
	check_all(&abi_aarch64, NULL, NULL, {&two, "r0 r1"}, {&two, "r2 r3"}, {&two, "r4 r5"}, {&number, "r6"},
		  {&two, "s0"}, {&number, "s16"}, {&real, "v0"}, {&large, "s24"});
	check_all(&abi_aarch64, NULL, NULL, {&doubles, "v0 v1 v2 v3"}, {&real, "v4"}, {&real, "v5"}, {&doubles, "s0"},
		  {&single, "s32"}, {&number, "r0"}, {&quad, "s48"});
}

static void riscv64_flattens(void **state)
{
	check_all(&abi_riscv64, &mixed, "v0 r0", {&number, "r0"}, {&real, "v0"}, {&mixed, "v1 r1"},
		  {&close, "r2 v2 by 4"}, {&floats, "v3 v4 by 4"}, {&unlike, "v5 v6"}, {&boxed, "v7"},
		  {&nothing, "nothing"}, {&real, "r3"}, {&mixed, "r4 r5"}, {&floats, "r6"}, {&number, "r7"},
		  {&real, "s0"});
	check_all(&abi_riscv64, &floats, "v0 v1 by 4", {&either, "r0"}, {&alike, "r1"}, {&three, "r2 r3"},
		  {&quad, "r4 r5"}, {&bits, "unknown"}, {&number, "unknown"});
	/* With one of two registers missing the whole goes as integers. */
	check_all(&abi_riscv64, NULL, NULL, {&two, "r0 r1"}, {&two, "r2 r3"}, {&two, "r4 r5"}, {&two, "r6 r7"},
		  {&mixed, "s0"}, {&floats, "v0 v1 by 4"}, {&real, "v2"}, {&close, "s16"});
}

static void riscv64_splits(void **state)
{
	check_all(&abi_riscv64, NULL, NULL, {&two, "r0 r1"}, {&two, "r2 r3"}, {&two, "r4 r5"}, {&number, "r6"},
		  {&two, "r7 s0"}, {&number, "s8"}, {&int128, "s16"}, {&number, "s32"});
}

/* A large structure is copied; its address goes in its place, and that of a large result is the first argument. */
static void riscv64_copies(void **state)
{
	check_all(&abi_riscv64, &large, "unknown", {&number, "r1"}, {&large, "r2"}, {&five, "r3"}, {&doubles, "r4"});
	check_all(&abi_riscv64, &aligned, "unknown", {&number, "unknown"});
	check_all(&abi_riscv64, &int128, "r0 r1", {&number, "r0"}, {&int128, "r1 r2"});
}

static void registers_have_their_numbers(void **state)
{
	assert_int_equal(abi_integer_of(&abi_aarch64, 7), 7);
	assert_int_equal(abi_integer_of(&abi_aarch64, 8), -1);
	assert_int_equal(abi_vector_of(&abi_aarch64, 64), 0);
	assert_int_equal(abi_vector_of(&abi_aarch64, 72), -1);
	assert_int_equal(abi_integer_of(&abi_riscv64, 10), 0);
	assert_int_equal(abi_integer_of(&abi_riscv64, 18), -1);
	assert_int_equal(abi_integer_of(&abi_riscv64, 9), -1);
	assert_int_equal(abi_vector_of(&abi_riscv64, 42), 0);
	assert_int_equal(abi_vector_of(&abi_riscv64, 50), -1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(aarch64_counts_apart), cmocka_unit_test(aarch64_copies),
		cmocka_unit_test(aarch64_aligns),	cmocka_unit_test(aarch64_ends),
		cmocka_unit_test(riscv64_flattens),	cmocka_unit_test(riscv64_splits),
		cmocka_unit_test(riscv64_copies),	cmocka_unit_test(registers_have_their_numbers),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
