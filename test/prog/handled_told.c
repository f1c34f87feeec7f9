/*
 * Does what it is told on its standard input, a line each, and answers with a line: opens and closes sessions,
 * registers and unregisters, and has its threads call what has sites, whose number it knows.
 *
 *     handled_told [THREADS]
 *
 *     open | close            the session
 *     on N FILTER [FLAGS]     register handlers N, which count; the flags as a number
 *     filter N FILTER         change their filter
 *     off N                   unregister
 *     run TURNS               each thread makes so many turns: "leaf CALLS outer CALLS"
 *     counts N                of handlers N since the last time: "entries E exits X missed M fault F"
 *     busy | idle             the threads call all the time meanwhile
 *     wait                    what wait() says
 *     fork                    a child that calls 10 times: "entries E exits X" of it
 *     exec                    itself, anew
 *     end
 *
 * An answer is "ok ...", or "error CODE SENTENCE".
 */
#include <sys/wait.h>

#include "handled.h"

#define SLOTS	    8
#define THREADS_MAX 64

static struct calltap_session *session;
static struct calltap_ops *ops[SLOTS];
static struct counted of[SLOTS];
static long missed_before[SLOTS];

static struct {
	pthread_mutex_t lock;
	pthread_cond_t changed;
	long turns, round, running;
	int busy;
	unsigned threads;
} work = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

TRACED unsigned leaf(unsigned x)
{
	return x * 2654435761u + 1;
}

TRACED unsigned outer(unsigned x)
{
	return leaf(x) + leaf(x + 1);
}

UNTRACED static void turn(unsigned x)
{
	always("a result", outer(x), x * 2654435761u * 2 + 2654435761u + 2);
}

UNTRACED static void *worker(void *arg)
{
	long round = 0;

	for (;;) {
		long turns;

		pthread_mutex_lock(&work.lock);
		while (work.round == round)
			pthread_cond_wait(&work.changed, &work.lock);
		round = work.round;
		turns = work.turns;
		pthread_mutex_unlock(&work.lock);
		for (long x = 0; turns >= 0 ? x < turns : __atomic_load_n(&work.busy, __ATOMIC_RELAXED); x++)
			turn((unsigned)x);
		pthread_mutex_lock(&work.lock);
		work.running--;
		pthread_cond_broadcast(&work.changed);
		pthread_mutex_unlock(&work.lock);
	}
	return arg;
}

UNTRACED static void start(long turns)
{
	pthread_mutex_lock(&work.lock);
	work.turns = turns;
	work.running = work.threads;
	work.round++;
	pthread_cond_broadcast(&work.changed);
	pthread_mutex_unlock(&work.lock);
}

UNTRACED static void await(void)
{
	pthread_mutex_lock(&work.lock);
	while (work.running)
		pthread_cond_wait(&work.changed, &work.lock);
	pthread_mutex_unlock(&work.lock);
}

UNTRACED static void answer(int code, const struct calltap_diag *diag)
{
	if (code)
		printf("error %d %s\n", code, diag ? diag->text : "");
	else
		printf("ok\n");
}

UNTRACED static void open_session(void)
{
	const char *timeout = getenv("HANDLED_TIMEOUT");
	struct calltap_session_options options = {.size = sizeof(options), .tool = getenv("HANDLED_TOOL")};
	struct calltap_diag diag = {0};

	options.timeout_ms = timeout ? (unsigned)atoi(timeout) : 0;
	answer(calltap_session_open(&session, &options, &diag), &diag);
}

UNTRACED static void on(unsigned slot, const char *filter, unsigned flags)
{
	const char *const filters[] = {filter, NULL};
	const struct calltap_ops_options options = {.size = sizeof(options),
						    .entry = count_entry,
						    .exit = count_exit,
						    .context = &of[slot],
						    .flags = flags,
						    .filter = filters};
	struct calltap_diag diag = {0};

	if (!session || ops[slot]) {
		answer(-EINVAL, &(struct calltap_diag){.text = "there is no session, or such handlers already"});
		return;
	}
	of[slot] = (struct counted){0};
	missed_before[slot] = 0;
	answer(calltap_ops_register(&ops[slot], session, &options, &diag), &diag);
}

