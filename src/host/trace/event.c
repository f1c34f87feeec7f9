/*
 * Events that describe themselves: their types, their bytes, their text.
 *
 * Callers: tables.c for the FORMATS chunk, the views and exporters, and the record and core rooms, which write traces.
 * Context: host.  All of the file is untrusted: fields that cannot be in an event are refused, and a field is read only
 * as far as the event's bytes go.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "reader.h"
#include "shown.h"
#include "writer.h"

int trace_writer_formats(struct trace_writer *writer)
{
	static const struct {
		struct calltap_file_formats head;
		struct calltap_file_field mark;
		char strings[24];
	} formats = {{1, sizeof(formats.strings)},
		     {.type = CALLTAP_EVENT_MARK, .name = 0, .field = 5, .c_type = 10, .flags = CALLTAP_FIELD_TEXT},
		     "mark\0text\0char text[]"};

	return trace_writer_chunk(writer, CALLTAP_CHUNK_FORMATS, &formats, sizeof(formats));
}

static bool is_number(uint32_t size)
{
	return size == 1 || size == 2 || size == 4 || size == 8;
}

static bool can_be(const struct calltap_file_field *field, uint32_t strings_size)
{
	return field->type <= CALLTAP_EVENT_TYPE_MAX && field->name < strings_size && field->field < strings_size &&
	       field->c_type < strings_size &&
	       (!(field->flags & (CALLTAP_FIELD_ENUM | CALLTAP_FIELD_MISSING)) || field->more < strings_size) &&
	       (field->flags & CALLTAP_FIELD_ELEMENT
			? field->size != 0
			: field->offset <= CALLTAP_EVENT_BYTES_MAX &&
				  field->size <= CALLTAP_EVENT_BYTES_MAX - field->offset) &&
	       (!(field->flags & CALLTAP_FIELD_PLACED) || field->size == sizeof(struct calltap_event_place)) &&
	       (field->flags & CALLTAP_FIELD_TEXT || is_number(field->size));
}

int formats_take(struct trace *trace, const char *payload, size_t size)
{
	const char *items, *strings;
	struct format_entry *entry = NULL;
	uint32_t count, strings_size, type = 0;
	int err =
		tables_split(payload, size, sizeof(struct calltap_file_field), &count, &items, &strings, &strings_size);

	if (!err && !trace->pointers)
		err = pointers_create(&trace->pointers);
	for (; !err && count; count--, items += sizeof(struct calltap_file_field)) {
		struct calltap_file_field from;

		memcpy(&from, items, sizeof(from));
		if (!can_be(&from, strings_size))
			return -EBADMSG;
		err = table_reach(&trace->formats, sizeof(*entry), from.type, CALLTAP_EVENT_TYPE_MAX + 1);
		if (!err)
			err = table_reach(&trace->fields, sizeof(struct trace_field), trace->fields.count,
					  tables_index_limit(trace));
		if (err)
			return err;
		entry = TABLE_ITEM(trace->formats, struct format_entry, from.type);
		if (!entry->name || from.type != type || items == payload + sizeof(struct calltap_file_formats))
			*entry = (struct format_entry){strings + from.name, trace->fields.count - 1, 0};
		type = from.type;
		entry->count++;
		*TABLE_ITEM(trace->fields, struct trace_field, trace->fields.count - 1) = (struct trace_field){
			strings + from.field,
			strings + from.c_type,
			from.offset,
			from.size,
			from.flags,
			from.flags & (CALLTAP_FIELD_ENUM | CALLTAP_FIELD_MISSING) ? strings + from.more : "",
		};
	}
	return err;
}

static const struct format_entry *format_of(const struct trace *trace, uint32_t type)
{
	const struct format_entry *entry =
		type < trace->formats.count ? TABLE_ITEM(trace->formats, struct format_entry, type) : NULL;

	return entry && entry->name ? entry : NULL;
}

const char *trace_format_name(const struct trace *trace, uint32_t type)
{
	const struct format_entry *entry = format_of(trace, type);

	return entry ? entry->name : NULL;
}

uint32_t trace_format_fields(const struct trace *trace, uint32_t type)
{
	const struct format_entry *entry = format_of(trace, type);

	return entry ? entry->count : 0;
}

const struct trace_field *trace_format_field(const struct trace *trace, uint32_t type, uint32_t i)
{
	return TABLE_ITEM(trace->fields, struct trace_field, format_of(trace, type)->first + i);
}

size_t trace_event_bytes(const struct trace_event *event, unsigned char bytes[CALLTAP_EVENT_BYTES_MAX])
{
	uint32_t words = event->kind == CALLTAP_REC_EVENT ? calltap_event_words(event->id) : 0;

	for (uint32_t i = 1; i < words; i++)
		memcpy(bytes + (size_t)(i - 1) * CALLTAP_EVENT_WORD_BYTES,
		       event->behind + (size_t)(i - 1) * sizeof(uint64_t), CALLTAP_EVENT_WORD_BYTES);
	return words > 1 ? (size_t)(words - 1) * CALLTAP_EVENT_WORD_BYTES : 0;
}

/* The first field of the event's type that has the flag; NULL = none, or it is not within the event's bytes. */
static const struct trace_field *find_field(const struct trace *trace, const struct format_entry *format, uint32_t flag,
					    size_t used)
{
	for (uint32_t i = 0; format && i < format->count; i++) {
		const struct trace_field *field = TABLE_ITEM(trace->fields, struct trace_field, format->first + i);

		if (field->flags & flag && !(field->flags & CALLTAP_FIELD_TEXT))
			return field->offset + field->size <= used ? field : NULL;
	}
	return NULL;
}

