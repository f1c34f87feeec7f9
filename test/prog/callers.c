/*
 * main() -> outer() -> middle() -> leaf(), for tools that look at the stack from inside and from outside.
 *
 *     callers names                  backtrace() in leaf(), at several depths, and in a signal handler
 *     callers crash                  leaf() calls abort()
 *     callers burn MS                leaf() computes all the time: for a profiler
 *     callers wait TURNS [LIBRARY]   leaf() sleeps 1 ms each time: for a debugger
 *     callers hold TURNS [LIBRARY]   the same, after as many turns more as it takes until SIGUSR2 comes
 *
 * Before the turns the library is loaded and used; after them the program sends itself SIGTRAP, which it handles.
 */
#include <dlfcn.h>
#include <execinfo.h>
#include <signal.h>
#include <time.h>

#include "truth.h"

#define MANY 2000

static enum { NAMES, WAIT, CRASH, BURN } mode;
static int frames_max = MANY;
static volatile unsigned work;
static volatile sig_atomic_t told;

/* Keeps the call in front of it from being a tail call. */
#define NO_TAIL_CALL() __asm__ volatile("" ::: "memory")

/* Symbol and offset; the addresses differ from run to run. */
UNTRACED static void print_frames(void)
{
	void *frames[MANY];
	int n = backtrace(frames, frames_max);
	char **names = backtrace_symbols(frames, n);

	printf("%d frames\n", n);
	for (int i = 0; names && i < n && i < 12; i++)
		printf("  %.*s\n", (int)strcspn(names[i], " ["), names[i]);
	free(names);
}

UNTRACED static void on_signal(int signal)
{
	print_frames();
}

TRACED int leaf(int x)
{
	if (mode == NAMES)
		print_frames();
	if (mode == CRASH)
		abort();
	if (mode == WAIT)
		usleep(1000);
	for (int i = 0; mode == BURN && i < 20000; i++)
		work += i;
	return x * 3 + 1;
}

TRACED int middle(int x)
{
	int sum = leaf(x) + leaf(x + 1);

	NO_TAIL_CALL();
	return sum;
}

TRACED int outer(int x)
{
	int sum = middle(x) ^ leaf(x);

	NO_TAIL_CALL();
	return sum;
}

TRACED int dive(int depth)
{
	int sum = depth ? dive(depth - 1) + 1 : leaf(0);

	NO_TAIL_CALL();
	return sum;
}

TRACED void interrupted(void)
{
	raise(SIGUSR1);
	NO_TAIL_CALL();
}

UNTRACED static void print_all(void)
{
	signal(SIGUSR1, on_signal);
	for (int depth = 0; depth < 4; depth++)
		dive(depth);
	dive(500);
	interrupted();
	for (frames_max = 0; frames_max < 6; frames_max++)
		outer(frames_max);
	frames_max = 100;
	dive(300);
}

UNTRACED static void on_trap(int signal)
{
	work++;
}

UNTRACED static void on_told(int signal)
{
	told = 1;
}

UNTRACED static void use(const char *path)
{
	void *library = dlopen(path, RTLD_NOW);
	int (*answer)(int) = library ? (int (*)(int))dlsym(library, "library_answer") : NULL;

	printf("answer %d\n", answer ? answer(14) : -1);
}

UNTRACED static unsigned wait_turns(long turns, const char *library)
{
	unsigned result = 0;

	while (!told)
		outer(0);
	if (library)
		use(library);
	for (long i = 0; i < turns; i++)
		result += outer((int)i);
	raise(SIGTRAP);
	return result + work;
}

UNTRACED static long now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

int main(int argc, char **argv)
{
	const char *what = argc > 1 ? argv[1] : "names";
	long amount = argc > 2 ? atol(argv[2]) : 0, end = now_ms() + amount;
	unsigned result = 0;

	told = *what == 'w';
	signal(SIGTRAP, on_trap);
	signal(SIGUSR2, on_told);
	mode = *what == 'w' || *what == 'h' ? WAIT : *what == 'c' ? CRASH : *what == 'b' ? BURN : NAMES;
	printf("running %d\n", mode == NAMES ? 0 : (int)getpid());
	fflush(stdout);
	if (mode == NAMES)
		print_all();
	if (mode == CRASH)
		outer(1);
	if (mode == WAIT)
		result = wait_turns(amount, argc > 3 ? argv[3] : NULL);
	while (mode == BURN && now_ms() < end)
		outer(1);
	printf("done %u\n", result);
	return 0;
}
