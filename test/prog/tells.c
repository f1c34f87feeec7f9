/*
 * Functions whose arguments and results are to be told, by what the first argument says:
 *
 *     shown          a call of each kind, after a line that says how it should be told
 *     busy MS        threads with a timer's signals and forked children, each of which checks its own results; SIGTERM
 *                    ends it early
 *     chosen         calls of picked(), each of which calls within(), after a line that says with what
 *     wild           pointers that lead nowhere, also from threads that block all signals, to pages that come and go
 */
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define TOLD	 __attribute__((noipa))
#define PAGE	 4096
#define THREADS	 3
#define CHILDREN 5
#define LOOKS	 2000

struct thing {
	int number;
	const char *name;
	char within[8];
};

static volatile int ticks, stop, asked;

TOLD int numbers(int a, unsigned char b, long c, unsigned d)
{
	__asm__ volatile("");
	return a + b;
}

TOLD long many(long a, long b, long c, long d, long e, long f, long g, int h, const char *i)
{
	__asm__ volatile("");
	return a + g + h;
}

TOLD const char *text(const char *s)
{
	__asm__ volatile("");
	return s;
}

TOLD int thing(const struct thing *thing)
{
	return thing->number;
}

TOLD int pointer(const void *p, long turn)
{
	__asm__ volatile("");
	return (int)turn;
}

TOLD int twice(int n, const char *s)
{
	__asm__ volatile("");
	return 2 * n;
}

TOLD void on_tick(int number)
{
	char here[] = "tick";

	ticks++;
	if (twice(number, here) != 2 * number)
		_exit(3);
}

static void on_end(int number)
{
	asked = 1;
}

static void expect(const char *line)
{
	printf("%s\n", line);
}

static void shown(void)
{
	const struct thing one = {7, "seven", "inside"};
	char local[] = "on the stack", *heap = strdup("on the heap");
	char *long_text = malloc(1000);

	memset(long_text, 'x', 999);
	long_text[999] = 0;
	expect("numbers(a=-1, b=200, c=0xffffffffffffffff, d=4294967295) = 199");
	numbers(-1, 200, -1, ~0u);
	expect("many(arg6=6, arg7=77, h=-8, i=\"ninth\") = 70");
	many(1, 2, 3, 4, 5, 6, 77, -8, "ninth");
	expect("text(s=\"a literal\", first=97) = \"a literal\"");
	text("a literal");
	expect("text(s=\"on the stack\", first=111) = \"on the stack\"");
	text(local);
	expect("text(s=\"on the heap\", first=111) = \"on the heap\"");
	text(heap);
	expect("text(s=\"\", first=0) = \"\"");
	text("");
	expect("text(s=\"quote \\\" back \\\\ tab \\t nl \\n bell \\a esc \\033[1\"..., first=113) = "
	       "\"quote \\\" back \\\\ \"...");
	text("quote \" back \\ tab \t nl \n bell \a esc \033[1m");
	expect("text(s=\"xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\"..., first=120) = \"xxxxxxxxxxxxxxx\"...");
	text(long_text);
	expect("text(s=NULL, first=(fault)) = NULL");
	text(NULL);
	expect("thing(number=7, name=\"seven\", within=\"inside\") = 7");
	thing(&one);
	free(heap);
	free(long_text);
}

TOLD int within(int n)
{
	__asm__ volatile("");
	return n;
}

TOLD int picked(int n, const char *s, const struct thing *thing)
{
	return within(n) + 1;
}

static void chosen(void)
{
	static const char *const texts[] = {"apple", "lib.so", "", "a longer text than the others"};

	for (int i = -50; i < 50; i++) {
		const struct thing thing = {i / 3, texts[(i + 51) % 4], ""};
		const char *text = i % 7 ? texts[(i + 52) % 4] : NULL;
		bool wild = i % 5 == 0;

		printf("%d %s|%d %s\n", i, text ? text : "(fault)", thing.number, wild ? "(fault)" : thing.name);
		if (picked(i, text, wild ? NULL : &thing) != i + 1)
			_exit(8);
	}
}

