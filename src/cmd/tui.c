/*
 * `calltap tui`: walk in a trace on the terminal.
 *
 * Caller: main.  Context: host.
 */
#include <errno.h>
#include <unistd.h>

#include "host/terminal/terminal.h"
#include "host/tui/run.h"
#include "cmd.h"
#include "options.h"
#include "reading.h"

static const char help[] = "usage: calltap tui [OPTION...] [FILE]\n"
			   "Walk in a trace: its call tree, its functions, their callers, calls and source lines.\n\n"
			   "      --color WHEN      auto, always or never\n" FUNCTION_HELP FILTER_HELP READING_HELP
			   "\nIn it: h lists the keys, q ends it.\n";

static int read_options(struct reading *reading, int argc, char **argv)
{
	static const struct option options[] = {{"color", required_argument, NULL, OPTION_COLOR},
						FUNCTION_OPTION,
						FILTER_OPTIONS,
						READING_OPTIONS,
						{0}};
	int option, err = 0;

	while (!err && !reading->done &&
	       (option = options_next(argc, argv, READING_SHORT FILTER_SHORT "f:", options)) != -1)
		err = reading_option(reading, option, argv);
	return err || reading->done ? err : reading_arguments(reading, argc, argv, 0);
}

int cmd_tui(int argc, char **argv)
{
	struct reading reading;
	int err;

	reading_init(&reading, "tui", help);
	err = read_options(&reading, argc, argv);
	if (err || reading.done)
		return reading_close(&reading, err);
	if (!isatty(STDIN_FILENO) || !isatty(STDOUT_FILENO))
		err = calltap_diag_set(&reading.diag, -ENOTTY, "'calltap tui' needs a terminal: " TUI_INSTEAD);
	else if (terminal_is_dumb(TUI_INSTEAD, &reading.diag))
		err = -ENOTTY;
	if (!err)
		err = reading_open(&reading);
	headway_end(&reading.headway); /* the screen is the view's from here on */
	if (!err)
		err = tui_run(reading.trace, &reading.filter, term_wants_color(reading.color_choice, STDOUT_FILENO),
			      &reading.walk, &reading.diag);
	return reading_close(&reading, err);
}
