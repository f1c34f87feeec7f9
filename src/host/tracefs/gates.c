/*
 * Gates: instances of the session that no directory shows, whose records are for the tool itself (tree.h).
 *
 * Context: host.
 */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>

#include <host/now.h>

#include "tree.h"

#define STORE_BYTES (64u << 20) /* more than comes at a time */
#define HELD_MAX    (32u << 20) /* bytes of events that wait for an instance's own */

void gate_end(struct tree_instance **gate)
{
	if (!*gate)
		return;
	end_instance(*gate);
	parts_free(*gate);
	*gate = NULL;
}

int gate_begin(struct tree_instance **gate, struct tree_instance *owner, const struct gate_kind *kind,
	       const struct tree_words *filters, struct calltap_diag *diag)
{
	struct tree_instance *made = parts_make(owner->tree, "");
	struct tree_words words = {0};
	char name[sizeof(made->session_name)];
	int ret;

	if (!made)
		return calltap_diag_set(diag, -ENOMEM, "not enough memory");
	snprintf(name, sizeof(name), "%.20s%s%.10s", owner->session_name, owner->session_name[0] ? "." : "",
		 kind->name);
	ret = ask_add_change(&words, "name", "=", name);
	for (size_t i = 0; i < GATE_SETTINGS && kind->settings[i] && !ret; i++)
		ret = tree_words_add(&words, kind->settings[i]);
	for (size_t i = 0; i < filters->count && !ret; i++)
		ret = tree_words_add(&words, filters->list[i]);
	if (ret)
		ret = calltap_diag_set(diag, ret, "not enough memory");
	else
		ret = begin_instance(made, (const char *const *)words.list, words.count, diag);
	tree_words_clear(&words);
	if (ret) {
		parts_free(made);
		return ret;
	}
	made->store.bytes_max = STORE_BYTES;
	*gate = made;
	return 0;
}

/* Hand on what has come. */
static void hand_on(struct tree_instance *gate, gate_take *take, void *ctx)
{
	const struct tree_event *event;

	while ((event = store_at(&gate->store, gate->store.first))) {
		take(ctx, event);
		store_take(&gate->store, gate->store.first);
	}
}

void gate_pump_held(struct tree_instance *gate)
{
	if (gate->store.bytes < HELD_MAX)
		gate_pump(gate);
}

/* More than HELD_MAX waits only for calls that are under way, which come when all of the gate's have come. */
void gate_end_held(struct tree_instance *gate, const struct tree_instance *instance)
{
	if (gate->store.bytes < HELD_MAX || !instance->source.behind)
		source_end(gate);
}

bool gate_drain(struct tree_instance *gate, gate_take *take, void *ctx)
{
	if (!gate || gate->source.ended)
		return true;
	if (gate->tree->over || gate->source.finished)
		source_end(gate);
	else
		gate_pump(gate);
	hand_on(gate, take, ctx);
	return !gate->source.behind || gate->source.ended;
}

/* An error does not matter: the instance ends when the gate does. */
static void ask_gate(struct tree_instance *gate, const char *verb, const char *word)
{
	struct calltap_diag diag;
	char *answer = NULL;

	if (!ask_session(gate, verb, &word, word != NULL, -1, &answer, &diag))
		free(answer);
}

void gate_stop(struct tree_instance *gate, gate_take *take, void *ctx)
{
	if (!gate_is_open(gate))
		return;
	/* Nothing more comes then, and what has come can be caught up with, however busy the program is. */
	ask_gate(gate, "set", "tracing=off");
	gate_settle(gate, take, ctx);
	ask_gate(gate, "detach", NULL);
	source_end(gate);
	hand_on(gate, take, ctx);
}

void gate_settle(struct tree_instance *gate, gate_take *take, void *ctx)
{
	const uint64_t now = now_ns(), until_ns = source_until(gate->tree);

	while ((!gate_drain(gate, take, ctx) || source_known_ns(gate) < now) && now_ns() < until_ns)
		if (!gate->source.behind)
			(void)poll(NULL, 0, TREE_SETTLE_MS);
}

uint64_t gate_known_ticks(const struct tree_instance *gate)
{
	const struct tree_source *source = &gate->source;

	if (source->ended || source->failed)
		return UINT64_MAX;
	if (source->behind)
		return source->last_ticks;
	return trace_follow_trace(source->follow) ? trace_follow_ticks(source->follow) : 0;
}

bool gate_is_open(const struct tree_instance *gate)
{
	return gate && !gate->source.finished;
}

bool gate_has_more(const struct tree_instance *gate)
{
	return gate && !gate->source.ended;
}

/* The gate of a kind that a file switches on and off is to record anew. */
static int begin_anew(struct tree_instance **gate, struct tree *tree, const struct gate_kind *kind,
		      struct calltap_diag *diag)
{
	struct tree_words filters = {0};
	int ret;

	gate_end(gate);
	kind->forget(tree);
	ret = kind->filters(tree, &filters);
	if (ret)
		ret = calltap_diag_set(diag, ret, "not enough memory");
	else
		ret = gate_begin(gate, tree->instances, kind, &filters, diag);
	tree_words_clear(&filters);
	return ret;
}

int gate_switch(struct tree_instance **gate, const struct gate_kind *kind, void *ctx, struct tree_open *open,
		const char *text, size_t size)
{
	struct calltap_diag diag = {.column = -1};
	uint64_t on = 0;
	int ret = control_number(open, text, &on);

	if (ret)
		return ret;
	if (!on == !gate_is_open(*gate))
		return (int)size;
	if (!on) {
		gate_stop(*gate, kind->take, ctx);
		return (int)size;
	}
	if (ask_is_gone(open->instance, &diag))
		return control_refuse(open, -ENODEV, diag.text, text, 0);
	ret = begin_anew(gate, open->instance->tree, kind, &diag);
	return ret ? control_refuse(open, ret, diag.text, text, 0) : (int)size;
}

void gate_pump(struct tree_instance *gate)
{
	struct pollfd ended = {gate->source.connection, POLLIN, 0};

	if (poll(&ended, 1, 0) > 0)
		source_end(gate);
	else
		source_pump(gate);
}
