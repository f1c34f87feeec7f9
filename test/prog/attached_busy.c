/*
 * Threads that are never at a good place for a stop: allocating, starting and ending threads, handling signals,
 * forking, spawning, loading libraries.  The arguments choose among these; without any, all.  Ends when its standard
 * input does, and says "ok" if all went well.
 */
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

extern char **environ;

static int over, wrong;
static unsigned long handled, rounds;

static void fail(const char *what)
{
	printf("%s: %s\n", what, strerror(errno));
	__atomic_store_n(&wrong, 1, __ATOMIC_RELAXED);
}

static int goes_on(void)
{
	__atomic_fetch_add(&rounds, 1, __ATOMIC_RELAXED);
	return !__atomic_load_n(&over, __ATOMIC_RELAXED);
}

/* Every block is filled and looked at when it is freed. */
static void *allocate(void *argument)
{
	unsigned char *blocks[64] = {0};
	size_t sizes[64] = {0};
	unsigned seed = (unsigned)(size_t)argument + 1;

	while (goes_on()) {
		unsigned i = (unsigned)rand_r(&seed) % 64;

		for (size_t k = 0; k < sizes[i]; k++)
			if (blocks[i][k] != (unsigned char)i) {
				fail("a block has changed");
				return NULL;
			}
		if (rand_r(&seed) % 3) {
			free(blocks[i]);
			sizes[i] = (size_t)rand_r(&seed) % (rand_r(&seed) % 50 ? 2000 : 400000);
			blocks[i] = malloc(sizes[i] + 1);
		} else {
			sizes[i] = (size_t)rand_r(&seed) % 5000;
			blocks[i] = realloc(blocks[i], sizes[i] + 1);
		}
		memset(blocks[i], (int)i, sizes[i]);
	}
	return NULL;
}

static void *come_and_go(void *argument)
{
	return argument;
}

static void *start_threads(void *argument)
{
	while (goes_on()) {
		pthread_t threads[8];
		void *result;

		for (size_t i = 0; i < 8; i++)
			if (pthread_create(&threads[i], NULL, come_and_go, (void *)i))
				fail("pthread_create");
		for (size_t i = 0; i < 8; i++)
			if (pthread_join(threads[i], &result) || result != (void *)i)
				fail("pthread_join");
	}
	return NULL;
}

static void handle(int signal)
{
	int error = errno;
	void *block = NULL;

	if (signal == SIGUSR1)
		memset(&block, 1, sizeof(block));
	__atomic_fetch_add(&handled, 1, __ATOMIC_RELAXED);
	errno = error;
}

/* Signals to itself, each of which has to arrive. */
static void *send_signals(void *argument)
{
	struct sigaction action = {.sa_handler = handle};
	unsigned long sent = 0;

	sigaction(SIGUSR1, &action, NULL);
	while (goes_on()) {
		pthread_kill(pthread_self(), SIGUSR1);
		sent++;
	}
	if (__atomic_load_n(&handled, __ATOMIC_RELAXED) < sent)
		fail("signals got lost");
	return NULL;
}

static void *do_fork(void *argument)
{
	while (goes_on()) {
		pid_t pid = fork();
		int status = -1;

		if (!pid) {
			free(malloc(1000));
			_exit(7);
		}
		if (waitpid(pid, &status, 0) != pid || !WIFEXITED(status) || WEXITSTATUS(status) != 7)
			fail("fork");
	}
	return NULL;
}

static void *do_spawn(void *argument)
{
	char *const arguments[] = {"true", NULL};

	while (goes_on()) {
		int status = -1;
		pid_t pid;

		if (posix_spawn(&pid, "/bin/true", NULL, NULL, arguments, environ) || waitpid(pid, &status, 0) != pid ||
		    status)
			fail("posix_spawn");
	}
	return NULL;
}

/* The parent sleeps in the kernel as long as the child is in its memory. */
static void *do_vfork(void *argument)
{
	while (goes_on()) {
		int status = -1;
		pid_t pid = vfork();

		if (!pid) {
			const struct timespec pause = {0, 30000000};

			nanosleep(&pause, NULL);
			_exit(9);
		}
		if (waitpid(pid, &status, 0) != pid || !WIFEXITED(status) || WEXITSTATUS(status) != 9)
			fail("vfork");
	}
	return NULL;
}

static void *load(void *argument)
{
	while (goes_on()) {
		void *library = dlopen("libm.so.6", RTLD_NOW | RTLD_LOCAL);

		if (!library || !dlsym(library, "cos"))
			fail("dlopen");
		else
			dlclose(library);
	}
	return NULL;
}

static void *idle(void *argument)
{
	const struct timespec pause = {1000, 0};

	return nanosleep(&pause, NULL) ? argument : NULL;
}

static const struct {
	const char *name;
	void *(*run)(void *argument);
} ways[] = {
	{"allocate", allocate}, {"allocate", allocate}, {"threads", start_threads}, {"signals", send_signals},
	{"fork", do_fork},	{"spawn", do_spawn},	{"vfork", do_vfork},	    {"load", load},
};
#define WAYS (sizeof(ways) / sizeof(ways[0]))

static int wanted(const char *name, char **names)
{
	if (!*names)
		return 1;
	while (*names)
		if (!strcmp(*names++, name))
			return 1;
	return 0;
}

/* Besides: as many threads that do nothing. */
static int start_idle(long count)
{
	pthread_attr_t attributes;
	pthread_t thread;

	pthread_attr_init(&attributes);
	pthread_attr_setstacksize(&attributes, 256u << 10);
	for (long i = 0; i < count; i++)
		if (pthread_create(&thread, &attributes, idle, NULL))
			return 1;
	return 0;
}

int main(int argc, char **argv)
{
	pthread_t threads[WAYS];
	char byte;

	setvbuf(stdout, NULL, _IOLBF, 0);
	if (argc > 2 && !strcmp(argv[1], "idle")) {
		if (start_idle(strtol(argv[2], NULL, 10)))
			return 2;
		argv += 2;
	} else {
		argv += argc > 0;
	}
	for (size_t i = 0; i < WAYS; i++)
		if (wanted(ways[i].name, argv) && pthread_create(&threads[i], NULL, ways[i].run, (void *)i))
			return 2;
	printf("ready\n");
	while (read(0, &byte, 1) > 0)
		;
	__atomic_store_n(&over, 1, __ATOMIC_RELAXED);
	for (size_t i = 0; i < WAYS; i++)
		if (wanted(ways[i].name, argv))
			pthread_join(threads[i], NULL);
	printf("%s %lu\n", wrong ? "wrong" : "ok", rounds);
	return wrong;
}
