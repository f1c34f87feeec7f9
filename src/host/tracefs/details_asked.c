/*
 * Which values of calls the session is to record, by the options of details.c (tree.h).
 *
 * Callers: controls.c and limits.c, where options or the tracer change.  Context: host.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "tree.h"

#define SETTING "registers"

static const struct {
	enum tree_option option;
	const char *tracer, *word; /* of the session's setting */
} asked[] = {{OPTION_FUNCGRAPH_ARGS, "function_graph", "args"},
	     {OPTION_FUNCGRAPH_RETVAL, "function_graph", "result"},
	     {OPTION_FUNCGRAPH_RETADDR, "function_graph", "caller"},
	     {OPTION_FUNC_ARGS, "function", "args"}};

#define ASKED (sizeof(asked) / sizeof(asked[0]))

/* Does some option of the tracer ask for anything? */
static bool is_asked(const struct tree_instance *instance, const char *tracer)
{
	for (size_t i = 0; i < ASKED; i++)
		if (options_has(instance, asked[i].option) && !strcmp(asked[i].tracer, tracer))
			return true;
	return false;
}

int details_add_changes(struct tree_instance *instance, const char *tracer, struct tree_words *changes)
{
	char now[64];
	int ret;

	ask_value(instance, SETTING, now, sizeof(now));
	if (!now[0] && !is_asked(instance, tracer))
		return 0;
	ret = ask_add_change(changes, SETTING, "=", "");
	for (size_t i = 0; i < ASKED && !ret; i++)
		if (options_has(instance, asked[i].option) && !strcmp(asked[i].tracer, tracer))
			ret = ask_add_change(changes, SETTING, "+=", asked[i].word);
	return ret;
}

/* As in the kernel, whose calls have either arguments, or stacks, or are told of once. */
static bool is_contradicted(const struct tree_instance *instance)
{
	return options_has(instance, OPTION_FUNC_ARGS) &&
	       (options_has(instance, OPTION_FUNC_NO_REPEATS) || options_has(instance, OPTION_FUNC_STACK_TRACE) ||
		options_has(instance, OPTION_USERSTACKTRACE));
}

const char *details_refusal(const struct tree_instance *instance)
{
	if (is_contradicted(instance))
		return "calls have arguments (func-args), or stacks, or are told of once (func-no-repeats); set the "
		       "other option to 0 before";
	for (size_t i = 0; i < ASKED && instance->session_name[0]; i++)
		if (options_has(instance, asked[i].option))
			return "values are recorded by a session's first instance alone: they are at the top level of "
			       "a tree whose process nobody else traces";
	return NULL;
}

int details_follow(struct tree_open *open)
{
	struct tree_instance *instance = open->instance;
	struct tree_words changes = {0};
	char tracer[64];
	int ret;

	ask_value(instance, "tracer", tracer, sizeof(tracer));
	ret = details_add_changes(instance, tracer, &changes);
	if (!ret && changes.count)
		ret = ask_change(instance, options_name(open->option), &changes);
	tree_words_clear(&changes);
	return ret;
}
