/*
 * `calltap html`: the trace as one page for a browser.
 *
 * Caller: main.  Context: host.
 */
#include <errno.h>
#include <string.h>

#include "cmd.h"
#include "options.h"
#include "page.h"
#include "reading.h"

static const char help[] =
	"usage: calltap html [-o FILE] [--diff AFTER] [OPTION...] [FILE]\n"
	"Write a trace as one page for a browser: time line, flame graph and table.\n\n"
	"  -o, --output FILE     where to (default: calltap.html; -: standard output)\n"
	"      --diff AFTER      what changed from the trace to this one, as diff tells it\n"
	"      --open            show the page in a browser\n" FUNCTION_HELP FILTER_HELP READING_HELP;

enum { OPTION_OPEN = OPTION_OWN, OPTION_DIFF };

/* The page's trace, and the one that it is compared with: options that choose calls are of both. */
enum { SHOWN, AFTER, READINGS };

static int take_shared(struct reading readings[READINGS], int option, char **argv)
{
	int err = reading_option(&readings[SHOWN], option, argv);

	return err || readings[SHOWN].done || option == OPTION_INPUT ? err
								     : reading_option(&readings[AFTER], option, argv);
}

static int read_options(struct reading readings[READINGS], const char **output, bool *opens, int argc, char **argv)
{
	static const struct option options[] = {{"output", required_argument, NULL, 'o'},
						{"open", no_argument, NULL, OPTION_OPEN},
						{"diff", required_argument, NULL, OPTION_DIFF},
						FUNCTION_OPTION,
						FILTER_OPTIONS,
						READING_OPTIONS,
						{0}};
	struct reading *reading = &readings[SHOWN];
	int option, err = 0;

	while (!err && !reading->done &&
	       (option = options_next(argc, argv, READING_SHORT FILTER_SHORT "f:o:", options)) != -1) {
		if (option == 'o')
			*output = optarg;
		else if (option == OPTION_OPEN)
			*opens = true;
		else if (option == OPTION_DIFF)
			readings[AFTER].input = optarg;
		else
			err = take_shared(readings, option, argv);
	}
	if (!err && !reading->done && *opens && !strcmp(*output, "-"))
		err = calltap_diag_set(
			&reading->diag, -EINVAL,
			"a browser cannot open standard output: name a file with -o, or leave --open out");
	return err || reading->done ? err : reading_arguments(reading, argc, argv, 0);
}

int cmd_html(int argc, char **argv)
{
	const char *output = "calltap.html";
	bool opens = false, named = false, compares;
	struct reading readings[READINGS];
	int err, status;

	reading_init(&readings[SHOWN], "html", help);
	reading_init(&readings[AFTER], "html", help);
	readings[AFTER].filter.headway = &readings[SHOWN].headway;
	err = read_options(readings, &output, &opens, argc, argv);
	compares = readings[AFTER].input;
	if (!err && !readings[SHOWN].done) {
		err = compares ? reading_open_pair(readings) : reading_open(&readings[SHOWN]);
		if (!err)
			err = page_write(&readings[SHOWN], compares ? &readings[AFTER] : NULL, output, &named);
	}
	readings[AFTER].done |= readings[SHOWN].done;
	status = reading_close(&readings[SHOWN], err);
	status = reading_close(&readings[AFTER], 0) || status;
	if (named)
		page_tell(output, opens);
	return status;
}
