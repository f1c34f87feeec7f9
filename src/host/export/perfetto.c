/*
 * Perfetto's trace format: a stream of TracePacket messages.
 *
 * Context: host; see export.h.  Field numbers are those of Perfetto's public protos (protos/perfetto/trace/).  The file
 * is one packet sequence with an incremental clock and interned names, so that a begin or end event takes about 20
 * bytes.  Calls that are open at the end stay open in the file, as Perfetto expects it; calls whose entry is not in the
 * trace have no begin and are left out.  Slices of one track must nest, so each stack of a thread but the first has a
 * track of its own, below the thread's.
 */
#include <errno.h>
#include <stdlib.h>

#include <host/text.h>

#include "../view/names.h"
#include "export.h"
#include "protobuf.h"
#include "told.h"

enum file_field { TRACE_PACKET = 1 };

enum packet_field {
	PACKET_CLOCK_SNAPSHOT = 6,
	PACKET_TIMESTAMP = 8,
	PACKET_SEQUENCE_ID = 10,
	PACKET_TRACK_EVENT = 11,
	PACKET_INTERNED_DATA = 12,
	PACKET_SEQUENCE_FLAGS = 13,
	PACKET_DEFAULTS = 59,
	PACKET_TRACK_DESCRIPTOR = 60,
};

enum sequence_flag { SEQUENCE_CLEARED = 1, SEQUENCE_NEEDS_STATE = 2 };
enum defaults_field { DEFAULTS_TIMESTAMP_CLOCK = 58 };
enum snapshot_field { SNAPSHOT_CLOCKS = 1, SNAPSHOT_PRIMARY = 2 };
enum clock_field { CLOCK_ID = 1, CLOCK_TIMESTAMP = 2, CLOCK_INCREMENTAL = 3 };
enum clock_id { CLOCK_ID_MONOTONIC = 3, CLOCK_ID_OWN = 64 }; /* 64..127: defined by the sequence */
enum interned_field { INTERNED_EVENT_NAMES = 2 };
enum event_name_field { EVENT_NAME_IID = 1, EVENT_NAME_NAME = 2 };
enum track_field { TRACK_UUID = 1, TRACK_NAME = 2, TRACK_PROCESS = 3, TRACK_THREAD = 4, TRACK_PARENT = 5 };
enum process_field { PROCESS_PID = 1, PROCESS_NAME = 6 };
enum thread_field { THREAD_PID = 1, THREAD_TID = 2, THREAD_NAME = 5 };
enum event_field {
	EVENT_ANNOTATIONS = 4,
	EVENT_TYPE = 9,
	EVENT_NAME_REF = 10,
	EVENT_TRACK = 11,
	EVENT_CATEGORIES = 22,
	EVENT_NAME_TEXT = 23,
};
enum event_type { EVENT_SLICE_BEGIN = 1, EVENT_SLICE_END = 2, EVENT_INSTANT = 3 };
enum annotation_field { ANNOTATION_UINT = 3, ANNOTATION_STRING = 6, ANNOTATION_NAME = 10 };

#define SEQUENCE_ID    1u
#define EVENT_MAX      256u  /* bytes of an event without its interned name */
#define NAME_MAX_BYTES 8192u /* of an interned name; longer names are cut */

struct perfetto {
	const struct trace *trace;
	struct out *out;
	struct names *names;
	uint64_t last_ns;
	uint8_t *interned;	      /* bit per function: its name was written */
	uint32_t functions, untraced; /* numbers of all functions, and of untraced ones */
	uint8_t *bytes;		      /* buffer for one packet */
	size_t size;
	bool *named; /* per stack that is no thread's first: its track was written */
	uint32_t named_room;
	struct told_table told;
};

static uint64_t thread_track(uint32_t thread)
{
	return (uint64_t)thread + 1;
}

static uint64_t process_track(uint32_t process)
{
	return (UINT64_C(1) << 32) + process;
}

static void put_packet(struct perfetto *perfetto, const struct protobuf *packet)
{
	uint8_t bytes[16];
	struct protobuf head;

	protobuf_begin(&head, bytes, sizeof(bytes));
	protobuf_varint(&head, TRACE_PACKET << 3 | 2);
	protobuf_varint(&head, packet->used);
	out_bytes(perfetto->out, (const char *)bytes, head.used);
	out_bytes(perfetto->out, (const char *)packet->bytes, packet->used);
}

