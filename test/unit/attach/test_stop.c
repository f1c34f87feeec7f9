/*
 * A thread that does not get to run: the other threads do not wait for it for long (host/attach/stop.c), and the
 * threads whose priority a stop raised get the old one back (hurry.c).
 *
 * ptrace() is wrapped: a request to the slow thread that it stop arrives only when the other thread has been let go,
 * as if there were no CPU for it until then.  No time is asserted: a tool that holds the other thread until the slow
 * one has stopped would do that until the patience here is over.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <libelf.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <calltap/abi/control.h>
#include <host/attach/impl.h>
#include <host/yama.h>

#define SLOW_TRIES  3u /* tries in which the slow thread is slow */
#define PATIENCE_NS 1000000000u
#define AGENTS_NS   1500000000u /* the tracer waits for an agent for longer */

long __real_ptrace(enum __ptrace_request request, pid_t pid, void *address, void *data);
long __wrap_ptrace(enum __ptrace_request request, pid_t pid, void *address, void *data);

static pid_t slow, other;
static unsigned slow_tries, released, never_released;
static unsigned refusals; /* of the next requests to seize a thread */
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
	if (request == PTRACE_SEIZE && refusals) {
		refusals--;
		errno = EIO;
		return -1;
	}
	if (pid == slow && asked_ns && request == PTRACE_GETSIGINFO)
		look_for_release();
	return __real_ptrace(request, pid, address, data);
}

/* Memory of the child's two threads and of the test's tools. */
static struct shared {
	unsigned long rounds[2]; /* rounds of each thread of the child; atomic */
	bool over;		 /* the second one is to end; atomic */
	bool stopped;		 /* the tool has stopped the child; atomic */
} * shared;

