/*
 * Events of functions that have triggers (trigger.h).
 *
 * Called by graph.c and unwound.c on the program's thread, off the fast path.  Context: probe.  All threads write the
 * file, so its words take real atomics.
 *
 * The file may come while threads run.  From then on every frame that the recorders in C enter has its time noted;
 * frames that were entered earlier may have any word in that place.  Such a word is older than the file
 * (triggers_since), and an exit with such a time is not told.
 */
#include <asm/errno.h>

#include <offsets.h>
#include <probe/trigger.h>

_Static_assert(offsetof(struct calltap_triggers, functions) == TR_FUNCTIONS, "profile.S");
_Static_assert(sizeof(struct calltap_triggers) == TR_LIMITS, "profile.S");
_Static_assert(sizeof(struct calltap_limit) == 1 << LIMIT_BITS, "profile.S");
_Static_assert(offsetof(struct calltap_limit, ticks) == LIMIT_TICKS, "profile.S");

static struct calltap_triggers no_triggers;
struct calltap_triggers *probe_triggers = &no_triggers;
static uint64_t triggers_since; /* ticks when there first was a file; a forked child keeps its parent's */

int probe_triggers_set(struct calltap_triggers *triggers, uint64_t size)
{
	if (triggers && (size < sizeof(*triggers) || triggers->magic != CALLTAP_TRIGGERS_MAGIC || !triggers->slots ||
			 triggers->slots & (triggers->slots - 1) ||
			 calltap_triggers_at_event(triggers->functions, triggers->slots) > size))
		return -EINVAL;
	if (probe_triggers == &no_triggers)
		__atomic_store_n(&triggers_since, arch_clock(), __ATOMIC_RELAXED); /* published by the file's store */
	/* A single store changes the file and its size, so that no thread takes one file's size for another's. */
	__atomic_store_n(&probe_triggers, triggers ? triggers : &no_triggers, __ATOMIC_RELEASE);
	__atomic_store_n(&probe_context.timed, triggers || probe_wants_times(), __ATOMIC_RELEASE);
	return 0;
}

/* Was the frame's time noted when it was entered? */
static bool is_noted(const struct probe_call_times *call)
{
	return call->entered >= __atomic_load_n(&triggers_since, __ATOMIC_RELAXED);
}

/* Take a place in the ring; NULL: the tool has not read what is there. *number counts from 0. */
static struct calltap_event *take(struct calltap_triggers *triggers, uint64_t *number)
{
	uint32_t slots = triggers->slots;
	uint64_t at = __atomic_load_n(&triggers->taken, __ATOMIC_RELAXED);

	do {
		if (at - __atomic_load_n(&triggers->read, __ATOMIC_ACQUIRE) >=
		    slots) { /* pairs with the tool's store */
			__atomic_add_fetch(&triggers->lost, 1, __ATOMIC_RELAXED);
			return NULL;
		}
	} while (!__atomic_compare_exchange_n(&triggers->taken, &at, at + 1, true, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED));
	*number = at;
	return (struct calltap_event *)((char *)triggers + calltap_triggers_at_event(triggers->functions, 0)) +
	       (at & (slots - 1));
}

