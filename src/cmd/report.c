/*
 * `calltap report`: calls and times by function, object, thread, or a value of calls.
 *
 * Caller: main.  Context: host.
 */
#include <unistd.h>

#include "host/view/report.h"
#include "cmd.h"
#include "host/view/parse.h"
#include "options.h"
#include "reading.h"

static const char help[] = "usage: calltap report [OPTION...] [FILE]\n"
			   "Show calls, times and percentiles of a trace.\n\n"
			   "      --by WHAT         function (default), object, thread, 'FUNCTION(ARGUMENT)'\n"
			   "                        or 'FUNCTION:=', its result\n"
			   "      --sort COLUMN     calls, total (default), self, min, avg, p50, p99, max or name\n"
			   "      --limit N         only the first N rows\n"
			   "      --source          source file and line of each function\n"
			   "      --json            JSON, with times in nanoseconds\n" FUNCTION_HELP FILTER_HELP
				   TERMINAL_HELP READING_HELP;

enum { OPTION_BY = OPTION_OWN, OPTION_SORT, OPTION_LIMIT, OPTION_SOURCE, OPTION_JSON };

static int read_options(struct reading *reading, struct report_options *report, int argc, char **argv)
{
	static const struct option options[] = {{"by", required_argument, NULL, OPTION_BY},
						{"sort", required_argument, NULL, OPTION_SORT},
						{"limit", required_argument, NULL, OPTION_LIMIT},
						{"source", no_argument, NULL, OPTION_SOURCE},
						{"json", no_argument, NULL, OPTION_JSON},
						FUNCTION_OPTION,
						FILTER_OPTIONS,
						TERMINAL_OPTIONS,
						READING_OPTIONS,
						{0}};
	int option, err = 0;

	while (!err && !reading->done &&
	       (option = options_next(argc, argv, READING_SHORT FILTER_SHORT "f:", options)) != -1) {
		switch (option) {
		case OPTION_BY:
			err = report_parse_by(&report->by, &report->value, optarg, &reading->diag);
			break;
		case OPTION_SORT:
			err = report_parse_sort(&report->sort, optarg, &reading->diag);
			break;
		case OPTION_LIMIT:
			err = parse_number(&report->limit, optarg, UINT32_MAX, "--limit", &reading->diag);
			break;
		case OPTION_SOURCE:
			report->source = true;
			break;
		case OPTION_JSON:
			report->json = true;
			break;
		default:
			err = reading_option(reading, option, argv);
		}
	}
	return err ? err : reading_arguments(reading, argc, argv, 0);
}

int cmd_report(int argc, char **argv)
{
	struct report_options options = {.size = sizeof(options), .sort = REPORT_TOTAL};
	struct report report = {0};
	struct reading reading;
	int err;

	reading_init(&reading, "report", help);
	err = read_options(&reading, &options, argc, argv);
	if (err || reading.done) {
		by_value_destroy(options.value);
		return reading_close(&reading, err);
	}
	err = reading_open(&reading);
	if (!err)
		err = report_run(&report, reading.trace, &reading.filter, &options, &reading.diag);
	if (!err)
		err = reading_output(&reading, options.json);
	options.color = reading.color;
	options.width = term_width(STDOUT_FILENO);
	if (!err)
		report_print(&report, &options, reading.out);
	reading.walk.damages = report.damages;
	reading.walk.damage = report.damage;
	report_clear(&report);
	by_value_destroy(options.value);
	return reading_close(&reading, err);
}
