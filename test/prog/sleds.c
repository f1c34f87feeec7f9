/*
 * For clang's -fxray-instrument: four threads call functions while XRay's runtime puts its calls into them and takes
 * them out again, 300 times, or as often as the argument says, or until SIGUSR1 comes.  Then one thread's calls are
 * counted by an XRay handler.  Prints the counts, which are the same each time, and exits with 4.
 */
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define PLAIN __attribute__((xray_never_instrument, noinline))
#define SLED  __attribute__((xray_always_instrument, noinline))

enum entry_type { ENTRY, EXIT, TAIL };

extern int __xray_set_handler(void (*handler)(int32_t, enum entry_type));
extern int __xray_remove_handler(void);
extern int __xray_patch(void);
extern int __xray_unpatch(void);

static long entries, exits;
static volatile int over, told, counting;

PLAIN static void handler(int32_t id, enum entry_type type)
{
	(void)id;
	if (!counting)
		return;
	entries += type == ENTRY;
	exits += type != ENTRY;
}

SLED unsigned tiny(unsigned x)
{
	return x * 3;
}

SLED unsigned framed(unsigned x)
{
	volatile unsigned kept[8] = {x};

	return tiny(kept[0]) + tiny(x + 1);
}

SLED unsigned last(unsigned x)
{
	return framed(x + 1);
}

SLED unsigned recursive(unsigned n)
{
	return n ? recursive(n - 1) + last(n) : 1;
}

PLAIN static void stop(int number)
{
	told = number;
}

PLAIN static void *run(void *arg)
{
	unsigned wanted = recursive(5);

	(void)arg;
	while (!over)
		if (recursive(5) != wanted)
			return "wrong";
	return NULL;
}

PLAIN int main(int argc, char **argv)
{
	pthread_t threads[4];
	unsigned sum = 0;
	int wrong = 0, rounds = argc > 1 ? atoi(argv[1]) : 300;

	__xray_set_handler(handler);
	for (int i = 0; i < 4; i++)
		pthread_create(&threads[i], NULL, run, NULL);
	signal(SIGUSR1, stop);
	puts("ready");
	fflush(stdout);
	for (int i = 0; i < rounds && !told; i++) {
		__xray_patch();
		usleep(300);
		__xray_unpatch();
		usleep(300);
	}
	over = 1;
	for (int i = 0; i < 4; i++) {
		void *result;

		pthread_join(threads[i], &result);
		wrong += result != NULL;
	}
	__xray_patch();
	counting = 1;
	for (unsigned i = 0; i < 1000; i++)
		sum += recursive(i % 6);
	counting = 0;
	__xray_unpatch();
	__xray_remove_handler();
	printf("%ld entries, %ld exits, %d wrong, %u\n", entries, exits, wrong, sum);
	return 4;
}
