/*
 * A function's parameters and result: types, and where they lie (types.h).
 *
 * Callers: types.c.  Context: host.
 */
#include <dwarf.h>
#include <errno.h>
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
	producer = dwarf_formstring(&attribute);
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

/* The registers that a value is in, by its type's halves: their numbers from 1 on, 0 = none. */
static void put_registers(struct type_value *value, const struct abi_type *type, uint8_t integer, uint8_t vector)
{
	bool first_integer = type->halves[0] == ABI_INTEGER, first_vector = type->halves[0] == ABI_VECTOR;

	value->in_register = first_integer ? (uint8_t)(integer + 1) : 0;
	value->in_vector = first_vector ? (uint8_t)(vector + 1) : 0;
	if (type->halves[1] == ABI_INTEGER)
		value->second_register = (uint8_t)(integer + first_integer + 1);
	if (type->halves[1] == ABI_VECTOR)
		value->second_vector = (uint8_t)(vector + first_vector + 1);
}

static bool is_at(uint8_t at, uint8_t number, uint8_t in_register, uint8_t in_vector)
{
	if (in_register)
		return at == PLACE_REGISTER && number + 1 == in_register;
	return in_vector ? at == PLACE_VECTOR && number + 1 == in_vector : at == PLACE_NONE;
}

/* Does the convention have it in these registers, or in this word of the stack? */
static bool is_there(const struct type_value *value, const struct abi_place *abi, const struct place *place)
{
	switch (place->at) {
	case PLACE_HOME:
		return true;
	case PLACE_STACK:
		return abi->at == ABI_AT_STACK && abi->offset == place->offset;
	case PLACE_REGISTER:
	case PLACE_VECTOR:
		return abi->at == ABI_AT_REGISTERS &&
		       is_at(place->at, place->number, value->in_register, value->in_vector) &&
		       is_at(place->second_at, place->second_number, value->second_register, value->second_vector);
	default:
		return false;
	}
}

/* Does the convention have it where the compiler says? */
static const char *compare(struct reading *reading, struct type_value *value, const struct abi_type *type,
			   const struct abi_place *abi, const struct place *place)
{
	if (place->at == PLACE_NONE) {
		reading->changed = true;
		return "dropped";
	}
	if (abi->at == ABI_AT_UNKNOWN)
		return "place";
	if (abi->at == ABI_AT_REGISTERS)
		put_registers(value, type, abi->integer, abi->vector);
	value->on_stack = abi->offset;
	if (!is_there(value, abi, place)) {
		reading->changed = true;
		return "moved";
	}
	return NULL;
}

/* True of the object that a constructor is to make: nothing is there yet. */
static bool is_unmade(Dwarf_Die *function, const struct type_value *value, Dwarf_Die *pointee)
{
	const char *name = dwarf_diename(function), *class = dwarf_diename(pointee);

	/* A class made of a template has its arguments behind its name. */
	return name && class && value->name && !strcmp(value->name, "this") && !strncmp(name, class, strlen(name)) &&
	       (!class[strlen(name)] || class[strlen(name)] == '<');
}

/* Read the members of the value's type, a structure, or of the structure that the value is the address of. */
static int read_members(const struct reading *reading, struct type_value *value, Dwarf_Die *type,
			const struct abi_type *abi)
{
	Dwarf_Die pointee, peeled;

	value->at_address = value->look.kind == TYPE_POINTER || abi->by_address;
	if (value->look.kind == TYPE_OTHER)
		return type_members_read(&value->members, type);
	if (value->look.kind != TYPE_POINTER || !type_pointee(&pointee, type) || !type_peeled(&peeled, &pointee) ||
	    is_unmade(reading->function, value, &peeled))
		return 0;
	return type_members_read(&value->members, &peeled);
}

/* Why a value is not shown, NULL = it is; why: where it lies is not known. */
static const char *missing_of(const struct type_value *value, const char *why)
{
	return value->look.kind == TYPE_OTHER && !value->members.size ? value->look.why : why;
}

/* declared: the parameter; place: where its location is told, NULL = nowhere. */
static int read_parameter(struct reading *reading, Dwarf_Die *declared, Dwarf_Die *placed)
{
	struct type_value *value = &reading->out->arguments[reading->out->count];
	const char *name = dwarf_diename(declared), *why;
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
		type = type_classify(&die, reading->cxx);
		ret = read_members(reading, value, &die, &type);
		if (ret)
			return ret;
	}
	abi = abi_next(&reading->walk, &type);
	if (placed)
		place = place_find(reading->function, placed, reading->about->address, type.by_address);
	/* Clang's places begin behind the no-ops. */
	if (placed && place.at == PLACE_NONE)
		place = place_find(reading->function, placed, reading->about->code, type.by_address);
	why = compare(reading, value, &type, &abi, &place);
	value->missing = missing_of(value, why);
	reading->home[reading->out->count - 1] = place.at == PLACE_HOME;
	return 0;
}

/* The child of the function that has code which is this parameter of the function that it was made from. */
static Dwarf_Die *find_made_from(Dwarf_Die *function, Dwarf_Die *declared, Dwarf_Die *found)
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

/* All parameters, as the source has them: a function that has code leaves out those that it has no more. */
static int read_parameters(struct reading *reading)
{
	Dwarf_Attribute attribute;
	Dwarf_Die declaration = *reading->function, child, found;
	bool made = dwarf_attr(reading->function, DW_AT_abstract_origin, &attribute) &&
		    dwarf_formref_die(&attribute, &declaration);
	int ret = 0;

	if (dwarf_child(&declaration, &child))
		return 0;
	do {
		if (dwarf_tag(&child) != DW_TAG_formal_parameter)
			continue;
		if (reading->out->count == TYPES_VALUES)
			reading->out->more++;
		else
			ret = read_parameter(reading, &child,
					     made ? find_made_from(reading->function, &child, &found) : &child);
	} while (!ret && !dwarf_siblingof(&child, &child));
	return ret;
}

static int read_result(struct reading *reading)
{
	struct type_value *result = &reading->out->result;
	struct abi_type type;
	Dwarf_Die die;
	int ret;

	if (!type_of(&die, reading->function)) {
		abi_begin(&reading->walk, NULL);
		return 0;
	}
	reading->out->has_result = true;
	ret = type_look(&result->look, &die);
	type = type_classify(&die, reading->cxx);
	abi_begin(&reading->walk, &type);
	if (!ret)
		ret = read_members(reading, result, &die, &type);
	if (type.halves[0] == ABI_MEMORY && !type.x87) {
		result->at_address = true; /* which the function returns */
		result->in_register = 1;
	} else if (type.halves[0] == ABI_UNKNOWN || type.halves[0] == ABI_MEMORY) {
		result->missing = "registers";
	} else {
		put_registers(result, &type, 0, 0);
	}
	result->missing = missing_of(result, result->missing);
	return ret;
}

int function_read(struct type_function *out, Dwarf_Die *function, const struct function_about *about)
{
	struct reading reading = {.out = out, .function = function, .about = about};
	int ret;

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
		if (reading.home[i] && !out->arguments[i].missing &&
		    (!reading.stays || (reading.changed && !about->is_global)))
			out->arguments[i].missing = "uncertain";
	if (out->has_result && !out->result.missing && !reading.stays)
		out->result.missing = "uncertain";
	return ret;
}

static void clear_value(struct type_value *value)
{
	free(value->name);
	free(value->look.names);
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
