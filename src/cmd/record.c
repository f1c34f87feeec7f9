/*
 * calltap record: options, and the record room.  Context: host.
 */
#include <errno.h>
#include <getopt.h>
#include <libgen.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmd/cmd.h>
#include <host/elf/filter.h>
#include <host/record/record.h>
#include <tracers/tracer.h>

#define DEFAULT_OUTPUT "calltap.data"
#define DEFAULT_BUFFER (4u << 20)
#define BUFFER_MIN     (8u << 10)
#define BUFFER_MAX     (1ull << 30)
#define WAIT_MAX_MS    1000

enum {
	EXIT_USAGE = 1,
	EXIT_NOTHING = 2,
	EXIT_NOT_RUN = 126, /* these two as a shell has them */
	EXIT_NOT_FOUND = 127,
	EXIT_LEFT = 130, /* as after ^C */
};

enum option_code {
	OPT_NO_GRAPH = 256,
	OPT_MODE,
	OPT_MAX_DEPTH,
	OPT_NO_FORK,
	OPT_NO_EXEC,
	OPT_NO_SITES,
	OPT_NO_MATCH,
	OPT_PERF_MAP,
	OPT_EMULATOR,
	OPT_HELP,
};

static const struct option long_options[] = {
	{"tracer", required_argument, NULL, 'p'},
	{"trace", required_argument, NULL, 'l'},
	{"notrace", required_argument, NULL, 'n'},
	{"graph", required_argument, NULL, 'g'},
	{"no-graph", required_argument, NULL, OPT_NO_GRAPH},
	{"buffer", required_argument, NULL, 'b'},
	{"output", required_argument, NULL, 'o'},
	{"mode", required_argument, NULL, OPT_MODE},
	{"max-depth", required_argument, NULL, OPT_MAX_DEPTH},
	{"threshold", required_argument, NULL, 't'},
	{"no-fork", no_argument, NULL, OPT_NO_FORK},
	{"no-exec", no_argument, NULL, OPT_NO_EXEC},
	{"allow-no-sites", no_argument, NULL, OPT_NO_SITES},
	{"allow-no-match", no_argument, NULL, OPT_NO_MATCH},
	{"perf-map", no_argument, NULL, OPT_PERF_MAP},
	{"emulator", required_argument, NULL, OPT_EMULATOR},
	{"quiet", no_argument, NULL, 'q'},
	{"verbose", no_argument, NULL, 'v'},
	{"help", no_argument, NULL, OPT_HELP},
	{0},
};

static void print_help(void)
{
	printf("Usage: calltap record [OPTIONS] [--] COMMAND [ARGUMENTS]\n\n"
	       "Run COMMAND under trace and write what its functions did to a file.\n\n"
	       "  -p, --tracer NAME       what to record:\n");
	for (size_t i = 0; tracer_at(i); i++)
		printf("                            %-15s %s\n", tracer_at(i)->name, tracer_at(i)->summary);
	printf("  -l, --trace FILTER      trace only these functions\n"
	       "  -n, --notrace FILTER    do not trace these functions\n"
	       "  -g, --graph FILTER      trace these functions and what they call\n"
	       "      --no-graph FILTER   trace neither these functions nor what they call\n"
	       "                          FILTER: glob, /regex/, object:function or @FILE; may be repeated\n"
	       "      --max-depth N       record at most N traced calls deep\n"
	       "  -t, --threshold TIME    leave out finished calls shorter than TIME (10us, 1ms, ...)\n"
	       "      --mode MODE         when a buffer is full: block (wait for the tool; default),\n"
	       "                          drop (leave out and count) or overwrite (keep the newest)\n"
	       "  -b, --buffer SIZE       buffer of each thread (default 4M)\n"
	       "  -o, --output FILE       trace file (default " DEFAULT_OUTPUT "; an older one becomes FILE.old)\n"
	       "      --no-fork           do not follow children\n"
	       "      --no-exec           do not follow programs that are started in the traced one's place\n"
	       "      --allow-no-sites    run COMMAND although nothing in it can be traced yet\n"
	       "      --allow-no-match    run COMMAND although a filter matches nothing yet\n"
	       "      --emulator CMD      run COMMAND by CMD, such as 'qemu-aarch64 -cpu max'; for another CPU's\n"
	       "                          program without it: QEMU's user mode\n"
	       "      --perf-map          write /tmp/perf-PID.map, by which perf names the stubs\n"
	       "  -q, --quiet             no progress and no summary\n"
	       "  -v, --verbose           always print the summary\n"
	       "      --help              this text\n\n"
	       "The exit status is COMMAND's own; 2 when there is nothing to trace, 1 for a wrong option\n"
	       "or a trace file that cannot be written, 126 or 127 when COMMAND cannot be run or found.\n");
}

