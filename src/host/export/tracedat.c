/*
 * trace-cmd's file, version 6 (trace-cmd.dat.v6(5)), for `trace-cmd report` and KernelShark: what the kernel's tracers
 * function and function_graph would have written.
 *
 * Context: host; see export.h.  A thread is a CPU of the file, with pages as the kernel's ring buffer has them.  The
 * file begins with the sizes of all CPUs' pages and the names of all functions, so each thread is read twice: first the
 * pages are counted, then they are written.  Functions have addresses of the file's own, by which kallsyms names them.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <host/text.h>

#include "../view/names.h"
#include "export.h"

#define PAGE_BYTES    4096u
#define PAGE_HEAD     16u	       /* time and commit */
#define PAGE_END      (PAGE_BYTES - 8) /* behind it: room for the number of lost events */
#define MISSED	      (UINT64_C(1) << 31)
#define MISSED_NUMBER (UINT64_C(1) << 30)
#define DELTA_BITS    27u
#define TYPE_EXTEND   30u
#define SHORT_MAX     112u /* greatest size of an event that its head has */
#define TEXT_MAX      3072u
#define DATA_MAX      (TEXT_MAX + 32)

#define FIRST_ADDRESS 0x10000u /* of functions, which are ADDRESS_STEP apart */
#define ADDRESS_STEP  16u

enum event_id { EVENT_FUNCTION = 1, EVENT_PRINT = 5, EVENT_EXIT = 10, EVENT_ENTRY = 11 };

/* What a text is of, as a function of the file. */
enum topic { TOPIC_MARK, TOPIC_EVENT, TOPIC_WAIT, TOPIC_STACK, TOPIC_LOST, TOPICS };
static const char *const topics[TOPICS] = {"mark", "event", "waited_ns", "stack", "records_lost"};

#define COMMON                                                                                                         \
	"\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n"                                         \
	"\tfield:unsigned char common_flags;\toffset:2;\tsize:1;\tsigned:0;\n"                                         \
	"\tfield:unsigned char common_preempt_count;\toffset:3;\tsize:1;\tsigned:0;\n"                                 \
	"\tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n\n"

static const char *const formats[] = {
	"name: function\nID: 1\nformat:\n" COMMON "\tfield:unsigned long ip;\toffset:8;\tsize:8;\tsigned:0;\n"
	"\tfield:unsigned long parent_ip;\toffset:16;\tsize:8;\tsigned:0;\n\n"
	"print fmt: \" %ps <-- %ps\", (void *)REC->ip, (void *)REC->parent_ip\n",
	"name: print\nID: 5\nformat:\n" COMMON "\tfield:unsigned long ip;\toffset:8;\tsize:8;\tsigned:0;\n"
	"\tfield:char buf[];\toffset:16;\tsize:0;\tsigned:0;\n\n"
	"print fmt: \"%ps: %s\", (void *)REC->ip, REC->buf\n",
	"name: funcgraph_exit\nID: 10\nformat:\n" COMMON "\tfield:unsigned long func;\toffset:8;\tsize:8;\tsigned:0;\n"
	"\tfield:unsigned long long calltime;\toffset:16;\tsize:8;\tsigned:0;\n"
	"\tfield:unsigned long long rettime;\toffset:24;\tsize:8;\tsigned:0;\n"
	"\tfield:unsigned long overrun;\toffset:32;\tsize:8;\tsigned:0;\n"
	"\tfield:int depth;\toffset:40;\tsize:4;\tsigned:1;\n\n"
	"print fmt: \"<-- %ps (%d) (start: %llx  end: %llx) over: %d\", (void *)REC->func, REC->depth, REC->calltime, "
	"REC->rettime, REC->overrun\n",
	"name: funcgraph_entry\nID: 11\nformat:\n" COMMON "\tfield:unsigned long func;\toffset:8;\tsize:8;\tsigned:0;\n"
	"\tfield:int depth;\toffset:16;\tsize:4;\tsigned:1;\n\n"
	"print fmt: \"--> %ps (%d)\", (void *)REC->func, REC->depth\n",
};

static const char header_page[] = "\tfield: u64 timestamp;\toffset:0;\tsize:8;\tsigned:0;\n"
				  "\tfield: local_t commit;\toffset:8;\tsize:8;\tsigned:1;\n"
				  "\tfield: int overwrite;\toffset:8;\tsize:1;\tsigned:1;\n"
				  "\tfield: char data;\toffset:16;\tsize:4080;\tsigned:1;\n";
