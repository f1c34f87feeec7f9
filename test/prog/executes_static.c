/*
 * Executes a program in the way that the first argument names, without an environment, and tells what became of each
 * process:
 *
 *     executes_static WAY PROGRAM [ARGUMENT...]
 *
 * "thread": a thread executes it that is not the initial one; "traces": children that this process traces; "stops":
 * children that are stopped, and told to go on, at random moments; "many": several at a time; "fails": what cannot be
 * executed leaves the process as it is, with the same error.  By posix_spawn(): "spawns": with each kind of attribute
 * and action; "spawn-moves": from another directory; "spawn-many": by several threads at a time; "spawn-stops",
 * "spawn-fails": as above; "spawn-signals": while signals come.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { CHILDREN = 4, ROUNDS = 12, TICK_US = 300 };

static char **command, *none[] = {NULL};

__attribute__((noipa)) static void leaf(int n)
{
	__asm__ volatile("" ::"r"(n));
}

static int result_of(pid_t pid)
{
	int status = 0;

	if (waitpid(pid, &status, 0) != pid)
		return -1;
	return WIFSIGNALED(status) ? 1000 + WTERMSIG(status) : WEXITSTATUS(status);
}

static void *execute(void *argument)
{
	execve(command[0], command, none);
	perror("execve");
	_exit(99);
	return argument;
}

static pid_t begin(void)
{
	pid_t pid;

	leaf(1);
	pid = fork();

	if (!pid)
		execute(NULL);
	return pid;
}

static void by_thread(void)
{
	pid_t pid = fork();

	if (!pid) {
		pthread_t thread;

		pthread_create(&thread, NULL, execute, NULL);
		pthread_join(thread, NULL);
	}
	printf("thread: %d\n", result_of(pid));
}

/* The child is this process' tracee: it stops when it has executed the program. */
static void traces(void)
{
	pid_t pid = fork();
	int status = 0;

	if (!pid) {
		ptrace(PTRACE_TRACEME, 0, 0, 0);
		execute(NULL);
	}
	waitpid(pid, &status, 0);
	printf("traced: %d, %d\n", WIFSTOPPED(status), WSTOPSIG(status));
	ptrace(PTRACE_CONT, pid, 0, 0);
	printf("traced: %d\n", result_of(pid));
}

static void nap(long ns)
{
	const struct timespec time = {0, ns};

	nanosleep(&time, NULL);
}

static pid_t spawn(const posix_spawn_file_actions_t *actions, const posix_spawnattr_t *attributes)
{
	pid_t pid = -1;
	int error;

	leaf(2);
	error = posix_spawn(&pid, command[0], actions, attributes, command, none);
	if (error)
		printf("spawn: %s\n", strerror(error));
	return error ? -1 : pid;
}

static void show_group(const char *what, pid_t pid)
{
	printf("%s: group %s", what, getpgid(pid) == pid ? "its own" : "ours");
	printf(", session %s\n", getsid(pid) == pid ? "its own" : "ours");
	printf("%s: %d\n", what, result_of(pid));
}

static void with_attributes(const char *what, short flags)
{
	posix_spawnattr_t attributes;
	sigset_t signals;

	sigemptyset(&signals);
	sigaddset(&signals, SIGUSR2);
	posix_spawnattr_init(&attributes);
	posix_spawnattr_setflags(&attributes, flags);
	posix_spawnattr_setsigmask(&attributes, &signals);
	posix_spawnattr_setsigdefault(&attributes, &signals);
	show_group(what, spawn(NULL, &attributes));
	posix_spawnattr_destroy(&attributes);
}

