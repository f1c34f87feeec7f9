/*
 * Threads in C that end early: cancelled at a cancellation point, in a lock's wait, and asynchronously in a loop, and
 * by pthread_exit from deep frames; with clean-up handlers and destructors of thread-specific data, all traced.
 * With a number: so many threads, one after the other, are cancelled at any instruction of traced calls.
 */
#include <pthread.h>
#include <semaphore.h>
#include <time.h>

#include "truth.h"

enum { DEPTH = 3 };
enum kind { SLEEPS, TESTS, WAITS, SPINS, EXITS, RETURNS, KINDS };

static pthread_key_t key;
static sem_t ready;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t never = PTHREAD_COND_INITIALIZER;
static volatile int spinning;
static _Thread_local int handled;

TRACED static void handle(void *amount)
{
	TRUTH();
	handled += (int)(long)amount;
}

TRACED static void unlock(void *argument)
{
	TRUTH();
	handle((void *)10);
	pthread_mutex_unlock(&mutex);
}

TRACED static void destroy(void *result)
{
	TRUTH();
	handle((void *)100);
	*(int *)result = handled;
}

TRACED static void sleeps(void)
{
	TRUTH();
	sem_post(&ready);
	for (;;)
		pause();
}

TRACED static void tests(void)
{
	TRUTH();
	struct timespec moment = {0, 100000};
	int state;

	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state);
	sem_post(&ready);
	for (int i = 0; i < 3; i++)
		nanosleep(&moment, NULL); /* no cancellation point now */
	pthread_setcancelstate(state, NULL);
	for (;;)
		pthread_testcancel();
}

TRACED static void waits(void)
{
	TRUTH();
	pthread_mutex_lock(&mutex);
	pthread_cleanup_push(unlock, NULL);
	sem_post(&ready);
	for (;;)
		pthread_cond_wait(&never, &mutex);
	pthread_cleanup_pop(1);
}

/* Both not in the log: they are left in the middle of their own code, where the compiler expects no clean-up. */
TRACED static void spins(void)
{
	spinning = 1; /* from here on no call may be interrupted: not every libc can be unwound at any instruction */
	for (;;)
		__asm__ volatile("" ::: "memory");
}

TRACED static void spins_asynchronously(void)
{
	sem_post(&ready);
	pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, NULL);
	spins();
}

TRACED static void end(enum kind kind)
{
	TRUTH();
	switch (kind) {
	case SLEEPS:
		sleeps();
	case TESTS:
		tests();
	case WAITS:
		waits();
	case SPINS:
		spins_asynchronously();
	case EXITS:
		sem_post(&ready);
		pthread_exit((void *)7);
	default:
		sem_post(&ready);
	}
}

TRACED static int dive(int depth, enum kind kind)
{
	TRUTH();
	pthread_cleanup_push(handle, (void *)1);
	if (depth)
		dive(depth - 1, kind);
	else
		end(kind);
	pthread_cleanup_pop(0);
	return depth;
}

struct job {
	enum kind kind;
	int result;
	pthread_t thread;
};

TRACED static void *work(void *argument)
{
	TRUTH();
	struct job *job = argument;

	pthread_setspecific(key, &job->result);
	return (void *)(long)dive(DEPTH, job->kind);
}

/* busy() and runs() are not in the log, which must not be interrupted. */
TRACED static int busy(int n)
{
	return n ? busy(n - 1) + 1 : 0;
}

TRACED static void *runs(void *turn)
{
	pthread_cleanup_push(handle, (void *)1);
	pthread_setspecific(key, turn);
	sem_post(&ready);
	pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, NULL);
	while (busy(3))
		;
	pthread_cleanup_pop(0);
	return NULL;
}

TRACED static void anywhere(int threads)
{
	TRUTH();
	int ended = 0, handled_all = 0;

	for (int i = 0; i < threads; i++) {
		pthread_t thread;
		void *result;
		int done = 0;

		pthread_create(&thread, NULL, runs, &done);
		sem_wait(&ready);
		for (volatile int pause = 0; pause < 100 * (i % 50); pause++)
			;
		pthread_cancel(thread);
		pthread_join(thread, &result);
		ended += result == PTHREAD_CANCELED;
		handled_all += done == 101; /* the clean-up handler's 1, the destructor's 100 */
	}
	printf("%d cancelled, %d cleaned up\n", ended, handled_all);
}

TRACED static void each_kind(void)
{
	TRUTH();
	struct job jobs[KINDS];

	for (int i = 0; i < KINDS; i++) {
		jobs[i] = (struct job){i, 0};
		pthread_create(&jobs[i].thread, NULL, work, &jobs[i]);
		sem_wait(&ready);
		while (i == SPINS && !spinning)
			usleep(100);
		pthread_mutex_lock(&mutex); /* held until it waits */
		pthread_mutex_unlock(&mutex);
		if (i < EXITS)
			pthread_cancel(jobs[i].thread);
	}
	for (int i = 0; i < KINDS; i++) {
		void *result;

		pthread_join(jobs[i].thread, &result);
		printf("thread %d: result %ld, handled %d\n", i, (long)result, jobs[i].result);
	}
}

int main(int argc, char **argv)
{
	TRUTH();
	pthread_key_create(&key, destroy);
	sem_init(&ready, 0, 0);
	if (argc > 1)
		anywhere(atoi(argv[1]));
	else
		each_kind();
	return 0;
}
