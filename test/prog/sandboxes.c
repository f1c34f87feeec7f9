/*
 * Shuts itself in as the arguments say, and goes on working: WAY (strict, or which call installs the filter) and WHAT
 * happens to a system call that the filter's list does not have.  Ends by the bare exit call, which strict mode allows.
 */
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { CALLS = 40000, DEEP = 3000 };

static int helper_runs, helper_here;

__attribute__((noinline)) long step(long n)
{
	__asm__ volatile("");
	return n + 1;
}

/* 3000 frames of 1 KiB: more stack than was ever in use. */
__attribute__((noinline)) long deep(long n)
{
	volatile char frame[1000];

	frame[n % 1000] = 1;
	return n ? deep(n - 1) + frame[n % 1000] : 0;
}

__attribute__((noinline)) void tell(const char *what, long n)
{
	char line[64];
	int size = snprintf(line, sizeof(line), "%s %ld\n", what, n);

	if (write(1, line, (size_t)size) != size)
		syscall(SYS_exit, 3);
}

__attribute__((noinline)) void work(void)
{
	long n = 0;

	for (int i = 0; i < CALLS; i++)
		n = step(n);
	tell("steps", n);
	tell("deep", deep(DEEP));
}

void *helper(void *unused)
{
	(void)unused;
	__atomic_store_n(&helper_here, 1, __ATOMIC_RELEASE);
	while (__atomic_load_n(&helper_runs, __ATOMIC_ACQUIRE))
		for (volatile int i = step(0); i < 100000; i++)
			;
	return NULL;
}

/* A list of what may be called; all else is answered by `otherwise`. */
static int filter(int way, unsigned otherwise, int generous)
{
	enum { TSYNC_WAY = 't', PRCTL_WAY = 'p', RAW_WAY = 'r' };
	static const int listed[] = {SYS_read,	     SYS_write,	       SYS_exit,
				     SYS_exit_group, SYS_rt_sigreturn, SYS_restart_syscall};
	static const int more[] = {SYS_clone3, SYS_clone,   SYS_mmap,  SYS_munmap,	    SYS_mprotect,
				   SYS_futex,  SYS_madvise, SYS_rseq,  SYS_set_robust_list, SYS_rt_sigprocmask,
				   SYS_wait4,  SYS_gettid,  SYS_getpid};
	struct sock_filter steps[64] = {BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr))};
	unsigned short n = 1;
	struct sock_fprog program = {.filter = steps};

	for (size_t i = 0; i < sizeof(listed) / sizeof(listed[0]); i++) {
		steps[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, listed[i], 0, 1);
		steps[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
	}
	for (size_t i = 0; generous && i < sizeof(more) / sizeof(more[0]); i++) {
		steps[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, more[i], 0, 1);
		steps[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
	}
	steps[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, otherwise);
	program.len = n;
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
		return -1;
	if (way == PRCTL_WAY)
		return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
	return (int)syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, way == TSYNC_WAY ? SECCOMP_FILTER_FLAG_TSYNC : 0,
			    &program);
}

/* Forbid a call that the executed program never makes, and our agent would make. */
static int forbid_connect(void)
{
	struct sock_filter steps[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_connect, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = {sizeof(steps) / sizeof(steps[0]), steps};

	return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
}

static void in_thread_and_child(void)
{
	pthread_t thread;
	int status = -1;

	helper_runs = 0;
	if (!pthread_create(&thread, NULL, helper, NULL))
		pthread_join(thread, NULL);
	if (fork() == 0) {
		step(1);
		_exit(4);
	}
	wait(&status);
	tell("child", status);
}

int main(int argc, char **argv)
{
	const char *way = argc > 1 ? argv[1] : "strict", *what = argc > 2 ? argv[2] : "kill";
	unsigned otherwise = SECCOMP_RET_KILL_PROCESS;
	pthread_t thread;
	int done;

	if (!strcmp(way, "image")) {
		work();
		usleep(300000);
		return 5;
	}
	if (!strcmp(what, "errno"))
		otherwise = SECCOMP_RET_ERRNO | ENOSYS;
	if (!strcmp(what, "allow"))
		otherwise = SECCOMP_RET_ALLOW;
	if (!strcmp(way, "tsync")) {
		helper_runs = 1;
		pthread_create(&thread, NULL, helper, NULL);
		while (!__atomic_load_n(&helper_here, __ATOMIC_ACQUIRE))
			;
	}
	/* Calls that fail change nothing. */
	errno = 0;
	done = prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, (void *)16);
	tell("refused", done == -1 ? errno : done);
	if (!strcmp(way, "strict"))
		done = prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT);
	else if (!strcmp(way, "executes"))
		done = forbid_connect();
	else
		done = filter(way[0], otherwise, !strcmp(what, "errno") || !strcmp(what, "generous"));
	tell("shut in", done);
	if (!strcmp(way, "executes"))
		execl(argv[0], argv[0], "image", (char *)NULL);
	work();
	if (argc > 3)
		raise(SIGSTOP); /* for good: who waits for us ends us */
	if (!strcmp(way, "tsync")) {
		usleep(!strcmp(what, "kill") ? 0 : 1000);
		__atomic_store_n(&helper_runs, 0, __ATOMIC_RELEASE);
	}
	if (strcmp(way, "strict") && strcmp(what, "kill"))
		in_thread_and_child();
	syscall(strcmp(way, "strict") ? SYS_exit_group : SYS_exit, 5);
	return 1;
}
