/*
 * Change filters, register and unregister while threads run through the
 * functions: nothing is stopped, and when calltap_ops_unregister() returns the
 * handlers and what they use may go.
 */
#include <pthread.h>
#include <stdbool.h>

#include "example.h"

#define THREADS 3
#define TURNS	50

static bool over;

TRACED static int left(int x)
{
	return x + 1;
}

TRACED static int right(int x)
{
	return x - 1;
}

static void *run(void *argument)
{
	int x = 0;

	while (!__atomic_load_n(&over, __ATOMIC_RELAXED))
		x = right(left(x));
	return (void *)(uintptr_t)(x ? 1 : (uintptr_t)argument);
}

/* The handlers' data; freed as soon as they are unregistered. */
struct seen {
	uint64_t left, right;
};

static int see(struct calltap_call *call, void *context)
{
	struct seen *seen = context;

	__atomic_add_fetch(call->function == (uintptr_t)left ? &seen->left : &seen->right, 1, __ATOMIC_RELAXED);
	return 0;
}

static void wait_for(const uint64_t *count)
{
	uint64_t before = __atomic_load_n(count, __ATOMIC_RELAXED);

	while (__atomic_load_n(count, __ATOMIC_RELAXED) == before)
		;
}

static void turn(struct calltap_session *session)
{
	const char *const lefts[] = {"left", NULL}, *const rights[] = {"right", NULL};
	struct seen *seen = calloc(1, sizeof(*seen));
	const struct calltap_ops_options options = {
		.size = sizeof(options), .entry = see, .context = seen, .filter = lefts};
	struct calltap_diag diag;
	struct calltap_ops *ops;
	uint64_t before;

	if (calltap_ops_register(&ops, session, &options, &diag))
		give_up(&diag);
	wait_for(&seen->left);
	if (calltap_ops_set_filter(ops, rights, NULL, NULL, 0, &diag))
		give_up(&diag);
	wait_for(&seen->right);
	if (calltap_ops_unregister(ops))
		exit(1);
	before = seen->left + seen->right;
	for (int i = 0; i < 1000; i++)
		left(right(i));
	if (before != seen->left + seen->right)
		exit(1);
	free(seen);
}

int main(void)
{
	struct calltap_session *session;
	struct calltap_diag diag;
	pthread_t threads[THREADS];

	if (calltap_session_open(&session, NULL, &diag))
		give_up(&diag);
	for (int i = 0; i < THREADS; i++)
		if (pthread_create(&threads[i], NULL, run, NULL))
			return 1;
	for (int i = 0; i < TURNS; i++)
		turn(session);
	__atomic_store_n(&over, true, __ATOMIC_RELAXED);
	for (int i = 0; i < THREADS; i++) {
		void *wrong;

		pthread_join(threads[i], &wrong);
		if (wrong)
			return 1;
	}
	calltap_session_close(session);
	printf("%d times registered, changed and unregistered under %d threads\n", TURNS, THREADS);
	return 0;
}
