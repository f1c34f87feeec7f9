/*
 * Handlers and the program's children: of its own, such that it must not see, and libraries that come later.
 *
 *     handled_children CASE
 */
#include <dlfcn.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "handled.h"

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

/* ---- children ---- */

/* A child has its parent's handlers, or none: each of its calls either way, and its parent's go on. */
UNTRACED static void forks(struct calltap_session *session)
{
	struct counted of = {0};
	struct calltap_ops *ops = handled_on(session, GENERAL, count_entry, count_exit, &of, "leaf");
	int status;

	for (int i = 0; i < 20; i++) {
		long before = of.entries;
		pid_t child = fork();

		if (!child) {
			for (unsigned x = 0; x < 100; x++)
				check_outer(x);
			expect("a child's entries", of.entries - before, 200);
			expect("a child's exits", of.exits, of.entries);
			_exit(7);
		}
		check_outer(1);
		always("the child", waitpid(child, &status, 0), child);
		always("its status", status, 7 << 8);
	}
	expect("entries", of.entries, 40);
	expect("exits", of.exits, 40);
	handled_off(ops);
}

static int fork_in_handler;

UNTRACED static void fork_once(void)
{
	pid_t child = fork();
	int status;

	if (!child && fork_in_handler == 1)
		_exit(9);
	if (!child) /* goes on out of the handler */
		return;
	always("the child", waitpid(child, &status, 0), child);
	always("its status", status, 9 << 8);
}

UNTRACED static int forking_entry(struct calltap_call *call, void *context)
{
	pid_t parent = getpid();

	handled_add(&((struct counted *)context)->entries);
	if (fork_in_handler)
		fork_once();
	if (getpid() != parent)
		fork_in_handler = -1;
	return ANSWERED;
}

UNTRACED static void forks_within(struct calltap_session *session)
{
	struct counted of = {0};
	struct calltap_ops *ops = handled_on(session, 0, forking_entry, count_exit, &of, "leaf");

	for (unsigned x = 0; x < 20; x++) {
		fork_in_handler = 1 + (x & 1);
		always("a result", leaf(x), x * 2654435761u + 1);
		if (fork_in_handler == -1) { /* a child */
			fork_in_handler = 0;
			for (unsigned i = 0; i < 10; i++)
				always("a result", leaf(i), i * 2654435761u + 1);
			expect("exits in a child", of.exits, of.entries);
			_exit(9);
		}
	}
	expect("entries", of.entries, 20);
	expect("exits", of.exits, 20);
	handled_off(ops);
}

/* ---- a child that is in a handler when the session ends ---- */

static int ending[2]; /* a pipe: closed when the parent's session has ended */
static int endings;   /* 1: the handler is to fork; 2: it has, in the child */

/* Wait for the session's end, and a moment in which the agent might take its signal handlers back. */
UNTRACED static void wait_for_end(void)
{
	struct sigaction action;
	char byte;

	close(ending[1]);
	while (read(ending[0], &byte, 1) > 0)
		;
	check_outer(1); /* the child's first call: its agent begins, and ends at once */
	for (int i = 0; i < 50; i++) {
		always("sigaction", sigaction(SIGSEGV, NULL, &action), 0);
		if (action.sa_handler == SIG_DFL)
			break;
		usleep(10000);
	}
}

UNTRACED static int ending_entry(struct calltap_call *call, void *context)
{
	if (endings == 1 && !fork()) {
		endings = 2;
		wait_for_end();
		*(volatile int *)8 = 1; /* the agent is to end the handler, and not the child */
	}
	endings += endings == 1 ? -1 : 0;
	return ANSWERED;
}

/* The agent in a child lets no fault through while the handler that has forked the child goes on there. */
UNTRACED static void ends_in_fork(struct calltap_session *none)
{
	struct calltap_session *session = handled_open();
	struct calltap_ops *ops = handled_on(session, 0, ending_entry, NULL, NULL, "leaf");
	int status;

	always("a pipe", pipe(ending), 0);
	endings = 1;
	always("a result", leaf(3), 3 * 2654435761u + 1);
	if (endings == 2)
		_exit(5);
	handled_off(ops);
	handled_close(session);
	close(ending[1]);
	close(ending[0]);
	if (wait(&status) > 0)
		always("the child's end", status, 5 << 8);
}

/* A handler's number is used again by the parent: its child is not called with it for what it was never registered for.
 */
