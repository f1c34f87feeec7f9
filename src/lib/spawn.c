/*
 * Starting the tool such that the program does not notice.
 *
 * The tool is no child of the program's: a process in between, which sends no signal at its end and which only this
 * file's wait() sees (clone(2), exit signal 0), starts the tool and ends.  It takes two processes, for execve() would
 * give the first its signal back.  Both run in the program's memory while the calling thread sleeps, as with vfork(),
 * so that no memory is copied and no fork handler called.  The tool gets none of the program's descriptors, signal
 * settings, terminal or directory, and no library that the program's environment would have the loader load.  Context:
 * the program's threads; begin_tool() and be_tool() in those processes.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <host/now.h>
#include <host/yama.h>

#include "lib.h"

#define STACK_SIZE (64u << 10) /* of each of the two processes */
#define WORDS_MAX  8
#define ANSWER_FD  3
#define FD_LOWEST  100 /* programs that count on a number count on a low one */
#define FDS_MAX	   65536

struct start {
	const char *path;
	char *words[WORDS_MAX + 1];
	char **environment;
	int fd;
	unsigned char *stacks;
	pid_t pid;
	int error; /* -errno */
};

static void be_default(void)
{
	const struct sigaction normal = {.sa_handler = SIG_DFL};
	sigset_t none;

	for (int number = 1; number < NSIG; number++)
		sigaction(number, &normal, NULL);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
}

static void close_others(void)
{
	if (!syscall(SYS_close_range, ANSWER_FD + 1, ~0u, 0))
		return;
	for (int fd = ANSWER_FD + 1; fd < FDS_MAX; fd++) /* before Linux 5.9 */
		close(fd);
}

/* Either descriptor may have a number below; dup2() of a number to itself would leave close-on-exec on. */
static int place_fds(int answer)
{
	int nothing = open("/dev/null", O_RDWR | O_CLOEXEC);

	nothing = fcntl(nothing, F_DUPFD, ANSWER_FD + 1);
	answer = fcntl(answer, F_DUPFD, ANSWER_FD + 1);
	if (nothing < 0 || answer < 0)
		return -errno;
	for (int fd = 0; fd < ANSWER_FD; fd++)
		dup2(nothing, fd);
	dup2(answer, ANSWER_FD);
	close_others();
	return 0;
}

static int be_tool(void *argument)
{
	struct start *start = argument;

	setsid();
	start->error = chdir("/") ? -errno : place_fds(start->fd);
	if (start->error)
		_exit(127);
	be_default();
	execve(start->path, start->words, start->environment);
	start->error = -errno;
	_exit(127);
}

static int begin_tool(void *argument)
{
	struct start *start = argument;

	start->pid = clone(be_tool, start->stacks + STACK_SIZE, CLONE_VM | CLONE_VFORK, start);
	if (start->pid < 0)
		start->error = -errno;
	_exit(0);
}

/*
 * A process that takes in orphans would get the tool, and be told of the tool's end.  So it takes none in for the
 * moment: the process in between has ended within.
 */
static int run_for_nobody(struct start *start)
{
	int takes_in = 0;
	pid_t between;

	prctl(PR_GET_CHILD_SUBREAPER, &takes_in, 0, 0, 0);
	if (takes_in)
		prctl(PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0);
	between = clone(begin_tool, start->stacks + 2 * STACK_SIZE, CLONE_VM | CLONE_VFORK, start);
	if (between < 0)
		start->error = -errno;
	while (between >= 0 && waitpid(between, NULL, __WCLONE) < 0 && errno == EINTR)
		;
	if (takes_in)
		prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
	return start->error;
}

