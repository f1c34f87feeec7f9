/* Options, the PID and the exit status of the verbs that talk to a session; see steering.h.  Context: host. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "host/view/parse.h"
#include "options.h"
#include "steering.h"

void steering_init(struct steering *steering, const char *verb, const char *help)
{
	*steering = (struct steering){.verb = verb, .help = help};
	opterr = 0;
	optind = 0;
	signal(SIGPIPE, SIG_IGN);
}

int steering_option(struct steering *steering, int option, char **argv)
{
	switch (option) {
	case STEERING_HELP:
		fputs(steering->help, stdout);
		steering->done = true;
		return 0;
	case STEERING_JSON:
		steering->json = true;
		return 0;
	case STEERING_INSTANCE:
		steering->instance = optarg;
		return strchr(optarg, '\n') || !*optarg
			       ? calltap_diag_set(&steering->diag, -EINVAL, "'%.40s' is no instance's name", optarg)
			       : 0;
	default:
		return options_refuse(&steering->diag, option, argv);
	}
}

int steering_pid(struct steering *steering, pid_t *pid, int argc, char **argv)
{
	uint32_t id;
	int err;

	if (optind >= argc)
		return calltap_diag_set(&steering->diag, -EINVAL, "which process? Give its PID; %s",
					steering->untraced ? "`pidof PROGRAM` tells one"
							   : "`calltap status` lists those that are traced");
	err = parse_id(&id, argv[optind], "PID", &steering->diag);
	*pid = (pid_t)id;
	optind += !err;
	return err;
}

int steering_no_more(struct steering *steering, int argc, char **argv)
{
	if (optind >= argc)
		return 0;
	return calltap_diag_set(&steering->diag, -EINVAL, "'%s' is one word too many ('calltap %s --help')",
				argv[optind], steering->verb);
}

int steering_ask_at(struct steering *steering, int socket, const struct remote_request *request, char **answer)
{
	struct remote_request asked = *request;
	const char **words = calloc(request->count + 1, sizeof(*words));
	char *word = NULL;
	int err;

	*answer = NULL;
	if (!words || (steering->instance && asprintf(&word, "instance=%s", steering->instance) < 0)) {
		free(words);
		return calltap_diag_set(&steering->diag, -ENOMEM, "not enough memory");
	}
	if (word)
		words[0] = word;
	for (size_t i = 0; i < request->count; i++)
		words[i + (word != NULL)] = request->words[i];
	asked.words = words;
	asked.count += word != NULL;
	err = remote_ask(socket, &asked, answer, &steering->diag);
	free(word);
	free(words);
	return err;
}

int steering_ask(struct steering *steering, pid_t pid, const struct remote_request *request, char **answer)
{
	int socket, err = remote_connect(&socket, pid, &steering->diag);

	*answer = NULL;
	if (err)
		return err;
	err = steering_ask_at(steering, socket, request, answer);
	close(socket);
	return err;
}

void steering_print(const char *answer)
{
	size_t size = strlen(answer);

	fputs(answer, stdout);
	if (size && answer[size - 1] != '\n')
		putchar('\n');
}

int steering_close(struct steering *steering, int err)
{
	bool unwritten = fflush(stdout) || ferror(stdout);

	if (!err && unwritten && errno != EPIPE)
		err = calltap_diag_set(&steering->diag, -errno, "cannot write the output: %s", strerror(errno));
	if (err)
		calltap_diag_print(&steering->diag, stderr);
	return err ? 1 : 0;
}
