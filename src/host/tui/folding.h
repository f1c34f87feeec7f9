/*
 * The lines of a merged call tree of which parts are folded.
 *
 * Caller: tui.c.  Context: host.  Memory: one byte a node for what is unfolded, one more while there is a filter, and
 * 8 bytes for each line that can be scrolled to.
 */
#ifndef HOST_TUI_FOLDING_H
#define HOST_TUI_FOLDING_H

#include "../view/tree.h"

struct folding_line {
	uint32_t node;
	uint32_t depth; /* 0 = the root's children */
};

struct folding {
	const struct tree *tree;
	unsigned char *open; /* per node: its children have lines */
	unsigned char *kept; /* per node: the filter lets it pass, or one below it; NULL = there is no filter */
	struct folding_line *lines;
	size_t count, room;
};

/* True if the function is one that is looked for. */
typedef bool (*folding_wants)(void *ctx, uint32_t function);

/* All is folded but the root; the tree stays the caller's and keeps as it is. */
int folding_init(struct folding *folding, const struct tree *tree) __attribute__((warn_unused_result));
void folding_clear(struct folding *folding);
/* Fold or unfold one node, and make the lines anew. */
int folding_set(struct folding *folding, uint32_t node, bool open) __attribute__((warn_unused_result));
/* Fold or unfold a node and all that is below it. */
int folding_set_all(struct folding *folding, uint32_t node, bool open) __attribute__((warn_unused_result));
bool folding_is_open(const struct folding *folding, uint32_t node);
bool folding_has_children(const struct folding *folding, uint32_t node);
/* Keep only what is wanted, with its callers, which are unfolded; NULL: keep all. */
int folding_filter(struct folding *folding, folding_wants wants, void *ctx) __attribute__((warn_unused_result));
/* The next wanted node behind (or before) a node, in the order of a tree that is all unfolded; TREE_NONE = none. */
uint32_t folding_find(const struct folding *folding, uint32_t from, bool back, folding_wants wants, void *ctx);
/* Unfold what is around the node. */
int folding_reveal(struct folding *folding, uint32_t node) __attribute__((warn_unused_result));
/* The node's line, or that of the nearest caller that has one. */
size_t folding_line_of(const struct folding *folding, uint32_t node);

#endif
