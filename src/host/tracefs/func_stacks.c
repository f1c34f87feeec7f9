/*
 * The options func_stack_trace and userstacktrace: below the line of each call a stack (tree.h).
 *
 * A record of the tracer function has the function and the return address alone.  So all calls are recorded by a gate
 * besides, while the option is on and the tracer is function: its entries and exits, taken in by the order of time
 * together with the instance's calls, tell which calls a thread has open at each of them.  Without a gate (there is no
 * room for one) a stack has two functions.  Context: host.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <host/now.h>

#include "tree.h"

#define STACK_MAX 64u	/* functions of a stack */
#define DEPTH_MAX 1024u /* open calls of a thread that are kept: the outermost ones */

/* The open calls of a slot. */
struct open_calls {
	uint32_t *functions; /* by depth; TRACE_NONE = not known */
	size_t room;
	uint32_t depth;
	uint32_t thread; /* of the gate's trace */
};

struct tree_func_stacks {
	struct tree_instance *gate; /* NULL = there is none */
	struct open_calls *slots;
	size_t slot_count;
	uint64_t since_ns; /* older calls have no stacks */
};

static const struct gate_kind gate_kind = {.name = "func-stacks", .settings = {"tracer=function_graph", "buffer=1M"}};

static void forget(struct tree_func_stacks *stacks)
{
	for (size_t i = 0; i < stacks->slot_count; i++)
		free(stacks->slots[i].functions);
	free(stacks->slots);
	stacks->slots = NULL;
	stacks->slot_count = 0;
}

/* Note that the slot has a call of the function open at that depth, and none within it. */
static void note(struct open_calls *calls, uint32_t depth, uint32_t function)
{
	size_t known = calls->room;
	uint32_t *functions;

	calls->depth = depth + 1;
	functions = depth < DEPTH_MAX ? tree_grown(calls->functions, &calls->room, depth, sizeof(*functions)) : NULL;
	if (!functions)
		return;
	calls->functions = functions;
	for (size_t i = known; i < calls->room; i++)
		functions[i] = TRACE_NONE;
	functions[depth] = function;
}

/* Take an entry, exit or loss of the gate's over. */
static void take(struct tree_func_stacks *stacks, const struct tree_event *event)
{
	struct open_calls *slots = tree_grown(stacks->slots, &stacks->slot_count, event->slot, sizeof(*slots)), *calls;

	if (!slots)
		return;
	stacks->slots = slots;
	calls = &slots[event->slot];
	calls->thread = event->thread;
	if (event->kind == TREE_ENTRY)
		note(calls, event->depth, event->function);
	else if (event->kind == TREE_EXIT)
		calls->depth = event->depth;
	else if (event->kind == TREE_LOST)
		for (size_t i = 0; i < calls->room; i++)
			calls->functions[i] = TRACE_NONE;
}

static void pump(struct tree_instance *instance)
{
	struct tree_instance *gate = instance->func_stacks->gate;

	if (gate && !gate->source.ended)
		gate_pump_held(gate);
}

static uint64_t known(const struct tree_instance *instance)
{
	return instance->func_stacks->gate ? gate_known_ticks(instance->func_stacks->gate) : UINT64_MAX;
}

static void reach(struct tree_instance *instance, uint64_t until_ticks)
{
	struct tree_func_stacks *stacks = instance->func_stacks;
	struct tree_store *store = stacks->gate ? &stacks->gate->store : NULL;
	const struct tree_event *event;

	while (store && (event = store_at(store, store->first)) && event->ticks <= until_ticks) {
		take(stacks, event);
		store_take(store, store->first);
	}
}

static void end(struct tree_instance *instance)
{
	struct tree_instance *gate = instance->func_stacks->gate;

	if (gate)
		gate_end_held(gate, instance);
}

static void destroy(struct tree_instance *instance)
{
	gate_end(&instance->func_stacks->gate);
	forget(instance->func_stacks);
	free(instance->func_stacks);
	instance->func_stacks = NULL;
}