/* A number with a unit out of a table; false when it is none. */
struct unit {
	const char *name;
	double factor;
};

static bool parse_scaled(const char *text, const struct unit *units, double *value)
{
	char *end;
	double number = strtod(text, &end);

	if (end == text || !(number >= 0))
		return false;
	for (; units->name; units++)
		if (!strcmp(end, units->name)) {
			*value = number * units->factor;
			return true;
		}
	return false;
}

static bool parse_size(const char *text, uint64_t *bytes)
{
	static const struct unit units[] = {
		{"", 1}, {"k", 1 << 10}, {"K", 1 << 10}, {"M", 1 << 20}, {"m", 1 << 20}, {"G", 1 << 30}, {NULL, 0},
	};
	double value;

	if (!parse_scaled(text, units, &value) || value < BUFFER_MIN || value > (double)BUFFER_MAX)
		return false;
	*bytes = (uint64_t)value;
	return true;
}

static bool parse_time(const char *text, uint64_t *ns)
{
	static const struct unit units[] = {
		{"", 1e3}, {"ns", 1}, {"us", 1e3}, {"ms", 1e6}, {"s", 1e9}, {NULL, 0},
	};
	double value;

	if (!parse_scaled(text, units, &value) || value > 3600e9)
		return false;
	*ns = (uint64_t)value;
	return true;
}

static bool parse_count(const char *text, uint32_t *count)
{
	char *end;
	unsigned long value = strtoul(text, &end, 10);

	if (end == text || *end || !value || value > 1000000)
		return false;
	*count = (uint32_t)value;
	return true;
}

static bool parse_mode(const char *text, enum calltap_mode *mode)
{
	for (unsigned i = 0; record_mode_name(i); i++)
		if (!strcmp(text, record_mode_name(i))) {
			*mode = (enum calltap_mode)i;
			return true;
		}
	return false;
}

static int wrong(const char *what, const char *text, const char *remedy)
{
	fprintf(stderr, "calltap: %s '%s' is not valid; %s\n", what, text, remedy);
	return EXIT_USAGE;
}

static int add_filter(struct record_options *options, enum filter_kind kind, const char *text)
{
	struct calltap_diag diag;

	if (!filter_set_add(options->filters, kind, text, &diag))
		return 0;
	calltap_diag_print(&diag, stderr);
	return EXIT_USAGE;
}

static int take_option(struct record_options *options, int code, bool *quiet)
{
	switch (code) {
	case 'p':
		options->tracer = tracer_find(optarg);
		return options->tracer ? 0 : wrong("tracer", optarg, "it is function_graph, function or nop");
	case 'l':
		return add_filter(options, FILTER_TRACE, optarg);
	case 'n':
		return add_filter(options, FILTER_NOTRACE, optarg);
	case 'g':
		return add_filter(options, FILTER_GRAPH, optarg);
	case OPT_NO_GRAPH:
		return add_filter(options, FILTER_NOGRAPH, optarg);
	case 'b':
		return parse_size(optarg, &options->buffer_bytes)
			       ? 0
			       : wrong("buffer size", optarg, "give 8K to 1G, such as 4M");
	case OPT_MAX_DEPTH:
		return parse_count(optarg, &options->depth_max) ? 0 : wrong("depth", optarg, "give a number from 1");
	case 't':
		return parse_time(optarg, &options->threshold_ns)
			       ? 0
			       : wrong("threshold", optarg, "give a time such as 10us or 1ms");
	case OPT_MODE:
		return parse_mode(optarg, &options->mode) ? 0 : wrong("mode", optarg, "it is block, drop or overwrite");
	case 'o':
		options->output = optarg;
		return 0;
	case OPT_NO_FORK:
		options->no_fork = true;
		return 0;
	case OPT_NO_EXEC:
		options->no_exec = true;
		return 0;
	case OPT_NO_SITES:
		options->allow_no_sites = true;
		return 0;
	case OPT_NO_MATCH:
		options->allow_no_match = true;
		return 0;
	case OPT_PERF_MAP:
		options->perf_map = true;
		return 0;
	case OPT_EMULATOR:
		options->emulator = optarg;
		return 0;
	case 'q':
		*quiet = true;
		return 0;
	case 'v':
		options->verbose = true;
		return 0;
	default:
		fprintf(stderr, "calltap: see `calltap record --help`\n");
		return EXIT_USAGE;
	}
}

