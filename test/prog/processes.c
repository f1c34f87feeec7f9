/*
 * Ways to make a process, chosen by the first argument: fork from a thread while others run, vfork and posix_spawn in
 * a loop, clone with every odd set of flags, daemons and orphans.  With the argument "image" the program is the one
 * that is executed.
 */
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>

#include "truth.h"

enum { STACK = 256 << 10, HELPERS = 3, ROUNDS = 12 };

extern char **environ;
static const char *self;
static int stop_helpers;

TRACED static int work(int n)
{
	TRUTH();
	return n ? work(n - 1) + n : 0;
}

TRACED static int status_of(pid_t pid, int options)
{
	TRUTH();
	int status = 0;

	if (waitpid(pid, &status, options) != pid)
		return -1;
	return WIFSIGNALED(status) ? 1000 + WTERMSIG(status) : WEXITSTATUS(status);
}

/* A child's end: of its own, by a signal, or as another program. */
TRACED static void end_child(int how)
{
	TRUTH();
	work(2);
	if (how % 3 == 0)
		_exit(7);
	if (how % 3 == 1)
		kill(getpid(), SIGKILL);
	execl(self, self, "image", (char *)NULL);
	_exit(98);
}

TRACED static int fork_once(int how)
{
	TRUTH();
	pid_t pid = fork();

	if (pid == 0)
		end_child(how);
	return status_of(pid, 0);
}

TRACED static void *helper(void *unused)
{
	TRUTH();
	while (!__atomic_load_n(&stop_helpers, __ATOMIC_ACQUIRE)) {
		work(3);
		sched_yield();
	}
	return unused;
}

TRACED static void *forker(void *unused)
{
	TRUTH();
	for (int i = 0; i < ROUNDS; i++)
		printf("fork %d\n", fork_once(i));
	return unused;
}

TRACED static void threads(void)
{
	TRUTH();
	pthread_t helpers[HELPERS], thread;

	for (int i = 0; i < HELPERS; i++)
		pthread_create(&helpers[i], NULL, helper, NULL);
	pthread_create(&thread, NULL, forker, NULL);
	pthread_join(thread, NULL);
	__atomic_store_n(&stop_helpers, 1, __ATOMIC_RELEASE);
	for (int i = 0; i < HELPERS; i++)
		pthread_join(helpers[i], NULL);
}

TRACED static void spawns(void)
{
	TRUTH();
	char *const arguments[] = {(char *)self, (char *)"image", NULL};

	for (int i = 0; i < ROUNDS; i++) {
		pid_t pid = vfork();

		if (pid == 0) {
			execl(self, self, "image", (char *)NULL);
			_exit(98);
		}
		printf("vfork %d\n", status_of(pid, 0));
		if (!posix_spawn(&pid, self, NULL, NULL, arguments, environ))
			printf("spawn %d\n", status_of(pid, 0));
	}
}

/* In a child that has a stack of its own; work() below is its own, too. */
TRACED static int cloned(void *exits)
{
	TRUTH();
	int sum = work(4);

	if (exits)
		_exit(sum);
	return sum;
}

TRACED static int clone_once(int flags)
{
	TRUTH();
	char *stack = malloc(STACK);
	int status = status_of(clone(cloned, stack + STACK, flags, NULL), __WALL);

	free(stack);
	return status;
}

TRACED static int clone_raw(unsigned long flags)
{
	TRUTH();
	pid_t pid = (pid_t)syscall(SYS_clone, flags, NULL, NULL, NULL, NULL);

	if (pid == 0)
		_exit(cloned(NULL));
	return status_of(pid, __WALL);
}

struct clone3_arguments {
	unsigned long flags, pidfd, child_tid, parent_tid, exit_signal, stack, stack_size, tls;
};

TRACED static int clone_third(unsigned long flags)
{
	TRUTH();
	struct clone3_arguments arguments = {.flags = flags, .exit_signal = SIGCHLD};
	pid_t pid = (pid_t)syscall(SYS_clone3, &arguments, sizeof(arguments));

	if (pid == 0)
		_exit(cloned(NULL));
	return status_of(pid, __WALL);
}

