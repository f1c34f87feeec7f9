/*
 * Values as text (shown.h).  Context: host.
 */
#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "../utf8.h"
#include "shown.h"

#define POINTER_TEXT 512u /* bytes of what an address points to */

void shown_put(struct shown *out, const char *format, ...)
{
	size_t room = out->size - out->at;
	va_list values;
	int length;

	va_start(values, format);
	length = vsnprintf(out->text + out->at, room, format, values);
	va_end(values);
	if (length > 0)
		out->at += (size_t)length < room ? (size_t)length : room - 1;
}

/* Print a character of a text between quotes of this kind as C's source would have it. */
static void put_letter(struct shown *out, unsigned char letter, unsigned char quote)
{
	static const char plain[] = "abtnvfr"; /* 7 to 13 */

	if (letter == quote || letter == '\\')
		shown_put(out, "\\%c", letter);
	else if (letter >= 7 && letter <= 13)
		shown_put(out, "\\%c", plain[letter - 7]);
	else if (letter < 32 || letter >= 127)
		shown_put(out, "\\%03o", letter);
	else
		shown_put(out, "%c", letter);
}

/* Bytes of the character at the text's place that is shown as it is, though it is none of ASCII; 0: there is none. */
static size_t shown_at(const unsigned char *text, size_t left)
{
	char letter[5] = {0};
	size_t length;

	if (text[0] < 128)
		return 0;
	memcpy(letter, text, left < 4 ? left : 4);
	length = utf8_length(letter);
	return length && !utf8_is_control(letter, length) ? length : 0;
}

void shown_quoted(struct shown *out, const unsigned char *text, size_t length)
{
	shown_put(out, "\"");
	for (size_t i = 0, shown; i < length; i += shown ? shown : 1) {
		shown = shown_at(text + i, length - i);
		if (shown)
			shown_put(out, "%.*s", (int)shown, (const char *)text + i);
		else
			put_letter(out, text[i], '"');
	}
	shown_put(out, "\"");
}

bool shown_take_name(struct shown_name *name, const char **list)
{
	const char *equals = strchr(*list, '=');
	char *end;

	if (!equals || equals - *list > TRACE_EVENT_TEXT)
		return false;
	name->name = *list;
	name->length = (int)(equals - *list);
	name->value = strtoull(equals + 1, &end, 16);
	*list = *end == ',' ? end + 1 : end;
	return end > equals + 1 && (!*end || *end == ',');
}

static bool is_bit(uint64_t value)
{
	return value && !(value & (value - 1));
}

/* Are the names those of bits?  *bits: all that have one of their own. */
static bool names_bits(const char *list, uint64_t *bits)
{
	struct shown_name name;
	uint64_t all = 0;

	*bits = 0;
	for (const char *at = list; shown_take_name(&name, &at); all |= name.value)
		if (is_bit(name.value))
			*bits |= name.value;
	/* Names for 1 and 2 alone make no set of flags: they may be the first two of numbers that count on. */
	return (all & ~*bits) == 0 && *bits > 3;
}

/* Print a number by its names; false: it has none. */
static bool put_names(struct shown *out, const char *list, uint64_t value)
{
	struct shown_name name;
	uint64_t bits, left = value;

	for (const char *at = list; shown_take_name(&name, &at);)
		if (name.value == value) {
			shown_put(out, "%.*s", name.length, name.name);
			return true;
		}
	if (!names_bits(list, &bits) || !(value & bits))
		return false;
	for (const char *at = list; shown_take_name(&name, &at);)
		if (is_bit(name.value) && left & name.value) {
			shown_put(out, "%s%.*s", left == value ? "" : "|", name.length, name.name);
			left &= ~name.value;
		}
	if (left)
		shown_put(out, "|0x%" PRIx64, left);
	return true;
}

/*
 * Print the shortest number that reads back as this one: of a decimal number with so few digits as the first try has,
 * each is a number of its own in the type, so that try prints it as it is; but of those next to 0.  Sources: IEEE
 * 754 5.12.2; C11 5.2.4.2.2.
 */
