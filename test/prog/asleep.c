/*
 * Threads that sleep in system calls which are among the first instructions of their functions, at each place there:
 * behind an attach they sleep in a block, behind a detach in the function again (test/stress/attaches.py).
 *
 * asleep [KIND...]: kinds are `reads`, `waits` (until the end), `naps`, `polls`; all but `waits` by default; `signals`
 * sends signals to all threads.
 * No call may return what it would not return by itself, nor be made once more or once less.  Prints "ready PID" and,
 * after SIGTERM, "all was well", and ends with 42.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define STATUS	   42
#define FUNCTIONS  6
#define NAP_NS	   20000000
#define POLL_MS	   15
#define THREAD_MAX 64

/* As system calls: the number in rax, arguments in rdi, rsi, rdx, r10. */
#define FUNCTION(name, before, after)                                                                                  \
	__asm__(".pushsection .text\n.p2align 4\n.globl " name "\n.type " name ", @function\n" name                    \
		":\n.cfi_startproc\n" before "syscall\n" after "ret\n.cfi_endproc\n.size " name ", . - " name          \
		"\n.popsection\n")

#define MOVE "mov %rax, %rax\n" /* 3 bytes */
FUNCTION("call_0", "", MOVE MOVE);
FUNCTION("call_1", "nop\n", MOVE MOVE);
FUNCTION("call_2", "mov %edx, %edx\n", MOVE MOVE);
FUNCTION("call_3", MOVE, MOVE);
FUNCTION("call_4", MOVE "nop\n", MOVE);
FUNCTION("call_6", MOVE MOVE, MOVE);
extern char call_0[], call_1[], call_2[], call_3[], call_4[], call_6[];

static char *const functions[FUNCTIONS] = {call_0, call_1, call_2, call_3, call_4, call_6};

static bool over, signals;
static unsigned long rounds;

/* Make the call, and see to it that no other register changes. */
static long make_call(const char *function, long number, long a, const void *b, long c, long d)
{
	register long r10 __asm__("r10") = d;
	register unsigned long r12 __asm__("r12") = 0x1212121212121212, r13 __asm__("r13") = 0x1313131313131313;
	register long r8 __asm__("r8") = 0x0808080808080808, r9 __asm__("r9") = 0x0909090909090909;
	long result = number;

	/* Not the red zone: the call writes a return address. */
	__asm__ volatile("sub $128, %%rsp\ncall *%[function]\nadd $128, %%rsp"
			 : "+a"(result), "+r"(r10), "+r"(r12), "+r"(r13), "+r"(r8), "+r"(r9)
			 : [function] "b"(function), "D"(a), "S"(b), "d"(c)
			 : "rcx", "r11", "memory", "cc");
	if (r10 != d || r12 != 0x1212121212121212 || r13 != 0x1313131313131313 || r8 != 0x0808080808080808 ||
	    r9 != 0x0909090909090909) {
		printf("a register changed\n");
		_exit(3);
	}
	return result;
}

static void fail(const char *what, long result, unsigned place)
{
	printf("%s: %ld, function %u\n", what, result, place);
	fflush(stdout);
	_exit(4);
}

static unsigned long now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (unsigned long)now.tv_sec * 1000000000 + (unsigned long)now.tv_nsec;
}

struct reader {
	int pipe[2];
	unsigned place;
	bool is_fed;
};

static void *reads(void *argument)
{
	const struct reader *reader = argument;
	unsigned char expected = 0, got;

	while (!__atomic_load_n(&over, __ATOMIC_ACQUIRE)) {
		long result = make_call(functions[reader->place], SYS_read, reader->pipe[0], &got, 1, 7);

		if (!result)
			break;
		if (result != 1 || got != expected++)
			fail("read", result, reader->place);
		__atomic_add_fetch(&rounds, 1, __ATOMIC_RELAXED);
	}
	return NULL;
}

static void *naps(void *argument)
{
	unsigned place = (unsigned)(size_t)argument;
	const struct timespec nap = {0, NAP_NS};
	struct timespec rest;

	while (!__atomic_load_n(&over, __ATOMIC_ACQUIRE)) {
		unsigned long began = now_ns();
		long result = make_call(functions[place], SYS_nanosleep, (long)&nap, &rest, 0, 0);

		if (result == -EINTR && signals)
			continue;
		if (result || now_ns() - began < NAP_NS)
			fail("nanosleep", result, place);
		__atomic_add_fetch(&rounds, 1, __ATOMIC_RELAXED);
	}
	return NULL;
}

