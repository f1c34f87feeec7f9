/*
 * Two waits in the agent.  A thread of the program is held while the control
 * thread patches what is new; and the control thread and a thread in dlclose
 * change the text in turns.
 *
 * Callers: the control thread, and the program's threads in the constructor, in a forked child's first call, dlopen and
 * dlclose.  Context: control.
 */
#include <agent/agent.h>
#include <base/sys.h>

#define WAIT_STEP_NS 100000000u

void agent_hold_start(void)
{
	/* In this order: a control thread that finds a thread held has its number. */
	__atomic_add_fetch(&agent.holds, 1, __ATOMIC_SEQ_CST);
	__atomic_store_n(&agent.hold, AGENT_HELD, __ATOMIC_SEQ_CST);
}

bool agent_hold_begin(void)
{
	uint32_t held = AGENT_HELD;

	return __atomic_compare_exchange_n(&agent.hold, &held, AGENT_BUSY, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
}

void agent_hold_end(void)
{
	__atomic_store_n(&agent.hold, AGENT_HELD, __ATOMIC_SEQ_CST);
	sys_futex_wake(&agent.hold);
}

static void release_thread(void)
{
	for (;;) {
		uint32_t hold = AGENT_HELD;

		if (__atomic_compare_exchange_n(&agent.hold, &hold, AGENT_FREE, false, __ATOMIC_SEQ_CST,
						__ATOMIC_SEQ_CST) ||
		    hold == AGENT_FREE)
			return;
		sys_futex_wait(&agent.hold, AGENT_BUSY, WAIT_STEP_NS);
	}
}

void agent_wait_ready(uint32_t seen, uint32_t bound_ms)
{
	uint64_t until = sys_monotonic_ns() + bound_ms * 1000000ull;

	while (__atomic_load_n(&agent.ready, __ATOMIC_ACQUIRE) == seen && sys_monotonic_ns() < until)
		sys_futex_wait(&agent.ready, seen, WAIT_STEP_NS);
	release_thread();
}

bool agent_hold_is_told(void)
{
	return agent.hold_told == __atomic_load_n(&agent.holds, __ATOMIC_SEQ_CST);
}

void agent_child_started(void)
{
	uint32_t *starting = &probe_context.wiped->starting;

	if (!probe_context.wiped->alive)
		probe_context.enabled = 0;
	__atomic_store_n(starting, 2, __ATOMIC_RELEASE);
	sys_futex_wake(starting);
}

void agent_ready(void)
{
	if (agent.calls_in) {
		agent.calls_in = 0;
		agent_child_started();
	}
	__atomic_add_fetch(&agent.ready, 1, __ATOMIC_SEQ_CST);
	sys_futex_wake(&agent.ready);
}

/*
 * A lock.  Its holder may change the text, or the set of objects: the control
 * thread while it switches sites, or a thread in dlclose from before it unmaps
 * an object until after.  Without the lock, bytes could be read of one object and written to the
 * one that has come to its place.
 */
bool agent_text_take(void)
{
	uint64_t until = sys_monotonic_ns() + AGENT_READY_MS * 1000000ull;

	for (;;) {
		uint32_t now = AGENT_TEXT_FREE;

		if (__atomic_compare_exchange_n(&agent.text, &now, AGENT_TEXT_OURS, false, __ATOMIC_ACQ_REL,
						__ATOMIC_ACQUIRE))
			return true;
		if (sys_monotonic_ns() >= until)
			return false;
		sys_futex_wait(&agent.text, now, WAIT_STEP_NS);
	}
}

bool agent_text_try(void)
{
	uint32_t now = AGENT_TEXT_FREE;

	return __atomic_compare_exchange_n(&agent.text, &now, AGENT_TEXT_OURS, false, __ATOMIC_ACQ_REL,
					   __ATOMIC_ACQUIRE);
}

void agent_text_release(void)
{
	__atomic_store_n(&agent.text, AGENT_TEXT_FREE, __ATOMIC_RELEASE);
	sys_futex_wake(&agent.text);
}

void agent_text_unmapping(bool begins)
{
	uint32_t from = begins ? AGENT_TEXT_FREE : AGENT_TEXT_LOADER, want = from;

	while (!__atomic_compare_exchange_n(&agent.text, &want, begins ? AGENT_TEXT_LOADER : AGENT_TEXT_FREE, false,
					    __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) {
		if (want != AGENT_TEXT_OURS || !begins)
			return; /* a second announcement, or an announcement without need */
		sys_futex_wait(&agent.text, want, WAIT_STEP_NS);
		want = from;
	}
	if (!begins)
		sys_futex_wake(&agent.text);
}
