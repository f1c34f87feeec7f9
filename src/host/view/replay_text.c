/*
 * The lines of the replay; see replay.h.  Context: host.
 *
 * Columns and duration marks are those of the kernel's function_graph tracer (Documentation/trace/ftrace.rst), with the
 * thread in place of the CPU.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host/counted.h"
#include "replay.h"
#include "term.h"
#include <host/text.h>

#define THREAD_WIDTH_MAX 24
#define INDENT		 2
#define INDENT_MAX	 512   /* columns; deeper calls are not indented further */
#define CALLER_CACHE	 4096u /* a power of two */
#define HISTORY_LINES	 8

struct caller {
	uint64_t address;
	uint32_t process;
	struct trace_resolved resolved;
};

struct replay_printer {
	const struct trace *trace;
	const struct replay_options *options;
	struct out *out;
	struct names *names;
	struct replay_columns_state columns;
	uint32_t last_thread;	/* thread of the last line of the graph; TRACE_NONE before the first line */
	bool printed;		/* at least one line was printed */
	bool is_calls;		/* lines look as those of the kernel's tracer `function` */
	struct caller *callers; /* direct-mapped cache: a search for the function takes longer than printing the line */
};

int replay_printer_create(struct replay_printer **out, const struct trace *trace, const struct replay_options *options,
			  struct out *to)
{
	struct replay_printer *printer = calloc(1, sizeof(*printer));
	unsigned width;
	int err;

	*out = NULL;
	if (!printer)
		return -ENOMEM;
	printer->trace = trace;
	printer->options = options;
	printer->out = to;
	printer->last_thread = TRACE_NONE;
	printer->callers = calloc(CALLER_CACHE, sizeof(*printer->callers));
	err = names_create(&printer->names, trace);
	if (err || !printer->callers) {
		replay_printer_destroy(printer);
		return -ENOMEM;
	}
	width = names_thread_width(printer->names, THREAD_WIDTH_MAX);
	printer->columns = (struct replay_columns_state){
		.columns = options->columns,
		.names = printer->names,
		.out = to,
		.thread_width = width < options->thread_width ? options->thread_width : width,
		.color = options->color};
	if (!options->columns.chosen)
		replay_columns_usual(&printer->columns.columns, options->abstime, options->proc);
	*out = printer;
	return 0;
}

void replay_printer_destroy(struct replay_printer *printer)
{
	if (!printer)
		return;
	names_destroy(printer->names);
	free(printer->callers);
	free(printer);
}

static void text_color(struct replay_printer *printer, const char *code)
{
	if (printer->options->color)
		out_text(printer->out, code);
}

/* Print how far back a flight recorder's memory goes. */
static void print_history(struct replay_printer *printer)
{
	const struct trace *trace = printer->trace;
	char text[TIMETEXT_MAX];
	uint32_t told = 0, more = 0;

	for (uint32_t i = 0; i < trace_thread_count(trace); i++) {
		uint64_t ns = trace_history_ns(trace, i);
		struct names_text name;

		if (ns && told++ >= HISTORY_LINES) {
			more++;
		} else if (ns) {
			name = names_thread(printer->names, i);
			out_text(printer->out, "# history of ");
			out_bytes(printer->out, name.text, name.length);
			out_format(printer->out, " goes back %s\n", timetext(ns, text));
		}
	}
	if (more)
		out_format(printer->out, "# and that of %u more %s ('calltap info' has all)\n", more,
			   counted(more, "thread", "threads"));
}

void replay_print_heading(struct replay_printer *printer)
{
	const char *tracer = trace_info(printer->trace, "tracer");
	struct out *out = printer->out;
	bool calls = tracer && strcmp(tracer, "function") == 0;

	printer->is_calls = calls && !printer->options->columns.chosen;
	text_color(printer, TERM_DIM);
	out_format(out, "# tracer: %s\n", calls ? "function" : "function_graph");
	print_history(printer);
	out_text(out, "#\n");
	if (printer->is_calls) {
		out_text(out, "#           TASK-TID     [PID]      TIME  FUNCTION\n"
			      "#              | |         |         |      |\n");
	} else {
		replay_columns_title(&printer->columns, false);
		replay_columns_title(&printer->columns, true);
	}
	text_color(printer, TERM_RESET);
}

/* Tell that there was no line to print: an empty output would leave open whether anything is missing. */
void replay_print_end(struct replay_printer *printer)
{
	if (printer->printed)
		return;
	text_color(printer, TERM_DIM);
	out_text(printer->out, "# no call was recorded, or none that was asked for\n");
	text_color(printer, TERM_RESET);
}

static void print_switch(struct replay_printer *printer, uint32_t thread)
{
	static const char rule[] = " ------------------------------------------\n";
	struct out *out = printer->out;
	struct names_text name = names_thread(printer->names, printer->last_thread);

	text_color(printer, TERM_DIM);
	out_text(out, rule);
	out_text(out, "  ");
	out_bytes(out, name.text, name.length);
	out_text(out, " => ");
	name = names_thread(printer->names, thread);
	out_bytes(out, name.text, name.length);
	out_char(out, '\n');
	out_text(out, rule);
	text_color(printer, TERM_RESET);
	out_char(out, '\n');
}

