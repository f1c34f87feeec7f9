/*
 * Starting the command with the agent in it.  Context: host.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "session.h"

#define PRELOAD_MAX 8192u

/* The sandboxes that we are in ourselves are no reason for the agent to stay out. */
static int tell_filters(void)
{
	FILE *status = fopen("/proc/self/status", "re");
	char line[256], text[16];
	long filters = 0;

	while (status && fgets(line, sizeof(line), status)) {
		if (!strncmp(line, "Seccomp:", 8) && strtol(line + 8, NULL, 10))
			filters = 1; /* before Linux 5.9 this is all that is told */
		if (!strncmp(line, "Seccomp_filters:", 16))
			filters = strtol(line + 16, NULL, 10);
	}
	if (status)
		fclose(status);
	snprintf(text, sizeof(text), "%ld", filters);
	return filters ? setenv(CALLTAP_ENV_FILTERS, text, 1) : 0;
}

/* In the child: what the program gets that it would not get without us is in its environment alone. */
static void become_command(const struct session *session, const char *preload, const sigset_t *mask, int error_pipe)
{
	char name[sizeof(session->name) + 24];
	int error;

	signals_give_back(session);
	sigprocmask(SIG_SETMASK, mask, NULL); /* what came meanwhile ends it as it would without us */
	setrlimit(RLIMIT_NOFILE, &session->files);
	snprintf(name, sizeof(name), "%s:%016llx", session->name, (unsigned long long)session->key);
	if (!setenv("LD_PRELOAD", preload, 1) && !setenv(CALLTAP_ENV_SESSION, name, 1) && !tell_filters())
		execvp(session->options->command[0], session->options->command);
	error = errno;
	if (write(error_pipe, &error, sizeof(error)) < 0)
		_exit(126);
	_exit(127);
}

int spawn_command(struct session *session, struct calltap_diag *diag)
{
	const char *old = getenv("LD_PRELOAD");
	char preload[PRELOAD_MAX];
	int pipe_fds[2], error = 0;
	sigset_t all, mask;

	if (strpbrk(session->options->agent_path, " :"))
		return calltap_diag_set(diag, -EINVAL,
					"the loader cannot preload %s: install Calltap where the path has no "
					"space or colon",
					session->options->agent_path);
	if (snprintf(preload, sizeof(preload), "%s%s%s", session->options->agent_path, old && *old ? ":" : "",
		     old ? old : "") >= (int)sizeof(preload))
		return calltap_diag_set(diag, -E2BIG, "LD_PRELOAD is longer than %u bytes; shorten it", PRELOAD_MAX);
	if (pipe2(pipe_fds, O_CLOEXEC))
		return calltap_diag_set(diag, -errno, "cannot make a pipe: %s", strerror(errno));
	/* Until it has its own dispositions back, a signal would meet ours. */
	sigfillset(&all);
	sigprocmask(SIG_SETMASK, &all, &mask);
	session->command = fork();
	error = errno;
	if (!session->command) {
		become_command(session, preload, &mask, pipe_fds[1]);
		_exit(127);
	}
	sigprocmask(SIG_SETMASK, &mask, NULL);
	close(pipe_fds[1]);
	if (session->command < 0) {
		session->command = 0;
		close(pipe_fds[0]);
		return calltap_diag_set(diag, -error, "cannot start a process: %s", strerror(error));
	}
	if (read(pipe_fds[0], &error, sizeof(error)) != sizeof(error))
		error = 0;
	close(pipe_fds[0]);
	if (error) {
		waitpid(session->command, NULL, 0);
		session->command = 0;
		session->result->unrunnable = true;
		return calltap_diag_set(diag, -error, "cannot run %s: %s", session->options->command[0],
					strerror(error));
	}
	/* Without one (no descriptors, an old kernel) the server looks now and then whether it has ended. */
	session->command_fd = (int)syscall(SYS_pidfd_open, session->command, 0);
	return 0;
}
