/* The parts of a tree: instances and slots (tree.h).  Context: host. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <host/now.h>

#include "raw.h"
#include "tree.h"

#define BYTES_DEFAULT (8u << 20) /* of a store until the session has told the size of its buffers */

struct tree_instance *parts_make(struct tree *tree, const char *name)
{
	struct tree_instance *instance = calloc(1, sizeof(*instance));

	if (!instance)
		return NULL;
	instance->tree = tree;
	instance->id = tree->next_id++;
	instance->options = options_default();
	instance->emptied_ns = now_ns();
	instance->page_bytes = RAW_PAGE;
	instance->source.memory = instance->source.connection = -1;
	instance->store.bytes_max = BYTES_DEFAULT;
	snprintf(instance->name, sizeof(instance->name), "%s", name);
	return instance;
}

struct tree_instance *parts_add(struct tree *tree, const char *name)
{
	struct tree_instance *instance = parts_make(tree, name), **end = &tree->instances;

	while (instance && *end)
		end = &(*end)->next;
	if (instance)
		*end = instance;
	return instance;
}

void parts_free(struct tree_instance *instance)
{
	for (unsigned i = 0; i < TREE_BESIDES; i++)
		if (instance->besides[i])
			instance->besides[i]->destroy(instance);
	source_close(instance);
	free(instance->cpu_pipes);
	free(instance->cpumask);
	store_destroy(&instance->store);
	store_destroy(&instance->snapshot);
	tree_words_clear(&instance->pids);
	tree_words_clear(&instance->notrace_pids);
	for (unsigned i = 0; i < TREE_LIMITS; i++)
		tree_words_clear(&instance->kept[i]);
	free(instance->settings);
	free(instance);
}

void parts_remove(struct tree *tree, struct tree_instance *instance)
{
	struct tree_instance **at = &tree->instances;

	while (*at != instance)
		at = &(*at)->next;
	*at = instance->next;
	parts_free(instance);
}

struct tree_instance *parts_instance(const struct tree *tree, uint32_t id)
{
	struct tree_instance *instance = tree->instances;

	while (instance && instance->id != id)
		instance = instance->next;
	return instance;
}

struct tree_instance *parts_named(const struct tree *tree, const char *name)
{
	struct tree_instance *instance = tree->instances;

	while (instance && (!instance->id || strcmp(instance->name, name) != 0))
		instance = instance->next;
	return instance;
}

uint32_t parts_slot(struct tree *tree, uint32_t tid)
{
	struct tree_slot *slots;

	for (uint32_t i = 0; i < tree->slot_count; i++)
		if (tree->slots[i].tid == tid)
			return i;
	slots = reallocarray(tree->slots, tree->slot_count + 1, sizeof(*slots));
	if (!slots)
		return UINT32_MAX;
	tree->slots = slots;
	slots[tree->slot_count] = (struct tree_slot){.tid = tid, .name = "<...>"};
	return tree->slot_count++;
}

void parts_name_slot(struct tree *tree, uint32_t slot, uint32_t pid, const char *name)
{
	struct tree_slot *known = &tree->slots[slot];

	known->pid = pid;
	/* A name comes with each record, and is a new one hardly ever. */
	if (strncmp(known->name, name, sizeof(known->name) - 1) != 0)
		snprintf(known->name, sizeof(known->name), "%s", name);
}

void parts_clear(struct tree *tree)
{
	while (tree->instances)
		parts_remove(tree, tree->instances);
	if (tree->connection >= 0)
		close(tree->connection);
	errors_clear(tree);
	tree_text_clear(&tree->symbols.text);
	space_free(&tree->mapped.space);
	free(tree->slots);
	free(tree->objects);
}
