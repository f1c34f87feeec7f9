/*
 * calltap attach: record a process that runs already.  Context: host.
 */
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <cmd/cmd.h>
#include <host/counted.h>
#include <host/record/record.h>
#include <host/remote/remote.h>
#include <host/text.h>

#include "instance.h"
#include "recording.h"

#define COMMAND_MAX 4096
#define WORDS_MAX   256

/* The time that a session which is ending may take. */
#define ENDING_STEP_NS 20000000
#define ENDING_STEPS   250

enum option_code { OPT_DURATION = RECORDING_OWN, OPT_INSTANCE };

static const struct option long_options[] = {
	RECORDING_LONG,
	{"duration", required_argument, NULL, OPT_DURATION},
	{"instance", required_argument, NULL, OPT_INSTANCE},
	{0},
};

static void print_help(void)
{
	printf("Usage: calltap attach [OPTIONS] PID\n\n"
	       "Trace a process that runs already, until it ends, ^C, or `calltap detach PID`; then the\n"
	       "process is as it was.  One that is traced already gets a further instance, with functions,\n"
	       "buffers and a trace file of its own.\n\n");
	recording_print_options("drop");
	printf("      --duration TIME     detach after TIME (10s, 500ms, ...)\n"
	       "      --instance NAME     what it is called (default 0; of a process that is traced already: a "
	       "number)\n"
	       "      --no-fork           do not follow children\n"
	       "      --allow-no-sites    attach although nothing in it can be traced yet\n"
	       "      --allow-no-match    attach although a filter matches nothing yet\n"
	       "      --perf-map          write /tmp/perf-PID.map, by which perf names the stubs\n"
	       "  -q, --quiet             no progress and no summary\n"
	       "  -v, --verbose           always print the summary\n"
	       "  -h, --help              this text\n");
	recording_print_triggers();
	printf("\n"
	       "The exit status is 0 when the process was traced; 2 when there is nothing to trace in it, or it\n"
	       "cannot be attached to, 1 for a wrong option or a trace file that cannot be written.\n");
}

/* The words that the process was started with, for the trace. */
struct command {
	char text[COMMAND_MAX];
	char *words[WORDS_MAX + 1];
};

static void read_command(struct command *command, pid_t pid)
{
	size_t count = 0;
	char path[64];
	ssize_t got;
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/cmdline", (int)pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	got = fd < 0 ? 0 : read(fd, command->text, sizeof(command->text) - 1);
	if (fd >= 0)
		close(fd);
	for (char *word = command->text; word < command->text + got && count < WORDS_MAX; word += strlen(word) + 1)
		command->words[count++] = word;
	while (count && !*command->words[count - 1]) /* empty words behind a shorter title */
		command->words[--count] = NULL;
	if (!count) {
		snprintf(command->text, sizeof(command->text), "?");
		command->words[0] = command->text;
	}
}

static const char *how_it_left(const struct record_result *result)
{
	if (result->let_go)
		return "";
	return result->replaced ? "; the process has executed another program, which runs untraced"
				: "; the process has ended";
}

static void summarize_stops(const struct record_result *result)
{
	fprintf(stderr, "calltap: the longest stop of all its threads took %.2f ms",
		(double)result->longest_stop_ns / 1e6);
	if (result->stops_given_up)
		fprintf(stderr, "; %u %s given up, as not all threads got a CPU in time", result->stops_given_up,
			counted(result->stops_given_up, "try was", "tries were"));
	fprintf(stderr, "\n");
}

static void summarize(const struct recording *recording, const struct record_result *result)
{
	char size[TIMETEXT_MAX];

	if (recording->quiet || !result->attached)
		return;
	if (recording->settings.options.verbose || isatty(STDERR_FILENO))
		fprintf(stderr, "calltap: %u %s stopped for %.2f ms at the attach, one was away for %.2f ms%s\n",
			result->attach_threads, counted(result->attach_threads, "thread was", "threads were"),
			(double)result->attach_stop_ns / 1e6, (double)result->attach_borrow_ns / 1e6,
			how_it_left(result));
	if (result->skipped)
		fprintf(stderr, "calltap: %u function%s left alone: a thread was about to run into %s\n",
			result->skipped, result->skipped == 1 ? " was" : "s were",
			result->skipped == 1 ? "it" : "them");
	if (result->let_go && result->differing)
		fprintf(stderr, "calltap: %llu %s from its files; somebody else's, or: %s\n",
			(unsigned long long)result->differing,
			counted(result->differing, "byte of the process' text differs",
				"bytes of the process' text differ"),
			"see `calltap-attach(1)`");
	else if (result->let_go && (recording->settings.options.verbose || isatty(STDERR_FILENO)))
		fprintf(stderr,
			"calltap: detached, its threads were stopped for %.2f ms; all %s of its text are as in its "
			"files\n",
			(double)result->detach_stop_ns / 1e6, sizetext(result->verified, size));
	if (recording->settings.options.verbose || isatty(STDERR_FILENO))
		summarize_stops(result);
	recording_summarize(recording, result);
}

