/*
 * The files and folders of a tree: the number of each, its name, and which others it holds (tree.h).
 *
 * A number says where a file is, so nothing is kept for the files that the kernel knows.  Context: host.
 */
#include <stdio.h>
#include <string.h>

#include "tree.h"

/* From the lowest bit of a number: folder, row + 1, which, instance. */
#define FOLDER_BITS 8
#define ROW_BITS    12
#define WHICH_BITS  16
#define ROW_AT	    FOLDER_BITS
#define WHICH_AT    (ROW_AT + ROW_BITS)
#define INSTANCE_AT (WHICH_AT + WHICH_BITS)

#define LOW(bits) ((1ull << (bits)) - 1)

uint64_t node_number(const struct tree_node *node)
{
	return (uint64_t)node->folder | (uint64_t)(node->is_file ? node->row + 1 : 0) << ROW_AT |
	       (uint64_t)node->which << WHICH_AT | (uint64_t)node->instance->id << INSTANCE_AT;
}

bool node_find(const struct tree *tree, uint64_t number, struct tree_node *out)
{
	uint32_t row = number >> ROW_AT & LOW(ROW_BITS);

	*out = (struct tree_node){
		.instance = parts_instance(tree, (uint32_t)(number >> INSTANCE_AT)),
		.folder = (enum tree_folder)(number & LOW(FOLDER_BITS)),
		.which = number >> WHICH_AT & LOW(WHICH_BITS),
		.is_file = row != 0,
		.row = row ? row - 1 : 0,
	};
	return out->instance != NULL;
}

const struct tree_row *node_row(const struct tree_node *node)
{
	return node->is_file && node->folder != FOLDER_OPTIONS ? table_at(node->row) : NULL;
}

mode_t node_mode(const struct tree_node *node)
{
	const struct tree_row *row = node_row(node);

	if (!node->is_file)
		return S_IFDIR | 0750;
	return S_IFREG | (row ? row->mode : 0640);
}

/* The i-th row of the table that lies in the folder. */
static bool row_child(const struct tree_node *folder, uint32_t i, struct tree_node *out, const char **name)
{
	const struct tree_row *row;

	for (uint32_t at = 0; (row = table_at(at)); at++) {
		if (row->folder != folder->folder || (folder->instance->id && row->top) || i--)
			continue;
		*out = *folder;
		out->is_file = !row->leads_to;
		out->row = row->leads_to ? 0 : at;
		if (row->leads_to)
			out->folder = row->leads_to;
		*name = row->name;
		return true;
	}
	return false;
}

static bool instance_child(const struct tree_node *folder, uint32_t i, struct tree_node *out, const char **name)
{
	struct tree_instance *instance = folder->instance->next; /* the top level is the first, and not among them */

	while (instance && i--)
		instance = instance->next;
	if (!instance)
		return false;
	*out = (struct tree_node){.instance = instance, .folder = FOLDER_TOP};
	*name = instance->name;
	return true;
}

bool node_child(const struct tree_node *folder, uint32_t i, struct tree_node *out, const char **name,
		char room[NODE_NAME])
{
	switch (folder->folder) {
	case FOLDER_INSTANCES:
		return instance_child(folder, i, out, name);
	case FOLDER_OPTIONS:
		*out = (struct tree_node){
			.instance = folder->instance, .folder = FOLDER_OPTIONS, .is_file = true, .row = i};
		*name = i < TREE_OPTIONS ? options_name(i) : NULL;
		return *name != NULL;
	case FOLDER_CPUS:
		*out = (struct tree_node){.instance = folder->instance, .folder = FOLDER_CPU, .which = i};
		snprintf(room, NODE_NAME, "cpu%u", i);
		*name = room;
		return i < cpus_count(folder->instance->tree);
	case FOLDER_STATS:
		if (!row_child(folder, 0, out, name) || i >= cpus_count(folder->instance->tree))
			return false;
		out->which = i;
		snprintf(room, NODE_NAME, "function%u", i);
		*name = room;
		return true;
	case FOLDER_FTRACE:
		*out = (struct tree_node){.instance = folder->instance, .folder = FOLDER_EVENT, .which = i};
		*name = formats_name(i);
		return *name != NULL;
	default:
		return row_child(folder, i, out, name);
	}
}

bool node_named(const struct tree_node *folder, const char *name, struct tree_node *out)
{
	const char *child;
	char room[NODE_NAME];

	for (uint32_t i = 0; node_child(folder, i, out, &child, room); i++)
		if (!strcmp(child, name))
			return true;
	return false;
}
