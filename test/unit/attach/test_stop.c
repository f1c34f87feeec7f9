/*
 * A thread that does not get to run: the others do not wait for it for long
 * (host/attach/stop.c), and what hurries for a stop gets back what it had
 * (hurry.c).
 *
 * ptrace() is wrapped: a request to the slow thread that it stop arrives only
 * when the other thread has been let go, as if there were no CPU for it until
 * then.  No time is asserted: a tool that holds the other thread until the slow
 * one has stopped would do that until the patience here is over.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <host/attach/impl.h>

#define SLOW_TRIES  3u /* so often the slow thread is slow */
#define PATIENCE_NS 1000000000u

long __real_ptrace(enum __ptrace_request request, pid_t pid, void *address, void *data);
long __wrap_ptrace(enum __ptrace_request request, pid_t pid, void *address, void *data);

static pid_t slow, other;
static unsigned slow_tries, released, never_released;
static uint64_t asked_ns;

static long tracer_of(pid_t tid)
{
	return proc_number(tid, "TracerPid");
}

/* All threads are seized before the first is interrupted: one that has no tracer now has been let go. */
static void look_for_release(void)
{
	if (now_ns() - asked_ns > PATIENCE_NS) {
		never_released++;
	} else if (!tracer_of(other)) {
		released++;
	} else {
		return;
	}
	asked_ns = 0;
	__real_ptrace(PTRACE_INTERRUPT, slow, NULL, NULL);
}

/* The tracer shares our memory. */
long __wrap_ptrace(enum __ptrace_request request, pid_t pid, void *address, void *data)
{
	if (pid == slow && request == PTRACE_INTERRUPT && slow_tries) {
		slow_tries--;
		asked_ns = now_ns();
		return 0;
	}
	if (pid == slow && asked_ns && request == PTRACE_GETSIGINFO)
		look_for_release();
	return __real_ptrace(request, pid, address, data);
}

static void *spin(void *arg)
{
	for (;;)
		__asm__ volatile("");
	return arg;
}

struct child {
	pid_t pid;
	pid_t tids[2];
};

static void fork_sleeper(void)
{
	if (!fork()) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		for (;;)
			pause();
	}
}

static int start_child(void **state, bool with_child)
{
	static struct child child;
	pid_t *tids;
	size_t count = 0;

	released = never_released = 0;
	child.pid = fork();
	if (!child.pid) {
		pthread_t thread;

		setpriority(PRIO_PROCESS, 0, 7); /* others test, too */
		if (pthread_create(&thread, NULL, spin, NULL))
			_exit(3);
		if (with_child)
			fork_sleeper();
		spin(NULL);
	}
	while (count != 2) {
		if (proc_threads(child.pid, &tids, &count))
			return -1;
		if (count == 2) {
			child.tids[0] = tids[0];
			child.tids[1] = tids[1];
		}
		free(tids);
	}
	*state = &child;
	return 0;
}

static int start(void **state)
{
	return start_child(state, false);
}

static int start_parent(void **state)
{
	int ret = start_child(state, true);
	const struct child *child = *state;

	while (!ret && !proc_has_children(child->pid))
		usleep(1000);
	return ret;
}

static int end(void **state)
{
	struct child *child = *state;

	slow = 0;
	kill(child->pid, SIGKILL);
	return waitpid(child->pid, NULL, 0) == child->pid ? 0 : -1;
}

static void others_do_not_wait_for_a_thread_without_a_cpu(void **state)
{
	const struct child *child = *state;
	struct attach_times times;
	struct attach_stop *stop;
	size_t count;

	other = child->tids[0];
	slow_tries = SLOW_TRIES;
	slow = child->tids[1];
	assert_int_equal(attach_stop(&stop, child->pid, NULL, 0, NULL), 0);
	attach_threads(stop, &count);
	assert_int_equal(count, 2);
	attach_resume_timed(stop, &times);
	assert_int_equal(never_released, 0);
	assert_int_equal(released, SLOW_TRIES);
	assert_true(times.given_up >= SLOW_TRIES);
	assert_true(times.longest_ns > 0);
	assert_true(times.total_ns >= times.longest_ns);
	assert_int_equal(tracer_of(slow), 0);
	assert_int_equal(tracer_of(other), 0);
}

