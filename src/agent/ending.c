/*
 * The end of a session in the process: recording stops, the text gets its own
 * bytes back, and the rings of a tool that has died give their memory back.
 *
 * Callers: the control thread.  Context: control.
 */
#include <errno.h>
#include <poll.h>

#include <agent/agent.h>
#include <base/sys.h>

/* The complaint may fail for the reason that broke the session; the note does not. */
static void break_off(int error)
{
	struct probe_wiped *wiped = probe_context.wiped;

	if (wiped && wiped->sets[0].arenas[0])
		__atomic_fetch_or(&wiped->sets[0].arenas[0]->notes, CALLTAP_NOTE_BROKEN, __ATOMIC_SEQ_CST);
	agent_complain(error, "could not go on with its session; the rest of it ran untraced");
}

void agent_session_clear(struct calltap_msg_detached *detached)
{
	__atomic_store_n(&probe_context.enabled, 0, __ATOMIC_SEQ_CST);
	__atomic_store_n(&probe_context.shared.reader_gone, 1, __ATOMIC_SEQ_CST);
	agent_wake_writers();
	agent_ready();
	agent_sites_restore(detached);
	agent_dlhook_remove();
	agent_handlers_end();
}

/*
 * True if the connection's other end is closed, and CALLTAP_NOTE_READ_ON, which a living tool sets before, is not.  A
 * tool that has died reads no more: a process loses its memory before its descriptors.
 */
static bool tool_has_died(void)
{
	const struct calltap_arena *arena = probe_context.wiped->sets[0].arenas[0];
	struct pollfd poll = {.fd = agent.socket};
	struct sys_timespec now = {0, 0};

	return SYS(ppoll, &poll, 1, &now, NULL, 0, 0) == 1 && poll.revents & POLLHUP &&
	       !(__atomic_load_n(&arena->notes, __ATOMIC_SEQ_CST) & CALLTAP_NOTE_READ_ON);
}

/* Rings whose reader, the tool, has died.  In overwrite mode the rings are the history, which outlives the tool. */
static void empty_rings(void)
{
	if (agent.keep || agent.files || agent.tables || agent.emulated || agent.no_giving ||
	    agent.leave != AGENT_STAY || probe_context.shared.quiet)
		return;
	if (tool_has_died())
		agent_rings_empty();
}

/* The tool has gone, or wants the agent to end. */
static void end_recording(enum agent_goodbye goodbye)
{
	struct calltap_msg_detached detached;

	agent_instances_end();
	if (agent.keep && goodbye == AGENT_GOODBYE_NONE && agent.leave == AGENT_STAY) {
		agent_times_follow(false);
		__atomic_store_n(&probe_context.shared.reader_gone, 1, __ATOMIC_SEQ_CST);
		agent_ready();
		agent_handlers_end(); /* nobody is left who could take a handler back */
		return;
	}
	/* The tool reads on: a thread that waits for room gets it, and loses no record. */
	if (goodbye != AGENT_GOODBYE_NONE) {
		__atomic_store_n(&probe_context.enabled, 0, __ATOMIC_SEQ_CST);
		agent_await_writers();
	}
	agent_session_clear(&detached);
	if (!agent_send(&detached, sizeof(detached)) && goodbye == AGENT_GOODBYE_RELEASE)
		agent_release_wait();
}

void agent_session_end(int error, enum agent_goodbye goodbye, bool served)
{
	if (error == -ECANCELED && !agent.moves)
		agent_complain(0, "gives up reading the clock; the rest of it runs untraced");
	else if (error < 0 && error != -EPIPE && error != -ECANCELED)
		break_off(error);
	end_recording(goodbye);
	if (served && goodbye == AGENT_GOODBYE_NONE)
		empty_rings();
}
