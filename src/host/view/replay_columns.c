/*
 * The columns before the calls of a replay (replay_columns.h).  Context: host.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include <host/text.h>

#include "names.h"
#include "replay.h"
#include "replay_columns.h"
#include "term.h"

#define PROC_WIDTH   20
#define OBJECT_WIDTH 20
#define ID_WIDTH     7
#define DEPTH_WIDTH  5
#define TIME_CELL    16
#define TIMES_CELL   17 /* of durations */

static const struct {
	const char *name, *help;
	const char *title, *mark; /* the cell in the heading's first and second line, not padded */
	unsigned width;		  /* of the cell; 0: of a thread's name */
} about[COLUMN_COUNT] = {
	[COLUMN_TIME] = {"time", "seconds since the start of the trace", "     TIME", "       |", TIME_CELL},
	[COLUMN_DELTA] = {"delta", "time since the line before", "   DELTA", "   |   |", TIMES_CELL},
	[COLUMN_THREAD] = {"thread", "the thread's name and id", "THREAD", "|", 0},
	[COLUMN_TID] = {"tid", "the thread's id", "     TID", "       |", ID_WIDTH + 4},
	[COLUMN_PROCESS] = {"process", "the program and the process's id", " PROCESS", "    |", PROC_WIDTH + 3},
	[COLUMN_PID] = {"pid", "the process's id", "     PID", "       |", ID_WIDTH + 4},
	[COLUMN_DURATION] = {"duration", "of the call, at its end", "  DURATION", "   |   |", TIMES_CELL},
	[COLUMN_SELF] = {"self", "the call's duration without what it calls", "    SELF", "   |   |", TIMES_CELL},
	[COLUMN_DEPTH] = {"depth", "calls around the line", " DEPTH", "     |", DEPTH_WIDTH + 4},
	[COLUMN_OBJECT] = {"object", "program or library of the function", " OBJECT", "    |", OBJECT_WIDTH + 4},
};

const char *replay_columns_name(unsigned i)
{
	return i < COLUMN_COUNT ? about[i].name : NULL;
}

void replay_columns_help(struct out *out)
{
	for (unsigned i = 0; i < COLUMN_COUNT; i++)
		out_format(out, "  %-10s %s\n", about[i].name, about[i].help);
	out_text(out,
		 "The calls stand last.  'none' shows nothing else; a list from '+' on adds to thread,duration.\n");
}

void replay_columns_usual(struct replay_columns *columns, bool time, bool process)
{
	columns->count = 0;
	if (time)
		columns->list[columns->count++] = COLUMN_TIME;
	columns->list[columns->count++] = COLUMN_THREAD;
	if (process)
		columns->list[columns->count++] = COLUMN_PROCESS;
	columns->list[columns->count++] = COLUMN_DURATION;
}

bool replay_columns_have(const struct replay_columns *columns, enum replay_column column)
{
	return memchr(columns->list, (int)column, columns->count) != NULL;
}

static int add_column(struct replay_columns *columns, const char *name, size_t length, struct calltap_diag *diag)
{
	unsigned i = 0;

	while (i < COLUMN_COUNT && (strlen(about[i].name) != length || strncmp(about[i].name, name, length) != 0))
		i++;
	if (i == COLUMN_COUNT)
		return calltap_diag_set(diag, -EINVAL, "'%.*s' is no column: 'calltap replay --column help' lists them",
					(int)length, name);
	if (replay_columns_have(columns, (enum replay_column)i))
		return calltap_diag_set(diag, -EINVAL, "column '%s' is named twice: a line has each once",
					about[i].name);
	columns->list[columns->count++] = (uint8_t)i;
	return 0;
}

int replay_columns_parse(struct replay_columns *columns, const char *text, struct calltap_diag *diag)
{
	int err = 0;

	columns->chosen = true;
	columns->count = 0;
	if (strcmp(text, "none") == 0)
		return 0;
	if (*text == '+') {
		replay_columns_usual(columns, false, false);
		text++;
	}
	while (!err) {
		size_t length = strcspn(text, ",");

		err = add_column(columns, text, length, diag);
		if (!text[length])
			break;
		text += length + 1;
	}
	return err;
}

/* A cell of the heading; '#' takes the place of a line's first byte. */
static void write_cell(struct replay_columns_state *state, unsigned column, bool second, bool first)
{
	const char *text = second ? about[column].mark : about[column].title;
	unsigned width = about[column].width, length = (unsigned)strlen(text);

	if (first)
		out_char(state->out, '#');
	if (!width) {
		if (!first)
			out_char(state->out, ' ');
		out_spaces(state->out, length < state->thread_width ? state->thread_width - length : 0);
		out_text(state->out, text);
		out_spaces(state->out, 2);
		return;
	}
	out_text(state->out, text + first);
	out_spaces(state->out, width - length);
}

void replay_columns_title(struct replay_columns_state *state, bool second)
{
	for (unsigned i = 0; i < state->columns.count; i++)
		write_cell(state, state->columns.list[i], second, i == 0);
	if (!state->columns.count)
		out_text(state->out, second ? "#     |   |   |   |\n" : "#    FUNCTION CALLS\n");
	else
		out_text(state->out, second ? "            |   |   |   |\n" : "           FUNCTION CALLS\n");
}

