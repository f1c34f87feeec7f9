/*
 * Does what its arguments say, one after the other, while a second thread calls other() all the time:
 *
 *     early, middle, late, quick   calls the function of that name; with :N, N times
 *     slow:MS                      is in slow() for at least so long
 *     throw:N                      risky() is left by an exception N times, and returns N times
 *     burst:N                      calls step() N times, by one call of burst()
 *     pause:MS                     sleeps
 *     until:FILE                   calls tick() until the file is there
 *     deep:FILE                    the same within outer(), inner(), deep()
 *     wait                         for SIGUSR1
 */
#include <pthread.h>
#include <signal.h>
#include <time.h>

#include "truth.h"

enum { PATIENCE_MS = 30000 };

static volatile sig_atomic_t told, ending;
static volatile long sum;

UNTRACED static long now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

TRACED static void early(void)
{
	sum = sum + 1;
}

TRACED static void middle(void)
{
	sum = sum + 2;
}

TRACED static void late(void)
{
	sum = sum + 3;
}

TRACED static void quick(void)
{
	sum = sum + 4;
}

TRACED static void other(void)
{
	sum = sum + 5;
}

/* Ends with a tail call of a function that no trigger is about. */
TRACED __attribute__((optimize("O2"))) static void passes(void)
{
	sum = sum + 7;
	other();
}

TRACED static void tick(void)
{
	usleep(500);
}

TRACED static void step(void)
{
	sum = sum + 6;
}

TRACED static void burst(long count)
{
	for (long i = 0; i < count; i++)
		step();
}

TRACED static void slow(long ms)
{
	long end = now_ms() + ms + 1; /* the clock is cut to milliseconds */

	while (now_ms() < end)
		sum = sum + 1;
}

TRACED static void risky(bool fails)
{
	if (fails)
		throw 1;
	sum = sum + 7;
}

UNTRACED static bool is_there(const char *file)
{
	return !access(file, F_OK);
}

UNTRACED static void wait_for(const char *file)
{
	for (long end = now_ms() + PATIENCE_MS; !is_there(file) && now_ms() < end;)
		tick();
	if (!is_there(file))
		printf("there is no %s\n", file);
}

TRACED static void deep(const char *file)
{
	wait_for(file);
	sum = sum + 1;
}

TRACED static void inner(const char *file)
{
	deep(file);
	sum = sum + 1;
}

TRACED static void outer(const char *file)
{
	inner(file);
	sum = sum + 1;
}

UNTRACED static void throw_so_often(long count)
{
	for (long i = 0; i < 2 * count; i++)
		try {
			risky(i % 2);
		} catch (int) {
			sum = sum + 8;
		}
}

UNTRACED static void on_signal(int)
{
	told = 1;
}

UNTRACED static void *call_other(void *)
{
	while (!ending) {
		other();
		usleep(500);
	}
	return NULL;
}

UNTRACED static void repeat(void (*function)(void), long count)
{
	do
		function();
	while (--count > 0);
}

UNTRACED static bool act(const char *word, const char *value)
{
	static const struct {
		const char *name;
		void (*function)(void);
	} simple[] = {{"early", early}, {"middle", middle}, {"late", late}, {"quick", quick}, {"passes", passes}};

	for (auto &known : simple)
		if (!strcmp(word, known.name)) {
			repeat(known.function, atol(value));
			return true;
		}
	if (!strcmp(word, "slow"))
		slow(atol(value));
	else if (!strcmp(word, "throw"))
		throw_so_often(atol(value));
	else if (!strcmp(word, "burst"))
		burst(atol(value));
	else if (!strcmp(word, "pause"))
		usleep((useconds_t)atol(value) * 1000);
	else if (!strcmp(word, "until"))
		wait_for(value);
	else if (!strcmp(word, "deep"))
		outer(value);
	else
		return false;
	return true;
}

int main(int argc, char **argv)
{
	pthread_t thread;

	signal(SIGUSR1, on_signal);
	if (pthread_create(&thread, NULL, call_other, NULL))
		return 3;
	printf("ready %d\n", argc > 1 && !strcmp(argv[1], "wait") ? (int)getpid() : 0);
	fflush(stdout);
	for (int i = 1; i < argc; i++) {
		char *colon = strchr(argv[i], ':');

		if (!strcmp(argv[i], "wait")) {
			while (!told)
				usleep(1000);
			continue;
		}
		if (colon)
			*colon = 0;
		if (!act(argv[i], colon ? colon + 1 : "")) {
			printf("what is %s?\n", argv[i]);
			return 2;
		}
	}
	ending = 1;
	pthread_join(thread, NULL);
	printf("all was well\n");
	return 7;
}
