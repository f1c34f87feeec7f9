/*
 * Columns of numbers (columns.h).  Context: host.
 */
#include <stdlib.h>

#include "columns.h"

#define NUMBER_MAX 10u /* bytes of the greatest number */

struct column *columns_add(struct columns *columns, const char *name)
{
	struct column *column = &columns->list[columns->count++];

	*column = (struct column){.name = name};
	return column;
}

static bool make_room(struct column *column)
{
	size_t room = column->room ? 2 * column->room : 256;
	uint8_t *bytes = realloc(column->bytes, room);

	if (!bytes)
		return false;
	column->bytes = bytes;
	column->room = room;
	return true;
}

void columns_put(struct columns *columns, struct column *column, uint64_t value)
{
	if (column->size + NUMBER_MAX > column->room && !make_room(column)) {
		columns->failed = true;
		return;
	}
	for (; value > 127; value >>= 7)
		column->bytes[column->size++] = (uint8_t)(value | 128);
	column->bytes[column->size++] = (uint8_t)value;
	column->count++;
}

void columns_put_signed(struct columns *columns, struct column *column, int64_t value)
{
	columns_put(columns, column, value < 0 ? ((uint64_t)~value << 1) + 1 : (uint64_t)value << 1);
}

void columns_describe(const struct columns *columns, struct json *json)
{
	json_array(json);
	for (uint32_t i = 0; i < columns->count; i++) {
		json_array(json);
		json_string(json, columns->list[i].name);
		json_u64(json, columns->list[i].count);
		json_u64(json, columns->list[i].size);
		json_array_end(json);
	}
	json_array_end(json);
}

void columns_write(const struct columns *columns, struct out *out)
{
	for (uint32_t i = 0; i < columns->count; i++) {
		if (columns->list[i].size)
			out_bytes(out, (const char *)columns->list[i].bytes, columns->list[i].size);
	}
}

void columns_clear(struct columns *columns)
{
	for (uint32_t i = 0; i < columns->count; i++)
		free(columns->list[i].bytes);
	*columns = (struct columns){0};
}
