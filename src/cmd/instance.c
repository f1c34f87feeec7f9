/*
 * `calltap attach` to a process that is traced already: a further instance in the session that is there
 * (doc/design/instances.md).
 *
 * That session's tool records and writes; this process opens the file, with its user's rights, and waits.  The instance
 * lasts as long as the connection.  Caller: attach.c.  Context: host.
 */
#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <host/remote/remote.h>
#include <host/trace/trace.h>

#include "instance.h"
#include "output.h"

#define PATIENCE_MS 60000
#define WORDS_MAX   512
#define OUTPUT	    RECORDING_OUTPUT ".instance"

struct asked {
	char *lines; /* the settings as text, cut into words */
	const char *words[WORDS_MAX];
	size_t count;
	char output[PATH_MAX + sizeof("output=")];
	char name[64];
	char *options;
};

static int refuse(const char *what)
{
	fprintf(stderr,
		"calltap: this process is traced already, and %s is for the first instance alone; `calltap detach` "
		"ends that\n",
		what);
	return EXIT_USAGE;
}

static int check(const struct recording *recording)
{
	const struct record_options *options = &recording->settings.options;

	if (recording->triggers)
		return refuse("a trigger");
	if (options->buffer_dir)
		return refuse("--buffer-dir");
	if (options->perf_map)
		return refuse("--perf-map");
	if (options->no_fork)
		return refuse("--no-fork");
	return 0;
}

/* Take the settings that have a value, as words.  False: they are more than a request holds. */
static bool take_settings(struct asked *asked)
{
	for (char *rest = asked->lines, *line; (line = strsep(&rest, "\n")) && *line;) {
		size_t size = strlen(line);

		if (line[size - 1] == '=' || strncmp(line, "tracing=", 8) == 0)
			continue;
		if (asked->count >= WORDS_MAX - 8)
			return false;
		asked->words[asked->count++] = line;
	}
	return true;
}

static int compose(struct asked *asked, const struct recording *recording, const char *name, const char *output)
{
	char cwd[PATH_MAX];
	size_t size;
	FILE *stream = open_memstream(&asked->lines, &size);

	if (!stream)
		return -ENOMEM;
	settings_print(&recording->settings, stream);
	if (fclose(stream) || asprintf(&asked->options, "options=%s", recording->text ? recording->text : "") < 0)
		return -ENOMEM;
	if (!take_settings(asked))
		return -E2BIG;
	for (char *c = asked->options; *c; c++)
		if (*c == '\n')
			*c = ' ';
	asked->words[asked->count++] = asked->options;
	if (name) {
		snprintf(asked->name, sizeof(asked->name), "name=%s", name);
		asked->words[asked->count++] = asked->name;
	}
	if (output[0] == '/' || !getcwd(cwd, sizeof(cwd)))
		snprintf(asked->output, sizeof(asked->output), "output=%s", output);
	else
		snprintf(asked->output, sizeof(asked->output), "output=%.*s/%s", PATH_MAX - 256, cwd, output);
	if (!strpbrk(asked->output, "\n"))
		asked->words[asked->count++] = asked->output;
	if (recording->settings.options.allow_no_match)
		asked->words[asked->count++] = "allow-no-match=1";
	return 0;
}

static void asked_clear(struct asked *asked)
{
	free(asked->lines);
	free(asked->options);
}

/* Name the file when the instance is there; an older file becomes FILE.old, as for every recording. */
static int name_output(const struct output *file)
{
	if (file->temporary[0])
		(void)record_keep_older(file->path, false);
	return output_name(file);
}

/* Block the signals that end the instance, and return a descriptor for them; *old is what was blocked before. */
static int catch_signals(sigset_t *old)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGHUP);
	sigprocmask(SIG_BLOCK, &set, old);
	return signalfd(-1, &set, SFD_CLOEXEC);
}

/* 1: the session has said something, or has gone; 0: the instance is to end. */
static int wait_end(int socket, int signals, uint64_t duration_ns)
{
	struct pollfd ready[2] = {{.fd = socket, .events = POLLIN}, {.fd = signals, .events = POLLIN}};
	int ms = duration_ns ? (int)(duration_ns / 1000000) : -1, got;

	do
		got = poll(ready, 2, ms);
	while (got < 0 && errno == EINTR);
	return got > 0 && ready[0].revents;
}

