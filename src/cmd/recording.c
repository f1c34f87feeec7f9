/*
 * Options and messages of recordings (recording.h).  Context: host.
 */
#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include <calltap/abi/profile.h>
#include <host/counted.h>
#include <host/elf/filter.h>
#include <host/files.h>
#include <host/hook/triggers.h>
#include <host/text.h>
#include <host/values/values.h>
#include <tracers/tracer.h>

#include "options.h"
#include "learned.h"
#include "recording.h"

#define DEFAULT_BUFFER (4u << 20)
#define WAIT_MAX_MS    1000
#define FILES_MIN      24u	   /* descriptors to trace one process; each further process takes more */
#define FILES_SEEN     1024	   /* with a higher limit, counting is not needed */
#define GAP_NS	       1000000000u /* between two actions of a trigger */

int recording_init(struct recording *recording, char **argv)
{
	opterr = 0;
	optind = 0;
	*recording = (struct recording){
		.settings =
			{
				.options =
					{
						.size = sizeof(struct record_options),
						.output = RECORDING_OUTPUT,
						.tracer = tracer_at(0),
						.buffer_bytes = DEFAULT_BUFFER,
						.wait_max_ms = WAIT_MAX_MS,
					},
				.tracing = true,
			},
		.gap_ns = GAP_NS,
		.argv = argv,
	};
	return filter_set_create(&recording->settings.options.filters) ? EXIT_USAGE : 0;
}

void recording_clear(struct recording *recording)
{
	filter_set_destroy(recording->settings.options.filters);
	triggers_destroy(recording->triggers);
	values_destroy(recording->settings.options.values);
	free(recording->text);
	learned_free(recording->known, recording->known_count);
}

/* How the value of an option is taken. */
enum take {
	TAKE_OWN,     /* by the verb */
	TAKE_SETTING, /* as the setting that has the option's name */
	TAKE_FLAG,    /* true in the bool at `at` */
	TAKE_TEXT,    /* in the pointer at `at`; "" for a value that was left out */
	TAKE_TIME,    /* in the uint64_t at `at` */
	TAKE_COUNT,   /* in the uint32_t at `at` */
	TAKE_STOCK,   /* as enum stock_choice */
	TAKE_CLOCK,   /* exact or adaptive */
	TAKE_CALLS,   /* none: `at` is the enum libcalls_choice */
	TAKE_CHOICE,  /* as a condition for a function's calls, which hides what they call (`at` 1) or not (0) */
	TAKE_VALUES,  /* as what a function tells at its call (`at` 0) or its return (1) */
	TAKE_AUTO,    /* what types tell of all functions */
	TAKE_TRIGGER, /* as the condition of the trigger action `at` */
};

struct row {
	unsigned verbs; /* bits: the verbs that have the option */
	int code;	/* 0: `help` is a heading */
	const char *name, *value, *help;
	enum take take;
	size_t at; /* place in struct recording, or a trigger's action */
};

#define R	     RECORDING_RECORD
#define A	     RECORDING_ATTACH
#define T	     RECORDING_TOP
#define L	     RECORDING_LIVE
#define S	     RECORDING_SERVE
#define C	     RECORDING_COUNT
#define M	     RECORDING_MOUNT
#define H	     RECORDING_SHELL
#define AT(member)   offsetof(struct recording, member)
#define OPTION(name) AT(settings.options.name)
#define MODES                                                                                                          \
	"when a buffer is full: block (wait for the tool), drop (leave\n"                                              \
	"out and count) or overwrite (keep the newest); default "

