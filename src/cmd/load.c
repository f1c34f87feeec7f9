/*
 * `calltap load`: load a library into a process that runs, mostly a library of handlers (libcalltap.so).
 *
 * Caller: main; and libcalltap.so, which gives a descriptor for the answer: "ready", or -errno and the sentence.
 * Context: host.
 */
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <host/attach/attach.h>
#include <host/view/parse.h>

#include "cmd.h"
#include "recording.h"
#include "options.h"
#include "steering.h"

enum { OPT_ANSWER_FD = STEERING_OWN };

static const char help[] = "usage: calltap load PID LIBRARY\n"
			   "Load a library into a process that runs, where it stays. Its constructors may start a\n"
			   "thread that opens a session and registers handlers: see calltap(3).\n\n"
			   "  -h, --help            this text\n";

static int take_library(struct steering *steering, char path[PATH_MAX], int argc, char **argv)
{
	if (optind >= argc)
		return calltap_diag_set(&steering->diag, -EINVAL, "which library? Give its path after the PID");
	if (!realpath(argv[optind], path))
		return calltap_diag_set(&steering->diag, -errno, "%.300s cannot be found: %s", argv[optind],
					strerror(errno));
	optind++;
	return 0;
}

static int load(pid_t pid, const char *path, struct calltap_diag *diag)
{
	struct attach_result result;
	int ret = attach_check_load(pid, diag);

	if (!ret) {
		ret = attach_load(pid, path, 0, &result, diag);
		recording_tell_cut_short(result.cut_short);
	}
	return ret;
}

static void answer(int fd, int err, const struct calltap_diag *diag)
{
	if (err)
		dprintf(fd, "%d %s\n", err, diag->text);
	else
		dprintf(fd, "ready\n");
}

int cmd_load(int argc, char **argv)
{
	static const struct option options[] = {
		{"ready-fd", required_argument, NULL, OPT_ANSWER_FD}, STEERING_OPTIONS, {0}};
	char path[PATH_MAX];
	struct steering steering;
	uint64_t ready = 0;
	pid_t pid = 0;
	int option, err = 0;

	steering_init(&steering, "load", help);
	steering.untraced = true;
	while (!err && !steering.done && (option = options_next(argc, argv, ":h", options)) != -1)
		err = option == OPT_ANSWER_FD ? parse_number(&ready, optarg, INT_MAX, "ready-fd", &steering.diag)
					      : steering_option(&steering, option, argv);
	if (!err && !steering.done)
		err = steering_pid(&steering, &pid, argc, argv);
	if (!err && !steering.done)
		err = take_library(&steering, path, argc, argv);
	if (!err && !steering.done)
		err = steering_no_more(&steering, argc, argv);
	if (!err && !steering.done)
		err = load(pid, path, &steering.diag);
	if (ready)
		answer((int)ready, err, &steering.diag);
	return steering_close(&steering, err);
}
