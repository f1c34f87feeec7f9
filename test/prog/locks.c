/*
 * Locks its memory by mlockall(): the first argument is the flags, the second the limit in KiB for a user who may not
 * lock as much as he likes, 0 = none.  What it has, and with MCL_FUTURE what it maps later, must be in memory; and no
 * more than that.  The third one, "waits": prints "ready PID", makes calls until SIGTERM comes, and ends with
 * status 42.
 */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include "truth.h"

enum { MIB = 1 << 20, PAGE = 4096, THREADS = 20, NOBODY = 65534, STATUS = 42, MOST = 64 << 10 /* KiB */ };

static char own[MIB]; /* nobody touches it */
static volatile sig_atomic_t ends;

TRACED static unsigned call(unsigned x)
{
	ROOM_FOR_JUMP();
	return x * 1664525u + 1013904223u;
}

UNTRACED static void on_signal(int number)
{
	ends = number;
}

static void *be_short(void *arg)
{
	volatile unsigned x = 1;

	for (int i = 0; i < 100; i++)
		x = call(x);
	return arg;
}

/* How many of the 256 pages are in memory. */
UNTRACED static int pages_of(char *memory)
{
	unsigned char there[MIB / PAGE];
	char *first = (char *)(((uintptr_t)memory + PAGE - 1) & ~(uintptr_t)(PAGE - 1));
	int count = 0;

	if (mincore(first, MIB - PAGE, there))
		return -1;
	for (int i = 0; i < MIB / PAGE - 1; i++)
		count += there[i] & 1;
	return count;
}

UNTRACED static long in_kib(const char *name)
{
	FILE *file = fopen("/proc/self/status", "r");
	char line[256];
	long value = -1;

	while (file && fgets(line, sizeof(line), file))
		if (!strncmp(line, name, strlen(name)))
			value = atol(line + strlen(name));
	if (file)
		fclose(file);
	return value;
}

UNTRACED static int be_limited(long kib)
{
	const struct rlimit limit = {(rlim_t)kib << 10, (rlim_t)kib << 10};

	return setrlimit(RLIMIT_MEMLOCK, &limit) || setgid(NOBODY) || setuid(NOBODY);
}

static int wait_for_end(void)
{
	volatile unsigned x = 1;

	signal(SIGTERM, on_signal);
	printf("ready %d\n", (int)getpid());
	fflush(stdout);
	while (!ends) {
		for (int i = 0; i < 1000; i++)
			x = call(x);
		usleep(1000);
	}
	printf("all was well\n");
	return STATUS;
}

int main(int argc, char **argv)
{
	int flags = argc > 1 ? atoi(argv[1]) : MCL_CURRENT, failed;
	long limit = argc > 2 ? atol(argv[2]) : 0, rss;
	char *later;

	if (limit && be_limited(limit))
		return 77;
	failed = limit ? (int)syscall(SYS_mlockall, flags) : mlockall(flags);
	if (argc > 3)
		return failed ? 1 : wait_for_end();
	printf("mlockall() returns %d, %s\n", failed, failed ? strerror(errno) : "no error");
	printf("%d pages of its own are there\n", pages_of(own));
	later = mmap(NULL, MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (later != MAP_FAILED)
		printf("%d of what came later\n", pages_of(later));
	for (int i = 0; i < THREADS; i++) {
		pthread_t thread;

		if (pthread_create(&thread, NULL, be_short, NULL) == 0)
			pthread_join(thread, NULL);
	}
	rss = in_kib("VmRSS:");
	if (rss < 0 || rss > MOST)
		printf("it takes %ld KiB\n", rss);
	printf("%s\n", munlockall() || in_kib("VmLck:") ? "some stays locked" : "all is unlocked");
	return 0;
}
