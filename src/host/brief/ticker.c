/*
 * The tick (ticker.h).  Context: host, a thread of its own.
 */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>

#include <calltap/abi/ring.h>
#include <host/target/clock.h>

#include "ticker.h"

#define CALIBRATE_MS 5
#define LATE	     2 /* ticks in time that a value may stay before that is a row */
#define SLACK_NS     1
#define IDLE	     1000 /* the ticker falls asleep when so many values, one after the other, were not seen */

struct ticker {
	pthread_t thread;
	pthread_mutex_t lock; /* of all below */
	bool over, by_ns, sampling;
	uint64_t *word;
	uint64_t tick_ns, span;
	uint64_t before; /* the clock right before the word got its value */
	struct calltap_file_late *rows;
	size_t count, room;
	double steps, squares, longest; /* of the times that values stayed: their sum, that of their squares */
	double late;			/* the sum of what values stayed for longer than `span` */
	uint64_t random;
	int error;		     /* -ENOMEM: rows are missing */
	struct calltap_board *board; /* NULL: the ticker never sleeps */
	uint64_t unseen;	     /* values, one after the other, that no thread has seen */
	bool asleep;		     /* no thread counts the present value as seen */
	pthread_cond_t awake;
};

static void add_row(struct ticker *ticker, uint64_t from, uint64_t to)
{
	if (ticker->count == ticker->room) {
		size_t room = ticker->room ? 2 * ticker->room : 64;
		struct calltap_file_late *rows = reallocarray(ticker->rows, room, sizeof(*rows));

		if (!rows) {
			ticker->error = -ENOMEM;
			return;
		}
		ticker->rows = rows;
		ticker->room = room;
	}
	ticker->rows[ticker->count++] = (struct calltap_file_late){from, to};
}

static uint64_t now(const struct ticker *ticker)
{
	return ticker->by_ns ? clock_now_ns() : clock_sample().ticks;
}

/*
 * The value was there from before its store to after the next one, as far as any thread may have seen it.  None has
 * while the ticker sleeps.
 */
static void tick(struct ticker *ticker)
{
	uint64_t before = now(ticker), after;
	double step;

	__atomic_store_n(ticker->word, before, __ATOMIC_SEQ_CST);
	after = now(ticker);
	step = (double)(before - ticker->before);
	if (ticker->asleep) {
		ticker->before = before;
		return;
	}
	if (after - ticker->before > ticker->span && !ticker->sampling)
		add_row(ticker, ticker->before, after);
	ticker->steps += step;
	ticker->squares += step * step;
	if (step > ticker->longest)
		ticker->longest = step;
	if (step > (double)ticker->span)
		ticker->late += step - (double)ticker->span;
	ticker->before = before;
}

/* A random number (xorshift); the program's clock and this one's had no say in when the tool was started. */
static uint64_t draw(struct ticker *ticker)
{
	uint64_t x = ticker->random;

	x ^= x << 13;
	x ^= x >> 7;
	x ^= x << 17;
	return ticker->random = x;
}

/*
 * No thread has seen the present value: tick_seen was cleared in front of its store.  From here on none does, or
 * this is not asleep (probe_brief_see()).
 */
static void fall_asleep(struct ticker *ticker)
{
	__atomic_store_n(&ticker->board->ticker_asleep, 1, __ATOMIC_RELAXED);
	__atomic_thread_fence(__ATOMIC_SEQ_CST); /* pairs with tick_moves() in the probes */
	ticker->unseen = 0;
	ticker->asleep = !__atomic_load_n(&ticker->board->tick_seen, __ATOMIC_RELAXED);
	if (!ticker->asleep)
		__atomic_store_n(&ticker->board->ticker_asleep, 0, __ATOMIC_RELAXED);
}

/* The value changes first: threads that have loaded the old one may count it as seen as soon as ticker_asleep is 0. */
static void wake_up(struct ticker *ticker)
{
	__atomic_store_n(&ticker->board->tick_seen, 0, __ATOMIC_SEQ_CST);
	tick(ticker);
	ticker->asleep = false;
	__atomic_store_n(&ticker->board->ticker_asleep, 0, __ATOMIC_SEQ_CST);
	pthread_cond_signal(&ticker->awake);
}

