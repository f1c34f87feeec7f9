/*
 * Classes whose objects have a value or none, as C++'s std::optional of both libraries: where that is told, and where
 * the value lies (types.h).
 *
 * They are known by the names of the class and of its members.
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

/* The structure of a variant, and the variant's number. */
static bool look_at_variant(Dwarf_Die *out, uint64_t *at, uint64_t *number, bool *has_number, Dwarf_Die *variant,
			    const char *name)
{
	Dwarf_Die child;

	*has_number = type_number(number, variant, DW_AT_discr_value);
	return !dwarf_child(variant, &child) && dwarf_tag(&child) == DW_TAG_member && type_name(&child) &&
	       !strcmp(type_name(&child), name) && place(out, at, &child, 0);
}

/* The number that tells the variants apart, which is a bit pattern of the value's own where it has one to spare. */
static bool look_at_number(struct type_optional *out, Dwarf_Die *part)
{
	Dwarf_Attribute attribute;
	Dwarf_Die member, type;
	uint64_t size = 0;

	if (!dwarf_attr(part, DW_AT_discr, &attribute) || !dwarf_formref_die(&attribute, &member) ||
	    !place(&type, &out->guard_at, &member, 0) || !type_number(&size, &type, DW_AT_byte_size) ||
	    (size != 1 && size != 2 && size != 4 && size != 8))
		return false;
	out->guard_size = (uint8_t)size;
	return true;
}

/* Rust's Option: two variants, None and Some. */
static bool find_rust(struct type_optional *out, Dwarf_Die *type)
{
	Dwarf_Die part, child, some, payload;
	uint64_t at = 0, number = 0;
	uint32_t count = 0;
	bool found[2] = {false, false}, has_number;

	if (dwarf_child(type, &part) || dwarf_tag(&part) != DW_TAG_variant_part || !look_at_number(out, &part) ||
	    dwarf_child(&part, &child))
		return false;
	do {
		if (dwarf_tag(&child) != DW_TAG_variant)
			continue;
		count++;
		if (look_at_variant(&some, &at, &number, &has_number, &child, "None") && has_number)
			found[0] = true, out->absent = number;
		else if (look_at_variant(&some, &at, &number, &has_number, &child, "Some"))
			found[1] =
				type_is_class(&some) && !dwarf_child(&some, &payload) && find_first(out, &payload, at);
	} while (count < 3 && !dwarf_siblingof(&child, &child));
	if (out->guard_size < 8)
		out->absent &= (UINT64_C(1) << 8 * out->guard_size) - 1;
	return count == 2 && found[0] && found[1];
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
