/*
 * Waits in a call for a signal that is handled, in the way that the first
 * argument says, and says what the call came back with.  A signal that arrives
 * while the thread is elsewhere has to end the call all the same, or not, just
 * as if it had been there.  With SA_RESTART a byte on standard input ends it.
 */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <time.h>
#include <unistd.h>

static volatile sig_atomic_t handled;

static void handle(int signal)
{
	handled++;
}

static long wait_for(const char *way)
{
	struct timespec pause = {20, 0};
	struct epoll_event event;
	sigset_t none;
	char byte;

	sigemptyset(&none);
	if (!strncmp(way, "read", 4))
		return read(0, &byte, 1);
	if (!strcmp(way, "epoll_wait"))
		return epoll_wait(epoll_create1(0), &event, 1, 20000);
	if (!strcmp(way, "epoll_pwait"))
		return epoll_pwait(epoll_create1(0), &event, 1, 20000, &none);
	if (!strcmp(way, "ppoll"))
		return ppoll(NULL, 0, &pause, &none);
	if (!strcmp(way, "poll"))
		return poll(NULL, 0, 20000);
	if (!strcmp(way, "nanosleep"))
		return nanosleep(&pause, &pause);
	if (!strcmp(way, "sigsuspend"))
		return sigsuspend(&none);
	return pause.tv_sec;
}

int main(int argc, char **argv)
{
	const char *way = argc > 1 ? argv[1] : "";
	struct sigaction action = {.sa_handler = handle};
	sigset_t blocked;
	long ret;

	action.sa_flags = strstr(way, "restart") ? SA_RESTART : 0;
	sigaction(SIGUSR1, &action, NULL);
	/* The signal comes through in the call alone. */
	sigemptyset(&blocked);
	sigaddset(&blocked, SIGUSR1);
	if (!strcmp(way, "epoll_pwait") || !strcmp(way, "ppoll") || !strcmp(way, "sigsuspend"))
		sigprocmask(SIG_BLOCK, &blocked, NULL);
	setvbuf(stdout, NULL, _IOLBF, 0);
	printf("ready\n");
	ret = wait_for(way);
	printf("%ld %s handled %d\n", ret, ret < 0 ? (errno == EINTR ? "EINTR" : strerror(errno)) : "-", (int)handled);
	return 0;
}
