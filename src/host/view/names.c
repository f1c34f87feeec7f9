/*
 * Printable names, made when first asked for; see names.h.  Context: host.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "json.h"
#include "names.h"
#include <host/utf8.h>
#include <host/text.h>

#define LABEL_MAX 48 /* "function#4294967295", "comm-tid" */

/* Texts by index; text NULL = not made yet. */
struct texts {
	struct names_text *items;
	uint32_t count;
};

struct names {
	const struct trace *trace;
	struct texts function, function_json;
	struct texts untraced, untraced_json; /* of ids from TRACE_UNTRACED on */
	struct texts thread;
	char spare[LABEL_MAX]; /* the name of an id that has no item */
};

/* The item at index; the list grows to `count`, the size of the trace's table.  NULL: index is beyond, or no memory. */
static struct names_text *item_at(struct texts *texts, uint32_t index, uint32_t count)
{
	struct names_text *items;

	if (index < texts->count)
		return &texts->items[index];
	if (index >= count)
		return NULL;
	items = reallocarray(texts->items, count, sizeof(*items));
	if (!items)
		return NULL;
	memset(items + texts->count, 0, (count - texts->count) * sizeof(*items));
	texts->items = items;
	texts->count = count;
	return &items[index];
}

static struct names_text *function_at(struct names *names, uint32_t id, bool json)
{
	if (id >= TRACE_UNTRACED)
		return item_at(json ? &names->untraced_json : &names->untraced, id - TRACE_UNTRACED,
			       trace_untraced_count(names->trace));
	return item_at(json ? &names->function_json : &names->function, id, trace_function_count(names->trace));
}

int names_create(struct names **out, const struct trace *trace)
{
	struct names *names = calloc(1, sizeof(*names));

	*out = names;
	if (!names)
		return -ENOMEM;
	names->trace = trace;
	return 0;
}

static void free_texts(struct texts *texts)
{
	for (uint32_t i = 0; i < texts->count; i++)
		free((char *)texts->items[i].text);
	free(texts->items);
}

void names_destroy(struct names *names)
{
	if (!names)
		return;
	free_texts(&names->function);
	free_texts(&names->function_json);
	free_texts(&names->untraced);
	free_texts(&names->untraced_json);
	free_texts(&names->thread);
	free(names);
}

static struct names_text keep_text(struct names_text *item, char *text)
{
	if (text)
		*item = (struct names_text){text, (uint32_t)strlen(text)};
	return text ? *item : (struct names_text){"?", 1};
}

static struct names_text label_unknown(struct names *names, const char *what, uint32_t id)
{
	int length = snprintf(names->spare, sizeof(names->spare), "%s#%u", what, id);

	return (struct names_text){names->spare, (uint32_t)length};
}

char *names_clean_dup(const char *text)
{
	size_t size = strlen(text) + 1;
	char *copy = malloc(size);

	if (copy)
		text_clean(copy, size, text);
	return copy;
}

struct names_text names_function(struct names *names, uint32_t function)
{
	struct names_text *item = function_at(names, function, false);
	const struct trace_function *known;

	if (!item)
		return label_unknown(names, "function", function);
	if (item->text)
		return *item;
	known = trace_function(names->trace, function);
	if (!known || !known->name[0])
		return keep_text(item, strdup(label_unknown(names, "function", function).text));
	return keep_text(item, names_clean_dup(known->name));
}

struct names_text names_function_json(struct names *names, uint32_t function)
{
	struct names_text *item = function_at(names, function, true);
	const struct trace_function *known;

	if (!item) {
		int length = snprintf(names->spare, sizeof(names->spare), "\"function#%u\"", function);

		return (struct names_text){names->spare, (uint32_t)length};
	}
	if (item->text)
		return *item;
	known = trace_function(names->trace, function);
	if (!known || !known->name[0])
		return keep_text(item, json_escape_dup(names_function(names, function).text));
	return keep_text(item, json_escape_dup(known->name));
}

struct names_text names_thread(struct names *names, uint32_t thread)
{
	const struct trace_thread *known = trace_thread(names->trace, thread);
	struct names_text *item = item_at(&names->thread, thread, trace_thread_count(names->trace));
	char clean[sizeof(known->name)], label[LABEL_MAX];

	if (!item || !known)
		return label_unknown(names, "thread", thread);
	if (item->text)
		return *item;
	text_clean(clean, sizeof(clean), known->name[0] ? known->name : "?");
	snprintf(label, sizeof(label), "%s-%u", clean, known->tid);
	return keep_text(item, strdup(label));
}

unsigned names_thread_width(struct names *names, unsigned limit)
{
	unsigned width = 0;

	for (uint32_t i = 0; i < trace_thread_count(names->trace) && width < limit; i++) {
		if (trace_thread(names->trace, i) && names_thread(names, i).length > width)
			width = names_thread(names, i).length;
	}
	return width < limit ? width : limit;
}

size_t names_without_parameters(struct names_text name)
{
	static const char word[] = "operator";
	size_t end = name.length, at, depth = 0;

	while (end && name.text[end - 1] != ')' && !strchr("}>:#", name.text[end - 1]))
		end--;
	if (!end || name.text[end - 1] != ')')
		return name.length;
	for (at = end; at > 0; at--) {
		depth += name.text[at - 1] == ')';
		if (name.text[at - 1] == '(' && --depth == 0)
			break;
	}
	if (at <= 1 || (at >= sizeof(word) && !memcmp(name.text + at - sizeof(word), word, sizeof(word) - 1)))
		return name.length;
	return at - 1;
}
