/*
 * The merged call tree; see tree.h.  Context: host.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "json.h"
#include "tree.h"

#define FIRST_ROOM	  1024u
#define FIRST_BUCKET_BITS 12u

int tree_init(struct tree *tree, uint32_t limit)
{
	memset(tree, 0, sizeof(*tree));
	tree->limit = limit;
	tree->room = FIRST_ROOM;
	tree->bucket_bits = FIRST_BUCKET_BITS;
	tree->nodes = calloc(tree->room, sizeof(*tree->nodes));
	tree->buckets = calloc((size_t)1 << tree->bucket_bits, sizeof(*tree->buckets));
	if (!tree->nodes || !tree->buckets) {
		tree_clear(tree);
		return -ENOMEM;
	}
	tree->nodes[TREE_ROOT] =
		(struct tree_node){.function = TREE_NONE, .parent = TREE_NONE, .child = TREE_NONE, .next = TREE_NONE};
	tree->count = 1;
	return 0;
}

void tree_clear(struct tree *tree)
{
	free(tree->nodes);
	free(tree->buckets);
	memset(tree, 0, sizeof(*tree));
}

static uint32_t *find_bucket(const struct tree *tree, uint32_t parent, uint32_t function)
{
	uint64_t key = (uint64_t)parent << 32 | function;
	uint32_t mask = (1u << tree->bucket_bits) - 1;
	uint32_t at = (uint32_t)(key * UINT64_C(0x9e3779b97f4a7c15) >> (64 - tree->bucket_bits));

	for (;; at = (at + 1) & mask) {
		const struct tree_node *node = &tree->nodes[tree->buckets[at]];

		if (!tree->buckets[at] || (node->parent == parent && node->function == function))
			return &tree->buckets[at];
	}
}

static int grow_buckets(struct tree *tree)
{
	uint32_t *old = tree->buckets;

	tree->buckets = calloc((size_t)1 << (tree->bucket_bits + 1), sizeof(*tree->buckets));
	if (!tree->buckets) {
		tree->buckets = old;
		return -ENOMEM;
	}
	free(old);
	tree->bucket_bits++;
	for (uint32_t i = 1; i < tree->count; i++)
		*find_bucket(tree, tree->nodes[i].parent, tree->nodes[i].function) = i;
	return 0;
}

static int make_room(struct tree *tree)
{
	struct tree_node *nodes;

	if (tree->count * 2 >= 1u << tree->bucket_bits && grow_buckets(tree))
		return -ENOMEM;
	if (tree->count < tree->room)
		return 0;
	nodes = realloc(tree->nodes, (size_t)tree->room * 2 * sizeof(*nodes));
	if (!nodes)
		return -ENOMEM;
	tree->nodes = nodes;
	tree->room *= 2;
	return 0;
}

uint32_t tree_child(struct tree *tree, uint32_t parent, uint32_t function, int *err)
{
	uint32_t *bucket = find_bucket(tree, parent, function);
	uint32_t made = tree->count;

	if (*bucket)
		return *bucket;
	if (made >= tree->limit)
		return TREE_NONE;
	if (make_room(tree)) {
		*err = -ENOMEM;
		return TREE_NONE;
	}
	*find_bucket(tree, parent, function) = made;
	tree->nodes[made] = (struct tree_node){
		.function = function, .parent = parent, .child = TREE_NONE, .next = tree->nodes[parent].child};
	tree->nodes[parent].child = made;
	tree->count++;
	return made;
}

/* By falling total, falling calls, and rising function, so that equal trees print equally. */
static int compare_nodes(const void *left, const void *right, void *ctx)
{
	const struct tree *tree = ctx;
	const struct tree_node *a = &tree->nodes[*(const uint32_t *)left];
	const struct tree_node *b = &tree->nodes[*(const uint32_t *)right];

	if (a->total_ns != b->total_ns)
		return a->total_ns < b->total_ns ? 1 : -1;
	if (a->calls != b->calls)
		return a->calls < b->calls ? 1 : -1;
	return a->function < b->function ? -1 : a->function > b->function;
}

int tree_sort(struct tree *tree)
{
	uint32_t *list = malloc((size_t)tree->count * sizeof(*list));

	if (!list)
		return -ENOMEM;
	for (uint32_t parent = 0; parent < tree->count; parent++) {
		uint32_t *link = &tree->nodes[parent].child;
		uint32_t children = 0;

		for (uint32_t at = *link; at != TREE_NONE; at = tree->nodes[at].next)
			list[children++] = at;
		if (children < 2)
			continue;
		qsort_r(list, children, sizeof(*list), compare_nodes, tree);
		for (uint32_t i = 0; i < children; i++) {
			*link = list[i];
			link = &tree->nodes[list[i]].next;
		}
		*link = TREE_NONE;
	}
	free(list);
	return 0;
}

uint32_t tree_next(const struct tree *tree, uint32_t node, bool skip_children, int64_t *depth)
{
	if (!skip_children && tree->nodes[node].child != TREE_NONE) {
		++*depth;
		return tree->nodes[node].child;
	}
	for (; node != TREE_ROOT; node = tree->nodes[node].parent, --*depth) {
		if (tree->nodes[node].next != TREE_NONE)
			return tree->nodes[node].next;
	}
	return TREE_NONE;
}