/* Write the first packet: it defines the sequence's clock, whose timestamps are differences to the packet before. */
static void put_clock(struct perfetto *perfetto, uint64_t start_ns)
{
	uint8_t snapshot_bytes[96], clock_bytes[32], defaults_bytes[8];
	struct protobuf packet, snapshot, clock, defaults;

	protobuf_begin(&snapshot, snapshot_bytes, sizeof(snapshot_bytes));
	protobuf_begin(&clock, clock_bytes, sizeof(clock_bytes));
	protobuf_u64(&clock, CLOCK_ID, CLOCK_ID_MONOTONIC);
	protobuf_u64(&clock, CLOCK_TIMESTAMP, start_ns);
	protobuf_message(&snapshot, SNAPSHOT_CLOCKS, &clock);
	protobuf_begin(&clock, clock_bytes, sizeof(clock_bytes));
	protobuf_u64(&clock, CLOCK_ID, CLOCK_ID_OWN);
	protobuf_u64(&clock, CLOCK_TIMESTAMP, start_ns);
	protobuf_u64(&clock, CLOCK_INCREMENTAL, 1);
	protobuf_message(&snapshot, SNAPSHOT_CLOCKS, &clock);
	protobuf_u64(&snapshot, SNAPSHOT_PRIMARY, CLOCK_ID_MONOTONIC);
	protobuf_begin(&defaults, defaults_bytes, sizeof(defaults_bytes));
	protobuf_u64(&defaults, DEFAULTS_TIMESTAMP_CLOCK, CLOCK_ID_OWN);

	protobuf_begin(&packet, perfetto->bytes, perfetto->size);
	protobuf_u64(&packet, PACKET_SEQUENCE_ID, SEQUENCE_ID);
	protobuf_u64(&packet, PACKET_SEQUENCE_FLAGS, SEQUENCE_CLEARED);
	protobuf_message(&packet, PACKET_CLOCK_SNAPSHOT, &snapshot);
	protobuf_message(&packet, PACKET_DEFAULTS, &defaults);
	put_packet(perfetto, &packet);
}

static void put_track(struct perfetto *perfetto, const struct protobuf *track)
{
	struct protobuf packet;

	protobuf_begin(&packet, perfetto->bytes, perfetto->size);
	protobuf_u64(&packet, PACKET_SEQUENCE_ID, SEQUENCE_ID);
	protobuf_u64(&packet, PACKET_SEQUENCE_FLAGS, SEQUENCE_NEEDS_STATE);
	protobuf_message(&packet, PACKET_TRACK_DESCRIPTOR, track);
	put_packet(perfetto, &packet);
}

static void put_process(struct perfetto *perfetto, uint32_t index)
{
	const struct trace_process *process = trace_process(perfetto->trace, index);
	uint8_t track_bytes[512], process_bytes[400];
	struct protobuf track, about;
	char name[300];

	text_clean(name, sizeof(name), text_base(process->exe));
	protobuf_begin(&about, process_bytes, sizeof(process_bytes));
	protobuf_u64(&about, PROCESS_PID, process->pid);
	protobuf_text(&about, PROCESS_NAME, name);
	protobuf_begin(&track, track_bytes, sizeof(track_bytes));
	protobuf_u64(&track, TRACK_UUID, process_track(index));
	protobuf_message(&track, TRACK_PROCESS, &about);
	put_track(perfetto, &track);
}

static void put_thread(struct perfetto *perfetto, uint32_t index)
{
	const struct trace_thread *thread = trace_thread(perfetto->trace, index);
	const struct trace_process *process = trace_process(perfetto->trace, thread->process);
	uint8_t track_bytes[128], thread_bytes[96];
	struct protobuf track, about;
	char name[sizeof(thread->name)];

	text_clean(name, sizeof(name), thread->name);
	protobuf_begin(&about, thread_bytes, sizeof(thread_bytes));
	protobuf_u64(&about, THREAD_PID, process ? process->pid : 0);
	protobuf_u64(&about, THREAD_TID, thread->tid);
	protobuf_text(&about, THREAD_NAME, name);
	protobuf_begin(&track, track_bytes, sizeof(track_bytes));
	protobuf_u64(&track, TRACK_UUID, thread_track(index));
	protobuf_u64(&track, TRACK_PARENT, process_track(thread->process));
	protobuf_message(&track, TRACK_THREAD, &about);
	put_track(perfetto, &track);
}

