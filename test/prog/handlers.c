/*
 * The program's own use of signals, each in a known place: handlers within handlers, of the same signal too; its own
 * breakpoint, and faults that a handler repairs, steps over or jumps out of; waiting for signals in all the ways.
 */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/signalfd.h>
#include <sys/time.h>
#include <ucontext.h>

#include "cpu.h"
#include "truth.h"

static sigjmp_buf out;
static char *guarded;
static volatile sig_atomic_t handled, ticks;
static int feed[2];

TRACED static void leaf(int x)
{
	TRUTH();
	handled += x;
}

TRACED static void again(int signal)
{
	TRUTH();
	static volatile sig_atomic_t depth;

	if (++depth % 4)
		raise(signal);
	leaf(1);
}

TRACED static void and_next(int signal)
{
	TRUTH();
	leaf(1);
	if (signal < SIGRTMIN + 3)
		raise(signal + 1);
	leaf(1);
}

TRACED static void noted(int signal)
{
	TRUTH();
	leaf(1);
}

TRACED static void trapped(int signal, siginfo_t *info, void *context)
{
	TRUTH();
	leaf(100);
	if (info->si_code != SI_TKILL)
		cpu_skip(context, CPU_BREAKPOINT_LENGTH);
}

TRACED static void jumping(int signal)
{
	TRUTH();
	leaf(10);
	siglongjmp(out, signal);
}

TRACED static void repairing(int signal, siginfo_t *info, void *context)
{
	TRUTH();
	leaf(info->si_addr == guarded);
	mprotect(guarded, 4096, PROT_READ | PROT_WRITE);
}

TRACED static void stepping_over(int signal, siginfo_t *info, void *context)
{
	TRUTH();
	leaf(1);
	cpu_skip(context, CPU_ILLEGAL_LENGTH);
}

UNTRACED static void handle(int signal, void (*handler)(int), int flags)
{
	struct sigaction action = {.sa_handler = handler, .sa_flags = flags};

	sigaction(signal, &action, NULL);
}

TRACED static void nesting(void)
{
	TRUTH();
	handle(SIGUSR1, again, SA_NODEFER);
	raise(SIGUSR1);
	for (int i = 0; i < 4; i++)
		handle(SIGRTMIN + i, and_next, 0);
	raise(SIGRTMIN);
}

TRACED static void several_at_once(void)
{
	TRUTH();
	sigset_t all, before;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	for (int i = 3; i >= 0; i--)
		raise(SIGRTMIN + i);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
}

TRACED static void breakpoints(void)
{
	TRUTH();
	struct sigaction action = {.sa_sigaction = trapped, .sa_flags = SA_SIGINFO};

	sigaction(SIGTRAP, &action, NULL);
	CPU_BREAKPOINT();
	leaf(1);
	raise(SIGTRAP);
	CPU_BREAKPOINT();
}

TRACED static long divide(volatile long by)
{
	TRUTH();
	return cpu_divide(by);
}

TRACED static void past_the_end(void)
{
	TRUTH();
	FILE *file = tmpfile();
	volatile char *map = mmap(NULL, 4096, PROT_READ, MAP_SHARED, fileno(file), 0);

	leaf(map[0]);
}

TRACED static void null_access(int depth)
{
	TRUTH();
	if (depth)
		null_access(depth - 1);
	else
		*(volatile char *)16 = 1;
	leaf(1);
}

TRACED static void jump_out(int what)
{
	TRUTH();
	if (!sigsetjmp(out, 1)) {
		if (what == SIGFPE)
			divide(0);
		else if (what == SIGBUS)
			past_the_end();
		else
			null_access(3);
	} else {
		TRUTH_LANDED();
	}
	leaf(1);
}

TRACED static void faults(void)
{
	TRUTH();
	struct sigaction action = {.sa_sigaction = repairing, .sa_flags = SA_SIGINFO};

	guarded = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	sigaction(SIGSEGV, &action, NULL);
	*(volatile char *)guarded = 1;
	action.sa_sigaction = stepping_over;
	sigaction(SIGILL, &action, NULL);
	CPU_ILLEGAL();
	handle(SIGFPE, jumping, 0);
	handle(SIGBUS, jumping, 0);
	handle(SIGSEGV, jumping, SA_NODEFER);
	jump_out(SIGFPE);
	jump_out(SIGBUS);
	jump_out(SIGSEGV);
	jump_out(SIGSEGV);
}

/* All signals are blocked, but those that the kernel forces. */
TRACED static void *waits(void *unused)
{
	TRUTH();
	sigset_t set, all;
	struct signalfd_siginfo info;
	struct pollfd polled = {.events = POLLIN};

	sigemptyset(&set);
	sigaddset(&set, SIGUSR2);
	raise(SIGUSR2);
	leaf(sigwaitinfo(&set, NULL) == SIGUSR2);
	polled.fd = signalfd(-1, &set, SFD_CLOEXEC);
	raise(SIGUSR2);
	leaf(poll(&polled, 1, -1));
	leaf(read(polled.fd, &info, sizeof(info)) == sizeof(info));
	close(polled.fd);
	raise(SIGUSR2);
	sigfillset(&all);
	sigdelset(&all, SIGUSR2);
	leaf(sigsuspend(&all) == -1 && errno == EINTR);
	raise(SIGUSR2);
	polled.fd = -1;
	leaf(ppoll(&polled, 1, NULL, &all) == -1 && errno == EINTR);
	return NULL;
}

TRACED static void waiting(void)
{
	TRUTH();
	sigset_t all, before;
	pthread_t thread;

	handle(SIGUSR2, noted, 0);
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	pthread_create(&thread, NULL, waits, NULL);
	pthread_join(thread, NULL);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
}

/* Not in the log: how often it runs is not known. */
TRACED static void tick(int signal)
{
	if (!ticks++)
		(void)!write(feed[1], "x", 1);
}

UNTRACED static void tick_every(long us)
{
	struct itimerval timer = {{0, us}, {0, us}};

	setitimer(ITIMER_REAL, &timer, NULL);
}

/* A read is interrupted, or goes on after the handler. */
TRACED static void interrupted(void)
{
	TRUTH();
	char byte;

	if (pipe(feed))
		_exit(97);
	handle(SIGALRM, tick, SA_RESTART);
	tick_every(1000);
	leaf(read(feed[0], &byte, 1) == 1);
	handle(SIGALRM, tick, 0);
	leaf(read(feed[0], &byte, 1) == -1 && errno == EINTR);
	tick_every(0);
}

int main(void)
{
	TRUTH();
	nesting();
	several_at_once();
	breakpoints();
	faults();
	waiting();
	interrupted();
	printf("handled %d\n", (int)handled);
	return 0;
}