static void *spin(void *rounds)
{
	while (!__atomic_load_n(&shared->over, __ATOMIC_RELAXED) || rounds == &shared->rounds[0])
		__atomic_add_fetch((unsigned long *)rounds, 1, __ATOMIC_RELAXED);
	return NULL;
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
	*shared = (struct shared){0};
	child.pid = fork();
	if (!child.pid) {
		pthread_t thread;

		setpriority(PRIO_PROCESS, 0, 7); /* leave the CPU to other tests */
		if (pthread_create(&thread, NULL, spin, &shared->rounds[1]))
			_exit(3);
		if (with_child)
			fork_sleeper();
		spin(&shared->rounds[0]);
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

/* The thread that is not stopped gets its priority back, and so does our own. */
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

/* A process may name any thread in its memory. */
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

/* The killed tool's stop never ended: the next stop gives the priorities back. */
/* Code as an injection leaves it in the process. */
static void leave_code(pid_t pid, struct slack *slack)
{
	const struct native_errand errand = {0};
	struct native_regs regs = {0};
	unsigned char code[NATIVE_CODE_MAX];
	struct space space;
	struct libs libs;
	char path[64];
	int memory;

	elf_version(EV_CURRENT);
	assert_int_equal(space_read(&space, pid), 0);
	assert_int_equal(libs_read(&libs, pid, &space, NULL), 0);
	assert_int_equal(slack_find(slack, pid, &space, &libs), 0);
	native_code_make(code, slack->address, &errand, &regs);
	snprintf(path, sizeof(path), "/proc/%d/mem", (int)pid);
	memory = open(path, O_WRONLY); /* writes to code, too */
	assert_int_equal(pwrite(memory, code, slack->size, (off_t)slack->address), slack->size);
	close(memory);
	assert_false(slack_is_free(pid, slack));
	libs_free(&libs);
	space_free(&space);
}

static void code_is_taken_back_though_stops_fail(void **state)
{
	struct child *child = *state;
	struct slack slack;

	leave_code(child->pid, &slack);
	refusals = 3;
	assert_int_equal(attach_slack_clean(child->pid), 0);
	assert_int_equal(refusals, 0);
	assert_true(slack_is_free(child->pid, &slack));
}

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

/* Else Yama lets no process but the tool itself trace: what happens to the tool happens to its tracer. */
static void need_a_tracer_of_its_own(void)
{
	if (geteuid() && yama_scope(1))
		skip();
}

/* kill -9 of a group would leave EINTR in the call of a thread that has not stopped yet. */
static void who_kills_the_tools_group_leaves_the_tracer_alone(void **state)
{
	const struct child *child = *state;
	struct attach_stop *stop;
	pid_t tracer;

	need_a_tracer_of_its_own();
	assert_int_equal(attach_stop(&stop, child->pid, NULL, 0, NULL), 0);
	tracer = (pid_t)tracer_of(child->tids[0]);
	assert_int_equal(getpgid(tracer), tracer);
	attach_resume(stop);
}

/* A tool in a process of its own, that stops the child's first thread, or both. */
static pid_t start_tool(const struct child *child, size_t except_count, void (*then)(struct attach_stop *stop))
{
	const pid_t except = child->tids[child->tids[0] == child->pid];
	struct attach_stop *stop;
	pid_t tool = fork();

	if (tool)
		return tool;
	prctl(PR_SET_PDEATHSIG, SIGKILL); /* a stopped one would be left, and its tracer would hold the child */
	if (attach_stop(&stop, child->pid, &except, except_count, NULL))
		_exit(3);
	__atomic_store_n(&shared->stopped, true, __ATOMIC_RELEASE);
	then(stop);
	_exit(0);
}

static void wait_forever(struct attach_stop *stop)
{
	for (;;)
		pause();
}

static void be_stopped(struct attach_stop *stop)
{
	raise(SIGSTOP);
	if (attach_pin(stop))
		_exit(4);
	attach_resume(stop);
}

/* The agent's connection: the tool's end and the agent's. */
static int connection[2];

/* The tool is stopped while it waits for an answer, and has it when it goes on. */
static void be_stopped_with_a_question(struct attach_stop *stop)
{
	struct calltap_msg answer;

	if (!attach_pin(stop))
		_exit(4);
	attach_asked(stop, connection[0], CALLTAP_MSG_APPLY_DONE);
	raise(SIGSTOP);
	if (recv(connection[0], &answer, sizeof(answer), 0) != sizeof(answer) || answer.type != CALLTAP_MSG_APPLY_DONE)
		_exit(5);
	attach_unpin(stop);
	if (!attach_is_lost(stop) || attach_pin(stop))
		_exit(6);
	attach_resume(stop);
}

static unsigned long rounds_of(unsigned thread)
{
	return __atomic_load_n(&shared->rounds[thread], __ATOMIC_ACQUIRE);
}

static void wait_for_rounds(unsigned thread)
{
	for (unsigned long before = rounds_of(thread); rounds_of(thread) == before;)
		usleep(1000);
}

/* The agent writes to text, or to stacks, and does not know that the tool has been killed. */
static void threads_stay_stopped_for_an_agent_that_is_at_work(void **state)
{
	const struct child *child = *state;
	unsigned long before, after;
	uint64_t killed_ns;
	pid_t tool;

	need_a_tracer_of_its_own();
	tool = start_tool(child, 1, wait_forever);
	while (!__atomic_load_n(&shared->stopped, __ATOMIC_ACQUIRE))
		usleep(1000);
	before = rounds_of(0);
	killed_ns = now_ns();
	kill(tool, SIGKILL);
	assert_int_equal(waitpid(tool, NULL, 0), tool);
	usleep(200000); /* the tracer looks more often whether the tool is there */
	wait_for_rounds(1);
	after = rounds_of(0);
	if (now_ns() - killed_ns < AGENTS_NS)
		assert_true(after == before);
	__atomic_store_n(&shared->over, true, __ATOMIC_RELEASE);
	wait_for_rounds(0);
}

/* The threads of the child run while the tool is stopped, which then finds all as it shall be. */
static void run_on_and_end(pid_t tool)
{
	int status;

	wait_for_rounds(0);
	wait_for_rounds(1);
	kill(tool, SIGCONT);
	assert_int_equal(waitpid(tool, &status, 0), tool);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 0);
}

static void threads_run_on_while_the_tool_is_stopped(void **state)
{
	const struct child *child = *state;
	pid_t tool;
	int status;

	need_a_tracer_of_its_own();
	tool = start_tool(child, 0, be_stopped);
	assert_int_equal(waitpid(tool, &status, WUNTRACED), tool);
	assert_true(WIFSTOPPED(status));
	run_on_and_end(tool);
}

/* The agent is at work until its answer is there. */
static void threads_run_on_when_a_stopped_tool_has_its_answer(void **state)
{
	const struct calltap_msg early = {CALLTAP_MSG_CLOCK_TOLD, sizeof(early)},
				 answer = {CALLTAP_MSG_APPLY_DONE, sizeof(answer)};
	const struct child *child = *state;
	struct calltap_msg first;
	unsigned long before;
	pid_t tool;

	need_a_tracer_of_its_own();
	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, connection), 0);
	tool = start_tool(child, 0, be_stopped_with_a_question);
	/* waitpid() tells of a stop of all threads, and one waits for the tracer, as with vfork(). */
	while (proc_state(tool, NULL) != 'T')
		usleep(1000);
	before = rounds_of(0);
	usleep(300000); /* the tracer looks more often whether the tool is stopped */
	assert_int_equal(rounds_of(0), before);
	assert_int_equal(send(connection[1], &early, sizeof(early), 0), sizeof(early));
	usleep(300000);
	assert_int_equal(rounds_of(0), before);
	assert_int_equal(recv(connection[0], &first, sizeof(first), 0), sizeof(first));
	assert_int_equal(send(connection[1], &answer, sizeof(answer), 0), sizeof(answer));
	run_on_and_end(tool);
	close(connection[0]);
	close(connection[1]);
}