static enum trace_role role_of(const struct trace *trace, const struct format_entry *format)
{
	const struct trace_field *field;

	if (!format || !format->count)
		return TRACE_ITSELF;
	field = TABLE_ITEM(trace->fields, struct trace_field, format->first);
	if (field->flags & CALLTAP_FIELD_ARGUMENT)
		return TRACE_ARGUMENTS;
	return field->flags & CALLTAP_FIELD_RESULT ? TRACE_RESULT : TRACE_ITSELF;
}

enum trace_role trace_event_role(const struct trace *trace, const struct trace_event *event)
{
	return role_of(trace, format_of(trace, calltap_event_type(event->id)));
}

uint32_t trace_event_function(const struct trace *trace, const struct trace_event *event)
{
	unsigned char bytes[CALLTAP_EVENT_BYTES_MAX];
	const struct trace_field *field = find_field(trace, format_of(trace, calltap_event_type(event->id)),
						     CALLTAP_FIELD_FUNCTION, trace_event_bytes(event, bytes));

	return field ? (uint32_t)shown_bits(field, bytes) : TRACE_NONE;
}

/* True if nobody but a reader wants the field. */
static bool is_hidden(const struct trace_field *field)
{
	return field->flags & (CALLTAP_FIELD_FUNCTION | CALLTAP_FIELD_FAULTS | CALLTAP_FIELD_ELEMENT);
}

/* A bit for each value of a call that was not read. */
static uint64_t missing_of(const struct trace *trace, const struct format_entry *format, const unsigned char *bytes,
			   size_t used)
{
	const struct trace_field *faults = find_field(trace, format, CALLTAP_FIELD_FAULTS, used);

	return faults ? shown_bits(faults, bytes) : 0;
}

#define GROUP_DEPTH 8u	 /* structures within structures; what is farther in keeps its points */
#define NEST_DEPTH  8u	 /* lists within lists */
#define ABSENT_TEXT 256u /* bytes of the name of a value that is not there, with others' around it */

/* The values of a call that are being printed, or the members of an element of a list. */
struct values_output {
	struct shown *out;
	const struct trace *trace;
	const struct format_entry *format;
	const unsigned char *bytes;
	size_t used;
	uint64_t missing; /* a bit for each value that was not read */
	uint32_t i;	  /* the next field */
	uint32_t shown;	  /* its number among the values */
	uint32_t nest;	  /* lists around: the fields are those of an element */
};

static const struct trace_field *field_at(const struct values_output *values, uint32_t i)
{
	return TABLE_ITEM(values->trace->fields, struct trace_field, values->format->first + i);
}

static const struct trace_field *next_field(const struct values_output *values)
{
	const struct trace_field *field;

	if (values->i >= values->format->count)
		return NULL;
	field = field_at(values, values->i);
	if (values->nest)
		return field->flags & CALLTAP_FIELD_ELEMENT ? field : NULL;
	return is_hidden(field) ? NULL : field;
}

/* Is the field called by this, a point, and more?  length: of the prefix. */
static bool is_within(const struct trace_field *field, const char *prefix, size_t length)
{
	return !strncmp(field->name, prefix, length) && field->name[length] == '.';
}

/*
 * The row that describes one element of the list in this field; NULL: the field is no list.  What a list within an
 * element has is called as that list is.
 */
static const struct trace_field *element_of(const struct values_output *values, const struct trace_field *field)
{
	const struct trace_field *end = field_at(values, 0) + values->format->count;

	return field->flags & CALLTAP_FIELD_TEXT && field + 1 < end && field[1].flags & CALLTAP_FIELD_ELEMENT &&
			       !(field[1].flags & CALLTAP_FIELD_PLACED) &&
			       (!(field->flags & CALLTAP_FIELD_ELEMENT) || !strcmp(field->name, field[1].name))
		       ? field + 1
		       : NULL;
}