static const struct row rows[] = {
	{R | A, 'p', "tracer", "NAME", "what to record:", TAKE_SETTING, 0},
	{L, 'p', "tracer", "NAME", "function_graph (default) or function", TAKE_SETTING, 0},
	{M | H, 'p', "tracer", "NAME", "what to record at first (default nop):", TAKE_SETTING, 0},
	{R | A | T | L | M | H, 'l', "trace", "FILTER", "trace only these functions", TAKE_SETTING, 0},
	{R | A | T | L | M | H, 'n', "notrace", "FILTER", "do not trace these functions", TAKE_SETTING, 0},
	{R | A | L, 'g', "graph", "FILTER",
	 "trace these functions and what they call; 'FUNCTION: EXPR' for\n"
	 "those of their calls for which EXPR is true, as --if has it",
	 TAKE_SETTING, 0},
	{T | M | H, 'g', "graph", "FILTER", "trace these functions and what they call", TAKE_SETTING, 0},
	{R | A | T | L | M | H, OPT_NO_GRAPH, "no-graph", "FILTER",
	 "trace neither these functions nor what they call\n"
	 "FILTER: glob, /regex/, object:function or @FILE; may be repeated",
	 TAKE_SETTING, 0},
	{R | A | T | L | C | M | H, OPT_STOCK, "stock", "WHEN",
	 "functions that no compiler has prepared: auto (of the program's own\n"
	 "objects without prepared ones, and of libraries that a FILTER names\n"
	 "by their object; default), always or never",
	 TAKE_STOCK, 0},
	{R | A | T | L | C | M | H, OPT_LIBCALLS, "libcalls", NULL,
	 "trace calls into shared libraries, at the caller's PLT (default\n"
	 "where functions are traced that no compiler has prepared)",
	 TAKE_CALLS, LIBCALLS_ALWAYS},
	{R | A | T | L | C | M | H, OPT_NO_LIBCALLS, "no-libcalls", NULL, "do not", TAKE_CALLS, LIBCALLS_NEVER},
	{R | A | T | L | M | H, OPT_MIN_SIZE, "min-size", "BYTES", "leave out functions smaller than that", TAKE_COUNT,
	 OPTION(size_min)},
	{R | A | L, OPT_TIME, "time", "HOW",
	 "exact (each call has its times; default) or adaptive (calls of\n"
	 "functions that are short and called often have none, but for a\n"
	 "sample of them: much cheaper)",
	 TAKE_CLOCK, 0},
	{T, OPT_TIME, "time", "HOW",
	 "exact (each call is timed; default) or adaptive (each is counted, and\n"
	 "times are estimates with their errors: much cheaper)",
	 TAKE_CLOCK, 0},
	{T, OPT_TIME_TICK, "time-tick", "TIME",
	 "with --time adaptive: from one look at what runs to the next (default 100us)", TAKE_TIME, OPTION(tick_ns)},
	{R | A | L, OPT_TIME_SHORT, "time-short", "TIME", "with --time adaptive: less is short (default 1us)",
	 TAKE_TIME, OPTION(short_ns)},
	{R | A | L, OPT_TIME_TICK, "time-tick", "TIME",
	 "with --time adaptive: times that are missing are known up to twice\nthat (default 100us)", TAKE_TIME,
	 OPTION(tick_ns)},
	{R | A | L, OPT_TIME_SAMPLE, "time-sample", "N",
	 "with --time adaptive: one call in N has its times (default 256)", TAKE_COUNT, OPTION(every)},
	{R | A | L, OPT_TIME_SMALL, "time-small", "BYTES",
	 "with --time adaptive: functions up to that size are thought to be\nshort at first (default 64)", TAKE_COUNT,
	 OPTION(small)},
	{R | A | L, OPT_TIME_PROFILE, "time-profile", "FILE",
	 "with --time adaptive: an earlier trace says which functions are short", TAKE_TEXT, AT(time_profile)},
	{R | A | L, 'A', "args", "'FUNCTION[:VALUES]'",
	 "show arguments of these functions' calls: those that debug\n"
	 "information or glibc's headers tell, or as in 'open: file oflag', 'f:req->id', or\n"
	 "'opendir:path=arg1:string' (see calltap-record(1)); may be repeated",
	 TAKE_VALUES, 0},
	{R | A | L, 'R', "result", "'FUNCTION[:VALUES]'", "show their results, as in 'opendir:ret'; may be repeated",
	 TAKE_VALUES, 1},
	{R | A | L, 'a', "auto-args", NULL,
	 "show arguments and results of all, as debug information and glibc's\nheaders tell them", TAKE_AUTO, 0},
	{R | A | L | C, OPT_IF, "if", "'FUNCTION: EXPR'",
	 "record only those of the functions' calls for which this is true,\n"
	 "as in 'write: arg1:s32 == 2'; may be repeated",
	 TAKE_CHOICE, 0},
	{R | A | L, OPT_ONLY_IF, "only-if", "'FUNCTION: EXPR'", "and what they call only then, too", TAKE_CHOICE,
	 VALUES_ONLY_IF},
	{R | A | T | L | M | H, OPT_MAX_DEPTH, "max-depth", "N", "record at most N traced calls deep", TAKE_SETTING, 0},
	{R | A | L | M | H, 't', "threshold", "TIME", "leave out finished calls shorter than TIME (10us, 1ms, ...)",
	 TAKE_SETTING, 0},
	{R, OPT_MODE, "mode", "MODE", MODES "block", TAKE_SETTING, 0},
	{A, OPT_MODE, "mode", "MODE", MODES "drop", TAKE_SETTING, 0},
	{L, OPT_MODE, "mode", "MODE", "drop (leave out and count; default) or block, when a buffer is full",
	 TAKE_SETTING, 0},
	{R | A | L | M | H, 'b', "buffer", "SIZE", "buffer of each thread (default 4M)", TAKE_SETTING, 0},
	{R | A, OPT_BUFFER_DIR, "buffer-dir", "DIR",
	 "with --mode overwrite: buffers are files in DIR, on tmpfs,\n"
	 "and outlive the tool and the program",
	 TAKE_TEXT, OPTION(buffer_dir)},
	{R | A, 'o', "output", "FILE", "trace file (default " RECORDING_OUTPUT "; an older one becomes FILE.old)",
	 TAKE_TEXT, OPTION(output)},
	{L, OPT_DURATION, "duration", "TIME", "show them for TIME (10s, 500ms, ...)", TAKE_OWN, 0},
	{A, OPT_DURATION, "duration", "TIME", "detach after TIME (10s, 500ms, ...)", TAKE_OWN, 0},
	{C, OPT_KEEP, "keep", "WHICH", "where there is no room for all values: first (default) or newest", TAKE_OWN, 0},
	{C, OPT_SUM, "sum", "NUMBER", "add up this number by the value: its sum, average, least and largest", TAKE_OWN,
	 0},
	{C, OPT_UNTIL, "until", "'FUNCTION: NUMBER'",
	 "measure the time from each call to the next one of this\n"
	 "FUNCTION with the same number, as in: calltap count\n"
	 "'malloc: ret' --until 'free: ptr' -- COMMAND",
	 TAKE_OWN, 0},
	{C, OPT_HIST, "hist", "HOW", "a histogram of the value: log2, or linear:LOW:STEP:N", TAKE_OWN, 0},
	{C, OPT_DURATION, "duration", "TIME", "count for TIME (10s, 500ms, ...)", TAKE_OWN, 0},
	{C, OPT_JSON, "json", NULL, "print counts as JSON", TAKE_OWN, 0},
	{C, 'o', "output", "FILE", "write the table to FILE, and not behind what COMMAND prints", TAKE_OWN, 0},
	{A, OPT_INSTANCE, "instance", "NAME",
	 "what it is called (default 0; of a process that is traced already: a number)", TAKE_TEXT, OPTION(instance)},
	{A, OPT_NAME, "name", "GLOB", "all processes of yours that are called so, or whose program's file is", TAKE_OWN,
	 0},
	{A, OPT_CHILDREN, "children", NULL, "the children, too, that all these have now", TAKE_OWN, 0},
	{R | T | L | S | C | M | H, OPT_NO_FORK, "no-fork", NULL, "do not follow children", TAKE_FLAG, OPTION(no_fork)},
	{A, OPT_NO_FORK, "no-fork", NULL, "do not follow children that they have later", TAKE_FLAG, OPTION(no_fork)},
	{R, OPT_NO_EXEC, "no-exec", NULL, "do not follow programs that are started in the traced one's place",
	 TAKE_FLAG, OPTION(no_exec)},
	{R | A | T | L | C | M | H, OPT_NO_SITES, "allow-no-sites", NULL, "go on although nothing can be traced yet",
	 TAKE_FLAG, OPTION(allow_no_sites)},
	{R | A | T | L | C | M | H, OPT_NO_MATCH, "allow-no-match", NULL, "go on although a filter matches nothing yet",
	 TAKE_FLAG, OPTION(allow_no_match)},
	{R, OPT_EMULATOR, "emulator", "CMD",
	 "run COMMAND by CMD, such as 'qemu-aarch64 -cpu max'; for another CPU's\n"
	 "program without it: QEMU's user mode",
	 TAKE_TEXT, OPTION(emulator)},
	{R | A, OPT_PERF_MAP, "perf-map", NULL, "write /tmp/perf-PID.map, by which perf names the stubs", TAKE_FLAG,
	 OPTION(perf_map)},
	{R | A, OPT_HTML, "html", "[=FILE]",
	 "write the trace as a page for a browser, too (default: the trace's\n"
	 "name with .html)",
	 TAKE_TEXT, AT(page)},
	{R | A, OPT_MOUNT, "mount", "DIR", "meanwhile show the program in DIR by the files of the kernel's tracefs",
	 TAKE_TEXT, AT(mount)},
	{R | A, OPT_OPEN, "open", NULL, "show that page in a browser", TAKE_FLAG, AT(opens)},
	{H, 'c', "command", "TEXT", "run TEXT by the shell, instead of an interactive one", TAKE_OWN, 0},
	{M, OPT_KEEP, "keep", NULL, "leave the tree mounted when the process has ended", TAKE_OWN, 0},
	{R | A, 'q', "quiet", NULL, "no progress and no summary", TAKE_FLAG, AT(quiet)},
	{M, 'q', "quiet", NULL, "say nothing at the end", TAKE_FLAG, AT(quiet)},
	{H, 'q', "quiet", NULL, "say nothing at the beginning", TAKE_FLAG, AT(quiet)},
	{R | A, 'v', "verbose", NULL, "always print the summary", TAKE_FLAG, OPTION(verbose)},
	{T, 'f', "function", "GLOB", "show only functions of this name (or with this in it)", TAKE_OWN, 0},
	{T, 's', "sort", "COLUMN", "rate, calls, total, self (default), avg, p50, p99, max or name", TAKE_OWN, 0},
	{T, 'i', "interval", "TIME", "between two readings (default 1s)", TAKE_OWN, 0},
	{T, 'r', "rows", "N", "at most N rows (batch; default 20, 0 = all)", TAKE_OWN, 0},
	{T, 'b', "batch", "N", "print N readings as text, then end; 0 = until the program ends", TAKE_OWN, 0},
	{T, OPT_ONCE, "once", NULL, "the same as --batch 1", TAKE_OWN, 0},
	{T, OPT_JSON, "json", NULL, "print readings as JSON, an object in a line each", TAKE_OWN, 0},
	{T, OPT_PROGRAM_OUTPUT, "program-output", "FILE", "where the output of COMMAND goes (default /dev/null)",
	 TAKE_OWN, 0},
	{L, OPT_SCREEN, "screen", NULL, "on the whole terminal: hold, walk back, search, filter", TAKE_OWN, 0},
	{L, OPT_PROGRAM_OUTPUT, "program-output", "FILE",
	 "with --screen: where the output of COMMAND goes (default /dev/null)", TAKE_OWN, 0},
	{L, 'f', "function", "GLOB", "show only functions of this name", TAKE_OWN, 0},
	{L, OPT_SHOW_PID, "pid", "PID", "show only this process", TAKE_OWN, 0},
	{L, OPT_SHOW_TID, "tid", "TID", "show only this thread", TAKE_OWN, 0},
	{L, OPT_MIN, "min", "DURATION", "show only calls that took as long, as in 10us, when they end", TAKE_OWN, 0},
	{L, OPT_DEPTH, "depth", "N", "show only the outer N levels of calls", TAKE_OWN, 0},
	{L, OPT_ABSTIME, "abstime", NULL, "a column with the time of each line", TAKE_OWN, 0},
	{L, OPT_PROC, "proc", NULL, "a column with the process", TAKE_OWN, 0},
	{L, OPT_TAIL, "tail", NULL, "the function's name at each closing brace", TAKE_OWN, 0},
	{L, OPT_ALL_LEVELS, "all-levels", NULL, "a line for each call that was open at an attach", TAKE_OWN, 0},
	{L | T, OPT_COLOR, "color", "WHEN", "auto, always or never", TAKE_OWN, 0},
	{L, 'o', "output", "FILE", "write the text to FILE instead of standard output", TAKE_OWN, 0},
	{S, OPT_READY_FD, "ready-fd", "N",
	 "say \"ready\", or what went wrong, on descriptor N, and end when its\nother end is closed", TAKE_OWN, 0},
	{R | A | T | L | S | C | M | H, OPT_HELP, "help", NULL, "this text", TAKE_OWN, 0},
	{R | A, 0, NULL, NULL,
	 "Triggers (CONDITION: FUNCTION, then entered, left, threw, '> TIME' or 'COUNT in TIME'):", TAKE_OWN, 0},
	{R | A, OPT_SNAPSHOT_WHEN, "snapshot-when", "CONDITION",
	 "write what the flight recorder (--mode overwrite) holds to FILE.1, .2, ...", TAKE_TRIGGER, TRIGGER_SNAPSHOT},
	{R | A, OPT_START_WHEN, "start-when", "CONDITION", "record from then on", TAKE_TRIGGER, TRIGGER_START},
	{R | A, OPT_STOP_WHEN, "stop-when", "CONDITION", "record until then", TAKE_TRIGGER, TRIGGER_STOP},
	{R | A, OPT_STACK_WHEN, "stack-when", "CONDITION", "print the thread's stack", TAKE_TRIGGER, TRIGGER_STACK},
	{R | A, OPT_RUN_WHEN, "run-when", "'CONDITION => COMMAND'", "run COMMAND by the shell", TAKE_TRIGGER,
	 TRIGGER_RUN},
	{R | A, OPT_AFTER, "after", "TIME", "take snapshots so long after (default 0)", TAKE_TIME, AT(after_ns)},
	{R | A, OPT_HISTORY, "history", "TIME", "snapshots go back so far (default: all there is)", TAKE_TIME,
	 AT(history_ns)},
	{R | A, OPT_TRIGGER_GAP, "trigger-gap", "TIME", "at most one action of a trigger in TIME (default 1s)",
	 TAKE_TIME, AT(gap_ns)},
	{R | A, OPT_TRIGGER_MAX, "trigger-max", "N", "at most N actions in all", TAKE_COUNT, AT(trigger_max)},
};

