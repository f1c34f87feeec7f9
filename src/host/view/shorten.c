/*
 * Names of functions that fit into a column; see shorten.h.  Context: host.
 */
#include <ctype.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "shorten.h"

#define WIDTH_MIN 8u
#define WIDTH_MAX 250u /* characters of four bytes at most: SHORTEN_MAX */

static bool begins_character(char c)
{
	return ((unsigned char)c & 0xc0) != 0x80;
}

static size_t characters(const char *text)
{
	size_t count = 0;

	for (; *text; text++)
		count += begins_character(*text);
	return count;
}

/* Bytes of "operator<", "operator()" and the like at `at`, whose brackets are a part of the name; 0 = none. */
static size_t operator_length(const char *name, const char *at)
{
	static const char word[] = "operator";
	size_t length = sizeof(word) - 1;

	if (strncmp(at, word, length) != 0 || (at > name && (isalnum((unsigned char)at[-1]) || at[-1] == '_')))
		return 0;
	if (strncmp(at + length, "()", 2) == 0)
		return length + 2;
	return length + strspn(at + length, "<>=-!");
}

/* The bracket that closes the one at `at`; NULL: none does. */
static const char *closing(const char *name, const char *at)
{
	char open = *at, close = open == '(' ? ')' : '>';
	unsigned depth = 0;

	while (*at) {
		size_t skip = operator_length(name, at);

		if (skip) {
			at += skip;
			continue;
		}
		depth += *at == open;
		if (*at == close && !(close == '>' && at[-1] == '-') && --depth == 0)
			return at;
		at++;
	}
	return NULL;
}

/* Replace the text between brackets of that kind by "...". */
static void fold(char *name, char open)
{
	static const char unnamed[] = "(anonymous namespace)";
	char *to = name;
	const char *at = name, *end;

	while (*at) {
		size_t kept = operator_length(name, at);

		if (!kept && strncmp(at, unnamed, sizeof(unnamed) - 1) == 0)
			kept = sizeof(unnamed) - 1;
		end = !kept && *at == open ? closing(name, at) : NULL;
		if (end && end - at > 4) {
			memmove(to, at, 1);
			memcpy(to + 1, "...", 3);
			to += 4;
			at = end;
		}
		kept = kept ? kept : 1;
		memmove(to, at, kept);
		to += kept;
		at += kept;
	}
	*to = '\0';
}

/* Cut the name's middle out; more of the end is kept, for a method's name is there. */
static void cut(const char *name, size_t length, unsigned width, char text[SHORTEN_MAX])
{
	size_t head = (width - 3) / 3, tail = width - 3 - head, at = 0, used = 0;

	for (; *name; name++) {
		at += begins_character(*name);
		if (at > head && at <= length - tail) {
			if (at == head + 1 && begins_character(*name)) {
				memcpy(text + used, "...", 3);
				used += 3;
			}
			continue;
		}
		text[used++] = *name;
	}
	text[used] = '\0';
}

const char *shorten(const char *name, unsigned width, char text[SHORTEN_MAX])
{
	size_t length = characters(name);
	char *copy;

	width = width < WIDTH_MIN ? WIDTH_MIN : width;
	if (length <= width)
		return name;
	width = width > WIDTH_MAX ? WIDTH_MAX : width;
	copy = strdup(name);
	if (!copy)
		return name;
	fold(copy, '(');
	if (characters(copy) > width)
		fold(copy, '<');
	length = characters(copy);
	if (length > width)
		cut(copy, length, width, text);
	else
		memcpy(text, copy, strlen(copy) + 1);
	free(copy);
	return text;
}