static void wait_ms(long ms)
{
	struct timespec step = {0, 1000000}, now, end;

	clock_gettime(CLOCK_MONOTONIC, &end);
	end.tv_sec += ms / 1000;
	end.tv_nsec += ms % 1000 * 1000000;
	do {
		nanosleep(&step, NULL);
		clock_gettime(CLOCK_MONOTONIC, &now);
	} while (!asked && (now.tv_sec < end.tv_sec || (now.tv_sec == end.tv_sec && now.tv_nsec < end.tv_nsec)));
}

static void *work(void *arg)
{
	char here[32];
	int n = 0;

	for (; !stop; n++) {
		snprintf(here, sizeof(here), "turn %d", n);
		if (twice(n, n % 2 ? here : arg) != 2 * n)
			_exit(4);
	}
	return (void *)(intptr_t)n;
}

static void busy(long ms)
{
	struct itimerval timer = {{0, 1000}, {0, 1000}};
	pthread_t threads[THREADS];
	int status;

	signal(SIGALRM, on_tick);
	signal(SIGTERM, on_end);
	setitimer(ITIMER_REAL, &timer, NULL);
	for (int i = 0; i < THREADS; i++)
		pthread_create(&threads[i], NULL, work, strdup("on the heap"));
	printf("running %d\n", (int)getpid());
	fflush(stdout);
	for (int i = 0; i < CHILDREN; i++) {
		pid_t child = fork();

		if (!child)
			_exit(twice(i, "child"));
		wait_ms(ms / CHILDREN);
		while (waitpid(child, &status, 0) < 0)
			;
		if (!WIFEXITED(status) || WEXITSTATUS(status) != 2 * i)
			_exit(5);
	}
	stop = 1;
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	timer = (struct itimerval){0};
	setitimer(ITIMER_REAL, &timer, NULL);
	printf("all right\n");
}

static char *changing; /* a page that comes and goes */

static void *change(void *arg)
{
	for (int i = 0; !stop; i++)
		mprotect(changing, PAGE, i % 2 ? PROT_NONE : PROT_READ | PROT_WRITE);
	mprotect(changing, PAGE, PROT_READ | PROT_WRITE);
	return NULL;
}

/* Look at all kinds of addresses; mask: with all signals blocked. */
static void *look(void *mask)
{
	char *edge = mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	char *closed = mmap(NULL, PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	char local = 'x';
	const void *places[] = {NULL,
				(void *)1,
				(void *)~0ul,
				(void *)(1ul << 63),
				(void *)0xffff800000000000ul,
				(void *)(1ul << 47),
				(void *)((1ul << 47) - 1),
				edge + PAGE - 3,
				edge + PAGE,
				closed,
				closed + PAGE - 1,
				changing,
				changing + PAGE - 2,
				&local,
				&local - 64,
				(void *)0xffffffffff600000ul};
	sigset_t all;

	sigfillset(&all);
	if (mask)
		pthread_sigmask(SIG_BLOCK, &all, NULL);
	memset(edge, 'e', PAGE);
	munmap(edge + PAGE, PAGE);
	for (long turn = 0; turn < LOOKS; turn++)
		if (pointer(places[turn % (long)(sizeof(places) / sizeof(places[0]))], turn) != (int)turn)
			_exit(6);
	return NULL;
}

static void on_fault(int number)
{
	_exit(7);
}

static void wild(void)
{
	pthread_t changer, threads[4];

	signal(SIGSEGV, on_fault);
	signal(SIGBUS, on_fault);
	changing = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	pthread_create(&changer, NULL, change, NULL);
	for (long i = 0; i < 4; i++)
		pthread_create(&threads[i], NULL, look, (void *)(i % 2));
	for (int i = 0; i < 4; i++)
		pthread_join(threads[i], NULL);
	stop = 1;
	pthread_join(changer, NULL);
	printf("all right\n");
}

int main(int argc, char **argv)
{
	const char *what = argc > 1 ? argv[1] : "shown";

	if (!strcmp(what, "busy"))
		busy(argc > 2 ? atol(argv[2]) : 1000);
	else if (!strcmp(what, "chosen"))
		chosen();
	else if (!strcmp(what, "wild"))
		wild();
	else
		shown();
	return 0;
}
