/*
 * Attacks of a program on its own stacks, threads, text and rights, over and over until it is told to stop (SIGTERM),
 * for tests that attach to it and leave it at any moment (test/stress/attaches.py).  Each result is checked; a wrong
 * one ends the program at once.
 *
 *     attacked LIBRARY KIND...
 *
 * Each KIND (the table below) gets a thread; a KIND after "main" gets the initial thread.  Prints "ready PID" when all
 * run, and at the end "all was well".  Built once more with ATTACKED_LIBRARY, this file is the library.
 */
#include <dlfcn.h>
#include <errno.h>
#include <initializer_list>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <spawn.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <ucontext.h>

#include "truth.h"

typedef unsigned long word;

struct Fault {
	word depth;
};

UNTRACED static void die(const char *what, long value)
{
	char text[200];

	if (write(1, text, snprintf(text, sizeof(text), "wrong: %s (%ld, %s)\n", what, value, strerror(errno))) < 0)
		_exit(2);
	_exit(1);
}

#define CHECK(condition, what, value)                                                                                  \
	do {                                                                                                           \
		if (!(condition))                                                                                      \
			die(what, (long)(value));                                                                      \
	} while (0)

/* In the library and in the program: throws through its own frames, below one that is the caller's. */
extern "C" TRACED word thrown_deep(word depth)
{
	struct Guard {
		word *count;
		TRACED ~Guard()
		{
			++*count;
		}
	};
	static thread_local word count;
	Guard guard = {&count};

	if (!depth)
		throw Fault{count};
	return thrown_deep(depth - 1) + 1;
}

extern "C" TRACED word library_work(word depth)
{
	return depth ? library_work(depth - 1) + depth : 0;
}

#ifndef ATTACKED_LIBRARY

static int stop_now;
static const char *library_path;
static word rounds;

UNTRACED static bool stopping()
{
	return __atomic_load_n(&stop_now, __ATOMIC_RELAXED);
}

UNTRACED static void pause_us(long us)
{
	struct timespec left = {0, us * 1000};

	while (nanosleep(&left, &left) && errno == EINTR)
		;
}

UNTRACED static word random_word(word *state)
{
	*state = *state * 6364136223846793005ul + 1442695040888963407ul;
	return *state >> 33;
}

TRACED static word leaf(word x)
{
	return x * 2654435761u + 1;
}

TRACED static word nested(word depth)
{
	return depth ? nested(depth - 1) + leaf(depth) - depth * 2654435761u : 0;
}

/* ---- exceptions ---- */

TRACED static word rethrow(word depth)
{
	try {
		return thrown_deep(depth);
	} catch (Fault &) {
		leaf(depth);
		throw;
	}
}

TRACED static bool caught(word (*thrower)(word), word depth)
{
	try {
		thrower(depth);
	} catch (Fault &) {
		return true;
	}
	return false;
}

TRACED static void throws(word *random)
{
	word depth = random_word(random) % 30;

	CHECK(caught(thrown_deep, depth), "an exception", depth);
	CHECK(caught(rethrow, depth), "an exception that is thrown again", depth);
	CHECK(nested(depth) == depth, "a recursion", depth);
}

TRACED static void throws_library(word *random)
{
	static word (*thrower)(word);
	static void *library;

	if (!library) {
		library = dlopen(library_path, RTLD_NOW | RTLD_LOCAL);
		CHECK(library, dlerror(), 0);
		thrower = (word(*)(word))dlsym(library, "thrown_deep");
	}
	CHECK(caught(thrower, random_word(random) % 30), "an exception of a library", 0);
}

/* ---- jumps ---- */

TRACED static void leave(sigjmp_buf *to, word depth, bool back)
{
	if (!depth && back)
		siglongjmp(*to, 7);
	if (!depth)
		longjmp(*(jmp_buf *)to, 7);
	leave(to, depth - 1, back);
	leaf(depth);
}

TRACED static void jumps(word *random)
{
	sigjmp_buf here;
	volatile word depth = random_word(random) % 50;
	int back = sigsetjmp(here, depth & 1);

	if (!back)
		leave(&here, depth, depth & 1);
	CHECK(back == 7, "a jump", back);
	CHECK(nested(depth) == depth, "a recursion after a jump", depth);
}