#define ROWS	    (sizeof(rows) / sizeof(rows[0]))
#define HELP_COLUMN 26

/* The value of an option may be left out if its name in the help begins with a bracket. */
static int argument_of(const struct row *row)
{
	if (!row->value)
		return no_argument;
	return row->value[0] == '[' ? optional_argument : required_argument;
}

int recording_next(unsigned verb, int argc, char **argv)
{
	struct option options[ROWS + 1] = {0}, *option = options;
	char letters[2 * ROWS + 3], *letter = letters;

	if (verb & (RECORDING_RECORD | RECORDING_SHELL))
		*letter++ = '+'; /* the options behind COMMAND are its own */
	*letter++ = ':';
	for (const struct row *row = rows; row < rows + ROWS; row++) {
		if (!(row->verbs & verb) || !row->code)
			continue;
		*option++ = (struct option){row->name, argument_of(row), NULL, row->code};
		if (row->code < OPT_NO_GRAPH)
			*letter++ = (char)row->code;
		if (row->code < OPT_NO_GRAPH && row->value)
			*letter++ = ':';
	}
	*letter = '\0';
	return options_next(argc, argv, letters, options);
}

static void print_row(const struct row *row)
{
	char lead[6] = "     ";
	int width;

	if (!row->code) {
		puts(row->help);
		return;
	}
	if (row->code < OPT_NO_GRAPH)
		snprintf(lead, sizeof(lead), "  -%c,", row->code);
	width = printf("%s --%s%s%s", lead, row->name, row->value && row->value[0] != '[' ? " " : "",
		       row->value ? row->value : "");
	if (width > HELP_COLUMN - 2) {
		putchar('\n');
		width = 0;
	}
	for (const char *line = row->help, *end; *line; line = *end ? end + 1 : end, width = 0) {
		end = strchrnul(line, '\n');
		printf("%*s%.*s\n", HELP_COLUMN - width, "", (int)(end - line), line);
	}
}

