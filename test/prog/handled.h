/*
 * The common part of the programs with handlers of their own (libcalltap.so): opening a session, registering, and
 * error messages.
 *
 * Each program prints the same text with and without handlers.  With HANDLED_TOOL (the path of `calltap`) in the
 * environment it opens a session and compares what its handlers saw with its own work; without, it makes the same
 * calls and registers nothing.  The functions in this file, and the handlers themselves, have no site.
 */
#ifndef TEST_PROG_HANDLED_H
#define TEST_PROG_HANDLED_H

#include <calltap/calltap.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>

#include "truth.h"

#define GENERAL	 CALLTAP_HANDLER_GENERAL_REGS
#define ANSWERED 0 /* the result of an entry handler whose exit handler is to be called */

UNTRACED static void handled_wrong(const char *what, long found, long wanted)
{
	char text[300];
	int size = snprintf(text, sizeof(text), "wrong: %s: %ld, not %ld\n", what, found, wanted);

	if (write(1, text, size) != size)
		_exit(98);
	_exit(1);
}

#include "handled_cpu.h"

/* Checks that hold only where handlers run. */
static int handled_checks;

UNTRACED static void expect(const char *what, long found, long wanted)
{
	if (handled_checks && found != wanted)
		handled_wrong(what, found, wanted);
}

/* Checks that hold in every run. */
UNTRACED static void always(const char *what, long found, long wanted)
{
	if (found != wanted)
		handled_wrong(what, found, wanted);
}

UNTRACED static void handled_failed(const char *what, int code, const struct calltap_diag *diag)
{
	printf("wrong: %s: %d: %s\n", what, code, diag->text);
	fflush(stdout);
	_exit(1);
}

/* Open a session; NULL in a plain run. */
UNTRACED static struct calltap_session *handled_open(void)
{
	struct calltap_session_options options = {.size = sizeof(options), .tool = getenv("HANDLED_TOOL")};
	struct calltap_session *session = NULL;
	struct calltap_diag diag = {0};
	int code;

	if (!options.tool)
		return NULL;
	code = calltap_session_open(&session, &options, &diag);
	if (code)
		handled_failed("open", code, &diag);
	handled_checks = 1;
	return session;
}

UNTRACED static void handled_close(struct calltap_session *session)
{
	if (session)
		calltap_session_close(session);
}

typedef int entry_handler(struct calltap_call *call, void *context);
typedef void exit_handler(struct calltap_call *call, void *context);

/* Try a registration; returns its code, with the message in *diag. */
UNTRACED static int handled_try(struct calltap_ops **ops, struct calltap_session *session,
				const struct calltap_ops_options *wanted, struct calltap_diag *diag)
{
	struct calltap_ops_options options = *wanted;

	*ops = NULL;
	memset(diag, 0, sizeof(*diag));
	options.size = sizeof(options);
	return session ? calltap_ops_register(ops, session, &options, diag) : 0;
}

UNTRACED static struct calltap_ops *handled_register(struct calltap_session *session,
						     const struct calltap_ops_options *wanted)
{
	struct calltap_diag diag;
	struct calltap_ops *ops;
	int code = handled_try(&ops, session, wanted, &diag);

	if (code)
		handled_failed("register", code, &diag);
	return ops;
}

/* Register handlers with one filter. */
UNTRACED static struct calltap_ops *handled_on(struct calltap_session *session, uint32_t flags, entry_handler *entry,
					       exit_handler *leave, void *context, const char *filter)
{
	const char *const filters[] = {filter, NULL};
	const struct calltap_ops_options options = {
		.entry = entry, .exit = leave, .context = context, .flags = flags, .filter = filters};

	return handled_register(session, &options);
}

UNTRACED static void handled_off(struct calltap_ops *ops)
{
	if (ops)
		always("unregister", calltap_ops_unregister(ops), 0);
}

UNTRACED static struct calltap_ops_status handled_status(struct calltap_ops *ops)
{
	struct calltap_ops_status status = {.size = sizeof(status)};

	if (ops)
		always("status", calltap_ops_status(ops, &status), 0);
	return status;
}

/* Counts of handlers' calls, shared by all threads. */
struct counted {
	long entries, exits, tails;
};

BY_GENERALS static void handled_add(long *count)
{
	__atomic_add_fetch(count, 1, __ATOMIC_RELAXED);
}

UNTRACED static long handled_get(const long *count)
{
	return __atomic_load_n(count, __ATOMIC_RELAXED);
}

BY_GENERALS static int count_entry(struct calltap_call *call, void *context)
{
	struct counted *counted = (struct counted *)context;

	handled_add(&counted->entries);
	return ANSWERED;
}

BY_GENERALS static void count_exit(struct calltap_call *call, void *context)
{
	struct counted *counted = (struct counted *)context;

	handled_add(call->flags & CALLTAP_CALL_TAIL ? &counted->tails : &counted->exits);
}

/* A program's cases, by the name that is its first argument. */
struct handled_case {
	const char *name;
	void (*run)(struct calltap_session *session);
	int opens; /* the case opens its sessions itself */
};

UNTRACED static int handled_run(const struct handled_case *cases, int argc, char **argv)
{
	for (; argc > 1 && cases->name; cases++) {
		if (!strcmp(cases->name, argv[1])) {
			struct calltap_session *session = cases->opens ? NULL : handled_open();

			cases->run(session);
			handled_close(session);
			printf("all was well\n");
			return 0;
		}
	}
	printf("there is no such case\n");
	return 2;
}

#endif
