/*
 * calltap attach: record processes that run already.  Context: host.
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
#include <host/now.h>
#include <host/session/choose.h>
#include <host/session/record.h>
#include <host/remote/remote.h>
#include <host/text.h>

#include "beside.h"
#include "clearing.h"
#include "instance.h"
#include "page.h"
#include "recording.h"

#define COMMAND_MAX 4096
#define WORDS_MAX   256
#define BUSY_MS	    6000 /* until an agent that is taken by another calltap is told of */

/* The command's words, and the processes that they mean. */
struct attaching {
	struct recording recording;
	const char **globs;
	size_t glob_count;
	bool children;
	size_t named;	/* the first pids were given as such; the others were found */
	uint32_t ended; /* processes that were found, and had ended when their turn came */
	pid_t *pids;
	size_t count;
	size_t asked;  /* how many there were before those that are traced already were left out */
	int64_t until; /* now_ms() from which on an agent that is taken is an error */
};

static void print_help(void)
{
	printf("Usage: calltap attach [OPTIONS] PID...\n\n"
	       "Trace processes that run already, in one trace file, until they have ended, ^C, or `calltap\n"
	       "detach PID` of one of them; then they are as they were.  A process that is traced already, and\n"
	       "named alone, gets a further instance, with functions, buffers and a trace file of its own.\n\n");
	recording_print_options(RECORDING_ATTACH);
	printf("\n"
	       "The exit status is 0 when the process was traced, or one of several was; 2 when there is nothing\n"
	       "to trace in any, or none can be attached to, 1 for a wrong option or a trace file that cannot be\n"
	       "written.  Each process that is not traced is told.\n");
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

/* The commands of several processes, as one text for free(). */
static char *read_commands(const struct attaching *attaching)
{
	struct command *command = malloc(sizeof(*command));
	char *text = NULL;
	size_t size;
	FILE *stream = command ? open_memstream(&text, &size) : NULL;

	for (size_t i = 0; stream && i < attaching->count; i++) {
		*command = (struct command){0};
		read_command(command, attaching->pids[i]);
		for (size_t k = 0; command->words[k]; k++)
			fprintf(stream, "%s%s", k ? " " : i ? "; " : "", command->words[k]);
	}
	if (stream && fclose(stream)) {
		free(text);
		text = NULL;
	}
	free(command);
	return text;
}

static const char *how_it_left(const struct record_attached *told)
{
	if (told->let_go)
		return "";
	return told->replaced ? "; the process has executed another program, which runs untraced"
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

/* which: the beginning of a line, with the process where there are several. */
static void summarize_attach(const struct record_attached *told, const char *which)
{
	fprintf(stderr, "%s%u %s stopped for %.2f ms at the attach, one was away for %.2f ms%s\n", which, told->threads,
		counted(told->threads, "thread was", "threads were"), (double)told->attach_stop_ns / 1e6,
		(double)told->attach_borrow_ns / 1e6, how_it_left(told));
}

static void summarize_detach(const struct record_attached *told, const char *which, bool talks)
{
	char size[TIMETEXT_MAX], remedy[96] = "somebody else's: see `calltap-attach(1)`";

	if (told->agent_stays)
		snprintf(remedy, sizeof(remedy),
			 "the agent stays, with functions led; 'calltap detach %d' takes both away", (int)told->pid);
	if (told->let_go && told->text.differing)
		fprintf(stderr, "%s%llu %s from its files (the first at offset 0x%llx of %s); %s\n", which,
			(unsigned long long)told->text.differing,
			counted(told->text.differing, "byte of the process' text differs",
				"bytes of the process' text differ"),
			(unsigned long long)told->text.first, told->text.first_in, remedy);
	else if (told->let_go && talks)
		fprintf(stderr, "%sdetached, its threads were stopped for %.2f ms%s%s%s\n", which,
			(double)told->detach_stop_ns / 1e6, told->text.verified ? "; all " : "",
			told->text.verified ? sizetext(told->text.verified, size) : "",
			told->text.verified ? " of text in what was patched are as in their files" : "");
}

static void summarize_all(const struct recording *recording, const struct record_result *result)
{
	const bool talks = recording->settings.options.verbose || isatty(STDERR_FILENO);
	const size_t count = recording->settings.options.pid_count;
	char which[48] = "calltap: ";

	if (recording->quiet || !result->attached_count)
		return;
	for (size_t i = 0; i < count; i++) {
		const struct record_attached *told = &result->attached[i];

		if (!told->attached)
			continue;
		if (count > 1)
			snprintf(which, sizeof(which), "calltap: process %d: ", (int)told->pid);
		if (talks)
			summarize_attach(told, which);
		else if (told->replaced && !told->let_go)
			fprintf(stderr,
				"calltap: process %d has executed another program, which runs untraced; attach to it "
				"again\n",
				(int)told->pid);
		summarize_detach(told, which, talks);
	}
	if (result->skipped)
		fprintf(stderr, "calltap: %u function%s left alone: a thread was about to run into %s\n",
			result->skipped, result->skipped == 1 ? " was" : "s were",
			result->skipped == 1 ? "it" : "them");
	if (talks && result->freed)
		fprintf(stderr, "calltap: %u %s let go of as well\n", result->freed,
			counted(result->freed, "forked process was", "forked processes were"));
	if (talks)
		summarize_stops(result);
	recording_summarize(recording, result);
}

/* A process of several is left out; the reason of a process that is alone is the command's error. */
static void tell_left_out(void *context, const struct record_attached *told)
{
	struct attaching *attaching = context;
	bool named = false;

	for (size_t i = 0; i < attaching->named; i++)
		named |= attaching->pids[i] == told->pid;
	if (!named && told->trouble.code == -ESRCH)
		attaching->ended++;
	else
		fprintf(stderr, "calltap: process %d is not traced: %s\n", (int)told->pid, told->trouble.text);
}

/* Tell the troubles of traced processes, but for the text that is told already. */
static void tell_troubles(const struct record_result *result, size_t count, const char *known)
{
	for (size_t i = 0; i < count && result->attached; i++)
		if (result->attached[i].attached && result->attached[i].trouble.code &&
		    strcmp(result->attached[i].trouble.text, known) != 0)
			calltap_diag_print(&result->attached[i].trouble, stderr);
}

/* The only process that is left of several was left out, too, which is what the session ended with. */
static bool is_told(const struct record_result *result, const struct record_options *options, const char *text)
{
	return options->left_out && result->attached && !result->attached[0].attached &&
	       !strcmp(result->attached[0].trouble.text, text);
}

/* The command's exit status; -EBUSY, without a message: another calltap is about to begin there, or to end. */
static int attach_all(struct attaching *attaching)
{
	struct recording *recording = &attaching->recording;
	struct record_options *options = &recording->settings.options;
	struct record_result result;
	struct calltap_diag diag = {0};
	struct command command = {0};
	char *commands = NULL, *all[2] = {NULL, NULL};
	struct beside beside;
	bool again;
	int ret = beside_prepare(&beside, recording);

	if (ret)
		return ret;
	read_command(&command, attaching->pids[0]);
	if (attaching->count > 1)
		all[0] = commands = read_commands(attaching);
	options->command = commands ? all : command.words;
	options->pids = attaching->pids;
	options->pid_count = attaching->count;
	options->left_out = attaching->asked > 1 ? tell_left_out : NULL;
	options->left_out_ctx = attaching;
	attaching->ended = 0;
	options->tells = !recording->quiet; /* no traced command shares standard error */
	ret = record_run(options, &result, &diag);
	beside_finish(&beside);
	again = ret == -EBUSY && now_ms() < attaching->until;
	if (ret && !again && !is_told(&result, options, diag.text))
		calltap_diag_print(&diag, stderr);
	if (!again)
		tell_troubles(&result, attaching->count, diag.text);
	if (attaching->ended && !again && !recording->quiet)
		fprintf(stderr, "calltap: %u %s ended before %s turn came\n", attaching->ended,
			counted(attaching->ended, "process that was found had", "processes that were found had"),
			counted(attaching->ended, "its", "their"));
	clearing_children(&result, recording->argv);
	summarize_all(recording, &result);
	if (result.attached_count)
		page_of_recording(recording);
	options->command = NULL;
	free(commands);
	if (ret && !again)
		ret = result.attached_count || result.ours ? EXIT_USAGE : EXIT_NOTHING;
	record_result_clear(&result);
	return ret;
}

static int take_pid(struct attaching *attaching, const char *text)
{
	char *end;
	long pid = strtol(text, &end, 10);
	pid_t *pids;

	if (end == text || *end || pid <= 0 || pid > INT32_MAX) {
		fprintf(stderr, "calltap: '%s' is no process id; `pidof PROGRAM` tells one\n", text);
		return EXIT_USAGE;
	}
	pids = reallocarray(attaching->pids, attaching->count + 1, sizeof(*pids));
	if (!pids) {
		fprintf(stderr, "calltap: not enough memory\n");
		return EXIT_USAGE;
	}
	attaching->pids = pids;
	pids[attaching->count++] = (pid_t)pid;
	return 0;
}

static int take_glob(struct attaching *attaching, const char *glob)
{
	const char **globs = reallocarray(attaching->globs, attaching->glob_count + 1, sizeof(*globs));

	if (!globs) {
		fprintf(stderr, "calltap: not enough memory\n");
		return EXIT_USAGE;
	}
	attaching->globs = globs;
	globs[attaching->glob_count++] = glob;
	return 0;
}

static int take_duration(struct record_options *options, const char *text)
{
	/* Most people mean seconds, and a number alone would be microseconds. */
	if (*text && !isdigit((unsigned char)text[strlen(text) - 1]) &&
	    setting_parse_time(text, &options->duration_ns) && options->duration_ns)
		return 0;
	fprintf(stderr, "calltap: duration '%s' is not valid; give a time such as 10s or 500ms\n", text);
	return EXIT_USAGE;
}

static int take_option(struct attaching *attaching, int code)
{
	struct record_options *options = &attaching->recording.settings.options;

	switch (code) {
	case OPT_NAME:
		return take_glob(attaching, optarg);
	case OPT_CHILDREN:
		attaching->children = true;
		return 0;
	case OPT_DURATION:
		return take_duration(options, optarg);
	default:
		return recording_take(&attaching->recording, code, optarg);
	}
}

/* Find the processes that are meant, and note each once. */
static int choose_processes(struct attaching *attaching)
{
	const struct choice choice = {
		.pids = attaching->pids,
		.pid_count = attaching->count,
		.globs = attaching->globs,
		.glob_count = attaching->glob_count,
		.children = attaching->children,
		.self = getpid(),
		.user = geteuid(),
	};
	struct calltap_diag diag = {.column = -1};
	struct candidate *table = NULL;
	size_t count = 0, table_count = 0;
	pid_t *pids = NULL;
	int ret = 0;

	if (!attaching->count && !attaching->glob_count) {
		fprintf(stderr, "calltap: there is no process to attach to; see `calltap attach --help`\n");
		return EXIT_USAGE;
	}
	if (attaching->glob_count || attaching->children)
		ret = choose_read(&table, &table_count);
	if (ret)
		ret = calltap_diag_set(&diag, ret, "cannot look for processes: %s", strerror(-ret));
	else
		ret = choose_pids(&pids, &count, &choice, table, table_count, &diag);
	free(table);
	if (ret) {
		calltap_diag_print(&diag, stderr);
		return ret == -ENOENT ? EXIT_NOTHING : EXIT_USAGE;
	}
	free(attaching->pids);
	attaching->named = attaching->count;
	attaching->pids = pids;
	attaching->count = attaching->asked = count;
	return 0;
}

/* Ask the session of the process for an instance; < 0: there is no session. */
static int join_session(struct recording *recording)
{
	const struct record_options *options = &recording->settings.options;
	int socket, ret = instance_find_in_turn(options->pids[0], &socket);

	if (ret)
		return ret;
	ret = instance_attach(recording, socket, options->instance, strcmp(options->output, RECORDING_OUTPUT) != 0);
	close(socket);
	if (!ret)
		page_of_recording(recording);
	return ret;
}

/*
 * Join the session of a process that is traced already; one that ends before it has an instance counts as none. Another
 * calltap that is about to begin, or to end, has no session to join: the agent is taken then, for a moment.
 */
static int attach_or_join(struct attaching *attaching)
{
	struct recording *recording = &attaching->recording;
	const struct timespec pause = {0, INSTANCE_ENDING_STEP_NS};
	int ret;

	recording->settings.options.pids = attaching->pids;
	recording->settings.options.pid_count = 1;
	attaching->until = now_ms() + BUSY_MS;
	for (;;) {
		ret = join_session(recording);
		for (int i = 0; ret == -EPIPE && i < INSTANCE_ENDING_STEPS; i++) {
			nanosleep(&pause, NULL);
			ret = join_session(recording);
		}
		if (ret < 0)
			ret = attach_all(attaching);
		if (ret != -EBUSY)
			return ret;
		nanosleep(&pause, NULL);
	}
}

/* An instance is a matter of one session: of several processes those that have none are attached to. */
static int attach_several(struct attaching *attaching)
{
	attaching->count = instance_leave_out(attaching->pids, attaching->count, "attach");
	return attaching->count ? attach_all(attaching) : EXIT_NOTHING;
}

static int run_attach(struct attaching *attaching, int argc, char **argv)
{
	struct recording *recording = &attaching->recording;
	int code, end, ret = 0;

	recording->settings.options.mode = CALLTAP_MODE_DROP; /* a process not started for it does not wait */
	while (!ret && (code = recording_next(RECORDING_ATTACH, argc, argv)) != -1) {
		if (code == OPT_HELP) {
			print_help();
			return 0;
		}
		ret = take_option(attaching, code);
	}
	end = optind;
	for (int i = optind; i < argc && !ret; i++)
		ret = take_pid(attaching, argv[i]);
	if (!ret)
		ret = page_check(recording);
	if (!ret)
		ret = choose_processes(attaching);
	if (!ret)
		ret = recording_check(recording, argc, argv, end);
	if (ret)
		return ret;
	return attaching->count == 1 ? attach_or_join(attaching) : attach_several(attaching);
}

int cmd_attach(int argc, char **argv)
{
	struct attaching attaching = {0};
	int ret = recording_init(&attaching.recording, argv);

	if (!ret)
		ret = run_attach(&attaching, argc, argv);
	recording_clear(&attaching.recording);
	free(attaching.globs);
	free(attaching.pids);
	return ret;
}
