/*
 * `calltap detach`: the session of a process ends, and the process runs on as it was.
 *
 * The tool that traces the process does that and says what became of it; what a tool that was killed has left is taken
 * away by this one (clearing.h).  The session may have much to write before it has ended; this waits as long as the
 * session's file grows.  Caller: main. Context: host.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <host/now.h>
#include <host/proc.h>
#include <host/text.h>

#include "clearing.h"
#include "cmd.h"
#include "options.h"
#include "steering.h"

#define LOOK_MS	    2000  /* between two looks whether the session goes on */
#define PATIENCE_MS 60000 /* without anything new: then this gives up */

static const char help[] = "usage: calltap detach PID [--instance NAME]\n"
			   "End the session that traces PID.  The process runs on: its functions get the bytes of\n"
			   "their files back, and its trace is completed.  Other processes of the session are let\n"
			   "go of, too, and further instances end with it; one of those ends alone when it is named.\n"
			   "Where their calltap was killed, what that has left in them is taken away.\n\n"
			   "      --instance NAME   only this instance (`calltap status PID` lists them)\n"
			   "  -h, --help            this text\n";

/* False: the session does not tell. */
static bool ask_status(pid_t pid, struct remote_status *status)
{
	struct calltap_diag diag = {0};
	int socket;
	bool told;

	if (remote_connect(&socket, pid, &diag))
		return false;
	told = !remote_ask_status(socket, NULL, status, &diag);
	close(socket);
	return told;
}

static void show_progress(uint64_t bytes)
{
	char size[TIMETEXT_MAX];

	if (!isatty(STDERR_FILENO))
		return;
	fprintf(stderr, bytes ? "\r\033[Kcalltap: the session ends; %s are written" : "\r\033[K%s",
		bytes ? sizetext(bytes, size) : "");
	fflush(stderr);
}

/* Wait for the answer to the request. */
static int await_end(struct steering *steering, pid_t pid, int socket, char **answer)
{
	int64_t until = now_ms() + PATIENCE_MS;
	struct remote_status status = {0};
	uint64_t before = 0;
	bool told = false;
	int ret = -ETIMEDOUT;

	while (ret == -ETIMEDOUT && now_ms() < until && !remote_stopped_tool(socket)) {
		told = ask_status(pid, &status);
		if (status.file_bytes != before)
			until = now_ms() + PATIENCE_MS;
		before = status.file_bytes;
		show_progress(before);
		ret = remote_receive(socket, LOOK_MS, answer, &steering->diag);
	}
	show_progress(0);
	if (ret == -ETIMEDOUT && told)
		return calltap_diag_set(&steering->diag, ret,
					"the session of process %d has begun to end and waits for the process; it is "
					"done when that goes on (is it stopped, or held by a debugger?)",
					(int)pid);
	return ret;
}

static int ask_to_end(struct steering *steering, pid_t pid, char **answer)
{
	const struct remote_request request = {.verb = "detach", .timeout_ms = LOOK_MS};
	int socket, ret = remote_connect(&socket, pid, &steering->diag);

	if (ret)
		return ret;
	ret = steering_ask_at(steering, socket, &request, answer);
	if (ret == -ETIMEDOUT)
		ret = await_end(steering, pid, socket, answer);
	close(socket);
	return ret;
}

int cmd_detach(int argc, char **argv)
{
	static const struct option options[] = {STEERING_OF_INSTANCE, STEERING_OPTIONS, {0}};
	struct remote_status before = {0};
	struct steering steering;
	char *answer = NULL;
	unsigned long long since = 0; /* when the tool began */
	bool started = false;
	pid_t pid = 0;
	int option, err = 0;

	steering_init(&steering, "detach", help);
	while (!err && !steering.done && (option = options_next(argc, argv, ":h", options)) != -1)
		err = steering_option(&steering, option, argv);
	if (!err && !steering.done)
		err = steering_pid(&steering, &pid, argc, argv);
	if (!err && !steering.done)
		err = steering_no_more(&steering, argc, argv);
	if (!err && !steering.done) {
		started = !steering.instance && ask_status(pid, &before) && !before.attached;
		if (started)
			(void)!proc_began((pid_t)before.tool, &since); /* else all processes are looked at */
		err = ask_to_end(&steering, pid, &answer);
	}
	/* There is no session, or its tool was killed before it answered. */
	if ((err == -ESRCH || err == -EPIPE) && pid && !steering.instance)
		err = clearing_run(pid, argv, &steering.diag);
	if (answer)
		steering_print(answer);
	free(answer);
	if (!err && started)
		err = clearing_finish(pid, since, argv, &steering.diag);
	return steering_close(&steering, err);
}
