/*
 * `calltap attach`, `live` and `top` of a process that is traced already: a further instance in the session that is
 * there (doc/design/instances.md).
 *
 * That session's tool records and writes; this process opens the file, with its user's rights, or memory that it reads
 * itself, and waits.  The instance lasts as long as the connection.  Callers: attach.c, watching.c.  Context: host.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include <host/counted.h>
#include <host/attach/attach.h>
#include <host/hook/actor.h>
#include <host/hook/triggers.h>
#include <host/remote/remote.h>
#include <host/trace/trace.h>
#include <host/values/values.h>

#include "instance.h"
#include "output.h"

#define PATIENCE_MS 60000
#define WORDS_MAX   512
#define OUTPUT	    RECORDING_OUTPUT ".instance"

struct asked {
	char *lines; /* the settings and triggers as text, cut into words */
	const char *words[WORDS_MAX];
	size_t count;
	char output[PATH_MAX + sizeof("output=")];
	char buffer_dir[PATH_MAX + sizeof("buffer-dir=")];
	char name[64];
	char *options;
};

static int refuse_option(const char *what)
{
	fprintf(stderr,
		"calltap: this process is traced already, and %s is for the first instance alone; `calltap detach` "
		"ends that\n",
		what);
	return EXIT_USAGE;
}