/* The track of the thread's current stack, which is described in the file at its first use. */
static uint64_t stack_track(struct perfetto *perfetto, struct walk *walk, uint32_t thread)
{
	uint32_t chain = callstack_chain(walk->stack, thread);
	uint32_t number = chain - CALLSTACK_OTHER;
	uint64_t uuid = (UINT64_C(2) << 32) + number;
	uint8_t bytes[128];
	struct protobuf track;
	char name[EXPORT_STACK_NAME];

	if (chain < CALLSTACK_OTHER)
		return thread_track(thread);
	if (!export_first_use(&perfetto->named, &perfetto->named_room, number, &walk->error))
		return uuid;
	export_stack_name(name, trace_thread(perfetto->trace, thread), callstack_current(walk->stack, thread));
	protobuf_begin(&track, bytes, sizeof(bytes));
	protobuf_u64(&track, TRACK_UUID, uuid);
	protobuf_text(&track, TRACK_NAME, name);
	protobuf_u64(&track, TRACK_PARENT, thread_track(thread));
	put_track(perfetto, &track);
	return uuid;
}

static void describe_tracks(struct perfetto *perfetto, const struct view_filter *filter)
{
	for (uint32_t i = 0; i < trace_process_count(perfetto->trace); i++) {
		const struct trace_process *process = trace_process(perfetto->trace, i);

		if (process && (!filter->pid || process->pid == filter->pid))
			put_process(perfetto, i);
	}
	for (uint32_t i = 0; i < trace_thread_count(perfetto->trace); i++) {
		if (view_filter_has_thread(filter, perfetto->trace, i))
			put_thread(perfetto, i);
	}
}

/* A function's bit in `interned`: traced functions, untraced ones, and a last bit for all that are not known. */
static uint32_t name_index(const struct perfetto *perfetto, uint32_t function)
{
	uint32_t traced = perfetto->functions - perfetto->untraced;

	if (function >= TRACE_UNTRACED && function - TRACE_UNTRACED < perfetto->untraced)
		return traced + function - TRACE_UNTRACED;
	return function < traced ? function : perfetto->functions;
}

/* Write the name into packet when this is the function's first event; returns its iid. */
static uint64_t intern_name(struct perfetto *perfetto, struct protobuf *packet, uint32_t function)
{
	uint32_t index = name_index(perfetto, function);
	struct names_text name;
	uint8_t name_bytes[NAME_MAX_BYTES + 32], data_bytes[NAME_MAX_BYTES + 64];
	struct protobuf event_name, data;

	if (perfetto->interned[index / 8] >> index % 8 & 1)
		return (uint64_t)index + 1;
	perfetto->interned[index / 8] |= (uint8_t)(1u << index % 8);
	name = names_function(perfetto->names, function);
	if (name.length > NAME_MAX_BYTES)
		name.length = NAME_MAX_BYTES;
	protobuf_begin(&event_name, name_bytes, sizeof(name_bytes));
	protobuf_u64(&event_name, EVENT_NAME_IID, (uint64_t)index + 1);
	protobuf_bytes(&event_name, EVENT_NAME_NAME, name.text, name.length);
	protobuf_begin(&data, data_bytes, sizeof(data_bytes));
	protobuf_message(&data, INTERNED_EVENT_NAMES, &event_name);
	protobuf_message(packet, PACKET_INTERNED_DATA, &data);
	return (uint64_t)index + 1;
}

/* Begin an event's packet: its time and its sequence. */
static void begin_packet(struct perfetto *perfetto, const struct walk *walk, struct protobuf *packet, uint64_t ticks)
{
	uint64_t ns = walk_since_ns(walk, ticks);

	/* The incremental clock cannot step back; a thread's events come in order, so it need not. */
	if (ns < perfetto->last_ns)
		ns = perfetto->last_ns;
	protobuf_begin(packet, perfetto->bytes, perfetto->size);
	protobuf_u64(packet, PACKET_TIMESTAMP, ns - perfetto->last_ns);
	protobuf_u64(packet, PACKET_SEQUENCE_ID, SEQUENCE_ID);
	protobuf_u64(packet, PACKET_SEQUENCE_FLAGS, SEQUENCE_NEEDS_STATE);
	perfetto->last_ns = ns;
}

