/*
 * Buckets (bucket.h).  Context: host.  Pure.
 */
#include <stdlib.h>

#include "bucket.h"
#include "emit.h"

bool bucket_suits(const struct spec_field *field)
{
	if (field->caller == SPEC_STACK)
		return false;
	switch (field->type) {
	case SPEC_UNSIGNED:
	case SPEC_SIGNED:
	case SPEC_HEX:
	case SPEC_BOOL:
	case SPEC_CHAR:
	case SPEC_ENUM:
		return true;
	default:
		return false;
	}
}

bool bucket_has_sign(const struct spec_field *field)
{
	return field->type == SPEC_SIGNED || field->is_signed;
}

/*
 * Powers of two: all bits below the highest one that is set are set, too, and what that is times FACTOR has other upper
 * bits for each of the 65 numbers that it may be.
 */
#define FACTOR	 UINT64_C(0xe832eb7369878d4f)
#define SHIFT	 57
#define NEGATIVE 128u

/* A last index is for calls without a number. */
#define NUMBERLESS (CALLTAP_MAP_RANGES_MAX - 1)
_Static_assert(BUCKETS_MAX + 2 <= NUMBERLESS && NEGATIVE < NUMBERLESS, "it is no range's");

static void put_log2(struct fetch *out)
{
	for (int32_t bits = 1; bits < 64; bits *= 2) {
		put_move(out, BPF_REG_1, VALUE);
		put_alu(out, BPF_RSH, BPF_REG_1, bits);
		put_alu_of(out, BPF_OR, VALUE, BPF_REG_1);
	}
	put_wide(out, BPF_REG_1, FACTOR);
	put_alu_of(out, BPF_MUL, VALUE, BPF_REG_1);
	put_alu(out, BPF_RSH, VALUE, SHIFT);
}

/* The index of a number from `low` on whose distance from there has 63 bits. */
static void put_linear(struct fetch *out, const struct buckets *buckets)
{
	uint32_t within;

	put_alu_of(out, BPF_SUB, VALUE, BPF_REG_1);
	put_alu(out, BPF_DIV, VALUE, buckets->step);
	within = put_test(out, BPF_JLT, VALUE, buckets->count);
	put_number(out, VALUE, buckets->count);
	put_target(out, within);
	put_add(out, VALUE, 1);
}

/*
 * VALUE becomes the index.  With low > 0 a number without sign from 2^63 on is above all buckets, and one with sign
 * below 0 is below them.
 */
static void put_index(struct fetch *out, const struct buckets *buckets, bool has_sign)
{
	bool linear = buckets->kind == BUCKET_LINEAR;
	uint32_t usual, end = 0;

	if (linear || has_sign) {
		usual = put_test(out, BPF_JSGE, VALUE, 0);
		if (!has_sign)
			put_number(out, VALUE, buckets->count + 1);
		else if (!linear)
			put_number(out, VALUE, NEGATIVE);
		if (!linear || !has_sign)
			end = put_way(out);
		put_target(out, usual);
	}
	if (linear) {
		uint32_t from;

		put_wide(out, BPF_REG_1, (uint64_t)buckets->low);
		from = put_compare(out, BPF_JSGE, VALUE, BPF_REG_1);
		put_number(out, VALUE, 0);
		usual = put_way(out);
		put_target(out, from);
		put_linear(out, buckets);
		put_target(out, usual);
	} else {
		put_log2(out);
	}
	if (end)
		put_target(out, end);
}

void bucket_put(struct fetch *out, const struct buckets *buckets, bool has_sign, bool may_fault)
{
	uint32_t none;

	put_index(out, buckets, has_sign);
	if (may_fault) { /* its bit is the lowest one: then all bits of the last index are set */
		put_alu(out, BPF_MUL, FAULTS, (int32_t)NUMBERLESS);
		put_alu_of(out, BPF_OR, VALUE, FAULTS);
	}
	none = put_lookup(out, CALLTAP_MAP_RANGES, VALUE);
	put_number(out, BPF_REG_1, 1);
	put_atomic(out, BPF_ADD, BPF_REG_0, 0, BPF_REG_1);
	put_target(out, none);
}

static uint64_t sum_at(const struct calltap_map *map, uint32_t index)
{
	uint64_t sum = 0;

	for (uint32_t lane = 0; lane < CALLTAP_MAP_LANES; lane++)
		sum += __atomic_load_n(&map->ranges[lane][index], __ATOMIC_RELAXED);
	return sum;
}

void bucket_read(struct tallied_ranges *out, const struct calltap_map *map, const struct buckets *buckets)
{
	*out = (struct tallied_ranges){.numberless = sum_at(map, NUMBERLESS)};
	if (buckets->kind == BUCKET_LINEAR) {
		for (uint32_t i = 0; i < (uint32_t)buckets->count + 2; i++)
			out->counts[i] = sum_at(map, i);
		return;
	}
	out->counts[0] = sum_at(map, NEGATIVE);
	for (uint32_t bits = 0; bits <= 64; bits++)
		out->counts[bits + 1] =
			sum_at(map, (uint32_t)((bits ? ~(uint64_t)0 >> (64 - bits) : 0) * FACTOR >> SHIFT));
}

void bucket_change(struct spec *spec, const struct buckets *buckets)
{
	struct spec_field *field = &spec->fields[0];

	field->type = buckets->kind == BUCKET_LINEAR || bucket_has_sign(field) ? SPEC_SIGNED : SPEC_UNSIGNED;
	field->size = 8;
	field->is_signed = false;
	free(field->c_type);
	free(field->more);
	field->c_type = field->more = NULL;
}