/* ---- coroutines ---- */

#define COROUTINES 8
#define STACK	   (64 << 10)

struct Coroutines {
	ucontext_t scheduler, contexts[COROUTINES];
	void *stacks[COROUTINES];
	word got[COROUTINES];
	bool over[COROUTINES];
};

static thread_local Coroutines *coroutines;

TRACED static void yield(unsigned index)
{
	CHECK(!swapcontext(&coroutines->contexts[index], &coroutines->scheduler), "swapcontext", index);
}

TRACED static word descend(unsigned index, word depth)
{
	if (!depth)
		return 0;
	if (depth % 3 == 0)
		yield(index);
	return descend(index, depth - 1) + depth;
}

TRACED static void coroutine(unsigned index)
{
	for (word depth = 5; depth < 25; depth += 5) {
		try {
			coroutines->got[index] += descend(index, depth);
			thrown_deep(depth % 7);
		} catch (Fault &) {
			coroutines->got[index]++;
		}
		yield(index);
	}
	coroutines->over[index] = true;
}

TRACED static void start_coroutine(Coroutines *all, unsigned index)
{
	all->got[index] = 0;
	all->over[index] = false;
	CHECK(!getcontext(&all->contexts[index]), "getcontext", 0);
	all->contexts[index].uc_stack.ss_sp = all->stacks[index];
	all->contexts[index].uc_stack.ss_size = STACK;
	all->contexts[index].uc_link = &all->scheduler;
	makecontext(&all->contexts[index], (void (*)())coroutine, 1, index);
}

TRACED static void resumes(word *random)
{
	Coroutines *all = coroutines;

	if (!all) {
		all = coroutines = (Coroutines *)calloc(1, sizeof(*all));
		for (unsigned i = 0; i < COROUTINES; i++) {
			all->stacks[i] = malloc(STACK);
			start_coroutine(all, i);
		}
	}
	unsigned index = random_word(random) % COROUTINES;
	CHECK(!swapcontext(&all->scheduler, &all->contexts[index]), "swapcontext", index);
	if (all->over[index]) {
		CHECK(all->got[index] == 15 + 55 + 120 + 210 + 4, "a coroutine's result", all->got[index]);
		start_coroutine(all, index);
	} else if (random_word(random) % 100 == 0) {
		start_coroutine(all, index); /* given up where it was */
	}
}

/* ---- signals ---- */

#define ALTERNATE (64 << 10)

static thread_local sigjmp_buf signal_back;
static thread_local volatile bool signal_may_jump;
static thread_local volatile word signals_seen;

TRACED static void handle(int, siginfo_t *, void *)
{
	word before = signals_seen;

	CHECK(nested(before % 9) == before % 9, "a recursion in a handler", before);
	signals_seen = before + 1;
	if (signal_may_jump && before % 5 == 0) {
		signal_may_jump = false;
		siglongjmp(signal_back, 9);
	}
}