static int check_options(const struct record_options *options)
{
	bool exits = options->depth_max || options->threshold_ns || filter_set_has(options->filters, FILTER_GRAPH) ||
		     filter_set_has(options->filters, FILTER_NOGRAPH);

	if (!options->command[0]) {
		fprintf(stderr, "calltap: there is no command to record; see `calltap record --help`\n");
		return EXIT_USAGE;
	}
	if (exits && !options->tracer->has_exit) {
		fprintf(stderr,
			"calltap: -g, --no-graph, --max-depth and --threshold need the tracer function_graph\n");
		return EXIT_USAGE;
	}
	return 0;
}

/* The agent lies beside the command in a build tree, or in the library folder of an installation. */
static int find_agent(char path[PATH_MAX])
{
	static const char *const places[] = {
		"%s/../agent/libcalltap-agent.so",
		"%s/../" CALLTAP_LIBDIR "/calltap/libcalltap-agent.so",
	};
	char self[PATH_MAX], tried[PATH_MAX * 2];
	ssize_t got = readlink("/proc/self/exe", self, sizeof(self) - 1);

	if (got < 0)
		return -errno;
	self[got] = 0;
	for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
		char copy[PATH_MAX];

		memcpy(copy, self, sizeof(copy));
		snprintf(tried, sizeof(tried), places[i], dirname(copy));
		if (realpath(tried, path))
			return 0;
	}
	return -ENOENT;
}

static void summarize(const struct record_options *options, const struct record_result *result, bool quiet)
{
	double waited_ms = result->ticks_per_ns > 0 ? (double)result->wait_ticks / result->ticks_per_ns / 1e6 : 0;

	if (quiet || !result->ran)
		return;
	if (result->failed)
		fprintf(stderr, "calltap: %llu functions were left alone: their bytes were not what the file says\n",
			(unsigned long long)result->failed);
	if (result->left_over)
		fprintf(stderr,
			"calltap: %llu functions of what runs on are switched off, but their bytes are not the file's "
			"again\n",
			(unsigned long long)result->left_over);
	if (result->untraced)
		fprintf(stderr,
			"calltap: %llu calls were not recorded: there was no buffer for their thread, or no memory "
			"beside "
			"their stack; a smaller buffer (-b) leaves room for more threads\n",
			(unsigned long long)result->untraced);
	if (result->shut_in)
		fprintf(stderr,
			"calltap: %u processes shut themselves in (seccomp) where system calls that tracing makes are "
			"forbidden; new threads, stacks, forked children and libraries after that are not in the "
			"trace\n",
			result->shut_in);
	if (result->executed)
		fprintf(stderr,
			"calltap: %u programs were executed in a sandbox (seccomp), where the agent stays out\n",
			result->executed);
	if (result->spaces)
		fprintf(stderr,
			"calltap: libraries that dlmopen() loaded into name spaces of their own are not traced\n");
	if (result->foreign)
		fprintf(stderr,
			"calltap: %u programs for another CPU were executed, and are not in the trace, which has one "
			"CPU's\n",
			result->foreign);
	if (result->strays)
		fprintf(stderr,
			"calltap: %u processes run on, and are not in the trace: they made no traced call so far\n",
			result->strays);
	if (result->unreached && result->kills_forks)
		fprintf(stderr,
			"calltap: %u forked children were not traced: this emulator would abort them if they were; "
			"install one without plugins (apt-get install qemu-user-static)\n",
			result->unreached);
	else if (result->unreached)
		fprintf(stderr,
			"calltap: %u forked children were not traced: they could not reach the recorder, for want of "
			"time, threads, memory or descriptors, or from a network namespace of their own\n",
			result->unreached);
	if (result->lost)
		fprintf(stderr,
			"calltap: %llu records were lost; a larger buffer (-b) or fewer functions (-l, -n) help\n",
			(unsigned long long)result->lost);
	if (!options->verbose && !isatty(STDERR_FILENO))
		return;
	fprintf(stderr, "calltap: %llu records of %u threads in %u processes, %.1f MB in %s",
		(unsigned long long)result->records, result->threads, result->processes,
		(double)result->file_bytes / 1e6, options->output);
	if (waited_ms >= 1)
		fprintf(stderr, "; threads waited %.0f ms for the tool", waited_ms);
	fprintf(stderr, "\n");
}