/* True if the function may have such an event now.  Of several threads that ask at once, one may. */
static bool is_due(const struct calltap_triggers *triggers, struct calltap_limit *limit, uint64_t *at, uint64_t now)
{
	uint64_t last = __atomic_load_n(at, __ATOMIC_RELAXED);

	if ((!last || now - last >= triggers->min_gap) &&
	    __atomic_compare_exchange_n(at, &last, now, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
		return true;
	__atomic_add_fetch(&limit->held_back, 1, __ATOMIC_RELAXED);
	return false;
}

static void tell(struct probe_thread *thread, struct calltap_triggers *triggers, uint32_t kind, uint32_t chosen,
		 const struct probe_call_times *call)
{
	uint64_t number;
	struct calltap_event *event = take(triggers, &number);

	if (!event)
		return;
	__atomic_store_n(&event->number, 0, __ATOMIC_RELAXED);
	__atomic_thread_fence(__ATOMIC_RELEASE);
	event->function = call->id;
	event->kind = kind;
	event->tid = thread->writer->tid;
	event->pid = probe_context.wiped->pid;
	event->chosen = chosen;
	event->flags = call->recorded ? CALLTAP_EVENT_RECORDED : 0;
	event->entry_ticks = call->entered;
	event->exit_ticks = call->left;
	__atomic_store_n(&event->number, number + 1, __ATOMIC_RELEASE); /* pairs with the tool's load */
	if (!probe_context.shared.quiet)
		ring_bell(probe_context.shared.board);
}

/* True if this call is number `often` in the window.  A call after the window's end begins the next window. */
static bool is_often(struct calltap_limit *limit, uint64_t now)
{
	uint64_t start = __atomic_load_n(&limit->window_start, __ATOMIC_RELAXED);

	if (now - start > limit->window) {
		__atomic_store_n(&limit->window_start, now, __ATOMIC_RELAXED);
		__atomic_store_n(&limit->window_calls, 1, __ATOMIC_RELAXED);
		return limit->often == 1;
	}
	return __atomic_add_fetch(&limit->window_calls, 1, __ATOMIC_RELAXED) == limit->often;
}

void probe_trigger_entered(struct probe_thread *thread, const struct probe_call_times *call)
{
	struct calltap_triggers *triggers = __atomic_load_n(&probe_triggers, __ATOMIC_ACQUIRE);
	struct calltap_limit *limit = probe_trigger_limit(triggers, call->id);
	uint32_t kinds = limit ? __atomic_load_n(&limit->kinds, __ATOMIC_RELAXED) : 0;
	uint64_t now = call->entered;

	/* Once in a window is rare enough, unless the window is short. */
	if (kinds & CALLTAP_EVENT_OFTEN && is_often(limit, now) &&
	    (limit->window >= triggers->min_gap || is_due(triggers, limit, &limit->last, now)))
		tell(thread, triggers, CALLTAP_EVENT_OFTEN, 0, call);
	else if (kinds & CALLTAP_EVENT_ENTERED && is_due(triggers, limit, &limit->last, now))
		tell(thread, triggers, CALLTAP_EVENT_ENTERED, 0, call);
}

void probe_trigger_left(struct probe_thread *thread, const struct probe_call_times *call)
{
	struct calltap_triggers *triggers = __atomic_load_n(&probe_triggers, __ATOMIC_ACQUIRE);
	struct calltap_limit *limit = probe_trigger_limit(triggers, call->id);
	uint64_t ticks = limit ? __atomic_load_n(&limit->ticks, __ATOMIC_RELAXED) : 0;
	uint64_t took = call->left > call->entered ? call->left - call->entered : 0;

	if (!limit || !is_noted(call))
		return;
	/* Calls that are longer than the gap cannot be many. */
	if (ticks && took > ticks &&
	    (took >= triggers->min_gap || is_due(triggers, limit, &limit->last_exit, call->left)))
		tell(thread, triggers, CALLTAP_EVENT_LONGER, 0, call);
	else if (__atomic_load_n(&limit->kinds, __ATOMIC_RELAXED) & CALLTAP_EVENT_LEFT &&
		 is_due(triggers, limit, &limit->last_exit, call->left))
		tell(thread, triggers, CALLTAP_EVENT_LEFT, 0, call);
}

void probe_trigger_threw(struct probe_thread *thread, const struct probe_call_times *call)
{
	struct calltap_triggers *triggers = __atomic_load_n(&probe_triggers, __ATOMIC_ACQUIRE);
	struct calltap_limit *limit = probe_trigger_limit(triggers, call->id);

	if (limit && is_noted(call) && __atomic_load_n(&limit->kinds, __ATOMIC_RELAXED) & CALLTAP_EVENT_THREW &&
	    is_due(triggers, limit, &limit->last_exit, call->left))
		tell(thread, triggers, CALLTAP_EVENT_THREW, 0, call);
}

/*
 * The bits that may be told now: each once in the gap, so that a question that is often answered holds no other back.
 * Threads that ask at once may tell one twice; the tool's own gap is for that.
 */
static uint32_t due_bits(const struct calltap_triggers *triggers, struct calltap_limit *limit, uint32_t told,
			 uint64_t now)
{
	uint64_t last = __atomic_load_n(&limit->last_chosen, __ATOMIC_RELAXED);

	if ((!last || now - last >= triggers->min_gap) &&
	    __atomic_compare_exchange_n(&limit->last_chosen, &last, now, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
		__atomic_store_n(&limit->chosen, 0, __ATOMIC_RELAXED);
	told &= ~(uint32_t)__atomic_fetch_or(&limit->chosen, told, __ATOMIC_RELAXED);
	if (!told)
		__atomic_add_fetch(&limit->held_back, 1, __ATOMIC_RELAXED);
	return told;
}

void probe_trigger_chosen(struct probe_thread *thread, const struct probe_call_times *call, uint32_t told)
{
	struct calltap_triggers *triggers = __atomic_load_n(&probe_triggers, __ATOMIC_ACQUIRE);
	struct calltap_limit *limit = probe_trigger_limit(triggers, call->id);

	if (!limit || !is_noted(call) || !(__atomic_load_n(&limit->kinds, __ATOMIC_RELAXED) & CALLTAP_EVENT_CHOSEN))
		return;
	told = due_bits(triggers, limit, told, call->left ? call->left : call->entered);
	if (told)
		tell(thread, triggers, CALLTAP_EVENT_CHOSEN, told, call);
}