static void put_float(struct shown *out, uint64_t bits, uint32_t size)
{
	int digits = size == 4 ? FLT_DIG : DBL_DIG, most = size == 4 ? FLT_DECIMAL_DIG : DBL_DECIMAL_DIG;
	uint32_t low = (uint32_t)bits;
	char text[40];
	double value;
	float single;
	bool same;

	memcpy(&single, &low, sizeof(single));
	memcpy(&value, &bits, sizeof(value));
	value = size == 4 ? (double)single : value;
	if (isnan(value)) {
		shown_put(out, "nan"); /* its sign says nothing */
		return;
	}
	if (fabs(value) < (size == 4 ? (double)FLT_MIN : DBL_MIN))
		digits = 1;
	do {
		snprintf(text, sizeof(text), "%.*g", digits, value);
		same = size == 4 ? strtof(text, NULL) == single : strtod(text, NULL) == value;
	} while (!same && digits++ < most);
	/* A number without a point or an exponent would look like an integer. */
	shown_put(out, "%s%s", text, strpbrk(text, ".ein") ? "" : ".0");
}

/* Bits of the number that the field does not fill; *value: without them. */
static unsigned take_bits(const struct trace_field *field, uint64_t *value)
{
	unsigned bits = field->flags >> CALLTAP_FIELD_BITS_AT & 63, at = field->flags >> CALLTAP_FIELD_BIT_AT & 63;
	unsigned unused = (8 - field->size) % 8 * 8;

	if (!bits)
		return unused;
	*value = *value >> at & (((uint64_t)1 << bits) - 1);
	return 64 - bits;
}

/* A number of fewer bits as one of the field's size. */
static uint64_t whole_of(const struct trace_field *field, uint64_t value, unsigned unused)
{
	uint64_t all = field->size < 8 ? ((uint64_t)1 << 8 * field->size) - 1 : ~(uint64_t)0;

	return field->flags & CALLTAP_FIELD_SIGNED ? (uint64_t)((int64_t)(value << unused) >> unused) & all : value;
}

void shown_number(struct shown *out, const struct trace_field *field, const unsigned char *bytes)
{
	uint64_t value = shown_bits(field, bytes);
	unsigned unused = take_bits(field, &value);
	char name[POINTER_TEXT];

	/* Names are of the whole type's values. */
	if (field->flags & CALLTAP_FIELD_ENUM && put_names(out, field->more, whole_of(field, value, unused)))
		return;
	if (field->flags & CALLTAP_FIELD_POINTER && !value) {
		shown_put(out, "NULL");
		return;
	}
	if (field->flags & CALLTAP_FIELD_POINTER &&
	    pointer_describe(out->trace, out->event, value, name, sizeof(name))) {
		shown_put(out, "%s", name);
		return;
	}
	if (field->flags & CALLTAP_FIELD_FLOAT && field->size >= 4) {
		put_float(out, value, field->size);
		return;
	}
	if (field->flags & CALLTAP_FIELD_BOOL && value <= 1) {
		shown_put(out, value ? "true" : "false");
	} else if (field->flags & CALLTAP_FIELD_CHAR && value && value < 0x7f) {
		shown_put(out, "'");
		put_letter(out, (unsigned char)value, '\'');
		shown_put(out, "'");
	} else if (field->flags & CALLTAP_FIELD_SIGNED) {
		shown_put(out, "%" PRId64, (int64_t)(value << unused) >> unused);
	} else {
		shown_put(out, field->flags & CALLTAP_FIELD_HEX ? "0x%" PRIx64 : "%" PRIu64, value);
	}
}

void shown_long_double(struct shown *out, const struct trace_field *field, const unsigned char *bytes)
{
	char text[LONG_DOUBLE_TEXT];

	long_double_text(text, bytes + field->offset, field->size);
	shown_put(out, "%s", text);
}
