/*
 * `calltap count`: how often a function is called, by what it is called with.
 *
 * Caller: main.  Context: host.  The target counts (abi/maps.h); the session has a trace without records, which tells
 * functions' names and what the values are.  The session runs in a thread of its own (watching.h).
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <calltap/abi/control.h>
#include <host/elf/filter.h>
#include <host/now.h>
#include <host/trace/trace.h>
#include <host/values/values.h>
#include <host/view/counted_calls.h>
#include <host/view/out.h>
#include <host/view/parse.h>

#include "cmd.h"
#include "watching.h"

#define BUFFER_BYTES (64u << 10) /* nothing is recorded */
#define STEP_MS	     10

struct counts_of {
	struct watching watching;
	struct counted_options options;
	const char *sum;      /* what is added up, NULL = nothing */
	const char *until;    /* where times end, NULL = calls are counted */
	const char *output;   /* the table's file, NULL = standard output */
	uint64_t duration_ns; /* 0 = until the end */
	char path[32];
	int fd; /* where the table goes */
};

static void print_help(void)
{
	fputs("usage: calltap count [OPTION...] 'FUNCTION[: VALUE]' PID...\n"
	      "       calltap count [OPTION...] 'FUNCTION[: VALUE]' -- COMMAND [ARGUMENT...]\n"
	      "Count calls by what they are made with, in the program itself, and print a table at the end.\n\n"
	      "VALUE is an argument's name or what it leads to (req->hosts[0]->name), or ret, the result, as debug\n"
	      "information or glibc's headers tell it, or VALUES as record --args and --result take them, such as\n"
	      "'path=arg1:string'.\n\n",
	      stdout);
	recording_print_options(RECORDING_COUNT);
}

static int take_option(struct counts_of *counts, int code)
{
	struct calltap_diag diag = {.column = -1};

	switch (code) {
	case OPT_DURATION:
		if (!parse_duration(&counts->duration_ns, optarg, &diag))
			return 0;
		break;
	case OPT_HIST:
		if (!counted_take_hist(&counts->options, optarg, &diag))
			return 0;
		break;
	case OPT_KEEP:
		counts->options.newest = !strcmp(optarg, "newest");
		if (counts->options.newest || !strcmp(optarg, "first"))
			return 0;
		(void)calltap_diag_set(&diag, -EINVAL, "--keep takes first or newest, and not '%s'", optarg);
		break;
	case OPT_SUM:
		counts->sum = optarg;
		counts->options.sums = true;
		return 0;
	case OPT_UNTIL:
		counts->until = optarg;
		return 0;
	case 'o':
		counts->output = optarg;
		return 0;
	case OPT_JSON:
		counts->options.json = true;
		return 0;
	default:
		return recording_take(&counts->watching.recording, code, optarg);
	}
	calltap_diag_print(&diag, stderr);
	return EXIT_USAGE;
}

/* Take the word that says which calls are counted, and by what.  Options before it may have given conditions. */
static int take_what(struct counts_of *counts, const char *text)
{
	struct record_options *options = &counts->watching.recording.settings.options;
	const struct values_counting how = {.by = text,
					    .sum = counts->sum,
					    .buckets = counts->options.buckets,
					    .newest = counts->options.newest,
					    .until = counts->until};
	struct calltap_diag diag = {.column = -1};
	const char *functions[2];
	int ret;

	if (!options->values && values_create(&options->values))
		return EXIT_USAGE;
	ret = values_count(options->values, &how, functions, &diag);
	for (int i = 0; i < 2 && !ret && functions[i]; i++)
		ret = filter_set_add(options->filters, FILTER_TRACE, functions[i], &diag);
	if (!ret) {
		counts->options.from = text;
		counts->options.until = counts->until;
		return 0;
	}
	calltap_diag_print(&diag, stderr);
	return EXIT_USAGE;
}

/* The words behind the options: what to count, then as in other verbs. */
static int take_words(struct counts_of *counts, int argc, char **argv)
{
	struct record_options *options = &counts->watching.recording.settings.options;
	bool command = optind > 1 && strcmp(argv[optind - 1], "--") == 0;
	int ret;

	if (!argv[optind]) {
		fputs("calltap: there is nothing to count; as in: calltap count 'write: fd' -- COMMAND\n", stderr);
		return EXIT_USAGE;
	}
	ret = take_what(counts, argv[optind]);
	/* "count WHAT -- COMMAND" is "-- WHAT COMMAND" by now. */
	if (command)
		argv[optind] = argv[optind - 1];
	optind++;
	if (!ret)
		ret = watching_target(&counts->watching, argc, argv, "count 'FUNCTION: VALUE'");
	/*
	 * Nothing is recorded; but a thread waits for its ring, without which no return comes by.  A process that was
	 * not started for this waits for nothing: calls that come without a ring are told of.
	 */
	if (!ret && !counts->watching.pids && values_count_returns(options->values))
		options->mode = CALLTAP_MODE_BLOCK;
	return ret;
}

