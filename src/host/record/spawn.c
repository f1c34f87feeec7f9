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

/* In the child: what the program gets that it would not get without us is in its environment alone. */
static void become_command(const struct session *session, const char *preload, int error_pipe)
{
	int error;

	sigaction(SIGINT, &session->old_int, NULL);
	sigaction(SIGQUIT, &session->old_quit, NULL);
	signal(SIGTERM, SIG_DFL);
	signal(SIGPIPE, SIG_DFL);
	setrlimit(RLIMIT_NOFILE, &session->files);
	if (!setenv("LD_PRELOAD", preload, 1) && !setenv(CALLTAP_ENV_SESSION, session->name, 1))
		execvp(session->options->command[0], session->options->command);
	error = errno;
	if (write(error_pipe, &error, sizeof(error)) < 0)
		_exit(126);
	_exit(127);
}

int spawn_command(struct session *session, struct calltap_diag *diag)
{
	const char *old = getenv("LD_PRELOAD");
	char preload[8192];
	int pipe_fds[2], error = 0;

	if (strpbrk(session->options->agent_path, " :"))
		return calltap_diag_set(diag, -EINVAL,
					"the loader cannot preload %s: install Calltap where the path has no "
					"space or colon",
					session->options->agent_path);
	snprintf(preload, sizeof(preload), "%s%s%s", session->options->agent_path, old && *old ? ":" : "",
		 old ? old : "");
	if (pipe2(pipe_fds, O_CLOEXEC))
		return calltap_diag_set(diag, -errno, "cannot make a pipe: %s", strerror(errno));
	session->command = fork();
	if (session->command < 0)
		return calltap_diag_set(diag, -errno, "cannot start a process: %s", strerror(errno));
	if (!session->command) {
		become_command(session, preload, pipe_fds[1]);
		_exit(127);
	}
	close(pipe_fds[1]);
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
	session->command_fd = (int)syscall(SYS_pidfd_open, session->command, 0);
	if (session->command_fd < 0)
		return calltap_diag_set(diag, -errno, "cannot watch process %d: %s", (int)session->command,
					strerror(errno));
	return 0;
}