static uintptr_t stale_function;

BY_GENERALS static int stale_entry(struct calltap_call *call, void *context)
{
	if (call->function != stale_function)
		handled_wrong("a function that the handler is not registered for", 1, 0);
	return ANSWERED;
}

UNTRACED static void stale(struct calltap_session *session)
{
	struct calltap_ops *ops = handled_on(session, GENERAL, stale_entry, NULL, NULL, "leaf");
	struct counted of = {0};
	int go[2], status;
	pid_t child;
	char byte;

	stale_function = (uintptr_t)leaf;
	always("a pipe", pipe(go), 0);
	leaf(1);
	child = fork();
	if (!child) {
		close(go[1]);
		leaf(1);
		if (read(go[0], &byte, 1) == 0)
			for (unsigned x = 0; x < 100; x++)
				check_outer(x);
		_exit(7);
	}
	usleep(50000); /* the child may have its agent by then */
	handled_off(ops);
	ops = handled_on(session, GENERAL, count_entry, NULL, &of, "outer");
	close(go[1]);
	close(go[0]);
	always("the child", waitpid(child, &status, 0), child);
	always("its status", status, 7 << 8);
	handled_off(ops);
}

/* A child closes what it has of its parent's session, opens one of its own, or ends by exit(). */
UNTRACED static void child_opens(struct calltap_session *session)
{
	struct counted of = {0};
	struct calltap_ops *ops = handled_on(session, GENERAL, count_entry, count_exit, &of, "leaf");
	pid_t child = fork();
	int status;

	if (!child) {
		struct calltap_session *mine = handled_open();
		struct counted own = {0};
		struct calltap_ops *other = handled_on(mine, GENERAL, count_entry, count_exit, &own, "outer");

		check_outer(1);
		expect("entries in the child's own", own.entries, 1);
		handled_off(other);
		handled_close(mine);
		_exit(7);
	}
	always("the child", waitpid(child, &status, 0), child);
	always("its status", status, 7 << 8);
	check_outer(1);
	expect("entries", of.entries, 2);
	handled_off(ops);
}

/* No wait() of the program sees the library's own child, before, during and after, and no SIGCHLD comes. */
static volatile int children_ended;

UNTRACED static void on_child(int signal)
{
	children_ended++;
}

UNTRACED static void strangers(struct calltap_session *session)
{
	siginfo_t info;

	signal(SIGCHLD, on_child);
	for (int i = 0; i < 4; i++) {
		struct calltap_session *mine;

		if (i == 2) /* orphans of its children become its own children */
			always("prctl", prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0), 0);

		always("wait", wait(NULL), -1);
		mine = handled_open();
		always("wait", wait(NULL), -1);
		always("its error", errno, ECHILD);
		always("waitid", waitid(P_ALL, 0, &info, WEXITED | WNOHANG), -1);
		handled_close(mine);
		usleep(20000);
		always("wait", wait(NULL), -1);
		always("its error", errno, ECHILD);
		always("SIGCHLD", children_ended, 0);
	}
}

/* ---- a library that comes later ---- */

UNTRACED static void later(struct calltap_session *session)
{
	struct counted of = {0};
	struct calltap_ops *ops;
	const char *path = getenv("HANDLED_LIBRARY");
	static const char *const filters[] = {"library_answer", "leaf", NULL};
	const struct calltap_ops_options options = {
		.entry = count_entry, .exit = count_exit, .context = &of, .flags = GENERAL, .filter = filters};

	ops = handled_register(session, &options);
	for (int i = 0; i < 5; i++) {
		void *library = dlopen(path, RTLD_NOW);
		int (*of_library)(int) = library ? dlsym(library, "library_answer") : NULL;
		long before = of.entries;

		if (!of_library)
			always(path, 0, 1);
		for (int x = 0; x < 100; x++)
			always("the library's answer", of_library(x), x * 3 + 1);
		expect("entries in the library", of.entries - before, 100);
		dlclose(library);
	}
	handled_off(ops);
}

static const struct handled_case cases[] = {
	{"forks", forks, 0},
	{"forks-within", forks_within, 0},
	{"child-opens", child_opens, 0},
	{"ends-in-fork", ends_in_fork, 1},
	{"stale", stale, 0},
	{"strangers", strangers, 1},
	{"later", later, 0},
	{NULL, NULL, 0},
};

int main(int argc, char **argv)
{
	return handled_run(cases, argc, argv);
}
