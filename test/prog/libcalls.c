/*
 * Calls into shared libraries, each counted by the program itself: plain ones, by tail calls, from callbacks, handlers
 * and threads, with values in all kinds of registers; and beside them those that no tracer may stand before.
 *
 * Prints "name count" for each counted function, and what the calls gave.
 */
#include <dlfcn.h>
#include <math.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

#define COUNTED(X)                                                                                                     \
	X(malloc), X(free), X(strlen), X(strtod), X(atan2), X(snprintf), X(qsort), X(strcmp), X(ldiv), X(raise),       \
		X(write), X(pthread_create), X(pthread_join), X(pthread_exit), X(waitpid), X(exit)

#define NAME(function) IS_##function
#define TEXT(function) #function
enum name { COUNTED(NAME), NAMES };
static const char *const names[] = {COUNTED(TEXT)};
static int counts[NAMES];

/* Count a call, and make it. */
#define CALL(function) (__atomic_add_fetch(&counts[IS_##function], 1, __ATOMIC_RELAXED), function)

#define APART __attribute__((noinline, noclone))

static jmp_buf back;
static ucontext_t here, there;
static char stack[65536];
static volatile int handled;

static APART size_t by_tail(const char *text)
{
	counts[IS_strlen]++;
	return strlen(text);
}

static int compare(const void *a, const void *b)
{
	return CALL(strcmp)(*(const char *const *)a, *(const char *const *)b);
}

static void handle(int number)
{
	handled += number;
	CALL(write)(1, "signal\n", 7);
}

static void *thread(void *argument)
{
	char *text = CALL(malloc)(16);

	CALL(free)(text);
	CALL(pthread_exit)(argument);
	return NULL;
}

static APART void values(void)
{
	const char *words[] = {"delta", "alpha", "charlie", "bravo", "echo"};
	char text[200];
	ldiv_t parts = CALL(ldiv)(1000003, 17);

	CALL(snprintf)
	(text, sizeof(text), "%d %s %.3f %.3Lf %ld %ld %c %x %g %g %g %g %g %g %g %g %g", 1, "two",
	 CALL(atan2)(3.0, 4.0), 5.5L, parts.quot, parts.rem, 'c', 0xbeef, .1, .2, .3, .4, .5, .6, .7, .8,
	 CALL(strtod)("2.25", NULL));
	puts(text);
	CALL(qsort)(words, sizeof(words) / sizeof(words[0]), sizeof(words[0]), compare);
	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
		printf("%s %zu\n", words[i], by_tail(words[i]));
	fflush(stdout);
}

static void other(void)
{
	puts("on another stack");
	swapcontext(&there, &here);
}

/* What returns twice, or otherwise than it was called. */
static APART void unusual(void)
{
	volatile int round = 0;
	pid_t (*found)(void) = (pid_t(*)(void))dlsym(RTLD_DEFAULT, "getpid");
	pid_t child;
	int status;

	if (setjmp(back) < 3) {
		round++;
		longjmp(back, round);
	}
	printf("rounds %d, %s\n", round, found && found() == getpid() ? "found" : "not found");
	getcontext(&there);
	there.uc_stack.ss_sp = stack;
	there.uc_stack.ss_size = sizeof(stack);
	there.uc_link = &here;
	makecontext(&there, other, 0);
	swapcontext(&here, &there);
	swapcontext(&here, &there);
	fflush(stdout);
	child = vfork();
	if (!child)
		_exit(7);
	CALL(waitpid)(child, &status, 0);
	printf("child %d\n", WEXITSTATUS(status));
}

static void at_end(void)
{
	for (int i = 0; i < NAMES; i++)
		printf("%s %d\n", names[i], counts[i]);
}

int main(void)
{
	pthread_t threads[4];
	long sum = 0;

	atexit(at_end);
	for (int i = 1; i <= 100; i++)
		CALL(free)(CALL(malloc)(i * 10));
	values();
	signal(SIGUSR1, handle);
	for (int i = 0; i < 3; i++)
		CALL(raise)(SIGUSR1);
	for (long i = 0; i < 4; i++)
		CALL(pthread_create)(&threads[i], NULL, thread, (void *)i);
	for (int i = 0; i < 4; i++) {
		void *result;

		CALL(pthread_join)(threads[i], &result);
		sum += (long)result;
	}
	printf("handled %d, threads %ld\n", handled, sum);
	unusual();
	CALL(exit)(handled & 1);
}
