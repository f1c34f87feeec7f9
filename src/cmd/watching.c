/*
 * A recording in a thread of its own; see watching.h.  Context: host.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <host/elf/filter.h>
#include <host/now.h>
#include <host/sender.h>
#include <host/trace/trace.h>

#include "clearing.h"
#include "instance.h"
#include "watching.h"

#define STOP_NS 2000000000u /* a command that was asked to end may take so long */

int watching_init(struct watching *watching, char **argv)
{
	memset(watching, 0, sizeof(*watching));
	watching->done = watching->session = watching->memory = watching->stop = watching->kept_error = -1;
	return recording_init(&watching->recording, argv);
}

/* The screen is the caller's until the end. */
static void note_left_out(void *context, const struct record_attached *told)
{
	struct watching *watching = context;
	char *before = watching->left_out, *text;

	if (asprintf(&text, "%scalltap: process %d is not traced: %s\n", before ? before : "", (int)told->pid,
		     told->trouble.text) < 0)
		return;
	watching->left_out = text;
	free(before);
}

static void name_processes(struct watching *watching)
{
	struct record_options *options = &watching->recording.settings.options;
	const int pid = (int)watching->pids[0];
	char path[64], name[64] = "", more[32] = "";
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/comm", pid);
	file = fopen(path, "re");
	if (file && fgets(name, sizeof(name), file))
		name[strcspn(name, "\n")] = '\0';
	if (file)
		fclose(file);
	if (watching->pid_count > 1)
		snprintf(more, sizeof(more), " and %zu more", watching->pid_count - 1);
	snprintf(watching->what, sizeof(watching->what), "PID %d (%s)%s", pid, name, more);
	snprintf(watching->command, sizeof(watching->command), "%s", name[0] ? name : "?");
	watching->words[0] = watching->command;
	options->command = watching->words;
	options->pids = watching->pids;
	options->pid_count = watching->pid_count;
	options->left_out = watching->pid_count > 1 ? note_left_out : NULL;
	options->left_out_ctx = watching;
}

int watching_take_pid(struct watching *watching, pid_t pid)
{
	if (!watching->pids)
		watching->pids = calloc(1, sizeof(*watching->pids));
	if (!watching->pids)
		return -ENOMEM;
	watching->pids[0] = pid;
	watching->pid_count = 1;
	name_processes(watching);
	return 0;
}

static int take_pid(struct watching *watching, const char *word, const char *verb)
{
	char *end;
	long pid = strtol(word, &end, 10);

	if (*end || pid <= 0 || pid > INT32_MAX) {
		fprintf(stderr, "calltap: '%s' is no process id; write `calltap %s -- COMMAND` to run a command\n",
			word, verb);
		return EXIT_USAGE;
	}
	for (size_t i = 0; i < watching->pid_count; i++)
		if (watching->pids[i] == (pid_t)pid)
			return 0;
	watching->pids[watching->pid_count++] = (pid_t)pid;
	return 0;
}

int watching_target(struct watching *watching, int argc, char **argv, const char *verb)
{
	bool command = optind > 1 && strcmp(argv[optind - 1], "--") == 0;
	const char *word = argv[optind];
	int ret = 0;

	if (!word) {
		fprintf(stderr, "calltap: there is no process and no command; see `calltap %.*s --help`\n",
			(int)strcspn(verb, " "), verb);
		return EXIT_USAGE;
	}
	if (command) {
		watching->recording.settings.options.command = argv + optind;
		snprintf(watching->what, sizeof(watching->what), "%s", word);
		return 0;
	}
	watching->pids = calloc((size_t)(argc - optind), sizeof(*watching->pids));
	if (!watching->pids) {
		fprintf(stderr, "calltap: not enough memory\n");
		return EXIT_USAGE;
	}
	for (int i = optind; i < argc && !ret; i++)
		ret = take_pid(watching, argv[i], verb);
	if (!ret)
		name_processes(watching);
	return ret;
}

/* State of the signal handlers: where the end is asked for. */
static int stop_by_signal = -1;

static void on_signal(int number, siginfo_t *info, void *context)
{
	int error = errno;

	(void)number;
	(void)context;
	if (sender_is_descendant(info))
		return;
	(void)eventfd_write(stop_by_signal, 1);
	errno = error;
}

int watching_make_stop(struct watching *watching)
{
	watching->stop = stop_by_signal = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (watching->stop >= 0)
		return 0;
	fprintf(stderr, "calltap: cannot make an event descriptor: %s\n", strerror(errno));
	return EXIT_USAGE;
}

void watching_take_signals(void)
{
	static const int ends[] = {SIGINT, SIGTERM, SIGHUP};
	struct sigaction action = {.sa_sigaction = on_signal, .sa_flags = SA_RESTART | SA_SIGINFO};

	for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++)
		sigaction(ends[i], &action, NULL);
}

int watching_join(struct watching *watching)
{
	struct recording *recording = &watching->recording;
	int ret;

	if (watching->pid_count > 1) {
		watching->pid_count = instance_leave_out(watching->pids, watching->pid_count, recording->argv[0]);
		if (!watching->pid_count)
			return EXIT_NOTHING;
		name_processes(watching);
		return 0;
	}
	if (!watching->pids || instance_find_in_turn(watching->pids[0], &watching->session)) {
		watching->session = -1;
		return 0;
	}
	signal(SIGPIPE, SIG_IGN);
	ret = instance_check(recording);
	if (!ret)
		ret = watching_make_stop(watching);
	if (!ret)
		watching_take_signals();
	return ret;
}

