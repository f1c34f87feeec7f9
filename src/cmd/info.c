/*
 * `calltap info`: what a trace is of.
 *
 * Caller: main.  Context: host.
 */
#include "host/view/info.h"
#include "cmd.h"
#include "options.h"
#include "reading.h"

static const char help[] = "usage: calltap info [OPTION...] [FILE]\n"
			   "Show what a trace is of: program, machine, clock, threads, sizes, losses.\n\n"
			   "      --json            JSON\n" TERMINAL_HELP READING_HELP;

enum { OPTION_JSON = OPTION_OWN };

static int read_options(struct reading *reading, bool *json, int argc, char **argv)
{
	static const struct option options[] = {
		{"json", no_argument, NULL, OPTION_JSON}, TERMINAL_OPTIONS, READING_OPTIONS, {0}};
	int option, err = 0;

	while (!err && !reading->done && (option = options_next(argc, argv, READING_SHORT, options)) != -1) {
		if (option == OPTION_JSON)
			*json = true;
		else
			err = reading_option(reading, option, argv);
	}
	return err ? err : reading_arguments(reading, argc, argv, 0);
}

int cmd_info(int argc, char **argv)
{
	struct reading reading;
	bool json = false;
	int err;

	reading_init(&reading, "info", help);
	err = read_options(&reading, &json, argc, argv);
	if (err || reading.done)
		return reading_close(&reading, err);
	err = reading_open(&reading);
	if (!err)
		err = reading_output(&reading, json);
	if (!err)
		err = info_print(reading.trace, &reading.headway, json, reading.color, reading.out, &reading.diag);
	return reading_close(&reading, err);
}
