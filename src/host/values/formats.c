/*
 * FORMATS of values (formats.h).  Context: host.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <calltap/abi/file.h>
#include <calltap/abi/record.h>
#include <host/trace/writer.h>

#include "formats.h"

#define TYPE_TEXT   16	       /* bytes of a type's name, with its NUL */
#define STRINGS_MAX (1u << 20) /* of a chunk, at about */
#define FORMATS_MAX 4096u      /* in a chunk */

/* The rows and strings of a FORMATS chunk that are being made. */
struct rows {
	struct calltap_file_field *list;
	uint32_t count, list_room;
	char *strings;
	uint32_t used, room;
	bool failed; /* no memory */
};

/* Where the text begins in the strings.  Without memory it is left out, and the chunk not written. */
static uint32_t put_string(struct rows *rows, const char *text)
{
	uint32_t at = rows->used;
	size_t size = strlen(text) + 1;

	if (rows->room - rows->used < size) {
		uint32_t room = 2 * rows->room + (uint32_t)size + 4096;
		char *strings = realloc(rows->strings, room);

		if (!strings) {
			rows->failed = true;
			return 0;
		}
		rows->strings = strings;
		rows->room = room;
	}
	memcpy(rows->strings + at, text, size);
	rows->used += (uint32_t)size;
	return at;
}

static uint32_t flags_of(const struct spec_field *field)
{
	static const uint32_t flags[] = {
		[SPEC_SIGNED] = CALLTAP_FIELD_SIGNED,
		[SPEC_HEX] = CALLTAP_FIELD_HEX,
		[SPEC_STRING] = CALLTAP_FIELD_TEXT | CALLTAP_FIELD_PLACED,
		[SPEC_BOOL] = CALLTAP_FIELD_BOOL,
		[SPEC_CHAR] = CALLTAP_FIELD_CHAR,
		[SPEC_ENUM] = CALLTAP_FIELD_ENUM,
		[SPEC_FLOAT] = CALLTAP_FIELD_FLOAT,
		[SPEC_POINTER] = CALLTAP_FIELD_HEX | CALLTAP_FIELD_POINTER,
		[SPEC_CHARS] = CALLTAP_FIELD_TEXT,
		[SPEC_GROUP] = CALLTAP_FIELD_GROUP,
		[SPEC_ARRAY] = CALLTAP_FIELD_TEXT,
		[SPEC_GUARD] = CALLTAP_FIELD_ENUM | CALLTAP_FIELD_GUARD,
		[SPEC_LONG_DOUBLE] = CALLTAP_FIELD_TEXT | CALLTAP_FIELD_MISSING | CALLTAP_FIELD_FLOAT,
		[SPEC_VARIANT] = CALLTAP_FIELD_ENUM | CALLTAP_FIELD_VARIANT,
		[SPEC_VIEW] = CALLTAP_FIELD_TEXT | CALLTAP_FIELD_PLACED | CALLTAP_FIELD_COUNTED,
		[SPEC_MISSING] = CALLTAP_FIELD_TEXT | CALLTAP_FIELD_MISSING,
	};

	return flags[field->type] | (field->is_signed ? CALLTAP_FIELD_SIGNED : 0) |
	       (field->cut ? CALLTAP_FIELD_CUT : 0) | (uint32_t)field->bit << CALLTAP_FIELD_BIT_AT |
	       (uint32_t)field->bits << CALLTAP_FIELD_BITS_AT;
}

/* A field's type, as the user would write it. */
static void name_type(char text[TYPE_TEXT], const struct spec_field *field)
{
	static const char letters[] = {
		[SPEC_UNSIGNED] = 'u', [SPEC_SIGNED] = 's', [SPEC_HEX] = 'x', [SPEC_FLOAT] = 'f'};
	char letter = field->type < sizeof(letters) ? letters[field->type] : 'x';

	if (field->type == SPEC_STRING)
		snprintf(text, TYPE_TEXT, "string[%u]", field->size);
	else
		snprintf(text, TYPE_TEXT, "%c%u", letter, field->size * 8u);
}

