/*
 * Runs until it is told to stop (SIGTERM), with a library that it loads; the files of both may go meanwhile.
 *
 *     replaced LIBRARY [gone [ROUNDS]]
 *
 * Prints "ready PID".  "gone": the library's file is deleted as soon as it is loaded; it ends after so many rounds.
 * Built with -DOTHER it is another program, whose functions have other names and lie elsewhere.
 */
#include <dlfcn.h>
#include <signal.h>

#include "truth.h"

#ifdef OTHER
#define step_one other_one
#define step_two other_two
#define fill	 other_fill

TRACED int padding_one(int x)
{
	return x * 31 + 7;
}

TRACED int padding_two(int x)
{
	return x * 37 + padding_one(x);
}
#endif

static volatile sig_atomic_t stop;

UNTRACED static void on_stop(int number)
{
	stop = number;
}

TRACED static int step_one(int x)
{
	return x * 3 + 1;
}

TRACED static int step_two(int x)
{
	return step_one(x) * 5;
}

TRACED static int fill(int x, int (*answer)(int))
{
	return answer(x) == x * 3 + 1 && step_two(x) == (x * 3 + 1) * 5;
}

int main(int argc, char **argv)
{
	void *library = argc > 1 ? dlopen(argv[1], RTLD_NOW) : NULL;
	int (*answer)(int) = library ? (int (*)(int))dlsym(library, "library_answer") : NULL;
	long rounds = argc > 3 ? atol(argv[3]) : -1;

	if (!answer) {
		fprintf(stderr, "%s\n", dlerror());
		return 1;
	}
	if (argc > 2)
		unlink(argv[1]);
	signal(SIGTERM, on_stop);
	printf("ready %d\n", (int)getpid());
	fflush(stdout);
	for (int x = 0; !stop && rounds; x = (x + 1) % 1000, rounds -= rounds > 0) {
		if (!fill(x, answer))
			return 2;
		usleep(200);
	}
	printf("all was well\n");
	return 42;
}
