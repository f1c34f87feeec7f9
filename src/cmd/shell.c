/*
 * `calltap shell`: a shell, or a command, for which /sys/kernel/tracing is the tree of a process.
 *
 * Three processes: the *front* is what the user has started; it has two children.  The *inner* one enters a mount
 * namespace (overlay.h) and becomes the shell.  The *server* has the session and answers for the tree (mounting.h), in
 * a session of its own: no signal of the terminal ends or stops it.  Caller: main.  Context: host.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

#include <host/descriptors.h>
#include <host/sender.h>
#include <host/tracefs/overlay.h>

#include "cmd.h"
#include "mounting.h"

#define CANNOT_RUN 126
#define NOT_FOUND  127

enum { FRONT, SERVER }; /* ends of `life` */

struct shell {
	struct mounting mounting;
	char *text;    /* what the shell is to run; NULL: see words */
	char **words;  /* the command; none: an interactive shell */
	int device[2]; /* the inner process sends the open /dev/fuse to the server: [0] is the server's end */
	int life[2];   /* the server says here that it serves; it ends when the front's end is closed */
	int go[2];     /* the inner process waits until the front says that the tree is served: [0] is its end */
	pid_t server, inner;
	int server_status; /* as wait() has it, once the server has ended */
	int terminal;	   /* that the front was in the foreground of; -1 = of none */
	struct termios modes;
};

static void print_help(void)
{
	fputs("usage: calltap shell [OPTION...] PID [COMMAND [ARGUMENT...]]\n"
	      "       calltap shell [OPTION...] -- PROGRAM [ARGUMENT...]\n"
	      "Run a shell, or COMMAND, in which /sys/kernel/tracing is that of the process PID, or of PROGRAM, which "
	      "is\n"
	      "started: the kernel's tools and scripts work on it.  Nobody else sees that tree.\n\n",
	      stdout);
	recording_print_options(RECORDING_SHELL);
	fputs("\n"
	      "It ends with the shell: PID runs on, untraced, and PROGRAM is ended.  With PROGRAM, --command runs a "
	      "command.\n",
	      stdout);
}

static const char *shell_path(void)
{
	const char *path = getenv("SHELL");

	return path && *path ? path : "/bin/sh";
}

static void close_end(int *fd)
{
	if (*fd >= 0)
		close(*fd);
	*fd = -1;
}

static void close_pairs(struct shell *shell)
{
	for (int i = 0; i < 2; i++) {
		close_end(&shell->device[i]);
		close_end(&shell->life[i]);
		close_end(&shell->go[i]);
	}
}

/* -1: the other end is closed. */
static int take_device(int socket)
{
	char byte;
	struct iovec data = {&byte, 1};
	union descriptors_room control;
	struct msghdr message = {
		.msg_iov = &data, .msg_iovlen = 1, .msg_control = control.bytes, .msg_controllen = sizeof(control)};
	int device = -1;
	ssize_t got;

	do
		got = recvmsg(socket, &message, MSG_CMSG_CLOEXEC);
	while (got < 0 && errno == EINTR);
	if (got > 0)
		descriptors_take(&message, &device, 1);
	return device;
}

/* Wait for a byte; false: the other end is closed. */
static bool await_word(int fd)
{
	char byte;
	ssize_t got;

	do
		got = read(fd, &byte, 1);
	while (got < 0 && errno == EINTR);
	return got == 1;
}

static void say_word(int fd)
{
	while (write(fd, "", 1) < 0 && errno == EINTR)
		;
}

/* --- the server --- */

static int serve(struct shell *shell)
{
	struct tracefs_options *options = &shell->mounting.options;
	int null = open("/dev/null", O_RDONLY | O_CLOEXEC);

	close_end(&shell->life[FRONT]);
	close_end(&shell->device[1]);
	close_end(&shell->go[0]);
	close_end(&shell->go[1]);
	setsid();
	if (null >= 0) /* what there is to read is the shell's */
		dup2(null, STDIN_FILENO);
	close_end(&null);
	options->device = take_device(shell->device[0]);
	close_end(&shell->device[0]);
	if (options->device < 0)
		return EXIT_USAGE; /* the inner process has said why */
	options->owner = shell->life[SERVER];
	options->keep = true;
	return mounting_run(&shell->mounting);
}

/* --- the inner process --- */

static void tell_where(const struct shell *shell, const struct overlay *overlay)
{
	if (overlay->beside)
		fprintf(stderr, "calltap: %s could not be covered: it is the kernel's here, too\n", overlay->beside);
	if (overlay->missing)
		fprintf(stderr, "calltap: %s, which this kernel does not have, could not be put there\n",
			overlay->missing);
	if (!shell->words[0] && !shell->text && !shell->mounting.watching.recording.quiet && isatty(STDERR_FILENO))
		fprintf(stderr, "calltap: in this shell " OVERLAY_PLACE " is that of %s; %s\n",
			shell->mounting.watching.what,
			shell->mounting.watching.pids ? "leave it to let go" : "that ends with it");
}

