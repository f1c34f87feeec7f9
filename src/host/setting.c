/*
 * The words of a setting (setting.h).  Context: host.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "setting.h"

#define SIZE_MIN  (8u << 10)
#define SIZE_LAST (1ull << 30)
#define TIME_MAX  3600e9
#define COUNT_MAX 1000000ul

struct unit {
	const char *name;
	double factor;
};

/* A number with a unit out of a table; false when the text is none. */
static bool parse_scaled(const char *text, const struct unit *units, double *value)
{
	char *end;
	double number = strtod(text, &end);

	if (end == text || !(number >= 0))
		return false;
	for (; units->name; units++)
		if (!strcmp(end, units->name)) {
			*value = number * units->factor;
			return true;
		}
	return false;
}

bool setting_parse_size(const char *text, uint64_t *bytes)
{
	static const struct unit units[] = {
		{"", 1}, {"k", 1 << 10}, {"K", 1 << 10}, {"M", 1 << 20}, {"m", 1 << 20}, {"G", 1 << 30}, {NULL, 0},
	};
	double value;

	if (!parse_scaled(text, units, &value) || value < SIZE_MIN || value > (double)SIZE_LAST)
		return false;
	*bytes = (uint64_t)value;
	return true;
}

bool setting_parse_time(const char *text, uint64_t *ns)
{
	static const struct unit units[] = {
		{"", 1e3}, {"ns", 1}, {"us", 1e3}, {"ms", 1e6}, {"s", 1e9}, {NULL, 0},
	};
	double value;

	if (!parse_scaled(text, units, &value) || value > TIME_MAX)
		return false;
	*ns = (uint64_t)value;
	return true;
}

bool setting_parse_count(const char *text, uint32_t *count)
{
	char *end;
	unsigned long value = strtoul(text, &end, 10);

	if (end == text || *end || !value || value > COUNT_MAX)
		return false;
	*count = (uint32_t)value;
	return true;
}

int setting_parse(struct setting_change *change, char *text)
{
	char *equals = strchr(text, '=');

	if (!equals || equals == text || (equals[-1] == '+' && equals == text + 1))
		return -EINVAL;
	change->append = equals[-1] == '+';
	equals[change->append ? -1 : 0] = 0;
	change->key = text;
	change->value = equals + 1;
	return 0;
}
