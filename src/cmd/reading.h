/*
 * Options, opening and output of the verbs that read a trace.
 *
 * Callers: replay.c, report.c, graph.c, info.c, export.c, html.c.  Context: host.
 */
#ifndef CMD_READING_H
#define CMD_READING_H

#include <getopt.h>

#include "host/trace/trace.h"
#include "host/view/chosen.h"
#include "host/view/out.h"
#include "host/view/headway.h"
#include "host/view/term.h"
#include "host/view/walk.h"

enum {
	OPTION_HELP = 'h',
	OPTION_INPUT = 'i',
	OPTION_FUNCTION = 'f',
	OPTION_TRACE = 'l',
	OPTION_NOTRACE = 'n',
	OPTION_GRAPH = 'g',
	OPTION_PID = 256,
	OPTION_TID,
	OPTION_TIME,
	OPTION_MIN,
	OPTION_NO_GRAPH,
	OPTION_THREAD,
	OPTION_COLOR,
	OPTION_NO_PAGER,
	OPTION_OWN /* first one of a verb's own options */
};

/* Rows for a verb's table of long options: all verbs, those that print text, those that choose calls. */
#define READING_OPTIONS                                                                                                \
	{"help", no_argument, NULL, OPTION_HELP},                                                                      \
	{                                                                                                              \
		"input", required_argument, NULL, OPTION_INPUT                                                         \
	}
#define TERMINAL_OPTIONS                                                                                               \
	{"color", required_argument, NULL, OPTION_COLOR},                                                              \
	{                                                                                                              \
		"no-pager", no_argument, NULL, OPTION_NO_PAGER                                                         \
	}
#define FILTER_OPTIONS                                                                                                 \
	{"pid", required_argument, NULL, OPTION_PID}, {"tid", required_argument, NULL, OPTION_TID},                    \
		{"time", required_argument, NULL, OPTION_TIME}, {"thread", required_argument, NULL, OPTION_THREAD},    \
		{"trace", required_argument, NULL, OPTION_TRACE},                                                      \
		{"notrace", required_argument, NULL, OPTION_NOTRACE},                                                  \
		{"graph", required_argument, NULL, OPTION_GRAPH},                                                      \
		{"no-graph", required_argument, NULL, OPTION_NO_GRAPH},                                                \
	{                                                                                                              \
		"min", required_argument, NULL, OPTION_MIN                                                             \
	}
#define FUNCTION_OPTION                                                                                                \
	{                                                                                                              \
		"function", required_argument, NULL, OPTION_FUNCTION                                                   \
	}

#define READING_SHORT ":hi:"
#define FILTER_SHORT  "l:n:g:"

#define READING_HELP                                                                                                   \
	"  -i, --input FILE      the trace (default: the newest calltap.data* here)\n"                                 \
	"  -h, --help            this text\n"
#define TERMINAL_HELP                                                                                                  \
	"      --color WHEN      auto, always or never\n"                                                              \
	"      --no-pager        do not start a pager\n"
#define FILTER_HELP                                                                                                    \
	"  -l, --trace FILTER    only these functions, as if no others had been traced\n"                              \
	"  -n, --notrace FILTER  without these functions: their time is their callers' own\n"                          \
	"  -g, --graph FILTER    only calls of these functions and what they call\n"                                   \
	"      --no-graph FILTER neither these functions nor what they call\n"                                         \
	"                        FILTER as for record; may be repeated\n"                                              \
	"      --thread GLOB     only threads with such a name; may be repeated\n"                                     \
	"      --pid PID         only this process\n"                                                                  \
	"      --tid TID         only this thread\n"                                                                   \
	"      --time A..B       only from A to B, in seconds since the start\n"                                       \
	"      --min DURATION    only calls that took as long, as in 10us\n"
#define FUNCTION_HELP "  -f, --function GLOB   only functions of this name\n"

struct reading {
	const char *verb, *help;
	struct calltap_diag diag;
	/* From the options. */
	const char *input;
	struct view_filter filter;
	struct headway headway;
	struct chosen *chosen; /* of `filter`; NULL = all */
	enum term_color color_choice;
	bool no_pager;
	bool done; /* --help was answered */
	/* After reading_open(). */
	struct trace *trace;
	struct term_pager pager;
	struct out *out;
	bool color;
	struct walk walk;
};

void reading_init(struct reading *reading, const char *verb, const char *help);
/* Take an option that is not the verb's own, as getopt_long() returned it; 0 or -EINVAL with diag. */
int reading_option(struct reading *reading, int option, char **argv) __attribute__((warn_unused_result));
/* Refuse more than max words behind the options.  A verb that has none (max = 0) takes the trace's name, instead of -i.
 */
int reading_arguments(struct reading *reading, int argc, char **argv, int max) __attribute__((warn_unused_result));
int reading_open(struct reading *reading) __attribute__((warn_unused_result));
/* As reading_open() of two traces that are compared: a filter may match functions of one of them only. */
int reading_open_pair(struct reading readings[2]) __attribute__((warn_unused_result));
/* Output to the terminal, through the pager unless json. */
int reading_output(struct reading *reading, bool json) __attribute__((warn_unused_result));
/* Have the headway's line taken away before reading->out writes to the terminal. */
void reading_yield(struct reading *reading);
/* Close everything, print errors and losses; returns the exit status. */
int reading_close(struct reading *reading, int err);

#endif