static int polled[FUNCTIONS]; /* descriptors; all are open before "ready" is printed */

static void *polls(void *argument)
{
	unsigned place = (unsigned)(size_t)argument;
	struct epoll_event event;
	int fd = polled[place];

	while (!__atomic_load_n(&over, __ATOMIC_ACQUIRE)) {
		unsigned long began = now_ns();
		long result = make_call(functions[place], SYS_epoll_wait, fd, &event, 1, POLL_MS);

		if (result == -EINTR && signals)
			continue;
		if (result || now_ns() - began < POLL_MS * 1000000ul - 1000000)
			fail("epoll_wait", result, place);
		__atomic_add_fetch(&rounds, 1, __ATOMIC_RELAXED);
	}
	return NULL;
}

static pthread_t threads[THREAD_MAX];
static unsigned thread_count;
static struct reader readers[2 * FUNCTIONS];
static unsigned reader_count;

static void start(void *(*work)(void *), void *argument)
{
	if (pthread_create(&threads[thread_count++], NULL, work, argument))
		_exit(5);
}

static void start_kind(const char *kind)
{
	for (unsigned i = 0; i < FUNCTIONS; i++) {
		if (!strcmp(kind, "reads") || !strcmp(kind, "waits")) {
			struct reader *reader = &readers[reader_count++];

			reader->place = i;
			reader->is_fed = !strcmp(kind, "reads");
			if (pipe(reader->pipe))
				_exit(5);
			start(reads, reader);
		} else if (!strcmp(kind, "naps")) {
			start(naps, (void *)(size_t)i);
		} else if (!strcmp(kind, "polls")) {
			polled[i] = epoll_create1(EPOLL_CLOEXEC);
			if (polled[i] < 0)
				_exit(5);
			start(polls, (void *)(size_t)i);
		}
	}
	signals |= !strcmp(kind, "signals");
}

static void do_nothing(int signal)
{
	(void)signal;
}

static void end(int signal)
{
	(void)signal;
	__atomic_store_n(&over, true, __ATOMIC_RELEASE);
}

/* Feed the readers, and send signals, until the end. */
static void feed(void)
{
	const struct timespec pause = {0, 1000000};

	for (unsigned long turn = 0; !__atomic_load_n(&over, __ATOMIC_ACQUIRE); turn++) {
		unsigned char value = (unsigned char)(turn / 32);

		nanosleep(&pause, NULL);
		for (unsigned i = 0; i < reader_count && turn % 32 == 0; i++)
			if (readers[i].is_fed && write(readers[i].pipe[1], &value, 1) != 1)
				_exit(6);
		for (unsigned i = 0; signals && i < thread_count; i++)
			pthread_kill(threads[i], SIGUSR1);
	}
}

int main(int argc, char **argv)
{
	const struct sigaction nothing = {.sa_handler = do_nothing, .sa_flags = SA_RESTART}, ends = {.sa_handler = end};
	static const char *const all[] = {"reads", "naps", "polls"};

	sigset_t ending;

	sigaction(SIGUSR1, &nothing, NULL);
	sigaction(SIGTERM, &ends, NULL);
	/* The kernel may give SIGTERM to any thread that lets it, and that thread's call returns -EINTR. */
	sigemptyset(&ending);
	sigaddset(&ending, SIGTERM);
	pthread_sigmask(SIG_BLOCK, &ending, NULL);
	for (int i = 1; i < argc; i++)
		signals |= !strcmp(argv[i], "signals");
	for (int i = 0; i < (argc > 1 ? argc - 1 : 3); i++)
		start_kind(argc > 1 ? argv[i + 1] : all[i]);
	pthread_sigmask(SIG_UNBLOCK, &ending, NULL);
	printf("ready %d\n", (int)getpid());
	fflush(stdout);
	feed();
	for (unsigned i = 0; i < reader_count; i++)
		close(readers[i].pipe[1]);
	for (unsigned i = 0; i < thread_count; i++)
		pthread_join(threads[i], NULL);
	printf(rounds ? "all was well\n" : "no call was made\n");
	return STATUS;
}
