/*
 * Takes away a part of its surroundings, as the first argument says, and goes on working, with a new thread and a
 * child: descriptors, folders, namespaces, rights, limits, /proc.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "truth.h"

enum { DESCRIPTORS = 1024, DEEP = 200 };

TRACED static long work(long n)
{
	TRUTH();
	volatile char frame[512];

	frame[n % 512] = 1;
	return n ? work(n - 1) + frame[n % 512] : 0;
}

TRACED static void *thread(void *unused)
{
	TRUTH();
	return (char *)unused + work(7);
}

/* Go on as programs do: in this thread, in a new one, and in a child. */
TRACED static void go_on(void)
{
	TRUTH();
	void *result = (void *)-1;
	pthread_t other;
	int status = -1;
	pid_t pid;

	printf("here %ld\n", work(DEEP));
	if (!pthread_create(&other, NULL, thread, NULL))
		pthread_join(other, &result);
	printf("thread %ld\n", (long)result);
	pid = fork();
	if (pid == 0)
		_exit((int)work(9));
	if (pid > 0)
		waitpid(pid, &status, 0);
	printf("child %d\n", WIFSIGNALED(status) ? 1000 + WTERMSIG(status) : WEXITSTATUS(status));
}

TRACED static int limit(int what, rlim_t soft)
{
	TRUTH();
	struct rlimit old, set;

	getrlimit(what, &old);
	set = (struct rlimit){soft < old.rlim_max ? soft : old.rlim_max, old.rlim_max};
	return setrlimit(what, &set);
}

TRACED static int descriptors(const char *how)
{
	TRUTH();
	if (!strcmp(how, "closefrom"))
		closefrom(3);
	else if (!strcmp(how, "close_range"))
		return close_range(3, ~0u, 0);
	else if (!strcmp(how, "dup2"))
		for (int fd = 3; fd < DESCRIPTORS; fd++)
			dup2(1, fd);
	else
		return -1;
	return 0;
}

TRACED static int folders(const char *how)
{
	TRUTH();
	if (!strcmp(how, "chroot"))
		return chroot(".") | chdir("/");
	if (!strcmp(how, "removed"))
		return mkdir("gone", 0700) | chdir("gone") | rmdir("../gone");
	if (!strcmp(how, "umount")) /* unmount the folder where the program was started */
		return chdir("/") | umount(getenv("MOUNTED"));
	if (!strcmp(how, "no-proc"))
		return umount2("/proc", MNT_DETACH);
	return -1;
}

TRACED static int rights(const char *how)
{
	TRUTH();
	if (!strcmp(how, "dumpable"))
		return prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
	if (!strcmp(how, "no-new-privileges"))
		return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	if (!strcmp(how, "death-signal"))
		return prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
	if (!strcmp(how, "subreaper"))
		return prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
	if (!strcmp(how, "no-clock"))
		return prctl(PR_SET_TSC, PR_TSC_SIGSEGV, 0, 0, 0);
	if (!strcmp(how, "nobody"))
		return setgid(65534) | setuid(65534);
	return -1;
}

TRACED static int namespaces(const char *how)
{
	TRUTH();
	if (!strcmp(how, "unshare-files"))
		return unshare(CLONE_FILES | CLONE_FS);
	if (!strcmp(how, "unshare-user"))
		return unshare(CLONE_NEWUSER);
	if (!strcmp(how, "unshare-pid"))
		return unshare(CLONE_NEWPID);
	if (!strcmp(how, "unshare-net"))
		return unshare(CLONE_NEWNET);
	if (!strcmp(how, "unshare-user-net"))
		return unshare(CLONE_NEWUSER | CLONE_NEWNET);
	if (!strcmp(how, "unshare-mount"))
		return unshare(CLONE_NEWNS);
	if (!strcmp(how, "unshare-vm"))
		return unshare(CLONE_VM | CLONE_SIGHAND);
	if (!strcmp(how, "call-unshare-user")) /* as languages do whose libraries have no such function */
		return (int)syscall(SYS_unshare, CLONE_NEWUSER);
	if (!strcmp(how, "call-setns"))
		return (int)syscall(SYS_setns, open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC), 0);
	return -1;
}

TRACED static int limits(const char *how)
{
	TRUTH();
	if (!strcmp(how, "as")) /* enough for a thread, nothing besides */
		return limit(RLIMIT_AS, (rlim_t)200 << 20);
	if (!strcmp(how, "files-0"))
		return limit(RLIMIT_NOFILE, 0);
	if (!strcmp(how, "files-3"))
		return limit(RLIMIT_NOFILE, 3);
	if (!strcmp(how, "stack"))
		return limit(RLIMIT_STACK, 512 << 10);
	if (!strcmp(how, "file-size"))
		return limit(RLIMIT_FSIZE, 4096);
	if (!strcmp(how, "locked"))
		return limit(RLIMIT_MEMLOCK, 0);
	if (!strcmp(how, "processes"))
		return limit(RLIMIT_NPROC, 1);
	if (!strcmp(how, "lock-all"))
		return mlockall(MCL_CURRENT | MCL_FUTURE);
	if (!strcmp(how, "call-lock-all"))
		return (int)syscall(SYS_mlockall, MCL_CURRENT | MCL_FUTURE);
	return -1;
}

int main(int argc, char **argv)
{
	TRUTH();
	const char *how = argc > 1 ? argv[1] : "";

	setvbuf(stdout, NULL, _IONBF, 0);
	printf("before %ld\n", work(3));
	errno = 0;
	if (!strcmp(how, "nothing") || !descriptors(how) || !folders(how) || !rights(how) || !namespaces(how) ||
	    !limits(how))
		printf("%s is so now\n", how);
	else
		printf("%s: %s\n", how, strerror(errno));
	go_on();
	return 5;
}
