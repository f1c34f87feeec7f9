/*
 * Texts for people (text.h).  Context: host.
 */
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "text.h"
#include "utf8.h"

/* value in [1, 1000) or so, four significant digits. */
static const char *four_digits(double value, const char *unit, char text[TIMETEXT_MAX])
{
	int decimals = value < 9.9995 ? 3 : value < 99.995 ? 2 : value < 999.95 ? 1 : 0;

	snprintf(text, TIMETEXT_MAX, "%.*f %s", decimals, value, unit);
	return text;
}

const char *timetext(uint64_t ns, char text[TIMETEXT_MAX])
{
	if (ns < 1000) {
		snprintf(text, TIMETEXT_MAX, "%u ns", (unsigned)ns);
		return text;
	}
	if (ns < 999950)
		return four_digits((double)ns / 1e3, "us", text);
	if (ns < 999950000)
		return four_digits((double)ns / 1e6, "ms", text);
	return four_digits((double)ns / 1e9, "s", text);
}

const char *sizetext(uint64_t bytes, char text[TIMETEXT_MAX])
{
	static const char *const units[] = {"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
	double value = (double)bytes / 1024;
	unsigned unit = 0;

	if (bytes < 1024) {
		snprintf(text, TIMETEXT_MAX, "%u B", (unsigned)bytes);
		return text;
	}
	for (; value >= 1024 && unit < 5; unit++)
		value /= 1024;
	snprintf(text, TIMETEXT_MAX, "%.2f %s", value, units[unit]);
	return text;
}

char time_mark(uint64_t ns)
{
	static const struct {
		uint64_t over_ns;
		char mark;
	} marks[] = {{1000000000, '$'}, {100000000, '@'}, {10000000, '*'}, {1000000, '#'}, {100000, '!'}, {10000, '+'}};

	for (unsigned i = 0; i < sizeof(marks) / sizeof(marks[0]); i++) {
		if (ns > marks[i].over_ns)
			return marks[i].mark;
	}
	return ' ';
}

const char *text_base(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash && slash[1] ? slash + 1 : path;
}

void text_clean(char *buffer, size_t size, const char *text)
{
	size_t used = 0;

	while (*text) {
		size_t run = utf8_length(text);
		bool control = run && utf8_is_control(text, run);

		if (used + (run ? run : 1) >= size)
			break;
		if (!run || control)
			buffer[used++] = '?';
		else
			memcpy(buffer + used, text, run);
		used += !run || control ? 0 : run;
		text += run ? run : 1;
	}
	buffer[used] = '\0';
}

static unsigned least(unsigned one, unsigned other)
{
	return one < other ? one : other;
}

unsigned text_distance(const char *one, const char *other)
{
	size_t lines = strlen(one), columns = strlen(other);
	/* distance[i][k]: of the first i letters of one and the first k of the other */
	unsigned distance[TEXT_FAR][TEXT_FAR];

	if (lines >= TEXT_FAR || columns >= TEXT_FAR)
		return TEXT_FAR;
	for (unsigned i = 0; i <= lines; i++) {
		for (unsigned k = 0; k <= columns; k++) {
			unsigned here = i + k; /* one of both is empty */

			if (i && k) {
				here = distance[i - 1][k - 1] + (one[i - 1] != other[k - 1]);
				here = least(here, least(distance[i - 1][k], distance[i][k - 1]) + 1);
			}
			if (i > 1 && k > 1 && one[i - 1] == other[k - 2] && one[i - 2] == other[k - 1])
				here = least(here, distance[i - 2][k - 2] + 1);
			distance[i][k] = here;
		}
	}
	return distance[lines][columns];
}
