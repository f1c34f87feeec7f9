/*
 * Threads that load libraries, call them and close them, until the program is told to stop (SIGTERM).  Libraries of
 * different sizes come to each other's places.
 *
 *     comings THREADS LIBRARY...	of library.c
 *
 * Prints "ready PID" when all have been loaded once, and "all was well"; a wrong answer ends it at once.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>

#include "truth.h"

enum { THREADS_MAX = 16, WELL = 42 };

typedef int answer_fn(int);

static struct {
	char **paths;
	int count, stop;
} shared;

TRACED static void come(const char *path, int n)
{
	void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	answer_fn *answer = library ? (answer_fn *)dlsym(library, "library_answer") : NULL;

	if (!answer || answer(n) != 3 * n + 1) {
		printf("wrong: %s: %s\n", path, answer ? "its answer" : dlerror());
		fflush(stdout);
		_exit(1);
	}
	dlclose(library);
}

TRACED static void *comer(void *first)
{
	for (long i = (long)first; !__atomic_load_n(&shared.stop, __ATOMIC_RELAXED); i++)
		come(shared.paths[i % shared.count], (int)(i % 1000));
	return NULL;
}

int main(int argc, char **argv)
{
	int threads = argc > 2 ? atoi(argv[1]) : 0, number;
	pthread_t made[THREADS_MAX];
	sigset_t set;

	if (threads < 1 || threads > THREADS_MAX)
		return 2;
	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	pthread_sigmask(SIG_BLOCK, &set, NULL);
	shared.paths = argv + 2;
	shared.count = argc - 2;
	for (int i = 0; i < shared.count; i++)
		come(shared.paths[i], i);
	for (long i = 0; i < threads; i++)
		pthread_create(&made[i], NULL, comer, (void *)i);
	printf("ready %d\n", getpid());
	fflush(stdout);
	sigwait(&set, &number);
	__atomic_store_n(&shared.stop, 1, __ATOMIC_RELAXED);
	for (int i = 0; i < threads; i++)
		pthread_join(made[i], NULL);
	printf("all was well\n");
	return WELL;
}
