/* Letters, escapes and enumerations' names in conditions (constant.h).  Context: host. */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "constant.h"
#include "spec.h"

static int digit_of(char letter)
{
	return isdigit((unsigned char)letter) ? letter - '0' : (letter | 32) - 'a' + 10;
}

/* Take up to three digits of base 8, or two of base 16. */
static const char *take_code(const char **at, char *byte, unsigned base)
{
	unsigned value = 0, count = 0;

	while (count < (base == 8 ? 3 : 2) && isxdigit((unsigned char)**at) && digit_of(**at) < (int)base) {
		value = value * base + (unsigned)digit_of(*(*at)++);
		count++;
	}
	if (!count)
		return "\\x goes on with digits, as in \\xc3";
	if (value > 255)
		return "a byte is \\377 at the most";
	*byte = (char)value;
	return value ? NULL : "a text ends at a byte of 0, so none has it";
}

const char *constant_take_escape(const char **at, char *byte)
{
	static const char from[] = "abefnrtv", to[] = "\a\b\033\f\n\r\t\v";
	const char *special;

	if (**at >= '0' && **at <= '7')
		return take_code(at, byte, 8);
	if (**at == 'x') {
		++*at;
		return take_code(at, byte, 16);
	}
	special = strchr(from, **at);
	if (**at && special)
		*byte = to[special - from];
	else if (isalnum((unsigned char)**at))
		return "there is no such escape: there are \\n, \\t and those of C, \\303, \\xc3, and \\ in front of a "
		       "sign";
	else
		*byte = **at;
	++*at;
	return NULL;
}

const char *constant_take_letter(const char **at, uint64_t *value)
{
	const char *start = *at, *next = start + 1, *why;
	char byte = *next;

	if (byte == '\'' || !byte)
		return "a letter is missing, as in 'a'; a text stands in \"\"";
	next++;
	if (byte == '\\' && !strncmp(next, "0'", 2)) {
		byte = 0;
		next++;
	} else if (byte == '\\') {
		why = constant_take_escape(&next, &byte);
		if (why)
			return why;
	}
	/* Whether such a char is below 0 depends on the CPU. */
	if ((unsigned char)byte > 127)
		return "a letter in '' is one of ASCII; compare another byte with its number";
	if (*next != '\'')
		return "a letter in '' is one; a text stands in \"\"";
	*value = (unsigned char)byte;
	*at = next + 1;
	return NULL;
}

size_t constant_qualified(const char *text)
{
	size_t length = spec_word_length(text), parts = 0;

	while (length && text[length] == ':' && text[length + 1] == ':' && spec_word_length(text + length + 2)) {
		length += 2 + spec_word_length(text + length + 2);
		parts++;
	}
	return parts ? length : 0;
}

/* Find a name in "NAME=1f,OTHER=20", values in base 16. */
static bool find_in(uint64_t *value, const char *names, const char *name, size_t length)
{
	for (const char *at = names; at && *at; at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL)
		/* What has all other numbers (SPEC_VARIANT) is none itself. */
		if (!strncmp(at, name, length) && at[length] == '=' && at[length + 1] != '*') {
			*value = strtoull(at + length + 1, NULL, 16);
			return true;
		}
	return false;
}

/* Where the last word behind "::" begins. */
static size_t last_word(const char *name, size_t length)
{
	size_t at = length;

	while (at && name[at - 1] != ':')
		at--;
	return at;
}

/* Does the type's text end with the word? */
static bool is_type(const char *type, const char *word, size_t length)
{
	size_t all = type ? strlen(type) : 0;

	return type && all >= length && !strncmp(type + all - length, word, length) &&
	       (all == length || strchr(" :", type[all - length - 1]));
}

static bool find_among(int64_t *value, bool *unlike, const struct spec *const sets[2], const char *name, size_t length,
		       bool of_type)
{
	size_t word = last_word(name, length), in = word ? last_word(name, word - 2) : 0;
	bool found = false;

	*unlike = false;
	for (uint32_t i = 0; i < 2 * SPEC_ROWS; i++) {
		const struct spec *set = sets[i / SPEC_ROWS];
		const struct spec_field *field = set ? &set->fields[i % SPEC_ROWS] : NULL;
		uint32_t shift = field && field->size && field->size <= 8 ? 64u - 8u * field->size : 0;
		uint64_t bits;
		int64_t number;

		if (!field || i % SPEC_ROWS >= set->count ||
		    (field->type != SPEC_ENUM && field->type != SPEC_VARIANT) ||
		    (of_type && !is_type(field->c_type, name + in, word - 2 - in)) ||
		    !find_in(&bits, field->more, name + word, length - word))
			continue;
		number = field->is_signed ? (int64_t)(bits << shift) >> shift : (int64_t)bits;
		*unlike |= found && number != *value;
		*value = number;
		found = true;
	}
	return found;
}

/* Is it the name of what has all other numbers (SPEC_VARIANT)? */
static bool is_others_in(const char *names, const char *name, size_t length)
{
	for (const char *at = names; at && *at; at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL)
		if (!strncmp(at, name, length) && !strncmp(at + length, "=*", 2))
			return true;
	return false;
}

bool constant_find_in(int64_t *value, bool *others, const char *names, const char *name, size_t length)
{
	size_t word = last_word(name, length);
	uint64_t bits;

	*others = is_others_in(names, name + word, length - word);
	if (!find_in(&bits, names, name + word, length - word))
		return false;
	*value = (int64_t)bits;
	return true;
}

bool constant_find_name(int64_t *value, bool *unlike, const struct spec *const sets[2], const char *name, size_t length)
{
	bool found = find_among(value, unlike, sets, name, length, false);

	/* Of several of one name the type tells which is meant, as in Mode::FAST. */
	if (found && *unlike && last_word(name, length))
		found = find_among(value, unlike, sets, name, length, true);
	return found;
}

bool constant_is_others(const struct spec *const sets[2], const char *name, size_t length)
{
	for (uint32_t i = 0; i < 2 * SPEC_ROWS; i++) {
		const struct spec *set = sets[i / SPEC_ROWS];
		const struct spec_field *field = set ? &set->fields[i % SPEC_ROWS] : NULL;

		if (!field || i % SPEC_ROWS >= set->count || field->type != SPEC_VARIANT)
			continue;
		if (is_others_in(field->more, name, length))
			return true;
	}
	return false;
}