/* Go to the next field behind this one, and what it is a list of. */
static void pass_field(struct values_output *values, const struct trace_field *field)
{
	const struct trace_field *list = field, *end = field_at(values, 0) + values->format->count;
	size_t length = strlen(list->name);
	bool is_list = element_of(values, field);

	do {
		values->i++;
		field++;
	} while (is_list && field < end && field->flags & CALLTAP_FIELD_ELEMENT &&
		 (!strcmp(field->name, list->name) || is_within(field, list->name, length)));
	values->shown++;
}

/* The number of a field that says whether there is a value has a name: there is none. */
static bool says_none(const struct trace_field *guard, const unsigned char *bytes, size_t used)
{
	const char *list = guard->more;
	struct shown_name name;

	if (guard->offset > used || guard->size > used - guard->offset)
		return true;
	while (shown_take_name(&name, &list))
		if (name.value == shown_bits(guard, bytes))
			return true;
	return false;
}

static bool is_guard(const struct trace_field *field)
{
	return (field->flags & (CALLTAP_FIELD_GUARD | CALLTAP_FIELD_ENUM | CALLTAP_FIELD_TEXT)) ==
	       (CALLTAP_FIELD_GUARD | CALLTAP_FIELD_ENUM);
}

static bool is_variant(const struct trace_field *field)
{
	return (field->flags & (CALLTAP_FIELD_VARIANT | CALLTAP_FIELD_ENUM | CALLTAP_FIELD_TEXT)) ==
	       (CALLTAP_FIELD_VARIANT | CALLTAP_FIELD_ENUM);
}

/* The name of the structure that there is, as a field tells. */
struct variant {
	const char *name;
	size_t length;
	uint64_t fields; /* that it has */
};

/* False: it is not known. */
static bool variant_of(struct variant *out, const struct trace_field *field, const unsigned char *bytes, size_t used)
{
	const char *next, *equals, *number;
	bool found = false;
	uint64_t value;
	char *end;

	if (field->offset > used || field->size > used - field->offset)
		return false;
	value = shown_bits(field, bytes);
	for (const char *at = field->more; at && *at; at = next ? next + 1 : NULL) {
		bool all;

		next = strchr(at, ',');
		equals = strchr(at, '=');
		if (!equals || equals == at || equals - at > TRACE_EVENT_TEXT || (next && equals > next))
			return found;
		number = equals + 1;
		all = *number == '*';
		if (!all && strtoull(number, &end, 16) != value)
			continue;
		*out = (struct variant){.name = at, .length = (size_t)(equals - at)};
		number = strchr(number, ':');
		if (number && (!next || number < next))
			out->fields = strtoull(number + 1, NULL, 16);
		found = true;
		if (!all)
			return true;
	}
	return found;
}

static void put_variant_name(struct shown *out, const struct trace_field *field, const unsigned char *bytes,
			     size_t used)
{
	struct variant variant;

	if (variant_of(&variant, field, bytes, used))
		shown_put(out, "%.*s", (int)variant.length, variant.name);
	else if (field->offset <= used && field->size <= used - field->offset)
		shown_number(out, field, bytes);
}

static void put_body(struct values_output *values, const char *prefix, size_t length, bool cut, uint32_t depth);
static void put_elements(const struct values_output *values, const struct trace_field *element,
			 const unsigned char *bytes, size_t length, bool more);

/* Is the element shown at all? */
static bool is_shown(const struct values_output *values, const struct trace_field *element)
{
	return !(element->flags & CALLTAP_FIELD_TEXT) || element->flags & (CALLTAP_FIELD_GROUP | CALLTAP_FIELD_CHAR) ||
	       element_of(values, element);
}

/* Print an element of a list, of which so many bytes are there. */
static void put_element(const struct values_output *values, const struct trace_field *element,
			const unsigned char *bytes, size_t length)
{
	const struct trace_field *inner = element_of(values, element);
	struct values_output within = *values;
	struct trace_field one = *element;

	within.nest++;
	if (within.nest > NEST_DEPTH) {
		shown_put(values->out, "...");
	} else if (inner) {
		shown_put(values->out, "{");
		put_elements(&within, inner, bytes, length, element->flags & CALLTAP_FIELD_CUT);
		shown_put(values->out, "}");
	} else if (element->flags & CALLTAP_FIELD_GROUP) {
		within.i = (uint32_t)(element - field_at(values, 0)) + 1;
		within.bytes = bytes;
		within.used = length;
		within.missing = 0;
		put_body(&within, element->name, strlen(element->name), element->flags & CALLTAP_FIELD_CUT, 0);
	} else if (element->flags & CALLTAP_FIELD_TEXT) {
		shown_quoted(values->out, bytes, strnlen((const char *)bytes, length));
	} else {
		one.offset = 0;
		shown_number(values->out, &one, bytes);
	}
}

