/* Many that count at once; see storm.h. */
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "storm.h"

#define PAGE 4096u

void *storm_shared(size_t size)
{
	void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	assert_true(memory != MAP_FAILED);
	return memory;
}

struct calltap_map *storm_map(void)
{
	struct calltap_map *map;
	char *memory =
		mmap(NULL, sizeof(*map) + 2 * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	assert_true(memory != MAP_FAILED);
	map = mmap(memory + PAGE, sizeof(*map), PROT_READ | PROT_WRITE,
		   MAP_SHARED | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, -1, 0);
	assert_true(map != MAP_FAILED);
	return map;
}

void storm_map_free(struct calltap_map *map)
{
	munmap((char *)map - PAGE, sizeof(*map) + 2 * PAGE);
}

uint32_t storm_draw(uint64_t *seed)
{
	*seed = *seed * 6364136223846793005u + 1442695040888963407u;
	return (uint32_t)(*seed >> 33);
}

void storm_run(unsigned threads, void *(*call)(void *), void (*on_signal)(int))
{
	struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGUSR2};
	struct itimerspec often = {{0, 50000}, {0, 50000}};
	pthread_t running[STORM_THREADS_MAX];
	timer_t timer;

	assert_true(threads <= STORM_THREADS_MAX);
	signal(SIGUSR1, on_signal);
	signal(SIGUSR2, on_signal);
	assert_int_equal(timer_create(CLOCK_MONOTONIC, &event, &timer), 0);
	assert_int_equal(timer_settime(timer, 0, &often, NULL), 0);
	for (uintptr_t i = 0; i < threads; i++)
		assert_int_equal(pthread_create(&running[i], NULL, call, (void *)i), 0);
	for (unsigned i = 0; i < threads; i++)
		pthread_join(running[i], NULL);
	timer_delete(timer);
	signal(SIGUSR2, SIG_IGN);
}

void storm_processes(int processes, void (*run)(void))
{
	int status;

	for (int i = 1; i < processes; i++) {
		if (!fork()) {
			run();
			_exit(0);
		}
	}
	run();
	for (int i = 1; i < processes; i++) {
		assert_true(wait(&status) > 0);
		assert_int_equal(status, 0);
	}
}