static void put_row(struct rows *rows, const struct format *format, uint32_t name, struct calltap_file_field row)
{
	if (rows->count == rows->list_room) {
		uint32_t room = 2 * rows->list_room + 64;
		struct calltap_file_field *list = reallocarray(rows->list, room, sizeof(*list));

		if (!list) {
			rows->failed = true;
			return;
		}
		rows->list = list;
		rows->list_room = room;
	}
	row.type = format->type;
	row.name = name;
	row.flags |= format->result ? CALLTAP_FIELD_RESULT : CALLTAP_FIELD_ARGUMENT;
	rows->list[rows->count++] = row;
}

static void put_field(struct rows *rows, const struct format *format, uint32_t name, uint32_t i)
{
	const struct spec_field *field = &format->spec.fields[i];
	char type[TYPE_TEXT];
	struct calltap_file_field row = {.field = put_string(rows, field->name),
					 .offset = format->places[i],
					 .size = field->type == SPEC_STRING || field->type == SPEC_VIEW ? 4
													: field->size,
					 .flags = flags_of(field)};

	if (!field->c_type)
		name_type(type, field);
	row.c_type = put_string(rows, field->c_type ? field->c_type : type);
	if (field->more)
		row.more = put_string(rows, field->more);
	if (field->type == SPEC_MISSING) {
		row.offset = CALLTAP_EVENT_BYTES_MAX;
		row.size = 0;
	}
	if (field->type == SPEC_GROUP && field->at_address) {
		row.flags |= CALLTAP_FIELD_HEX;
		row.size = 8;
	} else if (field->type == SPEC_GROUP) {
		row.flags |= CALLTAP_FIELD_TEXT | CALLTAP_FIELD_MISSING;
		row.more = put_string(rows, "struct");
		row.offset = CALLTAP_EVENT_BYTES_MAX;
		row.size = 0;
	}
	put_row(rows, format, name, row);
}

/* How an element of a list is shown, or a member of one. */
static uint32_t element_flags(const struct spec_element *element)
{
	const struct spec_field field = {.type = element->type,
					 .is_signed = element->is_signed,
					 .cut = element->cut,
					 .bit = element->bit,
					 .bits = element->bits};
	uint32_t flags = flags_of(&field);

	/* Readers that do not know them show no such elements. */
	if (element->type == SPEC_GROUP)
		flags |= CALLTAP_FIELD_TEXT;
	if (element->type == SPEC_CHARS && !element->is_member)
		flags |= CALLTAP_FIELD_CHAR;
	if (element->type == SPEC_MISSING && !element->is_member)
		flags = CALLTAP_FIELD_TEXT;
	return flags | CALLTAP_FIELD_ELEMENT;
}

/* The texts of the first elements of the list that is the field before. */
static void put_texts(struct rows *rows, const struct format *format, uint32_t name, const struct spec_field *list)
{
	uint32_t type = put_string(rows, ""), field = put_string(rows, list->name);

	for (uint32_t i = 0; list->text.size && i < SPEC_TEXTS; i++)
		put_row(rows, format, name,
			(struct calltap_file_field){
				.field = field,
				.c_type = type,
				.offset = format->places[list - format->spec.fields] + 4 + 4 * i,
				.size = 4,
				.flags = CALLTAP_FIELD_TEXT | CALLTAP_FIELD_PLACED | CALLTAP_FIELD_COUNTED |
					 CALLTAP_FIELD_ELEMENT,
			});
}

