/*
 * `calltap mark`: write a text into the trace that is being made of a process.
 *
 * The session writes it (host/session/marks.c).  Caller: main.  Context: host.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmd.h"
#include "options.h"
#include "steering.h"

#define PATIENCE_MS 30000

static const char help[] = "usage: calltap mark PID TEXT [--instance NAME]\n"
			   "Write TEXT into the trace that is being made of PID, with the time of now.\n\n"
			   "      --instance NAME   of this instance (`calltap status PID` lists them)\n"
			   "  -h, --help            this text\n";

static int ask(struct steering *steering, pid_t pid, const char *text)
{
	struct remote_request request = {.verb = "mark", .count = 1, .timeout_ms = PATIENCE_MS};
	char *word = NULL, *answer = NULL;
	const char *words[1];
	int err;

	if (strchr(text, '\n'))
		return calltap_diag_set(&steering->diag, -EINVAL, "a mark is one line");
	if (asprintf(&word, "text=%s", text) < 0)
		return calltap_diag_set(&steering->diag, -ENOMEM, "not enough memory");
	words[0] = word;
	request.words = words;
	err = steering_ask(steering, pid, &request, &answer);
	free(answer);
	free(word);
	return err;
}

int cmd_mark(int argc, char **argv)
{
	static const struct option options[] = {STEERING_OF_INSTANCE, STEERING_OPTIONS, {0}};
	struct steering steering;
	const char *text = NULL;
	pid_t pid = 0;
	int option, err = 0;

	steering_init(&steering, "mark", help);
	while (!err && !steering.done && (option = options_next(argc, argv, ":h", options)) != -1)
		err = steering_option(&steering, option, argv);
	if (err || steering.done)
		return steering_close(&steering, err);
	err = steering_pid(&steering, &pid, argc, argv);
	if (!err && optind >= argc)
		err = calltap_diag_set(&steering.diag, -EINVAL, "which text? Give it behind the PID, in quotes");
	if (!err)
		text = argv[optind++];
	if (!err)
		err = steering_no_more(&steering, argc, argv);
	if (!err)
		err = ask(&steering, pid, text);
	return steering_close(&steering, err);
}
