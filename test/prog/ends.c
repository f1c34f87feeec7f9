/* Ends as its first argument says: the exit status and every way to die must be the program's own. */
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/syscall.h>

#include "truth.h"

static void *wait_and_leave(void *number)
{
	char text[64] = "", path[64];

	snprintf(path, sizeof(path), "/proc/self/task/%d/stat", (int)getpid());
	while (!strstr(text, " Z ")) { /* the leader has gone */
		int fd = open(path, O_RDONLY);

		read(fd, text, sizeof(text) - 1);
		close(fd);
	}
	syscall(SYS_exit, *(int *)number);
	return NULL;
}

/* No exit_group: each thread ends by itself, the leader first; all with one status, for kernels differ in whose counts.
 */
TRACED static void each_thread(int number)
{
	TRUTH();
	static int status;
	pthread_t thread;

	status = number;
	if (pthread_create(&thread, NULL, wait_and_leave, &status))
		abort();
	syscall(SYS_exit, number);
}

TRACED static void end(const char *how, int number)
{
	TRUTH();
	if (!strcmp(how, "exit"))
		exit(number);
	if (!strcmp(how, "_exit"))
		_exit(number);
	if (!strcmp(how, "quick_exit"))
		quick_exit(number);
	if (!strcmp(how, "abort"))
		abort();
	if (!strcmp(how, "raise"))
		raise(number);
	if (!strcmp(how, "kill"))
		kill(getpid(), number);
	if (!strcmp(how, "segv"))
		*(volatile int *)(long)number = 1;
	if (!strcmp(how, "trap"))
		__builtin_trap();
	if (!strcmp(how, "thread_exit"))
		pthread_exit(NULL);
	if (!strcmp(how, "each_thread"))
		each_thread(number);
}

int main(int argc, char **argv)
{
	TRUTH();
	const struct rlimit no_core = {0, 0};
	int number = argc > 2 ? atoi(argv[2]) : 0;

	setrlimit(RLIMIT_CORE, &no_core);
	write(1, "ending\n", 7);
	if (argc > 1)
		end(argv[1], number);
	return number;
}
