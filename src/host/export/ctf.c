/*
 * The Common Trace Format 1.8 (diamon.org/ctf), for babeltrace2 and Trace Compass: a folder with a stream of packets
 * for each thread, and the text `metadata`, which says what is in them.
 *
 * Context: host; see export.h.  A packet is built in memory, as its head tells its size and times.  All fields are
 * aligned to bytes, and bytes are in little-endian order.  Names of functions are an enumeration in the metadata, which
 * is written at the end, when it is known which ones the events have.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <host/text.h>

#include "../view/names.h"
#include "export.h"

#define MAGIC	     0xc1fc1fc1u
#define PACKET_BYTES 65536u
#define MARGIN_BYTES (2 * TRACE_EVENT_TEXT + 64) /* the longest event */
#define FILE_NAME    32

enum event_id {
	EVENT_ENTRY,
	EVENT_EXIT,
	EVENT_CALL,
	EVENT_STACK,
	EVENT_LOST,
	EVENT_WAIT,
	EVENT_MARK,
	EVENT_ARGUMENTS,
	EVENT_RESULT,
	EVENT_OTHER,
};

enum entered { ENTERED_CALL, ENTERED_TAIL, ENTERED_BEFORE };

static const char types[] = "typealias integer { size = 8; align = 8; signed = false; } := uint8_t;\n"
			    "typealias integer { size = 32; align = 8; signed = false; } := uint32_t;\n"
			    "typealias integer { size = 64; align = 8; signed = false; } := uint64_t;\n"
			    "typealias integer { size = 64; align = 8; signed = false; base = 16; } := address_t;\n\n"
			    "trace {\n\tmajor = 1;\n\tminor = 8;\n\tbyte_order = le;\n"
			    "\tpacket.header := struct {\n\t\tuint32_t magic;\n\t\tuint32_t stream_id;\n\t};\n};\n\n";
static const char clock_text[] =
	"clock {\n\tname = \"monotonic\";\n\tdescription = \"CLOCK_MONOTONIC\";\n\tfreq = 1000000000;\n\toffset = "
	"0;\n};\n\n"
	"typealias integer { size = 64; align = 8; signed = false; map = clock.monotonic.value; } := clock_t;\n\n"
	"stream {\n\tid = 0;\n\tpacket.context := struct {\n"
	"\t\tclock_t timestamp_begin;\n\t\tclock_t timestamp_end;\n\t\tuint64_t content_size;\n"
	"\t\tuint64_t packet_size;\n\t\tuint64_t events_discarded;\n\t\tuint32_t pid;\n\t\tuint32_t tid;\n"
	"\t\tstring thread;\n\t};\n"
	"\tevent.header := struct {\n\t\tuint8_t id;\n\t\tclock_t timestamp;\n\t};\n};\n\n"
	"enum entered : uint8_t { \"by a call\" = 0, \"by a tail call\" = 1, \"before the trace\" = 2 };\n"
	"enum ended : uint8_t { \"returned\" = 0, \"unwound\" = 1, \"tail\" = 2, \"open\" = 3, \"lost\" = 4, \"left\" "
	"= 5 };\n";

static const char *const events[][2] = {
	[EVENT_ENTRY] = {"function_entry", "enum function function; enum entered entered;"},
	[EVENT_EXIT] = {"function_exit", "enum function function; enum ended ended;"},
	[EVENT_CALL] = {"function_call", "enum function function; address_t caller;"},
	[EVENT_STACK] = {"stack", "address_t address;"},
	[EVENT_LOST] = {"records_lost", "uint64_t records;"},
	[EVENT_WAIT] = {"waited", "uint64_t ns;"},
	[EVENT_MARK] = {"mark", "string text;"},
	[EVENT_ARGUMENTS] = {"arguments", "enum function function; string text;"},
	[EVENT_RESULT] = {"result", "enum function function; string text;"},
	[EVENT_OTHER] = {"event", "string type; string text;"},
};

struct ctf {
	const struct trace *trace;
	int folder_fd;
	struct names *names;
	struct export_numbers numbers;
	uint32_t streams;
	/* The current thread's stream; NULL: it has no packet yet. */
	struct out *out;
	int fd;
	uint32_t thread;
	uint64_t start_ns;	    /* of the trace; times are of CLOCK_MONOTONIC */
	uint64_t begin_ns, last_ns; /* of the packet */
	uint64_t lost;
	size_t head; /* bytes of a packet's head */
	size_t used; /* bytes of the packet, with its head */
	uint8_t *packet;
};

static void put_number(struct ctf *ctf, uint64_t value, unsigned bytes)
{
	for (unsigned i = 0; i < bytes; i++)
		ctf->packet[ctf->used++] = (uint8_t)(value >> 8 * i);
}

