/*
 * Handlers beside threads, signals and stacks of the program's own: handlers are registered and unregistered while
 * threads run, and none runs after its unregistration.
 *
 *     handled_threads CASE
 */
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <time.h>
#include <ucontext.h>

#include "handled.h"

#define THREADS 8
#define ROUNDS	300

static int stop; /* atomic */
static long calls;

TRACED static unsigned leaf(unsigned x)
{
	return x * 2654435761u + 1;
}

TRACED static unsigned outer(unsigned x)
{
	if (x % 4096 == 0)
		sched_yield(); /* open for longer */
	return leaf(x) + leaf(x + 1);
}

UNTRACED static void check_outer(unsigned x)
{
	always("a result", outer(x), x * 2654435761u * 2 + 2654435761u + 2);
}

UNTRACED static int stopping(void)
{
	return __atomic_load_n(&stop, __ATOMIC_RELAXED);
}

UNTRACED static void *work(void *arg)
{
	for (unsigned x = (unsigned)(uintptr_t)arg; !stopping(); x++)
		check_outer(x);
	return NULL;
}

UNTRACED static void start_threads(pthread_t *threads, void *(*run)(void *))
{
	for (unsigned long i = 0; i < THREADS; i++)
		always("a thread", pthread_create(&threads[i], NULL, run, (void *)(i * 1000)), 0);
}

UNTRACED static void end_threads(pthread_t *threads)
{
	__atomic_store_n(&stop, 1, __ATOMIC_RELAXED);
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
}

/* ---- register and unregister while threads run ---- */

struct living {
	int alive, inside;
	long entries, exits;
};

BY_GENERALS static void live(struct living *living)
{
	handled_add(&living->entries);
	__atomic_add_fetch(&living->inside, 1, __ATOMIC_SEQ_CST);
	if (!__atomic_load_n(&living->alive, __ATOMIC_SEQ_CST))
		handled_wrong("a handler after unregister", living->alive, 1);
	__atomic_sub_fetch(&living->inside, 1, __ATOMIC_SEQ_CST);
}

BY_GENERALS static int living_entry(struct calltap_call *call, void *context)
{
	live(context);
	return ANSWERED;
}

BY_GENERALS static void living_exit(struct calltap_call *call, void *context)
{
	live(context);
}

UNTRACED static struct living *make_living(void)
{
	struct living *living = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	living->alive = 1;
	return living;
}

/* The context is gone: who looks at it faults, and would be disabled; who runs at all is found out by the mark. */
UNTRACED static void end_living(struct calltap_ops *ops, struct living *living)
{
	handled_off(ops);
	__atomic_store_n(&living->alive, 0, __ATOMIC_SEQ_CST);
	always("handlers inside", __atomic_load_n(&living->inside, __ATOMIC_SEQ_CST), 0);
	calls += living->entries;
	for (int i = 0; i < 20; i++)
		sched_yield();
	munmap(living, 4096);
}

UNTRACED static void churn_with(struct calltap_session *session, uint32_t flags, int rounds)
{
	pthread_t threads[THREADS];

	start_threads(threads, work);
	for (int round = 0; round < rounds; round++) {
		struct living *living = make_living();
		struct calltap_ops *ops = handled_on(session, flags, living_entry, round % 3 ? living_exit : NULL,
						     living, round % 2 ? "leaf" : "outer");

		if (round % 5 == 0)
			usleep(500);
		expect("a fault", handled_status(ops).fault, 0);
		end_living(ops, living);
	}
	end_threads(threads);
	expect("calls", calls > 1000, 1);
}

UNTRACED static void churn(struct calltap_session *session)
{
	churn_with(session, GENERAL, ROUNDS);
}

/* Where threads that record leave little of the machine to the tool. */
UNTRACED static void churn_short(struct calltap_session *session)
{
	churn_with(session, GENERAL, ROUNDS / 50);
}

UNTRACED static void churn_vectors(struct calltap_session *session)
{
	churn_with(session, 0, ROUNDS);
}

/* Several threads register at once. */
static struct calltap_session *shared_session;

UNTRACED static void *churns(void *arg)
{
	for (int round = 0; round < ROUNDS / 8; round++) {
		struct living *living = make_living();
		struct calltap_ops *ops =
			handled_on(shared_session, GENERAL, living_entry, living_exit, living, "leaf");

		for (unsigned x = 0; x < 10; x++)
			check_outer(x);
		expect("own calls", living->entries >= 40, 1);
		handled_off(ops);
		living->alive = 0;
		munmap(living, 4096);
	}
	return NULL;
}

UNTRACED static void churn_of_many(struct calltap_session *session)
{
	pthread_t threads[THREADS];

	shared_session = session;
	start_threads(threads, churns);
	end_threads(threads);
}

/* A handler that takes long: unregister waits for it. */
static int long_state;

