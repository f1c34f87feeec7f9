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

uint64_t spawn_filters(void)
{
	FILE *status = fopen("/proc/self/status", "re");
	unsigned long filters = 0;
	char line[256];

	while (status && fgets(line, sizeof(line), status)) {
		if (!strncmp(line, "Seccomp:", 8) && strtol(line + 8, NULL, 10))
			filters = 1; /* before Linux 5.9 this is all that is told */
		if (!strncmp(line, "Seccomp_filters:", 16))
			filters = strtoul(line + 16, NULL, 10);
	}
	if (status)
		fclose(status);
	return filters;
}

/* The sandboxes that we are in ourselves are no reason for the agent to stay out. */
static int tell_filters(void)
{
	uint64_t filters = spawn_filters();
	char text[24];

	snprintf(text, sizeof(text), "%llu", (unsigned long long)filters);
	return filters ? setenv(CALLTAP_ENV_FILTERS, text, 1) : 0;
}

/* All that the program gets for the trace's sake lies in its environment. */
struct launch {
	char preload[PRELOAD_MAX];
	char folders[PRELOAD_MAX]; /* for an emulated program: where agents are looked for */
	char session[SESSION_NAME_MAX];
	char **line; /* under an emulator: the command line; NULL = the command itself */
	int hold[2]; /* a pipe: the child executes a static program when it has got a byte; -1 = it does not wait */
};

/* In the child. */
static void become_command(const struct session *session, const struct launch *launch, const sigset_t *mask,
			   int error_pipe)
{
	char word;
	int error;

	if (launch->hold[0] >= 0) {
		close(launch->hold[1]);
		if (read(launch->hold[0], &word, 1) != 1)
			_exit(127); /* the tool is gone */
	}
	signals_give_back(session);
	sigprocmask(SIG_SETMASK, mask, NULL); /* what came meanwhile ends it as it would without us */
	setrlimit(RLIMIT_NOFILE, &session->inherited.files);
	setrlimit(RLIMIT_FSIZE, &session->inherited.file_size);
	if (!setenv(CALLTAP_ENV_SESSION, launch->session, 1) && !tell_filters()) {
		if (launch->line)
			execv(session->emulator.path, launch->line);
		else if (!setenv("LD_PRELOAD", launch->preload, 1))
			execvp(session->options->command[0], session->options->command);
	}
	error = errno;
	if (write(error_pipe, &error, sizeof(error)) < 0)
		_exit(126);
	_exit(127);
}

/* NAME=VALUE, with what the variable holds already behind it. */
static int put_before(char *text, const char *name, bool with_name, const char *value)
{
	const char *old = getenv(name);
	int length = snprintf(text, PRELOAD_MAX, "%s%s%s%s%s", with_name ? name : "", with_name ? "=" : "", value,
			      old && *old ? ":" : "", old && *old ? old : "");

	return length < (int)PRELOAD_MAX ? 0 : -E2BIG;
}

/*
 * The emulator's own environment stays as it is, for it is a program of this
 * CPU.  Its program may execute others of this CPU, too, whose loader would
 * complain of an agent for another one: so the agent has no path, and each
 * loader finds its own, since it passes over files for other CPUs.
 */
static int prepare_emulated(const struct session *session, struct launch *launch)
{
	const char *const variables[] = {launch->preload, launch->folders, NULL};
	const char *native = session->options->agent_path, *name = strrchr(session->agent, '/') + 1;
	char folders[PRELOAD_MAX];

	if (snprintf(folders, sizeof(folders), "%.*s:%.*s", (int)(name - 1 - session->agent), session->agent,
		     (int)(strrchr(native, '/') - native), native) >= (int)sizeof(folders))
		return -E2BIG;
	if (put_before(launch->preload, "LD_PRELOAD", true, name) ||
	    put_before(launch->folders, "LD_LIBRARY_PATH", true, folders))
		return -E2BIG;
	if (strchr(launch->preload, ',') || strchr(launch->folders, ','))
		return -EILSEQ;
	launch->line = emulator_command(&session->emulator, session->program, session->options->command, variables);
	return launch->line ? 0 : -ENOMEM;
}