void recording_print_options(unsigned verb)
{
	for (const struct row *row = rows; row < rows + ROWS; row++) {
		if (!(row->verbs & verb))
			continue;
		print_row(row);
		for (size_t i = 0; row->code == 'p' && verb != RECORDING_LIVE && tracer_at(i); i++)
			if (!tracer_at(i)->counts) /* a tracer that counts is for top */
				printf("%*s%-15s %s\n", HELP_COLUMN + 2, "", tracer_at(i)->name, tracer_at(i)->summary);
	}
}

static int take_setting(struct recording *recording, const char *key, const char *value)
{
	struct calltap_diag diag;

	if (!setting_take(&recording->settings, key, value, &diag))
		return 0;
	calltap_diag_print(&diag, stderr);
	return EXIT_USAGE;
}

/* Have the values looked at that the last trigger is about, if it is about values. */
static int ask_values(struct recording *recording, struct calltap_diag *diag)
{
	struct values **values = &recording->settings.options.values;
	uint32_t number;
	const char *question = triggers_question(recording->triggers, &number);

	if (!question)
		return 0;
	if (!*values && values_create(values))
		return calltap_diag_set(diag, -ENOMEM, "not enough memory");
	return values_ask(*values, question, number, diag);
}

static int take_trigger(struct recording *recording, enum trigger_action action, const char *text)
{
	struct calltap_diag diag = {.column = -1};

	if (!recording->triggers && triggers_create(&recording->triggers))
		return EXIT_USAGE;
	if (!triggers_add(recording->triggers, action, text, &diag) && !ask_values(recording, &diag))
		return 0;
	calltap_diag_print(&diag, stderr);
	return EXIT_USAGE;
}

/* text: NULL = what types tell of all functions. */
static int take_values(struct recording *recording, bool result, const char *text)
{
	struct values **values = &recording->settings.options.values;
	struct calltap_diag diag = {.column = -1};

	if (!*values && values_create(values))
		return EXIT_USAGE;
	if (!text)
		values_add_all(*values);
	if (!text || !values_add(*values, text, result, &diag))
		return 0;
	calltap_diag_print(&diag, stderr);
	return EXIT_USAGE;
}