static void *stop_too(void *pid)
{
	static int ret;
	struct attach_stop *stop;

	ret = attach_stop(&stop, *(const pid_t *)pid, NULL, 0, NULL);
	attach_resume(stop);
	return &ret;
}

/* The release, and a trigger's look at the stacks. */
static void two_stops_of_a_tool_take_turns(void **state)
{
	struct child *child = *state;
	struct attach_stop *stop;
	pthread_t thread;
	void *ret;

	assert_int_equal(attach_stop(&stop, child->pid, NULL, 0, NULL), 0);
	assert_int_equal(pthread_create(&thread, NULL, stop_too, &child->pid), 0);
	usleep(1000000); /* a stop waits less long than this for another tool's stop */
	attach_resume(stop);
	assert_int_equal(pthread_join(thread, &ret), 0);
	assert_int_equal(*(const int *)ret, 0);
}

/* A process that seizes the second thread, and lets it run; it has ended after a second and a half. */
static pid_t start_tracer_named(const struct child *child, const char *name)
{
	pid_t tracer = fork();

	if (!tracer) {
		prctl(PR_SET_NAME, name);
		if (__real_ptrace(PTRACE_SEIZE, child->tids[1], NULL, NULL))
			_exit(1);
		usleep(1500000);
		_exit(0);
	}
	while (!tracer_of(child->tids[1]))
		usleep(1000);
	return tracer;
}

/* `calltap detach` takes away what a killed tool had left, and `calltap attach` comes meanwhile. */
static void a_stop_outlasts_another_calltaps(void **state)
{
	const struct child *child = *state;
	struct calltap_diag diag = {0};
	struct attach_stop *stop;
	pid_t tracer;

	tracer = start_tracer_named(child, "calltap");
	assert_int_equal(attach_stop(&stop, child->pid, NULL, 0, &diag), 0);
	attach_resume(stop);
	assert_int_equal(waitpid(tracer, NULL, 0), tracer);

	tracer = start_tracer_named(child, "a debugger");
	assert_int_equal(attach_stop(&stop, child->pid, NULL, 0, &diag), -EBUSY);
	assert_non_null(strstr(diag.text, "(a debugger)"));
	kill(tracer, SIGKILL);
	assert_int_equal(waitpid(tracer, NULL, 0), tracer);
}

static int share(void **state)
{
	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	return shared == MAP_FAILED ? -1 : 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(others_do_not_wait_for_a_thread_without_a_cpu, start, end),
		cmocka_unit_test_setup_teardown(others_wait_for_a_parent, start_parent, end),
		cmocka_unit_test_setup_teardown(priorities_are_given_back, start, end),
		cmocka_unit_test_setup_teardown(a_thread_of_another_process_is_left_alone, start, end),
		cmocka_unit_test_setup_teardown(who_kills_the_tools_group_leaves_the_tracer_alone, start, end),
		cmocka_unit_test_setup_teardown(threads_stay_stopped_for_an_agent_that_is_at_work, start, end),
		cmocka_unit_test_setup_teardown(threads_run_on_while_the_tool_is_stopped, start, end),
		cmocka_unit_test_setup_teardown(threads_run_on_when_a_stopped_tool_has_its_answer, start, end),
		cmocka_unit_test_setup_teardown(two_stops_of_a_tool_take_turns, start, end),
		cmocka_unit_test_setup_teardown(a_stop_outlasts_another_calltaps, start, end),
		cmocka_unit_test_setup_teardown(code_is_taken_back_though_stops_fail, start, end),
		cmocka_unit_test_setup_teardown(a_killed_tools_hurry_ends_with_the_next_stop, start, end),
	};

	return cmocka_run_group_tests(tests, share, NULL);
}