int instance_check(const struct recording *recording)
{
	const struct record_options *options = &recording->settings.options;

	if (options->perf_map)
		return refuse_option("--perf-map");
	if (options->no_fork)
		return refuse_option("--no-fork");
	if (options->tick_ns | options->every | options->small || recording->time_profile)
		return refuse_option("--time-tick, --time-sample, --time-small or --time-profile");
	if (recording->mount) {
		fprintf(stderr,
			"calltap: the process is traced already; `calltap mount DIR PID` shows it beside that\n");
		return EXIT_USAGE;
	}
	if (options->values && values_counting(options->values))
		return refuse_option("`calltap count`");
	if (options->values)
		return refuse_option("--args, --result, --if, --only-if, or a trigger on values");
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

/* A word with a path that means the same to the session's tool, which may be in another folder. */
static void name_path(char *word, size_t size, const char *key, const char *path)
{
	char cwd[PATH_MAX];

	if (path[0] == '/' || !getcwd(cwd, sizeof(cwd)))
		snprintf(word, size, "%s=%s", key, path);
	else
		snprintf(word, size, "%s=%.*s/%s", key, PATH_MAX - 256, cwd, path);
}

/* The words about the instance's file; output: NULL = it is memory that the asker reads as it grows. */
static void compose_places(struct asked *asked, const char *output, const char *buffer_dir)
{
	if (!output) {
		asked->words[asked->count++] = "follow=1";
		return;
	}
	name_path(asked->output, sizeof(asked->output), "output", output);
	if (!strpbrk(asked->output, "\n"))
		asked->words[asked->count++] = asked->output;
	if (buffer_dir) {
		name_path(asked->buffer_dir, sizeof(asked->buffer_dir), "buffer-dir", buffer_dir);
		asked->words[asked->count++] = asked->buffer_dir;
	}
}

static int compose_words(struct asked *asked, const struct recording *recording, const char *name, const char *output)
{
	size_t size;
	FILE *stream = open_memstream(&asked->lines, &size);

	if (!stream)
		return -ENOMEM;
	settings_print(&recording->settings, stream);
	if (recording->triggers)
		triggers_print(recording->triggers, stream);
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
	compose_places(asked, output, recording->settings.options.buffer_dir);
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

static int ask_to_end(int socket, const char *name, char **answer, struct calltap_diag *diag)
{
	char word[64];
	const char *const words[] = {word};
	const struct remote_request request = {.verb = "detach", .words = words, .count = 1, .timeout_ms = PATIENCE_MS};

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

/* The actor of the instance's triggers, which asks the session by connections of its own. */
struct doing {
	const struct recording *recording;
	const char *name;
	int sent; /* the session's end of the socket for deeds; closed once the session has it */
	int taken;
	struct actor *actor;
	uint32_t cut_short; /* system calls that its stops ended early */
};

/* Ask the session of the instance's; the request's first word is instance=NAME. */
static int ask_anew(const struct doing *doing, struct remote_request *request, const char **words, char **answer,
		    struct calltap_diag *diag)
{
	char word[sizeof("instance=") + 64];
	int socket, ret = remote_connect(&socket, doing->recording->settings.options.pids[0], diag);

	*answer = NULL;
	if (ret)
		return ret;
	snprintf(word, sizeof(word), "instance=%s", doing->name);
	words[0] = word;
	request->words = words;
	request->timeout_ms = PATIENCE_MS;
	ret = remote_ask(socket, request, answer, diag);
	close(socket);
	return ret;
}

static int do_snapshot(void *context, const struct deed *deed, const char *path, uint64_t history_ns, uint64_t *records,
		       struct calltap_diag *diag)
{
	char history[64], call[sizeof("call=") + HISTORY_CALL_TEXT] = "call=", reason[sizeof("reason=") + DEED_TEXT];
	const char *words[] = {"", history, call, reason};
	struct remote_request request = {.verb = "snapshot", .count = 4, .fd_count = 1};
	struct output file;
	char *answer = NULL;
	int ret = output_open(&file, path), asked;

	if (ret)
		return calltap_diag_set(diag, ret, "cannot write %s: %s", path, strerror(-ret));
	snprintf(history, sizeof(history), "history_ns=%llu", (unsigned long long)history_ns);
	if (deed->call.exit_ticks)
		history_call_print(&deed->call, call + strlen(call));
	snprintf(reason, sizeof(reason), "reason=%s", deed->text);
	request.fds = &file.fd;
	asked = ask_anew(context, &request, words, &answer, diag);
	*records = answer ? strtoull(answer, NULL, 10) : 0;
	free(answer);
	if (asked == -ENOENT || asked == -EPIPE) /* the instance, or the session, has ended meanwhile */
		asked = -ESRCH;
	ret = output_finish(&file, asked);
	return ret == asked ? ret : calltap_diag_set(diag, ret, "cannot write %s: %s", path, strerror(-ret));
}

static int do_tracing(void *context, bool on, struct calltap_diag *diag)
{
	const char *words[] = {"", on ? "tracing=on" : "tracing=off"};
	struct remote_request request = {.verb = "set", .count = 2};
	char *answer = NULL;
	int ret = ask_anew(context, &request, words, &answer, diag);

	free(answer);
	return ret;
}

/* How long a trigger's stack has stopped the process is not told of a further instance. */
static void do_stopped(void *context, const struct attach_times *times)
{
	((struct doing *)context)->cut_short += times->cut_short;
}

static int doing_open(struct doing *doing, const struct recording *recording)
{
	int ends[2];

	*doing = (struct doing){.recording = recording, .sent = -1, .taken = -1};
	if (!recording->triggers)
		return 0;
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends))
		return -errno;
	doing->sent = ends[0];
	doing->taken = ends[1];
	return 0;
}

static void doing_close(struct doing *doing)
{
	uint64_t undone = actor_end(doing->actor);

	doing->actor = NULL;
	if (undone)
		fprintf(stderr, "calltap: %llu %s not taken in time\n", (unsigned long long)undone,
			counted(undone, "action was", "actions were"));
	if (doing->sent >= 0)
		close(doing->sent);
	if (doing->taken >= 0)
		close(doing->taken);
	doing->sent = doing->taken = -1;
}

/* The instance of that name is there. */
static void doing_start(struct doing *doing, const char *name, const char *output)
{
	static const struct actor_ops ops = {do_snapshot, do_tracing, do_stopped};
	const struct recording *recording = doing->recording;
	const struct actor_options options = {
		.ops = &ops,
		.context = doing,
		.triggers = recording->triggers,
		.output = output,
		.deeds = doing->taken,
		.tells = !recording->quiet,
	};
	int ret;

	if (!recording->triggers)
		return;
	doing->name = name;
	close(doing->sent);
	doing->sent = -1;
	ret = actor_start(&doing->actor, &options);
	if (ret)
		fprintf(stderr, "calltap: cannot start a thread, and triggers do nothing: %s\n", strerror(-ret));
}

/* Follow the instance from its begin to its end. */
static int follow_instance(struct recording *recording, struct doing *doing, int socket, int signals, char *name,
			   const char *output)
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
	doing_start(doing, name, output);
	asked = !wait_end(socket, signals, recording->settings.options.duration_ns);
	doing_close(doing); /* what is to be done yet needs the instance */
	ret = asked ? ask_to_end(socket, name, &answer, &diag) : remote_receive(socket, PATIENCE_MS, &answer, &diag);
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
	if (!recording->quiet)
		recording_tell_cut_short(doing->cut_short);
	free(answer);
	return ret ? EXIT_USAGE : 0;
}

static int ask_to_begin(struct recording *recording, int socket, const char *name, const char *output,
			const int fds[REMOTE_FDS], char **answer, struct calltap_diag *diag)
{
	struct remote_request request = {
		.verb = "instance", .fds = fds, .fd_count = fds[1] < 0 ? 1 : 2, .timeout_ms = PATIENCE_MS};
	struct asked asked = {0};
	int ret = compose_words(&asked, recording, name, output);

	if (ret)
		ret = calltap_diag_set(
			diag, ret,
			ret == -E2BIG ? "a further instance takes 500 filters at the most; use patterns that match "
					"several functions"
				      : "not enough memory");
	request.words = asked.words;
	request.count = asked.count;
	if (!ret)
		ret = remote_ask(socket, &request, answer, diag);
	asked_clear(&asked);
	return ret;
}