void replay_print_duration(struct out *out, uint64_t ns)
{
	char text[OUT_U64_MAX];
	const char *us = out_decimal(ns / 1000, text);
	unsigned length = (unsigned)(text + OUT_U64_MAX - us);
	unsigned decimals = length < 5 ? 3 : length < 7 ? 7 - length : 0;
	unsigned rest = (unsigned)(ns % 1000);

	out_bytes(out, us, length);
	if (decimals) {
		static const unsigned cut[] = {0, 100, 10, 1};

		out_char(out, '.');
		out_digits(out, rest / cut[decimals], decimals);
		length += 1 + decimals;
	}
	out_bytes(out, " us ", 4);
	if (length < 8)
		out_spaces(out, 8 - length);
}

static void print_times(struct replay_columns_state *state, uint64_t ns, bool known, bool estimated)
{
	struct out *out = state->out;
	char mark;

	if (!known) {
		out_bytes(out, "              |  ", 17);
		return;
	}
	mark = time_mark(ns);
	if (mark != ' ' && state->color)
		out_text(out, ns > 1000000 ? TERM_RED : TERM_YELLOW);
	out_char(out, mark);
	out_char(out, estimated ? '~' : ' ');
	replay_print_duration(out, ns);
	if (mark != ' ' && state->color)
		out_text(out, TERM_RESET);
	out_bytes(out, "|  ", 3);
}

void replay_print_seconds(struct out *out, uint64_t ns)
{
	out_u64_width(out, ns / 1000000000, 5);
	out_char(out, '.');
	out_digits(out, ns % 1000000000 / 1000, 6);
}

static void print_time(struct replay_columns_state *state, const struct walk *walk, uint64_t ticks)
{
	replay_print_seconds(state->out, walk_since_ns(walk, ticks));
	out_bytes(state->out, " |  ", 4);
}

/* The time since the line before, which never has a mark: no call took it. */
static void print_delta(struct replay_columns_state *state, const struct walk *walk, uint64_t ticks)
{
	if (!state->has_last || ticks < state->last_ticks) {
		print_times(state, 0, false, false);
		return;
	}
	out_spaces(state->out, 2);
	replay_print_duration(state->out, trace_duration_ns(walk->trace, ticks - state->last_ticks));
	out_bytes(state->out, "|  ", 3);
}

static void print_thread(struct replay_columns_state *state, uint32_t thread)
{
	struct names_text name = names_thread(state->names, thread);
	struct out *out = state->out;

	out_char(out, ' ');
	if (name.length <= state->thread_width) {
		out_spaces(out, state->thread_width - name.length);
		out_bytes(out, name.text, name.length);
	} else {
		out_label(out, name.text, '-', state->thread_width, true);
	}
	out_bytes(out, ") ", 2);
}

static void print_process(struct replay_columns_state *state, const struct trace_process *process)
{
	char label[64], name[48] = "?";

	if (process)
		text_clean(name, sizeof(name), text_base(process->exe));
	snprintf(label, sizeof(label), "%s-%u", name, process ? process->pid : 0);
	out_label(state->out, label, '-', PROC_WIDTH, true);
	out_bytes(state->out, " | ", 3);
}

static void print_object(struct replay_columns_state *state, const struct walk *walk, const struct replay_item *item)
{
	bool of_call = item->kind <= REPLAY_CALL || item->kind == REPLAY_BEFORE;
	const struct trace_function *function = of_call ? trace_function(walk->trace, item->function) : NULL;
	const struct trace_object *object = function ? trace_object(walk->trace, function->object) : NULL;
	char name[256];

	text_clean(name, sizeof(name), object && object->path ? text_base(object->path) : "");
	out_char(state->out, ' ');
	out_column(state->out, name, OBJECT_WIDTH, false);
	out_bytes(state->out, " | ", 3);
}

static void print_number(struct out *out, uint64_t value, unsigned width)
{
	out_char(out, ' ');
	out_u64_width(out, value, width);
	out_bytes(out, " | ", 3);
}

static const struct trace_process *process_of(const struct walk *walk, const struct replay_item *item)
{
	const struct trace_thread *thread = trace_thread(walk->trace, item->thread);

	return thread ? trace_process(walk->trace, thread->process) : NULL;
}

static uint32_t pid_of(const struct walk *walk, const struct replay_item *item)
{
	const struct trace_process *process = process_of(walk, item);

	return process ? process->pid : 0;
}

static uint32_t tid_of(const struct walk *walk, const struct replay_item *item)
{
	const struct trace_thread *thread = trace_thread(walk->trace, item->thread);

	return thread ? thread->tid : 0;
}

void replay_columns_print(struct replay_columns_state *state, const struct walk *walk, const struct replay_item *item)
{
	for (unsigned i = 0; i < state->columns.count; i++) {
		switch ((enum replay_column)state->columns.list[i]) {
		case COLUMN_TIME:
			print_time(state, walk, item->ticks);
			break;
		case COLUMN_DELTA:
			print_delta(state, walk, item->ticks);
			break;
		case COLUMN_THREAD:
			print_thread(state, item->thread);
			break;
		case COLUMN_TID:
			print_number(state->out, tid_of(walk, item), ID_WIDTH);
			break;
		case COLUMN_PROCESS:
			print_process(state, process_of(walk, item));
			break;
		case COLUMN_PID:
			print_number(state->out, pid_of(walk, item), ID_WIDTH);
			break;
		case COLUMN_DURATION:
			print_times(state, item->value, item->timed, item->estimated);
			break;
		case COLUMN_SELF:
			print_times(state, item->self_ns, item->timed, item->estimated);
			break;
		case COLUMN_DEPTH:
			print_number(state->out, item->depth, DEPTH_WIDTH);
			break;
		case COLUMN_OBJECT:
			print_object(state, walk, item);
			break;
		case COLUMN_COUNT:
			break; /* no column */
		}
	}
	state->has_last = true;
	state->last_ticks = item->ticks;
}
