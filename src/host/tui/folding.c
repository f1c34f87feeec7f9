/* A tree with folded parts; see folding.h.  Context: host. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "folding.h"

#define FIRST_ROOM 256u

static bool is_kept(const struct folding *folding, uint32_t node)
{
	return !folding->kept || folding->kept[node];
}

static int add_line(struct folding *folding, uint32_t node, int64_t depth)
{
	if (folding->count == folding->room) {
		size_t room = folding->room ? folding->room * 2 : FIRST_ROOM;
		struct folding_line *lines = reallocarray(folding->lines, room, sizeof(*lines));

		if (!lines)
			return -ENOMEM;
		folding->lines = lines;
		folding->room = room;
	}
	folding->lines[folding->count++] = (struct folding_line){node, (uint32_t)depth};
	return 0;
}

static int make_lines(struct folding *folding)
{
	int64_t depth = -1;
	bool skip = false;
	int err = 0;

	folding->count = 0;
	for (uint32_t at = TREE_ROOT; !err && (at = tree_next(folding->tree, at, skip, &depth)) != TREE_NONE;) {
		skip = !is_kept(folding, at) || !folding->open[at];
		if (is_kept(folding, at))
			err = add_line(folding, at, depth);
	}
	return err;
}

int folding_init(struct folding *folding, const struct tree *tree)
{
	memset(folding, 0, sizeof(*folding));
	folding->tree = tree;
	folding->open = calloc(tree->count, 1);
	return folding->open ? make_lines(folding) : -ENOMEM;
}

void folding_clear(struct folding *folding)
{
	free(folding->open);
	free(folding->kept);
	free(folding->lines);
	memset(folding, 0, sizeof(*folding));
}

int folding_set(struct folding *folding, uint32_t node, bool open)
{
	folding->open[node] = open;
	return make_lines(folding);
}

int folding_set_all(struct folding *folding, uint32_t node, bool open)
{
	int64_t depth = 0;

	folding->open[node] = open;
	for (uint32_t at = node; (at = tree_next(folding->tree, at, false, &depth)) != TREE_NONE && depth > 0;)
		folding->open[at] = open;
	return make_lines(folding);
}

bool folding_is_open(const struct folding *folding, uint32_t node)
{
	return folding->open[node];
}

bool folding_has_children(const struct folding *folding, uint32_t node)
{
	for (uint32_t at = folding->tree->nodes[node].child; at != TREE_NONE; at = folding->tree->nodes[at].next)
		if (is_kept(folding, at))
			return true;
	return false;
}

int folding_filter(struct folding *folding, folding_wants wants, void *ctx)
{
	const struct tree *tree = folding->tree;

	free(folding->kept);
	folding->kept = NULL;
	if (!wants)
		return make_lines(folding);
	folding->kept = calloc(tree->count, 1);
	if (!folding->kept)
		return -ENOMEM;
	/* A parent comes before its children in the array. */
	for (uint32_t i = tree->count; i-- > 1;) {
		uint32_t parent = tree->nodes[i].parent;

		folding->kept[i] |= wants(ctx, tree->nodes[i].function);
		folding->kept[parent] |= folding->kept[i];
		folding->open[parent] |= folding->kept[i];
	}
	return make_lines(folding);
}

uint32_t folding_find(const struct folding *folding, uint32_t from, bool back, folding_wants wants, void *ctx)
{
	uint32_t before = TREE_NONE, last = TREE_NONE, first = TREE_NONE, behind = TREE_NONE;
	int64_t depth = -1;
	bool passed = from == TREE_ROOT;

	for (uint32_t at = TREE_ROOT; (at = tree_next(folding->tree, at, false, &depth)) != TREE_NONE;) {
		bool wanted = is_kept(folding, at) && wants(ctx, folding->tree->nodes[at].function);

		if (wanted && !passed && at != from)
			before = at;
		if (wanted && first == TREE_NONE)
			first = at;
		if (wanted && passed && behind == TREE_NONE)
			behind = at;
		if (wanted)
			last = at;
		passed |= at == from;
	}
	if (back)
		return before != TREE_NONE ? before : last;
	return behind != TREE_NONE ? behind : first;
}

int folding_reveal(struct folding *folding, uint32_t node)
{
	for (uint32_t at = folding->tree->nodes[node].parent; at != TREE_NONE; at = folding->tree->nodes[at].parent)
		folding->open[at] = 1;
	return make_lines(folding);
}

size_t folding_line_of(const struct folding *folding, uint32_t node)
{
	for (; node != TREE_ROOT && node != TREE_NONE; node = folding->tree->nodes[node].parent)
		for (size_t i = 0; i < folding->count; i++)
			if (folding->lines[i].node == node)
				return i;
	return 0;
}