static void put_string(struct ctf *ctf, const char *text)
{
	text_clean((char *)ctf->packet + ctf->used, TRACE_EVENT_TEXT, text);
	ctf->used += strlen((char *)ctf->packet + ctf->used) + 1;
}

/* Make a new file of the folder. */
static int create_file(struct ctf *ctf, const char *name, struct out **out, int *fd)
{
	*fd = openat(ctf->folder_fd, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
	return *fd < 0 ? -errno : out_create(out, *fd);
}

static int close_file(struct out **out, int *fd)
{
	int err = out_destroy(*out);

	if (*fd >= 0 && close(*fd) && !err)
		err = -errno;
	*out = NULL;
	*fd = -1;
	return err;
}

/* Write the packet, if it has events, and begin the next one. */
static int put_packet(struct ctf *ctf)
{
	const struct trace_thread *thread = trace_thread(ctf->trace, ctf->thread);
	const struct trace_process *process = trace_process(ctf->trace, thread->process);
	char name[FILE_NAME];
	size_t size = ctf->used;
	int err = 0;

	if (size > ctf->head && !ctf->out) {
		snprintf(name, sizeof(name), "thread_%u", ctf->streams++);
		err = create_file(ctf, name, &ctf->out, &ctf->fd);
	}
	ctf->used = 0;
	put_number(ctf, MAGIC, 4);
	put_number(ctf, 0, 4);
	put_number(ctf, ctf->begin_ns, 8);
	put_number(ctf, ctf->last_ns, 8);
	put_number(ctf, 8 * size, 8);
	put_number(ctf, 8 * size, 8);
	put_number(ctf, ctf->lost, 8);
	put_number(ctf, process ? process->pid : 0, 4);
	put_number(ctf, thread->tid, 4);
	put_string(ctf, thread->name);
	ctf->head = ctf->used;
	if (size > ctf->head && !err && ctf->out) {
		out_bytes(ctf->out, (const char *)ctf->packet, size);
		err = ctf->out->error;
	}
	return err;
}

static void begin_event(struct ctf *ctf, struct walk *walk, enum event_id id, uint64_t ticks)
{
	uint64_t ns = ctf->start_ns + walk_since_ns(walk, ticks);
	int err = ctf->used + MARGIN_BYTES > PACKET_BYTES ? put_packet(ctf) : 0;

	if (err)
		walk->error = err;
	if (ns > ctf->last_ns)
		ctf->last_ns = ns;
	if (ctf->used == ctf->head)
		ctf->begin_ns = ctf->last_ns;
	put_number(ctf, id, 1);
	put_number(ctf, ctf->last_ns, 8);
}

static void put_function(struct ctf *ctf, struct walk *walk, uint32_t function)
{
	bool first;

	put_number(ctf, export_number(&ctf->numbers, function, &first, &walk->error), 4);
}

static void put_entry(void *ctx, struct walk *walk, uint32_t thread, struct call_frame *frame)
{
	begin_event(ctx, walk, EVENT_ENTRY, frame->enter_ticks);
	put_function(ctx, walk, frame->function);
	put_number(ctx, frame->before ? ENTERED_BEFORE : frame->tail ? ENTERED_TAIL : ENTERED_CALL, 1);
}

static void put_exit(void *ctx, struct walk *walk, const struct call_closed *closed)
{
	begin_event(ctx, walk, EVENT_EXIT, closed->exit_ticks);
	put_function(ctx, walk, closed->frame->function);
	put_number(ctx, closed->how, 1);
}

static void put_event(void *ctx, struct walk *walk, const struct trace_event *event)
{
	struct ctf *ctf = ctx;

	if (event->kind == CALLTAP_REC_CALL) {
		begin_event(ctf, walk, EVENT_CALL, event->ticks);
		put_function(ctf, walk, event->id);
		put_number(ctf, event->extra, 8);
	} else if (event->kind == CALLTAP_REC_STACK) {
		begin_event(ctf, walk, EVENT_STACK, event->ticks);
		put_number(ctf, event->extra, 8);
	} else if (event->kind == CALLTAP_REC_LOST) {
		begin_event(ctf, walk, EVENT_LOST, event->ticks);
		put_number(ctf, event->extra, 8);
		ctf->lost += event->extra;
	} else if (event->kind == CALLTAP_REC_WAIT) {
		begin_event(ctf, walk, EVENT_WAIT, event->ticks);
		put_number(ctf, trace_duration_ns(ctf->trace, event->extra), 8);
	}
}

static void put_message(void *ctx, struct walk *walk, const struct trace_event *event,
			const struct walk_message *message)
{
	bool mark = calltap_event_type(event->id) == CALLTAP_EVENT_MARK;
	struct ctf *ctf = ctx;

	if (message->role != TRACE_ITSELF) {
		begin_event(ctf, walk, message->role == TRACE_RESULT ? EVENT_RESULT : EVENT_ARGUMENTS, event->ticks);
		put_function(ctf, walk, message->function);
	} else {
		begin_event(ctf, walk, mark ? EVENT_MARK : EVENT_OTHER, event->ticks);
		if (!mark)
			put_string(ctf, message->name);
	}
	put_string(ctf, message->text);
}

static const struct walk_ops ops = {
	.on_enter = put_entry, .on_close = put_exit, .on_event = put_event, .on_message = put_message};

static int begin_thread(void *ctx, uint32_t thread)
{
	struct ctf *ctf = ctx;

	ctf->thread = thread;
	ctf->begin_ns = ctf->last_ns = ctf->lost = 0;
	ctf->head = ctf->used = 0;
	return put_packet(ctf);
}

static int finish_thread(void *ctx, uint32_t thread)
{
	struct ctf *ctf = ctx;
	int err = put_packet(ctf), closed = close_file(&ctf->out, &ctf->fd);

	return err ? err : closed;
}

static void put_quoted(struct out *out, const char *text)
{
	out_char(out, '"');
	for (; *text; text++) {
		if (*text == '"' || *text == '\\')
			out_char(out, '\\');
		out_char(out, *text);
	}
	out_char(out, '"');
}

/* Write what the recording was of, as far as the trace says it. */
static int put_environment(struct ctf *ctf, struct out *out)
{
	static const char *const keys[] = {"program", "command", "tracer", "mode", "clock", "started"};

	out_text(out, "env {\n\ttracer_name = \"calltap\";\n\tcalltap_version = \"" CALLTAP_VERSION "\";\n");
	for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
		const char *value = trace_info(ctf->trace, keys[i]);
		char *clean = value ? names_clean_dup(value) : NULL;

		if (value && !clean)
			return -ENOMEM;
		if (clean) {
			out_format(out, "\t%s = ", keys[i]);
			put_quoted(out, clean);
			out_text(out, ";\n");
		}
		free(clean);
	}
	out_text(out, "};\n\n");
	return 0;
}

