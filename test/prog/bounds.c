/*
 * When calls really were, beside what a trace says: short functions, called often, that for once take long; in threads,
 * in signal handlers, and in a forked child.
 *
 * bounds LOG MILLISECONDS [THREADS [SIGNALS [waits]]]: writes struct logged for each call to the file LOG, and those of
 * the child to LOG.child; SIGNALS: microseconds between two signals to the process, 0 = none; waits: threads go on
 * behind the first quarter of their calls when the process has got SIGUSR1.  Prints how many calls were made, and ends
 * with 0.
 *
 * bounds LOG steps|tails|leaves MICROSECONDS [waits]: one thread, which sleeps so long in front of each call, with
 * tails each call of passes(), of which only what follows its tail call counts, with leaves each call of leaf().  A
 * handler's calls come between two instructions of a call that has come long after the one before it: between the first
 * two, then the next two, and so on to the last.  waits: before that all is called often, until the process gets
 * SIGUSR1, and the handler's calls come at each third place, of which the process's number chooses the first.
 *
 * test/e2e/adaptive.py reads the logs.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

#include "steps.h"

#define THREADS_MAX 16
#define LOG_MAX	    100000u /* calls of a thread */
#define CHILD	    10000u  /* calls of the child */
#define EARLY	    (LOG_MAX / 4)
#define LONG_EVERY  1009u /* one call in so many takes long */
#define LONG_NS	    3000000
#define LEAF_ROUNDS 400
#define STRIDE	    3u

/* A call: the clock right before it and at the beginning of its body, at the body's end and right after it. */
struct logged {
	uint32_t tid, function;
	uint64_t before, begun, ending, after;
};

struct log {
	struct logged *list;
	uint32_t count;
};

enum { TINY, OUTER, MIDDLE, HANDLED, PASSES, LEAF, INNER, FUNCTIONS };

static __thread struct log *own;
static __thread uint32_t own_tid;
static __thread struct logged *passed_on; /* the call of tiny() that passes() has made last */
static struct log logs[THREADS_MAX + 1];
static volatile bool over;
static unsigned signals_us;
static volatile sig_atomic_t waits;
static volatile bool steps_in_tails; /* the steps begin with the tail call */

static inline uint64_t now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000 + (uint64_t)ts.tv_nsec;
}

/* Room for one more call; a handler's comes behind it. */
static inline struct logged *reserve(uint32_t function)
{
	uint32_t at = own ? __atomic_fetch_add(&own->count, 1, __ATOMIC_RELAXED) : LOG_MAX;
	struct logged *logged;

	if (at >= LOG_MAX)
		return NULL;
	logged = &own->list[at];
	logged->tid = own_tid;
	logged->function = function;
	return logged;
}

static void take_long(void)
{
	const struct timespec nap = {0, LONG_NS};

	nanosleep(&nap, NULL);
}

TRACED void tiny(struct logged *logged, bool is_long)
{
	logged->begun = now();
	if (is_long)
		take_long();
	logged->ending = now();
}

TRACED void handled(struct logged *logged)
{
	logged->begun = now();
	logged->ending = now();
}

