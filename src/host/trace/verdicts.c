/*
 * Leaving out calls by verdicts that come at their returns (verdicts.h).  Context: host.
 *
 * Both readings build the open calls (callstack.h) and count the calls of each thread, so that a call has the same
 * number in both.  In the second one a call has flags, and the events that it is made of are left out or changed: an
 * EXIT may end frames that are shown with one that is not; an UNWIND counts frames.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <calltap/abi/program.h>

#include "callstack.h"
#include "verdicts.h"

/* Flags of a call in the second reading. */
#define LEFT_OUT 1u
#define HIDES	 2u /* what it calls is left out, too */

#define PER_BYTE 4u /* calls: two bits each, flags as above */

/* The calls of a thread. */
struct judged {
	unsigned char *flags;
	size_t size;	 /* bytes */
	uint64_t calls;	 /* that have begun in this reading */
	uint64_t since;	 /* of these, before the last loss, the last change of stacks, or what is hidden already */
	bool begun;	 /* frames from before the trace were entered */
	bool has_orphan; /* the next EXIT of `orphan` without an entry is of a call that is left out */
	uint32_t orphan;
};

/* The frames that one event of a thread has ended. */
struct ended {
	bool returned;	   /* a frame that is shown, by a return; */
	uint32_t function; /* its innermost name that is shown */
	uint32_t others;   /* frames that are shown, otherwise */
	bool other;	   /* a name that is shown, of a frame of which further names end */
};

struct verdicts {
	const struct trace *trace;
	struct callstack *stack;
	struct judged *threads;
	uint32_t count;
	bool second;
	struct ended ended;
	int error;
};

bool verdicts_are_in(const struct trace *trace)
{
	return trace_format_name(trace, CALLTAP_EVENT_VERDICT) != NULL;
}

static uint64_t flags_of(const struct judged *judged, uint64_t call)
{
	uint64_t at = call / PER_BYTE;

	return at < judged->size ? judged->flags[at] >> call % PER_BYTE * 2 & 3u : 0;
}

static int set_flags(struct judged *judged, uint64_t call, unsigned flags)
{
	uint64_t at = call / PER_BYTE;
	size_t size = judged->size ? judged->size : 64;
	unsigned char *grown;

	while (size <= at)
		size *= 2;
	if (size > judged->size) {
		grown = realloc(judged->flags, size);
		if (!grown)
			return -ENOMEM;
		memset(grown + judged->size, 0, size - judged->size);
		judged->flags = grown;
		judged->size = size;
	}
	judged->flags[at] |= (unsigned char)(flags << call % PER_BYTE * 2);
	return 0;
}

/* A call begins: note its number, or its flags. */
static void begin_call(void *ctx, struct callstack *stack, uint32_t thread, struct call_frame *frame)
{
	struct verdicts *verdicts = ctx;
	struct judged *judged = &verdicts->threads[thread];
	const struct call_frame *parent;

	if (frame->before)
		return;
	frame->user = judged->calls++;
	if (!verdicts->second)
		return;
	parent = frame->depth ? callstack_frame(stack, thread, frame->depth - 1) : NULL;
	frame->user = flags_of(judged, frame->user);
	if (parent && !parent->before && parent->user & HIDES)
		frame->user = LEFT_OUT | HIDES;
}

static bool is_shown(const struct verdicts *verdicts, uint32_t thread, const struct call_frame *frame)
{
	const struct judged *judged = &verdicts->threads[thread];

	if (!frame->enter_known)
		return !judged->has_orphan || judged->orphan != frame->function;
	return !(frame->user & LEFT_OUT);
}

static void end_call(void *ctx, struct callstack *stack, const struct call_closed *closed)
{
	struct verdicts *verdicts = ctx;
	struct ended *ended = &verdicts->ended;
	const struct call_frame *frame = closed->frame;
	bool shown = is_shown(verdicts, closed->thread, frame);

	(void)stack;
	if (frame->before || !verdicts->second)
		return;
	if (closed->how == CALL_RETURNED || closed->how == CALL_TAILED) {
		if (shown && !ended->returned)
			ended->function = frame->function;
		ended->returned |= shown;
		return;
	}
	ended->other |= shown;
	if (closed->parent && closed->parent->tailed)
		return; /* more of the frame's names end */
	ended->others += ended->other;
	ended->other = false;
}

