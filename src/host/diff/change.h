/*
 * Differences as text: with their sign, and whole or not.
 *
 * Callers: diff_text.c, twin.c, slow_text.c.  Context: host.
 */
#ifndef HOST_DIFF_CHANGE_H
#define HOST_DIFF_CHANGE_H

#include "../view/json.h"

#define CHANGE_TEXT 32

/* Nanoseconds, "12.34 us", or "0.250 ns" where there is less than one. */
const char *change_time(double ns, char text[CHANGE_TEXT]);
/* A change in nanoseconds: change_time() with "+" or "-" in front, or "0". */
const char *change_signed(double ns, char text[CHANGE_TEXT]);
/* A number of calls, or of calls per call: "12", "0.25", "1.20e+09". */
const char *change_count(double count, char text[CHANGE_TEXT]);
void change_json(struct json *json, const char *key, double value);

#endif
