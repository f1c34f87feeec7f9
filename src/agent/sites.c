/*
 * Sites that a plan has patched: the agent switches them on and off, leads them to another plan's stub, gives them
 * their own bytes back.
 *
 * Called by the control thread.  Context: control.
 */
#include <errno.h>
#include <sys/mman.h>

#include <agent/agent.h>
#include <base/sys.h>

#define MOVES 256u /* moves made at a time */

/* Sites that are to be led from another plan's stub to this one's. */
struct moves {
	struct patch_move list[MOVES];
	uint32_t count;
};

static uint32_t make_moves(struct moves *moves)
{
	uint32_t done = 0;

	patch_sites_move(&agent.poker, moves->list, moves->count);
	for (uint32_t i = 0; i < moves->count; i++)
		done += moves->list[i].done;
	moves->count = 0;
	return done;
}

/* The plan to whose stub the site leads, or would if it were on; NULL = none. */
static const struct agent_sites *owner_of(const struct calltap_site *site, uint32_t place)
{
	for (uint32_t i = 0; i < agent.sites_count; i++) {
		const struct agent_sites *other = &agent.sites[i];

		if (!other->waits && place < other->count && other->list[place].address == site->address &&
		    patch_site_state(&agent.poker, &other->region, &other->list[place]) != PATCH_SITE_ALIEN)
			return other;
	}
	return NULL;
}

/*
 * Switch one site.  True: done.  False: the site cannot be switched; or it leads to another plan's stub, and is noted
 * in moves, to be led to this plan's.
 */
static bool switch_one(const struct agent_sites *kept, uint32_t place, bool on, const struct patch_glance *glance,
		       struct moves *moves)
{
	const struct calltap_site *site;
	const struct agent_sites *owner;

	if (place >= kept->count)
		return false;
	site = &kept->list[place];
	if (!kept->waits && !patch_site_switch_seen(&agent.poker, &kept->region, site, on, glance))
		return true;
	owner = owner_of(site, place);
	if (!owner || owner == kept)
		return false;
	if (!on)
		return !patch_site_switch(&agent.poker, &owner->region, &owner->list[place], false);
	moves->list[moves->count++] =
		(struct patch_move){&owner->region, &kept->region, &owner->list[place], site, false};
	return false;
}

void agent_sites_switch(const struct calltap_msg_switch *message, struct calltap_msg_switch_done *done)
{
	const struct agent_sites *kept = NULL;
	struct moves moves = {.count = 0};
	struct patch_glance glance;
	uint32_t seen = 0;

	*done = (struct calltap_msg_switch_done){
		.head = {CALLTAP_MSG_SWITCH_DONE, sizeof(*done)},
		.plan_id = message->plan_id,
		.failed = message->count,
	};
	for (uint32_t i = 0; i < agent.sites_count; i++)
		if (agent.sites[i].plan_id == message->plan_id)
			kept = &agent.sites[i];
	if (!kept || !agent_text_take())
		return;
	for (uint32_t i = 0; i < message->count; i++) {
		if (i == seen)
			seen += patch_glance(&glance, &agent.poker, kept->list, kept->count, message->sites + i,
					     message->count - i);
		done->switched += switch_one(kept, message->sites[i], message->on, &glance, &moves);
		if (moves.count == MOVES)
			done->switched += make_moves(&moves);
	}
	if (moves.count)
		done->switched += make_moves(&moves);
	agent_text_release();
	done->failed -= done->switched;
	/* On and off need no refetch: a core that still runs the old byte is a moment late, no more. */
}

/*
 * Restore one plan's sites.  An object that has gone may have another one at its place; its sites are looked at all the
 * same, in case the list of objects was changed meanwhile.  Returns how many sites still lead to a stub.
 */
static uint32_t restore(const struct agent_sites *kept, const struct agent_store *maps, bool taken,
			struct calltap_msg_detached *done)
{
	struct patch_restored restored = {.left = kept->count, .leading = kept->count};

	if (taken)
		patch_sites_restore(&restored, &agent.poker, &kept->region, kept->list, kept->count,
				    kept->second ? NULL : &kept->pages);
	if (kept->second || !agent_objects_have(maps, kept->identity))
		return restored.leading; /* counted as the first plan's sites, or nobody's */
	done->restored += restored.restored;
	done->left += restored.left;
	return restored.leading;
}

/*
 * Program threads may fork meanwhile: a child that lacks a list must not know of it.  Unmapping parts the two
 * (plans.c).
 */
static void forget_sites(void)
{
	const uint32_t count = agent.sites_count;

	__atomic_store_n(&agent.sites_count, 0, __ATOMIC_RELEASE);
	for (uint32_t i = 0; i < count; i++) {
		const struct agent_sites *kept = &agent.sites[i];

		sys_munmap((void *)kept->list, kept->count * sizeof(*kept->list)); /* whole pages */
		if (kept->pages.room)
			sys_munmap(kept->pages.list, kept->pages.room);
	}
}

/* The sites stay known while one leads to its stub: agent_release_wait() keeps the stubs then. */
void agent_sites_restore(struct calltap_msg_detached *done)
{
	bool taken = agent_text_take();
	struct agent_store maps;
	uint32_t leading = 0;

	agent_objects_read(&maps);
	*done = (struct calltap_msg_detached){.head = {CALLTAP_MSG_DETACHED, sizeof(*done)}};
	/*
	 * Plans whose sites lead to a second set of stubs first: then all sites are as the first plan's, which has
	 * their pages.
	 */
	for (unsigned second = 2; second-- > 0;)
		for (uint32_t i = 0; i < agent.sites_count; i++)
			if (agent.sites[i].second == (second == 1) && !agent.sites[i].waits)
				leading += restore(&agent.sites[i], &maps, taken, done);
	agent_store_empty(&maps);
	if (!leading)
		forget_sites();
	if (taken)
		agent_text_release();
}