static int run_tool(struct start *start)
{
	sigset_t all, before;
	int ret;

	start->stacks =
		mmap(NULL, 2 * STACK_SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
	if (start->stacks == MAP_FAILED)
		return -ENOMEM;
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	ret = run_for_nobody(start);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	munmap(start->stacks, 2 * STACK_SIZE);
	return ret;
}

/* Variables that the tool is not to inherit: its loader would load the agent, or another's library. */
static bool is_ours_alone(const char *variable)
{
	static const char *const names[] = {
		"LD_PRELOAD=", "LD_AUDIT=", "LD_DEBUG=", "CALLTAP_SESSION=", "CALLTAP_FILTERS="};

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (!strncmp(variable, names[i], strlen(names[i])))
			return true;
	return false;
}

static char **copy_environment(void)
{
	size_t count = 0, kept = 0;
	char **copy;

	while (environ && environ[count])
		count++;
	copy = calloc(count + 1, sizeof(*copy));
	for (size_t i = 0; copy && i < count && environ[i]; i++)
		if (!is_ours_alone(environ[i]))
			copy[kept++] = environ[i];
	return copy;
}

/* Where there is Yama, a user's process lets only those trace it that it has named. */
static bool must_be_named(void)
{
	return geteuid() && yama_scope(0) == 1;
}

int lib_move_fd(int fd)
{
	int higher = fcntl(fd, F_DUPFD_CLOEXEC, FD_LOWEST);

	if (higher < 0)
		return fd;
	close(fd);
	return higher;
}

int tool_start(struct tool *tool, const char *path, const char *const *words, bool tracer, struct calltap_diag *diag)
{
	struct start start = {.path = path, .words = {(char *)"calltap"}};
	bool named = tracer && must_be_named();
	int ends[2], ret;

	for (size_t i = 0; words[i] && i + 1 < WORDS_MAX; i++)
		start.words[i + 1] = (char *)words[i];
	*tool = (struct tool){.fd = -1};
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends))
		return calltap_diag_set(diag, -errno, "there is no socket to be had for the tool: %s", strerror(errno));
	tool->fd = lib_move_fd(ends[0]);
	start.fd = lib_move_fd(ends[1]);
	start.environment = copy_environment();
	/* The tool's pid is not known yet, and the tool may be at work before it is. */
	if (named)
		prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0);
	ret = start.environment ? run_tool(&start) : -ENOMEM;
	tool->pid = start.pid;
	if (named)
		prctl(PR_SET_PTRACER, ret ? 0 : start.pid, 0, 0, 0);
	free(start.environment);
	close(start.fd);
	if (!ret)
		return 0;
	close(tool->fd);
	tool->fd = -1;
	return calltap_diag_set(diag, ret, "%.300s cannot be started: %s", path, strerror(-ret));
}

/* Read up to a newline, or the end.  Returns the bytes, or -ETIMEDOUT. */
static ssize_t read_line(int fd, char *text, size_t size, uint32_t timeout_ms)
{
	int64_t until = now_ms() + timeout_ms, left;
	struct pollfd ready = {.fd = fd, .events = POLLIN};
	size_t have = 0;

	while (have + 1 < size && !memchr(text, '\n', have)) {
		ssize_t got = recv(fd, text + have, size - 1 - have, MSG_DONTWAIT);

		if (got > 0) {
			have += (size_t)got;
			continue;
		}
		if (!got || (errno != EAGAIN && errno != EINTR))
			break;
		left = until - now_ms();
		if (left <= 0)
			return -ETIMEDOUT;
		poll(&ready, 1, (int)left);
	}
	text[have] = 0;
	text[strcspn(text, "\n")] = 0;
	return (ssize_t)have;
}

int tool_await(const struct tool *tool, uint32_t timeout_ms, struct calltap_diag *diag)
{
	char text[sizeof(diag->text)], *sentence = text;
	ssize_t got = read_line(tool->fd, text, sizeof(text), timeout_ms);
	long code = -EIO;

	if (got < 0)
		return calltap_diag_set(diag, (int)got, "the calltap command has not answered for %u ms", timeout_ms);
	if (!strcmp(text, "ready"))
		return 0;
	if (!text[0])
		return calltap_diag_set(diag, -EIO, "the calltap command has ended without a word");
	if (text[0] == '-') {
		code = strtol(text, &sentence, 10);
		sentence += *sentence == ' ';
	}
	return calltap_diag_set(diag, code < 0 && code > -4096 ? (int)code : -EIO, "%s", sentence);
}

void tool_end(struct tool *tool, uint32_t timeout_ms)
{
	char rest[256];
	ssize_t got;

	if (tool->fd < 0)
		return;
	shutdown(tool->fd, SHUT_WR);
	do
		got = read_line(tool->fd, rest, sizeof(rest), timeout_ms);
	while (got > 0);
	/* A forked child has the descriptor, too. */
	shutdown(tool->fd, SHUT_RDWR);
	close(tool->fd);
	tool->fd = -1;
}
