/*
 * How the calling convention sees a type of DWARF: the numbers that it is made of, and by those its classes (abi.h).
 *
 * What is not known for sure is ABI_UNKNOWN: vectors, whose place depends on how the caller was compiled; classes of
 * C++ of which DWARF does not say whether they go by a hidden address; packed fields.
 *
 * Callers: function.c.  Context: host.
 */
#include <dwarf.h>
#include <string.h>

#include "impl.h"

#define ELEMENTS_MAX 16u   /* of an array within a value of 16 bytes */
#define PARTS_MAX    4096u /* types within a type that are looked at: members of members may be very many */

bool type_of(Dwarf_Die *out, Dwarf_Die *die)
{
	Dwarf_Attribute attribute;

	return dwarf_attr_integrate(die, DW_AT_type, &attribute) && dwarf_formref_die(&attribute, out);
}

static bool is_wrapper(int tag)
{
	switch (tag) {
	case DW_TAG_typedef:
	case DW_TAG_const_type:
	case DW_TAG_volatile_type:
	case DW_TAG_restrict_type:
	case DW_TAG_atomic_type:
		return true;
	default:
		return false;
	}
}

bool type_peeled(Dwarf_Die *out, Dwarf_Die *die)
{
	*out = *die;
	for (uint32_t depth = 0; is_wrapper(dwarf_tag(out)); depth++) {
		Dwarf_Die inner;

		if (depth == TYPE_DEPTH || !type_of(&inner, out))
			return false;
		*out = inner;
	}
	return true;
}

bool type_number(uint64_t *number, Dwarf_Die *die, unsigned name)
{
	Dwarf_Attribute attribute;
	Dwarf_Word value;

	if (!dwarf_attr_integrate(die, name, &attribute) || dwarf_formudata(&attribute, &value))
		return false;
	*number = value;
	return true;
}

/* A type that is being taken apart. */
struct walk {
	struct abi_type type;
	bool cxx;
	bool unknown;
	bool others; /* there is something beside a long double */
	uint32_t parts;
};

/* Note a number of the type: parts of unions that are alike are one. */
static void add_leaf(struct walk *walk, uint64_t offset, uint64_t size, enum abi_class class)
{
	struct abi_leaf leaf = {.class = (uint8_t) class, .size = (uint8_t)size, .offset = (uint32_t)offset};
	struct abi_type *type = &walk->type;

	for (unsigned i = 0; i < type->leaf_count && i < ABI_LEAVES; i++)
		if (type->leaves[i].offset == leaf.offset && type->leaves[i].size == leaf.size &&
		    type->leaves[i].class == leaf.class)
			return;
	if (type->leaf_count < ABI_LEAVES)
		type->leaves[type->leaf_count] = leaf;
	if (type->leaf_count <= ABI_LEAVES)
		type->leaf_count++;
}

static void add_class(struct walk *walk, uint64_t offset, uint64_t size, enum abi_class class)
{
	walk->type.x87 |= class == ABI_MEMORY; /* nothing else is of this class by itself */
	walk->others |= class != ABI_MEMORY;
	for (uint64_t at = offset / 8; size && at <= (offset + size - 1) / 8 && at < 2; at++)
		if (walk->type.halves[at] != ABI_INTEGER)
			walk->type.halves[at] = (uint8_t) class;
}

static void add_simple(struct walk *walk, uint64_t offset, uint64_t size, uint32_t align, enum abi_class class)
{
	if (align > walk->type.align)
		walk->type.align = align;
	/* A field that is not aligned sends all of it to memory; the convention says so, compilers differ in details.
	 */
	walk->unknown |= !align || offset % align != 0;
	add_class(walk, offset, size, class);
	add_leaf(walk, offset, size, class == ABI_MEMORY ? ABI_VECTOR : class); /* a long double */
}

