/*
 * The features of this machine, or of its emulator: each feature is tried in a child, and a line "NAME REASON" is
 * printed for each missing one.
 */
#include <errno.h>
#include <linux/seccomp.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/wait.h>

#include "truth.h"

#include <linux/filter.h>

static int filter(void)
{
	struct sock_filter allow = BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
	struct sock_fprog program = {1, &allow};

	return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
}

static int strict(void)
{
	return prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT);
}

static int traced(void)
{
	return ptrace(PTRACE_TRACEME, 0, 0, 0) != 0;
}

static int without_clock(void)
{
	return prctl(PR_SET_TSC, PR_TSC_SIGSEGV);
}

/* Memory that a forked child finds empty. */
static int wiped(void)
{
	char *memory = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	int status = 0;

	*memory = 1;
	if (madvise(memory, 4096, MADV_WIPEONFORK))
		return -1;
	if (!fork())
		_exit(*memory);
	wait(&status);
	errno = ENOTSUP;
	return WEXITSTATUS(status);
}

/* The child of a vfork() runs in its parent's memory. */
static int vforks(void)
{
	static volatile int shared;

	if (!vfork()) {
		shared = 1;
		_exit(0);
	}
	errno = ENOTSUP;
	return !shared;
}

/* The exit status is the error's number. */
static void try(const char *name, int (*use)(void))
{
	pid_t pid = fork();
	int status = 0;

	if (!pid) {
		errno = 0;
		syscall(SYS_exit, use() ? errno : 0); /* the one end that strict mode allows */
	}
	waitpid(pid, &status, 0);
	if (!WIFEXITED(status))
		printf("%s ends by signal %d\n", name, WTERMSIG(status));
	else if (WEXITSTATUS(status))
		printf("%s %s\n", name, strerror(WEXITSTATUS(status)));
}

int main(void)
{
	try("seccomp", filter);
	try("seccomp-strict", strict);
	try("ptrace", traced);
	try("clock-off", without_clock);
	try("wipe-on-fork", wiped);
	try("vfork", vforks);
	return 0;
}