static const struct callstack_ops ops = {.on_enter = begin_call, .on_close = end_call};

int verdicts_create(struct verdicts **out, const struct trace *trace)
{
	struct verdicts *verdicts = calloc(1, sizeof(*verdicts));
	uint32_t count = trace_thread_count(trace);

	*out = verdicts;
	if (!verdicts)
		return -ENOMEM;
	verdicts->trace = trace;
	verdicts->threads = calloc(count ? count : 1, sizeof(*verdicts->threads));
	if (!verdicts->threads)
		return -ENOMEM;
	verdicts->count = count;
	return callstack_create(&verdicts->stack, trace, &ops, verdicts);
}

void verdicts_destroy(struct verdicts *verdicts)
{
	if (!verdicts)
		return;
	for (uint32_t i = 0; i < verdicts->count; i++)
		free(verdicts->threads[i].flags);
	free(verdicts->threads);
	callstack_destroy(verdicts->stack);
	free(verdicts);
}

int verdicts_begin(struct verdicts *verdicts)
{
	callstack_destroy(verdicts->stack);
	verdicts->second = true;
	for (uint32_t i = 0; i < verdicts->count; i++) {
		verdicts->threads[i].calls = 0;
		verdicts->threads[i].begun = false;
	}
	return callstack_create(&verdicts->stack, verdicts->trace, &ops, verdicts);
}

/* Bring the open calls up to date. */
static int feed(struct verdicts *verdicts, const struct trace_event *event)
{
	struct judged *judged = &verdicts->threads[event->thread];
	int ret = 0;

	if (!judged->begun)
		ret = callstack_begin(verdicts->stack, event->thread);
	judged->begun = true;
	verdicts->ended = (struct ended){.returned = false};
	return ret ? ret : callstack_feed(verdicts->stack, event);
}

/* Read a verdict; false: it is none. */
static bool read_verdict(struct calltap_event_verdict *verdict, const struct trace_event *event)
{
	unsigned char bytes[CALLTAP_EVENT_BYTES_MAX];

	if (event->kind != CALLTAP_REC_EVENT || calltap_event_type(event->id) != CALLTAP_EVENT_VERDICT ||
	    trace_event_bytes(event, bytes) < CALLTAP_VERDICT_BYTES)
		return false;
	memcpy(verdict, bytes, CALLTAP_VERDICT_BYTES);
	return verdict->verdict == CALLTAP_VERDICT_LEAVE_OUT || verdict->verdict == CALLTAP_VERDICT_HIDE;
}

/* The innermost open call of the function, NULL = its entry is not in the trace. */
static struct call_frame *find_call(const struct verdicts *verdicts, uint32_t thread, uint32_t function)
{
	for (uint32_t depth = callstack_depth(verdicts->stack, thread); depth; depth--) {
		struct call_frame *frame = callstack_frame(verdicts->stack, thread, depth - 1);

		if (frame->before)
			return NULL;
		if (frame->function == function && !frame->tailed)
			return frame;
	}
	return NULL;
}

/* A call whose entry is not in the trace is around all that the thread has done since its records begin. */
static int hide_before(struct verdicts *verdicts, uint32_t thread)
{
	struct judged *judged = &verdicts->threads[thread];
	uint32_t depth = callstack_depth(verdicts->stack, thread);
	int ret = 0;

	/* Calls farther out that are known: nobody knows which ones were within. */
	if (depth && !callstack_frame(verdicts->stack, thread, depth - 1)->before)
		return 0;
	for (; judged->since < judged->calls && !ret; judged->since++)
		ret = set_flags(judged, judged->since, LEFT_OUT | HIDES);
	return ret;
}

