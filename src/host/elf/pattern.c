/*
 * Globs and regular expressions on function names (pattern.h).  This glob matcher knows no locale and no slashes, and
 * takes time linear in the name for the usual patterns.  Context: host.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pattern.h"

/*
 * Words that a demangler writes without their being spelled out in the mangled name.  A piece of a pattern that could
 * be part of one of these says nothing about the mangled name.
 */
static const char unspelled[] =
	"std allocator basic_string string char_traits basic_istream basic_ostream basic_iostream istream ostream "
	"iostream operator new delete co_await void wchar_t bool char signed unsigned short int long __int128 float "
	"double __float128 ellipsis decltype nullptr_t auto char8_t char16_t char32_t decimal32 decimal64 decimal128 "
	"half true false lambda unnamed type vtable typeinfo for name fn VTT construction in non-virtual virtual thunk "
	"to covariant return guard variable reference temporary clone const volatile restrict noexcept throw anonymous "
	"namespace static initialization sizeof alignof transaction_safe typeid cast dynamic_cast static_cast "
	"const_cast reinterpret_cast template parameter object abi global constructors destructors keyed java_resource "
	"hidden alias i8 i16 i32 i64 i128 isize u8 u16 u32 u64 u128 usize f32 f64 str unsafe extern dyn mut impl as "
	"shim closure _Complex _Imaginary complex imaginary __vector this init";

/* Length of "[...]" at text, 0 = it does not end. */
static size_t bracket_length(const char *text)
{
	size_t at = 1;

	if (text[at] == '!' || text[at] == '^')
		at++;
	if (text[at] == ']')
		at++;
	while (text[at] && text[at] != ']')
		at++;
	return text[at] ? at + 1 : 0;
}

static bool bracket_has(const char *text, size_t length, char byte)
{
	unsigned char wanted = (unsigned char)byte;
	bool negated = text[1] == '!' || text[1] == '^';
	size_t at = negated ? 2 : 1;
	bool found = false;

	for (; at < length - 1; at++) {
		unsigned char low = (unsigned char)text[at], high = low;

		if (text[at + 1] == '-' && at + 2 < length - 1) {
			high = (unsigned char)text[at + 2];
			at += 2;
		}
		if (wanted >= low && wanted <= high)
			found = true;
	}
	return found != negated;
}

/* Bytes of glob that match this one byte, 0 = no match. */
static size_t match_one(const char *glob, char byte)
{
	size_t length;

	switch (*glob) {
	case '\0':
		return 0;
	case '?':
		return 1;
	case '[':
		length = bracket_length(glob);
		return bracket_has(glob, length, byte) ? length : 0;
	case '\\':
		return glob[1] == byte ? 2 : 0;
	default:
		return *glob == byte;
	}
}

static bool glob_matches(const char *glob, const char *name)
{
	const char *star = NULL, *resume = NULL;

	while (*name) {
		size_t step;

		if (*glob == '*') {
			star = ++glob;
			resume = name;
		} else if ((step = match_one(glob, *name))) {
			glob += step;
			name++;
		} else if (star) {
			glob = star;
			name = ++resume;
		} else {
			return false;
		}
	}
	while (*glob == '*')
		glob++;
	return !*glob;
}

static int fail_at(struct pattern_fault *fault, size_t column, const char *text)
{
	fault->column = column;
	snprintf(fault->text, sizeof(fault->text), "%s", text);
	return -EINVAL;
}

static int check_glob(const char *text, struct pattern_fault *fault)
{
	for (size_t at = 0; text[at]; at++) {
		if (text[at] == '[') {
			size_t length = bracket_length(text + at);

			if (!length)
				return fail_at(fault, at,
					       "\"[\" without \"]\"; write \"\\[\" for the character itself");
			at += length - 1;
		} else if (text[at] == '\\' && !text[++at]) {
			return fail_at(fault, at - 1, "nothing follows the \"\\\"");
		}
	}
	return 0;
}

