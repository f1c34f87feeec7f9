/*
 * Names like one that is not there; see similar.h.  Context: host.
 */
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include <host/text.h>

#include "similar.h"

#define SIMILAR_MAX 3u
#define LENGTH_MAX  64u /* characters that are compared */

struct found {
	unsigned distance;
	const char *name;
};

/* The name in small letters, without a glob's signs and without parameters; returns its length. */
static unsigned fold(char folded[LENGTH_MAX + 1], const char *name)
{
	unsigned length = 0;

	for (; *name && *name != '(' && length < LENGTH_MAX; name++) {
		if (!strchr("*?[]/^$", *name))
			folded[length++] = (char)tolower((unsigned char)*name);
	}
	folded[length] = 0;
	return length;
}

static unsigned least(unsigned a, unsigned b, unsigned c)
{
	a = a < b ? a : b;
	return a < c ? a : c;
}

/* How many characters must be put in, left out or changed (Levenshtein). */
static unsigned distance_of(const char *a, unsigned a_length, const char *b, unsigned b_length)
{
	unsigned row[LENGTH_MAX + 1];

	for (unsigned j = 0; j <= b_length; j++)
		row[j] = j;
	for (unsigned i = 1; i <= a_length; i++) {
		unsigned before = row[0];

		row[0] = i;
		for (unsigned j = 1; j <= b_length; j++) {
			unsigned here = row[j];

			row[j] = least(row[j] + 1, row[j - 1] + 1, before + (a[i - 1] != b[j - 1]));
			before = here;
		}
	}
	return row[b_length];
}

/* Keep the best ones, best first. */
static void keep_best(struct found best[SIMILAR_MAX], struct found found)
{
	for (unsigned i = 0; i < SIMILAR_MAX; i++) {
		if (best[i].name && strcmp(best[i].name, found.name) == 0)
			return;
		if (!best[i].name || found.distance < best[i].distance) {
			struct found next = best[i];

			best[i] = found;
			if (!next.name)
				return;
			found = next;
		}
	}
}

void similar_names(char *text, size_t size, const struct trace *trace, const char *glob)
{
	char wanted[LENGTH_MAX + 1], folded[LENGTH_MAX + 1], clean[256];
	struct found best[SIMILAR_MAX] = {{0}};
	unsigned length = fold(wanted, glob);
	size_t used = 0;

	text[0] = 0;
	for (uint32_t i = 0; length && i < trace_function_count(trace); i++) {
		const struct trace_function *function = trace_function(trace, i);
		unsigned of_name = function ? fold(folded, function->brief ? function->brief : function->name) : 0;
		unsigned distance, far = length / 4 + 1;

		if (!of_name)
			continue;
		if (strstr(folded, wanted)) /* a part of a name counts as near, the shorter the name the nearer */
			distance = (of_name - length) / 8;
		else if (of_name > length + far || length > of_name + far)
			continue;
		else
			distance = distance_of(wanted, length, folded, of_name);
		if (distance <= far || strstr(folded, wanted))
			keep_best(best, (struct found){distance, function->name});
	}
	for (unsigned i = 0; i < SIMILAR_MAX && best[i].name && used + sizeof(clean) < size; i++) {
		text_clean(clean, sizeof(clean), best[i].name);
		used += (size_t)snprintf(text + used, size - used, "%s'%s'", i ? ", " : "", clean);
	}
}
