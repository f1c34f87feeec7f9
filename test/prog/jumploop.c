/*
 * Jumps in a loop (the argument says how many): what the process has mapped, and how many pages it has touched, is the
 * same after the last as it was after the first twenty.
 */
#include <setjmp.h>
#include <signal.h>
#include <sys/resource.h>

#include "routine.h"

enum { WARM = 20, ALTERNATE = 64 * 1024 };

static jmp_buf back;
static sigjmp_buf out;
static char alternate[ALTERNATE], other[ALTERNATE];
static struct routine routine;

TRACED static void dive(int depth)
{
	if (depth)
		dive(depth - 1);
	else
		longjmp(back, 1);
}

TRACED static void catch_dive(int depth)
{
	if (!setjmp(back))
		dive(depth);
}

TRACED static void handler(int signal)
{
	siglongjmp(out, 1);
}

TRACED static void catch_signal(int signal)
{
	if (!sigsetjmp(out, 1))
		raise(signal);
}

TRACED static void paused(struct routine *self)
{
	routine_pause(self);
}

/* Leaves a frame on the other stack for good. */
TRACED static void leave_routine(void)
{
	routine_begin(&routine, paused, other, sizeof(other));
	routine_resume(&routine);
}

/* A number of /proc/self/smaps_rollup or the like; no call that allocates. */
UNTRACED static long number_after(const char *path, const char *key)
{
	static char text[1 << 16];
	int fd = open(path, O_RDONLY);
	ssize_t size = read(fd, text, sizeof(text) - 1);
	const char *found;

	close(fd);
	text[size < 0 ? 0 : size] = '\0';
	found = strstr(text, key);
	return found ? atol(found + strlen(key)) : -1;
}

UNTRACED static long mappings(void)
{
	static char text[1 << 12];
	int fd = open("/proc/self/maps", O_RDONLY);
	ssize_t size;
	long lines = 0;

	while ((size = read(fd, text, sizeof(text))) > 0)
		for (ssize_t i = 0; i < size; i++)
			lines += text[i] == '\n';
	close(fd);
	return lines;
}

struct use {
	long mapped, kib, own_kib, faults;
};

UNTRACED static struct use measure(void)
{
	struct rusage usage;
	struct use use = {mappings(), number_after("/proc/self/status", "VmSize:"),
			  number_after("/proc/self/status", "RssAnon:"), 0};

	getrusage(RUSAGE_SELF, &usage);
	use.faults = usage.ru_minflt;
	return use;
}

TRACED static void round_of(int i)
{
	catch_dive(i % 5);
	catch_signal(SIGUSR1);
	catch_signal(SIGUSR2);
	leave_routine();
}

int main(int argc, char **argv)
{
	int loops = argc > 1 ? atoi(argv[1]) : 2000;
	stack_t stack = {.ss_sp = alternate, .ss_size = sizeof(alternate)};
	struct sigaction action = {.sa_handler = handler};
	struct use before, after;

	sigaltstack(&stack, NULL);
	sigaction(SIGUSR1, &action, NULL);
	action.sa_flags = SA_ONSTACK;
	sigaction(SIGUSR2, &action, NULL);
	/* The tracer's slow paths may touch more or less of the memory below our frames: touch all of it now. */
	memset(alternate, 1, sizeof(alternate));
	memset(other, 1, sizeof(other));
	measure();
	for (int i = 0; i < WARM; i++)
		round_of(i);
	before = measure();
	for (int i = WARM; i < loops; i++)
		round_of(i);
	after = measure();
	printf("mappings %+ld, size %+ld KiB, own memory %+ld KiB\n", after.mapped - before.mapped,
	       after.kib - before.kib, after.own_kib - before.own_kib);
	fprintf(stderr, "faults %ld\n", after.faults - before.faults);
	return 0;
}
