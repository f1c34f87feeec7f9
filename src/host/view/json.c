/*
 * Writing JSON; see json.h.  Context: host.
 */
#include <stdlib.h>

#include "json.h"
#include <host/utf8.h>

#define JSON_DEPTH_MAX 63 /* bits of has_item */

void json_begin(struct json *json, struct out *out)
{
	memset(json, 0, sizeof(*json));
	json->out = out;
}

/* Begin a value or a key: write a comma, unless it is the first in its list or follows its key. */
static void begin_item(struct json *json)
{
	uint64_t bit = UINT64_C(1) << json->depth;

	if (!json->after_key && json->has_item & bit)
		out_char(json->out, ',');
	json->has_item |= bit;
	json->after_key = false;
}

static void open_list(struct json *json, char c)
{
	begin_item(json);
	out_char(json->out, c);
	if (json->depth < JSON_DEPTH_MAX)
		json->depth++;
	json->has_item &= ~(UINT64_C(1) << json->depth);
}

static void close_list(struct json *json, char c)
{
	if (json->depth)
		json->depth--;
	out_char(json->out, c);
}

void json_object(struct json *json)
{
	open_list(json, '{');
}

void json_object_end(struct json *json)
{
	close_list(json, '}');
}

void json_array(struct json *json)
{
	open_list(json, '[');
}

void json_array_end(struct json *json)
{
	close_list(json, ']');
}

void json_key(struct json *json, const char *key)
{
	begin_item(json);
	json_escape(json->out, key);
	out_char(json->out, ':');
	json->after_key = true;
}

void json_string(struct json *json, const char *text)
{
	if (!text) {
		json_null(json);
		return;
	}
	begin_item(json);
	json_escape(json->out, text);
}

void json_u64(struct json *json, uint64_t value)
{
	begin_item(json);
	out_u64(json->out, value);
}

void json_i64(struct json *json, int64_t value)
{
	begin_item(json);
	out_i64(json->out, value);
}

void json_milli(struct json *json, uint64_t thousandths)
{
	begin_item(json);
	out_milli(json->out, thousandths);
}

void json_bool(struct json *json, bool value)
{
	begin_item(json);
	out_text(json->out, value ? "true" : "false");
}

void json_literal(struct json *json, const char *text)
{
	begin_item(json);
	out_text(json->out, text);
}

void json_null(struct json *json)
{
	json_literal(json, "null");
}

void json_key_string(struct json *json, const char *key, const char *text)
{
	json_key(json, key);
	json_string(json, text);
}

void json_key_u64(struct json *json, const char *key, uint64_t value)
{
	json_key(json, key);
	json_u64(json, value);
}

/* Longest piece: "\udb40\udc01". */
#define ESCAPED_MAX 12

/* Write "\u202e", or two of them; the bytes of it. */
static size_t escape_code(char piece[ESCAPED_MAX], const char *text, size_t run)
{
	static const char hex[] = "0123456789abcdef";
	uint32_t code = (unsigned char)text[0] & (run > 1 ? 0x7fu >> run : 0x7fu), units[2];
	size_t count = 1;

	for (size_t i = 1; i < run; i++)
		code = code << 6 | ((unsigned char)text[i] & 0x3fu);
	units[0] = code;
	if (code > 0xffff) {
		units[0] = 0xd800 + ((code - 0x10000) >> 10);
		units[1] = 0xdc00 + ((code - 0x10000) & 0x3ff);
		count = 2;
	}
	for (size_t i = 0; i < count; i++) {
		piece[6 * i] = '\\';
		piece[6 * i + 1] = 'u';
		for (size_t k = 0; k < 4; k++)
			piece[6 * i + 2 + k] = hex[units[i] >> (12 - 4 * k) & 15];
	}
	return 6 * count;
}

/* Escape one character of text into piece; returns the bytes read, *len the bytes written. */
static size_t escape_one(const char *text, char piece[ESCAPED_MAX], size_t *len)
{
	static const char named[] = "\"\"\\\\\nn\rr\tt"; /* pairs: the byte, its letter */
	unsigned char c = (unsigned char)*text;
	size_t run = utf8_length(text);

	if (!run) {
		memcpy(piece, UTF8_REPLACEMENT, 3);
		*len = 3;
		return 1;
	}
	if ((c < 0x20 || c == '"' || c == '\\') && strchr(named, c)) {
		piece[0] = '\\';
		piece[1] = strchr(named, c)[1];
		*len = 2;
		return 1;
	}
	/* Lines of JSON are read on terminals, too. */
	if (utf8_is_control(text, run)) {
		*len = escape_code(piece, text, run);
		return run;
	}
	memcpy(piece, text, run);
	*len = run;
	return run;
}

static bool is_plain(unsigned char c)
{
	return c >= 0x20 && c < 0x7f && c != '"' && c != '\\';
}

void json_escape(struct out *out, const char *text)
{
	char piece[ESCAPED_MAX];
	size_t len;

	out_char(out, '"');
	while (*text) {
		size_t plain = 0;

		while (is_plain((unsigned char)text[plain]))
			plain++;
		out_bytes(out, text, plain);
		text += plain;
		if (!*text)
			break;
		text += escape_one(text, piece, &len);
		out_bytes(out, piece, len);
	}
	out_char(out, '"');
}

char *json_escape_dup(const char *text)
{
	char *escaped = malloc(strlen(text) * ESCAPED_MAX + 3);
	char *to = escaped;
	size_t len;

	if (!escaped)
		return NULL;
	*to++ = '"';
	while (*text) {
		text += escape_one(text, to, &len);
		to += len;
	}
	*to++ = '"';
	*to = '\0';
	return escaped;
}
