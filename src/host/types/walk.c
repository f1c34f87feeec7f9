/*
 * All functions of a unit, those in namespaces, classes and functions among them.
 *
 * libdw's dwarf_getfuncs() calls itself for each entry within an entry: in a file that nests them without end it would
 * need as much stack as the file has.  Entries lie one behind the other; in a damaged file an entry's DW_AT_sibling may
 * lead into the entry itself, so that there are more ways than entries.
 *
 * Callers: types.c.  Context: host.
 */
#include <dwarf.h>

#include "impl.h"

#define DEPTH_MAX 64u /* of entries within entries; what is farther in is not seen */

/* May functions with code be in it? */
static bool has_functions(int tag)
{
	switch (tag) {
	case DW_TAG_namespace:
	case DW_TAG_class_type:
	case DW_TAG_structure_type:
	case DW_TAG_module:
	case DW_TAG_subprogram:
	case DW_TAG_lexical_block:
	case DW_TAG_inlined_subroutine:
	case DW_TAG_try_block:
	case DW_TAG_catch_block:
		return true;
	default:
		return false;
	}
}

/* C has its functions at the unit's own level, and looking farther in takes time. */
static bool is_flat(Dwarf_Die *unit)
{
	switch (dwarf_srclang(unit)) {
	case DW_LANG_C89:
	case DW_LANG_C:
	case DW_LANG_C99:
	case DW_LANG_C11:
		return true;
	default:
		return false;
	}
}

bool type_is_behind(Dwarf_Off *last, Dwarf_Die *die)
{
	Dwarf_Off offset = dwarf_dieoffset(die);

	if (offset <= *last)
		return false;
	*last = offset;
	return true;
}

int functions_each(Dwarf_Die *unit, int (*see)(Dwarf_Die *die, void *ctx), void *ctx)
{
	uint32_t depth = 0, most = is_flat(unit) ? 1 : DEPTH_MAX;
	Dwarf_Die path[DEPTH_MAX];
	Dwarf_Off last = 0;
	int ret;

	if (dwarf_child(unit, &path[0]))
		return 0;
	for (;;) {
		Dwarf_Die *at = &path[depth];
		int tag = dwarf_tag(at);

		if (!type_is_behind(&last, at))
			return 0;
		if (tag == DW_TAG_subprogram && (ret = see(at, ctx)))
			return ret;
		if (depth + 1 < most && has_functions(tag) && !dwarf_child(at, at + 1)) {
			depth++;
			continue;
		}
		while (dwarf_siblingof(&path[depth], &path[depth]))
			if (!depth--)
				return 0;
	}
}
