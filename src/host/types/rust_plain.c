/*
 * Was a crate compiled without optimizing?  rustc says it nowhere, so its parameters and variables tell:
 * without optimizing, each is in memory all the time; with it, some are values of registers, or are not there at all.
 *
 * Callers: types.c.  Context: host.  DWARF is untrusted.
 */
#include <dwarf.h>
#include <stdlib.h>
#include <string.h>

#include "impl.h"

#define LOCATIONS_MAX 64u /* of one parameter */
#define DEPTH_MAX     16u /* of blocks within blocks */
#define ENOUGH	      8u  /* parameters in memory: fewer may be there because their addresses are taken */

struct rust_crates {
	struct rust_crates *next;
	const char *name; /* of the root file, up to this many bytes; lies in DWARF */
	size_t length;
	bool plain;
};

/* What parameters have told. */
struct search {
	uint32_t in_memory; /* how many are */
	bool others;
	Dwarf_Off last; /* where the search within a function has got to */
};

static bool is_register(const Dwarf_Op *op)
{
	return (op->atom >= DW_OP_reg0 && op->atom <= DW_OP_reg31) || op->atom == DW_OP_regx;
}

/* Constants are variables' values in any case. */
static bool is_value(const Dwarf_Op *op)
{
	return op->atom == DW_OP_stack_value || op->atom == DW_OP_piece || op->atom == DW_OP_implicit_value;
}

static void look_at_places(struct search *search, Dwarf_Die *die, bool is_parameter)
{
	Dwarf_Attribute attribute;
	Dwarf_Addr base, start, end;
	ptrdiff_t offset = 0;
	Dwarf_Op *ops;
	size_t count;

	if (!dwarf_attr_integrate(die, DW_AT_location, &attribute))
		return;
	for (uint32_t i = 0; i < LOCATIONS_MAX; i++) {
		offset = dwarf_getlocations(&attribute, offset, &base, &start, &end, &ops, &count);
		if (offset <= 0)
			break;
		for (size_t k = 0; k < count; k++)
			search->others |= is_register(&ops[k]) || (is_parameter && is_value(&ops[k]));
		search->in_memory += is_parameter && count == 1 && ops->atom == DW_OP_fbreg;
	}
	search->others |= offset < 0;
}

/* One that goes by a hidden address, and is not used, has no place in either case. */
static void look_at_parameter(struct search *search, Dwarf_Die *parameter)
{
	uint64_t size = 0;
	Dwarf_Die type;

	if (dwarf_hasattr_integrate(parameter, DW_AT_location))
		look_at_places(search, parameter, true);
	else
		search->others |= type_of(&type, parameter) && rust_size(&size, &type) && size && size <= 8;
}

/*
 * Is it code of the standard library?  That was optimized when the library was made, before it became a part of others'
 * functions, whether these are optimized or not.
 */
static bool is_of_library(Dwarf_Die *inlined)
{
	static const char *const folders[] = {"/library/core/src/", "/library/alloc/src/", "/library/std/src/"};
	Dwarf_Attribute attribute;
	const char *file;
	Dwarf_Die origin;

	if (!dwarf_attr(inlined, DW_AT_abstract_origin, &attribute) || !dwarf_formref_die(&attribute, &origin))
		return false;
	file = dwarf_decl_file(&origin);
	for (size_t i = 0; file && i < sizeof(folders) / sizeof(folders[0]); i++)
		if (strstr(file, folders[i]))
			return true;
	return false;
}

/* What is within the function: blocks, variables, and what is part of it by always being inlined. */
static void look_within(struct search *search, Dwarf_Die *outer, uint32_t depth)
{
	Dwarf_Die child;

	if (depth == DEPTH_MAX || dwarf_child(outer, &child))
		return;
	do {
		if (!type_is_behind(&search->last, &child))
			return;
		switch (dwarf_tag(&child)) {
		case DW_TAG_formal_parameter:
		case DW_TAG_variable:
			look_at_places(search, &child, false);
			break;
		case DW_TAG_lexical_block:
			look_within(search, &child, depth + 1);
			break;
		case DW_TAG_inlined_subroutine:
			if (!is_of_library(&child))
				look_within(search, &child, depth + 1);
			break;
		default:
			break;
		}
	} while (!search->others && !dwarf_siblingof(&child, &child));
}

/* 1: it is known, and nothing more is to be looked at. */
static int see_function(Dwarf_Die *function, void *ctx)
{
	struct search *search = ctx;
	Dwarf_Addr entry;
	Dwarf_Die child;

	if (dwarf_entrypc(function, &entry) || dwarf_child(function, &child))
		return 0;
	do {
		if (dwarf_tag(&child) == DW_TAG_formal_parameter)
			look_at_parameter(search, &child);
	} while (!search->others && !dwarf_siblingof(&child, &child));
	search->last = 0;
	if (!search->others)
		look_within(search, function, 0);
	return search->others;
}

/* The name of the crate's root file, which begins the names of its units. */
static const char *root_of(Dwarf_Die *unit, size_t *length)
{
	const char *name = type_name(unit), *end = name ? strstr(name, "/@/") : NULL;

	*length = end ? (size_t)(end - name) : 0;
	return end ? name : NULL;
}

static bool look_at_crate(Dwarf *dwarf, const char *name, size_t length)
{
	struct search search = {.in_memory = 0};
	Dwarf_CU *unit = NULL;
	uint8_t kind;
	Dwarf_Die die;

	while (!search.others && !dwarf_get_units(dwarf, unit, &unit, NULL, &kind, &die, NULL)) {
		size_t its_length;
		const char *its;

		if (kind != DW_UT_compile || dwarf_srclang(&die) != DW_LANG_Rust)
			continue;
		its = root_of(&die, &its_length);
		if (its && its_length == length && !memcmp(its, name, length) &&
		    functions_each(&die, see_function, &search))
			return false;
	}
	return search.in_memory >= ENOUGH && !search.others;
}

bool rust_is_plain(struct rust_crates **crates, Dwarf *dwarf, Dwarf_Die *function)
{
	struct rust_crates *crate;
	Dwarf_Die unit;
	const char *name;
	size_t length;

	name = dwarf_diecu(function, &unit, NULL, NULL) ? root_of(&unit, &length) : NULL;
	if (!name)
		return false;
	for (crate = *crates; crate; crate = crate->next)
		if (crate->length == length && !memcmp(crate->name, name, length))
			return crate->plain;
	crate = calloc(1, sizeof(*crate));
	if (!crate)
		return false;
	*crate = (struct rust_crates){*crates, name, length, look_at_crate(dwarf, name, length)};
	*crates = crate;
	return crate->plain;
}

void rust_crates_clear(struct rust_crates *crates)
{
	while (crates) {
		struct rust_crates *next = crates->next;

		free(crates);
		crates = next;
	}
}
