/*
 * Further instances of a session: rings of their own beside the session's (abi/control.h, INSTANCE;
 * doc/design/instances.md).
 *
 * A thread may be storing its last record for an instance that has ended.  So that instance's arenas are unmapped when
 * each thread was seen outside such code since, or else when the session lets go of the process.  Called by the control
 * thread.  Context: control.
 */
#include <errno.h>

#include <agent/agent.h>
#include <base/mem.h>
#include <base/sys.h>

#define ENDED_MAX    64u /* arenas of ended instances that are kept mapped; with more, no instance begins */
#define WAIT_MS	     20u /* longest that a begin or an end waits for threads to be seen outside */
#define WAIT_STEP_NS 100000u

static bool is_on(uint64_t generation)
{
	for (uint32_t i = 1; i < PROBE_SETS; i++)
		if (__atomic_load_n(&probe_context.wiped->sets[i].on, __ATOMIC_RELAXED) == generation)
			return true;
	return false;
}

/* Arenas from before a fork stay: the thread that forked is known by its stack, but may not have recorded here yet. */
static bool is_left_over(const struct agent_mapped *arena)
{
	return arena->size && arena->generation > agent.instances_inherited && !is_on(arena->generation);
}

static uint32_t count_left_over(void)
{
	const struct agent_mapped *arenas = agent.arenas.list;
	uint32_t count = 0;

	for (size_t i = 0; i < agent.arenas.count; i++)
		count += is_left_over(&arenas[i]);
	return count;
}

static bool is_inside(uint32_t i)
{
	uint64_t sharing;

	agent_thread_read(i, offsetof(struct probe_thread, sharing), &sharing, sizeof(sharing));
	return sharing && !agent_thread_has_ended(i);
}

/*
 * The barrier comes first: a thread that counts itself in after it finds the instance off, and a thread that did before
 * is seen.  So threads can be waited for one by one.
 */
static bool all_are_outside(void)
{
	uint64_t until = sys_monotonic_ns() + WAIT_MS * 1000000;
	uint32_t never = 0;

	if (patch_sync())
		return false;
	for (uint32_t i = 0; i < PROBE_RINGS; i++)
		while (is_inside(i)) {
			if (sys_monotonic_ns() >= until)
				return false;
			sys_futex_wait(&never, never, WAIT_STEP_NS);
		}
	return true;
}

/* Unmap the arenas of instances that have ended.  False: a thread may still be at them. */
static bool unmap_left_over(void)
{
	struct agent_mapped *arenas = agent.arenas.list;

	if (!count_left_over())
		return true;
	if (!all_are_outside())
		return false;
	for (size_t i = 0; i < agent.arenas.count; i++)
		if (is_left_over(&arenas[i]))
			agent_arena_unmap(&arenas[i]);
	return true;
}

/* Hand writers out again only if no thread may hold them. */
static void renew_writers(uint32_t index, bool again)
{
	struct probe_set *set = &probe_context.wiped->sets[index];

	if (again) {
		probe_context.writers[index].used = probe_context.writers[index].first;
		memset(set->traded, 0, sizeof(set->traded));
	}
	probe_context.writers[index].base = probe_context.writers[index].used;
}

static void take_limits(struct probe_set *set, const struct calltap_msg_instance *message)
{
	__atomic_store_n(&set->depth_max, message->depth_max, __ATOMIC_RELAXED);
	__atomic_store_n(&set->threshold_ticks, message->threshold_ticks, __ATOMIC_RELAXED);
	__atomic_store_n(&set->trees, (message->flags & CALLTAP_INSTANCE_TREES) != 0, __ATOMIC_RELAXED);
	__atomic_store_n(&set->filtered, (message->flags & (CALLTAP_INSTANCE_TREES | CALLTAP_INSTANCE_HIDES)) != 0,
			 __ATOMIC_RELAXED);
}

/* Keep the word that threads look at first (probe/usual.c): is the instance one without filters and limits? */
static void note_plain(uint32_t index)
{
	struct probe_wiped *wiped = probe_context.wiped;
	const struct probe_set *set = &wiped->sets[index];
	bool plain = !set->calls && !set->frames && !set->depth_max && !set->threshold_ticks && !set->filtered;

	__atomic_store_n(&wiped->plain[index], plain && !set->brief ? set->on : 0, __ATOMIC_SEQ_CST);
	__atomic_store_n(&wiped->brief[index], plain && set->brief ? set->on : 0, __ATOMIC_SEQ_CST);
}

/* No thread finds what the set's last instance had. */
static int begin(const struct calltap_msg_instance *message, int fd)
{
	uint32_t index = message->set, generation = ++agent.instances;
	struct probe_set *set = &probe_context.wiped->sets[index];
	bool none;
	int ret;

	if (agent.no_handled)
		return -EPERM;
	if (message->flags & CALLTAP_INSTANCE_TRIGGERS && !agent.triggers.count)
		return -ENOMEM;
	__atomic_store_n(&probe_context.wiped->plain[index], 0, __ATOMIC_SEQ_CST);
	__atomic_store_n(&probe_context.wiped->brief[index], 0, __ATOMIC_SEQ_CST);
	__atomic_store_n(&set->on, 0, __ATOMIC_SEQ_CST); /* the end of the set's last instance may have been missed */
	none = unmap_left_over();
	if (count_left_over() >= ENDED_MAX)
		return -EBUSY;
	__atomic_store_n(&set->arena_count, 0, __ATOMIC_RELEASE);
	set->calls = message->flags & CALLTAP_INSTANCE_CALLS;
	set->frames = (message->flags & CALLTAP_INSTANCE_FRAMES) != 0;
	set->brief = (message->flags & CALLTAP_INSTANCE_BRIEF) != 0;
	set->claim_vain = 0;
	take_limits(set, message);
	agent.files |= (message->flags & CALLTAP_INSTANCE_FILES) != 0;
	renew_writers(index, none);
	ret = agent_arena_add(index, generation, fd, message->arena_size);
	if (!ret)
		__atomic_store_n(&set->on, generation, __ATOMIC_RELEASE); /* pairs with probe_set_attach() */
	note_plain(index);
	return ret;
}

static void stop(uint32_t index)
{
	__atomic_store_n(&probe_context.wiped->plain[index], 0, __ATOMIC_SEQ_CST);
	__atomic_store_n(&probe_context.wiped->brief[index], 0, __ATOMIC_SEQ_CST);
	__atomic_store_n(&probe_context.wiped->sets[index].on, 0, __ATOMIC_SEQ_CST);
}

int agent_instance_take(const struct calltap_msg_instance *message, int fd, struct calltap_msg_instance_done *done)
{
	bool begins = message->what == CALLTAP_INSTANCE_BEGIN;

	if (message->head.size != sizeof(*message) || !message->set || message->set >= PROBE_SETS ||
	    message->what > CALLTAP_INSTANCE_LIMITS || (begins && fd < 0))
		return -EPROTO;
	*done = (struct calltap_msg_instance_done){.head = {CALLTAP_MSG_INSTANCE_DONE, sizeof(*done)},
						   .set = message->set};
	if (begins) {
		done->error = begin(message, fd);
	} else if (message->what == CALLTAP_INSTANCE_LIMITS) {
		take_limits(&probe_context.wiped->sets[message->set], message);
		note_plain(message->set);
	} else {
		stop(message->set);
		(void)unmap_left_over();
	}
	return 0;
}

void agent_instances_end(void)
{
	for (uint32_t i = 1; i < PROBE_SETS && probe_context.wiped; i++)
		stop(i);
}