/* What the field before is a list of. */
static void put_elements(struct rows *rows, const struct format *format, uint32_t name, const struct spec_field *list)
{
	uint32_t type = put_string(rows, "");

	for (uint32_t i = 0; i < list->element_count; i++) {
		const struct spec_element *element = &list->elements[i];
		char whole[2 * SPEC_NAME];
		struct calltap_file_field row = {
			.c_type = type, .offset = element->at, .size = element->size, .flags = element_flags(element)};

		snprintf(whole, sizeof(whole), "%s%s%s", list->name, element->name[0] ? "." : "", element->name);
		row.field = put_string(rows, whole);
		if (element->more)
			row.more = put_string(rows, element->more);
		put_row(rows, format, name, row);
	}
}

static void put_format(struct rows *rows, const struct format *format)
{
	uint32_t name = put_string(rows, format->result ? "result" : "arguments"), number = put_string(rows, "u32");

	put_row(rows, format, name,
		(struct calltap_file_field){.field = put_string(rows, "function"),
					    .c_type = number,
					    .size = 4,
					    .flags = CALLTAP_FIELD_FUNCTION});
	if (format->faults)
		put_row(rows, format, name,
			(struct calltap_file_field){.field = put_string(rows, "faults"),
						    .c_type = number,
						    .offset = format->faults,
						    .size = 4,
						    .flags = CALLTAP_FIELD_FAULTS});
	for (uint32_t i = 0; i < format->spec.count; i++) {
		/* The map of counts tells what its number means. */
		if (format->spec.fields[i].caller == SPEC_STACK)
			continue;
		put_field(rows, format, name, i);
		put_elements(rows, format, name, &format->spec.fields[i]);
		put_texts(rows, format, name, &format->spec.fields[i]);
	}
}

static int write_rows(const struct rows *rows, struct trace_writer *writer)
{
	struct calltap_file_formats head = {rows->count, rows->used};
	size_t list = rows->count * sizeof(*rows->list), size = sizeof(head) + list + rows->used;
	char *chunk = malloc(size);
	int ret;

	if (!chunk)
		return -ENOMEM;
	memcpy(chunk, &head, sizeof(head));
	memcpy(chunk + sizeof(head), rows->list, list);
	memcpy(chunk + sizeof(head) + list, rows->strings, rows->used);
	ret = trace_writer_chunk(writer, CALLTAP_CHUNK_FORMATS, chunk, size);
	free(chunk);
	return ret;
}

static int write_some(struct trace_writer *writer, const struct format *formats, uint32_t count, uint32_t *written)
{
	struct rows rows = {0};
	uint32_t at = *written;
	int ret = -ENOMEM;

	while (!rows.failed && at < count && at - *written < FORMATS_MAX && rows.used < STRINGS_MAX)
		put_format(&rows, &formats[at++]);
	if (!rows.failed)
		ret = write_rows(&rows, writer);
	*written = at;
	free(rows.list);
	free(rows.strings);
	return ret;
}

int formats_write_verdict(struct trace_writer *writer)
{
	static const char strings[] = "left out\0function\0u32\0verdict\0u8";
	static const struct {
		struct calltap_file_formats head;
		struct calltap_file_field rows[2];
		char strings[sizeof(strings)];
	} chunk = {
		.head = {2, sizeof(strings)},
		.rows = {{.type = CALLTAP_EVENT_VERDICT,
			  .field = 9,
			  .c_type = 18,
			  .size = 4,
			  .flags = CALLTAP_FIELD_FUNCTION},
			 {.type = CALLTAP_EVENT_VERDICT, .field = 22, .c_type = 30, .offset = 4, .size = 1}},
		.strings = "left out\0function\0u32\0verdict\0u8",
	};

	return trace_writer_chunk(writer, CALLTAP_CHUNK_FORMATS, &chunk,
				  sizeof(chunk.head) + sizeof(chunk.rows) + sizeof(strings));
}

int formats_write(struct trace_writer *writer, const struct format *formats, uint32_t count)
{
	uint32_t written = 0;
	int ret = 0;

	while (written < count && !ret)
		ret = write_some(writer, formats, count, &written);
	return ret;
}
