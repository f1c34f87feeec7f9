/*
 * The names of several traces; see pair.h.  Context: host.
 */
#include <errno.h>
#include <search.h>
#include <stdlib.h>
#include <string.h>

#include "../view/names.h"
#include "pair.h"

struct name {
	char *raw, *text;
	uint32_t number;
};

struct side {
	const struct trace *trace;
	struct names *names;
	uint32_t *numbers; /* per function: its name's number + 1; 0 = not asked for yet */
	uint32_t functions, untraced;
};

struct pair {
	unsigned side_count;
	struct name **list;
	uint32_t count, room;
	void *tree;	     /* of names, for tsearch() */
	struct side sides[]; /* one for each trace */
};

static int open_side(struct side *side, const struct trace *trace)
{
	side->trace = trace;
	side->functions = trace_function_count(trace);
	side->untraced = trace_untraced_count(trace);
	side->numbers = calloc((size_t)side->functions + side->untraced + 1, sizeof(*side->numbers));
	return side->numbers ? names_create(&side->names, trace) : -ENOMEM;
}

int pair_create(struct pair **out, const struct trace *const *traces, unsigned count)
{
	struct pair *pair = calloc(1, sizeof(*pair) + count * sizeof(pair->sides[0]));
	int err = pair ? 0 : -ENOMEM;

	for (unsigned i = 0; i < count && !err; i++) {
		pair->side_count++;
		err = open_side(&pair->sides[i], traces[i]);
	}
	if (err) {
		pair_destroy(pair);
		pair = NULL;
	}
	*out = pair;
	return err;
}

static void keep(void *name)
{
	(void)name;
}

void pair_destroy(struct pair *pair)
{
	if (!pair)
		return;
	tdestroy(pair->tree, keep);
	for (uint32_t i = 0; i < pair->count; i++) {
		free(pair->list[i]->raw);
		free(pair->list[i]->text);
		free(pair->list[i]);
	}
	for (unsigned i = 0; i < pair->side_count; i++) {
		names_destroy(pair->sides[i].names);
		free(pair->sides[i].numbers);
	}
	free(pair->list);
	free(pair);
}

static int compare_names(const void *left, const void *right)
{
	return strcmp(((const struct name *)left)->raw, ((const struct name *)right)->raw);
}

static int add(struct pair *pair, const char *raw, const char *text)
{
	struct name *name;

	if (pair->count == pair->room) {
		uint32_t room = pair->room ? 2 * pair->room : 256;
		struct name **list = reallocarray(pair->list, room, sizeof(struct name *));

		if (!list)
			return -ENOMEM;
		pair->list = list;
		pair->room = room;
	}
	name = calloc(1, sizeof(*name));
	if (!name)
		return -ENOMEM;
	pair->list[pair->count] = name;
	*name = (struct name){.raw = strdup(raw), .text = strdup(text), .number = pair->count++};
	return name->raw && name->text && tsearch(name, &pair->tree, compare_names) ? 0 : -ENOMEM;
}

int pair_name(uint32_t *name, struct pair *pair, unsigned at, uint32_t function)
{
	struct side *of = &pair->sides[at];
	uint32_t *known = NULL;
	const struct trace_function *described;
	struct name like, **there;
	const char *text;

	if (function < of->functions)
		known = &of->numbers[function];
	else if (function >= TRACE_UNTRACED && function - TRACE_UNTRACED < of->untraced)
		known = &of->numbers[of->functions + function - TRACE_UNTRACED];
	if (known && *known) {
		*name = *known - 1;
		return 0;
	}
	described = trace_function(of->trace, function);
	text = names_function(of->names, function).text;
	like.raw = (char *)(described ? described->name : text);
	there = tfind(&like, &pair->tree, compare_names);
	if (!there && add(pair, like.raw, text))
		return -ENOMEM;
	*name = there ? (*there)->number : pair->count - 1;
	if (known)
		*known = *name + 1;
	return 0;
}

uint32_t pair_count(const struct pair *pair)
{
	return pair->count;
}

const char *pair_text(const struct pair *pair, uint32_t name)
{
	return pair->list[name]->text;
}

const char *pair_raw(const struct pair *pair, uint32_t name)
{
	return pair->list[name]->raw;
}
