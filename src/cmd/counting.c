/*
 * What `calltap top` shows; see counting.h.  Context: host.
 */
#include <errno.h>
#include <poll.h>

#include "counting.h"
#include "watching.h"

#define POLL_MS 20

static void *take_on(void *arg)
{
	struct counting *counting = arg;
	bool stop;

	do {
		stop = __atomic_load_n(&counting->stop, __ATOMIC_ACQUIRE);
		pthread_mutex_lock(&counting->lock);
		if (!counting->take_error)
			counting->take_error = tally_take(counting->tally, stop);
		pthread_mutex_unlock(&counting->lock);
		if (!stop)
			(void)poll(NULL, 0, POLL_MS);
	} while (!stop);
	return NULL;
}

int counting_create(struct counting *counting, struct watching *watching)
{
	int ret;

	*counting = (struct counting){.watching = watching, .lock = PTHREAD_MUTEX_INITIALIZER};
	if (!watching_joins(watching))
		return profile_create(&counting->profile);
	ret = tally_create(&counting->tally, watching->memory);
	if (!ret)
		ret = -pthread_create(&counting->taker, NULL, take_on, counting);
	counting->takes = !ret;
	return ret;
}

void counting_finish(struct counting *counting)
{
	if (!counting->takes)
		return;
	__atomic_store_n(&counting->stop, true, __ATOMIC_RELEASE);
	pthread_join(counting->taker, NULL);
	counting->takes = false;
}

void counting_destroy(struct counting *counting)
{
	counting_finish(counting);
	profile_destroy(counting->profile);
	tally_destroy(counting->tally);
}

int counting_read(struct counting *counting)
{
	int ret;

	if (!counting->tally)
		return profile_read(counting->profile, counting->watching->live);
	pthread_mutex_lock(&counting->lock);
	ret = counting->take_error ? counting->take_error : tally_read(counting->tally);
	pthread_mutex_unlock(&counting->lock);
	return ret;
}

int counting_measure(struct counting *counting, struct profile_row *rows, size_t count)
{
	return counting->tally ? 0 : profile_measure(counting->profile, counting->watching->live, rows, count);
}

int counting_reset(struct counting *counting)
{
	if (!counting->tally)
		return profile_reset(counting->profile, counting->watching->live);
	pthread_mutex_lock(&counting->lock);
	tally_reset(counting->tally);
	pthread_mutex_unlock(&counting->lock);
	return 0;
}

void counting_watch(struct counting *counting, uint32_t function)
{
	if (!counting->tally) {
		profile_watch(counting->profile, function);
		return;
	}
	pthread_mutex_lock(&counting->lock);
	tally_watch(counting->tally, function);
	pthread_mutex_unlock(&counting->lock);
}

struct profile_row *counting_rows(struct counting *counting, bool callers, size_t *count)
{
	struct profile_row *rows;

	if (!counting->tally)
		return callers ? profile_callers(counting->profile, count) : profile_rows(counting->profile, count);
	pthread_mutex_lock(&counting->lock);
	rows = callers ? tally_callers(counting->tally, count) : tally_rows(counting->tally, count);
	pthread_mutex_unlock(&counting->lock);
	return rows;
}

struct profile_totals counting_totals(struct counting *counting)
{
	struct profile_totals totals;

	if (!counting->tally)
		return profile_totals(counting->profile);
	pthread_mutex_lock(&counting->lock);
	totals = tally_totals(counting->tally);
	pthread_mutex_unlock(&counting->lock);
	return totals;
}