static const char header_event[] = "# compressed entry header\n\ttype_len    :    5 bits\n\ttime_delta  :   27 bits\n"
				   "\tarray       :   32 bits\n\n\tpadding     : type == 29\n"
				   "\ttime_extend : type == 30\n\ttime_stamp : type == 31\n"
				   "\tdata max type_len  == 28\n";

/* Bytes in little-endian order. */
struct bytes {
	uint8_t *at;
	size_t used;
};

struct tracedat {
	const struct trace *trace;
	struct names *names;
	struct export_numbers numbers;
	struct out *out; /* NULL: pages are counted */
	uint64_t start_ns;
	uint64_t position; /* bytes of the file so far */
	uint32_t *pages;   /* per thread */
	uint32_t thread, count;
	uint64_t last_ns; /* of the thread */
	bool lost;	  /* events were lost before the page; lost_count: so many, 0 = nobody knows */
	uint64_t lost_count;
	uint8_t page[PAGE_BYTES];
	size_t used; /* bytes of the page, PAGE_HEAD = it is empty */
};

static void put_number(struct bytes *to, uint64_t value, unsigned size)
{
	for (unsigned i = 0; i < size; i++)
		to->at[to->used++] = (uint8_t)(value >> 8 * i);
}

static void write_bytes(struct tracedat *file, const void *bytes, size_t size)
{
	out_bytes(file->out, bytes, size);
	file->position += size;
}

static void write_number(struct tracedat *file, uint64_t value, unsigned size)
{
	uint8_t bytes[8];
	struct bytes to = {bytes, 0};

	put_number(&to, value, size);
	write_bytes(file, bytes, size);
}

/* Write a text with its size in front, in so many bytes. */
static void write_sized(struct tracedat *file, const char *text, unsigned size)
{
	write_number(file, strlen(text), size);
	write_bytes(file, text, strlen(text));
}

static uint64_t address_of(struct tracedat *file, uint32_t function, int *err)
{
	bool first;

	return FIRST_ADDRESS + (uint64_t)ADDRESS_STEP * (TOPICS + export_number(&file->numbers, function, &first, err));
}

static void finish_page(struct tracedat *file)
{
	struct bytes commit = {file->page + 8, 0}, lost = {file->page + file->used, 0};

	if (file->used == PAGE_HEAD)
		return;
	file->count++;
	memset(file->page + file->used, 0, PAGE_BYTES - file->used);
	put_number(&commit,
		   (file->used - PAGE_HEAD) | (file->lost ? MISSED : 0) | (file->lost_count ? MISSED_NUMBER : 0), 8);
	put_number(&lost, file->lost_count, 8);
	if (file->out)
		write_bytes(file, file->page, PAGE_BYTES);
	file->used = PAGE_HEAD;
	file->lost = false;
	file->lost_count = 0;
}

/* Add an event to the page. */
static void put_data(struct tracedat *file, struct walk *walk, uint64_t ns, const struct bytes *data)
{
	size_t size = (data->used + 3) & ~(size_t)3;
	struct bytes to = {file->page, 0};
	uint64_t delta;

	if (file->used + size + 16 > PAGE_END)
		finish_page(file);
	if (ns < file->last_ns)
		ns = file->last_ns;
	if (file->used == PAGE_HEAD) {
		put_number(&to, ns, 8);
		file->last_ns = ns;
	}
	delta = ns - file->last_ns;
	file->last_ns = ns;
	to.used = file->used;
	if (delta >> DELTA_BITS) {
		put_number(&to, TYPE_EXTEND | (delta << 5 & UINT32_MAX), 4);
		put_number(&to, delta >> DELTA_BITS, 4);
		delta = 0;
	}
	put_number(&to, delta << 5 | (size <= SHORT_MAX ? size / 4 : 0), 4);
	if (size > SHORT_MAX)
		put_number(&to, size + 4, 4);
	memcpy(to.at + to.used, data->at, size);
	file->used = to.used + size;
	if (file->out && file->out->error)
		walk->error = file->out->error;
}

/* Begin an event: its type and its thread; bytes has room for DATA_MAX, of which the last ones may not be set. */
static struct bytes begin_data(const struct tracedat *file, uint8_t bytes[DATA_MAX], enum event_id id)
{
	struct bytes data = {bytes, 0};

