/*
 * From the objects that a target reports to plans that it carries out.
 *
 * The loader's base address and dynamic section say where an object is;
 * /proc/PID/maps says which file lies there, and that very file (by device and
 * inode) is read.  Context: host, under the session's lock.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <host/cgroup.h>
#include <host/proc.h>
#include <host/session/returns.h>
#include <host/session/session.h>
#include <host/space.h>
#include <host/values/values.h>

/* A cgroup's limit is there for the program: of what is left under it, plans take a part like this at most. */
#define PLANS_SHARE 2u

/* Where the program runs on, another object may have come to the place of one that it has told. */
static int image_at(struct session *session, struct target *target, const struct space *space,
		    const struct calltap_msg_object *object, struct image **image)
{
	const struct map *map = space_find(space, object->dynamic);
	int fd, ret;

	*image = NULL;
	target->report.moved |= !map;
	if (!map)
		return 0;
	fd = space_open(space->alive, map);
	if (fd == -EMFILE || fd == -ENFILE || fd == -ENOMEM)
		return fd;
	if (fd < 0) {
		unread_note(session, target->pid, space, map, fd);
		return 0; /* the vdso; replaced or out of sight: left alone */
	}
	if (!(map->bits & MAP_DELETED) && !space_is_named(space->alive, object->path, fd)) {
		target->report.moved = true;
		close(fd);
		return 0;
	}
	ret = images_get(image, &session->images, fd, map->path, true);
	if (!ret && target->attachee)
		ret = attached_pointers(target, fd, object);
	close(fd);
	return ret;
}

static bool lies_at(const struct target_map *map, const struct calltap_msg_object *object)
{
	return map->base == object->base && map->dynamic == object->dynamic && map->identity == object->identity;
}

/* The map of an object that is mapped now; with image: that image's map whose stubs are in use, mapped or not. */
static struct target_map *known_map(struct target *target, const struct calltap_msg_object *object,
				    const struct image *image)
{
	for (uint32_t i = 0; i < target->map_count; i++) {
		struct target_map *map = &target->maps[i];

		if (lies_at(map, object) &&
		    (image ? map->image == image && map->variant == image->variant : map->mapped))
			return map;
	}
	return NULL;
}

/* Nothing in the object can be traced, but values may be addresses in it. */
static int write_named(struct session *session, const struct target *target, const struct target_map *map)
{
	struct instance *first = session_first(session);
	int ret = 0;

	if (!map->image->named || !target->shares[0])
		return 0;
	if (!map->image->named_told)
		ret = image_describe(map->image, first->writer);
	map->image->named_told = true;
	instance_write_map(first, target, map);
	return ret == -ENOMEM ? ret : 0;
}

int plan_write_map(struct session *session, struct target *target, const struct target_map *map)
{
	bool known = map->image->announced;
	int ret = 0;

	if (!map->image->object)
		return write_named(session, target, map);
	map->image->announced = true;
	for (uint32_t i = 0; i < CALLTAP_INSTANCES && !ret; i++) {
		struct instance *instance = session->instances[i];

		if (!instance || instance->ending)
			continue;
		ret = known ? 0 : image_describe(map->image, instance->writer);
		if (target->shares[i] && !map->image->base)
			instance_write_map(instance, target, map);
	}
	if (!ret)
		ret = values_describe(session->images.values, session);
	return ret == -ENOMEM ? ret : 0; /* errors of a file are kept by its writer */
}

void plan_note_failed(struct session *session, uint32_t id)
{
	uint32_t site;
	struct image *image = images_of(&session->images, id, &site);
	char *names = session->result->failed_names, text[160];
	size_t used = strlen(names);
	const char *file;

	if (!image || !image->object)
		return;
	file = strrchr(image->path, '/');
	snprintf(text, sizeof(text), "%.100s (%.50s)", object_site_short_name(image->object, image->sources[site]),
		 file ? file + 1 : image->path);
	/* Another process of the program may have named the object already. */
	if (strstr(names, text) || used + strlen(text) + 3 > sizeof(session->result->failed_names))
		return;
	snprintf(names + used, sizeof(session->result->failed_names) - used, "%s%s", used ? ", " : "", text);
	session->result->failed_named++;
}

