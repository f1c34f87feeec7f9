/*
 * Threads of the tool that handle no signals.
 *
 * Callers: attach, record, remote.  Context: host.
 */
#ifndef HOST_THREAD_H
#define HOST_THREAD_H

#include <pthread.h>
#include <signal.h>

/* Start a thread with all signals blocked; 0 or -errno. */
static inline int thread_start(pthread_t *thread, void *(*run)(void *), void *argument)
{
	sigset_t all, before;
	int error;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	error = pthread_create(thread, NULL, run, argument);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return -error;
}

#endif
