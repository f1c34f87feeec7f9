/* The session's lock: a waiting thread gets it next (host/session/session.h). */
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <time.h>

#include "host/session/session.h"
#include "support.h"

#define WAITS 50

struct laps {
	struct session session;
	uint32_t count;
	bool stop;
};

static void pass(uint64_t ns)
{
	struct timespec now, began;

	clock_gettime(CLOCK_MONOTONIC, &began);
	do
		clock_gettime(CLOCK_MONOTONIC, &now);
	while ((uint64_t)(now.tv_sec - began.tv_sec) * 1000000000 + (uint64_t)now.tv_nsec - (uint64_t)began.tv_nsec <
	       ns);
}

/* As the drainer, where records never end: it lets go of the lock, and takes it again at once. */
static void *drain(void *arg)
{
	struct laps *laps = arg;

	while (!__atomic_load_n(&laps->stop, __ATOMIC_RELAXED)) {
		session_lock(&laps->session);
		__atomic_add_fetch(&laps->count, 1, __ATOMIC_RELAXED);
		pass(1000000);
		session_unlock(&laps->session);
	}
	return NULL;
}

/* The other thread may hold the lock when we come, and take it once more before we are known to wait. */
static void who_waits_is_next(void **state)
{
	static struct laps laps = {.session = {.lock = PTHREAD_MUTEX_INITIALIZER, .next = PTHREAD_MUTEX_INITIALIZER}};
	uint32_t long_waits = 0;
	pthread_t drainer;

	(void)state;
	assert_int_equal(pthread_create(&drainer, NULL, drain, &laps), 0);
	for (unsigned i = 0; i < WAITS; i++) {
		uint32_t before = __atomic_load_n(&laps.count, __ATOMIC_RELAXED);

		session_lock(&laps.session);
		long_waits += laps.count - before > 2;
		session_unlock(&laps.session);
		pass(100000);
	}
	__atomic_store_n(&laps.stop, true, __ATOMIC_RELAXED);
	pthread_join(drainer, NULL);
	/* We may have been off the CPU between the count and the lock. */
	assert_true(long_waits < WAITS / 5);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(who_waits_is_next)};

	return cmocka_run_group_tests_name("record-session", tests, NULL, NULL);
}
