/*
 * Where the result of a Rust function is.
 *
 * DWARF does not say it, so it follows from the type by what rustc has done since long, in cases where Rust's
 * convention and C's (extern "C", which DWARF does not tell apart) agree, or the type is none of C's: one number is in
 * a register, two, such as &str, in one each, and what is larger than 16 bytes is behind an address that the function
 * returns. Source: rustc, compiler/rustc_ty_utils/src/abi.rs and rustc_abi/src/layout.rs.
 *
 * Callers: rust_read.c.  Context: host.  DWARF is untrusted.
 */
#include <dwarf.h>
#include <string.h>

#include "impl.h"

#define SEEN_MAX 256u /* members, those within among them */

struct scalar {
	uint64_t offset, size;
	bool is_float;
};

/* The numbers that a type is made of. */
struct scalars {
	struct scalar list[2];
	uint32_t count;
	bool others;  /* there is more, or what is none */
	bool unknown; /* nobody knows what there is */
	uint32_t seen;
};

static void gather(struct scalars *scalars, Dwarf_Die *type, uint64_t offset, uint32_t depth);

static void add_scalar(struct scalars *scalars, uint64_t offset, uint64_t size, bool is_float)
{
	if (scalars->count == 2)
		scalars->others = true;
	else
		scalars->list[scalars->count++] = (struct scalar){offset, size, is_float};
}

static void add_base(struct scalars *scalars, Dwarf_Die *type, uint64_t offset)
{
	uint64_t size = 0, encoding = 0;

	if (!type_number(&size, type, DW_AT_byte_size) || size > 8) {
		scalars->unknown = true;
		return;
	}
	(void)type_number(&encoding, type, DW_AT_encoding);
	if (size)
		add_scalar(scalars, offset, size, encoding == DW_ATE_float);
}

static void add_member(struct scalars *scalars, Dwarf_Die *member, uint64_t offset, uint32_t depth)
{
	Dwarf_Die named, type;
	uint64_t at = 0;

	if (scalars->seen++ >= SEEN_MAX || !type_of(&named, member) || !type_peeled(&type, &named) ||
	    !type_number(&at, member, DW_AT_data_member_location) || at > UINT32_MAX) {
		scalars->unknown = true;
		return;
	}
	gather(scalars, &type, offset + at, depth + 1);
}

/* What the variants have that have anything. */
struct payload {
	struct scalars scalars;
	bool any;
	bool others; /* they differ, or one has more than one number */
};

static bool is_same(const struct scalars *one, const struct scalars *other)
{
	return one->count == 1 && other->count == 1 && one->list[0].offset == other->list[0].offset &&
	       one->list[0].size == other->list[0].size && one->list[0].is_float == other->list[0].is_float;
}

static void add_payload(struct payload *payload, Dwarf_Die *type, uint64_t offset, uint32_t depth)
{
	struct scalars scalars = {.seen = payload->scalars.seen + 1};

	if (scalars.seen >= SEEN_MAX)
		scalars.unknown = true;
	else
		gather(&scalars, type, offset, depth + 1);
	payload->scalars.seen = scalars.seen;
	payload->scalars.unknown |= scalars.unknown;
	if (!scalars.count && !scalars.others)
		return;
	if (payload->any)
		payload->others |= scalars.others || !is_same(&payload->scalars, &scalars);
	else
		payload->scalars = scalars;
	payload->any = true;
}

static bool overlaps(const struct scalars *scalars, uint64_t at)
{
	for (uint32_t i = 0; i < scalars->count; i++)
		if (scalars->list[i].offset <= at && at < scalars->list[i].offset + scalars->list[i].size)
			return true;
	return false;
}

/*
 * An enumeration with data is as what its variants have in common, and the number that tells which one there is, unless
 * that is one of a variant's own.
 */