static void spawns(void)
{
	posix_spawn_file_actions_t actions;

	printf("plain: %d\n", result_of(spawn(NULL, NULL)));
	posix_spawn_file_actions_init(&actions);
	posix_spawn_file_actions_adddup2(&actions, 2, 3);
	posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
	posix_spawn_file_actions_addclose(&actions, 3);
	printf("actions: %d\n", result_of(spawn(&actions, NULL)));
	posix_spawn_file_actions_adddup2(&actions, 900, 901);
	printf("bad action: %d\n", result_of(spawn(&actions, NULL)));
	posix_spawn_file_actions_destroy(&actions);
	with_attributes("group", POSIX_SPAWN_SETPGROUP);
	with_attributes("mask", POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
	with_attributes("user", POSIX_SPAWN_RESETIDS | POSIX_SPAWN_SETPGROUP);
#ifdef POSIX_SPAWN_SETSID
	with_attributes("session", POSIX_SPAWN_SETSID);
#endif
	signal(SIGCHLD, SIG_IGN);
	printf("ignored: %d\n", result_of(spawn(NULL, NULL)));
}

/* A name in the folder that an action goes to, where there is something else by that name here. */
static void spawn_moves(void)
{
	posix_spawn_file_actions_t actions;
	char *name = strrchr(command[0], '/');

	*name = 0;
	posix_spawn_file_actions_init(&actions);
	posix_spawn_file_actions_addchdir_np(&actions, command[0]);
	command[0] = name + 1;
	printf("moved: %d\n", result_of(spawn(&actions, NULL)));
	posix_spawn_file_actions_destroy(&actions);
}

static void *spawn_one(void *result)
{
	*(int *)result = result_of(spawn(NULL, NULL));
	return NULL;
}

static void spawn_many(void)
{
	int results[CHILDREN];
	pthread_t threads[CHILDREN];

	for (int i = 0; i < CHILDREN; i++)
		pthread_create(&threads[i], NULL, spawn_one, &results[i]);
	for (int i = 0; i < CHILDREN; i++)
		pthread_join(threads[i], NULL);
	for (int i = 0; i < CHILDREN; i++)
		printf("spawned: %d\n", results[i]);
}

/* What a handler makes by vfork meanwhile executes nothing. */
static void on_tick(int number)
{
	static volatile int count;
	pid_t pid;

	(void)number;
	if (count++ % 8 != 0)
		return;
	pid = vfork();
	if (!pid)
		_exit(0);
	waitpid(pid, NULL, 0);
}

static void spawn_signals(void)
{
	struct sigaction action = {.sa_handler = on_tick, .sa_flags = SA_RESTART};
	const struct itimerval tick = {{0, TICK_US}, {0, TICK_US}}, off = {{0, 0}, {0, 0}};

	sigaction(SIGALRM, &action, NULL);
	for (int i = 0; i < ROUNDS; i++) {
		pid_t pid;

		setitimer(ITIMER_REAL, &tick, NULL);
		pid = spawn(NULL, NULL);
		setitimer(ITIMER_REAL, &off, NULL);
		printf("under signals: %d\n", result_of(pid));
	}
}

static void stops(pid_t (*make)(void))
{
	for (int i = 0; i < ROUNDS; i++) {
		pid_t pid = make();
		int status = 0;

		nap(rand() % 40000000);
		kill(pid, SIGSTOP);
		if (waitpid(pid, &status, WUNTRACED) == pid && WIFSTOPPED(status)) {
			nap(rand() % 5000000);
			kill(pid, SIGCONT);
			printf("stopped: %d\n", result_of(pid));
		} else {
			printf("stopped: %d\n", WIFSIGNALED(status) ? 1000 + WTERMSIG(status) : WEXITSTATUS(status));
		}
	}
}

static void many(void)
{
	pid_t pids[CHILDREN];

	for (int i = 0; i < CHILDREN; i++)
		pids[i] = begin();
	for (int i = 0; i < CHILDREN; i++)
		printf("many: %d\n", result_of(pids[i]));
}

static pid_t spawn_plain(void)
{
	return spawn(NULL, NULL);
}

static void spawn_fails(void)
{
	for (int i = 0; i < 3; i++)
		printf("fails: %d\n", spawn(NULL, NULL));
	printf("children left: %d\n", waitpid(-1, NULL, 0) > 0);
}

static void fails(void)
{
	for (int i = 0; i < 3; i++) {
		errno = 0;
		execve(command[0], command, none);
		leaf(errno);
		printf("fails: %s\n", strerror(errno));
	}
	printf("goes on: %d\n", result_of(fork() ? -1 : (_exit(3), 0)));
}

int main(int count, char **arguments)
{
	setvbuf(stdout, NULL, _IOLBF, 0);
	if (count < 3)
		return 2;
	command = arguments + 2;
	if (!strcmp(arguments[1], "thread"))
		by_thread();
	else if (!strcmp(arguments[1], "traces"))
		traces();
	else if (!strcmp(arguments[1], "stops"))
		stops(begin);
	else if (!strcmp(arguments[1], "many"))
		many();
	else if (!strcmp(arguments[1], "fails"))
		fails();
	else if (!strcmp(arguments[1], "spawns"))
		spawns();
	else if (!strcmp(arguments[1], "spawn-moves"))
		spawn_moves();
	else if (!strcmp(arguments[1], "spawn-many"))
		spawn_many();
	else if (!strcmp(arguments[1], "spawn-stops"))
		stops(spawn_plain);
	else if (!strcmp(arguments[1], "spawn-fails"))
		spawn_fails();
	else if (!strcmp(arguments[1], "spawn-signals"))
		spawn_signals();
	else
		return 2;
	return 0;
}