UNTRACED static void storm()
{
	struct sigaction act = {};
	struct sigevent event = {};
	struct itimerspec often = {{0, 100000}, {0, 100000}};
	stack_t stack = {};
	timer_t timer;

	stack.ss_sp = mmap(NULL, ALTERNATE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	stack.ss_size = ALTERNATE;
	CHECK(!sigaltstack(&stack, NULL), "sigaltstack", 0);
	act.sa_sigaction = handle;
	act.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_RESTART;
	CHECK(!sigaction(SIGUSR1, &act, NULL), "sigaction", 0);
	act.sa_flags = SA_SIGINFO | SA_RESTART;
	CHECK(!sigaction(SIGUSR2, &act, NULL), "sigaction", 0);
	for (int number : {SIGUSR1, SIGUSR2}) {
		event.sigev_notify = SIGEV_THREAD_ID;
		event.sigev_signo = number;
		event._sigev_un._tid = gettid();
		CHECK(!timer_create(CLOCK_MONOTONIC, &event, &timer), "timer_create", 0);
		CHECK(!timer_settime(timer, 0, &often, NULL), "timer_settime", 0);
	}
}

TRACED static void interrupted(word *random)
{
	static thread_local bool begun;
	volatile word depth = random_word(random) % 100;

	if (!begun)
		storm();
	begun = true;
	if (!sigsetjmp(signal_back, 1)) {
		signal_may_jump = true;
		CHECK(nested(depth) == depth, "a recursion under signals", depth);
		for (int i = 0; i < 100; i++)
			leaf(i);
	}
	signal_may_jump = false;
	CHECK(nested(depth) == depth, "a recursion under signals", depth);
	CHECK(caught(thrown_deep, depth % 10), "an exception under signals", depth);
}

/* ---- threads ---- */

TRACED static word ends_deep(word depth)
{
	if (!depth)
		pthread_exit((void *)17);
	return ends_deep(depth - 1) + 1;
}

TRACED static word waits_deep(word depth)
{
	char byte;

	if (!depth) {
		for (;;)
			pause(); /* a cancellation point */
	}
	word got = waits_deep(depth - 1) + 1;
	(void)byte;
	return got;
}

TRACED static void *thread_main(void *how)
{
	word kind = (word)how;

	if (kind % 3 == 1)
		ends_deep(kind % 20);
	if (kind % 3 == 2)
		waits_deep(kind % 20);
	return (void *)nested(kind % 20);
}

TRACED static void makes_threads(word *random)
{
	pthread_t made[4];
	word kinds[4];
	pthread_attr_t attr;
	void *got;

	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, 128 << 10);
	for (int i = 0; i < 4; i++) {
		kinds[i] = random_word(random);
		CHECK(!pthread_create(&made[i], &attr, thread_main, (void *)kinds[i]), "pthread_create", i);
	}
	for (int i = 0; i < 4; i++) {
		if (kinds[i] % 3 == 2)
			pthread_cancel(made[i]);
		CHECK(!pthread_join(made[i], &got), "pthread_join", i);
		CHECK(got == (kinds[i] % 3 == 0	  ? (void *)(kinds[i] % 20)
			      : kinds[i] % 3 == 1 ? (void *)17
						  : PTHREAD_CANCELED),
		      "a thread's result", got);
	}
	pthread_attr_destroy(&attr);
}

/* ---- libraries ---- */

TRACED static void loads(word *random)
{
	void *library = dlopen(library_path, RTLD_NOW | RTLD_LOCAL);
	word depth = random_word(random) % 40;

	CHECK(library, "dlopen", 0);
	word (*work)(word) = (word(*)(word))dlsym(library, "library_work");
	word (*thrower)(word) = (word(*)(word))dlsym(library, "thrown_deep");
	CHECK(work(depth) == depth * (depth + 1) / 2, "a library's result", depth);
	CHECK(caught(thrower, depth), "a library's exception", depth);
	CHECK(!dlclose(library), "dlclose", 0);
}

/* ---- processes ---- */

TRACED static word child_work(word depth)
{
	return nested(depth) == depth && caught(thrown_deep, depth) ? 30 + depth : 1;
}

UNTRACED static int ended(pid_t pid)
{
	int status;

	while (waitpid(pid, &status, 0) != pid)
		CHECK(errno == EINTR, "waitpid", pid);
	CHECK(WIFEXITED(status), "a child's end", status);
	return WEXITSTATUS(status);
}

TRACED static int spawned(const char *status)
{
	char *arguments[] = {(char *)"sh", (char *)"-c", (char *)status, NULL};
	pid_t pid;

	CHECK(!posix_spawn(&pid, "/bin/sh", NULL, NULL, arguments, environ), "posix_spawn", 0);
	return ended(pid);
}

TRACED static void forks(word *random)
{
	word depth = random_word(random) % 20;
	pid_t pid = fork();

	if (!pid)
		_exit(child_work(depth));
	CHECK(pid > 0, "fork", 0);
	CHECK(ended(pid) == (int)(30 + depth), "a forked child", depth);
	pid = vfork();
	if (!pid)
		_exit(nested(depth));
	CHECK(pid > 0, "vfork", 0);
	CHECK(ended(pid) == (int)depth, "a vforked child", depth);
	if (depth == 7)
		CHECK(spawned("exit 9") == 9, "a spawned child", 0);
}

/* ---- frames that are open for long ---- */