static void add_base(struct walk *walk, Dwarf_Die *type, uint64_t offset, uint64_t size)
{
	const char *name = type_name(type);
	Dwarf_Word encoding = 0;

	(void)type_number(&encoding, type, DW_AT_encoding);
	switch (encoding) {
	case DW_ATE_boolean:
	case DW_ATE_signed:
	case DW_ATE_signed_char:
	case DW_ATE_unsigned:
	case DW_ATE_unsigned_char:
	case DW_ATE_UTF:
		if (size == 1 || size == 2 || size == 4 || size == 8 || size == 16)
			add_simple(walk, offset, size, (uint32_t)size, ABI_INTEGER);
		else
			walk->unknown = true;
		return;
	case DW_ATE_float:
		if (size == 4 || size == 8)
			add_simple(walk, offset, size, (uint32_t)size, ABI_VECTOR);
		else if (size == 16 && name && !strcmp(name, "long double"))
			add_simple(walk, offset, size, 16, ABI_MEMORY);
		else
			walk->unknown = true;
		return;
	default:
		walk->unknown = true;
	}
}

static void add_type(struct walk *walk, Dwarf_Die *type, uint64_t offset, uint32_t depth);

static void add_array(struct walk *walk, Dwarf_Die *type, uint64_t offset, uint32_t depth)
{
	Dwarf_Word size, one;
	Dwarf_Die element, peeled;

	if (dwarf_hasattr_integrate(type, DW_AT_GNU_vector) || !type_of(&element, type) ||
	    !type_peeled(&peeled, &element) || dwarf_aggregate_size(type, &size) ||
	    dwarf_aggregate_size(&peeled, &one) || !one || size % one != 0) {
		walk->unknown = true;
		return;
	}
	/* An array of more goes to memory: its first elements tell how it is aligned. */
	for (uint64_t i = 0; i < size / one && i < ELEMENTS_MAX && !walk->unknown; i++)
		add_type(walk, &peeled, offset + i * one, depth + 1);
}

bool type_bits_at(uint64_t *at, Dwarf_Die *member, uint64_t bits, uint64_t size)
{
	uint64_t from_end, place = 0;

	if (type_number(at, member, DW_AT_data_bit_offset))
		return true;
	/* DWARF 2 and 3 count from the high end of a word that lies somewhere. */
	if (!type_number(&from_end, member, DW_AT_bit_offset))
		return false;
	(void)type_number(&place, member, DW_AT_data_member_location);
	(void)type_number(&size, member, DW_AT_byte_size);
	*at = 8 * place + 8 * size - from_end - bits;
	return size && size <= 8 && from_end + bits <= 8 * size && place <= UINT32_MAX;
}

static void add_bits(struct walk *walk, Dwarf_Die *member, Dwarf_Die *type, uint64_t offset, Dwarf_Word bits)
{
	Dwarf_Word at, size = 0;

	if (dwarf_aggregate_size(type, &size) || !bits || bits > 64 || !size || size > 8 ||
	    !type_bits_at(&at, member, bits, size)) {
		walk->unknown = true;
		return;
	}
	if (size > walk->type.align)
		walk->type.align = (uint32_t)size;
	add_class(walk, offset + at / 8, (at % 8 + bits + 7) / 8, ABI_INTEGER);
	add_leaf(walk, offset + at / 8, size, ABI_INTEGER);
	walk->type.has_bits = true;
}

static void add_member(struct walk *walk, Dwarf_Die *member, uint64_t offset, uint32_t depth)
{
	Dwarf_Word at = 0, bits, align;
	Dwarf_Attribute place;
	Dwarf_Die type, peeled;

	if (dwarf_hasattr_integrate(member, DW_AT_external) || dwarf_hasattr_integrate(member, DW_AT_declaration))
		return; /* a static member */
	if (!type_of(&type, member) || !type_peeled(&peeled, &type)) {
		walk->unknown = true;
		return;
	}
	walk->type.realigned |= type_number(&align, member, DW_AT_alignment) && align > 8;
	if (dwarf_attr_integrate(member, DW_AT_bit_size, &place)) {
		if (dwarf_formudata(&place, &bits))
			walk->unknown = true;
		else
			add_bits(walk, member, &peeled, offset, bits);
		return;
	}
	if (dwarf_attr_integrate(member, DW_AT_data_member_location, &place) && dwarf_formudata(&place, &at)) {
		walk->unknown = true;
		return;
	}
	add_type(walk, &peeled, offset + at, depth + 1);
}

