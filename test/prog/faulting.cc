/*
 * Exceptions thrown by a signal's handler, out of the instruction that faulted (-fnon-call-exceptions), on the same
 * stack and, with the argument, from a signal stack: through the handler's frame and the frames that it interrupted.
 * BY_CALL: the signal is raised by a call, for compilers that know no other exceptions.
 */
#include <signal.h>
#include <sys/mman.h>

#include "cpu.h"
#include "truth.h"

struct Fault {
	int signal;
};

static int *forbidden;
/* The compiler must not know that this is raise(), which is said to throw nothing. */
static int (*volatile raises)(int) = raise;

TRACED static void handler(int signal)
{
	TRUTH();
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, signal);
	sigprocmask(SIG_UNBLOCK, &set, nullptr);
	throw Fault{signal};
}

TRACED static int touch(int depth)
{
	TRUTH();
	if (depth)
		return touch(depth - 1) + 1;
#ifdef BY_CALL
	return raises(SIGSEGV);
#else
	return *(volatile int *)forbidden;
#endif
}

TRACED static int divide(int by)
{
	TRUTH();
#ifdef BY_CALL
	return by ? 100 / by : raises(SIGFPE);
#else
	return by || CPU_DIVISION_TRAPS ? 100 / *(volatile int *)&by : raises(SIGFPE);
#endif
}

TRACED static int caught(int (*function)(int), int argument)
{
	TRUTH();
	try {
		return function(argument);
	} catch (Fault &fault) {
		return -fault.signal;
	}
}

int main(int argc, char **)
{
	TRUTH();
	static char memory[1 << 16];
	stack_t stack = {};
	struct sigaction action = {};
	int sum = 0;

	stack.ss_sp = memory;
	stack.ss_size = sizeof(memory);
	sigaltstack(&stack, nullptr);
	action.sa_handler = handler;
	action.sa_flags = argc > 1 ? SA_ONSTACK : 0;
	sigaction(SIGSEGV, &action, nullptr);
	sigaction(SIGFPE, &action, nullptr);
	forbidden = (int *)mmap(nullptr, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	for (int i = 0; i < 4; i++)
		sum = sum * 10 + caught(touch, i) + caught(divide, i / 2);
	printf("%d\n", sum);
	return 0;
}
