/* Text and lists that grow, and lists of strings (tree.h).  Context: host. */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tree.h"

#define TEXT_MIN 1024
#define LIST_MIN 16

static bool make_room(struct tree_text *text, size_t size)
{
	size_t room = text->room ? text->room : TEXT_MIN;
	char *bytes;

	if (text->failed)
		return false;
	if (text->room - text->used >= size)
		return true;
	while (room - text->used < size)
		room *= 2;
	bytes = realloc(text->bytes, room);
	text->failed = !bytes;
	if (!bytes)
		return false;
	text->bytes = bytes;
	text->room = room;
	return true;
}

void tree_text_add(struct tree_text *text, const char *bytes, size_t size)
{
	if (!make_room(text, size))
		return;
	memcpy(text->bytes + text->used, bytes, size);
	text->used += size;
}

void tree_text_string(struct tree_text *text, const char *string)
{
	tree_text_add(text, string, strlen(string));
}

void tree_text_fill(struct tree_text *text, char c, size_t count)
{
	if (!make_room(text, count))
		return;
	memset(text->bytes + text->used, c, count);
	text->used += count;
}

void tree_text_format(struct tree_text *text, const char *format, ...)
{
	char line[256];
	va_list list;
	int size;

	va_start(list, format);
	size = vsnprintf(line, sizeof(line), format, list);
	va_end(list);
	if (size < (int)sizeof(line)) {
		tree_text_add(text, line, size > 0 ? (size_t)size : 0);
		return;
	}
	if (!make_room(text, (size_t)size + 1))
		return;
	va_start(list, format);
	vsnprintf(text->bytes + text->used, (size_t)size + 1, format, list);
	va_end(list);
	text->used += (size_t)size;
}

void tree_text_clear(struct tree_text *text)
{
	free(text->bytes);
	*text = (struct tree_text){0};
}

int tree_words_add(struct tree_words *words, const char *word)
{
	char **list = reallocarray(words->list, words->count + 1, sizeof(*list));

	if (!list)
		return -ENOMEM;
	words->list = list;
	list[words->count] = strdup(word);
	if (!list[words->count])
		return -ENOMEM;
	words->count++;
	return 0;
}

void *tree_grow(void *list, size_t *count, size_t wanted, size_t size)
{
	size_t next = *count ? *count : LIST_MIN;
	char *grown;

	while (next <= wanted)
		next *= 2;
	grown = reallocarray(list, next, size);
	if (!grown)
		return NULL;
	memset(grown + *count * size, 0, (next - *count) * size);
	*count = next;
	return grown;
}

int tree_words_copy(struct tree_words *out, const struct tree_words *from)
{
	int ret = 0;

	*out = (struct tree_words){0};
	for (size_t i = 0; i < from->count && !ret; i++)
		ret = tree_words_add(out, from->list[i]);
	if (ret)
		tree_words_clear(out);
	return ret;
}

size_t tree_words_find(const struct tree_words *words, const char *word)
{
	size_t i = 0;

	while (i < words->count && strcmp(words->list[i], word) != 0)
		i++;
	return i;
}

void tree_words_remove(struct tree_words *words, size_t at)
{
	free(words->list[at]);
	memmove(&words->list[at], &words->list[at + 1], (--words->count - at) * sizeof(words->list[0]));
}

void tree_words_clear(struct tree_words *words)
{
	for (size_t i = 0; i < words->count; i++)
		free(words->list[i]);
	free(words->list);
	*words = (struct tree_words){0};
}
