/*
 * Whether a class of C++ is passed in registers and on the stack, or by a hidden address.
 *
 * A class goes by its address if a copy or move constructor or a destructor of it is not trivial.  DWARF 5 of Clang
 * says which is the case.  GCC says what it follows from: all such functions that the source declares, and which of
 * them are defaulted or deleted. Source: Itanium C++ ABI, 1.1 ("non-trivial for the purposes of calls"), 3.1.2.3.
 *
 * Callers: classify.c.  Context: host.  DWARF is untrusted.
 */
#include <dwarf.h>
#include <string.h>

#include "impl.h"

#define SEEN_MAX 8192u /* parts of a class, and of those within */

struct search {
	uint32_t seen;
	uint32_t version; /* of the unit's DWARF: from 5 on it says what is defaulted */
};

static enum type_pass look_at(struct search *search, Dwarf_Die *class, uint32_t depth);

static bool is_flag(Dwarf_Die *die, unsigned name)
{
	Dwarf_Attribute attribute;
	bool is = false;

	return dwarf_attr_integrate(die, name, &attribute) && !dwarf_formflag(&attribute, &is) && is;
}

/* True of "name" for "name<int>", too. */
static bool is_class_name(const char *class, const char *name)
{
	size_t length = name ? strlen(name) : 0;

	return class && length && !strncmp(class, name, length) && (!class[length] || class[length] == '<');
}

/* Is the first parameter that the source names a reference to the class? */
static bool takes_one(Dwarf_Die *function, Dwarf_Die *class)
{
	Dwarf_Die child, type, peeled, pointee;

	if (dwarf_child(function, &child))
		return false;
	do {
		if (dwarf_tag(&child) != DW_TAG_formal_parameter || is_flag(&child, DW_AT_artificial))
			continue;
		if (!type_of(&type, &child) || !type_peeled(&peeled, &type) ||
		    (dwarf_tag(&peeled) != DW_TAG_reference_type &&
		     dwarf_tag(&peeled) != DW_TAG_rvalue_reference_type) ||
		    !type_pointee(&pointee, &peeled) || !type_peeled(&type, &pointee))
			return false;
		return dwarf_dieoffset(&type) == dwarf_dieoffset(class);
	} while (!dwarf_siblingof(&child, &child));
	return false;
}

static enum type_pass look_at_function(const struct search *search, Dwarf_Die *function, Dwarf_Die *class)
{
	const char *name = type_name(function);
	uint64_t defaulted = 0, virtual = 0;

	if (type_number(&virtual, function, DW_AT_virtuality) && virtual)
		return TYPE_PASS_ADDRESS;
	if (!name || is_flag(function, DW_AT_artificial))
		return TYPE_PASS_VALUE;
	if (name[0] != '~' && (!is_class_name(type_name(class), name) || !takes_one(function, class)))
		return TYPE_PASS_VALUE;
	if (is_flag(function, DW_AT_deleted) || search->version < 5)
		return TYPE_PASS_UNKNOWN;
	(void)type_number(&defaulted, function, DW_AT_defaulted);
	return defaulted == DW_DEFAULTED_in_class ? TYPE_PASS_VALUE : TYPE_PASS_ADDRESS;
}

static enum type_pass look_at_member(struct search *search, Dwarf_Die *member, uint32_t depth)
{
	uint64_t virtual = 0;
	Dwarf_Die type, peeled;
	int tag;

	if (dwarf_hasattr_integrate(member, DW_AT_external) || dwarf_hasattr_integrate(member, DW_AT_declaration))
		return TYPE_PASS_VALUE;
	if (type_number(&virtual, member, DW_AT_virtuality) && virtual)
		return TYPE_PASS_ADDRESS;
	if (!type_of(&type, member) || !type_peeled(&peeled, &type))
		return TYPE_PASS_UNKNOWN;
	for (uint32_t i = 0; dwarf_tag(&peeled) == DW_TAG_array_type; i++)
		if (i == TYPE_DEPTH || !type_of(&type, &peeled) || !type_peeled(&peeled, &type))
			return TYPE_PASS_UNKNOWN;
	tag = dwarf_tag(&peeled);
	if (tag != DW_TAG_structure_type && tag != DW_TAG_class_type && tag != DW_TAG_union_type)
		return TYPE_PASS_VALUE;
	return look_at(search, &peeled, depth + 1);
}

static enum type_pass look_at(struct search *search, Dwarf_Die *class, uint32_t depth)
{
	enum type_pass pass = TYPE_PASS_VALUE, found;
	Dwarf_Die child;

	if (depth > TYPE_DEPTH || dwarf_hasattr_integrate(class, DW_AT_declaration))
		return TYPE_PASS_UNKNOWN;
	if (dwarf_child(class, &child))
		return pass;
	do {
		int tag = dwarf_tag(&child);

		if (search->seen++ >= SEEN_MAX)
			return TYPE_PASS_UNKNOWN;
		found = TYPE_PASS_VALUE;
		if (tag == DW_TAG_subprogram)
			found = look_at_function(search, &child, class);
		else if (tag == DW_TAG_member || tag == DW_TAG_inheritance)
			found = look_at_member(search, &child, depth);
		if (found == TYPE_PASS_ADDRESS)
			return found;
		if (found == TYPE_PASS_UNKNOWN)
			pass = found;
	} while (!dwarf_siblingof(&child, &child));
	return pass;
}

static bool is_by_gcc(Dwarf_Die *type, uint32_t *version)
{
	Dwarf_Attribute attribute;
	Dwarf_Half number = 0;
	const char *producer;
	Dwarf_Die unit;

	if (!dwarf_diecu(type, &unit, NULL, NULL) || !dwarf_attr(&unit, DW_AT_producer, &attribute) ||
	    dwarf_cu_info(unit.cu, &number, NULL, NULL, NULL, NULL, NULL, NULL))
		return false;
	*version = number;
	producer = dwarf_formstring(&attribute);
	return producer && !strncmp(producer, "GNU C++", 7);
}

enum type_pass type_passes(Dwarf_Die *class)
{
	struct search search = {.seen = 0};
	struct type_view view;
	uint64_t how;

	if (type_number(&how, class, DW_AT_calling_convention))
		return how == DW_CC_pass_by_value	? TYPE_PASS_VALUE
		       : how == DW_CC_pass_by_reference ? TYPE_PASS_ADDRESS
							: TYPE_PASS_UNKNOWN;
	/* A class that another object has, whose destructor is its own. */
	if (type_view_declared(&view, class, "cxx11"))
		return TYPE_PASS_ADDRESS;
	return is_by_gcc(class, &search.version) ? look_at(&search, class, 0) : TYPE_PASS_UNKNOWN;
}
