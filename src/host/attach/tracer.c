/*
 * The tracer (impl.h): a process that shares the tool's memory and outlives it.
 *
 * A thread that is stopped in a system call may have EINTR in its registers until that is mended: a tracer that is
 * killed just then would leave it.  So the tracer is no thread of the tool, but the vfork child of one.  That thread
 * sleeps as long as the child runs, which therefore can use its thread-local storage; and kill -9 of the tool, or of
 * its process group, does not reach the child, which finishes its work.  Context: host.
 */
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <host/thread.h>
#include <host/yama.h>

#include "impl.h"

#define STACK_SIZE (1u << 20)
#define ALARM_S	   10
#define FEW_FILES  4096 /* descriptors that are closed one by one, where the kernel (before 5.9) cannot close all */

/* The tool's pid, for the child; 0 = the tracer is a thread of the tool's. */
static __thread pid_t tool;

/*
 * A tool that is killed while another of its threads is in malloc() leaves a lock that the child may wait for: then the
 * alarm ends the child, and the kernel lets all threads go.
 */
static void set_alarm(void)
{
	alarm(ALARM_S);
}

bool tracer_is_alone(void)
{
	if (!tool)
		return false;
	set_alarm();
	return getppid() != tool;
}

bool tracer_is_process(void)
{
	return tool != 0;
}

void tracer_close_all(void)
{
	if (!syscall(SYS_close_range, 3, ~0u, 0))
		return;
	for (int fd = 3; fd < FEW_FILES; fd++)
		close(fd);
}

bool tracer_tool_is_stopped(void)
{
	char state = tool ? proc_state(tool, NULL) : 0;

	return state == 'T' || state == 't';
}

static int be_tracer(void *argument)
{
	struct tracer *tracer = argument;
	struct hurry own;
	sigset_t alarms;

	setpgid(0, 0); /* before it traces anybody */
	signal(SIGALRM, SIG_DFL);
	sigemptyset(&alarms);
	sigaddset(&alarms, SIGALRM);
	sigprocmask(SIG_UNBLOCK, &alarms, NULL);
	set_alarm();
	hurry_begin(&own, gettid()); /* ends with this process */
	tracer->result = tracer->work(tracer->context);
	_exit(0);
}

/*
 * Yama lets a user's process trace only what it has started: the command of `record` is the tool's child, not the
 * tracer process'.
 */
static bool may_be_process(void)
{
	return !geteuid() || !yama_scope(1);
}

static void *run(void *argument)
{
	struct tracer *tracer = argument;
	struct hurry own;
	pid_t child = -1;

	tool = 0;
	if (tracer->stack && may_be_process()) {
		tool = getpid();
		tracer->result = -EINTR;
		child = clone(be_tracer, tracer->stack + STACK_SIZE, CLONE_VM | CLONE_VFORK | CLONE_FILES, tracer);
	}
	if (child < 0) {
		tool = 0;
		hurry_begin(&own, gettid()); /* ends with this thread */
		tracer->result = tracer->work(tracer->context);
	}
	while (child >= 0 && waitpid(child, NULL, __WALL) < 0 && errno == EINTR)
		;
	__atomic_store_n(&tracer->over, true, __ATOMIC_RELEASE); /* pairs with await_done() of stop.c */
	return NULL;
}

int tracer_start(struct tracer *tracer, int (*work)(void *context), void *context)
{
	int ret;

	*tracer = (struct tracer){.work = work, .context = context};
	tracer->stack = mmap(NULL, STACK_SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
	if (tracer->stack == MAP_FAILED)
		tracer->stack = NULL;
	ret = thread_start(&tracer->thread, run, tracer);
	if (ret && tracer->stack)
		munmap(tracer->stack, STACK_SIZE);
	return ret;
}

int tracer_join(struct tracer *tracer)
{
	pthread_join(tracer->thread, NULL);
	if (tracer->stack)
		munmap(tracer->stack, STACK_SIZE);
	return tracer->result;
}

int tracer_run(int (*work)(void *context), void *context)
{
	struct tracer tracer;
	int ret = tracer_start(&tracer, work, context);

	return ret ? ret : tracer_join(&tracer);
}
