/* A stack of the command's own size (stack.h).  Context: host. */
#include <pthread.h>
#include <signal.h>
#include <sys/resource.h>

#include "stack.h"

#define STACK_BYTES ((size_t)8 << 20) /* what most systems give */

struct call {
	int (*run)(int argc, char **argv);
	int argc;
	char **argv;
	sigset_t mask;
	int status;
};

static void *run_call(void *context)
{
	struct call *call = context;

	pthread_sigmask(SIG_SETMASK, &call->mask, NULL);
	call->status = call->run(call->argc, call->argv);
	return NULL;
}

/* 0: the call was made. */
static int run_aside(struct call *call)
{
	pthread_attr_t attributes;
	pthread_t thread;
	sigset_t all;
	int error = pthread_attr_init(&attributes);

	if (error)
		return error;
	error = pthread_attr_setstacksize(&attributes, STACK_BYTES);
	/* Threads that the verb starts take theirs from this. */
	if (!error)
		error = pthread_setattr_default_np(&attributes);
	/* Signals are the verb's: none comes to this thread, which has the small stack. */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &call->mask);
	if (!error)
		error = pthread_create(&thread, &attributes, run_call, call);
	if (!error)
		error = pthread_join(thread, NULL);
	pthread_sigmask(SIG_SETMASK, &call->mask, NULL);
	pthread_attr_destroy(&attributes);
	return error;
}

int stack_run(int (*run)(int argc, char **argv), int argc, char **argv)
{
	struct call call = {.run = run, .argc = argc, .argv = argv};
	struct rlimit limit;

	if (!getrlimit(RLIMIT_STACK, &limit) && limit.rlim_cur < STACK_BYTES && !run_aside(&call))
		return call.status;
	return run(argc, argv);
}