UNTRACED static void off(unsigned slot)
{
	int code = calltap_ops_unregister(ops[slot]);

	if (code != -ETIMEDOUT)
		ops[slot] = NULL;
	answer(code, NULL);
}

UNTRACED static void filter(unsigned slot, const char *text)
{
	const char *const filters[] = {text, NULL};
	struct calltap_diag diag = {0};

	answer(!ops[slot] ? -EINVAL : calltap_ops_set_filter(ops[slot], filters, NULL, NULL, 0, &diag), &diag);
}

UNTRACED static void counts(unsigned slot)
{
	struct calltap_ops_status status = {.size = sizeof(status)};
	int code = ops[slot] ? calltap_ops_status(ops[slot], &status) : 0;

	if (code) {
		answer(code, NULL);
		return;
	}
	printf("ok entries %ld exits %ld missed %ld fault %d\n", of[slot].entries, of[slot].exits + of[slot].tails,
	       (long)status.missed - missed_before[slot], status.fault);
	of[slot] = (struct counted){0};
	missed_before[slot] = (long)status.missed;
}

UNTRACED static void fork_child(void)
{
	struct counted before = of[0];
	int status;
	pid_t child;

	fflush(stdout);
	child = fork();
	if (!child) {
		for (unsigned x = 0; x < 10; x++)
			turn(x);
		printf("ok entries %ld exits %ld\n", of[0].entries - before.entries, of[0].exits - before.exits);
		fflush(stdout);
		_exit(5);
	}
	if (waitpid(child, &status, 0) != child || status != 5 << 8)
		printf("error %d the child's status\n", status);
}

UNTRACED static void do_run(long turns)
{
	long each = turns * work.threads;

	start(turns);
	await();
	printf("ok leaf %ld outer %ld\n", each * 2, each);
}

/* 0 when it is to end. */
UNTRACED static int obey(const char *verb, unsigned slot, const char *text, unsigned flags)
{
	if (!strcmp(verb, "end"))
		return 0;
	if (!strcmp(verb, "open")) {
		open_session();
	} else if (!strcmp(verb, "close")) {
		calltap_session_close(session);
		session = NULL;
		memset(ops, 0, sizeof(ops));
		answer(0, NULL);
	} else if (!strcmp(verb, "on")) {
		on(slot, text, flags);
	} else if (!strcmp(verb, "filter")) {
		filter(slot, text);
	} else if (!strcmp(verb, "off")) {
		off(slot);
	} else if (!strcmp(verb, "run")) {
		do_run(slot);
	} else if (!strcmp(verb, "counts")) {
		counts(slot);
	} else if (!strcmp(verb, "busy")) {
		__atomic_store_n(&work.busy, 1, __ATOMIC_RELAXED);
		start(-1);
		answer(0, NULL);
	} else if (!strcmp(verb, "idle")) {
		__atomic_store_n(&work.busy, 0, __ATOMIC_RELAXED);
		await();
		answer(0, NULL);
	} else if (!strcmp(verb, "wait")) {
		int code = wait(NULL);

		printf("ok %d %d\n", code, code < 0 ? errno : 0);
	} else if (!strcmp(verb, "fork")) {
		fork_child();
	} else if (!strcmp(verb, "exec")) {
		execl("/proc/self/exe", "handled_told", NULL);
	} else {
		printf("error 1 there is no %s\n", verb);
	}
	fflush(stdout);
	return 1;
}

int main(int argc, char **argv)
{
	char line[256];

	work.threads = argc > 1 ? (unsigned)atoi(argv[1]) : 4;
	for (unsigned i = 0; i < work.threads && i < THREADS_MAX; i++) {
		pthread_t thread;

		pthread_create(&thread, NULL, worker, NULL);
	}
	printf("ready %d\n", (int)getpid());
	fflush(stdout);
	while (fgets(line, sizeof(line), stdin)) {
		char verb[32] = "", text[160] = "";
		unsigned slot = 0, flags = 0;

		sscanf(line, "%31s %u %159s %u", verb, &slot, text, &flags);
		if (!obey(verb, slot % (strcmp(verb, "run") ? SLOTS : ~0u), text, flags))
			break;
	}
	printf("all was well\n");
	return 42;
}
