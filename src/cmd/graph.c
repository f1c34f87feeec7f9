/*
 * `calltap graph`: the merged call tree, or the callers and callees of a
 * function.
 *
 * Caller: main.  Context: host.
 */
#include <unistd.h>

#include "host/view/graph.h"
#include "cmd.h"
#include "host/view/parse.h"
#include "options.h"
#include "reading.h"

static const char help[] =
	"usage: calltap graph [OPTION...] [FUNCTION]\n"
	"Show all calls merged to one tree; with FUNCTION (a glob) what it calls and what calls it.\n\n"
	"      --depth N         only the outer N levels\n"
	"      --min-percent P   only what takes P percent of the whole (default 0.1)\n"
	"      --json            JSON, with times in nanoseconds\n" FILTER_HELP TERMINAL_HELP READING_HELP;

enum { OPTION_DEPTH = OPTION_OWN, OPTION_MIN_PERCENT, OPTION_JSON };

static int read_options(struct reading *reading, struct graph_options *graph, int argc, char **argv)
{
	static const struct option options[] = {{"depth", required_argument, NULL, OPTION_DEPTH},
						{"min-percent", required_argument, NULL, OPTION_MIN_PERCENT},
						{"json", no_argument, NULL, OPTION_JSON},
						FILTER_OPTIONS,
						TERMINAL_OPTIONS,
						READING_OPTIONS,
						{0}};
	uint64_t depth;
	int option, err = 0;

	while (!err && !reading->done &&
	       (option = options_next(argc, argv, READING_SHORT FILTER_SHORT, options)) != -1) {
		switch (option) {
		case OPTION_DEPTH:
			err = parse_number(&depth, optarg, UINT32_MAX, "--depth", &reading->diag);
			graph->depth = err ? 0 : (uint32_t)depth;
			break;
		case OPTION_MIN_PERCENT:
			err = parse_percent(&graph->min_percent, optarg, &reading->diag);
			break;
		case OPTION_JSON:
			graph->json = true;
			break;
		default:
			err = reading_option(reading, option, argv);
		}
	}
	if (!err)
		err = reading_arguments(reading, argc, argv, 1);
	graph->function = argv[optind];
	return err;
}

/* The other verbs take a trace where this one takes a function. */
static int tell_of_file(const char *function, struct calltap_diag *diag, int err)
{
	const struct calltap_diag told = *diag;

	if (!function || access(function, R_OK))
		return err;
	return calltap_diag_set(diag, err, "%.200s; if '%.200s' is the trace, name it by -i", told.text, function);
}

int cmd_graph(int argc, char **argv)
{
	struct graph_options options = {.size = sizeof(options), .min_percent = 0.1};
	struct reading reading;
	int err;

	reading_init(&reading, "graph", help);
	err = read_options(&reading, &options, argc, argv);
	if (err || reading.done)
		return reading_close(&reading, err);
	err = reading_open(&reading);
	if (!err)
		err = reading_output(&reading, options.json);
	options.color = reading.color;
	if (!err)
		err = graph_run(reading.trace, &reading.filter, &options, reading.out, &reading.walk, &reading.diag);
	return reading_close(&reading, err ? tell_of_file(options.function, &reading.diag, err) : 0);
}