/* Print elements; more: something is left out. */
static void put_elements(const struct values_output *values, const struct trace_field *element,
			 const unsigned char *bytes, size_t length, bool more)
{
	bool shows = is_shown(values, element);
	size_t count = shows ? length / element->size : 0;

	for (size_t i = 0; i < count && !shown_is_full(values->out); i++) {
		shown_put(values->out, "%s", i ? ", " : "");
		put_element(values, element, bytes + i * element->size, element->size);
	}
	/* The record had no room for the whole first structure, and holds its beginning. */
	if (!count && length && shows && element->flags & CALLTAP_FIELD_GROUP) {
		put_element(values, element, bytes, length);
		count = 1;
	}
	if (more || (!count && length))
		shown_put(values->out, "%s...", count ? ", " : "");
}

static void put_placed(const struct values_output *values, const struct trace_field *field,
		       const struct trace_field *element);

/* Print the first texts of a list of `count`; false: none of them are in the event. */
static bool put_texts(const struct values_output *values, const struct trace_field *element, uint64_t count)
{
	const struct trace_field *end = field_at(values, 0) + values->format->count, *text = element + 1;
	uint64_t i = 0;

	for (; i < count && text + i < end && text[i].flags & CALLTAP_FIELD_ELEMENT &&
	       text[i].flags & CALLTAP_FIELD_PLACED && !strcmp(text[i].name, element->name) &&
	       text[i].offset < values->used && values->used - text[i].offset >= text[i].size;
	     i++) {
		shown_put(values->out, "%s", i ? ", " : "");
		put_placed(values, &text[i], NULL);
	}
	if (i && i < count)
		shown_put(values->out, ", ...");
	return i;
}

/* Print the list at a place that the event itself names: how many, and the first ones. */
static void put_list(const struct values_output *values, const struct trace_field *element, size_t at, uint16_t flags)
{
	size_t length = flags & CALLTAP_PLACE_SIZE, used = values->used;
	bool cut = flags & CALLTAP_PLACE_CUT, fault = flags & CALLTAP_PLACE_FAULT;
	uint64_t size;

	length = length < used - at ? length : used - at;
	size = length;
	if (cut && used - at - length >= sizeof(size))
		memcpy(&size, values->bytes + at + length, sizeof(size));
	if (fault && !length) {
		shown_put(values->out, "(fault)");
		return;
	}
	shown_put(values->out, "{");
	if (!fault && size)
		shown_put(values->out, "%" PRIu64 ": ", size / element->size);
	if (!size || !put_texts(values, element, size / element->size))
		put_elements(values, element, values->bytes + at, length, cut);
	shown_put(values->out, "}%s", fault ? "(fault)" : "");
}

/* Print what is told of a text that is cut: its size in the program follows it. */
static void put_size(struct shown *out, const struct trace_field *field, const unsigned char *behind, size_t left)
{
	uint64_t size;

	shown_put(out, "...");
	if (!(field->flags & CALLTAP_FIELD_COUNTED) || left < sizeof(size))
		return;
	memcpy(&size, behind, sizeof(size));
	shown_put(out, "(%" PRIu64 " bytes)", size);
}

/* Print the text at a place that the event itself names. */
static void put_placed(const struct values_output *values, const struct trace_field *field,
		       const struct trace_field *element)
{
	struct calltap_event_place place;
	struct shown *out = values->out;
	size_t length, used = values->used;

	memcpy(&place, values->bytes + field->offset, sizeof(place));
	length = place.size & CALLTAP_PLACE_SIZE;
	if (place.offset > used)
		return;
	if ((place.size & CALLTAP_PLACE_NULL) == CALLTAP_PLACE_NULL) {
		shown_put(out, "NULL");
		return;
	}
	if (element) {
		put_list(values, element, place.offset, place.size);
		return;
	}
	length = length < used - place.offset ? length : used - place.offset;
	if (length || !(place.size & CALLTAP_PLACE_FAULT))
		shown_quoted(out, values->bytes + place.offset, length);
	if (place.size & CALLTAP_PLACE_CUT)
		put_size(out, field, values->bytes + place.offset + length, used - place.offset - length);
	if (place.size & CALLTAP_PLACE_FAULT)
		shown_put(out, "(fault)");
}

