/*
 * Work of a fixed amount that proves itself, for tests that hurt the tool beside it: `endures KIND AMOUNT` computes the
 * same sum in traced and untraced functions, in threads, in a tree of processes, through a library that comes and goes,
 * or under a storm of signals, and prints the sum. A wrong one, or a signal that got lost, ends it with status 9.
 *
 *     endures threads|tree|signals|short AMOUNT
 *     endures loads|everything AMOUNT LIBRARY
 */
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <sys/time.h>
#include <sys/wait.h>

#include "truth.h"

#define THREADS 4
#define TREE	3

UNTRACED static unsigned long reference(unsigned long x, unsigned depth)
{
	for (unsigned i = 0; i <= depth; i++)
		x = x * 6364136223846793005ul + 1442695040888963407ul;
	return x;
}

TRACED static unsigned long leaf(unsigned long x)
{
	return x * 6364136223846793005ul + 1442695040888963407ul;
}

TRACED static unsigned long nested(unsigned long x, unsigned depth)
{
	return depth ? leaf(nested(x, depth - 1)) : leaf(x);
}

TRACED static unsigned long work(unsigned long amount)
{
	unsigned long x = 1;

	for (unsigned long i = 0; i < amount; i++) {
		unsigned depth = i % 7;
		unsigned long wanted = reference(x, depth);

		x = nested(x, depth);
		if (x != wanted)
			_exit(9);
	}
	return x;
}

TRACED static void *thread_main(void *amount)
{
	return (void *)work((unsigned long)amount);
}

TRACED static unsigned long threads(unsigned long amount)
{
	pthread_t made[THREADS];
	unsigned long sum = 0;
	void *part;

	for (int i = 0; i < THREADS; i++)
		pthread_create(&made[i], NULL, thread_main, (void *)(amount + i));
	for (int i = 0; i < THREADS; i++) {
		pthread_join(made[i], &part);
		sum += (unsigned long)part;
	}
	return sum;
}

/* Each child works and becomes another `endures`; its status is the low bits of a sum. */
TRACED static unsigned long tree(const char *self, const char *amount)
{
	unsigned long sum = 0;
	int status;

	for (int i = 0; i < TREE; i++) {
		if (fork() == 0) {
			work(strtoul(amount, NULL, 0));
			execl(self, self, "status", amount, NULL);
			_exit(9);
		}
	}
	while (wait(&status) > 0 || errno == EINTR)
		sum = sum * 256 + (WIFEXITED(status) ? WEXITSTATUS(status) : 1000);
	return sum;
}

TRACED static unsigned long loads(unsigned long amount, const char *path)
{
	unsigned long sum = 0;

	for (unsigned long i = 0; i < amount; i++) {
		void *library = dlopen(path, RTLD_NOW);
		int (*answer)(int) = library ? (int (*)(int))dlsym(library, "library_answer") : NULL;

		sum += answer ? answer(i) : 1000000;
		work(100);
		dlclose(library);
	}
	return sum;
}

static volatile sig_atomic_t handled;
static volatile unsigned long handler_sum;

TRACED static void on_signal(int number)
{
	handler_sum = work(3) + (unsigned long)number;
	handled++;
}

TRACED static unsigned long signals(unsigned long amount)
{
	struct itimerval fast = {{0, 500}, {0, 500}}, off = {{0, 0}, {0, 0}};
	unsigned long sum = 0;

	signal(SIGALRM, on_signal);
	signal(SIGUSR1, on_signal);
	setitimer(ITIMER_REAL, &fast, NULL);
	for (unsigned long i = 0; i < amount; i++) {
		int before = handled;

		sum = work(20);
		raise(SIGUSR1);
		if (handled == before)
			_exit(9);
	}
	setitimer(ITIMER_REAL, &off, NULL);
	return sum;
}

int main(int argc, char **argv)
{
	unsigned long amount = argc > 2 ? strtoul(argv[2], NULL, 0) : 1, sum;

	if (argc < 3)
		return 2;
	if (!strcmp(argv[1], "threads"))
		sum = threads(amount);
	else if (!strcmp(argv[1], "tree"))
		sum = tree(argv[0], argv[2]);
	else if (!strcmp(argv[1], "loads") && argc > 3)
		sum = loads(amount, argv[3]);
	else if (!strcmp(argv[1], "signals"))
		sum = signals(amount);
	else if (!strcmp(argv[1], "everything") && argc > 3)
		sum = threads(amount) + tree(argv[0], argv[2]) + loads(2, argv[3]);
	else
		sum = work(amount);
	if (!strcmp(argv[1], "status"))
		return sum % 64 + 10;
	printf("%s %lu: %lu\n", argv[1], amount, sum);
	return sum % 64 + 10;
}