static void end_packet(struct perfetto *perfetto, struct walk *walk, struct protobuf *packet,
		       const struct protobuf *event)
{
	protobuf_message(packet, PACKET_TRACK_EVENT, event);
	put_packet(perfetto, packet);
	if (perfetto->out->error)
		walk->error = perfetto->out->error;
}

/* Put an argument of a slice; text: NULL = none. */
static void put_annotation(struct protobuf *event, const char *name, const char *text)
{
	uint8_t bytes[TRACE_EVENT_TEXT + 64];
	struct protobuf note;

	if (!text)
		return;
	protobuf_begin(&note, bytes, sizeof(bytes));
	protobuf_text(&note, ANNOTATION_NAME, name);
	protobuf_text(&note, ANNOTATION_STRING, text);
	protobuf_message(event, EVENT_ANNOTATIONS, &note);
}

static void put_number(struct protobuf *event, const char *name, uint64_t value)
{
	uint8_t bytes[64];
	struct protobuf note;

	protobuf_begin(&note, bytes, sizeof(bytes));
	protobuf_text(&note, ANNOTATION_NAME, name);
	protobuf_u64(&note, ANNOTATION_UINT, value);
	protobuf_message(event, EVENT_ANNOTATIONS, &note);
}

static void put_begin(struct perfetto *perfetto, struct walk *walk, uint32_t thread, uint32_t function, uint64_t ticks,
		      enum event_type type, const char *entered)
{
	uint8_t bytes[EVENT_MAX];
	uint64_t track = stack_track(perfetto, walk, thread);
	struct protobuf packet, event;
	uint64_t iid;

	begin_packet(perfetto, walk, &packet, ticks);
	iid = intern_name(perfetto, &packet, function);
	protobuf_begin(&event, bytes, sizeof(bytes));
	protobuf_u64(&event, EVENT_TYPE, type);
	protobuf_u64(&event, EVENT_NAME_REF, iid);
	protobuf_u64(&event, EVENT_TRACK, track);
	put_annotation(&event, "entered", entered);
	end_packet(perfetto, walk, &packet, &event);
}

/* Put a text that a program may have made. */
static void put_told(struct protobuf *event, const char *name, const char *told)
{
	char text[TRACE_EVENT_TEXT];

	if (!told)
		return;
	text_clean(text, sizeof(text), told);
	put_annotation(event, name, text);
}

/* End a call's slice; arguments at its end are the slice's. */
static void put_end(struct perfetto *perfetto, struct walk *walk, const struct call_closed *closed,
		    const struct told *told)
{
	uint64_t error_ns = walk_duration_error_ns(walk, closed);
	uint8_t bytes[EVENT_MAX + 2 * (TRACE_EVENT_TEXT + 64)];
	uint64_t track = stack_track(perfetto, walk, closed->thread);
	struct protobuf packet, event;

	begin_packet(perfetto, walk, &packet, closed->exit_ticks);
	protobuf_begin(&event, bytes, sizeof(bytes));
	protobuf_u64(&event, EVENT_TYPE, EVENT_SLICE_END);
	protobuf_u64(&event, EVENT_TRACK, track);
	put_annotation(&event, "end", closed->how == CALL_RETURNED ? NULL : walk_end_text(closed->how));
	if (error_ns)
		put_number(&event, "error_ns", error_ns);
	put_told(&event, "arguments", told->arguments);
	put_told(&event, "result", told->result);
	end_packet(perfetto, walk, &packet, &event);
}

static void put_text(struct perfetto *perfetto, struct walk *walk, uint32_t thread, uint64_t ticks,
		     const char *category, const char *name)
{
	uint64_t track = stack_track(perfetto, walk, thread);
	uint8_t bytes[TRACE_EVENT_TEXT + EVENT_MAX];
	char text[TRACE_EVENT_TEXT], kind[64];
	struct protobuf packet, out;

	text_clean(text, sizeof(text), name);
	text_clean(kind, sizeof(kind), category);
	begin_packet(perfetto, walk, &packet, ticks);
	protobuf_begin(&out, bytes, sizeof(bytes));
	protobuf_u64(&out, EVENT_TYPE, EVENT_INSTANT);
	protobuf_text(&out, EVENT_CATEGORIES, kind);
	protobuf_text(&out, EVENT_NAME_TEXT, text);
	protobuf_u64(&out, EVENT_TRACK, track);
	end_packet(perfetto, walk, &packet, &out);
}

