/*
 * A Rust function's parameters and result: types, and where they lie (types.h).
 *
 * Callers: function.c.  Context: host.
 */
#include <dwarf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "impl.h"

bool rust_is(Dwarf_Die *function)
{
	Dwarf_Die unit;

	return dwarf_diecu(function, &unit, NULL, NULL) && dwarf_srclang(&unit) == DW_LANG_Rust;
}

bool rust_size(uint64_t *size, Dwarf_Die *type)
{
	Dwarf_Die peeled;
	Dwarf_Word bytes;
	int tag;

	if (!type_peeled(&peeled, type))
		return false;
	tag = dwarf_tag(&peeled);
	*size = 8;
	if (tag == DW_TAG_pointer_type || tag == DW_TAG_reference_type)
		return true;
	if (dwarf_aggregate_size(&peeled, &bytes))
		return false;
	*size = bytes;
	return true;
}

/* Are these bytes of the value in what was found? */
static bool has(const struct rust_place *place, uint64_t at, uint64_t size, bool is_bool)
{
	for (uint32_t i = 0; i < place->count; i++) {
		const struct rust_piece *piece = &place->pieces[i];

		if (piece->at <= at && at + size <= piece->at + (uint64_t)piece->origin.width)
			return !piece->origin.is_bit || (is_bool && size == 1);
	}
	return false;
}

/* Are all bytes that are shown? */
static bool has_all(const struct rust_place *place, const struct type_value *value)
{
	const struct type_look *look = &value->look;

	if (value->at_address)
		return has(place, 0, 8, false);
	if (look->kind == TYPE_VIEW)
		return has(place, look->view.address_at, 8, false) &&
		       has(place, look->view.size_at, look->view.size_bytes, false);
	if (look->kind != TYPE_OTHER)
		return has(place, 0, look->size, look->kind == TYPE_BOOL);
	for (uint32_t i = 0; i < value->members.count; i++) {
		const struct type_member *member = &value->members.list[i];
		const struct type_view *view = &member->look.view;

		if (member->look.kind == TYPE_VIEW) {
			if (!has(place, member->offset + (uint64_t)view->address_at, 8, false) ||
			    !has(place, member->offset + (uint64_t)view->size_at, view->size_bytes, false))
				return false;
		} else if (member->look.kind != TYPE_OTHER &&
			   !has(place, member->offset, member->look.size, member->look.kind == TYPE_BOOL)) {
			return false;
		}
	}
	return true;
}

static uint8_t integer_of(const struct origin *origin)
{
	return origin->of == ORIGIN_INTEGER ? (uint8_t)(origin->number + 1) : 0;
}

static uint8_t vector_of(const struct origin *origin)
{
	return origin->of == ORIGIN_VECTOR ? (uint8_t)(origin->number + 1) : 0;
}

static bool put_word(struct type_value *value, const struct origin *origin)
{
	if (origin->offset < 0 || origin->offset > INT32_MAX || origin->offset % 8)
		return false;
	value->on_stack = (uint32_t)origin->offset;
	return true;
}

/* False: it is in more than are read. */
static bool put_parts(struct type_value *value, const struct rust_place *place)
{
	const struct origin *first = &place->pieces[0].origin, *second = &place->pieces[1].origin;
	uint8_t step = place->count > 1 ? place->pieces[1].at : 8;

	if (place->pieces[0].at || place->count > 2 || (step != 1 && step != 2 && step != 4 && step != 8) ||
	    (step != 8 && value->look.kind == TYPE_VIEW))
		return false;
	value->step = step;
	if (first->of == ORIGIN_STACK)
		return put_word(value, first) && (place->count == 1 || (second->of == ORIGIN_STACK && step == 8 &&
									second->offset == first->offset + 8));
	value->in_register = integer_of(first);
	value->in_vector = vector_of(first);
	if (place->count == 1)
		return true;
	value->second_register = integer_of(second);
	value->second_vector = vector_of(second);
	return second->of != ORIGIN_STACK;
}

/* NULL: the value is available; else why it is not. */
static const char *put_place(struct type_value *value, const struct rust_place *place, bool expected)
{
	bool is_float = value->look.kind == TYPE_FLOAT;

	if (place->at == RUST_NOWHERE)
		return "dropped";
	if (!expected)
		return place->at == RUST_ELSEWHERE || place->others || !place->count ? "moved" : "place";
	if (place->at == RUST_ADDRESS) {
		value->in_register = integer_of(&place->pieces[0].origin);
		return value->in_register || put_word(value, &place->pieces[0].origin) ? NULL : "registers";
	}
	if (value->look.kind != TYPE_OTHER && value->look.kind != TYPE_VIEW &&
	    is_float != (place->pieces[0].origin.of == ORIGIN_VECTOR) && place->pieces[0].origin.of != ORIGIN_STACK)
		return "moved";
	return has_all(place, value) && put_parts(value, place) ? NULL : "registers";
}

/*
 * Has the function all arguments that its source has, and its result?  An optimizer leaves out those of functions that
 * nobody else calls, and DWARF does not tell: where a parameter that was left out is given another one's value at once,
 * it looks as if it were there, in the other one's place.
 */
static bool keeps_arguments(const struct function_about *about)
{
	return about->is_plain || (about->is_global && about->symbol);
}