/* Print a field's value. */
static void put_value(const struct values_output *values, const struct trace_field *field)
{
	const struct trace_field *element = element_of(values, field);
	size_t left = field->offset < values->used ? values->used - field->offset : 0;
	const unsigned char *bytes = values->bytes + (left ? field->offset : 0);

	if (shown_is_long_double(field)) {
		if (field->size <= left)
			shown_long_double(values->out, field, values->bytes);
	} else if (field->flags & CALLTAP_FIELD_MISSING) {
		shown_put(values->out, "(%s)", field->more);
	} else if (is_variant(field)) {
		put_variant_name(values->out, field, values->bytes, values->used);
	} else if (!(field->flags & CALLTAP_FIELD_TEXT)) {
		if (field->size <= left)
			shown_number(values->out, field, values->bytes);
	} else if (field->flags & CALLTAP_FIELD_PLACED) {
		if (left >= sizeof(struct calltap_event_place))
			put_placed(values, field, element);
	} else if (element) {
		if (field->size <= left) {
			shown_put(values->out, "{");
			put_elements(values, element, bytes, field->size, field->flags & CALLTAP_FIELD_CUT);
			shown_put(values->out, "}");
		}
	} else {
		if (field->size && field->size < left)
			left = field->size;
		shown_put(values->out, "%.*s", (int)left, (const char *)bytes);
	}
}

static void put_simple(struct values_output *values, const struct trace_field *field)
{
	const unsigned char *text = values->bytes + field->offset;
	bool plain = field->flags & CALLTAP_FIELD_TEXT &&
		     !(field->flags & (CALLTAP_FIELD_PLACED | CALLTAP_FIELD_MISSING)) && !element_of(values, field);

	if (values->shown < 64 && values->missing >> values->shown & 1) {
		shown_put(values->out, "(fault)");
	} else if (plain && field->size && field->size <= values->used && field->offset <= values->used - field->size) {
		size_t length = strnlen((const char *)text, field->size);

		shown_quoted(values->out, text, length);
		shown_put(values->out, "%s", length == field->size && field->flags & CALLTAP_FIELD_CUT ? "..." : "");
	} else {
		put_value(values, field);
	}
	pass_field(values, field);
}

/* Does the number in front of it say that the field, which it is about, is not there?  length: up to its last name. */
static bool is_against(const struct values_output *values, const struct trace_field *guard,
		       const struct trace_field *field, size_t length)
{
	struct variant variant;

	if (is_guard(guard))
		return says_none(guard, values->bytes, values->used);
	return !variant_of(&variant, guard, values->bytes, values->used) ||
	       strncmp(field->name + length + 1, variant.name, variant.length) != 0 ||
	       field->name[length + 1 + variant.length] != '.';
}

/* The field that says that this one has no value, the outermost one first; NULL: it has one. */
static const struct trace_field *guard_against(const struct values_output *values, const struct trace_field *field)
{
	for (uint32_t i = 0; i < values->format->count; i++) {
		const struct trace_field *guard = field_at(values, i);
		const char *point = is_guard(guard) || is_variant(guard) ? strrchr(guard->name, '.') : NULL;
		size_t length = point ? (size_t)(point - guard->name) : 0;

		if (point && guard != field && !is_hidden(guard) && is_within(field, guard->name, length) &&
		    is_against(values, guard, field, length))
			return guard;
	}
	return NULL;
}

static void pass_members(struct values_output *values, const char *prefix, size_t length)
{
	const struct trace_field *field;

	while ((field = next_field(values)) && is_within(field, prefix, length))
		pass_field(values, field);
}

/*
 * The text in front of an optional value whose own text would read like an absent one: Rust writes Some(None), and C++
 * has braces.  none: the name of an absent value.
 */
static const char *front_of(const struct shown_name *none)
{
	return none->length == 4 && !strncmp(none->name, "None", 4) ? "Some(" : "{";
}

static const char *end_of(const char *front)
{
	return front[0] == '{' ? "}" : ")";
}

/* Is the text the name, or that with fronts and ends around it? */
static bool is_absent(const char *text, size_t length, const struct shown_name *none, const char *front)
{
	size_t edge = strlen(front);

	while (length > edge && !strncmp(text, front, edge)) {
		text += edge;
		length -= edge + 1;
	}
	return length == (size_t)none->length && !strncmp(text, none->name, length);
}

/*
 * A value is there, but is shown by the name of what is not there, as that of an Option within an Option may be: what
 * is printed from `start` on gets a front and an end.
 */
static void wrap_absent(struct shown *out, size_t start, const struct trace_field *guard)
{
	const char *list = guard->more, *front;
	size_t length = out->at - start;
	struct shown_name none;
	char text[ABSENT_TEXT];

	if (length >= sizeof(text) || !shown_take_name(&none, &list))
		return;
	memcpy(text, out->text + start, length);
	front = front_of(&none);
	if (!is_absent(text, length, &none, front))
		return;
	out->at = start;
	shown_put(out, "%s%.*s%s", front, (int)length, text, end_of(front));
}

