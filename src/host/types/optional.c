/*
 * Classes whose objects have a value or none, as C++'s std::optional of both libraries, and enumerations of Rust, whose
 * values have one of several structures: where it is told which, and where the value lies (types.h).
 *
 * The classes are known by their names and their members'; Rust's DWARF has variant parts (DWARF 5, 5.7.10).
 *
 * Callers: members.c.  Context: host.  DWARF is untrusted.
 */
#include <dwarf.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "impl.h"

#define DEPTH	 8u   /* of base classes */
#define SEEN_MAX 256u /* children of the class, and of its bases and members */

static bool is_called(Dwarf_Die *die, const char *const *names)
{
	const char *name = type_name(die);

	for (; name && *names; names++)
		if (!strcmp(name, *names))
			return true;
	return false;
}

/* As type_place(), but that *at is set. */
static bool place(Dwarf_Die *type, uint64_t *at, Dwarf_Die *member, uint64_t offset)
{
	*at = offset;
	return offset <= UINT32_MAX && type_place(type, at, member);
}

static bool is_bool(Dwarf_Die *type)
{
	uint64_t size = 0, encoding = 0;

	return dwarf_tag(type) == DW_TAG_base_type && type_number(&size, type, DW_AT_byte_size) && size == 1 &&
	       type_number(&encoding, type, DW_AT_encoding) && encoding == DW_ATE_boolean;
}

/* What is found so far. */
struct search {
	struct type_optional *out;
	bool guard, value;
	uint32_t seen;
};

/* The union that has the value, or nothing. */
static void look_at_union(struct search *search, Dwarf_Die *type, uint64_t offset)
{
	static const char *const values[] = {"_M_value", "__val_", NULL};
	Dwarf_Die child;

	if (dwarf_child(type, &child))
		return;
	while (!search->value && search->seen++ < SEEN_MAX) {
		Dwarf_Die peeled;

		if (dwarf_tag(&child) == DW_TAG_member && is_called(&child, values) &&
		    place(&peeled, &search->out->value_at, &child, offset) && type_of(&search->out->value, &child))
			search->value = true;
		if (dwarf_siblingof(&child, &child))
			return;
	}
}

static void look_at_class(struct search *search, Dwarf_Die *class, uint64_t offset, uint32_t depth)
{
	static const char *const guards[] = {"_M_engaged", "__engaged_", NULL}, *const payloads[] = {"_M_payload",
												     NULL};
	Dwarf_Die child;

	if (depth == DEPTH || dwarf_child(class, &child))
		return;
	while (!(search->guard && search->value) && search->seen++ < SEEN_MAX) {
		int tag = dwarf_tag(&child);
		uint64_t at;
		Dwarf_Die type;

		if ((tag == DW_TAG_member || tag == DW_TAG_inheritance) && place(&type, &at, &child, offset)) {
			if (tag == DW_TAG_member && is_called(&child, guards) && is_bool(&type))
				search->guard = true, search->out->guard_at = at;
			else if (dwarf_tag(&type) == DW_TAG_union_type)
				look_at_union(search, &type, at);
			else if (type_is_class(&type) && (tag == DW_TAG_inheritance || is_called(&child, payloads)))
				look_at_class(search, &type, at, depth + 1);
		}
		if (dwarf_siblingof(&child, &child))
			return;
	}
}

static bool begins_with(const char *text, const char *front)
{
	return text && !strncmp(text, front, strlen(front));
}

/* The first member among an entry's children: what Some has. */
static bool find_first(struct type_optional *out, Dwarf_Die *child, uint64_t offset)
{
	Dwarf_Die peeled;

	do {
		if (dwarf_tag(child) == DW_TAG_member)
			return place(&peeled, &out->value_at, child, offset) && type_of(&out->value, child);
	} while (!dwarf_siblingof(child, child));
	return false;
}

