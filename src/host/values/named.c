/*
 * Values that a condition names (named.h).  Context: host.
 */
#include <stdio.h>
#include <string.h>

#include "condition.h"
#include "named.h"

const struct spec_field *named_find(const struct spec *names, const char *name, size_t length)
{
	for (uint32_t i = 0; names && i < names->count; i++) {
		const struct spec_field *field = &names->fields[i];

		if (strlen(field->name) == length && !strncmp(field->name, name, length))
			return field;
	}
	return NULL;
}

/* A type that tells how a value is shown, as one by which it is compared. */
static uint8_t compared_as(const struct spec_field *field)
{
	switch (field->type) {
	case SPEC_BOOL:
	case SPEC_GUARD:
	case SPEC_VARIANT:
		return SPEC_UNSIGNED;
	case SPEC_CHAR:
	case SPEC_ENUM:
		return field->is_signed ? SPEC_SIGNED : SPEC_UNSIGNED;
	case SPEC_POINTER:
	case SPEC_GROUP:
		return SPEC_HEX;
	default:
		return field->type;
	}
}

/* The structure's first member if it is of this type, which stands behind it; NULL: it is not, or there are no others.
 */
static const struct spec_field *first_of(const struct spec *names, const struct spec_field *group, uint8_t type)
{
	size_t i = names ? (size_t)(group - names->fields) : 0;

	if (!names)
		return NULL;
	return i + 1 < names->count && group[1].within == i + 1 && group[1].type == type ? &group[1] : NULL;
}

/* Is it Rust's Option?  Its address is that of a reference, which means nothing by itself. */
static bool is_option(const struct spec *names, const struct spec_field *group)
{
	const struct spec_field *guard = first_of(names, group, SPEC_GUARD);

	return guard && guard->more && !strncmp(guard->more, "None=", 5);
}

/* Why a value that types tell cannot be compared; NULL: it can. */
static const char *refusal_of(const struct spec *names, const struct spec_field *field, const struct spec_field *group)
{
	if (field->type == SPEC_MISSING)
		return "this value is not available: -a shows why";
	if (field->type == SPEC_CHARS || field->type == SPEC_ARRAY || field->element_count)
		return "arrays are recorded, but not compared so far";
	if (field->type == SPEC_LONG_DOUBLE)
		return "a long double is recorded, but not compared so far";
	if (field->type == SPEC_GROUP && first_of(names, field, SPEC_VARIANT))
		return "which variant this is is asked by its name, as in 's.variant == Ok'";
	if (field->type == SPEC_GROUP && (!field->at_address || is_option(names, field)))
		return "a structure is no number; compare one of its members";
	if (group && !group->at_address && field->at % 8 * 8 + condition_bits(field) > 64)
		return "this member lies across two words, and is recorded, but not compared so far";
	return NULL;
}

/* A member of a structure that goes by value: some bits of a register, or of a word of the stack. */
static void tell_part(struct spec_field *told, const struct spec_field *member, const struct spec_field *group)
{
	bool result = !group->argument || group->argument == SPEC_SECOND;
	/* Else it is on the stack, or in one register of integers. */
	bool in_parts = result || group->vector || group->second_argument || group->second_vector;
	unsigned step = in_parts && group->step ? group->step : 8, part = member->at / step;

	if (!in_parts)
		told->argument = (uint8_t)(group->argument + part);
	else if (part)
		told->argument = group->second_argument;
	told->vector = in_parts && part ? group->second_vector : group->vector;
	if (part > 1 && told->vector)
		told->vector = (uint8_t)(told->vector + part - 1);
	if (told->type == SPEC_STRING)
		return;
	told->bit = (uint8_t)(member->bit + member->at % step * 8);
	told->bits = (uint8_t)condition_bits(member);
	told->size = 8;
}

/* Has the structure of that name a value, or none? */
static bool may_have_value(const struct spec *names, const char *path)
{
	char name[SPEC_NAME + sizeof(".has_value")];
	const struct spec_field *guard;

	snprintf(name, sizeof(name), "%s.has_value", path);
	guard = named_find(names, name, strlen(name));
	return guard && guard->type == SPEC_GUARD;
}

const struct spec_field *named_find_value(const struct spec *names, const char path[SPEC_NAME])
{
	const struct spec_field *field = named_find(names, path, strlen(path)), *value = NULL;
	char name[SPEC_NAME];

	memcpy(name, path, sizeof(name));
	while (may_have_value(names, name) && strlen(name) + sizeof(".value") <= sizeof(name)) {
		memcpy(name + strlen(name), ".value", sizeof(".value"));
		value = named_find(names, name, strlen(name));
	}
	return value ? value : field;
}

const char *named_tell(struct spec_field *out, const struct spec *names, const struct spec_field *field)
{
	const struct spec_field *group = field->within ? &names->fields[field->within - 1] : NULL;
	const struct spec_field *base = group ? group : field;
	const char *why = refusal_of(names, field, group);

	*out = *field;
	if (why)
		return why;
	out->type = compared_as(field);
	out->size = field->type == SPEC_GROUP ? 8 : field->size;
	out->argument = base->argument;
	out->vector = base->vector;
	out->within = 0;
	if (group && !group->at_address) {
		tell_part(out, field, group);
	} else if (group) {
		out->offset_count = 1;
		out->offsets[0] = field->at;
	}
	out->at_address |= group && group->at_address;
	/* An offset of a string leads to the text itself: the address that lies there is one more step away. */
	if (group && out->offset_count && out->type == SPEC_STRING)
		out->offset_count = 2;
	return NULL;
}
