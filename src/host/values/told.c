/*
 * What the types of a function tell: of what an entry shows, and of what a condition names.
 *
 * Callers: values.c.  Context: host, under the session's lock.
 */
#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <host/elf/filter.h>
#include <host/session/session.h>

#include "constant.h"
#include "values_impl.h"

/* What is added up, behind the values by which it is. */
static int follow_sum(struct spec *out, const struct values *values, const struct typed_function *of,
		      char why[TYPED_WHY])
{
	struct spec sum;
	bool result = values->sum_is_result || values->list[0].result;
	int ret = typed_follow(&sum, of, result, &values->sum, TYPED_FOR_COUNT, why);

	if (!ret)
		ret = values_join_sum(out, &sum);
	spec_clear(&sum);
	return ret;
}

int values_told(struct spec *out, struct values *values, struct entry *entry, const struct image *image,
		const struct object_site *source)
{
	struct typed_function of;
	char why[TYPED_WHY];
	int ret = typed_read(&of, values->typed, image, source);

	*out = (struct spec){0};
	if (!ret && !entry->follows) {
		ret = typed_translate(out, &of, entry->result);
	} else if (!ret) {
		ret = typed_follow(out, &of, entry->result, &entry->spec,
				   values->counts ? TYPED_FOR_COUNT : TYPED_FOR_SHOW, why);
		if (!ret && values->sum.count)
			ret = follow_sum(out, values, &of, why);
		out->span = entry->spec.span;
		entry->led |= !ret;
		if (ret == -EINVAL && !entry->why[0])
			memcpy(entry->why, why, sizeof(entry->why));
	}
	typed_function_clear(&of);
	return ret;
}

/* Values that a condition may name: of calls, or of returns. */
struct names {
	struct spec *spec;
	uint32_t followed; /* its last fields, which are of paths */
};

/* Make room for a field: the last one goes that types tell in any case.  Members stand behind their structures. */
static void make_room(struct names *names)
{
	struct spec *spec = names->spec;
	uint32_t last;

	if (spec->count < SPEC_ROWS)
		return;
	last = names->followed < SPEC_ROWS ? SPEC_ROWS - 1 - names->followed : SPEC_ROWS - 1;
	spec_clear_field(&spec->fields[last]);
	memmove(&spec->fields[last], &spec->fields[last + 1], (spec->count - last - 1) * sizeof(spec->fields[0]));
	spec->count--;
}

/* Put a field to the others, in place of one of its name; what it has is the spec's then. */
static void append(struct names *names, const struct spec_field *field)
{
	struct spec *spec = names->spec;

	for (uint32_t i = 0; i < spec->count; i++)
		if (!strcmp(spec->fields[i].name, field->name))
			spec->fields[i].name[0] = 0;
	make_room(names);
	spec->fields[spec->count++] = *field;
	names->followed++;
}

/* Paths of an entry to which the user has given names are values of a condition, too. */
static void append_named(struct names *names, const struct typed_function *of, const struct entry *entry)
{
	char why[TYPED_WHY];
	struct spec told;

	if (!typed_follow(&told, of, entry->result, &entry->spec, TYPED_FOR_COMPARE, why)) {
		for (uint32_t i = 0; i < told.count; i++)
			append(names, &told.fields[i]);
		told.count = 0;
	}
	spec_clear(&told);
}

/* Follow a path of the condition; false: it leads nowhere. */
static bool append_path(struct names names[2], const struct typed_function *of, const char *text, char why[TYPED_WHY])
{
	bool result = !strncmp(text, "ret", 3) && strchr("-.[", text[3]);
	struct spec asked = {.count = 0}, told;
	char name[SPEC_NAME];
	int ret;

	(void)spec_read_path(name, text);
	if (!name[0] || !spec_parse_path(&asked, text))
		return true; /* which is told when it is read as a part of the condition */
	memcpy(asked.fields[0].name, name, sizeof(name));
	ret = typed_follow(&told, of, result, &asked, TYPED_FOR_COMPARE, why);
	if (!ret) {
		append(&names[result], &told.fields[0]);
		told.count = 0;
	}
	spec_clear(&told);
	spec_clear(&asked);
	return ret != -EINVAL;
}

/* Is it a member that types tell in any case, as of a structure by value? */
static bool is_told(const struct names names[2], const char *text)
{
	char name[SPEC_NAME];

	(void)spec_read_path(name, text);
	for (unsigned result = 0; result < 2; result++)
		for (uint32_t i = 0; i < names[result].spec->count; i++)
			if (!strcmp(names[result].spec->fields[i].name, name))
				return names[result].spec->fields[i].type != SPEC_MISSING;
	return false;
}

/* The bytes of a letter, as '"', which begins no text; 0: there is none. */
static size_t letter_length(const char *text)
{
	const char *at = text;
	uint64_t value;

	return *text == '\'' && !constant_take_letter(&at, &value) ? (size_t)(at - text) : 0;
}

/* All paths in the condition's text that are not in quotes; what looks like one and is none has its reason in `why`. */
static void append_paths(struct names names[2], const struct typed_function *of, const char *text, char why[TYPED_WHY])
{
	char reason[TYPED_WHY];
	bool steps, quoted = false;
	size_t length;

	for (const char *at = text; *at; at += length ? length : 1) {
		length = quoted ? 0 : letter_length(at);
		if (length)
			continue;
		length = quoted ? 0 : spec_path_length(at, &steps);
		if (!length && *at == '\\' && at[1])
			at++;
		else if (!length)
			quoted ^= *at == '"';
		if (!length || !steps)
			continue;
		if (!append_path(names, of, at, reason) && !why[0] && !is_told(names, at))
			memcpy(why, reason, sizeof(reason));
	}
}

int values_tell_condition(struct spec specs[2], const struct values *values, const char *text,
			  const struct image *image, const struct object_site *source, char why[TYPED_WHY])
{
	struct names names[2] = {{.spec = &specs[0]}, {.spec = &specs[1]}};
	struct typed_function of;
	int ret = typed_read(&of, values->typed, image, source);

	specs[0] = specs[1] = (struct spec){0};
	why[0] = 0;
	for (unsigned result = 0; result < 2 && !ret; result++)
		ret = typed_translate(&specs[result], &of, result);
	for (uint16_t i = 0; i < values->count && !ret; i++)
		if (values->list[i].follows && filter_set_names_site(values->list[i].filters, image->object, source))
			append_named(&names[values->list[i].result], &of, &values->list[i]);
	if (!ret)
		append_paths(names, &of, text, why);
	typed_function_clear(&of);
	return ret;
}