int verdicts_note(struct verdicts *verdicts, const struct trace_event *event)
{
	struct calltap_event_verdict verdict;
	struct call_frame *frame;
	struct judged *judged;
	int ret = event->thread < verdicts->count ? feed(verdicts, event) : 0;

	if (ret || event->thread >= verdicts->count)
		return ret;
	judged = &verdicts->threads[event->thread];
	if (event->kind == CALLTAP_REC_LOST || event->kind == CALLTAP_REC_STACK)
		judged->since = judged->calls;
	if (!read_verdict(&verdict, event))
		return 0;
	frame = find_call(verdicts, event->thread, verdict.function);
	if (frame)
		return set_flags(judged, frame->user,
				 verdict.verdict == CALLTAP_VERDICT_HIDE ? LEFT_OUT | HIDES : LEFT_OUT);
	return verdict.verdict == CALLTAP_VERDICT_HIDE ? hide_before(verdicts, event->thread) : 0;
}

/* The call that a verdict was for is about to end: what comes now is not within it. */
static void take_verdict(struct verdicts *verdicts, uint32_t thread, const struct calltap_event_verdict *verdict)
{
	struct call_frame *frame = find_call(verdicts, thread, verdict->function);
	struct judged *judged = &verdicts->threads[thread];

	if (frame) {
		frame->user &= ~(uint64_t)HIDES;
		return;
	}
	judged->has_orphan = true;
	judged->orphan = verdict->function;
}

static const struct call_frame *innermost(const struct verdicts *verdicts, uint32_t thread)
{
	uint32_t depth = callstack_depth(verdicts->stack, thread);
	const struct call_frame *frame = depth ? callstack_frame(verdicts->stack, thread, depth - 1) : NULL;

	return frame && !frame->before ? frame : NULL;
}

static bool pass_entry(const struct verdicts *verdicts, struct trace_event *event)
{
	const struct call_frame *frame = innermost(verdicts, event->thread);
	const struct call_frame *caller = frame && frame->tail && frame->depth
						  ? callstack_frame(verdicts->stack, event->thread, frame->depth - 1)
						  : NULL;

	event->leaf = false; /* each UNWIND counts all frames here */
	if (caller && !caller->before && caller->user & LEFT_OUT)
		event->kind = CALLTAP_REC_ENTRY; /* the frame's first name that is shown */
	return !frame || !(frame->user & LEFT_OUT);
}

static bool pass_exit(struct verdicts *verdicts, struct trace_event *event)
{
	const struct ended *ended = &verdicts->ended;
	struct judged *judged = &verdicts->threads[event->thread];

	if (judged->has_orphan && judged->orphan == event->id)
		judged->has_orphan = false;
	if (ended->returned) {
		event->id = ended->function;
		return true;
	}
	/* Frames farther in, which have left no record of their ends. */
	event->kind = CALLTAP_REC_UNWIND;
	event->id = ended->others;
	return ended->others;
}

static bool pass_event(struct verdicts *verdicts, const struct trace_event *event)
{
	struct calltap_event_verdict verdict;
	const struct call_frame *frame;
	uint32_t function;

	if (calltap_event_type(event->id) == CALLTAP_EVENT_VERDICT) {
		if (read_verdict(&verdict, event))
			take_verdict(verdicts, event->thread, &verdict);
		return false;
	}
	frame = innermost(verdicts, event->thread);
	if (!frame || !(frame->user & LEFT_OUT))
		return true;
	/* Marks stay, values of the call go. */
	function = trace_event_function(verdicts->trace, event);
	return function == TRACE_NONE || (function != frame->function && !(frame->user & HIDES));
}

int verdicts_pass(struct verdicts *verdicts, struct trace_event *event)
{
	int ret = event->thread < verdicts->count ? feed(verdicts, event) : 0;

	if (ret || event->thread >= verdicts->count)
		return ret ? ret : 1;
	switch (event->kind) {
	case CALLTAP_REC_ENTRY:
	case CALLTAP_REC_TAIL:
		return pass_entry(verdicts, event);
	case CALLTAP_REC_EXIT:
		return pass_exit(verdicts, event);
	case CALLTAP_REC_UNWIND:
		event->id = verdicts->ended.others;
		return event->id != 0;
	case CALLTAP_REC_LANDING:
		return 0; /* it corrects the UNWIND behind it, which is right now */
	case CALLTAP_REC_EVENT:
		return pass_event(verdicts, event);
	default:
		return 1;
	}
}
