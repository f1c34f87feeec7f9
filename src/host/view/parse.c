/*
 * Reading durations, time ranges and numbers; see parse.h.  Context: host.
 */
#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "parse.h"

static int unit_ns(double *ns, const char *unit, double without)
{
	static const struct {
		const char *name;
		double ns;
	} units[] = {{"ns", 1}, {"us", 1e3}, {"ms", 1e6}, {"s", 1e9}, {"m", 60e9}};

	if (!*unit) {
		*ns = without;
		return 0;
	}
	for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++) {
		if (strcmp(unit, units[i].name) == 0) {
			*ns = units[i].ns;
			return 0;
		}
	}
	return -EINVAL;
}

/* Read a number and its unit, all of text; `without` is the unit in ns when the text has none. */
static int read_time(uint64_t *ns, const char *text, double without)
{
	char *end;
	double value, unit;

	if (!isdigit((unsigned char)text[0]) && text[0] != '.')
		return -EINVAL;
	value = strtod(text, &end);
	if (end == text || !isfinite(value))
		return -EINVAL;
	while (*end == ' ')
		end++;
	if (unit_ns(&unit, end, without) || value * unit > 1e19)
		return -EINVAL;
	*ns = (uint64_t)llround(value * unit < 9e18 ? value * unit : 9e18);
	return 0;
}

int parse_duration(uint64_t *ns, const char *text, struct calltap_diag *diag)
{
	if (read_time(ns, text, 1))
		return calltap_diag_set(diag, -EINVAL,
					"'%s' is no duration: write a number with ns, us, ms or s, as in 10us", text);
	return 0;
}

int parse_time_range(uint64_t *from_ns, uint64_t *to_ns, const char *text, struct calltap_diag *diag)
{
	const char *dots = strstr(text, "..");
	char from[64];

	*from_ns = 0;
	*to_ns = UINT64_MAX;
	if (!dots || (size_t)(dots - text) >= sizeof(from) || (dots == text && !dots[2]))
		goto bad;
	snprintf(from, sizeof(from), "%.*s", (int)(dots - text), text);
	if (from[0] && read_time(from_ns, from, 1e9))
		goto bad;
	if (dots[2] && read_time(to_ns, dots + 2, 1e9))
		goto bad;
	if (*from_ns > *to_ns)
		return calltap_diag_set(diag, -EINVAL, "the time range '%s' ends before it starts: swap its ends",
					text);
	return 0;
bad:
	return calltap_diag_set(diag, -EINVAL,
				"'%s' is no time range: write A..B in seconds from the start, as in 0.5..1.25", text);
}

int parse_number(uint64_t *value, const char *text, uint64_t max, const char *what, struct calltap_diag *diag)
{
	char *end;

	errno = 0;
	*value = strtoull(text, &end, 10);
	if (!isdigit((unsigned char)text[0]) || *end || errno || *value > max)
		return calltap_diag_set(diag, -EINVAL, "'%s' is no value for %s: give a whole number from 0 to %llu",
					text, what, (unsigned long long)max);
	return 0;
}

int parse_percent(double *percent, const char *text, struct calltap_diag *diag)
{
	char *end;

	*percent = strtod(text, &end);
	if (end == text || *end || !(*percent >= 0 && *percent <= 100))
		return calltap_diag_set(diag, -EINVAL,
					"'%s' is no value for --min-percent: give a number from 0 to 100", text);
	return 0;
}

int parse_id(uint32_t *id, const char *text, const char *what, struct calltap_diag *diag)
{
	uint64_t value;
	int err = parse_number(&value, text, INT32_MAX, what, diag);

	*id = err ? 0 : (uint32_t)value;
	if (!err && !value)
		err = calltap_diag_set(diag, -EINVAL, "0 is no value for %s: ids start at 1", what);
	return err;
}
