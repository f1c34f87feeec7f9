/*
 * Threads that all wait for each other, none for an event, until the program is told to stop (SIGTERM).
 *
 *     waiting LIBRARY THREADS
 *
 * On SIGUSR1 a new thread loads the library, calls a function of it, and jumps out of a frame.  Prints "ready PID"
 * when all wait, "loaded N" each time such a thread has ended, at the end its findings.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>

#include "shapes.h"

#define THREADS_MAX 16

static struct {
	pthread_mutex_t lock;
	pthread_cond_t changed;
	int waiting, stop;
	sem_t told;
	volatile sig_atomic_t asked, ended;
	const char *library;
} shared = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER};

TRACED static void *wait_long(void *arg)
{
	pthread_mutex_lock(&shared.lock);
	shared.waiting++;
	pthread_cond_broadcast(&shared.changed);
	while (!shared.stop)
		pthread_cond_wait(&shared.changed, &shared.lock);
	pthread_mutex_unlock(&shared.lock);
	return arg;
}

TRACED static void *load(void *arg)
{
	void *library = dlopen(shared.library, RTLD_NOW);
	int (*function)(int) = library ? (int (*)(int))dlsym(library, "library_answer") : NULL;

	if (!function || function(10) != 31 || jump(3) != 7)
		return NULL;
	return arg;
}

TRACED static int later(void)
{
	pthread_t thread;
	void *found = NULL;

	return !pthread_create(&thread, NULL, load, &shared) && !pthread_join(thread, &found) && found == &shared;
}

UNTRACED static void on_signal(int number)
{
	if (number == SIGUSR1)
		shared.asked++;
	else
		shared.ended = 1;
	sem_post(&shared.told);
}

int main(int argc, char **argv)
{
	int count = argc > 2 ? atoi(argv[2]) : 1, done = 0;
	pthread_t threads[THREADS_MAX];

	if (argc < 2 || count > THREADS_MAX)
		return 2;
	shared.library = argv[1];
	sem_init(&shared.told, 0, 0);
	signal(SIGUSR1, on_signal);
	signal(SIGTERM, on_signal);
	for (int i = 0; i < count; i++)
		pthread_create(&threads[i], NULL, wait_long, NULL);
	pthread_mutex_lock(&shared.lock);
	while (shared.waiting < count)
		pthread_cond_wait(&shared.changed, &shared.lock);
	pthread_mutex_unlock(&shared.lock);
	printf("ready %d\n", (int)getpid());
	fflush(stdout);
	while (!shared.ended) {
		if (done == shared.asked) {
			sem_wait(&shared.told);
			continue;
		}
		if (!later())
			return 1;
		printf("loaded %d\n", ++done);
		fflush(stdout);
	}
	pthread_mutex_lock(&shared.lock);
	shared.stop = 1;
	pthread_cond_broadcast(&shared.changed);
	pthread_mutex_unlock(&shared.lock);
	for (int i = 0; i < count; i++)
		pthread_join(threads[i], NULL);
	printf("all was well\n");
	return 42;
}