static int refuse_traced(struct watching *watching)
{
	int ret = watching_join(watching);

	if (ret || !watching_joins(watching))
		return ret;
	fprintf(stderr, "calltap: %s is traced already, and calls can be counted in one that is not; detach first\n",
		watching->what);
	return EXIT_USAGE;
}

/* Before anything runs: what is measured for hours is to have a place. */
static int open_output(struct counts_of *counts)
{
	counts->fd = STDOUT_FILENO;
	if (!counts->output)
		return 0;
	counts->fd = open(counts->output, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
	if (counts->fd >= 0)
		return 0;
	fprintf(stderr, "calltap: cannot write the table to '%s': %s\n", counts->output, strerror(errno));
	return EXIT_USAGE;
}

/* The session's trace: it is gone with this process, however that ends. */
static int make_trace(struct counts_of *counts)
{
	struct watching *watching = &counts->watching;

	watching->memory = memfd_create("calltap-count", MFD_CLOEXEC);
	if (watching->memory < 0) {
		fprintf(stderr, "calltap: cannot make memory for what is known of the program: %s\n", strerror(errno));
		return EXIT_USAGE;
	}
	snprintf(counts->path, sizeof(counts->path), "/proc/self/fd/%d", watching->memory);
	watching->recording.settings.options.output = counts->path;
	return 0;
}

/* Until the program ends, or for the time that was asked for, from when it is traced. */
static void wait_for_end(struct counts_of *counts)
{
	struct watching *watching = &counts->watching;
	struct pollfd done = {watching->done, POLLIN, 0};
	uint64_t began = 0;

	while (!watching_ended(watching)) {
		(void)poll(&done, 1, counts->duration_ns ? STEP_MS : -1);
		if (!began && record_live_traces(watching->live))
			began = now_ns();
		if (!counts->duration_ns || !began || now_ns() - began < counts->duration_ns)
			continue;
		watching_stop(watching);
		counts->duration_ns = 0;
	}
}

static int print_counts(struct counts_of *counts)
{
	const struct values *values = counts->watching.recording.settings.options.values;
	struct calltap_diag diag = {0};
	struct tallies tallies;
	struct trace *trace;
	struct out *out;
	int ret = trace_open(&trace, counts->path, &diag), written;

	if (!ret && out_create(&out, counts->fd)) {
		ret = calltap_diag_set(&diag, -ENOMEM, "not enough memory");
		trace_close(trace);
	}
	if (ret) {
		calltap_diag_print(&diag, stderr);
		return EXIT_USAGE;
	}
	ret = values_tallies(&tallies, values);
	if (!ret)
		ret = counted_print(&tallies, trace, &counts->options, out);
	free(tallies.list);
	free(tallies.frames);
	trace_close(trace);
	written = out_destroy(out);
	if (ret || (written && written != -EPIPE)) {
		fprintf(stderr, "calltap: the counts cannot be written\n");
		return EXIT_USAGE;
	}
	return 0;
}

static int run_count(struct counts_of *counts)
{
	struct watching *watching = &counts->watching;
	int status;

	watching->recording.settings.options.progress = false;
	if (open_output(counts) || make_trace(counts) || watching_start(watching))
		return EXIT_USAGE;
	wait_for_end(counts);
	status = watching_finish(watching);
	if (watching->result.ran && print_counts(counts))
		return EXIT_USAGE;
	return status;
}

int cmd_count(int argc, char **argv)
{
	struct counts_of counts = {.duration_ns = 0};
	int code, ret = watching_init(&counts.watching, argv);

	counts.watching.recording.settings.options.mode = CALLTAP_MODE_DROP;
	counts.watching.recording.settings.options.buffer_bytes = BUFFER_BYTES;
	while (!ret && (code = recording_next(RECORDING_COUNT, argc, argv)) != -1) {
		if (code == OPT_HELP) {
			print_help();
			watching_clear(&counts.watching);
			return 0;
		}
		ret = take_option(&counts, code);
	}
	if (!ret)
		ret = take_words(&counts, argc, argv);
	if (!ret)
		ret = recording_check(&counts.watching.recording, argc, argv, optind);
	if (!ret)
		ret = refuse_traced(&counts.watching);
	if (!ret)
		ret = run_count(&counts);
	watching_clear(&counts.watching);
	return ret;
}
