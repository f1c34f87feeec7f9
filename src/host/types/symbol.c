/*
 * What a function's mangled symbol says of its parameters.
 *
 * Callers: function.c.  Context: host.  The symbol is untrusted.
 */
#include <libiberty/demangle.h>
#include <stdlib.h>
#include <string.h>

#include "impl.h"

#define SYMBOL_MAX 2048u /* the demangler's effort can explode with the length */

/* Parameters of a list that begins at a parenthesis; -1: it does not end. */
static int64_t count_list(const char *at)
{
	int64_t count = at[1] == ')' ? 0 : 1;
	uint32_t depth = 0;

	for (; *at; at++) {
		if (strchr("(<[{", *at))
			depth++;
		else if (strchr(")>]}", *at) && --depth == 0)
			return count;
		else if (*at == ',' && depth == 1)
			count++;
		/* What a function takes behind "..." has no type. */
		if (depth == 1 && !strncmp(at, "...)", 4))
			count--;
	}
	return -1;
}

int64_t symbol_parameters(const char *symbol)
{
	char *whole, *name;
	int64_t count = -1;
	size_t length;

	if (strncmp(symbol, "_Z", 2) != 0 || strlen(symbol) > SYMBOL_MAX)
		return -1;
	whole = cplus_demangle(symbol, DMGL_PARAMS | DMGL_ANSI | DMGL_RET_DROP);
	name = cplus_demangle(symbol, DMGL_ANSI);
	length = name ? strlen(name) : 0;
	if (whole && length && !strncmp(whole, name, length) && whole[length] == '(')
		count = count_list(whole + length);
	free(whole);
	free(name);
	return count;
}
