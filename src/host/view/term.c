/*
 * Colours and the pager; see term.h.  Context: host.
 */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "term.h"

/* Statuses of a shell that has not run the command. */
#define SHELL_CANNOT	126
#define SHELL_NOT_FOUND 127
#define WIDTH_USUAL	80 /* columns of a terminal that does not tell its width */

int term_parse_color(enum term_color *color, const char *text, struct calltap_diag *diag)
{
	if (strcmp(text, "auto") == 0)
		*color = TERM_COLOR_AUTO;
	else if (strcmp(text, "always") == 0)
		*color = TERM_COLOR_ALWAYS;
	else if (strcmp(text, "never") == 0)
		*color = TERM_COLOR_NEVER;
	else
		return calltap_diag_set(diag, -EINVAL, "'%s' is no value for --color: give auto, always or never",
					text);
	return 0;
}

bool term_wants_color(enum term_color color, int fd)
{
	const char *no_color = getenv("NO_COLOR");
	const char *terminal = getenv("TERM");

	if (color != TERM_COLOR_AUTO)
		return color == TERM_COLOR_ALWAYS;
	return isatty(fd) && !(no_color && *no_color) && terminal && strcmp(terminal, "dumb") != 0;
}

unsigned term_width(int fd)
{
	struct winsize size = {0};

	if (!isatty(fd))
		return 0;
	return !ioctl(fd, TIOCGWINSZ, &size) && size.ws_col ? size.ws_col : WIDTH_USUAL;
}

/* The pager that the user has chosen, NULL = none. */
static const char *pager_command(void)
{
	const char *own = getenv("CALLTAP_PAGER");

	return own ? own : getenv("PAGER");
}

void term_pager_start(struct term_pager *pager, bool allowed)
{
	const char *command = pager_command();
	int ends[2];

	pager->pid = 0;
	pager->fd = STDOUT_FILENO;
	if (!command)
		command = "if command -v less >/dev/null; then exec less; fi; exec cat";
	if (!allowed || !isatty(STDOUT_FILENO) || !*command || strcmp(command, "cat") == 0)
		return;
	if (pipe(ends))
		return;
	pager->pid = fork();
	if (pager->pid == 0) {
		dup2(ends[0], STDIN_FILENO);
		close(ends[0]);
		close(ends[1]);
		signal(SIGPIPE, SIG_DFL);
		setenv("LESS", "FRSX", 0);
		execl("/bin/sh", "sh", "-c", command, (char *)NULL);
		_exit(127);
	}
	close(ends[0]);
	if (pager->pid < 0) {
		pager->pid = 0;
		close(ends[1]);
		return;
	}
	pager->fd = ends[1];
	/* ^C is for the pager; when the pager quits, our next write fails. */
	signal(SIGINT, SIG_IGN);
}

int term_pager_wait(struct term_pager *pager, struct calltap_diag *diag)
{
	const char *command = pager_command();
	int status = 0;

	if (!pager->pid)
		return 0;
	close(pager->fd);
	while (waitpid(pager->pid, &status, 0) < 0 && errno == EINTR)
		;
	pager->pid = 0;
	if (!WIFEXITED(status) || (WEXITSTATUS(status) != SHELL_CANNOT && WEXITSTATUS(status) != SHELL_NOT_FOUND))
		return 0;
	return calltap_diag_set(diag, -ENOENT,
				"the pager '%s' cannot be started: set CALLTAP_PAGER or PAGER to another one, or add "
				"--no-pager",
				command ? command : "less");
}