static int end(int socket, const char *name, char **answer, struct calltap_diag *diag)
{
	char word[64];
	const char *const words[] = {word};
	const struct remote_request request = {
		.verb = "detach", .words = words, .count = 1, .fd = -1, .timeout_ms = PATIENCE_MS};

	snprintf(word, sizeof(word), "instance=%s", name);
	return remote_ask(socket, &request, answer, diag);
}

/*
 * The trace tells what was lost; the process that ends the instance, or the session, may say nothing of it.  A trace
 * that cannot be read back tells nobody.
 */
static void tell_losses(const struct recording *recording, const char *output)
{
	struct record_result result = {0};
	struct trace *trace = NULL;

	if (recording->quiet || trace_open(&trace, output, NULL))
		return;
	result.untraced = trace_calls_missed(trace);
	result.lost = trace_end(trace) ? trace_end(trace)->lost : 0;
	recording_tell_losses(&result);
	trace_close(trace);
}

/* Follow the instance from its begin to its end. */
static int follow(struct recording *recording, int socket, int signals, char *name, const char *output)
{
	bool tell = !recording->quiet && (recording->settings.options.verbose || isatty(STDERR_FILENO));
	struct calltap_diag diag = {.column = -1};
	char *answer = NULL;
	bool asked;
	int ret;

	name[strcspn(name, "\n")] = 0;
	if (tell)
		fprintf(stderr, "calltap: instance %s of the session that traces process %d\n", name,
			(int)recording->settings.options.pids[0]);
	asked = !wait_end(socket, signals, recording->settings.options.duration_ns);
	ret = asked ? end(socket, name, &answer, &diag) : remote_receive(socket, PATIENCE_MS, &answer, &diag);
	if (ret == -EPIPE)
		fprintf(stderr,
			"calltap: the session has ended without a word (was its tool killed?); %s has what was "
			"written until then\n",
			output);
	else if (ret)
		calltap_diag_print(&diag, stderr);
	else if (tell)
		fprintf(stderr, "calltap: %s: %s%s", output, answer,
			answer[0] && answer[strlen(answer) - 1] == '\n' ? "" : "\n");
	if (!ret && !(tell && asked)) /* the answer has the losses */
		tell_losses(recording, output);
	free(answer);
	return ret ? EXIT_USAGE : 0;
}

static int begin(struct recording *recording, int socket, const char *name, const char *output, int fd, char **answer)
{
	struct remote_request request = {.verb = "instance", .fd = fd, .timeout_ms = PATIENCE_MS};
	struct calltap_diag diag = {.column = -1};
	struct asked asked = {0};
	int ret = compose(&asked, recording, name, output);

	if (ret)
		ret = calltap_diag_set(
			&diag, ret,
			ret == -E2BIG ? "a further instance takes 500 filters at the most; use patterns that match "
					"several functions"
				      : "not enough memory");
	request.words = asked.words;
	request.count = asked.count;
	if (!ret)
		ret = remote_ask(socket, &request, answer, &diag);
	if (ret && ret != -EPIPE)
		calltap_diag_print(&diag, stderr);
	asked_clear(&asked);
	return ret;
}

int instance_attach(struct recording *recording, int socket, const char *name, bool named_output)
{
	const char *output = named_output ? recording->settings.options.output : OUTPUT;
	struct output file;
	char *answer = NULL;
	int signals, ret = check(recording);
	sigset_t old;

	if (ret)
		return ret;
	signal(SIGPIPE, SIG_IGN);
	signals = catch_signals(&old);
	ret = output_open(&file, output);
	if (ret) {
		fprintf(stderr, "calltap: cannot write the trace %s: %s; name another file with -o\n", output,
			strerror(-ret));
		return EXIT_USAGE;
	}
	ret = begin(recording, socket, name, output, file.fd, &answer);
	close(file.fd);
	if (ret) {
		output_remove(&file);
		close(signals);
		sigprocmask(SIG_SETMASK, &old, NULL);
		return ret == -EPIPE ? ret : EXIT_NOTHING;
	}
	ret = name_output(&file);
	if (ret)
		fprintf(stderr, "calltap: cannot name the trace %s: %s; it is in %s\n", output, strerror(-ret),
			file.temporary);
	ret = follow(recording, socket, signals, answer, output);
	free(answer);
	close(signals);
	return ret;
}
