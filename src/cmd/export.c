/*
 * `calltap export`: the trace in other tools' formats.
 *
 * Caller: main.  Context: host.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "host/counted.h"
#include "host/export/export.h"
#include "host/view/parse.h"
#include "cmd.h"
#include "options.h"
#include "output_folder.h"
#include "output.h"
#include "reading.h"

static const char help[] =
	"usage: calltap export --format FORMAT [-o FILE] [OPTION...] [FILE]\n"
	"Write a trace in another tool's format.\n\n"
	"      --format FORMAT   perfetto, chrome, speedscope, folded, callgrind,\n"
	"                        pprof, graphviz, mermaid, ctf, trace.dat, json,\n"
	"                        calls or events\n"
	"  -o, --output FILE     where to (default -: standard output)\n"
	"      --weight WHAT     folded: self (nanoseconds, default) or calls\n"
	"      --min-percent P   graphviz, mermaid: what takes P percent (default 0.5)\n" FUNCTION_HELP FILTER_HELP
		READING_HELP;

enum { OPTION_OUTPUT = 'o', OPTION_FORMAT = OPTION_OWN, OPTION_WEIGHT, OPTION_MIN_PERCENT };

struct export
{
	const struct export_format *format;
	struct export_options options;
	const char *output;
	struct output file;
	struct output_folder folder;
};

static int read_weight(struct export *export, struct calltap_diag *diag)
{
	export->options.weigh_calls = strcmp(optarg, "calls") == 0;
	if (!export->options.weigh_calls && strcmp(optarg, "self") != 0)
		return calltap_diag_set(diag, -EINVAL, "'%s' is no value for --weight: give self or calls", optarg);
	return 0;
}

/* Refuse options that do not go together. */
static int check_format(const struct reading *reading, const struct export *export, struct calltap_diag *diag)
{
	char list[EXPORT_LIST];

	if (!export->format)
		return calltap_diag_set(diag, -EINVAL, "no format: add --format %s", export_list(list, false));
	if (reading->filter.min_ns && !export->format->takes_min)
		return calltap_diag_set(diag, -EINVAL,
					"--min needs the whole call and '%s' begins before its end: use %s",
					export->format->name, export_list(list, true));
	if (export->format->folder && strcmp(export->output, "-") == 0)
		return calltap_diag_set(diag, -EINVAL, "'%s' is a folder of files: add -o FOLDER",
					export->format->name);
	if (export->format->binary && strcmp(export->output, "-") == 0 && isatty(STDOUT_FILENO))
		return calltap_diag_set(diag, -EINVAL, "'%s' is binary and not for the terminal: add -o FILE",
					export->format->name);
	return 0;
}

static int read_options(struct reading *reading, struct export *export, int argc, char **argv)
{
	static const struct option options[] = {{"format", required_argument, NULL, OPTION_FORMAT},
						{"output", required_argument, NULL, OPTION_OUTPUT},
						{"weight", required_argument, NULL, OPTION_WEIGHT},
						{"min-percent", required_argument, NULL, OPTION_MIN_PERCENT},
						FUNCTION_OPTION,
						FILTER_OPTIONS,
						READING_OPTIONS,
						{0}};
	int option, err = 0;

	while (!err && !reading->done &&
	       (option = options_next(argc, argv, READING_SHORT FILTER_SHORT "f:o:", options)) != -1) {
		switch (option) {
		case OPTION_FORMAT:
			err = export_find(&export->format, optarg, &reading->diag);
			break;
		case OPTION_OUTPUT:
			export->output = optarg;
			break;
		case OPTION_WEIGHT:
			err = read_weight(export, &reading->diag);
			break;
		case OPTION_MIN_PERCENT:
			err = parse_percent(&export->options.min_percent, optarg, &reading->diag);
			break;
		default:
			err = reading_option(reading, option, argv);
		}
	}
	if (!err && !reading->done)
		err = reading_arguments(reading, argc, argv, 0);
	return err || reading->done ? err : check_format(reading, export, &reading->diag);
}

static int run_folder(struct reading *reading, struct export *export)
{
	int err = output_folder_open(&export->folder, export->output, &reading->diag);

	if (err)
		return err;
	export->options.folder_fd = export->folder.fd;
	err = export->format->run(reading->trace, &reading->filter, &export->options, NULL, &reading->walk,
				  &reading->diag);
	return output_folder_finish(&export->folder, err, &reading->diag);
}

static int run_export(struct reading *reading, struct export *export)
{
	int err = output_open_public(&export->file, export->output, &reading->diag), flushed;

	if (!err)
		err = out_create(&reading->out, export->file.fd);
	if (!err && strcmp(export->output, "-") == 0)
		reading_yield(reading);
	if (!err)
		err = export->format->run(reading->trace, &reading->filter, &export->options, reading->out,
					  &reading->walk, &reading->diag);
	if (err && reading->out)
		out_discard(reading->out);
	flushed = out_destroy(reading->out);
	reading->out = NULL;
	return output_finish_public(&export->file, err ? err : flushed, &reading->diag);
}

/* The user is told on standard error what a format of sums has no place for. */
static void say_lost(const struct reading *reading, const struct export *export)
{
	const struct view_losses losses = view_filter_losses(&reading->filter, reading->trace);

	if (losses.records)
		fprintf(stderr, "calltap: %s: %llu %s lost, of which '%s' has no word: its counts are too low\n",
			trace_path(reading->trace), (unsigned long long)losses.records,
			counted(losses.records, "record was", "records were"), export->format->name);
	if (losses.overwritten)
		fprintf(stderr,
			"calltap: %s: older records were overwritten, of which '%s' has no word: its counts are "
			"too low\n",
			trace_path(reading->trace), export->format->name);
}

int cmd_export(int argc, char **argv)
{
	struct export export = {
		.options = {.size = sizeof(export.options), .min_percent = 0.5}, .output = "-", .file.fd = -1};
	struct reading reading;
	int err;

	reading_init(&reading, "export", help);
	err = read_options(&reading, &export, argc, argv);
	if (err || reading.done || !export.format)
		return reading_close(&reading, err);
	err = reading_open(&reading);
	if (!err)
		err = export.format->folder ? run_folder(&reading, &export) : run_export(&reading, &export);
	if (!err && export.format->sums)
		say_lost(&reading, &export);
	return reading_close(&reading, err);
}
