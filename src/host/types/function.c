/*
 * A function's parameters and result: types, and where they lie (types.h).
 *
 * Callers: types.c.  Context: host.
 */
#include <dwarf.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "impl.h"

/* A function that is being read. */
struct reading {
	struct type_function *out;
	Dwarf_Die *function; /* the one that has code */
	const struct function_about *about;
	struct abi_walk walk;
	bool cxx;
	bool stays;   /* keeps_convention() */
	bool changed; /* a parameter is not where the convention has it */
	bool home[TYPES_VALUES];
};

static bool has_language(Dwarf_Die *function, bool *cxx)
{
	Dwarf_Die unit;
	int language = dwarf_diecu(function, &unit, NULL, NULL) ? dwarf_srclang(&unit) : -1;

	switch (language) {
	case DW_LANG_C89:
	case DW_LANG_C:
	case DW_LANG_C99:
	case DW_LANG_C11:
	case 0x2c: /* C17 */
		*cxx = false;
		return true;
	case DW_LANG_C_plus_plus:
	case DW_LANG_C_plus_plus_03:
	case DW_LANG_C_plus_plus_11:
	case DW_LANG_C_plus_plus_14:
	case 0x2b: /* C++17 */
	case 0x2e: /* C++20 */
		*cxx = true;
		return true;
	default:
		return false;
	}
}

/*
 * True if the compiler lets functions keep their names only with all their parameters: GCC does (it calls others
 * "f.isra.0"), Clang where it does not optimize.  Clang marks each function of a unit that it optimizes
 * (DW_AT_call_all_calls, from DWARF 5 on).
 */
static bool names_changes(Dwarf_Die *function)
{
	static const char clang[] = "clang version ";
	Dwarf_Attribute attribute;
	Dwarf_Half version = 0;
	Dwarf_Die unit;
	const char *producer, *at;

	if (!dwarf_diecu(function, &unit, NULL, NULL) || !dwarf_attr(&unit, DW_AT_producer, &attribute))
		return false;
	producer = type_text(&attribute);
	if (!producer)
		return false;
	if (!strncmp(producer, "GNU C", 5))
		return true;
	at = strstr(producer, clang);
	if (!at || strtoul(at + sizeof(clang) - 1, NULL, 10) < 9 ||
	    dwarf_cu_info(unit.cu, &version, NULL, NULL, NULL, NULL, NULL, NULL))
		return false;
	return version >= 5 && !dwarf_hasattr_integrate(function, DW_AT_call_all_calls);
}

/*
 * True if the compiler has not changed the function's parameters and result.  It may do so with a function that nobody
 * else can call.
 */
static bool keeps_convention(Dwarf_Die *function, const struct function_about *about)
{
	Dwarf_Attribute attribute;
	Dwarf_Word how;

	if (dwarf_attr_integrate(function, DW_AT_calling_convention, &attribute) &&
	    (dwarf_formudata(&attribute, &how) || how != DW_CC_normal))
		return false;
	return about->symbol && !strchr(about->symbol, '.') && (about->is_global || names_changes(function));
}

static uint8_t number_of(uint8_t piece, bool vector)
{
	return (piece & ABI_IN_VECTOR) == (vector ? ABI_IN_VECTOR : 0) ? (uint8_t)((piece & ~ABI_IN_VECTOR) + 1) : 0;
}

/* The registers that a value is in: their numbers from 1 on, 0 = none.  False: it is in more than are read. */
static bool put_registers(struct type_value *value, const struct abi_place *abi)
{
	value->step = abi->step;
	if (abi->count)
		value->in_register = number_of(abi->pieces[0], false),
		value->in_vector = number_of(abi->pieces[0], true);
	if (abi->count > 1) {
		value->second_register = number_of(abi->pieces[1], false);
		value->second_vector = number_of(abi->pieces[1], true);
	}
	value->second_on_stack = abi->split;
	return abi->step == 4 || abi->step == 8;
}

