/*
 * Two timers for each of some threads, 10,000 signals a second each, at any instruction.  The arguments: how many
 * threads, how many handler calls each waits for, how long to work between calls, and what else: "jump", every fourth
 * call of a handler jumps out; "alternate", handlers run on a stack of their own; "switch", the threads go from
 * coroutine to coroutine (routine.h).  How many calls of handlers there were is told on stderr.
 */
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <time.h>

#include "routine.h"

enum { THREADS_MAX = 16, PERIOD_NS = 100000, SIZE = 64 * 1024, ROUTINES = 3 };

struct worker {
	pthread_t thread;
	volatile sig_atomic_t handled, turns, jumps;
	volatile long work;
	sigjmp_buf out;
	struct routine routines[ROUTINES];
	char *stacks; /* stacks of the routines, and one for handlers */
};

static int wanted, pause_steps;
static bool jumping, alternating, switching;
static struct worker workers[THREADS_MAX];
static __thread struct worker *self __attribute__((tls_model("initial-exec")));

TRACED static void count(struct worker *worker)
{
	__atomic_add_fetch(&worker->handled, 1, __ATOMIC_RELAXED); /* handlers interrupt handlers */
}

TRACED static void on_timer(int signal)
{
	count(self);
	if (jumping && self->turns++ % 4 == 0) {
		self->jumps++;
		siglongjmp(self->out, 1);
	}
}

/* The other signal of a thread: handlers within handlers. */
TRACED static void on_other(int signal)
{
	count(self);
}

TRACED static long busy(long n)
{
	long below = n ? busy(n - 1) : 0;

	self->work++;
	return below + n;
}

UNTRACED static void idle(void)
{
	for (volatile int i = 0; i < pause_steps; i++)
		;
}

TRACED static void work_on(struct worker *worker)
{
	while (worker->handled < wanted) {
		busy(20);
		idle();
	}
}

TRACED static void pausing(struct routine *routine)
{
	for (;;) {
		busy(routine->value++ % 7);
		idle();
		routine_pause(routine);
	}
}

TRACED static void switch_on(struct worker *worker)
{
	for (int i = 0; i < ROUTINES; i++)
		routine_begin(&worker->routines[i], pausing, worker->stacks + i * SIZE, SIZE);
	for (int i = 0; worker->handled < wanted; i = (i + 1) % ROUTINES)
		routine_resume(&worker->routines[i]);
}

UNTRACED static void use_alternate(struct worker *worker)
{
	stack_t stack = {.ss_sp = worker->stacks + ROUTINES * SIZE, .ss_size = SIZE};

	if (sigaltstack(&stack, NULL))
		_exit(97);
}

UNTRACED static void start_timer(timer_t *timer, int signal)
{
	struct sigevent event = {.sigev_notify = SIGEV_THREAD_ID, .sigev_signo = signal};
	struct itimerspec every = {{0, PERIOD_NS}, {0, PERIOD_NS}};

	event._sigev_un._tid = syscall(SYS_gettid);
	if (timer_create(CLOCK_MONOTONIC, &event, timer) || timer_settime(*timer, 0, &every, NULL))
		_exit(97);
}

TRACED static void *run(void *argument)
{
	struct worker *worker = argument;
	timer_t timers[2];
	sigset_t both;

	self = worker;
	worker->stacks = malloc((ROUTINES + 1) * SIZE);
	if (alternating)
		use_alternate(worker);
	sigemptyset(&both);
	sigaddset(&both, SIGPROF);
	sigaddset(&both, SIGALRM);
	pthread_sigmask(SIG_BLOCK, &both, NULL);
	start_timer(&timers[0], SIGPROF);
	start_timer(&timers[1], SIGALRM);
	sigsetjmp(worker->out, 0);
	pthread_sigmask(SIG_UNBLOCK, &both, NULL);
	if (switching)
		switch_on(worker);
	else
		work_on(worker);
	pthread_sigmask(SIG_BLOCK, &both, NULL);
	timer_delete(timers[0]);
	timer_delete(timers[1]);
	return NULL;
}

int main(int argc, char **argv)
{
	int threads = argc > 1 ? atoi(argv[1]) : 3;
	const char *how = argc > 4 ? argv[4] : "";
	struct sigaction action = {.sa_handler = on_timer, .sa_flags = SA_RESTART | SA_ONSTACK};
	long handled = 0, jumps = 0;

	if (threads > THREADS_MAX)
		return 1;
	wanted = argc > 2 ? atoi(argv[2]) : 500;
	pause_steps = argc > 3 ? atoi(argv[3]) : 0;
	jumping = strstr(how, "jump");
	alternating = strstr(how, "alternate");
	switching = strstr(how, "switch");
	sigaction(SIGPROF, &action, NULL);
	action.sa_handler = on_other;
	sigaction(SIGALRM, &action, NULL);
	for (int i = 0; i < threads; i++)
		if (pthread_create(&workers[i].thread, NULL, run, &workers[i]))
			return 1;
	for (int i = 0; i < threads; i++) {
		pthread_join(workers[i].thread, NULL);
		handled += workers[i].handled;
		jumps += workers[i].jumps;
	}
	fprintf(stderr, "handled %ld jumps %ld\n", handled, jumps);
	printf("%d threads weathered it\n", threads);
	return 0;
}