static void add_members(struct walk *walk, Dwarf_Die *type, uint64_t offset, uint32_t depth)
{
	Dwarf_Word align = 0;
	Dwarf_Die member;

	if (walk->cxx && type_passes(type) != TYPE_PASS_VALUE) {
		walk->unknown = true;
		return;
	}
	if (type_number(&align, type, DW_AT_alignment) && align > walk->type.align && align <= UINT32_MAX)
		walk->type.align = (uint32_t)align;
	walk->type.realigned |= align > 8;
	walk->type.has_union |= dwarf_tag(type) == DW_TAG_union_type;
	if (dwarf_child(type, &member)) {
		walk->type.has_empty = true;
		return;
	}
	do {
		int tag = dwarf_tag(&member);

		if (tag == DW_TAG_member || tag == DW_TAG_inheritance)
			add_member(walk, &member, offset, depth);
	} while (!walk->unknown && !dwarf_siblingof(&member, &member));
}

static void add_type(struct walk *walk, Dwarf_Die *type, uint64_t offset, uint32_t depth)
{
	Dwarf_Word size = 8;
	int tag = dwarf_tag(type);

	if (depth > TYPE_DEPTH || offset > UINT32_MAX || walk->parts++ >= PARTS_MAX) {
		walk->unknown = true;
		return;
	}
	switch (tag) {
	case DW_TAG_pointer_type:
	case DW_TAG_reference_type:
	case DW_TAG_rvalue_reference_type:
		add_simple(walk, offset, 8, 8, ABI_INTEGER);
		return;
	case DW_TAG_base_type:
	case DW_TAG_enumeration_type:
		if (!type_number(&size, type, DW_AT_byte_size) || !size || size > 32)
			walk->unknown = true;
		else if (tag == DW_TAG_base_type)
			add_base(walk, type, offset, size);
		else
			add_simple(walk, offset, size, (uint32_t)size, ABI_INTEGER);
		return;
	case DW_TAG_array_type:
		add_array(walk, type, offset, depth);
		return;
	case DW_TAG_structure_type:
	case DW_TAG_class_type:
	case DW_TAG_union_type:
		add_members(walk, type, offset, depth);
		return;
	case DW_TAG_unspecified_type: /* std::nullptr_t */
	default:
		walk->unknown = true;
	}
}

static bool is_by_reference(Dwarf_Die *type)
{
	int tag = dwarf_tag(type);

	return (tag == DW_TAG_structure_type || tag == DW_TAG_class_type || tag == DW_TAG_union_type) &&
	       type_passes(type) == TYPE_PASS_ADDRESS;
}

static bool is_aggregate(int tag)
{
	return tag == DW_TAG_structure_type || tag == DW_TAG_class_type || tag == DW_TAG_union_type ||
	       tag == DW_TAG_array_type;
}

struct abi_type type_classify(Dwarf_Die *type, bool cxx, const struct abi *abi)
{
	const struct abi_type unknown = {.halves = {ABI_UNKNOWN}},
			      hidden = {.halves = {ABI_INTEGER}, .size = 8, .align = 8, .by_address = true};
	struct walk walk = {.cxx = cxx};
	Dwarf_Die peeled;
	Dwarf_Word size = 0;

	if (!type_peeled(&peeled, type))
		return unknown;
	if (cxx && is_by_reference(&peeled))
		return hidden;
	add_type(&walk, &peeled, 0, 0);
	if (dwarf_tag(&peeled) == DW_TAG_pointer_type || dwarf_tag(&peeled) == DW_TAG_reference_type ||
	    dwarf_tag(&peeled) == DW_TAG_rvalue_reference_type)
		size = 8;
	else if (dwarf_aggregate_size(&peeled, &size))
		return unknown;
	walk.type.size = size;
	/* An empty class of C++ has a byte, and is passed or not as the compiler's version will have it. */
	if (walk.unknown || (size && walk.type.halves[0] == ABI_NOTHING))
		return unknown;
	walk.type.x87 &= !walk.others;
	walk.type.aggregate = is_aggregate(dwarf_tag(&peeled));
	abi->settle(&walk.type);
	return walk.type;
}