static bool is_word(char byte)
{
	return (byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z') || (byte >= '0' && byte <= '9') ||
	       byte == '_';
}

static void consider_needle(struct pattern *pattern, const char *word, size_t length)
{
	char piece[sizeof(pattern->needle)];

	if (length >= sizeof(piece))
		length = sizeof(piece) - 1;
	if (length <= strlen(pattern->needle) || (word[0] >= '0' && word[0] <= '9'))
		return;
	memcpy(piece, word, length);
	piece[length] = '\0';
	if (!strstr(unspelled, piece))
		memcpy(pattern->needle, piece, length + 1);
}

/*
 * Find the longest word that a matching name must contain, for identifiers stand in mangled names as they are.  Words
 * end at wildcards.
 */
static void find_needle(struct pattern *pattern, const char *text)
{
	size_t at = 0;

	while (text[at]) {
		size_t length = 0;

		if (text[at] == '[' && pattern->glob) {
			at += bracket_length(text + at);
			continue;
		}
		while (is_word(text[at + length]))
			length++;
		if (length)
			consider_needle(pattern, text + at, length);
		at += length ? length : 1;
	}
}

static int compile_regex(struct pattern *pattern, const char *text, size_t length, struct pattern_fault *fault)
{
	char *regex;
	int error;

	if (!length)
		return fail_at(fault, 1, "empty regular expression; write the pattern between the slashes");
	regex = strndup(text + 1, length);
	if (!regex)
		return -ENOMEM;
	error = regcomp(&pattern->regex, regex, REG_EXTENDED | REG_NOSUB);
	if (error) {
		fault->column = 1;
		regerror(error, &pattern->regex, fault->text, sizeof(fault->text));
	} else if (!strpbrk(regex, "|?*{[(\\")) {
		find_needle(pattern, regex);
	}
	free(regex);
	if (error == REG_ESPACE)
		return -ENOMEM;
	return error ? -EINVAL : 0;
}

static int compile_glob(struct pattern *pattern, const char *text, struct pattern_fault *fault)
{
	int error = check_glob(text, fault);

	if (error)
		return error;
	pattern->glob = strdup(text);
	if (!pattern->glob)
		return -ENOMEM;
	pattern->head = strcspn(text, "*?[\\");
	pattern->exact = !text[pattern->head];
	pattern->all = !strcmp(text, "*");
	if (!strchr(text, '\\'))
		find_needle(pattern, text);
	return 0;
}

int pattern_compile(struct pattern *pattern, const char *text, struct pattern_fault *fault)
{
	size_t length = strlen(text);

	memset(pattern, 0, sizeof(*pattern));
	if (!length)
		return fail_at(fault, 0, "empty pattern; write a function's name, or \"*\" for all");
	if (text[0] != '/')
		return compile_glob(pattern, text, fault);
	if (length < 2 || text[length - 1] != '/')
		return fail_at(fault, length, "regular expression without its closing \"/\"");
	return compile_regex(pattern, text, length - 2, fault);
}

void pattern_free(struct pattern *pattern)
{
	if (!pattern->glob)
		regfree(&pattern->regex);
	free(pattern->glob);
}

bool pattern_matches(const struct pattern *pattern, const char *name)
{
	if (pattern->all)
		return true;
	if (!pattern->glob)
		return !regexec(&pattern->regex, name, 0, NULL, 0);
	if (pattern->exact)
		return !strcmp(pattern->glob, name);
	return !strncmp(pattern->glob, name, pattern->head) &&
	       glob_matches(pattern->glob + pattern->head, name + pattern->head);
}

bool pattern_may_match_address(const struct pattern *pattern)
{
	return !pattern->exact || strstr(pattern->glob, "+0x");
}

bool pattern_may_match_demangled(const struct pattern *pattern, const char *symbol)
{
	if (symbol[0] != '_' || (symbol[1] != 'Z' && symbol[1] != 'R'))
		return false;
	return !pattern->needle[0] || strstr(symbol, pattern->needle);
}

size_t pattern_object_length(const char *text)
{
	size_t length = strlen(text), depth = 0;

	if (length >= 2 && text[0] == '/' && text[length - 1] == '/')
		return 0;
	for (size_t at = 0; text[at]; at++) {
		if (text[at] == '[')
			depth++;
		else if (text[at] == ']' && depth)
			depth--;
		else if (text[at] == ':' && text[at + 1] == ':')
			at++;
		else if (text[at] == ':' && !depth)
			return at;
	}
	return 0;
}