	put_number(&data, id, 4);
	put_number(&data, trace_thread(file->trace, file->thread)->tid, 4);
	return data;
}

static uint64_t time_of(const struct tracedat *file, const struct walk *walk, uint64_t ticks)
{
	return file->start_ns + walk_since_ns(walk, ticks);
}

/* A frame's user word: 1 = the file has the entry. */
static void put_entry(void *ctx, struct walk *walk, uint32_t thread, struct call_frame *frame)
{
	struct tracedat *file = ctx;
	uint8_t bytes[DATA_MAX];
	struct bytes data = begin_data(file, bytes, EVENT_ENTRY);

	frame->user = 1;
	put_number(&data, address_of(file, frame->function, &walk->error), 8);
	put_number(&data, frame->depth, 4);
	put_data(file, walk, time_of(file, walk, frame->enter_ticks), &data);
}

static void put_exit(void *ctx, struct walk *walk, const struct call_closed *closed)
{
	struct tracedat *file = ctx;
	uint64_t ns = time_of(file, walk, closed->exit_ticks);
	uint8_t bytes[DATA_MAX];
	struct bytes data = begin_data(file, bytes, EVENT_EXIT);

	if (!closed->frame->user || closed->how == CALL_OPEN)
		return;
	put_number(&data, address_of(file, closed->frame->function, &walk->error), 8);
	/*
	 * Readers show the difference of the two times, which is to be the duration that all views show.  What was open
	 * before the trace has none there, and has its entry at the trace's start here.
	 */
	put_number(&data,
		   closed->frame->before ? time_of(file, walk, closed->frame->enter_ticks)
					 : ns - walk_duration_ns(walk, closed),
		   8);
	put_number(&data, ns, 8);
	put_number(&data, 0, 8);
	put_number(&data, closed->frame->depth, 4);
	put_data(file, walk, ns, &data);
}

static void put_text(struct tracedat *file, struct walk *walk, uint64_t ticks, uint64_t address, const char *text)
{
	uint8_t bytes[DATA_MAX];
	struct bytes data = begin_data(file, bytes, EVENT_PRINT);

	put_number(&data, address, 8);
	text_clean((char *)bytes + data.used, TEXT_MAX, text);
	data.used += strlen((char *)bytes + data.used) + 1;
	while (data.used % 4)
		bytes[data.used++] = 0;
	put_data(file, walk, time_of(file, walk, ticks), &data);
}

static void put_topic(struct tracedat *file, struct walk *walk, uint64_t ticks, enum topic topic, const char *text)
{
	put_text(file, walk, ticks, FIRST_ADDRESS + ADDRESS_STEP * topic, text);
}

static void put_call(struct tracedat *file, struct walk *walk, const struct trace_event *event)
{
	uint8_t bytes[DATA_MAX];
	struct bytes data = begin_data(file, bytes, EVENT_FUNCTION);
	struct trace_resolved caller;

	trace_resolve(file->trace, trace_thread(file->trace, event->thread)->process, event->extra, event->ticks,
		      &caller);
	put_number(&data, address_of(file, event->id, &walk->error), 8);
	put_number(&data,
		   caller.function == TRACE_NONE ? event->extra : address_of(file, caller.function, &walk->error), 8);
	put_data(file, walk, time_of(file, walk, event->ticks), &data);
}

static void put_event(void *ctx, struct walk *walk, const struct trace_event *event)
{
	struct tracedat *file = ctx;
	char text[32];

	if (event->kind == CALLTAP_REC_CALL) {
		put_call(file, walk, event);
	} else if (event->kind == CALLTAP_REC_LOST) {
		finish_page(file); /* a page has what was lost before it */
		file->lost_count = file->lost && !file->lost_count ? 0 : file->lost_count + event->extra;
		file->lost = true;
		/* A page is there only if something is in it, and of a loss at its thread's end nothing else would be.
		 */
		snprintf(text, sizeof(text), "%llu", (unsigned long long)event->extra);
		put_topic(file, walk, event->ticks, TOPIC_LOST, text);
	} else if (event->kind == CALLTAP_REC_WAIT) {
		snprintf(text, sizeof(text), "%llu", (unsigned long long)trace_duration_ns(file->trace, event->extra));
		put_topic(file, walk, event->ticks, TOPIC_WAIT, text);
	} else if (event->kind == CALLTAP_REC_STACK) {
		snprintf(text, sizeof(text), "0x%llx", (unsigned long long)event->extra);
		put_topic(file, walk, event->ticks, TOPIC_STACK, text);
	}
}

