/*
 * Signals of a tool that has a terminal; see signals.h.  Context: host.
 */
#include <errno.h>
#include <signal.h>
#include <stddef.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <host/sender.h>

#include "signals.h"

/* State of the handlers. */
static const struct terminal *volatile in_use;
static int news_fd = -1;
static volatile sig_atomic_t resized, continued, stop, ended_by;

static void on_signal(int number, siginfo_t *info, void *context)
{
	uint64_t one = 1;
	int error = errno;

	(void)context;
	if (sender_is_descendant(info))
		return;
	if (number == SIGWINCH)
		resized = 1;
	else if (number == SIGCONT)
		continued = 1;
	else if (number == SIGTSTP)
		stop = 1;
	else
		ended_by = number;
	if (write(news_fd, &one, sizeof(one)) < 0)
		errno = error; /* the counter is full, so it is readable */
	errno = error;
}

static void on_crash(int number)
{
	if (in_use)
		terminal_give_back(in_use);
	signal(number, SIG_DFL);
	raise(number);
}

int terminal_signals_take(int *fd)
{
	static const int asked[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGWINCH, SIGCONT, SIGTSTP};
	static const int crashes[] = {SIGSEGV, SIGBUS, SIGABRT, SIGFPE, SIGILL};
	struct sigaction action = {.sa_sigaction = on_signal, .sa_flags = SA_RESTART | SA_SIGINFO};

	if (news_fd < 0)
		news_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (news_fd < 0)
		return -errno;
	*fd = news_fd;
	for (size_t i = 0; i < sizeof(asked) / sizeof(asked[0]); i++)
		sigaction(asked[i], &action, NULL);
	action = (struct sigaction){.sa_handler = on_crash, .sa_flags = SA_RESTART};
	for (size_t i = 0; i < sizeof(crashes) / sizeof(crashes[0]); i++)
		sigaction(crashes[i], &action, NULL);
	return 0;
}

void terminal_signals_of(const struct terminal *terminal)
{
	in_use = terminal;
}

static unsigned take_flag(volatile sig_atomic_t *flag, unsigned news)
{
	/* In one step: a signal in between two would be lost. */
	return __atomic_exchange_n(flag, 0, __ATOMIC_SEQ_CST) ? news : 0;
}

unsigned terminal_signals_news(void)
{
	eventfd_t count;

	if (eventfd_read(news_fd, &count))
		return 0;
	return take_flag(&resized, TERMINAL_NEWS_RESIZED) | take_flag(&continued, TERMINAL_NEWS_CONTINUED) |
	       take_flag(&stop, TERMINAL_NEWS_STOP) | (ended_by ? TERMINAL_NEWS_END : 0u);
}

void terminal_signals_stop(struct terminal *terminal)
{
	struct sigaction usual = {.sa_handler = SIG_DFL}, ours;

	terminal_leave(terminal);
	sigaction(SIGTSTP, &usual, &ours);
	raise(SIGTSTP);
	sigaction(SIGTSTP, &ours, NULL);
	continued = 0;
	terminal_retake(terminal);
}

unsigned terminal_signals_act(struct terminal *terminal)
{
	const unsigned news = terminal_signals_news();

	if (news & TERMINAL_NEWS_END)
		return news;
	if (news & TERMINAL_NEWS_STOP)
		terminal_signals_stop(terminal);
	else if (news & TERMINAL_NEWS_CONTINUED)
		terminal_retake(terminal);
	else if (news & TERMINAL_NEWS_RESIZED)
		terminal_resize(terminal);
	return news;
}

void terminal_signals_end(void)
{
	if (!ended_by)
		return;
	signal(ended_by, SIG_DFL);
	raise(ended_by);
}