static int take_choice(struct recording *recording, enum values_way way, const char *text)
{
	struct values **values = &recording->settings.options.values;
	struct calltap_diag diag = {.column = -1};

	if (!*values && values_create(values))
		return EXIT_USAGE;
	if (!values_choose_by(*values, text, way, &diag))
		return 0;
	calltap_diag_print(&diag, stderr);
	return EXIT_USAGE;
}

/* The colon of "FUNCTION: EXPR", NULL: it is a filter. */
static const char *condition_in(const char *text)
{
	const char *colon = *text == '/' || *text == '@' ? NULL : strstr(text, ": ");

	return colon && colon > text ? colon : NULL;
}

/* -g or --no-graph with a text that has a condition; *taken: as another option. */
static int take_graph(struct recording *recording, const struct row *row, const char *value, bool *taken)
{
	const char *colon = condition_in(value);
	char *function;
	int ret;

	*taken = colon != NULL;
	if (!colon)
		return 0;
	if (row->code != 'g') {
		fprintf(stderr,
			"calltap: --no-graph has functions, and no values; --only-if '%.*s: !(...)' leaves out their "
			"calls by "
			"value, and what they call\n",
			(int)(colon - value), value);
		return EXIT_USAGE;
	}
	if (!strcmp(recording->argv[0], "top")) {
		fprintf(stderr,
			"calltap: top counts all calls of a function: leave ': EXPR' out, or record those calls\n");
		return EXIT_USAGE;
	}
	function = strndup(value, (size_t)(colon - value));
	ret = function ? take_setting(recording, row->name, function) : EXIT_USAGE;
	free(function);
	return ret ? ret : take_choice(recording, VALUES_TREE, value);
}

static int take_time(uint64_t *ns, const char *value)
{
	if (setting_parse_time(value, ns))
		return 0;
	fprintf(stderr, "calltap: time '%s' is not valid; give a time such as 100ms or 2s\n", value);
	return EXIT_USAGE;
}

static int take_count(uint32_t *count, const char *value)
{
	if (setting_parse_count(value, count))
		return 0;
	fprintf(stderr, "calltap: number '%s' is not valid; give a whole one from 1\n", value);
	return EXIT_USAGE;
}

/* Refuse `-p PID`, which names a process in other tools. */
static int refuse_pid(const struct recording *recording, const char *pid)
{
	bool records = !strcmp(recording->argv[0], "record");

	fprintf(stderr, "calltap: -p names a tracer; a process is named without it: calltap %s %s\n",
		records ? "attach" : recording->argv[0], pid);
	return EXIT_USAGE;
}

static int take_clock(struct recording *recording, const char *value)
{
	recording->settings.options.adaptive = !strcmp(value, "adaptive");
	if (recording->settings.options.adaptive || !strcmp(value, "exact"))
		return 0;
	fprintf(stderr, "calltap: --time is exact or adaptive, not '%s'\n", value);
	return EXIT_USAGE;
}

static int take_stock(struct recording *recording, const char *value)
{
	static const char *const names[] = {
		[STOCK_AUTO] = "auto",
		[STOCK_ALWAYS] = "always",
		[STOCK_NEVER] = "never",
	};

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		if (!strcmp(value, names[i])) {
			recording->settings.options.stock = (enum stock_choice)i;
			return 0;
		}
	}
	fprintf(stderr, "calltap: --stock is auto, always or never, not '%s'\n", value);
	return EXIT_USAGE;
}

static int take_row(struct recording *recording, const struct row *row, const char *value)
{
	void *at = (char *)recording + row->at;
	bool taken = false;
	int ret = row->code == 'g' || row->code == OPT_NO_GRAPH ? take_graph(recording, row, value, &taken) : 0;

	if (taken)
		return ret;
	switch (row->take) {
	case TAKE_SETTING:
		return take_setting(recording, row->name, value);
	case TAKE_FLAG:
		*(bool *)at = true;
		return 0;
	case TAKE_TEXT:
		*(const char **)at = value ? value : "";
		return 0;
	case TAKE_TIME:
		if (take_time(at, value))
			return EXIT_USAGE;
		if (row->code == OPT_TIME_SHORT && !recording->settings.options.short_ns) {
			fprintf(stderr, "calltap: --time-short is 1ns or more; --time exact gives all calls times\n");
			return EXIT_USAGE;
		}
		if (row->code == OPT_TIME_TICK && !recording->settings.options.tick_ns) {
			fprintf(stderr, "calltap: --time-tick is from 10us to 100ms\n");
			return EXIT_USAGE;
		}
		return 0;
	case TAKE_VALUES:
		return take_values(recording, row->at, value);
	case TAKE_CHOICE:
		return take_choice(recording, (enum values_way)row->at, value);
	case TAKE_COUNT:
		return take_count(at, value);
	case TAKE_AUTO:
		return take_values(recording, false, NULL);
	case TAKE_CALLS:
		recording->settings.options.libcalls = (enum libcalls_choice)row->at;
		return 0;
	case TAKE_CLOCK:
		return take_clock(recording, value);
	case TAKE_STOCK:
		return take_stock(recording, value);
	case TAKE_TRIGGER:
		return take_trigger(recording, (enum trigger_action)row->at, value);
	default:
		return EXIT_USAGE;
	}
}

int recording_take(struct recording *recording, int code, const char *value)
{
	struct calltap_diag diag = {.column = -1};

	if (code == 'p' && strspn(value, "0123456789") == strlen(value))
		return refuse_pid(recording, value);
	for (const struct row *row = rows; row < rows + ROWS; row++)
		if (row->code == code && row->take != TAKE_OWN)
			return take_row(recording, row, value);
	if (options_refuse(&diag, code, recording->argv))
		calltap_diag_print(&diag, stderr);
	return EXIT_USAGE;
}