#define CALL(function, name, ...)                                                                                      \
	do {                                                                                                           \
		struct logged *logged = reserve(function);                                                             \
		if (!logged)                                                                                           \
			break;                                                                                         \
		logged->before = now();                                                                                \
		name(logged, ##__VA_ARGS__);                                                                           \
		logged->after = now();                                                                                 \
	} while (0)

/* Calls nothing, and leaves the stack alone: its caller logs the clock for it. */
TRACED unsigned long leaf(unsigned long x, unsigned rounds)
{
	for (; rounds; rounds--)
		__asm__ volatile("" : "+r"(x));
	return x * 3 + 1;
}

/* Handlers call this leaf and not leaf(): the log has their calls in another order than the trace. */
TRACED unsigned long inner(unsigned long x)
{
	return x * 5 + 1;
}

static volatile unsigned long leaf_result;
static volatile unsigned leaf_rounds; /* many steps take so long that the tick is another one at the leaf's end */

/* All that is known of a leaf's call is that it began and ended between the clock before it and the one behind it. */
static void call_leaf(uint32_t function)
{
	struct logged *logged = reserve(function);

	if (!logged)
		return;
	logged->before = now();
	if (function == LEAF && leaf_rounds)
		STEPS_BEGIN();
	leaf_result = function == LEAF ? leaf(logged->before, leaf_rounds) : inner(logged->before);
	logged->after = logged->begun = now();
	logged->ending = logged->before;
}

/* Ends with a tail call. */
TRACED void passes(struct logged *logged, bool is_long)
{
	struct logged *next = reserve(TINY);

	logged->begun = now();
	passed_on = next;
	if (!next)
		next = logged;
	next->before = now();
	if (steps_in_tails)
		STEPS_BEGIN();
	tiny(next, is_long);
}

static void call_passes(bool is_long)
{
	struct logged *logged = reserve(PASSES), *next;

	if (!logged)
		return;
	logged->before = now();
	passes(logged, is_long);
	logged->after = now();
	next = passed_on ? passed_on : logged;
	next->after = logged->after;
	logged->ending = next->ending;
}

TRACED void middle(struct logged *logged, uint32_t turn)
{
	logged->begun = now();
	CALL(TINY, tiny, turn % LONG_EVERY == LONG_EVERY - 1);
	logged->ending = now();
}

TRACED void outer(struct logged *logged, uint32_t turn)
{
	logged->begun = now();
	for (uint32_t i = 0; i < turn % 5; i++)
		CALL(TINY, tiny, false);
	if (turn % 3 == 0)
		call_passes(turn % (LONG_EVERY * 3) == 0);
	call_leaf(LEAF);
	CALL(MIDDLE, middle, turn);
	logged->ending = now();
}

static void on_signal(int number)
{
	(void)number;
	for (int i = 0; i < 3; i++)
		CALL(HANDLED, handled);
	call_leaf(INNER);
	if (own && own->count % 64 == 0)
		take_long();
}

static void rest_a_while(void)
{
	const struct timespec while_ns = {0, 1000000};

	nanosleep(&while_ns, NULL);
}

static void *work(void *argument)
{
	struct log *log = argument;

	log->list = calloc(LOG_MAX, sizeof(*log->list));
	if (!log->list)
		exit(2);
	own_tid = (uint32_t)syscall(SYS_gettid);
	own = log;
	for (uint32_t turn = 0; !over && log->count < LOG_MAX - 64; turn++) {
		while (waits && log->count >= EARLY)
			rest_a_while();
		CALL(OUTER, outer, turn);
		if (turn % 4096 == 0)
			sched_yield();
	}
	own = NULL;
	return NULL;
}

static volatile uint32_t steps, step_of_handler;
static uint32_t stride = 1; /* from one round's step_of_handler to the next one's */

#ifdef __x86_64__
/* A SIGTRAP comes behind each instruction, but for those of its handler: true if this is the one.  The rest runs as
 * ever. */
static bool is_step_of_handler(ucontext_t *context)
{
	if (steps++ != step_of_handler)
		return false;
	context->uc_mcontext.gregs[REG_EFL] &= ~TRAP_FLAG;
	return true;
}

static bool was_last(void)
{
	uint32_t tried = step_of_handler;

	step_of_handler += stride;
	return steps <= tried;
}
#else
/* A debugger sends one SIGTRAP, and none when it has been everywhere (test/e2e/stepper.py). */
static bool is_step_of_handler(ucontext_t *context)
{
	(void)context;
	return !steps++;
}

static bool was_last(void)
{
	step_of_handler++;
	return !steps;
}
#endif

static void on_step(int number, siginfo_t *info, void *context)
{
	(void)number;
	(void)info;
	if (!is_step_of_handler(context))
		return;
	for (int i = 0; i < 2; i++)
		CALL(HANDLED, handled);
	call_leaf(INNER);
}

static void go_on(int number)
{
	(void)number;
	waits = 0;
}

static void step_by_step(struct log *log, long nap_us, char what)
{
	const struct sigaction action = {.sa_sigaction = on_step, .sa_flags = SA_SIGINFO};
	const struct timespec nap = {0, nap_us * 1000};

	log->list = calloc(LOG_MAX, sizeof(*log->list));
	if (!log->list)
		exit(2);
	own_tid = (uint32_t)syscall(SYS_gettid);
	own = log;
	sigaction(SIGTRAP, &action, NULL);
	/* A thread's first record, and the first one that is counted as a sample, are not what the debugger is to see.
	 */
	for (int i = 0; i < 2 || (waits && log->count < LOG_MAX / 2); i++) {
		CALL(TINY, tiny, false);
		CALL(HANDLED, handled);
		call_passes(false);
		call_leaf(LEAF);
		call_leaf(INNER);
		if (waits)
			rest_a_while();
	}
	while (waits)
		rest_a_while();
	do {
		nanosleep(&nap, NULL);
		steps = 0;
		steps_in_tails = what == 't';
		if (what == 't') {
			call_passes(false);
		} else if (what == 'l') {
			call_leaf(LEAF); /* it sees the tick, so that the next one needs no frame */
			leaf_rounds = LEAF_ROUNDS;
			call_leaf(LEAF);
			leaf_rounds = 0;
		} else {
			STEPS_BEGIN();
			CALL(TINY, tiny, false);
		}
		STEPS_END();
	} while (!was_last() && log->count < LOG_MAX);
	own = NULL;
	printf("%u steps\n", step_of_handler);
}

static void save(const char *path, const struct log *from, unsigned count)
{
	FILE *file = fopen(path, "w");

	for (unsigned i = 0; file && i < count; i++)
		if (from[i].list)
			fwrite(from[i].list, sizeof(*from[i].list), from[i].count < LOG_MAX ? from[i].count : LOG_MAX,
			       file);
	if (!file || fclose(file))
		exit(3);
}

/* The calling thread takes none itself, or is the only one there is. */
static void start_signals(bool alone)
{
	sigset_t alarms;
	const struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
	const struct itimerval often = {{0, signals_us}, {0, signals_us}};

	sigemptyset(&alarms);
	sigaddset(&alarms, SIGALRM);
	pthread_sigmask(alone ? SIG_UNBLOCK : SIG_BLOCK, &alarms, NULL);
	sigaction(SIGALRM, &action, NULL);
	if (signals_us)
		setitimer(ITIMER_REAL, &often, NULL);
}

int main(int argc, char **argv)
{
	unsigned long ms = argc > 2 ? strtoul(argv[2], NULL, 0) : 100,
		      threads = argc > 3 ? strtoul(argv[3], NULL, 0) : 2;
	const struct timespec end = {(time_t)(ms / 1000), (long)(ms % 1000 * 1000000)};
	char child_log[4096];
	pthread_t workers[THREADS_MAX];
	struct timespec rest = end;
	unsigned long calls = 0;
	int status = 1;
	pid_t child;

	signal(SIGUSR1, go_on);
	if (argc > 3 && (!strcmp(argv[2], "steps") || !strcmp(argv[2], "tails") || !strcmp(argv[2], "leaves"))) {
		waits = argc > 4;
		if (waits) { /* C takes thousands of steps */
			stride = STRIDE;
			step_of_handler = (uint32_t)getpid() % STRIDE;
		}
		step_by_step(&logs[0], strtol(argv[3], NULL, 0), argv[2][0]);
		save(argv[1], logs, 1);
		return 0;
	}
	if (argc < 2 || !threads || threads > THREADS_MAX)
		return 2;
	signals_us = argc > 4 ? (unsigned)strtoul(argv[4], NULL, 0) : 0;
	waits = argc > 5;
	for (unsigned long i = 0; i < threads; i++)
		if (pthread_create(&workers[i], NULL, work, &logs[i]))
			return 2;
	start_signals(false);
	snprintf(child_log, sizeof(child_log), "%s.child", argv[1]);
	child = fork();
	if (!child) {
		struct log log = {0};

		waits = 0;
		start_signals(true); /* timers are not inherited */
		log.count = LOG_MAX - CHILD;
		work(&log);
		memmove(log.list, log.list + LOG_MAX - CHILD, CHILD * sizeof(*log.list));
		log.count -= LOG_MAX - CHILD;
		save(child_log, &log, 1);
		_exit(0);
	}
	while (waits)
		rest_a_while();
	while (nanosleep(&rest, &rest))
		;
	over = true;
	for (unsigned long i = 0; i < threads; i++)
		pthread_join(workers[i], NULL);
	signal(SIGALRM, SIG_IGN);
	save(argv[1], logs, (unsigned)threads);
	for (unsigned long i = 0; i < threads; i++)
		calls += logs[i].count;
	if (waitpid(child, &status, 0) != child || status)
		return 4;
	printf("%lu calls\n", calls);
	return 0;
}