static bool is_in(const struct abi_place *abi, const struct place *place)
{
	/* A piece of another size is of nothing that the convention knows. */
	return abi->at == ABI_AT_REGISTERS && !abi->split && place->count == abi->count &&
	       !memcmp(place->pieces, abi->pieces, abi->count) && (abi->count == 1 || place->step == abi->step);
}

/* Does the convention have it in these registers, or in this word of the stack? */
static bool is_there(const struct abi_place *abi, const struct place *place)
{
	switch (place->at) {
	case PLACE_HOME:
		return true;
	case PLACE_STACK:
		return abi->at == ABI_AT_STACK && abi->offset == place->offset;
	case PLACE_REGISTERS:
		return is_in(abi, place);
	default:
		return false;
	}
}

/* Does the convention have it where the compiler says? */
static const char *compare(struct reading *reading, struct type_value *value, const struct abi_place *abi,
			   const struct place *place)
{
	bool read = true;

	if (place->at == PLACE_NONE) {
		reading->changed = true;
		return "dropped";
	}
	if (abi->at == ABI_AT_UNKNOWN)
		return "place";
	if (abi->at == ABI_AT_REGISTERS)
		read = put_registers(value, abi) && !(abi->split && value->look.kind == TYPE_VIEW);
	value->on_stack = abi->offset;
	if (!is_there(abi, place)) {
		reading->changed = true;
		return "moved";
	}
	return read ? NULL : "registers";
}

/* True of the object that a constructor is to make: nothing is there yet. */
static bool is_unmade(Dwarf_Die *function, const struct type_value *value, Dwarf_Die *pointee)
{
	const char *name = type_name(function), *class = type_name(pointee);

	/* A class made of a template has its arguments behind its name. */
	return name && class && value->name && !strcmp(value->name, "this") && !strncmp(name, class, strlen(name)) &&
	       (!class[strlen(name)] || class[strlen(name)] == '<');
}

int value_read_members(struct type_value *value, Dwarf_Die *type, bool by_address, Dwarf_Die *function,
		       const char *symbol)
{
	Dwarf_Die pointee, peeled;

	int ret = 0;

	if (value->look.kind == TYPE_OTHER && type_peeled(&peeled, type))
		ret = type_look_at_view(&value->look, &peeled, symbol);
	if (ret)
		return ret;
	value->at_address = value->look.kind == TYPE_POINTER || by_address;
	value->indirect = value->look.kind == TYPE_POINTER && by_address;
	if (value->look.kind == TYPE_OTHER)
		return type_members_read(&value->members, type);
	if (value->look.kind != TYPE_POINTER || !type_pointee(&pointee, type) || !type_peeled(&peeled, &pointee) ||
	    is_unmade(function, value, &peeled))
		return 0;
	value->indirect = type_is_owner(&peeled, NULL);
	if (value->indirect)
		return 0;
	ret = type_look_at_view(&value->look, &peeled, symbol);
	if (ret || value->look.kind == TYPE_VIEW)
		return ret;
	return type_members_read(&value->members, &peeled);
}

/* Why a value is not shown; why: where it lies is not known, NULL = it is. */
static void put_missing(struct type_value *value, const char *why)
{
	value->nowhere = why != NULL;
	value->missing = value->look.kind == TYPE_OTHER && !value->members.size ? value->look.why : why;
}

