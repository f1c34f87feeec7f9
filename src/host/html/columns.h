/*
 * Columns of numbers: what the page's tables and boxes are stored in.
 *
 * Callers: boxes.c, paths.c, write.c.  Context: host.  A number takes seven bits a byte, the lowest first, and the top
 * bit of each byte but the last is set, so that small numbers are short and zlib finds what repeats.
 */
#ifndef HOST_HTML_COLUMNS_H
#define HOST_HTML_COLUMNS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "../view/json.h"

#define COLUMNS_MAX 64u

struct column {
	const char *name;
	uint8_t *bytes;
	size_t size, room;
	uint64_t count; /* numbers */
};

struct columns {
	struct column list[COLUMNS_MAX];
	uint32_t count;
	bool failed; /* no memory */
};

/* A new column; the pointer lives as long as columns.  There are fewer than COLUMNS_MAX. */
struct column *columns_add(struct columns *columns, const char *name);
void columns_put(struct columns *columns, struct column *column, uint64_t value);
/* Differences: 0, -1, 1, -2, ... become 0, 1, 2, 3, ... */
void columns_put_signed(struct columns *columns, struct column *column, int64_t value);
/* Write [name, numbers, bytes] of each column as JSON. */
void columns_describe(const struct columns *columns, struct json *json);
/* Write the bytes of all columns, one after the other. */
void columns_write(const struct columns *columns, struct out *out);
void columns_clear(struct columns *columns);

#endif
