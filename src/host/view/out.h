/*
 * Buffered output with number formatting made for millions of lines a second.
 *
 * Callers: all reading commands and exporters.  Context: host.  The first write error is kept and later output is
 * dropped; a reader that went away (EPIPE) is an error like any other here, of which the command says nothing.
 */
#ifndef HOST_VIEW_OUT_H
#define HOST_VIEW_OUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <calltap/diag.h>

struct out {
	int fd;
	int error;  /* first -errno, 0 = none */
	bool lines; /* write whole lines only: made by out_create_shared() */
	size_t used;
	size_t size;
	char *buffer;
	void (*before)(void *of); /* called before each write; NULL = none */
	void *of;
	int (*sink)(void *of, const char *bytes, size_t size); /* takes what is written, in place of fd; 0 or -errno */
	void *sink_of;
};

#define OUT_U64_MAX 20 /* digits of UINT64_MAX */

/* Write to fd, which stays the caller's. */
int out_create(struct out **out, int fd) __attribute__((warn_unused_result));
/* Write to fd, to which a traced program writes as well: its output comes between our lines, never within a line. */
int out_create_shared(struct out **out, int fd) __attribute__((warn_unused_result));
/* Hand whole lines, several at a time, to sink, which is out.h's `sink`. */
int out_create_sink(struct out **out, int (*sink)(void *of, const char *bytes, size_t size), void *of)
	__attribute__((warn_unused_result));
/* Flush and free; returns the first error. */
int out_destroy(struct out *out);
/* Write the buffer; with `lines`, an unfinished last line stays in it. */
int out_flush(struct out *out);
/* Drop the text that is not written yet: after an error, half an answer is worse than none. */
void out_discard(struct out *out);
/* Make room for size bytes in one piece; false when the buffer is smaller. */
bool out_room(struct out *out, size_t size);

void out_bytes_slow(struct out *out, const char *bytes, size_t size);
void out_u64(struct out *out, uint64_t value);
void out_i64(struct out *out, int64_t value);
/* Right-aligned in width columns. */
void out_u64_width(struct out *out, uint64_t value, unsigned width);
/* Write thousandths as "12.345". */
void out_milli(struct out *out, uint64_t thousandths);
/* Exactly `digits` digits, zero-padded; higher digits are cut off. */
void out_digits(struct out *out, uint64_t value, unsigned digits);
void out_hex(struct out *out, uint64_t value);
void out_format(struct out *out, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Text cut or padded to width columns (UTF-8 counted by code point); right-aligned when right. */
void out_column(struct out *out, const char *text, unsigned width, bool right);

/* A label of a name, the sign `between` and an id, as "name-id"; a label that is too long loses of its name only. */
void out_label(struct out *out, const char *label, char between, unsigned width, bool right);

/* Digits of value to the end of text[OUT_U64_MAX]; returns where they start. */
const char *out_decimal(uint64_t value, char text[OUT_U64_MAX]);

static inline void out_char(struct out *out, char c)
{
	if (out->used == out->size && !out_room(out, 1))
		return;
	out->buffer[out->used++] = c;
}

static inline void out_bytes(struct out *out, const char *bytes, size_t size)
{
	if (out->size - out->used < size) {
		out_bytes_slow(out, bytes, size);
		return;
	}
	memcpy(out->buffer + out->used, bytes, size);
	out->used += size;
}

static inline void out_text(struct out *out, const char *text)
{
	out_bytes(out, text, strlen(text));
}

static inline void out_fill(struct out *out, char c, size_t count)
{
	if (out->size - out->used >= count) {
		memset(out->buffer + out->used, c, count);
		out->used += count;
		return;
	}
	while (count--)
		out_char(out, c);
}

static inline void out_spaces(struct out *out, size_t count)
{
	out_fill(out, ' ', count);
}

#endif