static void print_prefix(struct replay_printer *printer, const struct walk *walk, const struct replay_item *item)
{
	replay_columns_print(&printer->columns, walk, item);
	out_spaces(printer->out, item->depth < INDENT_MAX / INDENT ? item->depth * INDENT : INDENT_MAX);
}

static void print_comment(struct replay_printer *printer, const char *text)
{
	text_color(printer, TERM_DIM);
	out_text(printer->out, " /* ");
	out_text(printer->out, text);
	out_text(printer->out, " */");
	text_color(printer, TERM_RESET);
}

static void print_source(struct replay_printer *printer, uint32_t function)
{
	const struct trace_function *known = trace_function(printer->trace, function);
	char file[400], text[440];

	if (!known || !known->file)
		return;
	text_clean(file, sizeof(file), known->file);
	snprintf(text, sizeof(text), "%s:%u", file, known->line);
	print_comment(printer, text);
}

static const char *end_comment(const struct replay_item *item)
{
	static const char *const words[] = {[CALL_UNWOUND] = "unwound",
					    [CALL_OPEN] = "open",
					    [CALL_LOST] = "exit lost",
					    [CALL_LEFT] = "left unseen"};

	return item->kind == REPLAY_ENTER || item->how > CALL_LEFT ? NULL : words[item->how];
}

/* Print text that a program has chosen. */
static void print_text(struct out *out, const char *text)
{
	char clean[TRACE_EVENT_TEXT];

	text_clean(clean, sizeof(clean), text);
	out_text(out, clean);
}

/* The arguments come in place of the parameter list. */
static void print_name(struct out *out, struct names_text name, const char *arguments)
{
	if (!arguments && memchr(name.text, '(', name.length)) {
		out_bytes(out, name.text, name.length);
		return;
	}
	out_bytes(out, name.text, arguments ? names_without_parameters(name) : name.length);
	out_char(out, '(');
	if (arguments)
		print_text(out, arguments);
	out_char(out, ')');
}

static void print_result(struct out *out, const char *result)
{
	out_text(out, " = ");
	print_text(out, result);
}

/* The function with its arguments, of a call that had no opening line. */
static void print_comment_of_call(struct replay_printer *printer, struct names_text name, const char *arguments)
{
	text_color(printer, TERM_DIM);
	out_text(printer->out, " /* ");
	print_name(printer->out, name, arguments);
	out_text(printer->out, " */");
	text_color(printer, TERM_RESET);
}

static void print_graph(struct replay_printer *printer, const struct walk *walk, const struct replay_item *item)
{
	struct names_text name = names_function(printer->names, item->function);
	const char *comment = item->before ? "entered before the trace" : end_comment(item);
	bool opens = item->kind != REPLAY_CLOSE || item->named; /* the first or only line of the call */
	struct out *out = printer->out;

	print_prefix(printer, walk, item);
	if (item->kind == REPLAY_CLOSE) {
		out_char(out, '}');
		if (item->result)
			print_result(out, item->result);
		if (item->text)
			print_comment_of_call(printer, name, item->text);
		else if (item->named || printer->options->tail)
			print_comment(printer, name.text);
	} else {
		print_name(out, name, item->text);
		if (item->result)
			print_result(out, item->result);
		out_bytes(out, item->kind == REPLAY_LEAF ? ";" : " {", item->kind == REPLAY_LEAF ? 1 : 2);
	}
	if (printer->options->source && opens)
		print_source(printer, item->function);
	if (item->tail && opens)
		print_comment(printer, "tail call");
	if (comment)
		print_comment(printer, comment);
	out_char(out, '\n');
}

static uint32_t find_caller(struct replay_printer *printer, uint32_t process, uint64_t address, uint64_t ticks)
{
	uint64_t hash = (address ^ (uint64_t)process << 40) * UINT64_C(0x9e3779b97f4a7c15);
	struct caller *cached = &printer->callers[hash >> 52 & (CALLER_CACHE - 1)];

	if (cached->address != address || cached->process != process || !address ||
	    !trace_resolved_at(printer->trace, &cached->resolved, ticks)) {
		trace_resolve(printer->trace, process, address, ticks, &cached->resolved);
		cached->address = address;
		cached->process = process;
	}
	return cached->resolved.function;
}

/* Print the columns before the text, as the kernel's tracer `function` has them. */
static void print_call_prefix(struct replay_printer *printer, const struct walk *walk, const struct replay_item *item)
{
	const struct trace_thread *thread = trace_thread(printer->trace, item->thread);
	const struct trace_process *process = thread ? trace_process(printer->trace, thread->process) : NULL;
	struct names_text name = names_thread(printer->names, item->thread);
	struct out *out = printer->out;

	if (name.length < 24)
		out_spaces(out, 24 - name.length);
	out_bytes(out, name.text, name.length);
	out_bytes(out, " [", 2);
	out_u64(out, process ? process->pid : 0);
	out_bytes(out, "] ", 2);
	replay_print_seconds(out, walk_since_ns(walk, item->ticks));
	out_bytes(out, ": ", 2);
}

