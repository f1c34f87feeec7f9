/*
 * Names near to a filter that matched nothing, for "did you mean".
 *
 * A name's penalty is 0 when only the case differs, small when the text is
 * part of the name, else the edit distance to the name or to its last
 * component.  Context: host.
 */
#include <stdlib.h>
#include <string.h>

#include "filter.h"
#include "pattern.h"

#define TEXT_MAX 64
#define NOT_NEAR UINT32_MAX

struct candidate {
	const char *name;
	uint32_t penalty;
};

/* The text a person meant, without object, slashes and wildcards. */
static size_t plain_text(const char *text, char out[TEXT_MAX])
{
	size_t object = pattern_object_length(text);
	size_t length = 0;

	for (text += object ? object + 1 : 0; *text && length < TEXT_MAX - 1; text++) {
		if (!strchr("*?[]/^$.\\+", *text))
			out[length++] = *text;
	}
	out[length] = '\0';
	return length;
}

/* The end of a name with as many "::" in it as text has. */
static const char *last_components(const char *name, const char *text)
{
	const char *at = name + strlen(name);
	size_t separators = 1;

	while ((text = strstr(text, "::"))) {
		separators++;
		text += 2;
	}
	for (; at - name >= 2; at--) {
		if (at[-1] == ':' && at[-2] == ':' && !--separators)
			return at;
	}
	return name;
}

static char lower_case(char byte)
{
	return byte >= 'A' && byte <= 'Z' ? (char)(byte + 'a' - 'A') : byte;
}

static uint32_t least_of(uint32_t a, uint32_t b, uint32_t c)
{
	uint32_t smaller = a < b ? a : b;

	return smaller < c ? smaller : c;
}

/* Edit distance that ignores case; an exchange of neighbours counts as one edit. */
static uint32_t edit_distance(const char *left, size_t left_length, const char *right, size_t right_length)
{
	uint32_t rows[3][TEXT_MAX + 1];
	uint32_t *before = rows[0], *last = rows[1], *row = rows[2];

	for (uint32_t j = 0; j <= right_length; j++)
		last[j] = j;
	memcpy(before, last, sizeof(rows[0]));
	for (uint32_t i = 1; i <= left_length; i++) {
		uint32_t *oldest = before;

		row[0] = i;
		for (uint32_t j = 1; j <= right_length; j++) {
			char a = lower_case(left[i - 1]), b = lower_case(right[j - 1]);

			row[j] = least_of(last[j] + 1, row[j - 1] + 1, last[j - 1] + (a != b));
			if (i > 1 && j > 1 && a == lower_case(right[j - 2]) && b == lower_case(left[i - 2]) &&
			    before[j - 2] + 1 < row[j])
				row[j] = before[j - 2] + 1;
		}
		before = last;
		last = row;
		row = oldest;
	}
	return last[right_length];
}

static uint32_t near_by_edits(const char *text, size_t length, const char *name)
{
	size_t name_length = strlen(name);
	uint32_t limit = length / 3 > 1 ? (uint32_t)(length / 3) : 1;
	uint32_t edits;

	if (name_length >= TEXT_MAX || name_length > length + limit || length > name_length + limit)
		return NOT_NEAR;
	edits = edit_distance(text, length, name, name_length);
	return edits <= limit ? edits * 16 : NOT_NEAR;
}

static uint32_t penalty_of(const char *text, size_t length, const char *name)
{
	const char *last = last_components(name, text);
	const char *found = length >= 3 ? strcasestr(name, text) : NULL;
	uint32_t best = near_by_edits(text, length, name);
	uint32_t other;

	if (last != name) {
		other = near_by_edits(text, length, last);
		if (other < best)
			best = other + 1;
	}
	if (found) {
		size_t extra = strlen(name) - length;

		other = 20 + (uint32_t)(extra < 200 ? extra : 200) + (found != name);
		if (other < best)
			best = other;
	}
	return best;
}

/* Put candidate into the sorted list of the best, unless its name is there. */
static size_t insert_candidate(struct candidate *best, size_t count, size_t max, const struct candidate *candidate)
{
	size_t at = count;

	for (size_t i = 0; i < count; i++) {
		if (!strcmp(best[i].name, candidate->name))
			return count;
	}
	while (at && best[at - 1].penalty > candidate->penalty)
		at--;
	if (at >= max)
		return count;
	if (count == max)
		count--;
	memmove(&best[at + 1], &best[at], (count - at) * sizeof(*best));
	best[at] = *candidate;
	return count + 1;
}

size_t filter_near_misses(const char *text, struct object *const *objects, size_t count, const char **names, size_t max)
{
	struct candidate *best = calloc(max + 1, sizeof(*best));
	char plain[TEXT_MAX];
	size_t length = plain_text(text, plain);
	size_t found = 0;

	if (!best || !length)
		max = 0;
	for (size_t i = 0; i < count && max; i++) {
		const struct object_site *sites;
		size_t site_count = object_sites(objects[i], &sites);

		for (size_t j = 0; j < site_count; j++) {
			struct candidate candidate = {.name = object_site_short_name(objects[i], &sites[j])};

			/* The user has typed this very name: it is no proposal. */
			if (!strcmp(candidate.name, text))
				continue;
			candidate.penalty = penalty_of(plain, length, candidate.name);
			if (candidate.penalty != NOT_NEAR)
				found = insert_candidate(best, found, max, &candidate);
		}
	}
	for (size_t i = 0; i < found; i++)
		names[i] = best[i].name;
	free(best);
	return found;
}
