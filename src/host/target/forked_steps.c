/*
 * The tool gives a forked child what it lacks (forked.c), step by step: missing stubs and functions, a stop in which
 * their sites are written, what is on and off, GO.
 *
 * Called by the server thread.  Context: host, under the session's lock.
 */
#include <elf.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include <host/proc.h>
#include <host/session/session.h>
#include <host/space.h>

/* The child's trace lacks calls: that is told at the end, once for each child. */
static void tell(struct session *session, struct target *target, const struct target_map *map, const char *why)
{
	struct record_result *result = session->result;
	const char *file = strrchr(map->image->path, '/');

	if (target->had.told)
		return;
	target->had.told = true;
	if (result->unheard++)
		return;
	snprintf(result->unheard_why, sizeof(result->unheard_why),
		 "process %d was forked while functions of %.100s were being patched in its parent, and %s; calls of "
		 "these functions in it are not in the trace",
		 (int)target->pid, file ? file + 1 : map->image->path, why);
}

/* Maps that are to be planned while the child runs, or cannot be: a report of the parent's had led to their plans. */
static void plan_later(struct session *session, struct target *target)
{
	for (uint32_t i = 0; i < target->map_count; i++) {
		struct target_map *map = &target->maps[i];

		if (map->mapped && map->torn)
			tell(session, target, map, "some of them are patched in it and some are not");
		if (map->mapped && map->waits && target->had.fixed)
			tell(session, target, map, "a static program cannot be stopped for that then");
		if (!map->lacks || !map->mapped || map->stubs)
			continue;
		if (additions_can_stop(session, target))
			map->later = true;
		else if (!map->later)
			tell(session, target, map, "a process of this kind cannot be stopped to patch them");
	}
}

static bool is_missing(const struct target_map *map)
{
	return map->mapped && !map->sent && !map->asked && map->image->site_count && (map->stubs || map->later);
}

/* Further stubs of an object lead to the blocks of its first plan. */
static uint64_t blocks_of(const struct target *target, const struct target_map *stubs)
{
	for (uint32_t i = 0; i < target->map_count; i++) {
		const struct target_map *map = &target->maps[i];

		if (map->image == stubs->image && map->identity == stubs->identity && !map->stubs && map->sent)
			return map->blocks;
	}
	return 0;
}

/* Send what the child lacks, stubs and functions alike; the agent's answers bring the next step. */
static int send_missing(struct session *session, struct target *target)
{
	bool can_stop = additions_can_stop(session, target);
	struct space space;
	uint32_t first = 0;
	int ret = can_stop && session->images.generation ? additions_add_maps(target) : 0;

	while (!ret && first < target->map_count && !is_missing(&target->maps[first]))
		first++;
	if (ret || first == target->map_count)
		return ret;
	ret = space_read(&space, proc_alive(target->pid));
	for (uint32_t i = first; !ret && i < target->map_count; i++) {
		struct target_map *map = &target->maps[i];

		if (!is_missing(map) || (!map->stubs && !can_stop))
			continue;
		map->asked = true;
		if (map->stubs)
			map->blocks = blocks_of(target, map);
		ret = map->stubs ? plan_send(session, target, map, CALLTAP_PLAN_STUBS)
				 : plan_send_later(session, target, map, &space);
	}
	space_free(&space);
	return ret == -ESRCH ? 0 : ret;
}

static struct target_map *waiting(struct target *target)
{
	for (uint32_t i = 0; i < target->map_count; i++)
		if (target->maps[i].waits && target->maps[i].mapped && target->maps[i].region)
			return &target->maps[i];
	return NULL;
}

/* Stop the child, and have the sites written that wait for that. */
static int apply(struct session *session, struct target *target)
{
	bool unpatched = session->steering.unpatched;
	struct target_map *map;
	int ret;

	target->had.stopped = true;
	ret = attached_apply_later(session, target);
	session->steering.unpatched = unpatched; /* which is about those that the change has waited for */
	map = waiting(target);
	if (!ret && map && live_can_be_told(target) && proc_alive(target->pid))
		tell(session, target, map,
		     "its threads could not be stopped to patch them (`calltap set` tries again)");
	return ret;
}

/* Tell what could not be sent or was refused. */
static void tell_missing(struct session *session, struct target *target)
{
	for (uint32_t i = 0; i < target->map_count; i++) {
		struct target_map *map = &target->maps[i];

		if (map->mapped && map->lacks && map->asked && !map->sent && map->image->site_count)
			tell(session, target, map, "they could not be patched in it");
	}
}

/* Make the sites of all objects what they are to be: nobody knows which changes were made before the fork. */
static int catch_up(const struct session *session, struct target *target)
{
	int ret = 0;

	for (uint32_t i = 0; i < target->map_count && !ret && session->images.generation; i++)
		ret = live_catch_up(target, &target->maps[i]);
	return ret;
}

/*
 * The child gets one step: what is missing is sent, or is written, or all is brought up to date and the child goes on.
 */
static int step(struct session *session, struct target *target)
{
	int ret;

	plan_later(session, target);
	for (;;) {
		if (!live_can_be_told(target) || target->owed.stubs || target->owed.applies)
			return 0;
		if (session->ending.letting_go)
			break;
		ret = send_missing(session, target);
		if (ret || target->owed.stubs)
			return ret;
		if (target->had.stopped || !waiting(target) || !additions_can_stop(session, target))
			break;
		ret = apply(session, target);
		if (ret)
			return ret;
	}
	tell_missing(session, target);
	ret = catch_up(session, target);
	if (!ret && !target->began)
		ret = target_go(session, target);
	target->behind = session->steering.busy;
	pthread_cond_broadcast(&session->answered);
	return ret;
}

static bool is_due(const struct session *session, const struct target *target)
{
	return target->behind && (!target->began || !session->steering.busy) && live_can_be_told(target);
}

void forked_go_on(struct session *session)
{
	for (struct target *target = session->targets; target; target = target->next) {
		int ret = is_due(session, target) ? step(session, target) : 0;

		if (!ret || ret == -EPIPE || ret == -ECONNRESET)
			continue; /* it may have said why it has gone: that is read */
		target_tell_end(session, target, ret);
		targets_end(session, target);
	}
}