/* declared: the parameter; place: where its location is told, NULL = nowhere. */
static int read_parameter(struct reading *reading, Dwarf_Die *declared, Dwarf_Die *placed)
{
	struct type_value *value = &reading->out->arguments[reading->out->count];
	const char *name = type_name(declared), *why;
	struct place place = {.at = PLACE_NONE};
	struct abi_place abi;
	struct abi_type type = {.halves = {ABI_UNKNOWN}};
	Dwarf_Die die;
	int ret;

	value->name = strdup(name ? name : "");
	reading->out->count++;
	if (!value->name)
		return -ENOMEM;
	value->look = (struct type_look){.kind = TYPE_OTHER, .why = "type"};
	if (type_of(&die, declared)) {
		ret = type_look(&value->look, &die);
		if (ret)
			return ret;
		type = type_classify(&die, reading->cxx, reading->about->abi);
		ret = value_read_members(value, &die, type.by_address, reading->function, reading->about->symbol);
		if (ret)
			return ret;
	}
	abi = reading->about->abi->next(&reading->walk, &type);
	if (placed)
		place = place_find(reading->about->abi, reading->function, placed, reading->about->address,
				   type.by_address);
	/* Clang's places begin behind the no-ops. */
	if (placed && place.at == PLACE_NONE)
		place = place_find(reading->about->abi, reading->function, placed, reading->about->code,
				   type.by_address);
	if (placed && place.at == PLACE_NONE && type.by_address)
		place = place_find_first(reading->about->abi, placed, reading->about->address);
	why = compare(reading, value, &abi, &place);
	put_missing(value, why);
	reading->home[reading->out->count - 1] = place.at == PLACE_HOME;
	return 0;
}

Dwarf_Die *function_made_from(Dwarf_Die *function, Dwarf_Die *declared, Dwarf_Die *found)
{
	if (dwarf_child(function, found))
		return NULL;
	do {
		Dwarf_Attribute attribute;
		Dwarf_Die from;

		if (dwarf_tag(found) == DW_TAG_formal_parameter &&
		    dwarf_attr(found, DW_AT_abstract_origin, &attribute) && dwarf_formref_die(&attribute, &from) &&
		    dwarf_dieoffset(&from) == dwarf_dieoffset(declared))
			return found;
	} while (!dwarf_siblingof(found, found));
	return NULL;
}

/*
 * True if the function has more parameters than DWARF tells: Clang leaves out those that go by a hidden address and are
 * not used.  Which ones these are nobody knows, so the others may be in any register.
 */
static bool has_untold(const struct reading *reading, Dwarf_Die *declaration)
{
	int64_t told = 0, all = reading->cxx && reading->about->symbol ? symbol_parameters(reading->about->symbol) : -1;
	Dwarf_Die child;

	if (all <= 0)
		return false;
	if (dwarf_child(declaration, &child))
		return true;
	do {
		told += dwarf_tag(&child) == DW_TAG_formal_parameter &&
			!dwarf_hasattr_integrate(&child, DW_AT_artificial);
	} while (!dwarf_siblingof(&child, &child));
	return told < all;
}

/*
 * True of what GCC lists among the parameters of constructors and destructors, and does not pass: whether the object is
 * a base class's, and the table of virtual tables where that is not needed.
 */
static bool is_not_passed(Dwarf_Die *declared, Dwarf_Die *placed)
{
	const char *name = dwarf_diename(declared);

	if (!name || !dwarf_hasattr_integrate(declared, DW_AT_artificial))
		return false;
	return !strcmp(name, "__in_chrg") ||
	       (!strcmp(name, "__vtt_parm") && (!placed || !dwarf_hasattr_integrate(placed, DW_AT_location)));
}

/* All parameters, as the source has them: a function that has code leaves out those that it has no more. */
static int read_parameters(struct reading *reading)
{
	Dwarf_Attribute attribute;
	Dwarf_Die declaration = *reading->function, child, found, *placed;
	bool made = dwarf_attr(reading->function, DW_AT_abstract_origin, &attribute) &&
		    dwarf_formref_die(&attribute, &declaration);
	int ret = 0;

	reading->walk.lost |= has_untold(reading, &declaration);
	if (dwarf_child(&declaration, &child))
		return 0;
	do {
		if (dwarf_tag(&child) != DW_TAG_formal_parameter)
			continue;
		placed = made ? function_made_from(reading->function, &child, &found) : &child;
		if (is_not_passed(&child, placed))
			continue;
		if (reading->out->count == TYPES_VALUES)
			reading->out->more++;
		else
			ret = read_parameter(reading, &child, placed);
	} while (!ret && !dwarf_siblingof(&child, &child));
	return ret;
}