static void put_functions(struct ctf *ctf, struct out *out)
{
	out_text(out, "enum function : uint32_t {");
	for (uint32_t i = 0; i < export_number_count(&ctf->numbers); i++) {
		out_text(out, i ? ",\n\t" : "\n\t");
		put_quoted(out, names_function(ctf->names, export_number_function(&ctf->numbers, i)).text);
		out_text(out, " = ");
		out_u64(out, i);
	}
	/* The grammar wants one at least. */
	out_text(out, export_number_count(&ctf->numbers) ? "\n};\n\n" : "\n\t\"none\" = 0\n};\n\n");
}

static int put_metadata(struct ctf *ctf)
{
	struct out *out = NULL;
	int fd, err = create_file(ctf, "metadata", &out, &fd), closed;

	if (!err && out) {
		out_text(out, "/* CTF 1.8 */\n\n");
		out_text(out, types);
		err = put_environment(ctf, out);
		out_text(out, clock_text);
		put_functions(ctf, out);
		for (unsigned i = 0; i < sizeof(events) / sizeof(events[0]); i++)
			out_format(out,
				   "event {\n\tname = \"%s\";\n\tid = %u;\n\tstream_id = 0;\n\tfields := struct { %s "
				   "};\n};\n",
				   events[i][0], i, events[i][1]);
	}
	closed = close_file(&out, &fd);
	return err ? err : closed;
}

static int write_ctf(const struct trace *trace, const struct view_filter *filter, const struct export_options *options,
		     struct out *out, struct walk *walk, struct calltap_diag *diag)
{
	struct ctf ctf = {.trace = trace,
			  .folder_fd = options->folder_fd,
			  .fd = -1,
			  .start_ns = trace_mono_ns(trace, trace_start_ticks(trace))};
	struct export_pass pass = {.ops = &ops, .ctx = &ctf, .begin = begin_thread, .finish = finish_thread};
	int err = names_create(&ctf.names, trace), closed;

	ctf.packet = malloc(PACKET_BYTES);
	if (!err)
		err = export_numbers_init(&ctf.numbers);
	if (!err && !ctf.packet)
		err = -ENOMEM;
	if (!err)
		err = export_each_thread(&pass, trace, filter, walk, diag);
	closed = close_file(&ctf.out, &ctf.fd);
	if (!err)
		err = closed ? closed : put_metadata(&ctf);
	export_numbers_clear(&ctf.numbers);
	free(ctf.packet);
	names_destroy(ctf.names);
	return err;
}

const struct export_format export_ctf = {.name = "ctf",
					 .summary = "a folder in the Common Trace Format, for babeltrace2",
					 .binary = true,
					 .folder = true,
					 .run = write_ctf};