/* End as the command did: the same status, or the same signal. */
static int end_like(int status)
{
	struct rlimit no_core = {0, 0};

	if (WIFEXITED(status))
		return WEXITSTATUS(status);
	setrlimit(RLIMIT_CORE, &no_core);
	fflush(NULL);
	signal(WTERMSIG(status), SIG_DFL);
	raise(WTERMSIG(status));
	return 128 + WTERMSIG(status);
}

static int exit_status(const struct record_result *result, int error)
{
	if (result->left)
		return EXIT_LEFT;
	if (result->ran)
		return end_like(result->wait_status);
	if (error == -ENODATA || error == -ENOEXEC)
		return EXIT_NOTHING;
	if (!result->unrunnable)
		return EXIT_USAGE;
	return error == -ENOENT ? EXIT_NOT_FOUND : EXIT_NOT_RUN;
}

static int record(struct record_options *options, bool quiet)
{
	struct record_result result;
	struct calltap_diag diag = {0};
	char agent[PATH_MAX];
	int ret;

	ret = find_agent(agent);
	if (ret == -ENOENT && access("/proc/self", F_OK))
		fprintf(stderr,
			"calltap: /proc is not mounted, and nothing can be traced without it; mount it first\n");
	else if (ret)
		fprintf(stderr, "calltap: libcalltap-agent.so is not beside this program; install Calltap again\n");
	if (ret)
		return EXIT_USAGE;
	options->agent_path = agent;
	options->progress = !quiet && isatty(STDERR_FILENO);
	ret = record_run(options, &result, &diag);
	options->agent_path = NULL;
	if (ret)
		calltap_diag_print(&diag, stderr);
	summarize(options, &result, quiet);
	return exit_status(&result, ret);
}

/* What was typed before the command, for the file. */
static char *options_text(int argc, char **argv, int end)
{
	size_t size = 1;
	char *text;

	for (int i = 1; i < end && i < argc; i++)
		size += strlen(argv[i]) + 1;
	text = calloc(1, size);
	for (int i = 1; text && i < end && i < argc; i++)
		snprintf(text + strlen(text), size - strlen(text), "%s%s", i > 1 ? " " : "", argv[i]);
	return text;
}

int cmd_record(int argc, char **argv)
{
	struct record_options options = {
		.size = sizeof(options),
		.output = DEFAULT_OUTPUT,
		.tracer = tracer_at(0),
		.buffer_bytes = DEFAULT_BUFFER,
		.wait_max_ms = WAIT_MAX_MS,
	};
	bool quiet = false;
	char *text = NULL;
	int code, ret = 0;

	if (filter_set_create(&options.filters))
		return EXIT_USAGE;
	while (!ret && (code = getopt_long(argc, argv, "+p:l:n:g:b:o:t:qv", long_options, NULL)) != -1) {
		if (code == OPT_HELP) {
			print_help();
			filter_set_destroy(options.filters);
			return 0;
		}
		ret = take_option(&options, code, &quiet);
	}
	options.command = argv + optind;
	if (!ret)
		ret = check_options(&options);
	if (!ret) {
		text = options_text(argc, argv, optind);
		options.options_text = text ? text : "";
		ret = record(&options, quiet);
	}
	free(text);
	filter_set_destroy(options.filters);
	return ret;
}