UNTRACED static int long_entry(struct calltap_call *call, void *context)
{
	__atomic_store_n(&long_state, 1, __ATOMIC_SEQ_CST);
	usleep(300000);
	__atomic_store_n(&long_state, 2, __ATOMIC_SEQ_CST);
	return ANSWERED;
}

UNTRACED static void *call_once(void *arg)
{
	check_outer(1);
	return arg;
}

UNTRACED static void waits(struct calltap_session *session)
{
	struct calltap_ops *ops = handled_on(session, 0, long_entry, NULL, NULL, "outer");
	pthread_t thread;

	pthread_create(&thread, NULL, call_once, NULL);
	while (handled_checks && !__atomic_load_n(&long_state, __ATOMIC_SEQ_CST))
		usleep(1000);
	handled_off(ops);
	expect("the handler has returned", long_state, 2);
	pthread_join(thread, NULL);
}

/* Handlers of another that run nearly all the time: they are not waited for. */
UNTRACED static int slow_entry(struct calltap_call *call, void *context)
{
	const struct timespec pause = {0, 2000000};

	nanosleep(&pause, NULL);
	handled_add(&((struct counted *)context)->entries);
	return ANSWERED;
}

UNTRACED static long now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

UNTRACED static void waits_beside(struct calltap_session *session)
{
	struct counted slow = {0}, of = {0};
	struct calltap_ops *beside = handled_on(session, 0, slow_entry, NULL, &slow, "leaf");
	pthread_t threads[THREADS];
	long began;

	start_threads(threads, work);
	usleep(10000);
	began = now_ms();
	for (int i = 0; i < 20; i++)
		handled_off(handled_on(session, GENERAL, count_entry, count_exit, &of, i % 2 ? "leaf" : "outer"));
	expect("20 in 10 seconds", now_ms() - began < 10000, 1);
	end_threads(threads);
	handled_off(beside);
}

/* From within a handler: refused, or done, but never a thread that waits for itself. */
static struct calltap_ops *of_handler;
static int of_handler_code;

UNTRACED static int ending_entry(struct calltap_call *call, void *context)
{
	if (of_handler)
		of_handler_code = calltap_ops_unregister(of_handler);
	return ANSWERED;
}

UNTRACED static void within(struct calltap_session *session)
{
	of_handler = handled_on(session, 0, ending_entry, NULL, NULL, "leaf");
	check_outer(5);
	expect("unregister in a handler", of_handler_code, -EDEADLK);
	handled_off(of_handler);
}

/* A thread that ends in a handler: nobody waits for it any more, and others go on. */
static int stays; /* atomic */

UNTRACED static int staying_entry(struct calltap_call *call, void *context)
{
	if (context) {
		__atomic_store_n(&stays, 1, __ATOMIC_SEQ_CST);
		pthread_exit(NULL);
	}
	__atomic_store_n(&stays, 1, __ATOMIC_SEQ_CST);
	for (;;)
		pause(); /* until it is cancelled */
	return ANSWERED;
}

UNTRACED static void ends_within(struct calltap_session *session)
{
	for (int i = 0; i < 8; i++) {
		struct calltap_ops *ops =
			handled_on(session, 0, staying_entry, NULL, (void *)(intptr_t)(i % 2), "leaf");
		struct counted of = {0};
		struct calltap_ops *other;
		pthread_t thread;

		stays = 0;
		pthread_create(&thread, NULL, call_once, NULL);
		while (handled_checks && !__atomic_load_n(&stays, __ATOMIC_SEQ_CST))
			usleep(1000);
		if (i % 2 == 0)
			pthread_cancel(thread);
		pthread_join(thread, NULL);
		handled_off(ops);
		other = handled_on(session, 0, count_entry, count_exit, &of, "leaf");
		check_outer(3);
		expect("entries", of.entries, 2);
		expect("exits", of.exits, 2);
		handled_off(other);
	}
}

/* Sessions share the tool, and are closed one by one. */
UNTRACED static void two_sessions(struct calltap_session *session)
{
	struct calltap_session *second = handled_open();
	struct counted of[2] = {0};
	struct calltap_ops *ops = handled_on(second, GENERAL, count_entry, count_exit, &of[1], "leaf");

	handled_on(session, GENERAL, count_entry, count_exit, &of[0], "leaf");
	check_outer(1);
	expect("entries of the first", of[0].entries, 2);
	expect("entries of the second", of[1].entries, 2);
	handled_close(second);
	(void)ops; /* gone with it */
	check_outer(1);
	expect("entries of the first", of[0].entries, 4);
	expect("entries of one whose session is closed", of[1].entries, 2);
}

/* ---- signals ---- */

static __thread unsigned storm_seed;
static long storm_truth, storms;

UNTRACED static void on_storm(int signal)
{
	int kept = errno;

	errno = 777;
	check_outer(storm_seed++);
	handled_add(&storm_truth);
	handled_add(&storms);
	errno = kept;
}

UNTRACED static void *storm_work(void *arg)
{
	for (unsigned x = 0; x < 200000; x++) {
		errno = (int)x;
		check_outer(x);
		always("errno", errno, (int)x);
		handled_add(&storm_truth);
	}
	return arg;
}

