/*
 * The loop of a session's server thread: who calls in, what targets say, and
 * when it is over.
 *
 * Called by record_run(), and by who waits for one target in between.
 * Context: host, the server thread.
 */
#include <errno.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "session.h"

#define PROGRESS_MS 500
#define STRAYS_MS   10 /* how often to look whether the last processes have called in */
#define EVENTS	    32

/* Not merely stopped by our own ptrace, of which waitpid() would tell, too. */
static bool has_ended(pid_t pid)
{
	siginfo_t info = {0};

	return !waitid(P_PID, (id_t)pid, &info, WEXITED | WNOHANG | WNOWAIT) && info.si_pid &&
	       (info.si_code == CLD_EXITED || info.si_code == CLD_KILLED || info.si_code == CLD_DUMPED);
}

void session_forget_ending(struct session *session)
{
	if (session->ending.fd < 0)
		return;
	epoll_ctl(session->endpoint.epoll, EPOLL_CTL_DEL, session->ending.fd, NULL);
	close(session->ending.fd);
	session->ending.fd = -1;
}

/* How often the session was asked to end, by whom ever. */
static uint32_t asks(const struct session *session)
{
	return __atomic_load_n(&session->ending.asked, __ATOMIC_ACQUIRE) + signals_count();
}

static void reap_command(struct session *session)
{
	const uint32_t before = asks(session); /* whoever sees that the command has gone asks again behind this */

	if (!session->command || !has_ended(session->command) ||
	    waitpid(session->command, &session->result->wait_status, WNOHANG) != session->command)
		return;
	session_forget_ending(session);
	steer_forget(session, session->command);
	session->command = 0;
	session->ending.asked_before = before;
}

/* The process that the agent was put into last has ended: if its agent has called in, that is in the listener's queue.
 */
static void stop_awaiting(struct session *session)
{
	session_forget_ending(session);
	session->ending.awaited_ns = 0;
}

static uint32_t targets_left(const struct session *session)
{
	uint32_t left = 0;

	for (const struct target *target = session->targets; target; target = target->next)
		left += !target_is_drained(target) && !target->dormant;
	return left;
}

void session_handle(struct session *session, void *what)
{
	eventfd_t count;

	if (what == &session->endpoint.listener)
		targets_accept(session);
	else if (what == &session->command)
		reap_command(session);
	else if (what == &session->ending.awaited_ns)
		stop_awaiting(session);
	else if (what == &session->endpoint.drained_fd)
		eventfd_read(session->endpoint.drained_fd, &count);
	else if (!((struct target *)what)->ended && (((struct target *)what)->alone || target_serve(session, what)))
		targets_end(session, what);
}

/* A command gets the first request that it ends, and the second one ends the session.  Behind its end none gets one. */
static bool is_over(const struct session *session)
{
	if (session->options->duration_ns && session->traced_ns && !attachees_are_due(session) &&
	    clock_now_ns() - session->traced_ns > session->options->duration_ns)
		return true;
	if (session->command)
		return __atomic_load_n(&session->ending.asked, __ATOMIC_ACQUIRE) > 1 || signals_insist();
	return asks(session) > session->ending.asked_before;
}

static int patience_ms(const struct session *session)
{
	uint64_t left = session->traced_ns + session->options->duration_ns - clock_now_ns();

	if (session->ending.strays_since_ns)
		return STRAYS_MS;
	if (!session->options->duration_ns || !session->traced_ns || left >= PROGRESS_MS * 1000000ull)
		return PROGRESS_MS;
	return (int)(left / 1000000) + 1;
}

void session_serve(struct session *session)
{
	struct epoll_event events[EVENTS];
	bool more = true, passed = false, told = !session->options->begun;

	session_lock(session);
	attachees_go_on(session);
	session_unlock(session);
	while (more && !is_over(session)) {
		int n = epoll_wait(session->endpoint.epoll, events, EVENTS,
				   family_due_ms(session, patience_ms(session)));
		uint32_t asked = __atomic_load_n(&session->ending.asked, __ATOMIC_ACQUIRE);

		if ((signals_ask_end() || asked == 1) && !passed && session->command) {
			passed = true;
			kill(session->command, SIGTERM);
		}
		session_lock(session);
		for (int i = 0; i < n; i++)
			session_handle(session, events[i].data.ptr);
		targets_end_silent(session);
		additions_go_on(session);
		forked_go_on(session);
		attachees_go_on(session);
		more = session->command || attachees_are_due(session) || targets_left(session) || guests_any(session);
		if (more)
			session->ending.strays_since_ns = 0;
		else
			more = strays_may_come(session);
		if (n <= 0) {
			if (!session->command && !session->options->pid_count)
				progress_tell_left(session, targets_left(session));
			progress_show(session, false);
			reap_command(session);
		}
		session_unlock(session);
		family_look(session);
		if (!told && session->traced_ns && more)
			session->options->begun(session->options->begun_ctx);
		told |= session->traced_ns != 0;
	}
}