/* The range that stubs must be near to: the object's, and its blocks'. */
static void near_of(struct calltap_msg_plan *plan, const struct target_map *map)
{
	uint64_t lo, hi;

	object_near(map->image->object, &lo, &hi);
	plan->near_lo = map->base + lo;
	plan->near_hi = map->base + hi;
	if (!map->blocks)
		return;
	if (map->blocks < plan->near_lo)
		plan->near_lo = map->blocks;
	if (map->blocks + map->image->layout.size > plan->near_hi)
		plan->near_hi = map->blocks + map->image->layout.size;
}

int plan_send(struct session *session, struct target *target, struct target_map *map, enum calltap_plan_live live)
{
	const struct image *image = map->image;
	struct calltap_msg_plan plan = {
		.head = {CALLTAP_MSG_PLAN, sizeof(plan)},
		.plan_id = (uint64_t)(map - target->maps),
		.stub_bytes = image->variants[map->variant].stub_bytes,
		.region = map->region,
		.identity = map->identity,
		.site_count = image->site_count,
		.live = live,
		.blocks = map->blocks,
		.blocks_size = (uint32_t)image->layout.size,
		.block_sites = image_block_sites(image),
		.header_off = (uint32_t)image->layout.header_off,
		.header_size = (uint32_t)image->layout.header_size,
	};
	int fd = plan_memory(image, map->variant, map->base, map->blocks, live != CALLTAP_PLAN_STUBS), ret;

	if (fd < 0)
		return fd;
	map->generation = session->images.generation;
	near_of(&plan, map);
	ret = channel_send(target->socket, &plan, sizeof(plan), &fd, 1);
	close(fd);
	if (!ret)
		*(map->stubs || map->later ? &target->owed.stubs : &target->owed.plans) += 1;
	map->sent = !ret;
	map->waits = live == CALLTAP_PLAN_STOPPED;
	return ret;
}

static enum calltap_plan_live live_of(const struct target *target, const struct target_map *map)
{
	return map->later || attached_is_open(target) ? CALLTAP_PLAN_STOPPED : CALLTAP_PLAN_FRESH;
}

/* About what the plan takes of the process' memory: stubs, blocks, lists, and copies of the pages that are written. */
static uint64_t memory_of(const struct target_map *map)
{
	const struct image *image = map->image;
	uint64_t lo, hi, pages;

	object_near(image->object, &lo, &hi);
	pages = (hi - lo) / CALLTAP_PAGE + 1;
	if (pages > image->site_count)
		pages = image->site_count;
	return pages * CALLTAP_PAGE + image->layout.size + image->variants[map->variant].stub_bytes +
	       (uint64_t)image->site_count * sizeof(struct calltap_site);
}

/* False, told once: a cgroup limits the process' memory, and plans would take more than a half of what was left. */
static bool has_memory_for(struct session *session, struct target *target, const struct target_map *map)
{
	uint64_t wanted = memory_of(map);

	if (!target->memory.left)
		target->memory.left = cgroup_memory_left(target->pid);
	if (target->memory.left == UINT64_MAX || target->memory.planned + wanted <= target->memory.left / PLANS_SHARE) {
		target->memory.planned += wanted;
		return true;
	}
	if (!target->memory.told)
		session_diagnose(
			session,
			"process %d has not all functions patched, %s's are left out first: its cgroup leaves it "
			"%llu MB, of which that would take more than a half; choose fewer functions (-l, -n)",
			(int)target->pid, map->image->path, (unsigned long long)target->memory.left >> 20);
	target->memory.told = true;
	return false;
}

/* Find a place for the object's blocks, if it has any, and send the plan. */
static int place_and_send(struct session *session, struct target *target, struct target_map *map,
			  const struct space *space)
{
	if (!map->moves && !has_memory_for(session, target, map))
		return 0;
	if (image_block_sites(map->image) && !map->region) {
		map->blocks = place_blocks_near(target, map, space);
		if (!map->blocks)
			session_diagnose(session, "%s was not patched: there is no room near it", map->image->path);
		if (!map->blocks)
			return 0;
	}
	return plan_send(session, target, map, live_of(target, map));
}

int plan_send_elsewhere(struct session *session, struct target *target, struct target_map *map)
{
	struct space space;
	int ret = space_read(&space, proc_alive(target->pid));

	map->moves++;
	if (!ret)
		ret = place_and_send(session, target, map, &space);
	space_free(&space);
	return ret == -ESRCH ? 0 : ret;
}