static void put_message(void *ctx, struct walk *walk, const struct trace_event *event,
			const struct walk_message *message)
{
	struct tracedat *file = ctx;
	char text[TEXT_MAX];

	if (message->role != TRACE_ITSELF) {
		snprintf(text, sizeof(text), message->role == TRACE_RESULT ? "= %s" : "(%s)", message->text);
		put_text(file, walk, event->ticks, address_of(file, message->function, &walk->error), text);
	} else if (calltap_event_type(event->id) == CALLTAP_EVENT_MARK) {
		put_topic(file, walk, event->ticks, TOPIC_MARK, message->text);
	} else {
		snprintf(text, sizeof(text), "%s %s", message->name, message->text);
		put_topic(file, walk, event->ticks, TOPIC_EVENT, text);
	}
}

static const struct walk_ops ops = {
	.on_enter = put_entry, .on_close = put_exit, .on_event = put_event, .on_message = put_message};

static int begin_thread(void *ctx, uint32_t thread)
{
	struct tracedat *file = ctx;

	file->thread = thread;
	file->count = 0;
	file->used = PAGE_HEAD;
	file->last_ns = 0;
	file->lost = false;
	file->lost_count = 0;
	return 0;
}

static int finish_thread(void *ctx, uint32_t thread)
{
	struct tracedat *file = ctx;

	finish_page(file);
	if (!file->out)
		file->pages[thread] = file->count;
	else if (file->pages[thread] != file->count)
		return -ESTALE;
	return file->out ? file->out->error : 0;
}

/* Write a name as kallsyms has it: one word, which does not begin like the bare "$x" that readers leave out. */
static void write_symbol(struct tracedat *file, uint64_t address, struct names_text name)
{
	char line[32];

	write_bytes(file, line, (size_t)snprintf(line, sizeof(line), "%016llx T ", (unsigned long long)address));
	for (uint32_t i = 0; i < name.length; i++) {
		bool bad = name.text[i] == ' ' || (i == 0 && name.text[i] == '$');

		write_bytes(file, bad ? "_" : name.text + i, 1);
	}
	write_bytes(file, "\n", 1);
}

static uint64_t symbol_size(struct names_text name)
{
	return 16 + 3 + (uint64_t)name.length + 1;
}

static struct names_text topic_name(enum topic topic)
{
	return (struct names_text){topics[topic], (uint32_t)strlen(topics[topic])};
}

static int write_symbols(struct tracedat *file)
{
	uint32_t count = export_number_count(&file->numbers);
	uint64_t size = 0;

	for (unsigned i = 0; i < TOPICS; i++)
		size += symbol_size(topic_name((enum topic)i));
	for (uint32_t i = 0; i < count; i++)
		size += symbol_size(names_function(file->names, export_number_function(&file->numbers, i)));
	if (size > UINT32_MAX)
		return -EFBIG;
	write_number(file, size, 4);
	for (unsigned i = 0; i < TOPICS; i++)
		write_symbol(file, FIRST_ADDRESS + ADDRESS_STEP * i, topic_name((enum topic)i));
	for (uint32_t i = 0; i < count; i++)
		write_symbol(file, FIRST_ADDRESS + (uint64_t)ADDRESS_STEP * (TOPICS + i),
			     names_function(file->names, export_number_function(&file->numbers, i)));
	write_number(file, 0, 4); /* no formats of trace_printk() */
	return 0;
}

/* Make the line "tid name" of a thread; returns its size, 0: the file has no page of the thread. */
static size_t command_line(const struct tracedat *file, uint32_t index, char line[64])
{
	const struct trace_thread *thread = trace_thread(file->trace, index);
	char name[sizeof(thread->name)];

	if (!file->pages[index])
		return 0;
	text_clean(name, sizeof(name), thread->name[0] ? thread->name : "?");
	return (size_t)snprintf(line, 64, "%u %s\n", thread->tid, name);
}

static void write_commands(struct tracedat *file)
{
	char line[64];
	uint64_t size = 0;

	for (uint32_t i = 0; i < trace_thread_count(file->trace); i++)
		size += command_line(file, i, line);
	write_number(file, size, 8);
	for (uint32_t i = 0; i < trace_thread_count(file->trace); i++)
		write_bytes(file, line, command_line(file, i, line));
}

