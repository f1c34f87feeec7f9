/*
 * `calltap replay`: the trace as text, as the kernel's tracers print theirs.
 *
 * Caller: main.  Context: host.
 */
#include "cmd.h"
#include "host/view/parse.h"
#include "host/view/replay.h"
#include "reading.h"

static const char help[] =
	"usage: calltap replay [OPTION...]\n"
	"Show a trace call by call, as the kernel's function_graph and function tracers do.\n\n"
	"      --abstime         a column with the time of each line\n"
	"      --proc            a column with the process\n"
	"      --depth N         only the outer N levels of calls\n"
	"      --source          source file and line of each function\n"
	"      --tail            the function's name at each closing brace\n" FUNCTION_HELP FILTER_HELP TERMINAL_HELP
		READING_HELP;

enum { OPTION_ABSTIME = OPTION_OWN, OPTION_PROC, OPTION_DEPTH, OPTION_SOURCE, OPTION_TAIL };

static int read_options(struct reading *reading, struct replay_options *replay, int argc, char **argv)
{
	static const struct option options[] = {{"abstime", no_argument, NULL, OPTION_ABSTIME},
						{"proc", no_argument, NULL, OPTION_PROC},
						{"depth", required_argument, NULL, OPTION_DEPTH},
						{"source", no_argument, NULL, OPTION_SOURCE},
						{"tail", no_argument, NULL, OPTION_TAIL},
						FUNCTION_OPTION,
						FILTER_OPTIONS,
						TERMINAL_OPTIONS,
						READING_OPTIONS,
						{0}};
	uint64_t depth;
	int option, err = 0;

	while (!err && !reading->done && (option = getopt_long(argc, argv, READING_SHORT "f:", options, NULL)) != -1) {
		switch (option) {
		case OPTION_ABSTIME:
			replay->abstime = true;
			break;
		case OPTION_PROC:
			replay->proc = true;
			break;
		case OPTION_DEPTH:
			err = parse_number(&depth, optarg, UINT32_MAX, "--depth", &reading->diag);
			replay->depth = err ? 0 : (uint32_t)depth;
			break;
		case OPTION_SOURCE:
			replay->source = true;
			break;
		case OPTION_TAIL:
			replay->tail = true;
			break;
		default:
			err = reading_option(reading, option, argv);
		}
	}
	return err ? err : reading_arguments(reading, argc, argv, 0);
}

int cmd_replay(int argc, char **argv)
{
	struct replay_options replay = {.size = sizeof(replay)};
	struct reading reading;
	int err;

	reading_init(&reading, "replay", help);
	err = read_options(&reading, &replay, argc, argv);
	if (err || reading.done)
		return reading_close(&reading, err);
	err = reading_open(&reading);
	if (!err)
		err = reading_output(&reading, false);
	replay.color = reading.color;
	if (!err)
		err = replay_run(reading.trace, &reading.filter, &replay, reading.out, &reading.walk, &reading.diag);
	return reading_close(&reading, err);
}