/* Each call has its handlers, or came while one ran and is counted as missed. */
UNTRACED static void storm_with(struct calltap_session *session, uint32_t flags)
{
	const struct itimerval often = {{0, 200}, {0, 200}}, never = {{0, 0}, {0, 0}};
	struct sigaction action = {.sa_handler = on_storm, .sa_flags = SA_RESTART};
	struct counted of[2] = {0};
	struct calltap_ops *ops[2];
	pthread_t threads[THREADS];
	long missed;

	ops[0] = handled_on(session, flags, count_entry, count_exit, &of[0], "outer");
	ops[1] = handled_on(session, flags, count_entry, count_exit, &of[1], "leaf");
	sigaction(SIGALRM, &action, NULL);
	setitimer(ITIMER_REAL, &often, NULL);
	start_threads(threads, storm_work);
	end_threads(threads);
	setitimer(ITIMER_REAL, &never, NULL);
	usleep(10000);
	expect("signals", storms > 10, 1);
	for (int i = 0; i < 2; i++) {
		missed = handled_status(ops[i]).missed;
		expect("entries and missed", of[i].entries + missed, storm_truth * (i + 1));
		expect("exits", of[i].exits, of[i].entries);
		handled_off(ops[i]);
	}
}

UNTRACED static void storm(struct calltap_session *session)
{
	storm_with(session, GENERAL);
}

UNTRACED static void storm_vectors(struct calltap_session *session)
{
	storm_with(session, 0);
}

/* A handler that is interrupted by a signal whose handler never returns to it. */
static sigjmp_buf out;

UNTRACED static void jump_out(int signal)
{
	siglongjmp(out, 1);
}

UNTRACED static int raising_entry(struct calltap_call *call, void *context)
{
	struct counted *of = context;

	if (of->entries++ % 2)
		raise(SIGUSR1);
	return ANSWERED;
}

UNTRACED static void jumped_over(struct calltap_session *session)
{
	struct counted of = {0};
	struct calltap_ops *ops = handled_on(session, 0, raising_entry, count_exit, &of, "leaf");

	signal(SIGUSR1, jump_out);
	for (volatile unsigned x = 0; x < 1000; x++)
		if (!sigsetjmp(out, 1))
			always("a result", leaf(x), x * 2654435761u + 1);
	expect("entries", of.entries, 1000);
	expect("exits", of.exits, 500);
	handled_off(ops);
}

/* ---- stacks of the program's own ---- */

#define ROUTINES 16
static ucontext_t scheduler, routines[ROUTINES];
static char stacks[ROUTINES][65536];
static int current;

TRACED static unsigned yielding(unsigned depth)
{
	unsigned below;

	if (!depth)
		return 0;
	swapcontext(&routines[current], &scheduler);
	below = yielding(depth - 1);
	swapcontext(&routines[current], &scheduler);
	return below + leaf(depth) - depth * 2654435761u;
}

UNTRACED static void routine(int number)
{
	always("a coroutine's result", yielding(10 + number), 10 + number);
}

UNTRACED static void prepare(int number)
{
	getcontext(&routines[number]);
	routines[number].uc_stack.ss_sp = stacks[number];
	routines[number].uc_stack.ss_size = sizeof(stacks[number]);
	routines[number].uc_link = &scheduler;
	makecontext(&routines[number], (void (*)(void))routine, 1, number);
}

UNTRACED static void coroutines(struct calltap_session *session)
{
	struct counted of = {0};
	struct calltap_ops *ops = handled_on(session, 0, count_entry, count_exit, &of, "yielding");
	long truth = 0;

	for (int round = 0; round < 20; round++) {
		for (int i = 0; i < ROUTINES; i++) {
			prepare(i);
			truth += 11 + i;
		}
		for (int turn = 0; turn < 2 * (10 + ROUTINES) + 1; turn++)
			for (current = 0; current < ROUTINES; current++)
				if (turn <= 2 * (10 + current))
					swapcontext(&scheduler, &routines[current]);
	}
	expect("entries", of.entries, truth);
	expect("exits", of.exits, truth);
	handled_off(ops);
	printf("%ld\n", truth);
}

static const struct handled_case cases[] = {
	{"churn", churn, 0},
	{"churn-vectors", churn_vectors, 0},
	{"churn-short", churn_short, 0},
	{"churn-of-many", churn_of_many, 0},
	{"waits", waits, 0},
	{"waits-beside", waits_beside, 0},
	{"within", within, 0},
	{"ends-within", ends_within, 0},
	{"two-sessions", two_sessions, 0},
	{"storm", storm, 0},
	{"storm-vectors", storm_vectors, 0},
	{"jumped-over", jumped_over, 0},
	{"coroutines", coroutines, 0},
	{NULL, NULL, 0},
};

int main(int argc, char **argv)
{
	return handled_run(cases, argc, argv);
}
