/*
 * Functions for formats that have tables in front of their events: they collect the threads, stacks and functions that
 * the events use, and walk the events of one thread at a time; see export.h.
 *
 * Context: host.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <host/text.h>

#include "../view/headway.h"
#include "export.h"

bool export_first_use(bool **used, uint32_t *room, uint32_t index, int *error)
{
	uint64_t want = *room ? *room : 64;
	bool *grown;

	while (want <= index)
		want *= 2;
	if (index >= *room) {
		grown = realloc(*used, want * sizeof(*grown));
		if (!grown) {
			*error = -ENOMEM;
			return false;
		}
		memset(grown + *room, 0, (want - *room) * sizeof(*grown));
		*used = grown;
		*room = (uint32_t)want;
	}
	if ((*used)[index])
		return false;
	(*used)[index] = true;
	return true;
}

void export_stack_name(char name[EXPORT_STACK_NAME], const struct trace_thread *thread, uint32_t stack)
{
	char clean[sizeof(thread->name)];

	text_clean(clean, sizeof(clean), thread ? thread->name : "");
	snprintf(name, EXPORT_STACK_NAME, "%s, stack %llu", clean, (unsigned long long)stack + 1);
}

/* Run the pass of one thread; what it says of damage is added to *sum. */
static int run_thread(const struct export_pass *pass, const struct trace *trace, const struct view_filter *filter,
		      uint32_t thread, struct walk *sum, struct calltap_diag *diag)
{
	struct view_filter one = *filter;
	struct walk walk;
	int err = pass->begin ? pass->begin(pass->ctx, thread) : 0;

	if (err)
		return err;
	one.thread = thread + 1;
	err = walk_run(&walk, trace, &one, pass->ops, pass->ctx, diag);
	if (!sum->damages)
		sum->damage = walk.damage;
	sum->damages += walk.damages;
	sum->undescribed += walk.undescribed;
	return !err && pass->finish ? pass->finish(pass->ctx, thread) : err;
}

int export_each_thread(const struct export_pass *pass, const struct trace *trace, const struct view_filter *filter,
		       struct walk *walk, struct calltap_diag *diag)
{
	struct trace_stack stack;
	int err = 0;

	memset(walk, 0, sizeof(*walk));
	headway_begin(filter->headway, "reading", view_filter_records(filter, trace));
	headway_hold(filter->headway);
	for (uint32_t i = 0; i < trace_thread_count(trace) && !err; i++) {
		const struct trace_thread *thread = trace_thread(trace, i);

		if (view_filter_has_thread(filter, trace, i) &&
		    (thread->records || trace_thread_stack(trace, i, &stack)))
			err = run_thread(pass, trace, filter, i, walk, diag);
	}
	headway_release(filter->headway);
	return err;
}

#define NUMBERS_MAX (1u << 30)

int export_numbers_init(struct export_numbers *numbers)
{
	return tree_init(&numbers->tree, NUMBERS_MAX);
}

void export_numbers_clear(struct export_numbers *numbers)
{
	tree_clear(&numbers->tree);
}

uint32_t export_number_count(const struct export_numbers *numbers)
{
	return numbers->tree.count - 1;
}

uint32_t export_number_function(const struct export_numbers *numbers, uint32_t number)
{
	return numbers->tree.nodes[number + 1].function;
}

uint32_t export_number(struct export_numbers *numbers, uint32_t function, bool *first, int *err)
{
	uint32_t before = numbers->tree.count, node = tree_child(&numbers->tree, TREE_ROOT, function, err);

	*first = numbers->tree.count > before;
	if (node != TREE_NONE)
		return node - 1;
	*err = *err ? *err : -ENOMEM;
	return 0;
}