static void run_command(struct shell *shell)
{
	const char *name = shell->words[0];

	if (name) {
		execvp(name, shell->words);
	} else {
		name = shell_path();
		if (shell->text)
			execl(name, name, "-c", shell->text, (char *)NULL);
		else
			execl(name, name, (char *)NULL);
	}
	fprintf(stderr, "calltap: cannot run %s: %s\n", name, strerror(errno));
	_exit(errno == ENOENT ? NOT_FOUND : CANNOT_RUN);
}

static void become_shell(struct shell *shell)
{
	struct calltap_diag diag = {.column = -1};
	struct overlay overlay;
	bool sent;

	close_end(&shell->life[FRONT]);
	close_end(&shell->life[SERVER]);
	close_end(&shell->device[0]);
	close_end(&shell->go[1]);
	if (overlay_enter(&overlay, &diag)) {
		calltap_diag_print(&diag, stderr);
		_exit(EXIT_USAGE);
	}
	/* The front has the terminal: without it there is nobody who would give it back. */
	prctl(PR_SET_PDEATHSIG, SIGHUP);
	sent = descriptors_send(shell->device[1], "", 1, &overlay.device, 1) == 1;
	close(overlay.device);
	close_end(&shell->device[1]);
	if (!sent || !await_word(shell->go[0]))
		_exit(EXIT_USAGE); /* the server has said why */
	overlay_finish(&overlay);
	tell_where(shell, &overlay);
	run_command(shell);
}

/* --- the front --- */

static pid_t passes_to; /* for the signal handler: the inner process */

/* Signals of the terminal come to the shell without help; what another process sends to the front is for the shell. */
static void on_signal(int number, siginfo_t *info, void *context)
{
	int error = errno;

	(void)context;
	if (info->si_code <= 0 && passes_to > 0 && !sender_is_descendant(info))
		kill(passes_to, number);
	errno = error;
}

static void take_signals(pid_t inner)
{
	static const int numbers[] = {SIGINT, SIGQUIT, SIGTERM, SIGHUP};
	struct sigaction action = {.sa_sigaction = on_signal, .sa_flags = SA_RESTART | SA_SIGINFO}, before;

	passes_to = inner;
	for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++)
		if (!sigaction(numbers[i], NULL, &before) && before.sa_handler != SIG_IGN)
			sigaction(numbers[i], &action, NULL);
}

/* Note the terminal if this process is in its foreground. */
static void note_terminal(struct shell *shell)
{
	shell->terminal = open("/dev/tty", O_RDWR | O_CLOEXEC | O_NOCTTY);
	if (shell->terminal >= 0 &&
	    (tcgetpgrp(shell->terminal) != getpgrp() || tcgetattr(shell->terminal, &shell->modes)))
		close_end(&shell->terminal);
}

static void put_in_foreground(const struct shell *shell, pid_t group)
{
	sigset_t mask, before;

	sigemptyset(&mask);
	sigaddset(&mask, SIGTTOU); /* it would stop this process, which is in the background */
	sigprocmask(SIG_BLOCK, &mask, &before);
	tcsetpgrp(shell->terminal, group);
	sigprocmask(SIG_SETMASK, &before, NULL);
}

/*
 * The shell has stopped itself (`suspend`): so does this process, and later takes up the shell again.  A command in the
 * front's own group is stopped together with it by the terminal.
 */
static void stop_too(const struct shell *shell)
{
	pid_t group = getpgid(shell->inner);

	if (group <= 0 || group == getpgrp())
		return;
	raise(SIGSTOP);
	if (shell->terminal >= 0 && tcgetpgrp(shell->terminal) == getpgrp())
		put_in_foreground(shell, group);
	kill(-group, SIGCONT);
}

/* Wait for the end of the inner process; its status as wait() has it. */
static int await_inner(struct shell *shell)
{
	int status;
	pid_t found;

	for (;;) {
		found = waitpid(-1, &status, WUNTRACED);
		if (found < 0 && errno != EINTR)
			return 0;
		if (found == shell->inner && WIFSTOPPED(status))
			stop_too(shell);
		else if (found == shell->inner)
			return status;
		if (found != shell->server || WIFSTOPPED(status))
			continue;
		shell->server = 0;
		shell->server_status = status;
		if (WIFSIGNALED(status))
			fprintf(stderr, "calltap: the process that served " OVERLAY_PLACE
					" has ended: nothing is there any more\n");
	}
}

