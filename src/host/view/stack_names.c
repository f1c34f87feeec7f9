/*
 * Names of stacks' frames (stack_names.h).  Context: host.
 */
#include <stdio.h>
#include <string.h>

#include "../trace/trace.h"
#include "stack_names.h"

#define NAME_MAX_SIZE 512

/* A process of the trace, and a time in it. */
struct place {
	uint32_t process;
	uint64_t ticks;
};

/* The process that the frame stands for: of those with its id the last one that had begun then. */
static struct place place_of(const struct trace *trace, const struct calltap_map_frame *frame)
{
	struct place place = {TRACE_NONE, frame->address};
	uint64_t begun = 0;

	for (uint32_t i = 0; i < trace_process_count(trace); i++) {
		const struct trace_process *process = trace_process(trace, i);

		if (!process || process->pid != frame->pid || process->start_ticks > frame->address ||
		    (place.process != TRACE_NONE && process->start_ticks < begun))
			continue;
		place.process = i;
		begun = process->start_ticks;
	}
	/* In a namespace of ids of its own it has another one. */
	if (place.process == TRACE_NONE && trace_process_count(trace) == 1)
		place.process = 0;
	return place;
}

/* "name+0x12" and "[object+0x12]" are known by what is in front: a stack is of functions, not of places in them. */
static void cut(char *text)
{
	char *plus = strrchr(text, '+');

	if (plus && plus > text && plus[1] == '0' && plus[2] == 'x')
		*plus = 0;
}

static bool name_at(const struct trace *trace, const struct place *place, uint64_t address, uint64_t ticks,
		    char text[NAME_MAX_SIZE])
{
	char object[NAME_MAX_SIZE - 2];

	if (trace_name_address(trace, place->process, address, ticks, text, NAME_MAX_SIZE)) {
		cut(text);
		return true;
	}
	trace_describe_address(trace, place->process, address, ticks, object, sizeof(object));
	if (!strncmp(object, "0x", 2))
		return false;
	cut(object);
	snprintf(text, NAME_MAX_SIZE, "[%s]", object);
	return true;
}

static void name_frame(const struct trace *trace, const struct place *place, uint64_t address, char text[NAME_MAX_SIZE])
{
	const struct trace_process *process = trace_process(trace, place->process);

	if (address == CALLTAP_MAP_TRACED || address == CALLTAP_MAP_MORE) {
		snprintf(text, NAME_MAX_SIZE, address == CALLTAP_MAP_MORE ? "..." : "[traced]");
		return;
	}
	/* The call is in front of where it returns to.  A library may have come after that time. */
	if (process && !name_at(trace, place, address - 1, place->ticks, text) &&
	    !name_at(trace, place, address - 1, process->end_ticks, text))
		process = NULL;
	if (!process)
		snprintf(text, NAME_MAX_SIZE, "[unknown]");
}

void stack_each_name(const struct tallies *tallies, const struct trace *trace, uint32_t stack,
		     void (*each)(void *ctx, const char *name), void *ctx)
{
	uint64_t addresses[CALLTAP_MAP_FRAMES];
	const struct calltap_map_frame *frame = NULL;
	char text[NAME_MAX_SIZE];
	struct place place;
	uint32_t count = 0;

	while (stack && stack < TALLIED_FRAMES && count < CALLTAP_MAP_FRAMES) {
		frame = &tallies->frames[stack];
		stack = frame->outer;
		if (!stack)
			break;
		addresses[count++] = frame->address;
	}
	if (stack && stack < TALLIED_FRAMES)
		frame = &tallies->frames[stack];
	if (!frame) {
		each(ctx, "[no room]");
		return;
	}
	place = place_of(trace, frame);
	while (count--) {
		name_frame(trace, &place, addresses[count], text);
		each(ctx, text);
	}
}
