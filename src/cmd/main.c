/*
 * The `calltap` command: finds the verb and runs it.  Context: host.
 */
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "cmd.h"
#include "complete.h"
#include "options.h"
#include "stack.h"

struct verb {
	const char *name;
	int (*run)(int argc, char **argv);
	const char *summary;
};

static const struct verb verbs[] = {
	{"record", cmd_record, "run a program and record its calls"},
	{"attach", cmd_attach, "record processes that run already"},
	{"serve", cmd_serve, "attach for handlers of the program's own (libcalltap starts it)"},
	{"top", cmd_top, "a table of the functions that run most, while they run"},
	{"count", cmd_count, "count calls by what they are made with"},
	{"live", cmd_live, "show calls as text while they happen"},
	{"mount", cmd_mount, "the files of the kernel's tracefs, for a program"},
	{"shell", cmd_shell, "a shell, or a command, in which /sys/kernel/tracing is a program's"},
	{"status", cmd_status, "what is traced now, and how"},
	{"set", cmd_set, "show or change the settings of a recording while it runs"},
	{"mark", cmd_mark, "write a text into the trace of a process"},
	{"snapshot", cmd_snapshot, "write what a flight recorder holds to a trace"},
	{"detach", cmd_detach, "end the recording of a process, which runs on"},
	{"load", cmd_load, "load a library of handlers into a process that runs"},
	{"replay", cmd_replay, "show a trace as text, call by call"},
	{"report", cmd_report, "calls and times by function, object or thread"},
	{"graph", cmd_graph, "the merged call tree, or callers and callees of a function"},
	{"diff", cmd_diff, "what changed between two traces, or two parts of one"},
	{"slow", cmd_slow, "what the slow calls of a function do more of than its others"},
	{"info", cmd_info, "what a trace is of"},
	{"functions", cmd_functions, "what can be traced in a program"},
	{"export", cmd_export, "write a trace for Perfetto, pprof, trace-cmd, flame graphs and others"},
	{"html", cmd_html, "a trace as one page for a browser: time line, flame graph, table"},
	{"tui", cmd_tui, "walk in a trace on the terminal: tree, table, callers, calls, source"},
};

#define VERBS (sizeof(verbs) / sizeof(verbs[0]))

static void print_help(FILE *stream)
{
	fputs("usage: calltap VERB [OPTION...]\n"
	      "       calltap --help | --version | --completion SHELL\n\n"
	      "Records the function calls of a program and shows them.\n\n",
	      stream);
	for (size_t i = 0; i < VERBS; i++)
		fprintf(stream, "  %-10s %s\n", verbs[i].name, verbs[i].summary);
	fputs("\n'calltap VERB --help' lists a verb's options; the man page is calltap-VERB(1).\n", stream);
}

static int complete(int count, char **words)
{
	struct complete_verb all[VERBS];

	for (size_t i = 0; i < VERBS; i++)
		all[i] = (struct complete_verb){verbs[i].name, verbs[i].summary};
	return complete_words(all, VERBS, count, words);
}

static void refuse(const char *word)
{
	struct nearest nearest = {0};

	for (size_t i = 0; i < VERBS; i++)
		options_near(&nearest, word, verbs[i].name);
	if (options_nearest(&nearest))
		fprintf(stderr, "calltap: '%s' is no verb; is it '%s'? 'calltap --help' lists the verbs\n", word,
			options_nearest(&nearest));
	else
		fprintf(stderr, "calltap: '%s' is no %s: 'calltap --help' lists the verbs\n", word,
			word[0] == '-' ? "option" : "verb");
}

static int run_verb(const char *name, int argc, char **argv)
{
	for (size_t i = 0; i < VERBS; i++)
		if (strcmp(name, verbs[i].name) == 0)
			return stack_run(verbs[i].run, argc, argv);
	refuse(name);
	return 1;
}

int main(int argc, char **argv)
{
	if (argc < 2) {
		print_help(stderr);
		return 1;
	}
	if (strcmp(argv[1], "help") == 0 && argc > 2)
		return run_verb(argv[2], 2, (char *[]){argv[2], (char[]){"--help"}, NULL});
	if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0 || strcmp(argv[1], "help") == 0) {
		print_help(stdout);
		return 0;
	}
	if (strcmp(argv[1], "--version") == 0 || strcmp(argv[1], "-V") == 0) {
		puts("calltap " CALLTAP_VERSION);
		return 0;
	}
	if (strcmp(argv[1], "--completion") == 0)
		return complete_script(argc > 2 ? argv[2] : NULL);
	if (strcmp(argv[1], "--complete") == 0)
		return complete(argc - 2, argv + 2);
	return run_verb(argv[1], argc - 1, argv + 1);
}
