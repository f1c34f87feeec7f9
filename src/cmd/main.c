/*
 * The `calltap` command: finds the verb and runs it.  Context: host.
 */
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "cmd.h"

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
	{"live", cmd_live, "show calls as text while they happen"},
	{"status", cmd_status, "what is traced now, and how"},
	{"set", cmd_set, "show or change the settings of a recording while it runs"},
	{"mark", cmd_mark, "write a text into the trace of a process"},
	{"snapshot", cmd_snapshot, "write what a flight recorder holds to a trace"},
	{"detach", cmd_detach, "end the recording of a process, which runs on"},
	{"load", cmd_load, "load a library of handlers into a process that runs"},
	{"replay", cmd_replay, "show a trace as text, call by call"},
	{"report", cmd_report, "calls and times by function, object or thread"},
	{"graph", cmd_graph, "the merged call tree, or callers and callees of a function"},
	{"info", cmd_info, "what a trace is of"},
	{"functions", cmd_functions, "what can be traced in a program"},
	{"export", cmd_export, "write a trace for Perfetto, Chrome, flame graphs or scripts"},
	{"html", cmd_html, "a trace as one page for a browser: time line, flame graph, table"},
};

#define VERBS (sizeof(verbs) / sizeof(verbs[0]))

static void print_help(FILE *stream)
{
	fputs("usage: calltap VERB [OPTION...]\n"
	      "       calltap --help | --version\n\n"
	      "Records the function calls of a program and shows them.\n\n",
	      stream);
	for (size_t i = 0; i < VERBS; i++)
		fprintf(stream, "  %-10s %s\n", verbs[i].name, verbs[i].summary);
	fputs("\n'calltap VERB --help' lists a verb's options; the man page is calltap-VERB(1).\n", stream);
}

int main(int argc, char **argv)
{
	if (argc < 2) {
		print_help(stderr);
		return 1;
	}
	if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0 || strcmp(argv[1], "help") == 0) {
		print_help(stdout);
		return 0;
	}
	if (strcmp(argv[1], "--version") == 0 || strcmp(argv[1], "-V") == 0) {
		puts("calltap " CALLTAP_VERSION);
		return 0;
	}
	for (size_t i = 0; i < VERBS; i++) {
		if (strcmp(argv[1], verbs[i].name) == 0)
			return verbs[i].run(argc - 1, argv + 1);
	}
	fprintf(stderr, "calltap: '%s' is no %s: 'calltap --help' lists the verbs\n", argv[1],
		argv[1][0] == '-' ? "option" : "verb");
	return 1;
}