/* The agent lies beside the command in a build tree, or in the library folder of an installation.  An error is told. */
static int find_agent(char path[PATH_MAX])
{
	static const char *const places[] = {
		"%s/../agent/libcalltap-agent.so",
		"%s/../" CALLTAP_LIBDIR "/calltap/libcalltap-agent.so",
	};
	char self[PATH_MAX], tried[PATH_MAX * 2], *folder;
	ssize_t got = readlink("/proc/self/exe", self, sizeof(self) - 1);

	if (got < 0) {
		fprintf(stderr,
			"calltap: /proc is not mounted, and nothing can be traced without it; mount it first\n");
		return -errno;
	}
	self[got] = 0;
	folder = dirname(self);
	for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
		snprintf(tried, sizeof(tried), places[i], folder);
		if (realpath(tried, path))
			return 0;
	}
	fprintf(stderr,
		"calltap: libcalltap-agent.so is neither in %s/../agent nor in %s/../" CALLTAP_LIBDIR
		"/calltap; install Calltap again\n",
		folder, folder);
	return -ENOENT;
}

/* The options as typed, for the file. */
static char *options_text(int argc, char **argv, int end)
{
	size_t size = 1;
	char *text;

	if (end > 1 && end <= argc && !strcmp(argv[end - 1], "--"))
		end--;
	for (int i = 1; i < end && i < argc; i++)
		size += strlen(argv[i]) + 1;
	text = calloc(1, size);
	for (int i = 1; text && i < end && i < argc; i++)
		snprintf(text + strlen(text), size - strlen(text), "%s%s", i > 1 ? " " : "", argv[i]);
	return text;
}

/* True if as many files can be opened yet as tracing a process takes. */
static bool files_suffice(void)
{
	struct rlimit limit;
	unsigned room = 0;

	if (getrlimit(RLIMIT_NOFILE, &limit))
		return true;
	for (int fd = 0; room < FILES_MIN && fd < FILES_SEEN && (rlim_t)fd < limit.rlim_cur; fd++)
		room += fcntl(fd, F_GETFD) < 0;
	if (room < FILES_MIN && limit.rlim_cur <= FILES_SEEN)
		fprintf(stderr,
			"calltap: of %llu open files that this process may have, %u are left, and tracing takes %u"
			"%s\n",
			(unsigned long long)limit.rlim_cur, room, FILES_MIN, files_remedy(-EMFILE));
	return room >= FILES_MIN || limit.rlim_cur > FILES_SEEN;
}

/* Options that say how to be adaptive. */
static bool times_fit(const struct recording *recording)
{
	const struct record_options *options = &recording->settings.options;

	if (options->adaptive || !(options->short_ns | options->tick_ns | options->every | options->small))
		return true;
	fprintf(stderr, "calltap: --time-short, --time-tick, --time-sample and --time-small go with --time adaptive\n");
	return false;
}

static bool learn_times(struct recording *recording, struct calltap_diag *diag)
{
	struct record_options *options = &recording->settings.options;

	if (!options->adaptive)
		return !calltap_diag_set(diag, -EINVAL, "--time-profile goes with --time adaptive");
	if (learned_read(&recording->known, &recording->known_count, recording->time_profile,
			 options->short_ns ? options->short_ns : RECORD_SHORT_NS, diag))
		return false;
	options->known = recording->known;
	options->known_count = recording->known_count;
	return true;
}

int recording_check(struct recording *recording, int argc, char **argv, int end)
{
	struct record_options *options = &recording->settings.options;
	struct calltap_diag diag = {.column = -1};

	options->triggers = recording->triggers;
	if (settings_refuse(options, false, &diag)) {
		calltap_diag_print(&diag, stderr);
		return EXIT_USAGE;
	}
	if (!times_fit(recording))
		return EXIT_USAGE;
	if (recording->time_profile && !learn_times(recording, &diag)) {
		calltap_diag_print(&diag, stderr);
		return EXIT_USAGE;
	}
	if (!files_suffice())
		return EXIT_USAGE;
	if (find_agent(recording->agent))
		return EXIT_USAGE;
	if (recording->triggers) {
		triggers_set_rate(recording->triggers, recording->gap_ns, recording->trigger_max);
		triggers_set_window(recording->triggers, recording->after_ns, recording->history_ns);
	}
	recording->text = options_text(argc, argv, end);
	options->options_text = recording->text ? recording->text : "";
	options->agent_path = recording->agent;
	options->progress = !recording->quiet && isatty(STDERR_FILENO);
	return 0;
}

static void tell_unread(const struct record_result *result)
{
	char more[48] = "";

	if (!result->unread)
		return;
	if (result->unread > 1)
		snprintf(more, sizeof(more), " (and %u more)", result->unread - 1);
	fprintf(stderr,
		"calltap: %s%s was deleted or replaced while a process has it mapped, and only root may read what is "
		"mapped: nothing of it is in the trace; trace as root, or start the process anew\n",
		result->unread_path, more);
}

/* "2 processes (sh, 17, ...) are not in the trace" */
static void tell_first(const struct record_missing *missing)
{
	fprintf(stderr, "calltap: %u %s (%s, %d%s) %s not in the trace", missing->count,
		counted(missing->count, "process", "processes"), missing->name, (int)missing->pid,
		missing->count > 1 ? ", ..." : "", counted(missing->count, "is", "are"));
}

static void tell_missing(const struct record_result *result)
{
	const struct record_missing *strangers = &result->strangers;

	if (strangers->count) {
		tell_first(strangers);
		fprintf(stderr,
			", for %s started without the environment that brings the agent in; have LD_PRELOAD and "
			"CALLTAP_SESSION handed on to %s, or attach to %s\n",
			counted(strangers->count, "it was", "they were"), counted(strangers->count, "it", "them"),
			counted(strangers->count, "it", "them"));
	}
	if (result->missed.count) {
		tell_first(&result->missed);
		fprintf(stderr,
			": the loader leaves the agent out (set-uid, capabilities), or the agent cannot reach calltap "
			"(in "
			"another network namespace); attach to %s\n",
			counted(result->missed.count, "it", "them"));
	}
}

