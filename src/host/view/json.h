/*
 * Writing JSON: escaping, and commas put where they belong.
 *
 * Callers: every --json output, and the exporters.  Context: host.  The text is always valid UTF-8: other bytes become
 * U+FFFD.
 */
#ifndef HOST_VIEW_JSON_H
#define HOST_VIEW_JSON_H

#include "out.h"

struct json {
	struct out *out;
	unsigned depth;
	uint64_t has_item; /* bit per depth: a comma is due before the next item */
	bool after_key;
};

void json_begin(struct json *json, struct out *out);
void json_object(struct json *json);
void json_object_end(struct json *json);
void json_array(struct json *json);
void json_array_end(struct json *json);
void json_key(struct json *json, const char *key);
void json_string(struct json *json, const char *text); /* NULL writes null */
void json_u64(struct json *json, uint64_t value);
void json_i64(struct json *json, int64_t value);
void json_milli(struct json *json, uint64_t thousandths);
void json_bool(struct json *json, bool value);
void json_null(struct json *json);
void json_literal(struct json *json, const char *text); /* a number, true or false, which is in JSON's form already */

void json_key_string(struct json *json, const char *key, const char *text);
void json_key_u64(struct json *json, const char *key, uint64_t value);

/* Write text as a JSON string with its quotes. */
void json_escape(struct out *out, const char *text);
/* Make a new string of text as a JSON string with its quotes; NULL when out of memory. */
char *json_escape_dup(const char *text) __attribute__((warn_unused_result));

#endif