/* A frame's user word, with told.h: whether a slice was begun for the call. */
enum slice { SLICE_NONE, SLICE_RUNS };

static void begin_slice(void *ctx, struct walk *walk, uint32_t thread, struct call_frame *frame)
{
	frame->user = SLICE_RUNS;
	put_begin(ctx, walk, thread, frame->function, frame->enter_ticks, EVENT_SLICE_BEGIN, walk_entered_text(frame));
}

static void close_call(void *ctx, struct walk *walk, const struct call_closed *closed)
{
	struct perfetto *perfetto = ctx;
	struct told told = told_take(&perfetto->told, closed->frame);

	if (closed->frame->user & SLICE_RUNS && closed->how != CALL_OPEN)
		put_end(perfetto, walk, closed, &told);
	else if (told.arguments) /* a slice without an end has no place for them */
		put_text(perfetto, walk, closed->thread, closed->exit_ticks, "arguments", told.arguments);
	told_drop(&told);
}

static void put_note(struct perfetto *perfetto, struct walk *walk, const struct trace_event *event)
{
	bool lost = event->kind == CALLTAP_REC_LOST;
	uint8_t bytes[EVENT_MAX];
	struct protobuf packet, message;

	begin_packet(perfetto, walk, &packet, event->ticks);
	protobuf_begin(&message, bytes, sizeof(bytes));
	protobuf_u64(&message, EVENT_TYPE, EVENT_INSTANT);
	protobuf_text(&message, EVENT_NAME_TEXT, lost ? "records lost" : "waited for the tool");
	protobuf_u64(&message, EVENT_TRACK, thread_track(event->thread));
	put_number(&message, lost ? "records" : "ns",
		   lost ? event->extra : trace_duration_ns(walk->trace, event->extra));
	end_packet(perfetto, walk, &packet, &message);
}

static void put_event(void *ctx, struct walk *walk, const struct trace_event *event)
{
	struct perfetto *perfetto = ctx;

	if (event->kind == CALLTAP_REC_CALL) {
		put_begin(perfetto, walk, event->thread, event->id, event->ticks, EVENT_INSTANT, NULL);
		return;
	}
	if (event->kind != CALLTAP_REC_STACK)
		put_note(perfetto, walk, event);
}

static void put_message(void *ctx, struct walk *walk, const struct trace_event *event,
			const struct walk_message *message)
{
	struct perfetto *perfetto = ctx;

	if (!told_keep(&perfetto->told, walk, event->thread, message))
		put_text(perfetto, walk, event->thread, event->ticks, message->name, message->text);
}

static const struct walk_ops ops = {
	.on_enter = begin_slice, .on_close = close_call, .on_event = put_event, .on_message = put_message};

static int write_perfetto(const struct trace *trace, const struct view_filter *filter,
			  const struct export_options *options, struct out *out, struct walk *walk,
			  struct calltap_diag *diag)
{
	struct perfetto perfetto = {.trace = trace,
				    .out = out,
				    .functions = trace_function_count(trace) + trace_untraced_count(trace),
				    .untraced = trace_untraced_count(trace)};
	int err = names_create(&perfetto.names, trace);

	perfetto.size = NAME_MAX_BYTES + 1024 + 2 * TRACE_EVENT_TEXT;
	perfetto.bytes = malloc(perfetto.size);
	perfetto.interned = calloc((size_t)perfetto.functions / 8 + 1, 1);
	if (err || !perfetto.bytes || !perfetto.interned) {
		err = calltap_diag_set(diag, -ENOMEM, "out of memory for the names");
	} else {
		put_clock(&perfetto, trace_mono_ns(trace, trace_start_ticks(trace)));
		describe_tracks(&perfetto, filter);
		err = walk_run(walk, trace, filter, &ops, &perfetto, diag);
	}
	free(perfetto.bytes);
	free(perfetto.interned);
	free(perfetto.named);
	told_clear(&perfetto.told);
	names_destroy(perfetto.names);
	return err;
}

const struct export_format export_perfetto = {.name = "perfetto",
					      .summary = "for ui.perfetto.dev and trace_processor",
					      .binary = true,
					      .run = write_perfetto};
