/*
 * Values as text: numbers, names of enumerations, texts between quotes, all as C's source would have them.
 *
 * Callers: event.c.  Context: host.  Pure but for names of addresses; what is shown is untrusted.
 */
#ifndef HOST_TRACE_SHOWN_H
#define HOST_TRACE_SHOWN_H

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#include "long_double.h"
#include "reader.h"

/* Text that is being made; what has no room is left out. */
struct shown {
	char *text;
	size_t at, size;
	/* Whose values they are. */
	const struct trace *trace;
	const struct trace_event *event;
};

void shown_put(struct shown *out, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Has nothing more room? */
static inline bool shown_is_full(const struct shown *out)
{
	return out->at + 1 >= out->size;
}

/* Print a text as C's source would have it. */
void shown_quoted(struct shown *out, const unsigned char *text, size_t length);

/* A name of an enumeration, "NAME=1f", and what is behind it. */
struct shown_name {
	const char *name;
	int length;
	uint64_t value;
};

/* Take the next name; false: there is none, or the list makes no sense. */
bool shown_take_name(struct shown_name *name, const char **list);

/* The bytes of a field that lies within the event's. */
static inline uint64_t shown_bits(const struct trace_field *field, const unsigned char *bytes)
{
	uint64_t value = 0;

	memcpy(&value, bytes + field->offset, field->size);
	return value;
}

/* A long double, which readers before it take for a value that is not available. */
static inline bool shown_is_long_double(const struct trace_field *field)
{
	const uint32_t flags = CALLTAP_FIELD_TEXT | CALLTAP_FIELD_MISSING | CALLTAP_FIELD_FLOAT;

	return (field->flags & flags) == flags && long_double_has_size(field->size);
}
void shown_long_double(struct shown *out, const struct trace_field *field, const unsigned char *bytes);

/* Print the number of a field that lies within the event's bytes. */
void shown_number(struct shown *out, const struct trace_field *field, const unsigned char *bytes);

#endif
