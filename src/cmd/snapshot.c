/*
 * `calltap snapshot`: what a flight recorder holds now, as a trace file.
 *
 * This process opens the file, with its user's rights, and hands the session the descriptor.  Caller: main.  Context:
 * host.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <host/core/core.h>
#include <host/counted.h>

#include "cmd.h"
#include "options.h"
#include "output.h"
#include "steering.h"

#define PATIENCE_MS 300000

static const char help[] = "usage: calltap snapshot PID [-o FILE] [--history TIME] [--reason TEXT] [--instance NAME]\n"
			   "Write what the flight recorder of PID (--mode overwrite) holds now to a trace file,\n"
			   "while it goes on recording.\n\n"
			   "  -o, --output FILE     where to (default calltap.data.snapshot); an older one is\n"
			   "                        replaced when this one is complete\n"
			   "      --history TIME    only the last TIME (500ms, 2s, ...)\n"
			   "      --reason TEXT     for the file: why\n"
			   "      --instance NAME   of this instance (`calltap status PID` lists them)\n"
			   "  -h, --help            this text\n";

enum { OPTION_OUTPUT = 'o', OPTION_HISTORY = STEERING_OWN, OPTION_REASON };

struct snapshot {
	const char *output, *reason;
	uint64_t history_ns;
	struct output file;
};

static int read_option(struct steering *steering, struct snapshot *snapshot, int option, char **argv)
{
	switch (option) {
	case OPTION_OUTPUT:
		snapshot->output = optarg;
		return 0;
	case OPTION_HISTORY:
		return setting_parse_time(optarg, &snapshot->history_ns) && snapshot->history_ns
			       ? 0
			       : calltap_diag_set(&steering->diag, -EINVAL,
						  "history '%s' is not valid; give a time such as 500ms or 2s", optarg);
	case OPTION_REASON:
		snapshot->reason = optarg;
		return strpbrk(optarg, "\n\r") ? calltap_diag_set(&steering->diag, -EINVAL, "a reason is one line") : 0;
	default:
		return steering_option(steering, option, argv);
	}
}

/* Read the memory of a process that is not traced any more: a killed tool's flight recorder is still in it. */
static int read_memory(struct steering *steering, struct snapshot *snapshot, pid_t pid)
{
	struct calltap_diag why = {.column = -1};
	struct core_result result;
	int err = core_read_process(pid, snapshot->file.fd, &result, &why);

	if (err == -ENODATA || err == -ESRCH)
		return steering->diag.code; /* diag says already that the process is not traced */
	if (err) {
		steering->diag = why;
		return err;
	}
	if (snapshot->history_ns)
		fprintf(stderr, "calltap: the tool is gone: all that it left is written, whatever --history says\n");
	printf("%llu %s of %u %s, which a tool that is gone has left in process %d\n",
	       (unsigned long long)result.records, counted(result.records, "record", "records"), result.threads,
	       counted(result.threads, "thread", "threads"), (int)pid);
	return 0;
}

static int ask(struct steering *steering, struct snapshot *snapshot, pid_t pid)
{
	char history[64], *reason = NULL, *answer = NULL;
	const char *words[2] = {history};
	struct remote_request request = {
		.verb = "snapshot",
		.words = words,
		.count = 1,
		.fds = &snapshot->file.fd,
		.fd_count = 1,
		.timeout_ms = PATIENCE_MS,
	};
	int socket, err = remote_connect(&socket, pid, &steering->diag);

	if (err)
		return err == -ESRCH ? read_memory(steering, snapshot, pid) : err;
	snprintf(history, sizeof(history), "history_ns=%llu", (unsigned long long)snapshot->history_ns);
	if (snapshot->reason && asprintf(&reason, "reason=%s", snapshot->reason) < 0)
		err = calltap_diag_set(&steering->diag, -ENOMEM, "not enough memory");
	if (reason)
		words[request.count++] = reason;
	if (!err)
		err = steering_ask_at(steering, socket, &request, &answer);
	close(socket);
	if (!err)
		steering_print(answer);
	free(answer);
	free(reason);
	return err;
}

static int take(struct steering *steering, struct snapshot *snapshot, pid_t pid)
{
	int err = output_open(&snapshot->file, snapshot->output), asked;

	if (err)
		return calltap_diag_set(&steering->diag, err, "cannot write %s: %s", snapshot->output, strerror(-err));
	asked = ask(steering, snapshot, pid);
	err = output_finish(&snapshot->file, asked);
	return err == asked ? err
			    : calltap_diag_set(&steering->diag, err, "cannot write %s: %s", snapshot->output,
					       strerror(-err));
}

int cmd_snapshot(int argc, char **argv)
{
	static const struct option options[] = {{"output", required_argument, NULL, OPTION_OUTPUT},
						{"history", required_argument, NULL, OPTION_HISTORY},
						{"reason", required_argument, NULL, OPTION_REASON},
						STEERING_OF_INSTANCE,
						STEERING_OPTIONS,
						{0}};
	struct snapshot snapshot = {.output = "calltap.data.snapshot"};
	struct steering steering;
	pid_t pid = 0;
	int option, err = 0;

	steering_init(&steering, "snapshot", help);
	while (!err && !steering.done && (option = options_next(argc, argv, ":ho:", options)) != -1)
		err = read_option(&steering, &snapshot, option, argv);
	if (!err && !steering.done)
		err = steering_pid(&steering, &pid, argc, argv);
	if (!err && !steering.done)
		err = steering_no_more(&steering, argc, argv);
	if (!err && !steering.done)
		err = take(&steering, &snapshot, pid);
	return steering_close(&steering, err);
}