static void print_call(struct replay_printer *printer, const struct walk *walk, const struct replay_item *item)
{
	const struct trace_thread *thread = trace_thread(printer->trace, item->thread);
	uint32_t caller = thread ? find_caller(printer, thread->process, item->value, item->ticks) : TRACE_NONE;
	struct names_text name = names_function(printer->names, item->function);
	struct out *out = printer->out;

	if (printer->is_calls)
		print_call_prefix(printer, walk, item);
	else
		replay_columns_print(&printer->columns, walk, item);
	out_bytes(out, name.text, name.length);
	out_bytes(out, " <-", 3);
	if (caller != TRACE_NONE) {
		name = names_function(printer->names, caller);
		out_bytes(out, name.text, name.length);
	} else {
		char raw[256], clean[256];

		trace_describe_address(printer->trace, thread ? thread->process : TRACE_NONE, item->value, item->ticks,
				       raw, sizeof(raw));
		text_clean(clean, sizeof(clean), raw);
		out_text(out, clean);
	}
	if (printer->options->source)
		print_source(printer, item->function);
	out_char(out, '\n');
}

static void print_lost(struct replay_printer *printer, const struct replay_item *item)
{
	const struct trace_thread *known = trace_thread(printer->trace, item->thread);
	struct names_text name = names_thread(printer->names, item->thread);

	text_color(printer, TERM_RED);
	out_bytes(printer->out, name.text, name.length);
	if (!item->value && known && item->ticks <= known->history_ticks) {
		out_text(printer->out, " [OLDER EVENTS ARE NOT THERE]");
	} else {
		out_text(printer->out, " [LOST ");
		out_u64(printer->out, item->value);
		out_text(printer->out, " EVENTS]");
	}
	text_color(printer, TERM_RESET);
	out_char(printer->out, '\n');
}

static void print_wait(struct replay_printer *printer, const struct walk *walk, const struct replay_item *item)
{
	char text[TIMETEXT_MAX];

	print_prefix(printer, walk, item);
	text_color(printer, TERM_DIM);
	out_format(printer->out, "/* waited %s for the tool */", timetext(item->value, text));
	text_color(printer, TERM_RESET);
	out_char(printer->out, '\n');
}

static void print_before(struct replay_printer *printer, const struct walk *walk, const struct replay_item *item)
{
	struct names_text name;

	print_prefix(printer, walk, item);
	text_color(printer, TERM_DIM);
	name = names_function(printer->names, item->function);
	out_format(printer->out, "/* %llu %s entered before the trace: %s", (unsigned long long)item->value,
		   counted(item->value, "level was", "levels were"), name.text);
	name = names_function(printer->names, item->innermost);
	if (item->value > 1)
		out_format(printer->out, "%s%s", item->value > 2 ? " .. " : ", ", name.text);
	out_text(printer->out, " */");
	text_color(printer, TERM_RESET);
	out_char(printer->out, '\n');
}

/* Print an event's text, as the kernel's tracers print a text that was written to trace_marker. */
static void print_message(struct replay_printer *printer, const struct walk *walk, const struct replay_item *item)
{
	char text[TRACE_EVENT_TEXT];

	text_clean(text, sizeof(text), item->text);
	if (printer->is_calls) {
		print_call_prefix(printer, walk, item);
		out_text(printer->out, text);
	} else {
		print_prefix(printer, walk, item);
		text_color(printer, TERM_DIM);
		out_text(printer->out, "/* ");
		out_text(printer->out, text);
		out_text(printer->out, " */");
		text_color(printer, TERM_RESET);
	}
	out_char(printer->out, '\n');
}

static void print_stack(struct replay_printer *printer, const struct walk *walk, const struct replay_item *item)
{
	print_prefix(printer, walk, item);
	text_color(printer, TERM_DIM);
	out_format(printer->out, "/* on stack %llu */", (unsigned long long)item->value + 1);
	text_color(printer, TERM_RESET);
	out_char(printer->out, '\n');
}

void replay_print(struct replay_printer *printer, const struct walk *walk, const struct replay_item *item)
{
	printer->printed = true;
	if (item->kind == REPLAY_CALL) {
		print_call(printer, walk, item);
		return;
	}
	if (item->kind == REPLAY_MESSAGE && printer->is_calls) {
		print_message(printer, walk, item);
		return;
	}
	if (item->thread != printer->last_thread && printer->last_thread != TRACE_NONE)
		print_switch(printer, item->thread);
	printer->last_thread = item->thread;
	if (item->kind == REPLAY_LOST)
		print_lost(printer, item);
	else if (item->kind == REPLAY_BEFORE)
		print_before(printer, walk, item);
	else if (item->kind == REPLAY_WAIT)
		print_wait(printer, walk, item);
	else if (item->kind == REPLAY_STACK)
		print_stack(printer, walk, item);
	else if (item->kind == REPLAY_MESSAGE)
		print_message(printer, walk, item);
	else
		print_graph(printer, walk, item);
}