static int read_result(struct reading *reading)
{
	struct type_value *result = &reading->out->result;
	const char *why = NULL;
	struct abi_place abi;
	struct abi_type type;
	Dwarf_Die die;
	int ret;

	if (!type_of(&die, reading->function)) {
		reading->about->abi->begin(&reading->walk, NULL);
		return 0;
	}
	reading->out->has_result = true;
	ret = type_look(&result->look, &die);
	type = type_classify(&die, reading->cxx, reading->about->abi);
	reading->about->abi->begin(&reading->walk, &type);
	abi = reading->about->abi->result(&type);
	if (!ret)
		ret = value_read_members(result, &die, type.by_address, reading->function, reading->about->symbol);
	if (abi.at == ABI_AT_ADDRESS) {
		result->at_address = true; /* which the function returns */
		result->in_register = 1;
	} else if (abi.at == ABI_AT_UNKNOWN || !put_registers(result, &abi)) {
		why = "registers";
	}
	put_missing(result, why);
	return ret;
}

int function_read(struct type_function *out, Dwarf_Die *function, const struct function_about *about)
{
	struct reading reading = {.out = out, .function = function, .about = about};
	int ret;

	if (rust_is(function) && about->abi == &abi_x86_64)
		return rust_read(out, function, about);
	if (!has_language(function, &reading.cxx))
		return -ENOENT;
	out->arguments = calloc(TYPES_VALUES, sizeof(*out->arguments));
	if (!out->arguments)
		return -ENOMEM;
	reading.stays = keeps_convention(function, about);
	ret = read_result(&reading);
	if (!ret)
		ret = read_parameters(&reading);
	for (uint32_t i = 0; i < out->count; i++)
		if (reading.home[i] && !out->arguments[i].nowhere &&
		    (!reading.stays || (reading.changed && !about->is_global)))
			put_missing(&out->arguments[i], "uncertain");
	if (out->has_result && !out->result.nowhere && !reading.stays)
		put_missing(&out->result, "uncertain");
	return ret;
}

/* The parameter of that name, of the function that it was made from; false: it has none. */
static bool find_parameter(Dwarf_Die *found, Dwarf_Die *function, const char *name)
{
	Dwarf_Attribute attribute;
	Dwarf_Die declaration = *function;
	const char *its;

	if (dwarf_attr(function, DW_AT_abstract_origin, &attribute) && !dwarf_formref_die(&attribute, &declaration))
		return false;
	if (dwarf_child(&declaration, found))
		return false;
	do {
		its = dwarf_tag(found) == DW_TAG_formal_parameter ? type_name(found) : NULL;
		if (its && !strcmp(its, name))
			return true;
	} while (!dwarf_siblingof(found, found));
	return false;
}

int function_follow(struct type_path *out, Dwarf_Die *function, const struct function_about *about, const char *name,
		    const char *path)
{
	Dwarf_Die declared = *function, type;
	struct abi_type abi;
	bool cxx;

	if (rust_is(function)) {
		snprintf(out->why, sizeof(out->why), "paths are followed in C and C++ alone so far");
		return -EINVAL;
	}
	if (!has_language(function, &cxx) || (name && !find_parameter(&declared, function, name)) ||
	    !type_of(&type, &declared))
		return -ENOENT;
	abi = type_classify(&type, cxx, about->abi);
	return path_follow(out, &type, abi.by_address || (!name && about->abi->result(&abi).at == ABI_AT_ADDRESS),
			   about->symbol, path);
}

static void clear_value(struct type_value *value)
{
	free(value->name);
	type_look_clear(&value->look);
	type_members_clear(&value->members);
}

void type_function_clear(struct type_function *function)
{
	for (uint32_t i = 0; i < function->count; i++)
		clear_value(&function->arguments[i]);
	free(function->arguments);
	clear_value(&function->result);
	*function = (struct type_function){0};
}
