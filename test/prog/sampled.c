/*
 * Functions whose time the program knows by its own clock, in the rhythm of the tool's tick: `third` runs for 30 us and
 * `rest` for 70 us, in turn, and `both` calls the two; `once` runs for 5 ms, once; two threads and a child do the same.
 * `often` is called 20 times a round, and takes next to no time.
 *
 *     sampled ROUNDS
 *
 * Prints "NAME CALLS NS" per function, summed up over threads and processes.
 */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define OFTEN 20u

enum { THIRD, REST, BOTH, ONCE, COUNT };
static const char *const names[COUNT] = {"third", "rest", "both", "once"};

struct sums {
	uint64_t calls[COUNT], ns[COUNT], often;
};

static struct sums *sums;
static uint32_t rounds;

#define HIDDEN __attribute__((always_inline)) static inline

HIDDEN uint64_t now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return (uint64_t)time.tv_sec * 1000000000 + (uint64_t)time.tv_nsec;
}

HIDDEN void note(int which, uint64_t ns)
{
	__atomic_add_fetch(&sums->calls[which], 1, __ATOMIC_RELAXED);
	__atomic_add_fetch(&sums->ns[which], ns, __ATOMIC_RELAXED);
}

HIDDEN void spin(int which, uint64_t ns)
{
	uint64_t began = now(), ended;

	do
		ended = now();
	while (ended - began < ns);
	note(which, ended - began);
}

__attribute__((noinline)) static void third(void)
{
	spin(THIRD, 30000);
}

__attribute__((noinline)) static void rest(void)
{
	spin(REST, 70000);
}

__attribute__((noinline)) static void often(void)
{
	__atomic_add_fetch(&sums->often, 1, __ATOMIC_RELAXED);
}

__attribute__((noinline)) static void both(void)
{
	uint64_t began = now();

	third();
	rest();
	for (uint32_t i = 0; i < OFTEN; i++)
		often();
	note(BOTH, now() - began);
}

__attribute__((noinline)) static void once(void)
{
	spin(ONCE, 5000000);
}

static void *run(void *arg)
{
	for (uint32_t i = 0; i < rounds; i++)
		both();
	return arg;
}

int main(int argc, char **argv)
{
	pthread_t thread;
	pid_t child;

	rounds = argc > 1 ? (uint32_t)atoi(argv[1]) : 1000;
	sums = mmap(NULL, sizeof(*sums), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (sums == MAP_FAILED)
		return 1;
	run(NULL);
	if (pthread_create(&thread, NULL, run, NULL))
		return 1;
	once();
	pthread_join(thread, NULL);
	child = fork();
	if (!child) {
		run(NULL);
		_exit(0);
	}
	if (child < 0 || waitpid(child, NULL, 0) != child)
		return 1;
	for (int i = 0; i < COUNT; i++)
		printf("%s %llu %llu\n", names[i], (unsigned long long)sums->calls[i], (unsigned long long)sums->ns[i]);
	printf("often %llu 0\n", (unsigned long long)sums->often);
	return 0;
}
