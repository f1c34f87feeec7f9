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
#include <string.h>

#include "reader.h"
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
	       field->c_type < strings_size && field->offset <= CALLTAP_EVENT_BYTES_MAX &&
	       field->size <= CALLTAP_EVENT_BYTES_MAX - field->offset &&
	       (field->flags & CALLTAP_FIELD_TEXT || is_number(field->size));
}

int formats_take(struct trace *trace, const char *payload, size_t size)
{
	const char *items, *strings;
	struct format_entry *entry = NULL;
	uint32_t count, strings_size, type = 0;
	int err =
		tables_split(payload, size, sizeof(struct calltap_file_field), &count, &items, &strings, &strings_size);

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
			strings + from.field, strings + from.c_type, from.offset, from.size, from.flags};
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

/* Print the number of a field that lies within the event's bytes. */
static int print_number(const struct trace_field *field, const unsigned char *bytes, char *text, size_t size)
{
	unsigned unused = (8 - field->size) % 8 * 8; /* high bits of value that the field does not fill */
	uint64_t value = 0;

	memcpy(&value, bytes + field->offset, field->size);
	if (field->flags & CALLTAP_FIELD_SIGNED)
		return snprintf(text, size, "%" PRId64, (int64_t)(value << unused) >> unused);
	return snprintf(text, size, "%" PRIu64, value);
}

/* Print a field's value; used: the event's bytes. */
static int print_value(const struct trace_field *field, const unsigned char *bytes, size_t used, char *text,
		       size_t size)
{
	size_t left = field->offset < used ? used - field->offset : 0;

	text[0] = 0;
	if (!(field->flags & CALLTAP_FIELD_TEXT))
		return field->size <= left ? print_number(field, bytes, text, size) : 0;
	if (field->size && field->size < left)
		left = field->size;
	return left ? snprintf(text, size, "%.*s", (int)left, (const char *)bytes + field->offset) : 0;
}

const char *trace_event_text(const struct trace *trace, const struct trace_event *event, char text[TRACE_EVENT_TEXT])
{
	const struct format_entry *format = format_of(trace, calltap_event_type(event->id));
	unsigned char bytes[CALLTAP_EVENT_BYTES_MAX];
	size_t used, at = 0;

	text[0] = 0;
	if (!format)
		return NULL;
	used = trace_event_bytes(event, bytes);
	for (uint32_t i = 0; i < format->count && at < TRACE_EVENT_TEXT - 1; i++) {
		const struct trace_field *field = TABLE_ITEM(trace->fields, struct trace_field, format->first + i);

		if (format->count > 1 || !(field->flags & CALLTAP_FIELD_TEXT))
			at += (size_t)snprintf(text + at, TRACE_EVENT_TEXT - at, "%s%s=", i ? " " : "", field->name);
		if (at < TRACE_EVENT_TEXT - 1)
			at += (size_t)print_value(field, bytes, used, text + at, TRACE_EVENT_TEXT - at);
	}
	return format->name;
}