static int prepare_launch(const struct session *session, struct launch *launch, struct calltap_diag *diag)
{
	const char *agent = session->options->agent_path;
	int ret;

	*launch = (struct launch){.hold = {-1, -1}};
	if (strpbrk(agent, " :"))
		return calltap_diag_set(diag, -EINVAL,
					"the loader cannot preload %s: install Calltap where the path has no "
					"space or colon",
					agent);
	session_name(session, launch->session, sizeof(launch->session));
	ret = session->emulated ? prepare_emulated(session, launch)
				: put_before(launch->preload, "LD_PRELOAD", false, agent);
	if (ret == -EILSEQ)
		return calltap_diag_set(diag, ret,
					"the emulator takes no comma in a variable: install Calltap where the path has "
					"none, and have none in LD_PRELOAD and LD_LIBRARY_PATH");
	if (ret == -E2BIG)
		return calltap_diag_set(diag, ret, "LD_PRELOAD or LD_LIBRARY_PATH is longer than %u bytes; shorten it",
					PRELOAD_MAX);
	return ret ? calltap_diag_set(diag, ret, "not enough memory to start a program") : 0;
}

/*
 * The command is a static program: hold it at its start, and put the agent into it.  0 also where that fails, which the
 * user is told at the end: it runs untraced then.
 */
static int place_agent(struct session *session, const struct launch *launch, struct calltap_diag *diag)
{
	const char *command = session->options->command[0];
	struct calltap_diag why = {0};
	struct attach_launch held;
	int ret = attach_launch_seize(&held, session->command, diag);

	if (ret)
		return ret; /* the pipe's end, when it is closed, ends the child */
	if (write(launch->hold[1], "", 1) != 1)
		return calltap_diag_set(diag, -errno, "cannot start %s: %s", command, strerror(errno));
	ret = attach_launch_reach(&held, &why);
	if (!ret)
		ret = placing_put(session->placing, &held, &why);
	else
		attach_launch_leave(&held);
	if (ret && ret != -ESRCH)
		session_diagnose(session, "%s was not recorded: %s", command, why.text[0] ? why.text : strerror(-ret));
	return 0;
}

/* Make the pipe by which the child waits. */
static int prepare_hold(const struct session *session, struct launch *launch, struct calltap_diag *diag)
{
	if (!session->placing || !pipe2(launch->hold, O_CLOEXEC))
		return 0;
	return calltap_diag_set(diag, -errno, "cannot make a pipe: %s", strerror(errno));
}

/* The child has not executed the program, and ends when it sees the end of its pipe. */
static void give_up(struct session *session, struct launch *launch)
{
	close(launch->hold[1]);
	launch->hold[1] = -1;
	waitpid(session->command, NULL, 0);
	session->command = 0;
}

static int start_program(struct session *session, struct launch *launch, struct calltap_diag *diag)
{
	int pipe_fds[2], error = 0, ret;
	sigset_t all, mask;

	if (pipe2(pipe_fds, O_CLOEXEC))
		return calltap_diag_set(diag, -errno, "cannot make a pipe: %s", strerror(errno));
	/* A signal waits until the child has its own dispositions back: the tool's are not for it. */
	sigfillset(&all);
	sigprocmask(SIG_SETMASK, &all, &mask);
	session->command = fork();
	error = errno;
	if (!session->command) {
		become_command(session, launch, &mask, pipe_fds[1]);
		_exit(127);
	}
	sigprocmask(SIG_SETMASK, &mask, NULL);
	close(pipe_fds[1]);
	if (session->command < 0) {
		session->command = 0;
		close(pipe_fds[0]);
		return calltap_diag_set(diag, -error, "cannot start a process: %s", strerror(error));
	}
	ret = session->placing ? place_agent(session, launch, diag) : 0;
	if (ret) {
		close(pipe_fds[0]);
		give_up(session, launch);
		return ret;
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
	session->ending.fd = (int)syscall(SYS_pidfd_open, session->command, 0);
	return 0;
}

int spawn_command(struct session *session, struct calltap_diag *diag)
{
	struct launch launch;
	int ret = prepare_launch(session, &launch, diag);

	if (!ret)
		ret = prepare_hold(session, &launch, diag);
	if (!ret)
		ret = start_program(session, &launch, diag);
	for (int i = 0; i < 2; i++)
		if (launch.hold[i] >= 0)
			close(launch.hold[i]);
	free(launch.line);
	return ret;
}