static void tick_in_time(struct ticker *ticker)
{
	bool seen = !ticker->board || __atomic_exchange_n(&ticker->board->tick_seen, 0, __ATOMIC_SEQ_CST);

	ticker->unseen = seen ? 0 : ticker->unseen + 1;
	tick(ticker);
	if (ticker->unseen < IDLE)
		return;
	fall_asleep(ticker);
	while (ticker->asleep && !ticker->over)
		pthread_cond_wait(&ticker->awake, &ticker->lock);
}

void ticker_look(struct ticker *ticker)
{
	pthread_mutex_lock(&ticker->lock);
	if (ticker->asleep && __atomic_load_n(&ticker->board->tick_seen, __ATOMIC_RELAXED))
		wake_up(ticker);
	pthread_mutex_unlock(&ticker->lock);
}

static void *ticker_main(void *arg)
{
	struct ticker *ticker = arg;
	struct timespec step = {0, (long)ticker->tick_ns};
	bool over = false;

	prctl(PR_SET_TIMERSLACK, SLACK_NS);
	while (!over) {
		if (ticker->sampling)
			step.tv_nsec = (long)(ticker->tick_ns / 2 + draw(ticker) % ticker->tick_ns);
		nanosleep(&step, NULL);
		pthread_mutex_lock(&ticker->lock);
		tick_in_time(ticker);
		over = ticker->over;
		pthread_mutex_unlock(&ticker->lock);
	}
	return NULL;
}

int ticker_start(struct ticker **out, uint64_t *word, uint64_t tick_ns, bool by_ns, bool sampling,
		 struct calltap_board *board)
{
	struct ticker *ticker = calloc(1, sizeof(*ticker));
	int ret;

	*out = NULL;
	if (!ticker)
		return -ENOMEM;
	ticker->word = word;
	ticker->tick_ns = tick_ns;
	ticker->by_ns = by_ns;
	ticker->span = LATE * tick_ns;
	if (!by_ns)
		ticker->span = (uint64_t)((double)ticker->span * clock_ticks_per_ns(CALIBRATE_MS));
	pthread_mutex_init(&ticker->lock, NULL);
	pthread_cond_init(&ticker->awake, NULL);
	ticker->board = board;
	ticker->sampling = sampling;
	ticker->before = now(ticker);
	ticker->random = ticker->before | 1;
	tick(ticker);
	ticker->steps = ticker->squares = ticker->longest = ticker->late = 0;
	ret = -pthread_create(&ticker->thread, NULL, ticker_main, ticker);
	if (ret) {
		pthread_cond_destroy(&ticker->awake);
		pthread_mutex_destroy(&ticker->lock);
		free(ticker);
		return ret;
	}
	*out = ticker;
	return 0;
}

void ticker_stop(struct ticker *ticker)
{
	if (!ticker)
		return;
	pthread_mutex_lock(&ticker->lock);
	ticker->over = true;
	pthread_cond_signal(&ticker->awake);
	pthread_mutex_unlock(&ticker->lock);
	pthread_join(ticker->thread, NULL);
	pthread_cond_destroy(&ticker->awake);
	pthread_mutex_destroy(&ticker->lock);
	free(ticker->rows);
	free(ticker);
}

uint64_t ticker_span(const struct ticker *ticker)
{
	return ticker->span;
}

struct ticker_stays ticker_stays(struct ticker *ticker)
{
	struct ticker_stays stays;

	pthread_mutex_lock(&ticker->lock);
	stays = (struct ticker_stays){
		.span = (double)ticker->span,
		.longest = ticker->longest,
		.late = ticker->late,
		.mean = ticker->steps > 0 ? ticker->squares / ticker->steps : 0,
	};
	pthread_mutex_unlock(&ticker->lock);
	return stays;
}

struct calltap_file_late *ticker_take(struct ticker *ticker, size_t *count, uint64_t *until, int *error)
{
	struct calltap_file_late *rows;

	pthread_mutex_lock(&ticker->lock);
	tick(ticker);
	rows = ticker->rows;
	*count = ticker->count;
	*until = ticker->before;
	*error = ticker->error;
	ticker->rows = NULL;
	ticker->count = ticker->room = 0;
	pthread_mutex_unlock(&ticker->lock);
	return rows;
}