/* Where the function that a slot has open at the depth lies; 0 = nobody knows.  *size: of the function. */
static uint64_t place_of(struct tree_instance *gate, const struct open_calls *calls, uint32_t depth, uint64_t ticks,
			 uint64_t *size)
{
	const struct trace *trace = trace_follow_trace(gate->source.follow);
	const struct tree_event event = {.ticks = ticks, .thread = calls->thread, .function = calls->functions[depth]};
	const struct trace_function *function =
		event.function == TRACE_NONE || !trace ? NULL : trace_function(trace, event.function);

	*size = function ? function->size : 0;
	return function ? lines_address(gate, &event) : 0;
}

/* Add the functions that the thread has open outside of the call, which is itself there, or not yet. */
static size_t add_outer(struct tree_instance *gate, const struct open_calls *calls, const struct tree_event *call,
			uint64_t *addresses, size_t count)
{
	uint32_t depth = calls->depth < calls->room ? calls->depth : (uint32_t)calls->room;
	uint64_t size, place = depth ? place_of(gate, calls, depth - 1, call->ticks, &size) : 0;

	if (place && place == addresses[0])
		place = --depth ? place_of(gate, calls, depth - 1, call->ticks, &size) : 0;
	/* The caller is there by its return address. */
	if (place && call->extra > place && call->extra - place <= size)
		depth--;
	while (depth && count < STACK_MAX) {
		place = place_of(gate, calls, --depth, call->ticks, &size);
		if (place)
			addresses[count++] = place;
	}
	return count;
}

static char *make(struct tree_instance *instance, const struct tree_event *call, size_t *count)
{
	const struct tree_func_stacks *stacks = instance->func_stacks;
	uint64_t addresses[STACK_MAX] = {lines_address(instance, call), call->extra};
	uint64_t *made;

	if (!stacks || call->ns <= stacks->since_ns)
		return NULL;
	*count = call->extra ? 2 : 1;
	if (stacks->gate && call->slot < stacks->slot_count)
		*count = add_outer(stacks->gate, &stacks->slots[call->slot], call, addresses, *count);
	made = malloc(*count * sizeof(*made));
	if (made)
		memcpy(made, addresses, *count * sizeof(*made));
	return (char *)made;
}

static const struct tree_beside beside = {
	.pump = pump, .known = known, .reach = reach, .stack = make, .end = end, .destroy = destroy};

static int begin(struct tree_instance *instance, struct calltap_diag *diag)
{
	const struct tree_words all = {0};

	if (!instance->func_stacks)
		instance->func_stacks = calloc(1, sizeof(*instance->func_stacks));
	if (!instance->func_stacks)
		return calltap_diag_set(diag, -ENOMEM, "not enough memory");
	instance->besides[BESIDE_STACKS] = &beside;
	gate_end(&instance->func_stacks->gate);
	forget(instance->func_stacks);
	instance->func_stacks->since_ns = now_ns();
	return gate_begin(&instance->func_stacks->gate, instance, &gate_kind, &all, diag);
}

int func_stacks_follow(struct tree_instance *instance, struct calltap_diag *diag)
{
	struct tree_instance *gate = instance->func_stacks ? instance->func_stacks->gate : NULL;
	bool wanted = options_has(instance, OPTION_FUNC_STACK_TRACE) || options_has(instance, OPTION_USERSTACKTRACE);
	struct calltap_diag gone;
	char tracer[64];

	if (!gate && !wanted)
		return 0;
	ask_value(instance, "tracer", tracer, sizeof(tracer));
	wanted &= !strcmp(tracer, "function") && !ask_is_gone(instance, &gone);
	if (wanted == gate_is_open(gate))
		return 0;
	if (wanted)
		return begin(instance, diag);
	gate_end(&instance->func_stacks->gate);
	return 0;
}