static void tell_relatives(const struct record_result *result)
{
	if (result->children)
		fprintf(stderr, "calltap: process %d has %u %s %s as well: attach to %s (calltap attach %d)\n",
			(int)result->parent, result->children,
			counted(result->children, "child that runs", "children that run"), result->child_name,
			counted(result->children, "that", "those"), (int)result->child);
	if (result->unplaced)
		fprintf(stderr, "calltap: %u static %s executed, and %s not in the trace: %s\n", result->unplaced,
			counted(result->unplaced, "program was", "programs were"),
			counted(result->unplaced, "is", "are"), result->unplaced_why);
	if (result->unheard)
		fprintf(stderr,
			"calltap: %u forked %s learn of a change of what is recorded, which came after the fork: %s\n",
			result->unheard, counted(result->unheard, "child did not", "children did not"),
			result->unheard_why);
	tell_missing(result);
}

/* "f (demo), g (libx.so) and 3 more" */
static void tell_failed(const struct record_result *result)
{
	char more[40] = "";

	if (result->failed_named && result->failed > result->failed_named)
		snprintf(more, sizeof(more), " and %llu more",
			 (unsigned long long)(result->failed - result->failed_named));
	fprintf(stderr, "calltap: %llu %s bytes were not what the file says%s%s%s\n",
		(unsigned long long)result->failed,
		counted(result->failed, "function was left alone: its", "functions were left alone: their"),
		result->failed_named ? ": " : "", result->failed_names, more);
}

void recording_tell_cut_short(uint32_t count)
{
	if (count)
		fprintf(stderr,
			"calltap: %u %s with a part of the data moved (write, send, recv with MSG_WAITALL): %s "
			"interrupted when threads were stopped\n",
			count, counted(count, "system call returned", "system calls returned"),
			counted(count, "it was", "they were"));
}

/* The remedy follows from the reason, of which there may be several. */
static void tell_untraced(const struct record_result *result)
{
	if (!result->untraced)
		return;
	fprintf(stderr, "calltap: %llu %s\n", (unsigned long long)result->untraced,
		counted(result->untraced,
			"call was not recorded: there was no buffer yet for its thread, or no memory beside the stack",
			"calls were not recorded: there was no buffer yet for their threads, or no memory beside the "
			"stack"));
	if (result->vforked)
		fprintf(stderr, "calltap: a child of vfork() takes no buffer, but records in that of its parent's "
				"thread, which has one from its first recorded call on: under record, -l main makes "
				"that the first\n");
	if (result->shut_in || result->stopped)
		fprintf(stderr, "calltap: in a sandbox (seccomp) no memory beside new stacks can be had: -p function "
				"needs none, and records calls without their ends\n");
	if (result->vforked || result->shut_in || result->stopped)
		return;
	if (result->limited)
		fprintf(stderr,
			"calltap: a higher limit of memory (ulimit -v or -d, or of a cgroup) or of mappings "
			"(sysctl vm.max_map_count) leaves room for more threads, and so does a smaller buffer (-b)\n");
	else
		fprintf(stderr, "calltap: a smaller buffer (-b) leaves room for more threads\n");
}

/* Processes that copy parts of their stacks: by a library that is known, or unforeseen. */
static void tell_copies(const struct record_result *result)
{
	if (result->moves)
		fprintf(stderr,
			"calltap: %u %s parts of stacks away and back (as greenlet does, and Ruby's callcc), and %s "
			"recorded up to there only; -p function records the calls of all\n",
			result->moves, counted(result->moves, "process copies", "processes copy"),
			counted(result->moves, "is", "are"));
	if (result->copied)
		fprintf(stderr,
			"calltap: in %u %s a call whose caller was not known any more, and no program survives that: "
			"parts of the stack were copied away and back; -p function does no harm to such a program\n",
			result->copied, counted(result->copied, "process returned", "processes returned"));
}

static void tell_shut_in(const struct record_result *result)
{
	if (result->shut_in)
		fprintf(stderr,
			"calltap: %u %s in (seccomp, or user dispatch of system calls) where system calls that tracing "
			"makes are forbidden; new threads, stacks, forked children and libraries after that are not in "
			"the "
			"trace\n",
			result->shut_in, counted(result->shut_in, "process shut itself", "processes shut themselves"));
	if (result->stopped)
		fprintf(stderr, "calltap: %u %s, and %s recorded up to there only\n", result->stopped,
			counted(result->stopped,
				"process may not read the clock any more (seccomp's strict mode, or PR_SET_TSC)",
				"processes may not read the clock any more (seccomp's strict mode, or PR_SET_TSC)"),
			counted(result->stopped, "is", "are"));
}

static void tell_left(const struct record_result *result)
{
	fprintf(stderr, "calltap: %llu %s not the file's again; ", (unsigned long long)result->left_over,
		counted(result->left_over, "function of what runs on is switched off, but its bytes are",
			"functions of what runs on are switched off, but their bytes are"));
	if (result->detached)
		fprintf(stderr, "the 'calltap detach' that has ended the recording gives %s back\n",
			counted(result->left_over, "it", "them"));
	else
		fprintf(stderr, "'calltap detach %d'%s gives %s back\n", (int)result->left_pid,
			result->left_in > 1 ? ", and the same for the other processes that were forked meanwhile," : "",
			counted(result->left_over, "it", "them"));
}

static void tell_idle(const struct record_result *result)
{
	fprintf(stderr,
		"calltap: %u %s the agent, idle, with its memory, for something was in the way; 'calltap detach %d'%s "
		"tries again\n",
		result->idle_in,
		counted(result->idle_in, "forked process that runs on keeps", "forked processes that run on keep"),
		(int)result->idle_pid, result->idle_in > 1 ? ", and the same for the others," : "");
}

