/*
 * Runs functions of many shapes from several threads for as many milliseconds as the argument says, or until SIGTERM
 * comes, under a timer's signals at 1 kHz, and checks each call: its result, the registers that it must keep, and the
 * stack's alignment. With a library (library.c) as second argument its functions run too. The third may be "lock": the
 * memory is locked; "busy": it makes no pauses worth the name; "reload": the library is loaded and unloaded all the
 * time. While it runs, others switch tracing on and off.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <time.h>

#include "calls.h"
#include "shapes.h"

#define THREADS 4
#define ROUNDS	4 /* between pauses, which keep the trace small */

static struct {
	int ending, stop; /* atomic */
	unsigned rounds;
	unsigned long ticks;
	int (*library)(int);
} shared;

UNTRACED static void die(const char *what)
{
	printf("wrong: %s\n", what);
	fflush(stdout);
	_exit(1);
}

#define LEAF(n)                                                                                                        \
	TRACED static unsigned leaf_##n(unsigned x)                                                                    \
	{                                                                                                              \
		return x * (2654435761u + n) + n;                                                                      \
	}
LEAF(0)
LEAF(1)
LEAF(2)
LEAF(3)
LEAF(4)
LEAF(5)
LEAF(6)
LEAF(7)

static unsigned (*const leaves[])(unsigned) = {leaf_0, leaf_1, leaf_2, leaf_3, leaf_4, leaf_5, leaf_6, leaf_7};

TRACED static unsigned recurse(unsigned depth)
{
	return depth ? recurse(depth - 1) + leaf_0(depth) - depth * 2654435761u + 1 : 0;
}

TRACED static unsigned middle(unsigned x)
{
	return last(x + 1);
}

TRACED static unsigned tail(unsigned x)
{
	return middle(x * 3);
}

TRACED static unsigned aligned(unsigned x)
{
	_Alignas(16) volatile unsigned here[4] = {x, x, x, x};

	if ((uintptr_t)__builtin_frame_address(0) % 16 || (uintptr_t)here % 16)
		die("the stack is not aligned");
	return here[0] + here[3];
}

/* Checks that a call keeps the registers that it must keep. */
UNTRACED static unsigned keeps_registers(unsigned (*function)(unsigned), unsigned x)
{
	uint64_t changed = 1;
	unsigned result = cpu_call_keeping(function, x, &changed);

	if (changed)
		die("a register was not kept");
	return result;
}

TRACED static void on_tick(int number)
{
	if (leaf_7((unsigned)number) != (unsigned)number * (2654435761u + 7) + 7)
		die("a call in a handler");
	__atomic_add_fetch(&shared.ticks, 1, __ATOMIC_RELAXED);
}

TRACED static void once(unsigned x)
{
	for (unsigned i = 0; i < 8; i++)
		if (keeps_registers(leaves[i], x) != x * (2654435761u + i) + i)
			die("a leaf");
	if (recurse(x % 20) != x % 20)
		die("a recursion");
	if (tail(x) != ((x * 3 + 1) ^ 0x5a5a))
		die("a tail call");
	if (jump(x % 5) != 7)
		die("a longjmp");
	if (sum(4, 1.0, 2.5, 3.0, (double)(x % 100)) != 6.5 + x % 100)
		die("a variadic call");
	if (aligned(x) != 2 * x)
		die("an aligned call");
	if (shared.library && shared.library((int)(x % 1000)) != (int)(x % 1000) * 3 + 1)
		die("a call of the library");
}

/* A function for debuggers' breakpoints; the program never calls it. */
__attribute__((used)) TRACED unsigned never(unsigned x)
{
	return leaf_0(x) + leaf_1(x);
}

TRACED static void reload(const char *path)
{
	while (!__atomic_load_n(&shared.stop, __ATOMIC_RELAXED)) {
		void *library = dlopen(path, RTLD_NOW);
		int (*answer)(int) = library ? (int (*)(int))dlsym(library, "library_answer") : NULL;

		if (!answer)
			die("no library");
		for (int i = 0; i < 100; i++)
			if (answer(i) != 3 * i + 1)
				die("a call of the library");
		dlclose(library);
	}
}

TRACED static void *work_reloading(void *path)
{
	reload(path);
	return NULL;
}

TRACED static void *work(void *arg)
{
	for (unsigned x = (unsigned)(uintptr_t)arg; !__atomic_load_n(&shared.stop, __ATOMIC_RELAXED); x++) {
		once(x);
		if (x % shared.rounds == 0)
			usleep(500);
	}
	return NULL;
}

UNTRACED static void on_end(int number)
{
	__atomic_store_n(&shared.ending, 1, __ATOMIC_RELAXED);
}

UNTRACED static long now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

int main(int argc, char **argv)
{
	struct itimerval timer = {{0, 1000}, {0, 1000}};
	struct sigaction act = {.sa_handler = on_tick, .sa_flags = SA_RESTART};
	const char *how = argc > 3 ? argv[3] : "";
	pthread_t threads[THREADS + 1];
	int count = 0;

	if (!strcmp(how, "reload") && pthread_create(&threads[count++], NULL, work_reloading, argv[2]))
		die("no thread");
	if (argc > 2 && argv[2][0] && !count) {
		void *library = dlopen(argv[2], RTLD_NOW);

		shared.library = library ? (int (*)(int))dlsym(library, "library_answer") : NULL;
		if (!shared.library)
			die("no library");
	}
	shared.rounds = strcmp(how, "busy") ? ROUNDS : 50 * ROUNDS;
	if (!strcmp(how, "lock") && mlockall(MCL_CURRENT | MCL_FUTURE))
		die("memory cannot be locked");
	sigaction(SIGALRM, &act, NULL);
	signal(SIGTERM, on_end);
	for (uintptr_t i = 0; i < THREADS; i++)
		if (pthread_create(&threads[count++], NULL, work, (void *)(i * 1000)))
			die("no thread");
	setitimer(ITIMER_REAL, &timer, NULL);
	printf("running %d never %lx\n", (int)getpid(), (unsigned long)(uintptr_t)never);
	fflush(stdout);
	for (long end = now_ms() + (argc > 1 ? atol(argv[1]) : 1000);
	     now_ms() < end && !__atomic_load_n(&shared.ending, __ATOMIC_RELAXED);)
		usleep(1000);
	__atomic_store_n(&shared.stop, 1, __ATOMIC_RELAXED);
	while (count)
		pthread_join(threads[--count], NULL);
	printf("done well %s\n", shared.ticks ? "with ticks" : "without a tick");
	return 0;
}
