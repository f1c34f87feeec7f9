/* The lines of a tree with folded parts, and a bar in a list. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "host/tui/folding.h"
#include "host/terminal/list.h"

/* 1 calls 2 and 3; 2 calls 3 and 4; 5 is a root of its own. */
enum { ONE = 1, TWO, THREE_BELOW, FOUR, THREE, FIVE };

static void make(struct tree *tree)
{
	static const uint32_t nodes[][2] = {{TREE_ROOT, 1}, {ONE, 2}, {TWO, 3}, {TWO, 4}, {ONE, 3}, {TREE_ROOT, 5}};
	int err = 0;

	assert_int_equal(tree_init(tree, 100), 0);
	for (uint32_t i = 0; i < sizeof(nodes) / sizeof(nodes[0]); i++) {
		assert_int_equal(tree_child(tree, nodes[i][0], nodes[i][1], &err), i + 1);
		tree->nodes[i + 1].total_ns = 100 - i;
	}
	assert_int_equal(err, 0);
	assert_int_equal(tree_sort(tree), 0);
}

static void lines_are(const struct folding *folding, const char *want)
{
	char text[200] = "";

	for (size_t i = 0; i < folding->count; i++)
		snprintf(text + strlen(text), sizeof(text) - strlen(text), "%u@%u ",
			 folding->tree->nodes[folding->lines[i].node].function, folding->lines[i].depth);
	assert_string_equal(text, want);
}

static bool is_it(void *ctx, uint32_t function)
{
	return function == *(const uint32_t *)ctx;
}

static void parts_fold_and_unfold(void **state)
{
	struct folding folding;
	struct tree tree;

	make(&tree);
	assert_int_equal(folding_init(&folding, &tree), 0);
	lines_are(&folding, "1@0 5@0 ");
	assert_true(folding_has_children(&folding, ONE));
	assert_false(folding_has_children(&folding, FIVE));
	assert_int_equal(folding_set(&folding, ONE, true), 0);
	lines_are(&folding, "1@0 2@1 3@1 5@0 ");
	assert_int_equal(folding_set_all(&folding, ONE, true), 0);
	lines_are(&folding, "1@0 2@1 3@2 4@2 3@1 5@0 ");
	assert_int_equal(folding_set_all(&folding, ONE, false), 0);
	lines_are(&folding, "1@0 5@0 ");
	/* What was folded below a folded node stays so. */
	assert_int_equal(folding_set(&folding, ONE, true), 0);
	lines_are(&folding, "1@0 2@1 3@1 5@0 ");
	/* The part that unfolds ends with its last node. */
	assert_int_equal(folding_set_all(&folding, TWO, true), 0);
	lines_are(&folding, "1@0 2@1 3@2 4@2 3@1 5@0 ");
	folding_clear(&folding);
	tree_clear(&tree);
}

static void a_filter_keeps_callers(void **state)
{
	uint32_t wanted = 4;
	struct folding folding;
	struct tree tree;

	make(&tree);
	assert_int_equal(folding_init(&folding, &tree), 0);
	assert_int_equal(folding_filter(&folding, is_it, &wanted), 0);
	lines_are(&folding, "1@0 2@1 4@2 ");
	wanted = 9;
	assert_int_equal(folding_filter(&folding, is_it, &wanted), 0);
	lines_are(&folding, "");
	assert_int_equal(folding_filter(&folding, NULL, NULL), 0);
	assert_true(folding.count >= 2);
	folding_clear(&folding);
	tree_clear(&tree);
}

static void a_search_goes_around(void **state)
{
	uint32_t wanted = 3;
	struct folding folding;
	struct tree tree;

	make(&tree);
	assert_int_equal(folding_init(&folding, &tree), 0);
	assert_int_equal(folding_find(&folding, TREE_ROOT, false, is_it, &wanted), THREE_BELOW);
	assert_int_equal(folding_find(&folding, THREE_BELOW, false, is_it, &wanted), THREE);
	assert_int_equal(folding_find(&folding, THREE, false, is_it, &wanted), THREE_BELOW);
	assert_int_equal(folding_find(&folding, THREE, true, is_it, &wanted), THREE_BELOW);
	assert_int_equal(folding_find(&folding, THREE_BELOW, true, is_it, &wanted), THREE);
	wanted = 9;
	assert_int_equal(folding_find(&folding, ONE, false, is_it, &wanted), TREE_NONE);
	assert_int_equal(folding_reveal(&folding, THREE_BELOW), 0);
	lines_are(&folding, "1@0 2@1 3@2 4@2 3@1 5@0 ");
	assert_int_equal(folding_line_of(&folding, THREE_BELOW), 2);
	assert_int_equal(folding_set(&folding, ONE, false), 0);
	assert_int_equal(folding_line_of(&folding, FOUR), 0);
	folding_clear(&folding);
	tree_clear(&tree);
}

static void the_bar_stays_in_the_window(void **state)
{
	struct list list = {0};

	list_place(&list, 100, 10);
	list_move(&list, 100, 10);
	list_place(&list, 100, 10);
	assert_int_equal(list.bar, 10);
	assert_int_equal(list.first, 1);
	list_move(&list, 100, 1000);
	list_place(&list, 100, 10);
	assert_int_equal(list.bar, 99);
	assert_int_equal(list.first, 90);
	list_move(&list, 100, -1000);
	list_place(&list, 100, 10);
	assert_int_equal(list.bar, 0);
	assert_int_equal(list.first, 0);
	list.bar = 50;
	list_place(&list, 3, 10);
	assert_int_equal(list.bar, 2);
	assert_int_equal(list.first, 0);
	list_place(&list, 0, 10);
	assert_int_equal(list.bar, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(parts_fold_and_unfold),
		cmocka_unit_test(a_filter_keeps_callers),
		cmocka_unit_test(a_search_goes_around),
		cmocka_unit_test(the_bar_stays_in_the_window),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
