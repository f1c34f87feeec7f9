/*
 * The signals that the tool takes in its own way while it records, and that
 * the command gets as they were.
 *
 * ^C is the program's, which has it from the terminal; the tool goes on until
 * the program has ended.  SIGTERM was sent to the tool alone and is passed on.
 * A second one of either ends the recording; of a process that was attached to, the first.  SIGHUP, of a terminal that
 * is gone, ends it at once: the program has it from the terminal, and may choose to go on.  A pipe or a file that takes
 * no more is an error of write() like any other.  Context: host, the server thread.
 */
#include <signal.h>

#include "session.h"

/* Signal handlers have no other place to write to. */
static volatile sig_atomic_t interrupts, terminations, hangups;

static void on_interrupt(int number)
{
	if (number == SIGTERM)
		terminations++;
	else if (number == SIGHUP)
		hangups++;
	else
		interrupts++;
}

static const struct own {
	int number;
	void (*handler)(int);
} own[SESSION_SIGNALS] = {
	{SIGINT, on_interrupt}, {SIGQUIT, on_interrupt}, {SIGTERM, on_interrupt},
	{SIGHUP, on_interrupt}, {SIGPIPE, SIG_IGN},	 {SIGXFSZ, SIG_IGN},
};

void signals_take(struct session *session)
{
	interrupts = 0;
	terminations = 0;
	hangups = 0;
	for (unsigned i = 0; i < SESSION_SIGNALS; i++) {
		struct sigaction action = {.sa_handler = own[i].handler};

		/* A handler that another one interrupts between its load and its store would lose one of the two. */
		sigfillset(&action.sa_mask);
		sigaction(own[i].number, NULL, &session->inherited.actions[i]);
		/* A signal that was ignored before, as in a shell's background job, stays ignored. */
		if (session->inherited.actions[i].sa_handler != SIG_IGN)
			sigaction(own[i].number, &action, NULL);
	}
}

void signals_give_back(const struct session *session)
{
	for (unsigned i = 0; i < SESSION_SIGNALS; i++)
		sigaction(own[i].number, &session->inherited.actions[i], NULL);
}

bool signals_ask_end(void)
{
	return terminations != 0;
}

bool signals_hung_up(void)
{
	return hangups != 0;
}

bool signals_any(void)
{
	return interrupts || terminations || hangups;
}

bool record_was_signalled(bool command)
{
	return terminations || hangups || (!command && interrupts);
}

bool signals_insist(void)
{
	return interrupts > 1 || terminations > 1 || hangups;
}

unsigned signals_count(void)
{
	return (unsigned)(interrupts + terminations + hangups);
}
