/*
 * Limits that the tracer function_graph alone has: depth, threshold and trees; and what calls tell (details.c).
 *
 * The kernel keeps them whatever the tracer is, and a session refuses them with another one.  So they are the session's
 * while its tracer is function_graph, and the tree's else.  Context: host.
 */
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tree.h"

const char *const limits_keys[TREE_LIMITS] = {[TREE_DEPTH] = "max-depth",
					      [TREE_THRESHOLD] = "threshold",
					      [TREE_GRAPH] = "graph",
					      [TREE_NOGRAPH] = "no-graph"};

/* The tree's files by which the limits are set. */
static const char *const limit_files[TREE_LIMITS] = {
	[TREE_DEPTH] = "max_graph_depth",
	[TREE_THRESHOLD] = "tracing_thresh",
	[TREE_GRAPH] = "set_graph_function",
	[TREE_NOGRAPH] = "set_graph_notrace",
};

static bool is_of_word(char c)
{
	return isalnum((unsigned char)c) || c == '-' || c == '_';
}

/* The file by which the setting, or option, of that name is set; NULL: it is no limit. */
static const char *file_of(const char *name, size_t length)
{
	size_t dashes = length > 2 && !memcmp(name, "--", 2) ? 2 : 0;

	for (size_t i = 0; i < TREE_LIMITS; i++)
		if (strlen(limits_keys[i]) == length - dashes &&
		    !memcmp(limits_keys[i], name + dashes, length - dashes))
			return limit_files[i];
	return NULL;
}

void limits_add_sentence(struct tree_text *out, const char *sentence)
{
	while (*sentence) {
		size_t length = 1;
		const char *file;

		while (is_of_word(sentence[0]) && is_of_word(sentence[length]))
			length++;
		file = file_of(sentence, length);
		tree_text_add(out, file ? file : sentence, file ? strlen(file) : length);
		sentence += length;
	}
	tree_text_add(out, "", 1); /* the NUL */
}

int limits_read(struct tree_instance *instance, enum tree_limit limit, struct tree_words *out)
{
	return ask_is_graph(instance) ? ask_filters(instance, limits_keys[limit], out)
				      : tree_words_copy(out, &instance->kept[limit]);
}

static int keep(struct tree_instance *instance, enum tree_limit limit, const struct tree_words *values)
{
	struct tree_words copy;
	int ret = tree_words_copy(&copy, values);

	if (ret)
		return ret;
	tree_words_clear(&instance->kept[limit]);
	instance->kept[limit] = copy;
	return 0;
}

int limits_change(struct tree_instance *instance, const char *file, enum tree_limit limit,
		  const struct tree_words *values)
{
	struct tree_words changes = {0};
	int ret;

	if (!ask_is_graph(instance))
		return keep(instance, limit, values);
	ret = ask_add_values(&changes, limits_keys[limit], values);
	if (!ret)
		ret = ask_change(instance, file, &changes);
	tree_words_clear(&changes);
	return ret;
}

/* The session's limits are to be the tree's. */
static int take_away(struct tree_instance *instance, struct tree_words *changes)
{
	struct tree_words values[TREE_LIMITS] = {0};
	int ret = 0;

	for (unsigned i = 0; i < TREE_LIMITS && !ret; i++)
		ret = limits_read(instance, i, &values[i]);
	for (unsigned i = 0; i < TREE_LIMITS && !ret; i++)
		if (values[i].count)
			ret = ask_add_change(changes, limits_keys[i], "=", "");
	if (!ret)
		ret = ask_change(instance, "current_tracer", changes);
	for (unsigned i = 0; i < TREE_LIMITS; i++) {
		if (ret) {
			tree_words_clear(&values[i]);
			continue;
		}
		tree_words_clear(&instance->kept[i]);
		instance->kept[i] = values[i];
	}
	return ret;
}

/* The tree's limits are to be the session's. */
static int give(struct tree_instance *instance, struct tree_words *changes)
{
	int ret = 0;

	for (unsigned i = 0; i < TREE_LIMITS && !ret; i++)
		if (instance->kept[i].count)
			ret = ask_add_values(changes, limits_keys[i], &instance->kept[i]);
	if (!ret)
		ret = ask_change(instance, "current_tracer", changes);
	for (unsigned i = 0; i < TREE_LIMITS && !ret; i++)
		tree_words_clear(&instance->kept[i]);
	return ret;
}

int limits_tracer(struct tree_instance *instance, const char *tracer)
{
	struct tree_words changes = {0};
	bool graph = ask_is_graph(instance);
	int ret = ask_add_change(&changes, "tracer", "=", tracer);

	if (!ret)
		ret = details_add_changes(instance, tracer, &changes);
	if (!ret && graph)
		ret = take_away(instance, &changes);
	else if (!ret && !strcmp(tracer, "function_graph"))
		ret = give(instance, &changes);
	else if (!ret)
		ret = ask_change(instance, "current_tracer", &changes);
	tree_words_clear(&changes);
	return ret;
}
