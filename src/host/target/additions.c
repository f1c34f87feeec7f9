/*
 * Functions that are chosen while targets run, and that have no stubs yet: those of an object that filters left out,
 * and those of a library that nothing had named.
 *
 * They become images of their own (images.h, "addition"), whose plans wait in the agents until all threads of a target
 * are stopped, as the plans of an attach do.  Deciding and sending is done by the thread that has the turn; the server
 * thread stops the targets, since answers may come meanwhile and it is the one that reads them. doc/design/patching.md,
 * "Chosen later".  Context: host, under the session's lock.
 */
#include <elf.h>
#include <errno.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <host/proc.h>
#include <host/session/session.h>
#include <host/space.h>

/*
 * Can the target be given more functions?  An emulator's threads cannot be stopped where their program would be; and
 * on other CPUs a jump may be several instructions, of which no thread that stands within can be moved yet.
 */
bool additions_can_stop(const struct session *session, const struct target *target)
{
	return !session->emulated && session->machine->id == EM_X86_64 && live_can_be_told(target) &&
	       target_head(target) && !target->had.fixed;
}

/* A forked child that is behind is given all it lacks by itself (forked.c). */
static bool can_be_extended(const struct session *session, const struct target *target)
{
	return additions_can_stop(session, target) && target->settled && !target->behind;
}

/*
 * Describe an object that has no sites, and that nothing has described: a plan of its own does not come, and those of
 * its additions, if there will be any, take it for known.
 */
static int tell_object(struct session *session, const struct image *image)
{
	int ret = 0;

	for (struct target *target = session->targets; target && !ret; target = target->next)
		for (uint32_t i = 0; i < target->map_count && !ret; i++)
			if (target->maps[i].image == image && target->maps[i].mapped)
				ret = plan_write_map(session, target, &target->maps[i]);
	return ret;
}

/* Libraries that nothing had named may be named now: look at their files. */
static int look_again(struct session *session, const struct target *target)
{
	struct space space;
	uint32_t first = 0;
	int ret;

	while (first < target->map_count && !target->maps[first].image->skipped)
		first++;
	if (first == target->map_count)
		return 0;
	ret = space_read(&space, proc_alive(target->pid));
	for (uint32_t i = first; i < target->map_count && !ret; i++) {
		const struct target_map *at = &target->maps[i];
		const struct map *map = at->mapped && at->image->skipped ? space_find(&space, at->dynamic) : NULL;
		int fd = map ? space_open(space.alive, map) : -1;

		if (fd < 0)
			continue;
		ret = images_look_again(&session->images, at->image, fd);
		close(fd);
		if (!ret && at->image->object && !at->image->site_count)
			ret = tell_object(session, at->image);
	}
	space_free(&space);
	return ret == -ENOMEM || ret == -EOVERFLOW ? ret : 0; /* else they stay as they are */
}

/* True if the target has a map of the image at the place of that map. */
static bool has_map(const struct target *target, const struct target_map *place, const struct image *image)
{
	for (uint32_t i = 0; i < target->map_count; i++)
		if (target->maps[i].image == image && target->maps[i].base == place->base && target->maps[i].mapped)
			return true;
	return false;
}

/* Maps of additions beside those of their objects; an object that had no sites gets its plan later, too. */
int additions_add_maps(struct target *target)
{
	uint32_t count = target->map_count;
	int ret = 0;

	for (uint32_t i = 0; i < count && !ret; i++) {
		struct image *own = target->maps[i].image;

		if (!target->maps[i].mapped || target->maps[i].stubs || own->base)
			continue;
		target->maps[i].later |= own->site_count && !target->maps[i].sent;
		for (struct image *image = own->next; image && !ret; image = image->next)
			if (image->base == own && !has_map(target, &target->maps[i], image))
				ret = plan_add_later(target, i, image);
	}
	return ret;
}

int additions_look(struct session *session)
{
	int ret = 0;

	for (struct target *target = session->targets; target && !ret; target = target->next)
		if (can_be_extended(session, target))
			ret = look_again(session, target);
	return ret;
}

int additions_decide(struct session *session)
{
	int ret;

	if (session->emulated || session->machine->id != EM_X86_64)
		return 0;
	ret = additions_look(session);
	if (!ret)
		ret = images_extend(&session->images);
	for (struct target *target = session->targets; target && !ret; target = target->next)
		if (can_be_extended(session, target))
			ret = additions_add_maps(target);
	return ret;
}

static bool is_to_be_sent(const struct target_map *map)
{
	return map->later && map->mapped && !map->sent && map->image->site_count;
}

static int send_plans(struct session *session, struct target *target)
{
	struct space space;
	uint32_t first = 0;
	int ret;

	while (first < target->map_count && !is_to_be_sent(&target->maps[first]))
		first++;
	if (first == target->map_count)
		return 0;
	ret = space_read(&space, proc_alive(target->pid));
	for (uint32_t i = first; i < target->map_count && !ret; i++)
		if (is_to_be_sent(&target->maps[i]))
			ret = plan_send_later(session, target, &target->maps[i], &space);
	space_free(&space);
	return ret == -ENOMEM ? ret : 0; /* all other errors are its end */
}

static bool waits_for_stop(const struct target *target)
{
	for (uint32_t i = 0; i < target->map_count; i++)
		if (target->maps[i].waits && target->maps[i].mapped && target->maps[i].region)
			return true;
	return false;
}

int additions_carry_out(struct session *session)
{
	bool any = false;
	int ret = 0;

	session->steering.unpatched = false;
	for (struct target *target = session->targets; target && !ret; target = target->next)
		if (can_be_extended(session, target))
			ret = send_plans(session, target);
	if (!ret)
		ret = live_wait(session);
	if (ret && ret != -ETIMEDOUT)
		return ret;
	for (struct target *target = session->targets; target; target = target->next)
		if (can_be_extended(session, target) && !target->silent && waits_for_stop(target)) {
			target->owed.applies++;
			any = true;
		}
	if (!any)
		return ret;
	eventfd_write(session->endpoint.drained_fd, 1); /* wakes the server thread */
	if (live_wait(session) || session->steering.unpatched)
		return -ETIMEDOUT;
	return ret;
}

void additions_go_on(struct session *session)
{
	for (struct target *target = session->targets; target; target = target->next) {
		int ret;

		if (!target->owed.applies)
			continue;
		ret = can_be_extended(session, target) ? attached_apply_later(session, target) : 0;
		target->owed.applies = 0;
		pthread_cond_broadcast(&session->answered);
		if (!ret || ret == -EPIPE || ret == -ECONNRESET)
			continue; /* it may have said why it has gone: that is read */
		target_tell_end(session, target, ret);
		targets_end(session, target);
	}
}
