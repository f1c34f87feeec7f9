/*
 * calltap serve: attach to a program for the handlers of its own.
 *
 * libcalltap starts this, in and for the program that it is loaded in.  Nothing is recorded.  The session ends with the
 * process, by SIGTERM, by `calltap detach`, or when the other end of a descriptor is closed.  On that descriptor serve
 * tells what became of the start, in one line: "ready", or a negative error number and a sentence.  Context: host.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmd/cmd.h>
#include <host/session/record.h>
#include <tracers/tracer.h>

#include "clearing.h"
#include "recording.h"

#define BUFFER_BYTES (8u << 10) /* the smallest there are: no records come in */
#define AGAIN_MS     20

struct server {
	struct record_live *live;
	pid_t pid;
	int ready; /* the descriptor, -1 = none */
	pthread_t watcher;
	bool watched;
	bool told; /* libcalltap knows what became of the start */
	bool over; /* atomic: the watcher is to end */
};

static void print_help(void)
{
	printf("Usage: calltap serve PID [OPTIONS]\n\n"
	       "Attach to a program for handlers of its own (libcalltap), which starts this by itself.\n"
	       "Nothing is recorded. It ends with the process, by SIGTERM or `calltap detach PID`; then the\n"
	       "process is as it was.\n\n");
	recording_print_options(RECORDING_SERVE);
	printf("\n"
	       "The exit status is 0 when the process was attached to; 2 when it cannot be, 1 for a wrong option.\n");
}

/* Write a line for libcalltap; if it does not read any more, it needs no further ones. */
static void tell_parent(struct server *server, const char *line)
{
	server->told = true;
	if (server->ready >= 0 && write(server->ready, line, strlen(line)) < 0)
		server->ready = -1;
}

static void say_ready(void *ctx)
{
	tell_parent(ctx, "ready\n");
}

static void say_failed(struct server *server, int error, const char *text)
{
	char line[1024];

	snprintf(line, sizeof(line), "%d %s\n", error, text[0] ? text : strerror(-error));
	if (server->ready < 0)
		fprintf(stderr, "calltap: %s", strchr(line, ' ') + 1);
	else if (!server->told)
		tell_parent(server, line);
}

/* True if the other end is closed: nobody wants this session any more. */
static bool is_hung_up(int fd)
{
	struct pollfd ready = {.fd = fd, .events = POLLIN | POLLRDHUP};
	char ignored[64];
	ssize_t got;

	if (poll(&ready, 1, AGAIN_MS) <= 0)
		return false;
	if (ready.revents & (POLLERR | POLLNVAL | POLLRDHUP | POLLHUP))
		return true;
	got = read(fd, ignored, sizeof(ignored));
	return !got || (got < 0 && errno != EINTR && errno != EAGAIN);
}

/* End the recording when the other end closes.  A recording that has not begun yet cannot be ended: so ask again. */
static void *watch_parent(void *argument)
{
	struct server *server = argument;
	const int fd = server->ready;

	while (!__atomic_load_n(&server->over, __ATOMIC_ACQUIRE) && !is_hung_up(fd))
		;
	while (!__atomic_load_n(&server->over, __ATOMIC_ACQUIRE)) { /* pairs with run_server() */
		record_live_end(server->live);
		poll(NULL, 0, AGAIN_MS);
	}
	return NULL;
}

static int run_server(struct server *server, struct recording *recording)
{
	char *command[] = {(char *)"?", NULL};
	struct record_result result = {0};
	struct calltap_diag diag = {0};
	int ret;

	recording->settings.options.command = command;
	recording->settings.options.pids = &server->pid;
	recording->settings.options.pid_count = 1;
	recording->settings.options.begun = say_ready;
	recording->settings.options.begun_ctx = server;
	recording->settings.options.live = server->live;
	server->watched = server->ready >= 0 && !pthread_create(&server->watcher, NULL, watch_parent, server);
	ret = record_run(&recording->settings.options, &result, &diag);
	__atomic_store_n(&server->over, true, __ATOMIC_RELEASE); /* pairs with watch_parent() */
	if (server->watched)
		pthread_join(server->watcher, NULL);
	if (ret)
		say_failed(server, ret, diag.text);
	else if (!server->told)
		say_failed(server, -ESRCH, "the process has ended");
	clearing_children(&result, recording->argv);
	ret = result.attached_count ? 0 : EXIT_NOTHING;
	record_result_clear(&result);
	return ret;
}

static int take_number(const char *text, long min, int *number, const char *what)
{
	char *end;
	long value = text ? strtol(text, &end, 10) : 0;

	if (text && end != text && !*end && value >= min && value <= INT32_MAX) {
		*number = (int)value;
		return 0;
	}
	if (text)
		fprintf(stderr, "calltap: '%s' is no %s; see `calltap serve --help`\n", text, what);
	else
		fprintf(stderr, "calltap: the %s is missing; see `calltap serve --help`\n", what);
	return EXIT_USAGE;
}

static int take_options(struct server *server, struct recording *recording, int argc, char **argv)
{
	int code, ret = 0;

	while (!ret && (code = recording_next(RECORDING_SERVE, argc, argv)) != -1) {
		if (code == OPT_HELP) {
			print_help();
			return -1;
		}
		ret = code == OPT_READY_FD ? take_number(optarg, 0, &server->ready, "descriptor")
					   : recording_take(recording, code, optarg);
	}
	if (!ret && server->ready >= 0 && fcntl(server->ready, F_SETFD, FD_CLOEXEC)) {
		fprintf(stderr, "calltap: descriptor %d is not open\n", server->ready);
		ret = EXIT_USAGE;
	}
	if (!ret)
		ret = take_number(argv[optind], 1, &server->pid, "process id");
	if (!ret && argv[optind + 1]) {
		fprintf(stderr, "calltap: one process at a time; see `calltap serve --help`\n");
		ret = EXIT_USAGE;
	}
	return ret;
}

int cmd_serve(int argc, char **argv)
{
	struct server server = {.ready = -1};
	struct recording recording;
	struct record_options *options = &recording.settings.options;
	int ret = recording_init(&recording, argv);

	signal(SIGPIPE, SIG_IGN);
	if (!ret)
		ret = take_options(&server, &recording, argc, argv);
	options->output = NULL;
	options->tracer = tracer_find("nop");
	options->mode = CALLTAP_MODE_DROP; /* nothing in the program ever waits for the tool */
	options->buffer_bytes = BUFFER_BYTES;
	options->serves = true;
	options->allow_no_sites = true; /* a library with sites may come later */
	options->allow_no_match = true;
	recording.quiet = true;
	if (!ret)
		ret = recording_check(&recording, argc, argv, optind);
	if (ret > 0 && server.ready >= 0)
		say_failed(&server, -EINVAL,
			   "`calltap serve` was started wrongly, its agent is not beside it, or too "
			   "few files may be open (raise ulimit -n)");
	if (!ret && record_live_create(&server.live))
		ret = EXIT_USAGE;
	if (!ret)
		ret = run_server(&server, &recording);
	record_live_destroy(server.live);
	recording_clear(&recording);
	return ret < 0 ? 0 : ret;
}
