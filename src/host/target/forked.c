/*
 * A forked child has its parent's text of the moment of the fork, and says which plans that has (PLANS).  What the
 * parent got since, and what the session has changed since, the child gets before its GO, and once more when a change
 * ends that was being made when the child called in.  doc/design/control.md, "fork".
 *
 * Here is what the child has; forked_steps.c gives it the rest.  Called by the server thread, but for
 * forked_turn_ends().  Context: host, under the session's lock.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>

#include <host/proc.h>
#include <host/session/session.h>
#include <host/space.h>

/* The process that a fork's child came from: of the same image, by preference its parent. */
struct target *forked_from(struct session *session, const struct target *child)
{
	struct target *found = NULL;

	for (struct target *other = session->targets; other; other = other->next) {
		if (other == child || !other->greeted || other->image_id != child->image_id)
			continue;
		found = other;
		if ((uint32_t)other->pid == child->hello.ppid)
			break;
	}
	return found;
}

struct target *forked_origin(struct session *session, const struct target *child)
{
	for (struct target *other = session->targets; other; other = other->next)
		if (other != child && other->greeted && other->image_id == child->image_id &&
		    other->index != UINT32_MAX && other->index == child->hello.process)
			return other;
	return forked_from(session, child);
}

int forked_plans(struct target *target, const struct calltap_msg_plans *message, uint32_t size)
{
	struct had *had = &target->had;
	struct calltap_had_plan *list;

	if (size < sizeof(*message) || !message->count || message->count > CALLTAP_PLANS_MAX ||
	    size != sizeof(*message) + message->count * sizeof(message->plans[0]) || !forked_is_telling(target) ||
	    message->count > target->hello.plans - had->count)
		return -EPROTO;
	list = reallocarray(had->list, had->count + message->count, sizeof(*list));
	if (!list)
		return -ENOMEM;
	memcpy(list + had->count, message->plans, message->count * sizeof(*list));
	had->list = list;
	had->count += message->count;
	return 0;
}

/* Is the object's file mapped in the child where the map says? */
static bool is_there(const struct space *space, const struct target_map *map)
{
	const struct map *at = space_find(space, map->dynamic);
	const struct image *image = map->image->base ? map->image->base : map->image;

	return at && at->inode == image->ino;
}

/* Since the fork the parent may have loaded objects that the child does not have, and let go of some that it has. */
static int look_what_is_there(struct target *target)
{
	struct space space;
	bool differs = false;
	int ret;

	for (uint32_t i = 0; i < target->map_count; i++)
		differs |= target->maps[i].lacks || !target->maps[i].mapped;
	if (!differs)
		return 0;
	ret = space_read(&space, proc_alive(target->pid));
	for (uint32_t i = 0; !ret && i < target->map_count; i++) {
		struct target_map *map = &target->maps[i];

		if (map->lacks || !map->mapped)
			map->mapped = is_there(&space, map);
	}
	space_free(&space);
	return ret == -ESRCH ? 0 : ret; /* it ends just now */
}

static struct target_map *map_of(struct target *target, const struct calltap_had_plan *plan)
{
	return plan->plan_id < target->map_count ? &target->maps[plan->plan_id] : NULL;
}

static void take_plan(struct target_map *map, const struct calltap_had_plan *plan)
{
	map->lacks = false;
	map->sent = true;
	map->region = plan->region;
	map->blocks = plan->blocks;
	map->waits = plan->flags & CALLTAP_HAD_WAITS;
	map->torn = plan->flags & CALLTAP_HAD_TORN;
}

int forked_inherit(struct target *target, const struct target *parent)
{
	if (!parent || !parent->map_count)
		return 0;
	target->maps = calloc(parent->map_count, sizeof(*target->maps));
	if (!target->maps)
		return -ENOMEM;
	target->map_count = parent->map_count;
	memcpy(target->maps, parent->maps, parent->map_count * sizeof(*target->maps));
	for (uint32_t i = 0; i < target->map_count; i++) {
		struct target_map *map = &target->maps[i];

		map->lacks = map->sent;
		map->sent = map->waits = map->asked = map->torn = false;
		map->region = map->blocks = 0;
		map->moves = 0;
	}
	for (uint32_t i = 0; i < target->had.count; i++) {
		struct target_map *map = map_of(target, &target->had.list[i]);

		if (map)
			take_plan(map, &target->had.list[i]);
	}
	target->report.told = parent->report.told; /* where the loader's hooks are, if APPLY is to write them */
	for (uint32_t i = 0; i < target->map_count && parent->attachee && parent->attachee->jump_count; i++)
		target->had.fixed |= target->maps[i].waits && !target->maps[i].later;
	return look_what_is_there(target);
}

void forked_begin(struct target *target)
{
	free(target->had.list);
	target->had.list = NULL;
	target->behind = true;
}

void forked_answered(struct session *session, const struct target *target)
{
	if (target->behind && !target->owed.stubs)
		eventfd_write(session->endpoint.drained_fd, 1);
}

void forked_is_back(struct target *target)
{
	for (uint32_t i = 0; i < target->map_count && target->behind; i++) {
		struct target_map *map = &target->maps[i];

		if (map->asked && !map->region) /* an answer that will not come */
			map->sent = map->asked = false;
	}
}

void forked_turn_ends(struct session *session)
{
	bool any = false;

	for (struct target *target = session->targets; target; target = target->next) {
		if (!target->behind)
			continue;
		any = true;
		target->had.stopped = false;
		for (uint32_t i = 0; i < target->map_count; i++)
			target->maps[i].asked = false;
	}
	if (any)
		eventfd_write(session->endpoint.drained_fd, 1);
}

bool forked_any_behind(const struct session *session)
{
	for (const struct target *target = session->targets; target; target = target->next)
		if ((target->behind && live_can_be_told(target)) ||
		    (target->greeted && !target->ended && forked_is_telling(target)))
			return true;
	return false;
}
