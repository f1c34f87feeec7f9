/*
 * `calltap replay`: the trace as text, as the kernel's tracers print theirs.
 *
 * Caller: main.  Context: host.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "cmd.h"
#include "host/core/core.h"
#include "host/view/parse.h"
#include "host/view/replay.h"
#include "options.h"
#include "reading.h"

static const char help[] =
	"usage: calltap replay [OPTION...] [FILE]\n"
	"Show a trace call by call, as the kernel's function_graph and function tracers do.\n\n"
	"      --core FILE       the trace is a flight recorder's, in this core file\n"
	"      --buffers DIR     or in these files, which record --buffer-dir has left\n"
	"  -o, --output FILE     keep that trace in FILE, for the other commands\n"
	"      --column LIST     columns before the calls, as in time,thread,duration; help: their names\n"
	"      --abstime         a column with the time of each line\n"
	"      --proc            a column with the process\n"
	"      --depth N         only the outer N levels of calls\n"
	"      --all-levels      a line for each call that was open when the trace began\n"
	"      --source          source file and line of each function\n"
	"      --tail            the function's name at each closing brace\n" FUNCTION_HELP FILTER_HELP TERMINAL_HELP
		READING_HELP;

enum {
	OPTION_ABSTIME = OPTION_OWN,
	OPTION_PROC,
	OPTION_DEPTH,
	OPTION_ALL_LEVELS,
	OPTION_SOURCE,
	OPTION_TAIL,
	OPTION_CORE,
	OPTION_BUFFERS,
	OPTION_COLUMN
};

/* The source that a trace is to be put together from. */
struct remains {
	const char *core, *buffers, *output;
	int fd;
	char path[64];
};

/* Put the trace together and make it the trace to read: in the file that was named, else in memory. */
static int recover_trace(struct remains *remains, struct reading *reading)
{
	const char *output = remains->output;
	struct core_result result;

	if (!remains->core && !remains->buffers && !output)
		return 0;
	if (!remains->core == !remains->buffers || reading->input)
		return calltap_diag_set(&reading->diag, -EINVAL,
					"name one source: -i TRACE, --core FILE or --buffers DIR; -o goes with the "
					"latter two");
	remains->fd = output ? open(output, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600)
			     : memfd_create("calltap-trace", MFD_CLOEXEC);
	if (remains->fd < 0)
		return calltap_diag_set(&reading->diag, -errno, "cannot write the trace %s: %s",
					output ? output : "in memory", strerror(errno));
	snprintf(remains->path, sizeof(remains->path), "/proc/self/fd/%d", remains->fd);
	reading->input = output ? output : remains->path;
	return remains->core ? core_read_file(remains->core, remains->fd, &result, &reading->diag)
			     : core_read_folder(remains->buffers, remains->fd, &result, &reading->diag);
}

static int read_columns(struct reading *reading, struct replay_options *replay)
{
	int err;

	if (strcmp(optarg, "help") != 0)
		return replay_columns_parse(&replay->columns, optarg, &reading->diag);
	err = out_create(&reading->out, STDOUT_FILENO);
	if (!err)
		replay_columns_help(reading->out);
	reading->done = true;
	return err;
}

static int read_options(struct reading *reading, struct replay_options *replay, struct remains *remains, int argc,
			char **argv)
{
	static const struct option options[] = {{"abstime", no_argument, NULL, OPTION_ABSTIME},
						{"proc", no_argument, NULL, OPTION_PROC},
						{"depth", required_argument, NULL, OPTION_DEPTH},
						{"all-levels", no_argument, NULL, OPTION_ALL_LEVELS},
						{"source", no_argument, NULL, OPTION_SOURCE},
						{"tail", no_argument, NULL, OPTION_TAIL},
						{"core", required_argument, NULL, OPTION_CORE},
						{"buffers", required_argument, NULL, OPTION_BUFFERS},
						{"column", required_argument, NULL, OPTION_COLUMN},
						{"output", required_argument, NULL, 'o'},
						FUNCTION_OPTION,
						FILTER_OPTIONS,
						TERMINAL_OPTIONS,
						READING_OPTIONS,
						{0}};
	uint64_t depth;
	int option, err = 0;

	while (!err && !reading->done &&
	       (option = options_next(argc, argv, READING_SHORT FILTER_SHORT "f:o:", options)) != -1) {
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
		case OPTION_ALL_LEVELS:
			replay->all_levels = true;
			break;
		case OPTION_SOURCE:
			replay->source = true;
			break;
		case OPTION_TAIL:
			replay->tail = true;
			break;
		case OPTION_CORE:
			remains->core = optarg;
			break;
		case OPTION_BUFFERS:
			remains->buffers = optarg;
			break;
		case OPTION_COLUMN:
			err = read_columns(reading, replay);
			break;
		case 'o':
			remains->output = optarg;
			break;
		default:
			err = reading_option(reading, option, argv);
		}
	}
	if (!err && replay->columns.chosen && (replay->abstime || replay->proc))
		err = calltap_diag_set(&reading->diag, -EINVAL,
				       "--column has all columns: put time and process into its list, in place of "
				       "--abstime and --proc");
	return err ? err : reading_arguments(reading, argc, argv, 0);
}

int cmd_replay(int argc, char **argv)
{
	struct replay_options replay = {.size = sizeof(replay)};
	struct remains remains = {.fd = -1};
	struct reading reading;
	int err;

	reading_init(&reading, "replay", help);
	err = read_options(&reading, &replay, &remains, argc, argv);
	if (err || reading.done)
		return reading_close(&reading, err);
	err = recover_trace(&remains, &reading);
	if (!err)
		err = reading_open(&reading);
	if (!err)
		err = reading_output(&reading, false);
	replay.color = reading.color;
	if (!err)
		err = replay_run(reading.trace, &reading.filter, &replay, reading.out, &reading.walk, &reading.diag);
	if (remains.fd >= 0)
		close(remains.fd);
	return reading_close(&reading, err);
}