static void write_options(struct tracedat *file)
{
	static const char clock_text[] = "[mono]\n";

	write_bytes(file, "options  ", 10);
	write_number(file, 4, 2); /* TRACECMD_OPTION_TRACECLOCK */
	write_number(file, sizeof(clock_text), 4);
	write_bytes(file, clock_text, sizeof(clock_text));
	write_number(file, 0, 2);
}

/* Write where each CPU's pages will be, and go to the first one's place. */
static void write_places(struct tracedat *file, uint32_t cpus)
{
	static const uint8_t zeros[PAGE_BYTES];
	uint64_t at = file->position + 10 + UINT64_C(16) * cpus;

	at += (PAGE_BYTES - at % PAGE_BYTES) % PAGE_BYTES;
	write_bytes(file, "flyrecord", 10);
	for (uint32_t i = 0; i < trace_thread_count(file->trace); i++) {
		if (!file->pages[i])
			continue;
		write_number(file, at, 8);
		write_number(file, (uint64_t)file->pages[i] * PAGE_BYTES, 8);
		at += (uint64_t)file->pages[i] * PAGE_BYTES;
	}
	write_bytes(file, zeros, (PAGE_BYTES - file->position % PAGE_BYTES) % PAGE_BYTES);
}

static int write_head(struct tracedat *file)
{
	uint32_t cpus = 0;
	int err;

	for (uint32_t i = 0; i < trace_thread_count(file->trace); i++)
		cpus += file->pages[i] > 0;
	write_bytes(file,
		    "\x17\x08\x44"
		    "tracing6",
		    12);		/* with the version's NUL */
	write_bytes(file, "\0\x08", 2); /* little-endian; bytes of a long */
	write_number(file, PAGE_BYTES, 4);
	write_bytes(file, "header_page", 12);
	write_sized(file, header_page, 8);
	write_bytes(file, "header_event", 13);
	write_sized(file, header_event, 8);
	write_number(file, sizeof(formats) / sizeof(formats[0]), 4);
	for (size_t i = 0; i < sizeof(formats) / sizeof(formats[0]); i++)
		write_sized(file, formats[i], 8);
	write_number(file, 0, 4); /* no events of other systems */
	err = write_symbols(file);
	write_commands(file);
	write_number(file, cpus, 4);
	write_options(file);
	write_places(file, cpus);
	return err;
}

static int write_passes(struct tracedat *file, const struct view_filter *filter, struct out *out, struct walk *walk,
			struct calltap_diag *diag)
{
	struct export_pass pass = {.ops = &ops, .ctx = file, .begin = begin_thread, .finish = finish_thread};
	struct walk counting;
	int err = export_each_thread(&pass, file->trace, filter, &counting, diag);

	file->out = out;
	if (!err)
		err = write_head(file);
	if (!err)
		err = export_each_thread(&pass, file->trace, filter, walk, diag);
	if (err == -EFBIG)
		calltap_diag_set(diag, err, "the functions' names are too long together: choose less with -f");
	if (err == -ESTALE)
		calltap_diag_set(diag, err, "the trace changed while it was read: export it again when it is complete");
	return err;
}

static int write_tracedat(const struct trace *trace, const struct view_filter *filter,
			  const struct export_options *options, struct out *out, struct walk *walk,
			  struct calltap_diag *diag)
{
	struct tracedat *file = calloc(1, sizeof(*file));
	int err = file ? names_create(&file->names, trace) : -ENOMEM;

	if (!err)
		err = export_numbers_init(&file->numbers);
	if (!err)
		file->pages = calloc((size_t)trace_thread_count(trace) + 1, sizeof(*file->pages));
	if (err || !file->pages) {
		err = calltap_diag_set(diag, -ENOMEM, "out of memory for the names");
	} else {
		file->trace = trace;
		file->start_ns = trace_mono_ns(trace, trace_start_ticks(trace));
		err = write_passes(file, filter, out, walk, diag);
	}
	if (file) {
		export_numbers_clear(&file->numbers);
		names_destroy(file->names);
		free(file->pages);
	}
	free(file);
	return err;
}

const struct export_format export_trace_dat = {
	.name = "trace.dat", .summary = "for trace-cmd report and KernelShark", .binary = true, .run = write_tracedat};