void tree_sum(struct tree *tree)
{
	struct tree_node *root = &tree->nodes[TREE_ROOT];

	root->calls = root->total_ns = root->self_ns = root->unfinished = 0;
	for (uint32_t at = root->child; at != TREE_NONE; at = tree->nodes[at].next) {
		root->calls += tree->nodes[at].calls;
		root->total_ns += tree->nodes[at].total_ns;
		root->unfinished += tree->nodes[at].unfinished;
	}
}

/*
 * A frame's user word: its node + 1, whether the node is an ancestor's (the call is absorbed), and whether its caller
 * was open when the trace began.
 */
#define ABSORBED      (UINT64_C(1) << 63)
#define CALLED_BEFORE (UINT64_C(1) << 62)
#define NODE(user)    ((uint32_t)((user) & ~(ABSORBED | CALLED_BEFORE)))

/* The node of a thread's outermost calls. */
static uint32_t outermost(struct tree_builder *builder, uint32_t thread, int *err)
{
	uint32_t node;

	if (!builder->by_thread)
		return TREE_ROOT;
	node = tree_child(builder->tree, TREE_ROOT, TREE_THREAD | thread, err);
	return node == TREE_NONE ? TREE_ROOT : node;
}

void tree_enter(struct tree_builder *builder, struct walk *walk, uint32_t thread, struct call_frame *frame)
{
	struct tree *tree = builder->tree;
	const struct call_frame *caller = frame->depth ? callstack_frame(walk->stack, thread, frame->depth - 1) : NULL;
	uint64_t above = caller ? caller->user : 0;
	uint32_t parent, node = TREE_NONE;

	parent = NODE(above) ? NODE(above) - 1 : outermost(builder, thread, &walk->error);
	if (!(above & ABSORBED) && (!builder->depth_max || frame->depth < builder->depth_max))
		node = tree_child(tree, parent, frame->function, &walk->error);
	frame->user = node != TREE_NONE ? (uint64_t)node + 1 : ((uint64_t)parent + 1) | ABSORBED;
	if (caller && caller->before)
		frame->user |= CALLED_BEFORE;
	if (frame->before && node != TREE_NONE)
		tree->nodes[node].before++;
}

/*
 * Add a call's time to its callers from before the trace, and to their callers, which were open, too: such a frame's
 * total is the time of the calls in it that the filters let pass.
 */
static void add_to_callers(struct tree *tree, uint32_t caller, uint64_t ns, bool estimated)
{
	for (; caller != TREE_ROOT; caller = tree->nodes[caller].parent) {
		tree->nodes[caller].total_ns += ns;
		tree->nodes[caller].estimated |= estimated;
	}
}

void tree_leave(struct tree_builder *builder, struct walk *walk, const struct call_closed *closed)
{
	struct tree *tree = builder->tree;
	uint64_t user = closed->frame->user;
	uint64_t duration_ns = walk_running_ns(walk, closed);
	const bool estimated = call_is_estimated(closed);
	struct tree_node *node;

	if (!user) {
		tree->strays++;
		return;
	}
	if (closed->frame->before)
		return;
	node = &tree->nodes[NODE(user) - 1];
	node->self_ns += walk_self_ns(walk, closed);
	tree->estimated |= estimated;
	if (user & CALLED_BEFORE)
		add_to_callers(tree, user & ABSORBED ? NODE(user) - 1 : node->parent, duration_ns, estimated);
	if (user & ABSORBED) {
		tree->absorbed++;
		return;
	}
	node->calls++;
	node->tails += closed->frame->tail;
	node->unfinished += closed->how == CALL_OPEN || closed->how == CALL_LOST;
	node->total_ns += duration_ns;
	node->estimated |= estimated;
}

static void push_frame(void *ctx, struct walk *walk, uint32_t thread, struct call_frame *frame)
{
	tree_enter(ctx, walk, thread, frame);
}

static void add_call(void *ctx, struct walk *walk, const struct call_closed *closed)
{
	tree_leave(ctx, walk, closed);
}

static const struct walk_ops building = {.cuts = true, .on_push = push_frame, .on_close = add_call};

int tree_build(struct tree_builder *builder, const struct trace *trace, const struct view_filter *filter,
	       struct walk *walk, struct calltap_diag *diag)
{
	int err = walk_run(walk, trace, filter, &building, builder, diag);

	tree_sum(builder->tree);
	builder->tree->lost = walk->lost;
	builder->tree->gap_ns = trace_duration_ns(trace, walk->gap_ticks);
	return err;
}

void tree_json_begin(struct json *json, const struct tree *tree, uint32_t at, int64_t depth)
{
	json_object(json);
	json_key_u64(json, "id", at);
	json_key(json, "parent");
	if (tree->nodes[at].parent == TREE_ROOT)
		json_null(json);
	else
		json_u64(json, tree->nodes[at].parent);
	json_key_u64(json, "depth", (uint64_t)depth);
}