TRACED static word deep(word depth, long us)
{
	volatile word here = depth;

	if (!depth)
		pause_us(us);
	else
		here = deep(depth - 1, us) + depth;
	return here;
}

TRACED static void recurses(word *random)
{
	word depth = 10000;

	CHECK(deep(depth, random_word(random) % 20000) == depth * (depth + 1) / 2, "a deep recursion", depth);
}

TRACED static void waits(word *random)
{
	struct timespec began, now;
	long us = 100000 + random_word(random) % 400000;
	word depth = random_word(random) % 40;

	clock_gettime(CLOCK_MONOTONIC, &began);
	CHECK(deep(depth, us) == depth * (depth + 1) / 2, "a long call", depth);
	clock_gettime(CLOCK_MONOTONIC, &now);
	CHECK((now.tv_sec - began.tv_sec) * 1000000 + (now.tv_nsec - began.tv_nsec) / 1000 >= us, "a wait", us);
}

/* A deep recursion that goes up and down all the time, partly left by a jump or an exception. */
TRACED static word wanders(word depth, word *random, word budget)
{
	word sum = 1;

	for (word i = 0; budget > 1 && i < 3; i++)
		sum += wanders(depth + 1, random, budget / 3);
	if (random_word(random) % 50 == 0)
		CHECK(caught(rethrow, depth % 9), "an exception", depth);
	return sum;
}

TRACED static word wandered(word budget)
{
	return budget > 1 ? 1 + 3 * wandered(budget / 3) : 1;
}

TRACED static void trees(word *random)
{
	CHECK(wanders(0, random, 2187) == wandered(2187), "a tree of calls", 0);
}

/* ---- tail calls ---- */

TRACED static word tail_even(word left, word sum);

TRACED static word tail_odd(word left, word sum)
{
	if (!left)
		return sum + 1;
	return tail_even(left - 1, sum + left);
}

TRACED static word tail_even(word left, word sum)
{
	if (!left)
		return sum;
	return tail_odd(left - 1, sum + left);
}

TRACED static word tail_waits(word left)
{
	pause_us(left % 300);
	return tail_even(left, 0);
}

TRACED static void tails(word *random)
{
	word left = random_word(random) % 60;

	CHECK(tail_even(left, 0) == left * (left + 1) / 2 + (left & 1), "a tail call", left);
	if (left == 1)
		CHECK(tail_waits(40) == 820, "a tail call after a wait", left);
}

/* ---- registers: what a function's caller may rely on ---- */

TRACED static double mixed(int a, double b, long c, float d, word e, long f, long g, long h, double i, long double j)
{
	return a + b + c + d + e + f + g + h + i + (double)j;
}

struct Big {
	word values[9];
};

TRACED static Big made(word x)
{
	Big big;

	for (word i = 0; i < 9; i++)
		big.values[i] = x + i;
	return big;
}

TRACED static void passes(word *random)
{
	word x = random_word(random) % 1000;
	Big big = made(x);

	CHECK(mixed(1, 2.5, 3, 4.5f, x, 6, 7, 8, 9.25, 10.75L) == 52.0 + x, "mixed arguments", x);
	for (word i = 0; i < 9; i++)
		CHECK(big.values[i] == x + i, "a large result", i);
}

/* ---- name spaces and filters: in this process, while it is traced ---- */

TRACED static void unshares(word *random)
{
	static int own = -1;

	if (own < 0)
		own = open("/proc/self/ns/uts", O_RDONLY | O_CLOEXEC);
	if (!unshare(CLONE_NEWUTS))
		CHECK(!setns(own, CLONE_NEWUTS), "setns", own);
	CHECK(!unshare(CLONE_FS | CLONE_SYSVSEM), "unshare", 0);
	CHECK(nested(random_word(random) % 20) < 20, "a recursion", 0);
	pause_us(300);
}

