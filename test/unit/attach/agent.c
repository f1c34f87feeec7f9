/*
 * A library that stands for the agent in tests of host/attach.  The session's text is the path of a file, into which
 * the library writes that it was called, and by which thread; it unmaps the borrowed memory when the thread has left
 * it.
 *
 * A second call does the same.  But where the tool cannot unwind the frames of libc (musl), it may send a thread that
 * holds any lock to an agent that is there already (safe.c), for the agent uses no lock: so this library uses none
 * then.
 */
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <calltap/abi/attach.h>
#include <calltap/abi/control.h>

#include "agent.h"

#ifdef __GLIBC__
#define TAKES_NO_LOCKS 0
#else
#define TAKES_NO_LOCKS 1
#endif
#define PLACES 64

static struct calltap_attach *borrowed[PLACES];

static void *unmap(void *argument)
{
	const struct timespec pause = {0, 50000};

	for (unsigned i = 0;; i = (i + 1) % PLACES) {
		struct calltap_attach *attach = __atomic_load_n(&borrowed[i], __ATOMIC_ACQUIRE);

		if (attach && __atomic_load_n(&attach->left, __ATOMIC_ACQUIRE)) {
			munmap(attach, attach->memory_size);
			__atomic_store_n(&borrowed[i], NULL, __ATOMIC_RELEASE);
		}
		if (i == PLACES - 1)
			nanosleep(&pause, NULL);
	}
	return argument;
}

static int unmap_later(struct calltap_attach *attach)
{
	for (unsigned i = 0; i < PLACES; i++) {
		struct calltap_attach *none = NULL;

		if (__atomic_compare_exchange_n(&borrowed[i], &none, attach, 0, __ATOMIC_RELEASE, __ATOMIC_RELAXED))
			return 0;
	}
	return -1;
}

/* Loaders, allocators and vector registers: what the agent proper uses less of. */
static void stir(void)
{
	char text[256];
	void *some[32];

	for (unsigned i = 0; i < 32; i++)
		some[i] = malloc(i * 100 + 1);
	for (unsigned i = 0; i < 32; i++)
		free(some[i]);
	snprintf(text, sizeof(text), "%.3f", (double)text[0] / 3);
}

int calltap_agent_attach(struct calltap_attach *attach)
{
	static int loaded;
	char line[128];
	pthread_t thread;
	int fd, size;

	if (attach->version != CALLTAP_ABI_VERSION || attach->memory != (uint64_t)(uintptr_t)attach)
		return -1;
	if (strstr(attach->session, "refuse")) {
		snprintf(attach->error, sizeof(attach->error), "as it was told");
		return -71;
	}
	if (strstr(attach->session, "slow")) {
		const struct timespec while_signals_come = {0, 300000000};

		ppoll(NULL, 0, &while_signals_come, NULL);
	}
	if (!loaded || !TAKES_NO_LOCKS)
		stir();
	size = snprintf(line, sizeof(line), "called %ld %d %d\n", syscall(SYS_gettid), attach->main_thread != 0,
			attach->main_stack_end > (uint64_t)(uintptr_t)environ);
	fd = open(attach->session, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
	if (fd < 0 || write(fd, line, (size_t)size) != size)
		return -2;
	close(fd);
	if (!loaded && pthread_create(&thread, NULL, unmap, NULL))
		return -3;
	loaded = 1;
	return unmap_later(attach) ? -4 : 0;
}