static void *run_recording(void *arg)
{
	struct watching *watching = arg;

	if (watching_joins(watching)) {
		watching->ret = instance_watch(&watching->recording, watching->session, watching->memory,
					       watching->stop, &watching->result.ran, &watching->diag);
		eventfd_write(watching->done, 1);
		return NULL;
	}
	watching->ret = record_run(&watching->recording.settings.options, &watching->result, &watching->diag);
	eventfd_write(watching->done, 1);
	return NULL;
}

int watching_start(struct watching *watching)
{
	int ret = record_live_create(&watching->live);

	if (!ret) {
		watching->recording.settings.options.live = watching->live;
		watching->done = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
		ret = watching->done < 0 ? -errno : -pthread_create(&watching->thread, NULL, run_recording, watching);
	}
	if (ret)
		fprintf(stderr, "calltap: cannot start a thread: %s\n", strerror(-ret));
	watching->runs = !ret;
	return ret;
}

bool watching_ended(const struct watching *watching)
{
	struct pollfd done = {watching->done, POLLIN, 0};

	return !watching->runs || poll(&done, 1, 0) > 0;
}

void watching_stop(struct watching *watching)
{
	watching->stops++;
	if (watching_joins(watching))
		eventfd_write(watching->stop, 1);
	else
		record_live_end(watching->live);
}

void watching_end(struct watching *watching)
{
	uint64_t until = now_ns() + STOP_NS;
	struct pollfd done = {watching->done, POLLIN, 0};

	if (watching_ended(watching))
		return;
	watching_stop(watching);
	while (!watching_ended(watching) && now_ns() < until)
		(void)poll(&done, 1, 50);
	if (!watching_ended(watching))
		watching_stop(watching);
}

static void redirect(int from, int to)
{
	if (from < 0)
		return;
	dup2(from, to);
	close(from);
}

int watching_part_outputs(struct watching *watching, const char *file, bool screen, int *in, int *out)
{
	const char *path = file ? file : "/dev/null";
	int sink;

	*in = fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3);
	*out = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3);
	if (watching->pids)
		return 0;
	sink = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
	if (sink < 0) {
		fprintf(stderr, "calltap: cannot open '%s': %s\n", path, strerror(errno));
		return -errno;
	}
	if (file || (screen && isatty(STDERR_FILENO))) {
		watching->kept_error = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 3);
		dup2(sink, STDERR_FILENO);
	}
	redirect(sink, STDOUT_FILENO);
	if (screen)
		redirect(open("/dev/null", O_RDONLY | O_CLOEXEC), STDIN_FILENO);
	return 0;
}

void watching_join_error(struct watching *watching)
{
	redirect(watching->kept_error, STDERR_FILENO);
	watching->kept_error = -1;
}

/* The exit status.  A command that was asked to end has no status that means anything. */
static int exit_status(const struct watching *watching)
{
	const struct record_result *result = &watching->result;
	bool spawned = !watching->pids;
	bool nothing = watching->ret == -ENODATA || watching->ret == -ENOEXEC || (!spawned && !result->ours);

	if (!result->ran)
		return nothing ? EXIT_NOTHING : EXIT_USAGE;
	if (watching_joins(watching) && watching->ret)
		return EXIT_USAGE;
	if (!spawned || watching->stops || result->left)
		return 0;
	return WIFEXITED(result->wait_status) ? WEXITSTATUS(result->wait_status) : 128 + WTERMSIG(result->wait_status);
}

void watching_take_losses(struct watching *watching, const struct trace *trace)
{
	if (!watching_joins(watching) || !trace)
		return;
	watching->result.untraced = trace_calls_missed(trace);
	watching->result.lost = trace_end(trace) ? trace_end(trace)->lost : 0;
}

int watching_finish(struct watching *watching)
{
	if (!watching->runs)
		return EXIT_USAGE;
	pthread_join(watching->thread, NULL);
	watching->runs = false;
	if (watching->left_out)
		fputs(watching->left_out, stderr);
	if (watching->ret)
		calltap_diag_print(&watching->diag, stderr);
	clearing_children(&watching->result, watching->recording.argv);
	if (watching->result.ran)
		recording_tell_losses(&watching->result);
	if (watching->result.left && !watching->pids)
		fprintf(stderr, "calltap: %s runs on, untraced\n", watching->what);
	return exit_status(watching);
}

int watching_fail(struct watching *watching, struct calltap_diag *diag)
{
	pthread_join(watching->thread, NULL);
	watching->runs = false;
	*diag = watching->diag;
	record_live_destroy(watching->live);
	watching->live = NULL;
	record_result_clear(&watching->result);
	close(watching->done);
	watching->done = -1;
	return watching->ret ? watching->ret : calltap_diag_set(diag, -ESRCH, "the process has ended");
}

void watching_clear(struct watching *watching)
{
	record_live_destroy(watching->live);
	record_result_clear(&watching->result);
	free(watching->pids);
	free(watching->left_out);
	recording_clear(&watching->recording);
	for (size_t i = 0; i < 5; i++) {
		const int fd = (const int[]){watching->done, watching->session, watching->memory, watching->stop,
					     watching->kept_error}[i];

		if (fd >= 0)
			close(fd);
	}
}
