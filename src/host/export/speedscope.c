/*
 * The file format of speedscope.app: an "evented" profile for each thread.
 *
 * Context: host; see export.h.  A profile's events must nest and lie together in the file, so the trace is read once
 * for each thread, and when a thread goes to another stack, the calls that are open there end in the file and begin
 * again when the thread is back: a call's time in the file is the time that the thread ran in it.  The table of frames
 * is the file's end, when it is known what the events name.
 */
#include <errno.h>
#include <stdlib.h>

#include "../view/json.h"
#include "../view/names.h"
#include "export.h"

#define NO_STACK UINT32_MAX

struct speedscope {
	const struct trace *trace;
	struct out *out;
	struct names *names;
	struct export_numbers numbers;
	uint32_t profiles;
	/* The fields below are about the profile that is being written: one thread's. */
	uint32_t thread;
	uint64_t events;
	uint64_t last_ns;
	uint32_t chain; /* the stack whose calls are open in the file; NO_STACK: none is */
	uint64_t *open; /* those calls' frames, outermost first */
	uint32_t open_count, open_room;
	uint64_t left_ns; /* when the thread left a stack; of use while chain is NO_STACK */
};

static void begin_profile(struct speedscope *file, uint64_t ns)
{
	struct json json;

	if (file->profiles++)
		out_char(file->out, ',');
	out_text(file->out, "\n{\"type\":\"evented\",\"unit\":\"nanoseconds\",\"name\":");
	json_begin(&json, file->out);
	json_string(&json, names_thread(file->names, file->thread).text);
	out_text(file->out, ",\"startValue\":");
	out_u64(file->out, ns);
	out_text(file->out, ",\"events\":[\n");
}

/* Write that a frame opens ('O') or closes ('C'). */
static void put_event(struct speedscope *file, char type, uint64_t ns, uint64_t frame)
{
	if (ns < file->last_ns)
		ns = file->last_ns;
	if (!file->events++)
		begin_profile(file, ns);
	else
		out_bytes(file->out, ",\n", 2);
	out_bytes(file->out, "{\"type\":\"", 9);
	out_char(file->out, type);
	out_bytes(file->out, "\",\"at\":", 7);
	out_u64(file->out, ns);
	out_bytes(file->out, ",\"frame\":", 9);
	out_u64(file->out, frame);
	out_char(file->out, '}');
	file->last_ns = ns;
}

static void open_frame(struct speedscope *file, struct walk *walk, uint64_t ns, uint64_t frame)
{
	if (file->open_count == file->open_room) {
		uint32_t room = file->open_room ? 2 * file->open_room : 256;
		uint64_t *open = reallocarray(file->open, room, sizeof(*open));

		if (!open) {
			walk->error = -ENOMEM;
			return;
		}
		file->open = open;
		file->open_room = room;
	}
	file->open[file->open_count++] = frame;
	put_event(file, 'O', ns, frame);
}

static void close_frames(struct speedscope *file, uint64_t ns)
{
	while (file->open_count)
		put_event(file, 'C', ns, file->open[--file->open_count]);
	file->chain = NO_STACK;
	file->left_ns = ns;
}

/* The call began before the window (--time), in which the file has it from the window's beginning on. */
static bool began_before(const struct walk *walk, const struct call_frame *frame)
{
	return walk->from_ticks && frame->enter_ticks < walk->from_ticks && walk_wants(walk, frame->function);
}

/* Give the call its entry in the table of frames. */
static void number_call(struct speedscope *file, struct walk *walk, struct call_frame *frame)
{
	bool first;

	frame->user = (uint64_t)export_number(&file->numbers, frame->function, &first, &walk->error) + 1;
}

/* A frame's user word: the number of its entry in the table of frames, + 1; 0 = the file has not the call. */
static void show_stack(struct speedscope *file, struct walk *walk, uint32_t thread, uint64_t ns)
{
	uint32_t chain = callstack_chain(walk->stack, thread);

	if (chain == file->chain)
		return;
	if (file->chain != NO_STACK)
		close_frames(file, ns);
	file->chain = chain;
	if (!file->events)
		file->left_ns = walk_since_ns(walk, walk->from_ticks);
	for (uint32_t i = 0; i < callstack_depth(walk->stack, thread); i++) {
		struct call_frame *frame = callstack_frame(walk->stack, thread, i);

		if (!frame->user && began_before(walk, frame))
			number_call(file, walk, frame);
		if (frame->user)
			open_frame(file, walk, file->left_ns, frame->user - 1);
	}
}