/* After a while this thread may not do what a probe's slow path would do: that is the program's end. */
TRACED static void confines(word *random)
{
	static const int forbidden[] = {SYS_mmap, SYS_openat, SYS_socket, SYS_connect, SYS_tgkill, SYS_membarrier};
	struct sock_filter code[2 * sizeof(forbidden) / sizeof(forbidden[0]) + 2] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 0)};
	static bool confined;
	unsigned size = 1;

	for (int number : forbidden) {
		code[size++] = BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)number, 0, 1);
		code[size++] = BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS);
	}
	code[size++] = BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
	struct sock_fprog program = {(unsigned short)size, code};

	if (!confined) {
		for (long left = random_word(random) % 200; left-- && !stopping(); pause_us(1000))
			nested(left % 20);
		CHECK(!prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "no_new_privs", 0);
		CHECK(!prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0), "seccomp", 0);
		confined = true;
	}
	CHECK(nested(random_word(random) % 20) < 20, "a recursion", 0);
	CHECK(deep(2000, 100) == 2000 * 2001 / 2, "a deep recursion", 0);
}

/* ---- a crowd ---- */

#define CROWD 500

TRACED static void *stands(void *argument)
{
	word random = (word)argument;

	while (!stopping()) {
		word depth = random_word(&random) % 30;
		CHECK(deep(depth, 50000 + random_word(&random) % 100000) == depth * (depth + 1) / 2, "a thread's call",
		      depth);
	}
	return argument;
}

TRACED static void crowds(word *random)
{
	static pthread_t crowd[CROWD];
	pthread_attr_t attr;

	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, 64 << 10);
	for (word i = 0; !crowd[0] || (i && i < CROWD); i++)
		CHECK(!pthread_create(&crowd[i], &attr, stands, (void *)(i + 1)), "pthread_create", i);
	pause_us(1000);
	while (!stopping())
		pause_us(1000);
	for (word i = 0; i < CROWD; i++)
		CHECK(!pthread_join(crowd[i], NULL), "pthread_join", i);
	CHECK(nested(random_word(random) % 20) < 20, "a recursion", 0);
}

static const struct Kind {
	const char *name;
	void (*work)(word *random);
	long pause; /* us after each */
} kinds[] = {
	{"throws", throws, 0},	     {"library", throws_library, 0},
	{"jumps", jumps, 0},	     {"coroutines", resumes, 0},
	{"signals", interrupted, 0}, {"threads", makes_threads, 0},
	{"loads", loads, 100},	     {"forks", forks, 100},
	{"recurses", recurses, 0},   {"waits", waits, 0},
	{"trees", trees, 0},	     {"tails", tails, 0},
	{"passes", passes, 0},	     {"unshares", unshares, 0},
	{"crowd", crowds, 0},	     {"confines", confines, 0},
};

UNTRACED static const Kind *kind_named(const char *name)
{
	for (const Kind &kind : kinds) {
		if (!strcmp(kind.name, name))
			return &kind;
	}
	die("there is no such kind", 0);
	return NULL;
}

TRACED static void *keeps_on(void *argument)
{
	const Kind *kind = (const Kind *)argument;
	word random = ((word)gettid() ^ (word)getpid() << 16) * 2654435761u;

	/* Once at least: where CPUs are busy, a program may be told to stop before its threads have run. */
	do {
		kind->work(&random);
		__atomic_add_fetch(&rounds, 1, __ATOMIC_RELAXED);
		if (kind->pause)
			pause_us(kind->pause);
	} while (!stopping());
	return NULL;
}

UNTRACED static void block(int how, int number)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, number);
	pthread_sigmask(how, &set, NULL);
}

int main(int count, char **arguments)
{
	pthread_t made[64];
	int began = 0, number;
	sigset_t set;

	CHECK(count > 2, "attacked LIBRARY KIND...", count);
	library_path = arguments[1];
	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	block(SIG_BLOCK, SIGTERM);
	for (int i = 2; i < count; i++)
		CHECK(!pthread_create(&made[began++], NULL, keeps_on, (void *)kind_named(arguments[i])),
		      "pthread_create", i);
	printf("ready %d\n", getpid());
	fflush(stdout);
	while (sigwait(&set, &number))
		;
	__atomic_store_n(&stop_now, 1, __ATOMIC_RELAXED);
	for (int i = 0; i < began; i++)
		CHECK(!pthread_join(made[i], NULL), "pthread_join", i);
	printf("all was well\n");
	fflush(stdout);
	return rounds ? 42 : 3;
}

#endif
