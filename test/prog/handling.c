/*
 * Handlers for a program that knows nothing of them: a library that is linked in front of it, preloaded, or loaded into
 * one that runs (`calltap load`). They leave nothing in the registers that they may change as it was, and errno
 * neither.
 *
 *     HANDLED_TOOL    path of `calltap`; without it nothing is done
 *     HANDLED_COUNTS  file that gets "ENTRIES EXITS" at the end
 *     HANDLED_BUSY    a thread registers and unregisters, at random, from this seed on; else once, in front of main(),
 *                     for a constructor cannot: its thread is in the loader
 */
#include <dlfcn.h>
#include <sched.h>
#include <signal.h>
#include <time.h>

#include "handled.h"

static struct counted of;
static long faulted, registered, opened; /* counts of the busy thread */
static struct calltap_session *session;

UNTRACED static int all_entry(struct calltap_call *call, void *context)
{
	handled_add(&of.entries);
	errno = 12345;
	change_vectors();
	return ANSWERED;
}

UNTRACED static void all_exit(struct calltap_call *call, void *context)
{
	handled_add(&of.exits);
	errno = 12346;
	change_vectors();
}

BY_GENERALS static int general_entry(struct calltap_call *call, void *context)
{
	handled_add(&of.entries);
	change_generals();
	return ANSWERED;
}

BY_GENERALS static void general_exit(struct calltap_call *call, void *context)
{
	handled_add(&of.exits);
	change_generals();
}

BY_GENERALS static int fault_entry(struct calltap_call *call, void *context)
{
	handled_add(&faulted);
	*(volatile int *)16 = 1;
	return ANSWERED;
}

BY_GENERALS static void fault_exit(struct calltap_call *call, void *context)
{
	handled_add(&faulted);
	of_instruction();
}

static const struct calltap_ops_options kinds[] = {
	{.entry = all_entry, .exit = all_exit},	    {.entry = general_entry, .exit = general_exit, .flags = GENERAL},
	{.entry = general_entry, .flags = GENERAL}, {.exit = all_exit},
	{.entry = fault_entry, .flags = GENERAL},   {.exit = fault_exit},
};

/* True for answers that the tool may give while it is killed, or just after. */
UNTRACED static int is_of_tool(int code)
{
	return code == -ENOTCONN || code == -ECONNRESET || code == -EPIPE || code == -ENOENT || code == -ETIMEDOUT ||
	       code == -EBUSY || code == -EOPNOTSUPP || code == -EPERM || code == -ENOSPC || code == -EAGAIN ||
	       code == -ENOTSUP;
}

UNTRACED static int try_open(void)
{
	struct calltap_session_options options = {.size = sizeof(options), .tool = getenv("HANDLED_TOOL")};
	struct calltap_diag diag = {0};
	int code = calltap_session_open(&session, &options, &diag);

	if (code && (!diag.text[0] || code > 0))
		handled_wrong("open without a sentence", code, 0);
	if (code && !getenv("HANDLED_BUSY"))
		fprintf(stderr, "calltap: open: %d: %s\n", code, diag.text);
	return code;
}

UNTRACED static void pause_us(long us)
{
	const struct timespec time = {0, us * 1000};

	nanosleep(&time, NULL);
}

UNTRACED static unsigned draw(unsigned *seed)
{
	*seed = *seed * 1103515245u + 12345;
	return *seed >> 16;
}

/* Some that are registered at random, until the tool is gone or it is enough. */
UNTRACED static void register_some(unsigned *seed)
{
	struct calltap_ops *ops[4] = {0};
	struct calltap_diag diag;

	for (unsigned turn = draw(seed) % 40; turn < 40; turn++) {
		unsigned which = draw(seed) % 4;
		int code = 0;

		if (ops[which]) {
			code = calltap_ops_unregister(ops[which]);
			if (code != -ETIMEDOUT)
				ops[which] = NULL;
		} else {
			code = handled_try(&ops[which], session, &kinds[draw(seed) % 6], &diag);
			registered += !code;
		}
		if (code && !is_of_tool(code))
			handled_wrong(diag.text, code, 0);
		if (code == -ENOTCONN || code == -ECONNRESET)
			break;
		pause_us(draw(seed) % 4 ? 300 : 5000);
	}
}

UNTRACED static void *busy(void *arg)
{
	unsigned seed = (unsigned)atoi(getenv("HANDLED_BUSY"));

	for (;;) {
		if (!try_open()) {
			opened++;
			register_some(&seed);
			calltap_session_close(session);
		}
		pause_us(1000 + draw(&seed) % 8 * 5000);
	}
	return arg;
}

UNTRACED static void write_counts(void)
{
	const char *path = getenv("HANDLED_COUNTS");
	FILE *file = path ? fopen(path, "w") : NULL;

	if (!file)
		return;
	fprintf(file, "%ld %ld %ld %ld %ld\n", of.entries, of.exits, faulted, registered, opened);
	fclose(file);
}

__attribute__((constructor)) UNTRACED static void begin(void)
{
	static const int faults[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE};
	sigset_t all, before;
	pthread_t thread;

	if (!getenv("HANDLED_TOOL") || !getenv("HANDLED_BUSY"))
		return;
	sigfillset(&all);
	/* A thread that blocks them cannot have its faults mended: the kernel ends the program. */
	for (unsigned i = 0; i < sizeof(faults) / sizeof(faults[0]); i++)
		sigdelset(&all, faults[i]);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	always("a thread", pthread_create(&thread, NULL, busy, NULL), 0);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
}

/* Linked with --wrap=main: in its place. */
UNTRACED int __wrap_main(int argc, char **argv, char **environment)
{
	int (*program)(int, char **, char **) = (__typeof__(program))dlsym(RTLD_DEFAULT, "main");

	if (getenv("HANDLED_TOOL")) {
		if (try_open())
			_exit(97);
		handled_register(session, &kinds[0]);
		handled_register(session, &kinds[1]);
	}
	return program(argc, argv, environment);
}

__attribute__((destructor)) UNTRACED static void end(void)
{
	write_counts();
}