int instance_find(pid_t pid, int *socket)
{
	const struct timespec pause = {0, INSTANCE_ENDING_STEP_NS};
	struct remote_status status;
	struct calltap_diag diag = {0};
	int ret = -EPIPE;

	for (int i = 0; ret == -EPIPE && i <= INSTANCE_ENDING_STEPS; i++) {
		if (i)
			nanosleep(&pause, NULL);
		if (remote_connect(socket, pid, &diag))
			return -ESRCH;
		ret = remote_ask_status(*socket, NULL, &status, &diag);
		if (ret == -EPIPE)
			close(*socket);
	}
	return ret == -EPIPE ? ret : 0;
}

/*
 * Be the only command that is about to attach to the process, or has.  Its turn lasts until it ends: the kernel forgets
 * the name then.  False: another one has the turn.
 */
static bool take_turn(pid_t pid)
{
	static int taken = -1;
	struct sockaddr_un name = {.sun_family = AF_UNIX};
	int length = snprintf(name.sun_path + 1, sizeof(name.sun_path) - 1, "calltap-turn-%d", (int)pid);

	if (taken < 0)
		taken = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	return taken < 0 ||
	       !bind(taken, (struct sockaddr *)&name,
		     (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + length)) ||
	       errno != EADDRINUSE;
}

int instance_find_in_turn(pid_t pid, int *socket)
{
	const struct timespec pause = {0, INSTANCE_ENDING_STEP_NS};
	int ret = instance_find(pid, socket);

	/* Two that begin at one moment find no session, both: the one that comes second waits for the first one's. */
	for (int i = 0; ret && i < INSTANCE_TURN_STEPS && !take_turn(pid); i++) {
		nanosleep(&pause, NULL);
		ret = instance_find(pid, socket);
	}
	return ret ? instance_find(pid, socket) : 0;
}

size_t instance_leave_out(pid_t *pids, size_t count, const char *verb)
{
	size_t left = 0;
	int socket;

	for (size_t i = 0; i < count; i++) {
		if (instance_find(pids[i], &socket)) {
			pids[left++] = pids[i];
			continue;
		}
		close(socket);
		fprintf(stderr,
			"calltap: process %d is left out: it is traced already; `calltap %s %d` alone gives it a "
			"further instance\n",
			(int)pids[i], verb, (int)pids[i]);
	}
	if (!left)
		fprintf(stderr, "calltap: none of these processes could be attached to\n");
	return left;
}

int instance_attach(struct recording *recording, int socket, const char *name, bool named_output)
{
	const char *output = named_output ? recording->settings.options.output : OUTPUT;
	struct output file;
	struct doing doing;
	struct calltap_diag diag = {.column = -1};
	char *answer = NULL;
	int signals, ret = instance_check(recording);
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
	ret = doing_open(&doing, recording);
	if (ret)
		fprintf(stderr, "calltap: cannot make a socket for triggers: %s\n", strerror(-ret));
	else
		ret = ask_to_begin(recording, socket, name, output, (const int[REMOTE_FDS]){file.fd, doing.sent},
				   &answer, &diag);
	if (ret && diag.code && ret != -EPIPE)
		calltap_diag_print(&diag, stderr);
	close(file.fd);
	if (ret) {
		doing_close(&doing);
		output_remove(&file);
		close(signals);
		sigprocmask(SIG_SETMASK, &old, NULL);
		return ret == -EPIPE ? ret : EXIT_NOTHING;
	}
	recording->settings.options.output = output; /* of which a page may be made */
	ret = name_output(&file);
	if (ret)
		fprintf(stderr, "calltap: cannot name the trace %s: %s; it is in %s\n", output, strerror(-ret),
			file.temporary);
	ret = follow_instance(recording, &doing, socket, signals, answer, output);
	free(answer);
	close(signals);
	return ret;
}

int instance_watch(struct recording *recording, int socket, int memory, int stop, bool *begun,
		   struct calltap_diag *diag)
{
	char path[64], *name = NULL, *answer = NULL;
	int fd, ret;

	/* The session writes at a position of its own. */
	snprintf(path, sizeof(path), "/proc/self/fd/%d", memory);
	fd = open(path, O_RDWR | O_CLOEXEC);
	if (fd < 0)
		return calltap_diag_set(diag, -errno, "cannot open the memory for records: %s", strerror(errno));
	ret = ask_to_begin(recording, socket, NULL, NULL, (const int[REMOTE_FDS]){fd, -1}, &name, diag);
	close(fd);
	if (ret == -EPIPE)
		ret = calltap_diag_set(diag, ret, "the recording of this process has just ended; try again");
	*begun = !ret && name;
	if (*begun) {
		name[strcspn(name, "\n")] = 0;
		ret = wait_end(socket, stop, 0) ? remote_receive(socket, PATIENCE_MS, &answer, diag)
						: ask_to_end(socket, name, &answer, diag);
		if (ret == -EPIPE)
			ret = calltap_diag_set(diag, ret,
					       "the session has ended without a word (was its tool killed?)");
	}
	free(answer);
	free(name);
	return ret;
}
