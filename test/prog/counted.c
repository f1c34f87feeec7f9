/*
 * Calls of a function by threads, by a signal's handler in the middle of them, and by forked processes; what they were
 * made with is said at the end: lines of a value's name, the value, and how many calls had it; by kind also the sum,
 * the least and the largest of another number ("sum", "least", "largest", the kind, the number).
 *
 *     counted CALLS [different]     different: each call has a number of its own
 *     counted 0                     calls until standard input ends
 */
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

enum { THREADS = 4, CHILDREN = 2, NUMBERS = 40, NAMES = 4, LOW = -20, HANDLED = 19 };
enum kind { ROUND, FLAT = 5, ODD = -3 };
struct box {
	short weight;
	const char *label;
};

static const char *const names[NAMES] = {"one", "", "three", "a longer one, with a \"quote\""};
static const enum kind kinds[] = {ROUND, FLAT, ODD};
static struct tally {
	unsigned long numbers[NUMBERS], kinds[3], names[NAMES], weights[3];
	long sums[3], least[3], largest[3];
} * tally;
static bool different;
static volatile long kept;

__attribute__((noinline)) void tell(int n, enum kind kind, const char *name, const struct box *box);
void tell(int n, enum kind kind, const char *name, const struct box *box)
{
	kept += n + (int)kind + name[0] + box->weight + box->label[0];
}

/* The number comes back, with another sign. */
__attribute__((noinline)) long weigh(enum kind kind, long number);
long weigh(enum kind kind, long number)
{
	kept += kind;
	return -number;
}

static void note(unsigned which, long number)
{
	long now;

	__atomic_fetch_add(&tally->sums[which], number, __ATOMIC_RELAXED);
	for (now = tally->least[which]; number < now;)
		if (__atomic_compare_exchange_n(&tally->least[which], &now, number, false, __ATOMIC_RELAXED,
						__ATOMIC_RELAXED))
			break;
	for (now = tally->largest[which]; number > now;)
		if (__atomic_compare_exchange_n(&tally->largest[which], &now, number, false, __ATOMIC_RELAXED,
						__ATOMIC_RELAXED))
			break;
}

static void call(unsigned number)
{
	long amount = (long)(number * 2654435761u) - (1L << 31);

	unsigned n = number % NUMBERS, which = number % 3, name = number / 7 % NAMES;
	const struct box box = {(short)(which - 1), names[name]};

	__atomic_fetch_add(&tally->numbers[n], 1, __ATOMIC_RELAXED);
	__atomic_fetch_add(&tally->kinds[which], 1, __ATOMIC_RELAXED);
	__atomic_fetch_add(&tally->names[name], 1, __ATOMIC_RELAXED);
	__atomic_fetch_add(&tally->weights[which], 1, __ATOMIC_RELAXED);
	note(which, amount);
	if (weigh(kinds[which], amount) != -amount)
		exit(1);
	tell(different ? (int)number : (int)n + LOW, kinds[which], names[name], &box);
}

static void on_alarm(int signal)
{
	call(HANDLED + (unsigned)signal * 0);
}

static void *run(void *arg)
{
	for (unsigned long i = 0; i < (unsigned long)arg; i++)
		call((unsigned)i);
	return NULL;
}

static void run_threads(unsigned long calls)
{
	pthread_t threads[THREADS];

	for (int i = 0; i < THREADS; i++)
		if (pthread_create(&threads[i], NULL, run, (void *)calls))
			exit(1);
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
}

static void say(void)
{
	for (int i = 0; i < NUMBERS; i++)
		printf("n\t%d\t%lu\n", i + LOW, tally->numbers[i]);
	for (int i = 0; i < 3; i++)
		printf("kind\t%d\t%lu\nweight\t%d\t%lu\n", kinds[i], tally->kinds[i], i - 1, tally->weights[i]);
	for (int i = 0; i < 3; i++)
		printf("sum\t%d\t%ld\nleast\t%d\t%ld\nlargest\t%d\t%ld\n", kinds[i], tally->sums[i], kinds[i],
		       tally->least[i], kinds[i], tally->largest[i]);
	for (int i = 0; i < NAMES; i++)
		printf("name\t%s\t%lu\n", names[i], tally->names[i]);
}

static void run_until_told(void)
{
	char byte;

	printf("running %d\n", (int)getpid());
	fflush(stdout);
	if (fork() == 0) {
		for (unsigned i = 0;; i++) {
			call(i);
			usleep(100);
		}
	}
	while (read(STDIN_FILENO, &byte, 1) > 0)
		;
	kill(0, SIGTERM);
}

int main(int argc, char **argv)
{
	const struct itimerval often = {{0, 200}, {0, 200}}, never = {{0, 0}, {0, 0}};
	unsigned long calls = argc > 1 ? strtoul(argv[1], NULL, 10) : 1000;

	different = argc > 2;
	tally = mmap(NULL, sizeof(*tally), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (tally == MAP_FAILED)
		return 1;
	for (int i = 0; i < 3; i++) {
		tally->least[i] = LONG_MAX;
		tally->largest[i] = LONG_MIN;
	}
	if (!calls)
		run_until_told();
	if (different) {
		run((void *)calls);
		return 0;
	}
	signal(SIGALRM, on_alarm);
	for (int i = 0; i < CHILDREN; i++) {
		if (fork() == 0) {
			setitimer(ITIMER_REAL, &often, NULL);
			run_threads(calls);
			setitimer(ITIMER_REAL, &never, NULL);
			_exit(0);
		}
	}
	setitimer(ITIMER_REAL, &often, NULL);
	run_threads(calls);
	while (wait(NULL) > 0)
		;
	setitimer(ITIMER_REAL, &never, NULL);
	say();
	return 0;
}