static void open_call(void *ctx, struct walk *walk, uint32_t thread, struct call_frame *frame)
{
	struct speedscope *file = ctx;
	uint64_t ns = walk_since_ns(walk, frame->enter_ticks);

	show_stack(file, walk, thread, ns);
	number_call(file, walk, frame);
	open_frame(file, walk, ns, frame->user - 1);
	if (file->out->error)
		walk->error = file->out->error;
}

static void close_call(void *ctx, struct walk *walk, const struct call_closed *closed)
{
	struct speedscope *file = ctx;
	uint64_t ns = walk_since_ns(walk, closed->exit_ticks);

	if (!closed->frame->user && !began_before(walk, closed->frame))
		return;
	/* At the end the calls of all stacks end; the file has those of the last one open, or nothing so far. */
	if (closed->how == CALL_OPEN && file->events && callstack_chain(walk->stack, closed->thread) != file->chain)
		return;
	show_stack(file, walk, closed->thread, ns);
	if (file->open_count)
		put_event(file, 'C', ns, file->open[--file->open_count]);
	if (file->out->error)
		walk->error = file->out->error;
}

static void leave_stack(void *ctx, struct walk *walk, const struct trace_event *event)
{
	if (event->kind == CALLTAP_REC_STACK)
		close_frames(ctx, walk_since_ns(walk, event->ticks));
}

static const struct walk_ops ops = {.on_enter = open_call, .on_close = close_call, .on_event = leave_stack};

static int begin_thread(void *ctx, uint32_t thread)
{
	struct speedscope *file = ctx;

	file->thread = thread;
	file->events = file->last_ns = file->left_ns = 0;
	file->open_count = 0;
	file->chain = NO_STACK;
	return 0;
}

static int finish_thread(void *ctx, uint32_t thread)
{
	struct speedscope *file = ctx;

	if (file->events) {
		close_frames(file, file->last_ns);
		out_text(file->out, "\n],\"endValue\":");
		out_u64(file->out, file->last_ns);
		out_char(file->out, '}');
	}
	return file->out->error;
}

static void put_frames(struct speedscope *file)
{
	for (uint32_t i = 0; i < export_number_count(&file->numbers); i++) {
		uint32_t id = export_number_function(&file->numbers, i);
		const struct trace_function *function = trace_function(file->trace, id);
		struct names_text name = names_function_json(file->names, id);

		out_text(file->out, i ? ",\n{\"name\":" : "\n{\"name\":");
		out_bytes(file->out, name.text, name.length);
		if (function && function->file) {
			out_text(file->out, ",\"file\":");
			json_escape(file->out, function->file);
		}
		if (function && function->line) {
			out_text(file->out, ",\"line\":");
			out_u64(file->out, function->line);
		}
		out_char(file->out, '}');
	}
}

static int write_speedscope(const struct trace *trace, const struct view_filter *filter,
			    const struct export_options *options, struct out *out, struct walk *walk,
			    struct calltap_diag *diag)
{
	struct speedscope file = {.trace = trace, .out = out};
	struct export_pass pass = {.ops = &ops, .ctx = &file, .begin = begin_thread, .finish = finish_thread};
	const char *program = trace_info(trace, "program");
	int err = names_create(&file.names, trace);

	if (!err)
		err = export_numbers_init(&file.numbers);
	if (err) {
		names_destroy(file.names);
		return calltap_diag_set(diag, err, "out of memory for the names");
	}
	out_text(out, "{\"$schema\":\"https://www.speedscope.app/"
		      "file-format-schema.json\",\"exporter\":\"calltap " CALLTAP_VERSION "\",\"name\":");
	json_escape(out, program ? program : "calltap");
	out_text(out, ",\"activeProfileIndex\":0,\"profiles\":[");
	err = export_each_thread(&pass, trace, filter, walk, diag);
	if (!err && !file.profiles)
		err = export_nothing(diag);
	out_text(out, "\n],\"shared\":{\"frames\":[");
	put_frames(&file);
	out_text(out, "\n]}}\n");
	free(file.open);
	export_numbers_clear(&file.numbers);
	names_destroy(file.names);
	return err;
}

const struct export_format export_speedscope = {
	.name = "speedscope", .summary = "JSON for speedscope.app", .sums = true, .run = write_speedscope};
