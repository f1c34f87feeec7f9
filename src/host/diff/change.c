/*
 * Differences as text; see change.h.  Context: host.
 */
#include <math.h>
#include <stdio.h>

#include <host/text.h>

#include "change.h"

const char *change_time(double ns, char text[CHANGE_TEXT])
{
	if (ns > 0 && ns < 0.9995)
		snprintf(text, CHANGE_TEXT, "%.3f ns", ns);
	else
		timetext(ns < 1.8e19 ? (uint64_t)llround(fmax(ns, 0)) : UINT64_MAX, text);
	return text;
}

const char *change_signed(double ns, char text[CHANGE_TEXT])
{
	if (fabs(ns) < 0.0005) {
		snprintf(text, CHANGE_TEXT, "0");
		return text;
	}
	text[0] = ns < 0 ? '-' : '+';
	if (fabs(ns) < 0.9995)
		snprintf(text + 1, CHANGE_TEXT - 1, "%.3f ns", fabs(ns));
	else {
		char plain[TIMETEXT_MAX];

		snprintf(text + 1, CHANGE_TEXT - 1, "%.24s", timetext((uint64_t)llround(fmin(fabs(ns), 9e18)), plain));
	}
	return text;
}

const char *change_count(double count, char text[CHANGE_TEXT])
{
	if (count == floor(count) && count < 1e8)
		snprintf(text, CHANGE_TEXT, "%.0f", count);
	else if (count < 0.001)
		snprintf(text, CHANGE_TEXT, "%.2g", count);
	else if (count < 1e5)
		snprintf(text, CHANGE_TEXT, "%.*f", count < 10 ? 3 : count < 1000 ? 2 : 1, count);
	else
		snprintf(text, CHANGE_TEXT, "%.2e", count);
	return text;
}

void change_json(struct json *json, const char *key, double value)
{
	char text[40];

	snprintf(text, sizeof(text), "%.15g", isfinite(value) ? value : 0);
	json_key(json, key);
	json_literal(json, text);
}