static int attach(struct recording *recording)
{
	struct record_result result;
	struct calltap_diag diag = {0};
	struct command command = {0};
	int ret;

	read_command(&command, recording->settings.options.pid);
	recording->settings.options.command = command.words;
	recording->settings.options.tells = !recording->quiet; /* no traced command shares standard error */
	ret = record_run(&recording->settings.options, &result, &diag);
	if (ret)
		calltap_diag_print(&diag, stderr);
	summarize(recording, &result);
	recording->settings.options.command = NULL;
	if (!ret)
		return 0;
	return result.attached || result.ours ? EXIT_USAGE : EXIT_NOTHING;
}

static int take_pid(struct recording *recording, const char *text)
{
	char *end;
	long pid = text ? strtol(text, &end, 10) : 0;

	if (!text)
		fprintf(stderr, "calltap: there is no process to attach to; see `calltap attach --help`\n");
	else if (end == text || *end || pid <= 0 || pid > INT32_MAX)
		fprintf(stderr, "calltap: '%s' is no process id; `pidof PROGRAM` tells one\n", text);
	else
		recording->settings.options.pid = (pid_t)pid;
	return recording->settings.options.pid ? 0 : EXIT_USAGE;
}

static int take_option(struct recording *recording, int code)
{
	if (code == OPT_INSTANCE) {
		recording->settings.options.instance = optarg;
		return 0;
	}
	if (code != OPT_DURATION)
		return recording_take(recording, code, optarg);
	/* Most people mean seconds, and a number alone would be microseconds. */
	if (*optarg && !isdigit((unsigned char)optarg[strlen(optarg) - 1]) &&
	    setting_parse_time(optarg, &recording->settings.options.duration_ns) &&
	    recording->settings.options.duration_ns)
		return 0;
	fprintf(stderr, "calltap: duration '%s' is not valid; give a time such as 10s or 500ms\n", optarg);
	return EXIT_USAGE;
}

/* Ask the session of the process for an instance. -ESRCH: there is no session; -EPIPE: there was one. */
static int join(struct recording *recording)
{
	const struct record_options *options = &recording->settings.options;
	struct remote_status status;
	struct calltap_diag diag = {0};
	int socket, ret;

	if (remote_connect(&socket, options->pid, &diag))
		return -ESRCH;
	ret = remote_ask_status(socket, NULL, &status, &diag);
	if (ret != -EPIPE)
		ret = instance_attach(recording, socket, options->instance,
				      strcmp(options->output, RECORDING_OUTPUT) != 0);
	close(socket);
	return ret;
}

/*
 * Join the session of a process that is traced already.  A session that ends before it has answered counts as none: its
 * tool was killed a moment ago, and the process that finishes its last stop still has its socket; or it is just
 * detaching.
 */
static int attach_or_join(struct recording *recording)
{
	const struct timespec pause = {0, ENDING_STEP_NS};
	int ret = join(recording);

	for (int i = 0; ret == -EPIPE && i < ENDING_STEPS; i++) {
		nanosleep(&pause, NULL);
		ret = join(recording);
	}
	return ret < 0 ? attach(recording) : ret;
}

int cmd_attach(int argc, char **argv)
{
	struct recording recording;
	int code, ret = recording_init(&recording, argv);

	recording.settings.options.mode = CALLTAP_MODE_DROP; /* a process not started for it does not wait */
	while (!ret && (code = getopt_long(argc, argv, RECORDING_SHORT, long_options, NULL)) != -1) {
		if (code == OPT_HELP) {
			print_help();
			recording_clear(&recording);
			return 0;
		}
		ret = take_option(&recording, code);
	}
	if (!ret)
		ret = take_pid(&recording, argv[optind]);
	if (!ret && argv[optind + 1]) {
		fprintf(stderr, "calltap: one process at a time; see `calltap attach --help`\n");
		ret = EXIT_USAGE;
	}
	if (!ret)
		ret = recording_check(&recording, argc, argv, optind);
	if (!ret)
		ret = attach_or_join(&recording);
	recording_clear(&recording);
	return ret;
}