TRACED static void clones(void)
{
	TRUTH();
	printf("clone %d\n", clone_once(SIGCHLD));
	printf("no signal %d\n", clone_once(0));
	printf("files %d\n", clone_once(CLONE_FILES | CLONE_FS | SIGCHLD));
	printf("io %d\n", clone_once(CLONE_IO | CLONE_SYSVSEM | SIGCHLD));
	printf("raw %d\n", clone_raw(SIGCHLD));
	printf("raw files %d\n", clone_raw(CLONE_FILES | SIGCHLD));
	printf("clone3 %d\n", clone_third(0));
	printf("clone3 files %d\n", clone_third(CLONE_FILES | CLONE_IO));
}

/* Children of clone() end by exit, not exit_group; here without a /proc to see that they have. */
TRACED static void rooted(void)
{
	TRUTH();
	if (chroot(".") || chdir("/"))
		return;
	printf("rooted %d\n", clone_once(SIGCHLD));
	printf("rooted %d\n", clone_once(SIGCHLD));
}

/* Two tasks on one thread block, which no tracer can tell apart: in turn, then both at once.  It must do no harm. */
TRACED static void shared_memory(void)
{
	TRUTH();
	char *stack = malloc(STACK);

	for (int i = 0; i < ROUNDS; i++) {
		printf("vm, vfork %d\n", clone_once(CLONE_VM | CLONE_VFORK | SIGCHLD));
		pid_t pid = clone(cloned, stack + STACK, CLONE_VM | SIGCHLD, (void *)1);

		work(50);
		printf("vm %d\n", status_of(pid, 0));
	}
	free(stack);
}

/* A sister of this process: the parent waits for both. */
TRACED static void sister(void)
{
	TRUTH();
	pid_t pid = fork();

	if (pid == 0) {
		char *stack = malloc(STACK);

		work(1);
		clone(cloned, stack + STACK, CLONE_PARENT | SIGCHLD, NULL);
		_exit(3);
	}
	int first = status_of(pid, 0), status = 0;

	wait(&status);
	printf("sister %d %d\n", first, WEXITSTATUS(status));
}

/* Forks twice, in a session of its own; the grandchild goes on after its parent, and tells its work by a pipe. */
TRACED static void orphan(void)
{
	TRUTH();
	int ends[2], sum = -1;

	if (pipe(ends))
		return;
	if (fork() == 0) {
		pid_t parent = getpid();

		setsid();
		if (fork() == 0) {
			while (getppid() == parent)
				usleep(1000);
			sum = work(5);
			write(ends[1], &sum, sizeof(sum));
		}
		_exit(0);
	}
	close(ends[1]);
	wait(NULL);
	read(ends[0], &sum, sizeof(sum));
	printf("orphan %d\n", sum);
}

/* The process that the caller started ends, and the program goes on as a daemon. */
TRACED static void turn_daemon(void)
{
	TRUTH();
	work(1);
	fflush(stdout);
	if (daemon(1, 1))
		return;
	work(6);
	printf("daemon\n");
}

int main(int argc, char **argv)
{
	TRUTH();
	const char *shape = argc > 1 ? argv[1] : "";

	self = argv[0];
	setvbuf(stdout, NULL, _IONBF, 0);
	if (!strcmp(shape, "image"))
		return work(3);
	if (!strcmp(shape, "threads"))
		threads();
	if (!strcmp(shape, "spawns"))
		spawns();
	if (!strcmp(shape, "clones"))
		clones();
	if (!strcmp(shape, "rooted"))
		rooted();
	if (!strcmp(shape, "shared"))
		shared_memory();
	if (!strcmp(shape, "sister"))
		sister();
	if (!strcmp(shape, "orphan"))
		orphan();
	if (!strcmp(shape, "daemon"))
		turn_daemon();
	return 0;
}
