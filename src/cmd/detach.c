/*
 * `calltap detach`: the session of a process ends, and the process runs on
 * as it was.
 *
 * The one who traces it does that and says what became of it; without one
 * there is nothing to do.  Caller: main.  Context: host.
 */
#include <errno.h>
#include <stdlib.h>

#include "cmd.h"
#include "steering.h"

#define PATIENCE_MS 60000

static const char help[] = "usage: calltap detach PID [--instance NAME]\n"
			   "End the session that traces PID.  The process runs on: its functions get the bytes of\n"
			   "their files back, and its trace is completed.  Its further instances end with it;\n"
			   "one of those ends alone when it is named.\n\n"
			   "      --instance NAME   only this instance (`calltap status PID` lists them)\n"
			   "  -h, --help            this text\n";

int cmd_detach(int argc, char **argv)
{
	static const struct option options[] = {STEERING_OF_INSTANCE, STEERING_OPTIONS, {0}};
	const struct remote_request request = {.verb = "detach", .fd = -1, .timeout_ms = PATIENCE_MS};
	struct steering steering;
	char *answer = NULL;
	pid_t pid = 0;
	int option, err = 0;

	steering_init(&steering, "detach", help);
	while (!err && !steering.done && (option = getopt_long(argc, argv, ":h", options, NULL)) != -1)
		err = steering_option(&steering, option, argv);
	if (!err && !steering.done)
		err = steering_pid(&steering, &pid, argc, argv);
	if (!err && !steering.done)
		err = steering_no_more(&steering, argc, argv);
	if (!err && !steering.done)
		err = steering_ask(&steering, pid, &request, &answer);
	if (answer)
		steering_print(answer);
	free(answer);
	return steering_close(&steering, err);
}
