/*
 * `calltap html`: the trace as one page for a browser.
 *
 * Caller: main.  Context: host.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "host/html/html.h"
#include "host/text.h"
#include "cmd.h"
#include "output.h"
#include "reading.h"

static const char help[] =
	"usage: calltap html [-o FILE] [OPTION...] [FILE]\n"
	"Write a trace as one page for a browser: time line, flame graph and table.\n\n"
	"  -o, --output FILE     where to (default: calltap.html; -: standard output)\n" FUNCTION_HELP FILTER_HELP
		READING_HELP;

static int read_options(struct reading *reading, const char **output, int argc, char **argv)
{
	static const struct option options[] = {
		{"output", required_argument, NULL, 'o'}, FUNCTION_OPTION, FILTER_OPTIONS, READING_OPTIONS, {0}};
	int option, err = 0;

	while (!err && !reading->done &&
	       (option = getopt_long(argc, argv, READING_SHORT "f:o:", options, NULL)) != -1) {
		if (option == 'o')
			*output = optarg;
		else
			err = reading_option(reading, option, argv);
	}
	return err || reading->done ? err : reading_arguments(reading, argc, argv, 0);
}

static int run(struct reading *reading, const char *path)
{
	struct output output;
	struct stat file;
	char size[TIMETEXT_MAX];
	int err = output_open_public(&output, path, &reading->diag), flushed;

	if (err)
		return err;
	err = out_create(&reading->out, output.fd);
	if (!err)
		err = html_write(reading->trace, &reading->filter, reading->out, &reading->walk, &reading->diag);
	if (err && reading->out)
		out_discard(reading->out);
	flushed = out_destroy(reading->out);
	reading->out = NULL;
	err = output_finish_public(&output, err ? err : flushed, &reading->diag);
	if (!err && output.temporary[0] && stat(path, &file) == 0)
		fprintf(stderr, "calltap: %s (%s) is to be opened in a browser\n", path,
			sizetext((uint64_t)file.st_size, size));
	return err;
}

int cmd_html(int argc, char **argv)
{
	const char *output = "calltap.html";
	struct reading reading;
	int err;

	reading_init(&reading, "html", help);
	err = read_options(&reading, &output, argc, argv);
	if (err || reading.done)
		return reading_close(&reading, err);
	err = reading_open(&reading);
	if (!err)
		err = run(&reading, output);
	return reading_close(&reading, err);
}
