/*
 * error_log: the newest errors of all files, each with what was written and a caret, as the kernel has it for some
 * files.
 *
 * Context: host.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <host/now.h>

#include "tree.h"

static void forget_oldest(struct tree *tree)
{
	free(tree->errors[0].text);
	memmove(&tree->errors[0], &tree->errors[1], --tree->error_count * sizeof(tree->errors[0]));
}

int errors_note(struct tree *tree, const char *file, int error, const char *text, const char *command, int at)
{
	struct tree_text lines = {0};
	size_t length = strcspn(command, "\n");

	tree_text_format(&lines, "%s: error: %s\n  Command: ", file, text && text[0] ? text : strerror(-error));
	tree_text_add(&lines, command, length);
	tree_text_string(&lines, "\n           ");
	tree_text_fill(&lines, ' ', at > 0 && (size_t)at <= length ? (size_t)at : 0);
	tree_text_add(&lines, "^\n", 3); /* with the NUL */
	if (lines.failed) {
		tree_text_clear(&lines);
		return error;
	}
	if (tree->error_count == TREE_ERRORS)
		forget_oldest(tree);
	tree->errors[tree->error_count++] = (struct tree_error){now_ns(), lines.bytes};
	return error;
}

void errors_print(struct tree *tree, struct tree_text *out)
{
	for (uint32_t i = 0; i < tree->error_count; i++) {
		tree_text_format(out, "[%5llu.%06llu] ", (unsigned long long)(tree->errors[i].ns / 1000000000u),
				 (unsigned long long)(tree->errors[i].ns / 1000 % 1000000u));
		tree_text_string(out, tree->errors[i].text);
	}
}

void errors_clear(struct tree *tree)
{
	while (tree->error_count)
		forget_oldest(tree);
}