/* Print what may have a value, as the next field tells, or the value in its place. */
static void put_optional(struct values_output *values, const char *prefix, size_t length, bool cut, uint32_t depth)
{
	const struct trace_field *guard = next_field(values), *field;
	const char *point;
	size_t start;

	if (says_none(guard, values->bytes, values->used)) {
		if (guard->offset <= values->used && guard->size <= values->used - guard->offset)
			shown_number(values->out, guard, values->bytes);
		pass_members(values, prefix, length);
		return;
	}
	pass_field(values, guard);
	field = next_field(values);
	if (!field || !is_within(field, prefix, length)) {
		shown_put(values->out, "...");
		return;
	}
	start = values->out->at;
	point = strchr(field->name + length + 1, '.');
	if (point && depth < GROUP_DEPTH)
		put_body(values, field->name, (size_t)(point - field->name), cut, depth + 1);
	else
		put_simple(values, field);
	wrap_absent(values->out, start, guard);
	pass_members(values, prefix, length);
}

/* Does the field lie behind what is there of an element? */
static bool is_behind(const struct values_output *values, const struct trace_field *field)
{
	return values->nest && (!(field->flags & CALLTAP_FIELD_MISSING) || shown_is_long_double(field)) &&
	       (field->offset > values->used || field->size > values->used - field->offset);
}

/* Print the members that are called by the first bytes of the name, a point, and more; false: some are not there. */
static bool put_members(struct values_output *values, const char *prefix, size_t length, bool bare, uint32_t depth)
{
	const struct trace_field *field;
	bool any = false, all = true;

	while ((field = next_field(values)) && is_within(field, prefix, length)) {
		const char *name = field->name + length + 1, *point = strchr(name, '.');

		if (is_behind(values, field)) {
			all = false;
			pass_field(values, field);
			continue;
		}
		shown_put(values->out, "%s", any ? ", " : "");
		any = true;
		if (point && depth < GROUP_DEPTH) {
			if (!bare)
				shown_put(values->out, "%.*s=", (int)(point - name), name);
			put_body(values, field->name, (size_t)(point - field->name), false, depth + 1);
			continue;
		}
		if (!bare)
			shown_put(values->out, "%s=", name);
		put_simple(values, field);
	}
	return all;
}

/* Print members between braces, or parentheses if they have no names; fields: that there are, as far as is known. */
static void put_between(struct values_output *values, const char *prefix, size_t length, bool bare, uint64_t fields,
			uint32_t depth)
{
	uint32_t before = values->shown;
	size_t start;
	bool cut;

	shown_put(values->out, bare ? "(" : "{");
	start = values->out->at;
	cut = !put_members(values, prefix, length, bare, depth);
	cut |= fields > values->shown - before;
	shown_put(values->out, "%s%s%s", cut && values->out->at > start ? ", " : "", cut ? "..." : "",
		  bare ? ")" : "}");
}

/* Rust's own names of members that have none. */
static bool is_bare(const char *name)
{
	return name[0] == '_' && name[1] == '_' && name[2] >= '0' && name[2] <= '9';
}

/* Print the one structure of several that there is, as the next field tells. */
static void put_variant(struct values_output *values, const char *prefix, size_t length, uint32_t depth)
{
	const struct trace_field *number = next_field(values), *field;
	struct variant variant = {.name = NULL};

	put_variant_name(values->out, number, values->bytes, values->used);
	(void)variant_of(&variant, number, values->bytes, values->used);
	pass_field(values, number);
	while ((field = next_field(values)) && is_within(field, prefix, length)) {
		const char *name = field->name + length + 1;

		if (!variant.fields || strncmp(name, variant.name, variant.length) != 0 ||
		    name[variant.length] != '.') {
			pass_field(values, field);
			continue;
		}
		put_between(values, field->name, length + 1 + variant.length, is_bare(name + variant.length + 1),
			    variant.fields, depth + 1);
		variant.fields = 0;
	}
	if (variant.fields)
		shown_put(values->out, "(...)");
}

/* Print a structure's members, or what it has in their place; cut: there are more. */
static void put_body(struct values_output *values, const char *prefix, size_t length, bool cut, uint32_t depth)
{
	const struct trace_field *field = next_field(values);

	if (field && is_guard(field) && is_within(field, prefix, length))
		put_optional(values, prefix, length, cut, depth);
	else if (field && is_variant(field) && is_within(field, prefix, length))
		put_variant(values, prefix, length, depth);
	else
		put_between(values, prefix, length, false, cut ? UINT64_MAX : 0, depth);
}