/* A SIGCHLD that the program ignores would be kept for a traced parent, and wake a thread that is not ours. */
static void others_wait_for_a_parent(void **state)
{
	const struct child *child = *state;
	struct attach_stop *stop;

	other = child->tids[child->tids[0] == child->pid];
	slow_tries = 1;
	slow = child->pid;
	assert_int_equal(attach_stop(&stop, child->pid, NULL, 0, NULL), 0);
	attach_resume(stop);
	assert_int_equal(released, 0);
	assert_int_equal(never_released, 1);
	assert_int_equal(tracer_of(slow), 0);
	assert_int_equal(tracer_of(other), 0);
}

/* Of the thread that is not stopped, and of our own. */
static void priorities_are_given_back(void **state)
{
	const struct child *child = *state;
	const pid_t except = child->tids[1];
	int own = sched_getscheduler(0), nice = getpriority(PRIO_PROCESS, 0);
	struct attach_stop *stop;
	size_t count;

	assert_int_equal(attach_stop(&stop, child->pid, &except, 1, NULL), 0);
	attach_threads(stop, &count);
	assert_int_equal(count, 1);
	if (!geteuid())
		assert_true(sched_getscheduler(except) != SCHED_OTHER || getpriority(PRIO_PROCESS, (id_t)except) < 7);
	assert_int_equal(sched_getscheduler(child->tids[0]), SCHED_OTHER);
	assert_int_equal(getpriority(PRIO_PROCESS, (id_t)child->tids[0]), 7);
	attach_resume(stop);
	assert_int_equal(sched_getscheduler(except), SCHED_OTHER);
	assert_int_equal(getpriority(PRIO_PROCESS, (id_t)except), 7);
	assert_int_equal(sched_getscheduler(0), own);
	assert_int_equal(getpriority(PRIO_PROCESS, 0), nice);
}

/* It says what it likes. */
static void a_thread_of_another_process_is_left_alone(void **state)
{
	const struct child *child = *state;
	const pid_t except = getppid();
	int policy = sched_getscheduler(except), nice = getpriority(PRIO_PROCESS, (id_t)except);
	struct attach_stop *stop;

	assert_int_equal(attach_stop(&stop, child->pid, &except, 1, NULL), 0);
	assert_int_equal(sched_getscheduler(except), policy);
	assert_int_equal(getpriority(PRIO_PROCESS, (id_t)except), nice);
	attach_resume(stop);
}

/* Its stop never ended: the next one gives back what it took. */
static void a_killed_tools_hurry_ends_with_the_next_stop(void **state)
{
	const struct child *child = *state;
	const pid_t except = child->tids[1];
	struct attach_stop *stop;
	struct hurry left;

	hurry_begin(&left, except);
	assert_int_equal(attach_stop(&stop, child->pid, &except, 1, NULL), 0);
	attach_resume(stop);
	assert_int_equal(sched_getscheduler(except), SCHED_OTHER);
}

/* kill -9 of a group would leave EINTR in the call of a thread that has not stopped yet. */
static void who_kills_the_tools_group_leaves_the_tracer_alone(void **state)
{
	const struct child *child = *state;
	struct attach_stop *stop;
	char own_thread[64];
	pid_t tracer;

	assert_int_equal(attach_stop(&stop, child->pid, NULL, 0, NULL), 0);
	tracer = (pid_t)tracer_of(child->tids[0]);
	snprintf(own_thread, sizeof(own_thread), "/proc/self/task/%d", (int)tracer);
	if (access(own_thread, F_OK)) /* else Yama allows no process to be the tracer */
		assert_int_equal(getpgid(tracer), tracer);
	attach_resume(stop);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(others_do_not_wait_for_a_thread_without_a_cpu, start, end),
		cmocka_unit_test_setup_teardown(others_wait_for_a_parent, start_parent, end),
		cmocka_unit_test_setup_teardown(priorities_are_given_back, start, end),
		cmocka_unit_test_setup_teardown(a_thread_of_another_process_is_left_alone, start, end),
		cmocka_unit_test_setup_teardown(who_kills_the_tools_group_leaves_the_tracer_alone, start, end),
		cmocka_unit_test_setup_teardown(a_killed_tools_hurry_ends_with_the_next_stop, start, end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
