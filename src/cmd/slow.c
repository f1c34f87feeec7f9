/*
 * `calltap slow`: what the slow calls of a function do more of than its others.
 *
 * Caller: main.  Context: host.
 */
#include <errno.h>
#include <unistd.h>

#include "host/diff/slow.h"
#include "host/view/parse.h"
#include "cmd.h"
#include "options.h"
#include "reading.h"

static const char help[] =
	"usage: calltap slow [OPTION...] FUNCTION\n"
	"Show what the slow calls of FUNCTION (a glob) do more of than its other calls.\n"
	"Times and numbers (n) in the tree are per call of FUNCTION.\n\n"
	"      --over DURATION   slow is what took longer, as in 10ms (default: the slowest 1 %)\n"
	"      --limit N         lines of the tree (default 10); 0: all\n"
	"      --min-percent P   only what makes P percent of the difference (default 1)\n"
	"      --json            JSON, with times in nanoseconds\n" FILTER_HELP TERMINAL_HELP READING_HELP;

enum { OPTION_OVER = OPTION_OWN, OPTION_LIMIT, OPTION_MIN_PERCENT, OPTION_JSON };

static int read_options(struct reading *reading, struct slow_options *slow, int argc, char **argv)
{
	static const struct option options[] = {{"over", required_argument, NULL, OPTION_OVER},
						{"limit", required_argument, NULL, OPTION_LIMIT},
						{"min-percent", required_argument, NULL, OPTION_MIN_PERCENT},
						{"json", no_argument, NULL, OPTION_JSON},
						FILTER_OPTIONS,
						TERMINAL_OPTIONS,
						READING_OPTIONS,
						{0}};
	int option, err = 0;

	while (!err && !reading->done &&
	       (option = options_next(argc, argv, READING_SHORT FILTER_SHORT, options)) != -1) {
		switch (option) {
		case OPTION_OVER:
			err = parse_duration(&slow->over_ns, optarg, &reading->diag);
			break;
		case OPTION_LIMIT:
			err = parse_number(&slow->limit, optarg, UINT32_MAX, "--limit", &reading->diag);
			break;
		case OPTION_MIN_PERCENT:
			err = parse_percent(&slow->min_percent, optarg, &reading->diag);
			break;
		case OPTION_JSON:
			slow->json = true;
			break;
		default:
			err = reading_option(reading, option, argv);
		}
	}
	if (err || reading->done)
		return err;
	err = reading_arguments(reading, argc, argv, 1);
	slow->function = argv[optind];
	if (!err && !slow->function)
		err = calltap_diag_set(&reading->diag, -EINVAL,
				       "no function is named: 'calltap slow FUNCTION', and 'calltap report --sort max' "
				       "lists those with the longest calls");
	return err;
}

int cmd_slow(int argc, char **argv)
{
	struct slow_options options = {.size = sizeof(options), .over_ns = UINT64_MAX, .limit = 10, .min_percent = 1};
	struct reading reading;
	struct slow slow = {0};
	int err;

	reading_init(&reading, "slow", help);
	err = read_options(&reading, &options, argc, argv);
	if (err || reading.done)
		return reading_close(&reading, err);
	err = reading_open(&reading);
	if (!err)
		err = slow_run(&slow, reading.trace, &reading.filter, &options, &reading.diag);
	if (!err)
		err = reading_output(&reading, options.json);
	options.color = reading.color;
	options.width = term_width(STDOUT_FILENO);
	if (!err)
		err = slow_print(&slow, &options, reading.out);
	reading.walk.damages = slow.damages;
	reading.walk.damage = slow.damage;
	slow_clear(&slow);
	return reading_close(&reading, err);
}