/* Print a structure, or its address where it was not read. */
static void put_group(struct values_output *values, const struct trace_field *group)
{
	size_t length = strlen(group->name);
	bool has_address = !(group->flags & CALLTAP_FIELD_TEXT) && group->offset + group->size <= values->used;
	bool missing = values->shown < 64 && values->missing >> values->shown & 1;
	uint64_t address = has_address ? shown_bits(group, values->bytes) : 1;

	pass_field(values, group);
	if (!missing && address) {
		put_body(values, group->name, length, group->flags & CALLTAP_FIELD_CUT, 0);
		return;
	}
	if (!address)
		shown_put(values->out, "NULL");
	else if (has_address)
		shown_put(values->out, "0x%" PRIx64 "(fault)", address);
	else
		shown_put(values->out, "(fault)");
	pass_members(values, group->name, length);
}

/* Print the next value, a structure with all its members. */
static void put_next(struct values_output *values, const struct trace_field *field)
{
	if (field->flags & CALLTAP_FIELD_GROUP)
		put_group(values, field);
	else
		put_simple(values, field);
}

/* Print the values of a call: all fields but those that are for readers. */
static void put_values(struct shown *out, const struct trace *trace, const struct format_entry *format,
		       const unsigned char *bytes, size_t used)
{
	struct values_output values = {.out = out,
				       .trace = trace,
				       .format = format,
				       .bytes = bytes,
				       .used = used,
				       .missing = missing_of(trace, format, bytes, used)};

	for (; values.i < format->count;) {
		const struct trace_field *field = next_field(&values);

		if (!field) {
			values.i++;
			continue;
		}
		shown_put(out, "%s", values.shown ? ", " : "");
		if (role_of(trace, format) != TRACE_RESULT || strcmp(field->name, "ret") != 0)
			shown_put(out, "%s=", field->name);
		put_next(&values, field);
	}
}

/* The bytes of a text, without quotes; false: it could not be read. */
static bool put_bytes(struct shown *out, const struct trace_field *field, const unsigned char *bytes, size_t used)
{
	struct calltap_event_place place;
	size_t length;

	if (field->offset + sizeof(place) > used)
		return false;
	memcpy(&place, bytes + field->offset, sizeof(place));
	length = place.size & CALLTAP_PLACE_SIZE;
	if (place.offset > used || (!length && place.size & CALLTAP_PLACE_FAULT))
		return false;
	length = length < used - place.offset ? length : used - place.offset;
	shown_put(out, "%.*s", (int)length, (const char *)bytes + place.offset);
	return true;
}

static enum trace_value_kind kind_of(const struct trace_field *field, const char *text)
{
	const uint32_t words = CALLTAP_FIELD_ENUM | CALLTAP_FIELD_HEX | CALLTAP_FIELD_CHAR | CALLTAP_FIELD_FLOAT;

	if (field->flags & CALLTAP_FIELD_BOOL && !strchr("0123456789", text[0]))
		return TRACE_VALUE_BOOL;
	/* An enumeration without a name for the number; a float that is no number. */
	return !(field->flags & words) || (!text[strspn(text, "-+.e0123456789")] && !(field->flags & CALLTAP_FIELD_HEX))
		       ? TRACE_VALUE_NUMBER
		       : TRACE_VALUE_TEXT;
}

/* Fill in a value from its field; missing: it was not read. */
static void tell_value(const struct values_output *values, const struct trace_event *event, struct trace_value *value,
		       const struct trace_field *field, bool missing)
{
	struct shown text = {value->text, 0, sizeof(value->text), values->trace, event};
	struct values_output one = *values;

	value->name = field->name;
	value->kind = TRACE_VALUE_NONE;
	value->text[0] = 0;
	if ((field->flags & CALLTAP_FIELD_MISSING && !shown_is_long_double(field)) || missing)
		return;
	if (field->flags & CALLTAP_FIELD_PLACED && !element_of(values, field)) {
		value->kind =
			put_bytes(&text, field, values->bytes, values->used) ? TRACE_VALUE_TEXT : TRACE_VALUE_NONE;
		return;
	}
	if (is_guard(field)) {
		shown_put(&text, "%s", says_none(field, values->bytes, values->used) ? "false" : "true");
		value->kind = TRACE_VALUE_BOOL;
		return;
	}
	one.out = &text;
	if (is_variant(field)) {
		put_variant_name(&text, field, values->bytes, values->used);
		value->kind = value->text[0] ? TRACE_VALUE_TEXT : TRACE_VALUE_NONE;
		return;
	}
	put_value(&one, field);
	if (shown_is_long_double(field) && value->text[0])
		value->kind = kind_of(field, value->text);
	else if (field->flags & CALLTAP_FIELD_TEXT)
		value->kind = field->flags & CALLTAP_FIELD_GROUP ? TRACE_VALUE_NONE : TRACE_VALUE_TEXT;
	else if (value->text[0])
		value->kind = kind_of(field, value->text);
	if (field->flags & CALLTAP_FIELD_HEX && strcmp(value->text, "NULL") == 0)
		memcpy(value->text, "0x0", sizeof("0x0"));
}

