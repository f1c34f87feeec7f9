/*
 * Unit tests of the merged call tree and of the graphs derived from it.
 */
#include <stdlib.h>

#include "support.h"

#include "host/view/graph.h"
#include "host/view/tree.h"

/* A node with one call of total_ns. */
static uint32_t put(struct tree *tree, uint32_t parent, uint32_t function, uint64_t total_ns)
{
	int err = 0;
	uint32_t node = tree_child(tree, parent, function, &err);

	assert_int_equal(err, 0);
	assert_int_not_equal(node, TREE_NONE);
	tree->nodes[node].calls++;
	tree->nodes[node].total_ns += total_ns;
	return node;
}

static void the_same_path_is_the_same_node(void **state)
{
	struct tree tree;
	uint32_t main_node;

	assert_int_equal(tree_init(&tree, 100), 0);
	main_node = put(&tree, TREE_ROOT, 1, 10);
	assert_int_equal(put(&tree, TREE_ROOT, 1, 5), main_node);
	assert_int_not_equal(put(&tree, main_node, 1, 1), main_node);
	assert_int_equal(tree.nodes[main_node].calls, 2);
	tree_sum(&tree);
	assert_int_equal(tree.nodes[TREE_ROOT].total_ns, 15);
	tree_clear(&tree);
}

static void a_full_tree_takes_no_new_node(void **state)
{
	struct tree tree;
	int err = 0;

	assert_int_equal(tree_init(&tree, 5000), 0);
	for (uint32_t i = 1; i < 5000; i++)
		put(&tree, i - 1, 7, 1);
	assert_int_equal(tree_child(&tree, TREE_ROOT, 8, &err), TREE_NONE);
	assert_int_equal(err, 0);
	for (uint32_t i = 1; i < 5000; i++)
		assert_int_equal(tree_child(&tree, i - 1, 7, &err), i);
	tree_clear(&tree);
}

static void the_walk_is_sorted_and_depth_first(void **state)
{
	static const uint32_t expected[] = {2, 4, 3, 1};
	static const int depths[] = {0, 1, 1, 0};
	struct tree tree;
	int64_t depth = -1;
	uint32_t at = TREE_ROOT;

	assert_int_equal(tree_init(&tree, 100), 0);
	put(&tree, TREE_ROOT, 1, 10);
	at = put(&tree, TREE_ROOT, 2, 90);
	put(&tree, at, 3, 30);
	put(&tree, at, 4, 50);
	assert_int_equal(tree_sort(&tree), 0);
	at = TREE_ROOT;
	for (size_t i = 0; i < 4; i++) {
		at = tree_next(&tree, at, false, &depth);
		assert_int_equal(tree.nodes[at].function, expected[i]);
		assert_int_equal(depth, depths[i]);
	}
	assert_int_equal(tree_next(&tree, at, false, &depth), TREE_NONE);
	tree_clear(&tree);
}

/* main(1) -> f(2) -> f(2) -> g(3), and main -> g -> f: f's callees and callers. */
static void callers_and_callees_count_recursion_once(void **state)
{
	struct tree tree, derived;
	uint32_t node, f1, f2, f3;
	bool matches[16] = {false};
	int err = 0;

	assert_int_equal(tree_init(&tree, 100), 0);
	node = put(&tree, TREE_ROOT, 1, 100);
	f1 = put(&tree, node, 2, 60);
	f2 = put(&tree, f1, 2, 40);
	put(&tree, f2, 3, 10);
	f3 = put(&tree, put(&tree, node, 3, 20), 2, 5);
	matches[f1] = matches[f2] = matches[f3] = true;

	assert_int_equal(tree_init(&derived, 100), 0);
	assert_int_equal(graph_callees(&derived, &tree, matches), 0);
	node = tree_child(&derived, TREE_ROOT, 2, &err);
	assert_int_equal(derived.nodes[node].calls, 2);
	assert_int_equal(derived.nodes[node].total_ns, 65);
	node = tree_child(&derived, node, 2, &err);
	assert_int_equal(derived.nodes[node].total_ns, 40);
	assert_int_equal(derived.count, 4);
	tree_clear(&derived);

	assert_int_equal(tree_init(&derived, 100), 0);
	assert_int_equal(graph_callers(&derived, &tree, matches), 0);
	node = tree_child(&derived, TREE_ROOT, 2, &err);
	assert_int_equal(derived.nodes[node].calls, 3);
	assert_int_equal(derived.nodes[node].total_ns, 65);
	assert_int_equal(derived.nodes[tree_child(&derived, node, 1, &err)].total_ns, 60);
	assert_int_equal(derived.nodes[tree_child(&derived, node, 3, &err)].total_ns, 5);
	assert_int_equal(derived.nodes[tree_child(&derived, node, 2, &err)].total_ns, 0);
	tree_clear(&derived);
	tree_clear(&tree);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_same_path_is_the_same_node),
		cmocka_unit_test(a_full_tree_takes_no_new_node),
		cmocka_unit_test(the_walk_is_sorted_and_depth_first),
		cmocka_unit_test(callers_and_callees_count_recursion_once),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
