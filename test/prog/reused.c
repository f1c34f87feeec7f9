/*
 * Stacks in memory that is or was another's: one that was a signal stack, was given up (disabled, or with its thread)
 * and is in the middle of a thread's stack next; and small stacks side by side, where a thread begins below one that
 * has frames.  Calls there, of normal depth and deep, and frames left by pthread_exit.
 */
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <sys/mman.h>

#include "truth.h"

enum { SIZE = 1 << 20, PART = 1 << 16 };

static pthread_key_t key;

/* Something traced at the thread's end: unwinders stop short of its outermost frame, so that its end is seen here. */
TRACED static void last(void *value)
{
	TRUTH();
}

TRACED static void leaf(int depth)
{
	TRUTH();
}

TRACED static int dive(int depth, int leaves)
{
	TRUTH();
	volatile char room[PART / 8];

	room[0] = (char)depth;
	leaf(depth);
	if (depth)
		return dive(depth - 1, leaves) + room[0] - depth + 1;
	if (leaves)
		pthread_exit((void *)7);
	return room[0];
}

TRACED static void handler(int signal)
{
	TRUTH();
	leaf(signal);
}

TRACED static void use_signal_stack(char *memory, int disables)
{
	TRUTH();
	stack_t stack = {.ss_sp = memory, .ss_size = PART}, off = {.ss_flags = SS_DISABLE};

	sigaltstack(&stack, NULL);
	raise(SIGUSR1);
	if (disables)
		sigaltstack(&off, NULL);
}

TRACED static void *gives_up(void *memory)
{
	TRUTH();
	use_signal_stack(memory, 0);
	return NULL;
}

TRACED static void *works(void *leaves)
{
	TRUTH();
	pthread_setspecific(key, &key);
	return (void *)(long)dive(40, leaves != NULL);
}

TRACED static void work_there(char *memory, int leaves)
{
	TRUTH();
	pthread_attr_t attributes;
	pthread_t thread;
	void *result;

	pthread_attr_init(&attributes);
	pthread_attr_setstack(&attributes, memory, SIZE);
	pthread_create(&thread, &attributes, works, leaves ? &thread : NULL);
	pthread_join(thread, &result);
	printf("%ld\n", (long)result);
}

enum { TOGETHER = 4 };

static sem_t begun[TOGETHER], go_on[TOGETHER];

TRACED static void meet(int number)
{
	TRUTH();
	sem_post(&begun[number]);
	sem_wait(&go_on[number]);
	leaf(number);
}

TRACED static void *neighbour(void *number)
{
	TRUTH();
	pthread_setspecific(key, &key);
	meet((int)(long)number);
	return (void *)(long)dive(3, (long)number & 1);
}

/* From the highest to the lowest, each while those above are in the middle of calls; then they end in that order. */
TRACED static void neighbours(char *memory)
{
	TRUTH();
	pthread_t threads[TOGETHER];
	pthread_attr_t attributes;
	void *result;

	pthread_attr_init(&attributes);
	for (long i = 0; i < TOGETHER; i++) {
		sem_init(&begun[i], 0, 0);
		sem_init(&go_on[i], 0, 0);
		pthread_attr_setstack(&attributes, memory + SIZE / TOGETHER * (TOGETHER - 1 - i), SIZE / TOGETHER);
		pthread_create(&threads[i], &attributes, neighbour, (void *)i);
		sem_wait(&begun[i]);
	}
	for (int i = 0; i < TOGETHER; i++) {
		sem_post(&go_on[i]);
		pthread_join(threads[i], &result);
		printf("%ld\n", (long)result);
	}
}

int main(void)
{
	TRUTH();
	struct sigaction action = {.sa_handler = handler, .sa_flags = SA_ONSTACK};
	char *memory = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	pthread_t thread;

	pthread_key_create(&key, last);
	sigaction(SIGUSR1, &action, NULL);
	use_signal_stack(memory + SIZE / 2, 1);
	work_there(memory, 0);
	pthread_create(&thread, NULL, gives_up, memory + SIZE / 4 * 3);
	pthread_join(thread, NULL);
	work_there(memory, 1);
	neighbours(memory);
	return 0;
}
