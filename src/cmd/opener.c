/*
 * Opening a file with the desktop's program for it (opener.h).  Context: host.
 *
 * A browser lives on after this command.  So it is started by a grandchild, in a session of its own: it is nobody's job
 * in the shell, reads nothing from the terminal and writes nothing on it, and holds no pipe open that somebody reads to
 * its end.
 */
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "opener.h"

#define WORDS_MAX 32
#define URL_MAX	  (3 * PATH_MAX + sizeof("file://"))

static const char *variable(const char *name)
{
	const char *value = getenv(name);

	return value && *value ? value : NULL;
}

/* The address of a file, with what has a meaning in addresses written as %XX. */
static int compose_url(char *url, const char *path)
{
	static const char digits[] = "0123456789ABCDEF";
	char whole[PATH_MAX], *to = stpcpy(url, "file://");

	if (!realpath(path, whole))
		return -errno;
	for (const char *c = whole; *c; c++) {
		const unsigned char byte = (unsigned char)*c;

		if ((byte < 128 && isalnum(byte)) || strchr("/-._~", byte)) {
			*to++ = *c;
			continue;
		}
		*to++ = '%';
		*to++ = digits[byte >> 4];
		*to++ = digits[byte & 15];
	}
	*to = '\0';
	return 0;
}

/* The desktop belongs to somebody else: after sudo or su a browser would run with rights that it should not have. */
static bool is_of_another_user(void)
{
	static const char *const numbers[] = {"SUDO_UID", "PKEXEC_UID"};
	static const char *const files[] = {"XDG_RUNTIME_DIR", "XAUTHORITY"};
	struct stat info;

	if (getuid() != geteuid())
		return true;
	for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
		const char *number = variable(numbers[i]);

		if (number && strtoul(number, NULL, 10) != geteuid())
			return true;
	}
	for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
		const char *file = variable(files[i]);

		if (file && stat(file, &info) == 0 && info.st_uid != geteuid())
			return true;
	}
	return false;
}

/* Cut a command of $BROWSER into words, with the address for %s, or behind them; the words end with NULL. */
static void cut_words(char *words[WORDS_MAX + 1], char *command, char *url)
{
	size_t count = 0;
	bool placed = false;

	for (char *word; count < WORDS_MAX - 1 && (word = strsep(&command, " \t"));) {
		bool is_place = !strcmp(word, "%s");

		if (*word)
			words[count++] = is_place ? url : word;
		placed |= is_place;
	}
	if (count && !placed)
		words[count++] = url;
	words[count] = NULL;
}

/* In the grandchild: become the browser; errno goes to the pipe if that fails. */
static void become(char *const words[], int pipe_fd)
{
	const int null = open("/dev/null", O_RDWR | O_CLOEXEC);
	sigset_t none;
	int error;

	sigemptyset(&none);
	for (int number = 1; number < NSIG; number++)
		(void)signal(number, SIG_DFL);
	sigprocmask(SIG_SETMASK, &none, NULL);
	if (null >= 0 && dup2(null, STDIN_FILENO) >= 0 && dup2(null, STDOUT_FILENO) >= 0 &&
	    dup2(null, STDERR_FILENO) >= 0 && dup2(pipe_fd, STDERR_FILENO + 1) >= 0) {
		close_range(STDERR_FILENO + 2, ~0U, 0);
		fcntl(STDERR_FILENO + 1, F_SETFD, FD_CLOEXEC);
		pipe_fd = STDERR_FILENO + 1;
		execvp(words[0], words);
	}
	error = errno;
	while (write(pipe_fd, &error, sizeof(error)) < 0 && errno == EINTR)
		;
	_exit(1);
}

/* 0 once the program runs; -errno: it cannot be started. */
static int start(char *const words[])
{
	int ends[2], error = 0;
	ssize_t got;
	pid_t child;

	if (pipe2(ends, O_CLOEXEC))
		return -errno;
	child = fork();
	if (!child) {
		setsid();
		if (fork() == 0)
			become(words, ends[1]);
		_exit(0);
	}
	error = child < 0 ? errno : 0;
	close(ends[1]);
	while (child > 0 && waitpid(child, NULL, 0) < 0 && errno == EINTR)
		;
	do
		got = read(ends[0], &error, sizeof(error));
	while (got < 0 && errno == EINTR);
	close(ends[0]);
	return -error;
}

/* Start the first program of $BROWSER's list that there is. */
static int start_list(const char *list, char *url)
{
	char *copy = strdup(list), *rest = copy, *words[WORDS_MAX + 1];
	int err = copy ? -ENOENT : -ENOMEM;

	for (char *command; err == -ENOENT && (command = strsep(&rest, ":"));) {
		cut_words(words, command, url);
		if (words[0])
			err = start(words);
	}
	free(copy);
	return err;
}

int opener_open(const char *path, struct calltap_diag *diag)
{
	const char *browser = variable("BROWSER");
	char url[URL_MAX];
	int err;

	if (is_of_another_user())
		return calltap_diag_set(diag, -EPERM,
					"the desktop is another user's, so no browser is started: open %s as that user",
					path);
	if (!browser && !variable("DISPLAY") && !variable("WAYLAND_DISPLAY"))
		return calltap_diag_set(
			diag, -ENOTTY,
			"there is no display here (neither DISPLAY nor WAYLAND_DISPLAY is set): copy %s to a machine "
			"with a browser, and open it there",
			path);
	err = compose_url(url, path);
	if (!err)
		err = start_list(browser ? browser : "xdg-open", url);
	if (!err)
		return 0;
	return calltap_diag_set(diag, err, "cannot start %s: %s; open %s in a browser yourself",
				browser ? "a program of $BROWSER" : "xdg-open", strerror(-err), path);
}