/* A shell that was killed leaves the terminal as it had it. */
static void retake_terminal(const struct shell *shell, int status)
{
	sigset_t mask, before;

	if (shell->terminal < 0)
		return;
	if (tcgetpgrp(shell->terminal) != getpgrp())
		put_in_foreground(shell, getpgrp());
	if (!WIFSIGNALED(status))
		return;
	sigemptyset(&mask);
	sigaddset(&mask, SIGTTOU);
	sigprocmask(SIG_BLOCK, &mask, &before);
	tcsetattr(shell->terminal, TCSADRAIN, &shell->modes);
	sigprocmask(SIG_SETMASK, &before, NULL);
}

static int exit_status(int status)
{
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static int await_server(struct shell *shell)
{
	passes_to = shell->server;
	close_end(&shell->life[FRONT]);
	while (shell->server && waitpid(shell->server, &shell->server_status, 0) < 0 && errno == EINTR)
		;
	return exit_status(shell->server_status);
}

static int lead(struct shell *shell)
{
	bool served;
	int status, ret;

	close_end(&shell->life[SERVER]);
	close_end(&shell->device[0]);
	close_end(&shell->device[1]);
	close_end(&shell->go[0]);
	signal(SIGPIPE, SIG_IGN); /* either child may have ended */
	note_terminal(shell);
	take_signals(shell->inner);
	served = await_word(shell->life[FRONT]);
	if (served)
		say_word(shell->go[1]);
	close_end(&shell->go[1]);
	status = await_inner(shell);
	retake_terminal(shell, status);
	ret = await_server(shell);
	close_end(&shell->terminal);
	if (served || WIFSIGNALED(status))
		return exit_status(status);
	return ret ? ret : EXIT_USAGE;
}

static int begin(struct shell *shell)
{
	fflush(NULL);
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, shell->device) ||
	    socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, shell->life) || pipe2(shell->go, O_CLOEXEC)) {
		fprintf(stderr, "calltap: cannot make a pair of sockets: %s\n", strerror(errno));
		return EXIT_USAGE;
	}
	signal(SIGCHLD, SIG_DFL); /* ignored, it would take the children's ends away */
	shell->server = fork();
	if (!shell->server) {
		int ret = serve(shell);

		watching_clear(&shell->mounting.watching);
		exit(ret);
	}
	if (shell->server > 0)
		shell->inner = fork();
	if (shell->server > 0 && !shell->inner)
		become_shell(shell);
	if (shell->server < 0 || shell->inner < 0) {
		fprintf(stderr, "calltap: cannot start a process: %s\n", strerror(errno));
		close_pairs(shell);
		if (shell->server > 0)
			waitpid(shell->server, NULL, 0);
		return EXIT_USAGE;
	}
	return lead(shell);
}

static int take_words(struct shell *shell, int argc, char **argv)
{
	bool program = optind > 1 && !strcmp(argv[optind - 1], "--");
	int ret = watching_target(&shell->mounting.watching, program || optind == argc ? argc : optind + 1, argv,
				  "shell");

	if (ret)
		return ret;
	shell->words = argv + (program ? argc : optind + 1);
	if (shell->words[0] && !strcmp(shell->words[0], "--"))
		shell->words++;
	if (shell->words[0] && shell->text)
		fprintf(stderr, "calltap: there are two commands; give --command or words behind the PID, not both\n");
	else if (shell->words[0] && shell->words[0][0] == '-' && shell->words[-1] == argv[optind])
		fprintf(stderr, "calltap: '%s' is behind the PID, where the command is; options come before the PID\n",
			shell->words[0]);
	else
		return 0;
	return EXIT_USAGE;
}

int cmd_shell(int argc, char **argv)
{
	struct shell shell = {.device = {-1, -1}, .life = {-1, -1}, .go = {-1, -1}, .terminal = -1};
	struct watching *watching = &shell.mounting.watching;
	int code, end, ret = mounting_init(&shell.mounting, argv);

	while (!ret && (code = recording_next(RECORDING_SHELL, argc, argv)) != -1) {
		if (code == OPT_HELP) {
			print_help();
			watching_clear(watching);
			return 0;
		}
		if (code == 'c')
			shell.text = optarg;
		else
			ret = recording_take(&watching->recording, code, optarg);
	}
	end = optind;
	if (!ret)
		ret = take_words(&shell, argc, argv);
	if (!ret)
		ret = mounting_check(&shell.mounting);
	if (!ret)
		ret = recording_check(&watching->recording, argc, argv, end);
	if (!ret)
		ret = begin(&shell);
	close_pairs(&shell);
	watching_clear(watching);
	return ret;
}