static struct target_map *add_map(struct target *target, const struct calltap_msg_object *object)
{
	struct target_map *maps = reallocarray(target->maps, target->map_count + 1, sizeof(*maps));

	if (!maps)
		return NULL;
	target->maps = maps;
	maps += target->map_count++;
	*maps = (struct target_map){.base = object->base, .dynamic = object->dynamic, .identity = object->identity};
	return maps;
}

int plan_send_variant(struct session *session, struct target *target, uint32_t map, uint32_t variant)
{
	const struct calltap_msg_object place = {.base = target->maps[map].base,
						 .dynamic = target->maps[map].dynamic,
						 .identity = target->maps[map].identity};
	struct target_map *added = add_map(target, &place);

	if (!added)
		return -ENOMEM;
	added->image = target->maps[map].image;
	added->blocks = target->maps[map].blocks;
	added->variant = variant;
	added->mapped = true;
	added->stubs = true;
	return plan_send(session, target, added, CALLTAP_PLAN_STUBS);
}

int plan_add_later(struct target *target, uint32_t map, struct image *addition)
{
	const struct calltap_msg_object place = {.base = target->maps[map].base,
						 .dynamic = target->maps[map].dynamic,
						 .identity = target->maps[map].identity};
	struct target_map *added = add_map(target, &place);

	if (!added)
		return -ENOMEM;
	added->image = addition;
	added->variant = addition->variant;
	added->mapped = true;
	added->later = true;
	return 0;
}

int plan_send_later(struct session *session, struct target *target, struct target_map *map, const struct space *space)
{
	int ret = plan_write_map(session, target, map);

	return ret ? ret : place_and_send(session, target, map, space);
}

/* Plan an image, or an addition to it, for the object. */
static int plan_image(struct session *session, struct target *target, const struct space *space,
		      const struct calltap_msg_object *object, struct image *image)
{
	/* The file is back at the place where it was: its stubs are there still. */
	struct target_map *map = known_map(target, object, image);
	int ret;

	if (!map) {
		map = add_map(target, object);
		if (map)
			map->variant = image->variant;
	}
	if (!map)
		return -ENOMEM;
	map->image = image;
	map->mapped = true;
	map->stubs = map->later = false; /* of an object that is back, they are the ones that a report leads to */
	ret = image_decide(&session->images, image);
	/* The plan first: while the agent carries it out, the functions are packed for the file. */
	if (!ret && image->site_count)
		ret = place_and_send(session, target, map, space);
	return ret ? ret : plan_write_map(session, target, map);
}

static int plan_object(struct session *session, struct target *target, const struct space *space,
		       const struct calltap_msg_object *object)
{
	struct image *image;
	int ret;

	if (known_map(target, object, NULL))
		return 0;
	ret = image_at(session, target, space, object, &image);
	if (ret || !image || (image->object && !returns_take(session, target, image->object)))
		return ret;
	ret = plan_image(session, target, space, object, image);
	for (struct image *addition = image->next; addition && !ret; addition = addition->next)
		if (addition->base == image)
			ret = plan_image(session, target, space, object, addition);
	return ret;
}

/* Objects that were unmapped: the file is told, as other objects may take their addresses. */
static int note_gone(struct session *session, struct target *target)
{
	int ret = 0;

	for (uint32_t i = 0; i < target->map_count && !ret; i++) {
		struct target_map *map = &target->maps[i];
		bool still = !map->mapped;

		for (uint32_t k = 0; k < target->report.count && !still; k++)
			still = lies_at(map, target->report.list[k]);
		if (still)
			continue;
		map->mapped = false;
		if (!map->stubs)
			ret = plan_write_map(session, target, map);
	}
	return ret;
}

int plan_report(struct session *session, struct target *target)
{
	struct space space;
	int ret = note_gone(session, target);

	target->report.moved = false;
	if (ret)
		return ret;
	ret = space_read(&space, proc_alive(target->pid));
	if (ret == -ESRCH) /* it ends just now: no object is found */
		ret = 0;
	for (uint32_t k = 0; k < target->report.count && !ret; k++)
		ret = plan_object(session, target, &space, target->report.list[k]);
	space_free(&space);
	if (!ret && session->emulated && !target->map_count)
		session_diagnose(session,
				 "process %d was not recorded: its emulator has its memory at other addresses than it "
				 "tells it; leave the options -R and -B out",
				 (int)target->pid);
	return ret;
}