/* A variant's name, number and structure. */
static bool look_at_variant(struct type_variant *out, Dwarf_Die *variant)
{
	Dwarf_Die child;

	*out = (struct type_variant){.has_number = dwarf_hasattr(variant, DW_AT_discr_value)};
	if (out->has_number && !type_number(&out->number, variant, DW_AT_discr_value))
		return false;
	if (dwarf_child(variant, &child) || dwarf_tag(&child) != DW_TAG_member)
		return false;
	out->name = type_name(&child);
	return out->name && out->name[0] && !strpbrk(out->name, ",=:.") && place(&out->type, &out->at, &child, 0) &&
	       type_is_class(&out->type);
}

/*
 * The number that tells the variants apart, which is a bit pattern of the value's own where it has one to spare.  Where
 * there is one variant, there is no number.
 */
static bool look_at_number(struct type_variants *out, Dwarf_Die *part)
{
	Dwarf_Attribute attribute;
	Dwarf_Die member, type;
	uint64_t size = 0;

	out->size = 1;
	if (!dwarf_attr(part, DW_AT_discr, &attribute))
		return true;
	if (!dwarf_formref_die(&attribute, &member) || !place(&type, &out->at, &member, 0) ||
	    !type_number(&size, &type, DW_AT_byte_size) || (size != 1 && size != 2 && size != 4 && size != 8))
		return false;
	out->size = (uint8_t)size;
	out->has_number = true;
	return true;
}

/*
 * What has all numbers but those of the others: these follow each other, also from the largest to 0, less its own,
 * which it never has.
 */
static bool find_others(struct type_variants *variants)
{
	uint64_t mask = type_all_bits(variants->size);

	for (uint32_t i = 0; i < variants->count; i++) {
		uint64_t most = 0;

		if (!variants->list[i].has_number)
			continue;
		for (uint32_t k = 0; k < variants->count; k++) {
			uint64_t behind = (variants->list[k].number - variants->list[i].number) & mask;

			if (variants->list[k].has_number && behind > most)
				most = behind;
		}
		if (most >= variants->count)
			continue;
		variants->first = variants->list[i].number;
		variants->span = most;
		return true;
	}
	return false;
}

bool type_variants_find(struct type_variants *out, Dwarf_Die *type)
{
	uint32_t others = 0;
	Dwarf_Die part, child;

	out->count = 0;
	out->at = 0;
	out->has_number = false;
	if (!type_is_class(type) || dwarf_child(type, &part) || dwarf_tag(&part) != DW_TAG_variant_part ||
	    !look_at_number(out, &part) || dwarf_child(&part, &child))
		return false;
	do {
		struct type_variant *variant = &out->list[out->count];

		if (dwarf_tag(&child) != DW_TAG_variant)
			continue;
		if (out->count == TYPES_VARIANTS || !look_at_variant(variant, &child))
			return false;
		variant->number &= type_all_bits(out->size);
		others += !variant->has_number;
		out->count++;
	} while (!dwarf_siblingof(&child, &child));
	if (!out->has_number)
		return out->count == 1 && others == 1;
	return out->count && others <= 1 && (!others || find_others(out));
}

/* Rust's Option: two variants, None and Some. */
static bool find_rust(struct type_optional *out, Dwarf_Die *type)
{
	const struct type_variant *none, *some;
	struct type_variants variants;
	Dwarf_Die payload, class;

	if (!type_variants_find(&variants, type) || variants.count != 2)
		return false;
	none = &variants.list[strcmp(variants.list[0].name, "None") != 0];
	some = &variants.list[none == &variants.list[0]];
	if (strcmp(none->name, "None") != 0 || !none->has_number || strcmp(some->name, "Some") != 0)
		return false;
	out->absent = none->number;
	out->guard_at = variants.at;
	out->guard_size = variants.size;
	class = some->type;
	return !dwarf_child(&class, &payload) && find_first(out, &payload, some->at);
}

bool type_optional_find(struct type_optional *out, Dwarf_Die *type)
{
	struct search search = {.out = out};

	*out = (struct type_optional){.guard_size = 1, .none = "nullopt"};
	if (type_is_class(type) && begins_with(type_name(type), "Option<")) {
		out->none = "None";
		return find_rust(out, type);
	}
	if (!type_is_class(type) || !begins_with(type_name(type), "optional<"))
		return false;
	look_at_class(&search, type, 0, 0);
	return search.guard && search.value;
}