static void add_enumeration(struct scalars *scalars, Dwarf_Die *type, uint64_t offset, uint32_t depth)
{
	struct payload payload = {.scalars = {.seen = scalars->seen}};
	struct type_variants variants;

	if (!type_variants_find(&variants, type)) {
		scalars->unknown = true;
		return;
	}
	for (uint32_t i = 0; i < variants.count && !payload.scalars.unknown; i++)
		add_payload(&payload, &variants.list[i].type, offset + variants.list[i].at, depth);
	scalars->seen = payload.scalars.seen;
	scalars->unknown |= payload.scalars.unknown;
	scalars->others |= payload.scalars.others || payload.others;
	if (variants.has_number && !overlaps(&payload.scalars, offset + variants.at))
		add_scalar(scalars, offset + variants.at, variants.size, false);
	for (uint32_t k = 0; k < payload.scalars.count; k++)
		add_scalar(scalars, payload.scalars.list[k].offset, payload.scalars.list[k].size,
			   payload.scalars.list[k].is_float);
}

static void add_members(struct scalars *scalars, Dwarf_Die *type, uint64_t offset, uint32_t depth)
{
	Dwarf_Die child;

	if (dwarf_hasattr_integrate(type, DW_AT_declaration))
		scalars->unknown = true;
	if (dwarf_child(type, &child))
		return;
	do {
		if (dwarf_tag(&child) == DW_TAG_member)
			add_member(scalars, &child, offset, depth);
		else if (dwarf_tag(&child) == DW_TAG_variant_part)
			add_enumeration(scalars, type, offset, depth);
	} while (!scalars->unknown && !dwarf_siblingof(&child, &child));
}

static void gather(struct scalars *scalars, Dwarf_Die *type, uint64_t offset, uint32_t depth)
{
	uint64_t size = 0;

	if (depth > TYPE_DEPTH) {
		scalars->unknown = true;
		return;
	}
	switch (dwarf_tag(type)) {
	case DW_TAG_pointer_type:
	case DW_TAG_reference_type:
		add_scalar(scalars, offset, 8, false);
		return;
	case DW_TAG_base_type:
		add_base(scalars, type, offset);
		return;
	case DW_TAG_enumeration_type:
		if (!type_number(&size, type, DW_AT_byte_size) || size > 8)
			scalars->unknown = true;
		else if (size)
			add_scalar(scalars, offset, size, false);
		return;
	case DW_TAG_structure_type:
		add_members(scalars, type, offset, depth);
		return;
	default: /* arrays and unions */
		scalars->others = true;
	}
}

/* Is it a type that C has not, and no function of C's convention returns? */
static bool is_rusts_own(Dwarf_Die *type)
{
	const char *name = type_name(type);

	return name && (name[0] == '(' || !strncmp(name, "Option<", sizeof("Option<") - 1) ||
			!strncmp(name, "Result<", sizeof("Result<") - 1));
}

void rust_result(struct rust_result *out, Dwarf_Die *type, uint64_t size)
{
	const struct scalar *first, *second;
	struct scalars scalars = {.count = 0};
	Dwarf_Die peeled;

	*out = (struct rust_result){.at = size > 16 ? RUST_ADDRESS : RUST_ELSEWHERE};
	if (!type_peeled(&peeled, type) || size > 16)
		return;
	gather(&scalars, &peeled, 0, 0);
	if (scalars.unknown)
		return;
	if (scalars.others) {
		out->at = size > 8 ? RUST_ADDRESS : RUST_ELSEWHERE;
		out->maybe = size > 8;
		return;
	}
	first = &scalars.list[0];
	second = &scalars.list[1];
	if (scalars.count == 2 && first->offset > second->offset)
		first = second, second = &scalars.list[0];
	if (!scalars.count || first->offset || (scalars.count == 1 && first->size != size) ||
	    (scalars.count == 2 && first->offset == second->offset))
		return;
	out->at = RUST_PARTS;
	out->is_float[0] = first->is_float;
	if (scalars.count == 1)
		return;
	out->second_at = (uint8_t)second->offset;
	out->is_float[1] = second->is_float;
	out->doubtful = out->second_at != 8 && !is_rusts_own(&peeled);
}
