/*
 * The signals that the tool takes in its own way while it records, and that
 * the command gets as they were.
 *
 * ^C is the program's, which has it from the terminal; the tool goes on until
 * the program has ended.  SIGTERM was sent to the tool alone and is passed on.
 * A second one of either ends the recording; of a process that was attached to, or when the program has ended and
 * others run on which it has left, the first.  SIGHUP, of a terminal that is gone, ends it at once: the program has it
 * from the terminal, and may choose to go on.
 *
 * A command is in the tool's process group.  What it sends to that group is not for the tool (host/sender.h).  SIGUSR1
 * and its like, which a shell may send to the group (`kill -USR1 %1`, for dd's progress), are not either: they would
 * end the tool and leave the program alone.
 *
 * A pipe or a file that takes no more is an error of write() like any other.  Context: host, the server thread.
 */
#include <signal.h>

#include <host/sender.h>

#include "session.h"

/* Signal handlers have no other place to write to. */
static volatile sig_atomic_t interrupts, terminations, hangups, has_command;

static void on_end(int number, siginfo_t *info, void *context)
{
	(void)context;
	if (sender_is_descendant(info))
		return;
	if (number == SIGTERM)
		terminations++;
	else if (number == SIGHUP)
		hangups++;
	else
		interrupts++;
}

static void on_other(int number, siginfo_t *info, void *context)
{
	(void)context;
	if (has_command || sender_is_descendant(info))
		return;
	signal(number, SIG_DFL);
	raise(number); /* comes when this handler has returned */
}

/* Fill in the action that the tool takes on a signal while it records.  False: the tool leaves that signal alone. */
static bool choose(int number, struct sigaction *action)
{
	*action = (struct sigaction){.sa_flags = SA_SIGINFO};
	/* A handler that another one interrupts between its load and its store would lose one of the two. */
	sigfillset(&action->sa_mask);
	switch (number) {
	case SIGINT:
	case SIGQUIT:
	case SIGTERM:
	case SIGHUP:
		action->sa_sigaction = on_end;
		return true;
	case SIGPIPE:
	case SIGXFSZ:
		action->sa_flags = 0;
		action->sa_handler = SIG_IGN;
		return true;
	case SIGUSR1:
	case SIGUSR2:
	case SIGALRM:
	case SIGVTALRM:
	case SIGPROF:
	case SIGIO:
	case SIGPWR:
	case SIGSTKFLT:
		break;
	default:
		if (number < SIGRTMIN || number > SIGRTMAX)
			return false;
	}
	action->sa_flags |= SA_RESTART;
	action->sa_sigaction = on_other;
	return true;
}

void signals_take(struct session *session)
{
	struct sigaction action;

	interrupts = 0;
	terminations = 0;
	hangups = 0;
	has_command = !session->options->pid_count;
	for (int number = 1; number < SESSION_SIGNALS; number++) {
		if (!choose(number, &action))
			continue;
		sigaction(number, NULL, &session->inherited.actions[number]);
		/* A signal that was ignored before, as in a shell's background job, stays ignored. */
		if (session->inherited.actions[number].sa_handler != SIG_IGN)
			sigaction(number, &action, NULL);
	}
}

void signals_give_back(const struct session *session)
{
	struct sigaction action;

	for (int number = 1; number < SESSION_SIGNALS; number++)
		if (choose(number, &action))
			sigaction(number, &session->inherited.actions[number], NULL);
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