/* Programs that were executed, and run without the agent. */
static void tell_executed(const struct record_result *result)
{
	if (result->executed)
		fprintf(stderr,
			"calltap: %u %s executed where the agent stays out (a seccomp sandbox), or cannot reach "
			"calltap (another network namespace)\n",
			result->executed, counted(result->executed, "program was", "programs were"));
	if (result->hidden)
		fprintf(stderr,
			"calltap: %u %s programs where the agent's file cannot be seen (another root, or something "
			"mounted over it): these are not in the trace; have that file there, too, or attach to them\n",
			result->hidden, counted(result->hidden, "process executed", "processes executed"));
	if (result->net)
		fprintf(stderr,
			"calltap: %u %s programs in another network namespace, where the agent cannot reach calltap: "
			"these "
			"are not in the trace; attach to them\n",
			result->net, counted(result->net, "process executed", "processes executed"));
	if (result->narrow)
		fprintf(stderr, "calltap: %u %s 32-bit programs: these are not in the trace\n", result->narrow,
			counted(result->narrow, "process executed", "processes executed"));
}

void recording_tell_losses(const struct record_result *result)
{
	recording_tell_cut_short(result->cut_short);
	if (result->failed)
		tell_failed(result);
	if (result->left_over)
		tell_left(result);
	if (result->idle_in)
		tell_idle(result);
	tell_unread(result);
	tell_relatives(result);
	tell_untraced(result);
	tell_copies(result);
	tell_shut_in(result);
	tell_executed(result);
	if (result->squeezed)
		fprintf(stderr,
			"calltap: %u %s smaller buffers than asked for (-b), as a limit (ulimit -v or -f, or of a "
			"cgroup) "
			"leaves "
			"little memory\n",
			result->squeezed, counted(result->squeezed, "process had", "processes had"));
	if (result->spaces)
		fprintf(stderr,
			"calltap: libraries that dlmopen() loaded into name spaces of their own are not traced\n");
	if (result->foreign)
		fprintf(stderr, "calltap: %u %s not in the trace, which has one CPU's\n", result->foreign,
			counted(result->foreign, "program for another CPU was executed, and is",
				"programs for another CPU were executed, and are"));
	if (result->strays)
		fprintf(stderr, "calltap: %u %s no traced call so far\n", result->strays,
			counted(result->strays, "process runs on, and is not in the trace: it made",
				"processes run on, and are not in the trace: they made"));
	if (result->late)
		fprintf(stderr, "calltap: %u forked %s not set up yet when the recording ended, and %s not recorded\n",
			result->late, counted(result->late, "child was", "children were"),
			counted(result->late, "was", "were"));
	if (result->ended_early)
		fprintf(stderr, "calltap: %u forked %s set up, and %s not recorded\n", result->ended_early,
			counted(result->ended_early, "child ended before it was", "children ended before they were"),
			counted(result->ended_early, "was", "were"));
	if (result->unreached && result->kills_forks)
		fprintf(stderr,
			"calltap: %u forked %s not traced: this emulator aborts children that are; "
			"install one without plugins (apt-get install qemu-user-static)\n",
			result->unreached, counted(result->unreached, "child was", "children were"));
	else if (result->unreached)
		fprintf(stderr,
			"calltap: %u forked %s not reach the recorder, for want of time, threads, memory or "
			"descriptors (raise ulimit -n), or from a network namespace of %s own\n",
			result->unreached,
			counted(result->unreached, "child was not traced: it could",
				"children were not traced: they could"),
			counted(result->unreached, "its", "their"));
	if (result->lost)
		fprintf(stderr, "calltap: %llu %s lost%s; a larger buffer (-b) or fewer functions (-l, -n) help\n",
			(unsigned long long)result->lost, counted(result->lost, "record was", "records were"),
			result->shut_in || result->stopped ? ", for no thread waits for the tool in a sandbox (seccomp)"
							   : "");
}

/* Counters are no records, and a flight recorder's are not counted before they are wanted. */
static bool saw_nothing(const struct record_options *options, const struct record_result *result)
{
	return options->pid_count && result->attached_count && result->patched && !result->records &&
	       !result->children && !result->lost && !result->unreached && !result->late && !result->ended_early &&
	       options->tracer->patches && !options->tracer->counts && options->mode != CALLTAP_MODE_OVERWRITE;
}

void recording_summarize(const struct recording *recording, const struct record_result *result)
{
	const struct record_options *options = &recording->settings.options;
	char size[TIMETEXT_MAX];
	double waited_ms = result->ticks_per_ns > 0 ? (double)result->wait_ticks / result->ticks_per_ns / 1e6 : 0;

	if (recording->quiet || !result->ran)
		return;
	recording_tell_losses(result);
	if (saw_nothing(options, result))
		fprintf(stderr,
			"calltap: nothing was recorded, for no traced function was called; a program that waits "
			"calls none, nor does code that is made at run time (Java, JavaScript); functions of "
			"libraries in /usr/lib are traced where -l names them (-l 'libNAME.so*:*')\n");
	if (!options->verbose && !isatty(STDERR_FILENO))
		return;
	fprintf(stderr, "calltap: %llu %s of %u %s in %u %s, %s in %s", (unsigned long long)result->records,
		counted(result->records, "record", "records"), result->threads,
		counted(result->threads, "thread", "threads"), result->processes,
		counted(result->processes, "process", "processes"), sizetext(result->file_bytes, size),
		options->output ? options->output : "no file");
	if (waited_ms >= 1)
		fprintf(stderr, "; threads waited %.0f ms for the tool", waited_ms);
	fprintf(stderr, "\n");
}
