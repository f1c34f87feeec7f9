/*
 * Texts, each kept once (texts.h).  Context: host.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "texts.h"

#define FIRST_BITS 8u

void texts_cut(char *copy, uint32_t max, const char *text)
{
	size_t length = strnlen(text, max);

	if (length < max) {
		memcpy(copy, text, length + 1);
		return;
	}
	length = max - 4;
	while (length && ((unsigned char)text[length] & 0xC0) == 0x80)
		length--;
	memcpy(copy, text, length);
	memcpy(copy + length, "...", 4);
}

static uint32_t hash_of(const char *text, uint32_t bits)
{
	uint64_t hash = 0xcbf29ce484222325u;

	for (; *text; text++)
		hash = (hash ^ (unsigned char)*text) * 0x100000001b3u;
	return (uint32_t)(hash * UINT64_C(0x9e3779b97f4a7c15) >> (64 - bits));
}

static uint32_t *find_bucket(const struct texts *texts, const char *text)
{
	uint32_t mask = (1u << texts->bits) - 1;

	for (uint32_t at = hash_of(text, texts->bits);; at = (at + 1) & mask) {
		if (!texts->buckets[at] || strcmp(texts->list[texts->buckets[at] - 1], text) == 0)
			return &texts->buckets[at];
	}
}

/* Make room for one more text in the list and in the hash table, which is at most half full. */
static int make_room(struct texts *texts)
{
	uint32_t room = texts->room ? 2 * texts->room : 1u << (FIRST_BITS - 1);
	char **list;
	uint32_t *buckets;

	if (texts->count < texts->room)
		return 0;
	list = reallocarray(texts->list, room, sizeof(*list));
	if (!list)
		return -ENOMEM;
	texts->list = list;
	buckets = calloc((size_t)room * 2, sizeof(*buckets));
	if (!buckets)
		return -ENOMEM;
	free(texts->buckets);
	texts->buckets = buckets;
	texts->room = room;
	texts->bits = texts->bits ? texts->bits + 1 : FIRST_BITS;
	for (uint32_t i = 0; i < texts->count; i++)
		*find_bucket(texts, texts->list[i]) = i + 1;
	return 0;
}

uint32_t texts_add(struct texts *texts, const char *text)
{
	char cut[TEXTS_EACH_MAX];
	uint32_t *bucket;

	if (!text || texts->error)
		return 0;
	texts_cut(cut, sizeof(cut), text);
	texts->error = make_room(texts);
	if (texts->error)
		return 0;
	bucket = find_bucket(texts, cut);
	if (*bucket)
		return *bucket;
	if (texts->bytes + strlen(cut) > TEXTS_ALL_MAX) {
		texts->left_out++;
		return 0;
	}
	texts->list[texts->count] = strdup(cut);
	if (!texts->list[texts->count]) {
		texts->error = -ENOMEM;
		return 0;
	}
	texts->bytes += strlen(cut);
	*bucket = ++texts->count;
	return *bucket;
}

void texts_write(const struct texts *texts, struct json *json)
{
	json_array(json);
	for (uint32_t i = 0; i < texts->count; i++)
		json_string(json, texts->list[i]);
	json_array_end(json);
}

void texts_clear(struct texts *texts)
{
	for (uint32_t i = 0; i < texts->count; i++)
		free(texts->list[i]);
	free(texts->list);
	free(texts->buckets);
	*texts = (struct texts){0};
}