void trace_event_each_value(const struct trace *trace, const struct trace_event *event,
			    void (*see)(void *ctx, const struct trace_value *value), void *ctx)
{
	const struct format_entry *format = format_of(trace, calltap_event_type(event->id));
	unsigned char bytes[CALLTAP_EVENT_BYTES_MAX];
	size_t used = trace_event_bytes(event, bytes);
	struct values_output values = {.trace = trace, .format = format, .bytes = bytes, .used = used};
	uint64_t missing = format ? missing_of(trace, format, bytes, used) : 0;
	struct trace_value value;
	uint32_t number = 0;

	for (uint32_t i = 0; format && i < format->count; i++) {
		const struct trace_field *field = field_at(&values, i);

		if (is_hidden(field))
			continue;
		tell_value(&values, event, &value, field,
			   (number < 64 && missing >> number & 1) || guard_against(&values, field));
		number++;
		see(ctx, &value);
	}
}

/*
 * Print the name that a guard has for its absent value, such as None, with "Some(" for each optional value around it
 * that is there.  Of a variant: print its name.
 */
static void put_guard(const struct values_output *values, const struct trace_field *guard)
{
	const char *list = guard->more, *front;
	struct shown_name none;
	uint32_t around = 0;

	if (is_variant(guard)) {
		put_variant_name(values->out, guard, values->bytes, values->used);
		return;
	}
	if (!shown_take_name(&none, &list))
		return;
	front = front_of(&none);
	for (const struct trace_field *outer = field_at(values, 0); outer < guard; outer++) {
		const char *point = is_guard(outer) && !is_hidden(outer) ? strrchr(outer->name, '.') : NULL;

		if (!point || !is_within(guard, outer->name, (size_t)(point - outer->name)))
			continue;
		shown_put(values->out, "%s", front);
		around++;
	}
	shown_number(values->out, guard, values->bytes);
	while (around--)
		shown_put(values->out, "%s", end_of(front));
}

bool trace_event_value(const struct trace *trace, const struct trace_event *event, const char *name,
		       char text[TRACE_EVENT_TEXT])
{
	const struct format_entry *format = format_of(trace, calltap_event_type(event->id));
	struct shown out = {text, 0, TRACE_EVENT_TEXT, trace, event};
	unsigned char bytes[CALLTAP_EVENT_BYTES_MAX];
	struct values_output values = {.out = &out, .trace = trace, .format = format, .bytes = bytes};

	text[0] = 0;
	values.used = trace_event_bytes(event, bytes);
	values.missing = format ? missing_of(trace, format, bytes, values.used) : 0;
	while (format && values.i < format->count) {
		const struct trace_field *field = next_field(&values);

		if (field && strcmp(field->name, name) == 0) {
			const struct trace_field *guard = guard_against(&values, field);

			if (guard && guard->offset + guard->size <= values.used)
				put_guard(&values, guard);
			else
				put_next(&values, field);
			return true;
		}
		values.i++;
		values.shown += field != NULL;
	}
	return false;
}

const char *trace_event_text(const struct trace *trace, const struct trace_event *event, char text[TRACE_EVENT_TEXT])
{
	const struct format_entry *format = format_of(trace, calltap_event_type(event->id));
	struct shown out = {text, 0, TRACE_EVENT_TEXT, trace, event};
	unsigned char bytes[CALLTAP_EVENT_BYTES_MAX];
	struct values_output values = {.out = &out, .trace = trace, .format = format, .bytes = bytes};

	text[0] = 0;
	if (!format)
		return NULL;
	values.used = trace_event_bytes(event, bytes);
	if (role_of(trace, format) != TRACE_ITSELF) {
		put_values(&out, trace, format, bytes, values.used);
		return format->name;
	}
	for (uint32_t i = 0; i < format->count; i++) {
		const struct trace_field *field = field_at(&values, i);

		if (format->count > 1 || !(field->flags & CALLTAP_FIELD_TEXT))
			shown_put(&out, "%s%s=", i ? " " : "", field->name);
		if (!is_hidden(field))
			put_value(&values, field);
	}
	return format->name;
}
