/*
 * A library of handlers for a process that runs already:
 *
 *     gcc -O2 -shared -fPIC -o libwatch.so watch.c $(pkg-config --cflags --libs calltap)
 *     calltap load PID libwatch.so
 *
 * The constructor only starts a thread: it runs within the program's dlopen(),
 * on a thread that is wanted elsewhere.  That thread opens the session, and
 * tells of the calls as they come.
 */
#include <pthread.h>
#include <semaphore.h>
#include <string.h>
#include <unistd.h>

#include "example.h"

static sem_t came;

static int note(struct calltap_call *call, void *context)
{
	(void)call;
	(void)context;
	sem_post(&came); /* sem_post() is one of the few calls that are safe everywhere */
	return 0;
}

/* Not by stdio, whose locks the program's threads may hold. */
static void say(const char *text)
{
	if (write(STDERR_FILENO, text, strlen(text)) < 0)
		return;
}

static void *watch(void *argument)
{
	const char *const filter[] = {"handle_*", NULL};
	const struct calltap_ops_options options = {.size = sizeof(options), .entry = note, .filter = filter};
	struct calltap_session *session;
	struct calltap_diag diag;
	struct calltap_ops *ops;

	(void)argument;
	if (calltap_session_open(&session, NULL, &diag) || calltap_ops_register(&ops, session, &options, &diag)) {
		calltap_diag_print(&diag, stderr);
		return NULL;
	}
	say("watch: ready\n");
	for (int i = 0; i < 3; i++) {
		while (sem_wait(&came))
			;
		say("watch: a request\n");
	}
	calltap_session_close(session);
	say("watch: three are enough\n");
	return NULL;
}

__attribute__((constructor)) static void begin(void)
{
	pthread_attr_t attributes;
	pthread_t thread;

	sem_init(&came, 0, 0);
	pthread_attr_init(&attributes);
	pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
	pthread_create(&thread, &attributes, watch, NULL);
	pthread_attr_destroy(&attributes);
}