static int read_parameter(struct type_value *value, Dwarf_Die *declared, Dwarf_Die *placed, Dwarf_Die *function,
			  const struct function_about *about, struct rust_walk *walk)
{
	const char *name = type_name(declared), *why;
	struct rust_place place = {.at = RUST_NOWHERE};
	uint64_t size = 0;
	bool expected;
	Dwarf_Die type;
	int ret;

	value->name = strdup(name ? name : "");
	if (!value->name)
		return -ENOMEM;
	value->look = (struct type_look){.kind = TYPE_OTHER, .why = "type"};
	value->missing = "type";
	if (!type_of(&type, declared) || !rust_size(&size, &type)) {
		walk->lost = true;
		return 0;
	}
	if (placed)
		rust_place(&place, function, placed, about, size);
	expected = rust_next(walk, &place, size);
	ret = type_look(&value->look, &type);
	if (!ret)
		ret = value_read_members(value, &type, place.at == RUST_ADDRESS, function, about->symbol);
	why = put_place(value, &place, expected);
	why = why || keeps_arguments(about) ? why : "uncertain";
	if (value->look.kind == TYPE_OTHER && !value->members.size)
		why = value->look.why;
	value->missing = size ? why : "empty";
	return ret;
}

/* Why the result is not available, NULL = it is. */
static const char *put_result(struct type_value *value, const struct rust_result *result)
{
	bool is_float = value->look.kind == TYPE_FLOAT;

	if (result->doubtful || result->at == RUST_ELSEWHERE)
		return "registers";
	if (result->at == RUST_ADDRESS) {
		value->in_register = 1; /* which the function returns */
		return NULL;
	}
	if (value->look.kind != TYPE_OTHER && value->look.kind != TYPE_VIEW && is_float != result->is_float[0])
		return "registers";
	value->step = result->second_at ? result->second_at : 8;
	value->in_register = !result->is_float[0];
	value->in_vector = result->is_float[0];
	if (!result->second_at)
		return NULL;
	if (value->step != 1 && value->step != 2 && value->step != 4 && value->step != 8)
		return "registers";
	if (result->is_float[1])
		value->second_vector = result->is_float[0] ? 2 : 1;
	else
		value->second_register = result->is_float[0] ? 1 : 2;
	return NULL;
}

/* Arguments tell whether the first register is taken by the address of a result of 9 to 16 bytes. */
struct result_read {
	struct rust_result place;
	const char *missing;
};

static int read_result(struct result_read *out, struct type_value *result, Dwarf_Die *function,
		       const struct function_about *about, struct rust_walk *walk)
{
	uint64_t size = 0;
	Dwarf_Die type;
	int ret;

	if (!type_of(&type, function))
		return 0;
	if (!rust_size(&size, &type)) {
		walk->lost = true;
		result->look = (struct type_look){.kind = TYPE_OTHER, .why = "type"};
		out->missing = "type";
		return 0;
	}
	rust_result(&out->place, &type, size);
	walk->integers = out->place.at == RUST_ADDRESS;
	/* Where nothing was optimized all arguments are there, and the first one tells. */
	walk->either = about->is_plain && out->place.at == RUST_ELSEWHERE && size > 8;
	walk->lost = !walk->either && out->place.at == RUST_ELSEWHERE && size > 8;
	ret = type_look(&result->look, &type);
	if (!ret)
		ret = value_read_members(result, &type, out->place.at == RUST_ADDRESS, function, about->symbol);
	out->missing = put_result(result, &out->place);
	if (!keeps_arguments(about))
		out->missing = "uncertain";
	if (result->look.kind == TYPE_OTHER && !result->members.size)
		out->missing = result->look.why;
	if (!size)
		out->missing = "empty";
	return ret;
}

int rust_read(struct type_function *out, Dwarf_Die *function, const struct function_about *about)
{
	Dwarf_Attribute attribute;
	Dwarf_Die declaration = *function, child, found, *placed, type;
	bool made =
		dwarf_attr(function, DW_AT_abstract_origin, &attribute) && dwarf_formref_die(&attribute, &declaration);
	struct rust_walk walk = {.lost = false};
	struct result_read result = {.missing = NULL};
	int ret;

	out->arguments = calloc(TYPES_VALUES, sizeof(*out->arguments));
	if (!out->arguments)
		return -ENOMEM;
	out->has_result = type_of(&type, function);
	ret = read_result(&result, &out->result, function, about, &walk);
	for (bool more = !ret && !dwarf_child(&declaration, &child); more && !ret;) {
		if (dwarf_tag(&child) != DW_TAG_formal_parameter) {
			more = !dwarf_siblingof(&child, &child);
			continue;
		}
		placed = made ? function_made_from(function, &child, &found) : &child;
		if (out->count == TYPES_VALUES)
			out->more++;
		else
			ret = read_parameter(&out->arguments[out->count++], &child, placed, function, about, &walk);
		more = !dwarf_siblingof(&child, &child);
	}
	/* Where the first argument is tells whether the result has an address at all. */
	if (result.place.maybe && !result.missing && !walk.has_second)
		result.missing = "uncertain";
	out->result.missing = result.missing;
	return ret;
}
