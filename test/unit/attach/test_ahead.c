/*
 * What was read before a stop is no longer believed than it is so: a thread
 * that shuts itself in between the two is seen in the stop, and so is one that
 * was not there yet (host/attach/ahead.c, sandbox.c).
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <host/attach/impl.h>

#define THREADS 20

/* The child's end of two pipes: it does something for each byte, and answers. */
static int orders, answers;

static void shut_in(void)
{
	struct sock_filter allow = {BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ALLOW};
	struct sock_fprog program = {1, &allow};

	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program))
		_exit(3);
}

static void *obey(void *arg);

static void *obey_shut_in(void *arg)
{
	shut_in();
	return write(answers, "u", 1) == 1 ? obey(arg) : NULL;
}

/* The bytes go to whichever thread reads first: 's' = shut yourself in, 't' = a thread, 'u' = one that is shut in. */
static void *obey(void *arg)
{
	char order;

	while (read(orders, &order, 1) == 1) {
		pthread_t thread;

		if (order == 's')
			shut_in();
		if (order != 's' && pthread_create(&thread, NULL, order == 'u' ? obey_shut_in : obey, NULL))
			_exit(3);
		if (order != 'u' && write(answers, &order, 1) != 1)
			_exit(3);
	}
	return arg;
}

struct child {
	pid_t pid;
	int orders, answers;
};

static void order(const struct child *child, const char *orders_to_give)
{
	for (; *orders_to_give; orders_to_give++) {
		char answer;

		assert_int_equal(write(child->orders, orders_to_give, 1), 1);
		assert_int_equal(read(child->answers, &answer, 1), 1);
		assert_int_equal(answer, *orders_to_give);
	}
}

static int start(void **state)
{
	static struct child child;
	int to[2], from[2];

	if (pipe(to) || pipe(from))
		return -1;
	child.pid = fork();
	if (!child.pid) {
		orders = to[0];
		answers = from[1];
		close(to[1]);
		obey(NULL);
		_exit(0);
	}
	close(to[0]);
	close(from[1]);
	child.orders = to[1];
	child.answers = from[0];
	*state = &child;
	for (int i = 1; i < THREADS; i++)
		order(&child, "t");
	return 0;
}

static int end(void **state)
{
	struct child *child = *state;

	close(child->orders);
	close(child->answers);
	kill(child->pid, SIGKILL);
	return waitpid(child->pid, NULL, 0) == child->pid ? 0 : -1;
}

/* What the stop finds with what was read before `orders_between`. */
static bool found(const struct child *child, const char *orders_between)
{
	struct attach_ahead *ahead;
	struct attach_stop *stop;
	bool sandboxed;

	assert_int_equal(attach_ahead_read(&ahead, child->pid, ATTACH_AHEAD_THREADS | ATTACH_AHEAD_SEGMENTS), 0);
	order(child, orders_between);
	assert_int_equal(attach_stop(&stop, child->pid, NULL, 0, NULL), 0);
	attach_use(stop, ahead);
	sandboxed = attach_is_sandboxed(stop);
	attach_resume(stop);
	attach_ahead_free(ahead);
	return sandboxed;
}

static void a_filter_that_comes_between_is_seen(void **state)
{
	assert_false(found(*state, ""));
	assert_false(found(*state, "t"));
	assert_true(found(*state, "s"));
	assert_true(found(*state, ""));
}

/* None of those that were known is shut in. */
static void a_thread_that_comes_between_is_looked_at(void **state)
{
	assert_true(found(*state, "tu"));
}

static void without_it_all_is_read_in_the_stop(void **state)
{
	const struct child *child = *state;
	struct attach_stop *stop;
	bool sandboxed;

	order(child, "s");
	assert_int_equal(attach_stop(&stop, child->pid, NULL, 0, NULL), 0);
	sandboxed = attach_is_sandboxed(stop);
	attach_resume(stop);
	assert_true(sandboxed);
}

/* Of the mapping that it was found for, and of no other that lies there later. */
static void a_segments_end_is_the_mappings_own(void **state)
{
	const struct child *child = *state;
	struct attach_ahead *ahead;
	size_t segments = 0;

	assert_int_equal(attach_ahead_read(&ahead, child->pid, ATTACH_AHEAD_THREADS | ATTACH_AHEAD_SEGMENTS), 0);
	for (size_t i = 0; i < ahead->space.count; i++) {
		struct map map = ahead->space.maps[i];
		uint64_t there;

		assert_true(ahead_segment_end(ahead, &map, &there));
		assert_true(there == slack_segment_end(child->pid, &map));
		segments += there != 0;
		map.inode++;
		assert_false(ahead_segment_end(ahead, &map, &there));
		map = ahead->space.maps[i];
		map.hi += PAGE;
		assert_false(ahead_segment_end(ahead, &map, &there));
		assert_false(ahead_segment_end(NULL, &map, &there));
	}
	assert_true(segments > 1); /* the program, libc */
	attach_ahead_free(ahead);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(a_filter_that_comes_between_is_seen, start, end),
		cmocka_unit_test_setup_teardown(a_thread_that_comes_between_is_looked_at, start, end),
		cmocka_unit_test_setup_teardown(without_it_all_is_read_in_the_stop, start, end),
		cmocka_unit_test_setup_teardown(a_segments_end_is_the_mappings_own, start, end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
