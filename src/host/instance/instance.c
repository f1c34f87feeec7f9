/*
 * What every instance of a session has and does (instance.h).
 *
 * Callers: session.c for the instance that the session begins with, further.c
 * for those that are asked for later, the drainer.  Context: host.
 */
#include <errno.h>
#include <stdlib.h>

#include <host/session/session.h>

#define SUB_MAX	    (64u << 10)
#define SUB_MIN	    4096u
#define SUBS_WANTED 8u

static void shape_rings(struct instance *instance)
{
	uint64_t bytes = instance->options->buffer_bytes, sub = SUB_MIN;

	while (sub * 2 <= SUB_MAX && sub * 2 * SUBS_WANTED <= bytes)
		sub *= 2;
	instance->sub_size = (uint32_t)sub;
	instance->sub_count = (uint32_t)(bytes / sub < 2 ? 2 : bytes / sub);
}

void instance_init(struct instance *instance, struct session *session, uint32_t set,
		   const struct record_options *options, struct record_result *result)
{
	*instance = (struct instance){
		.session = session,
		.set = set,
		.name = options->instance ? options->instance : "0",
		.options = options,
		.settings = {.options = *options, .tracing = true},
		.result = result,
		.buffers = {.folder = -1},
	};
	pthread_mutex_init(&instance->snapshot_lock, NULL);
	shape_rings(instance);
}

/* A row of the file: the map's object lies there from then on, or has gone (mapped). */
static struct calltap_file_map map_row(const struct target *target, const struct target_map *map, uint64_t ticks)
{
	struct calltap_file_map row = {
		.process = target->index,
		.object = map->mapped ? map->image->index : UINT32_MAX,
		.base = map->base,
		.ticks = ticks,
	};
	uint64_t lo, hi;

	if (map->image->object) {
		object_extent(map->image->object, &lo, &hi);
	} else {
		lo = map->image->identity.lo;
		hi = map->image->identity.hi;
	}
	row.lo = map->base + lo;
	row.hi = map->base + hi;
	return row;
}

void instance_write_map(struct instance *instance, const struct target *target, const struct target_map *map)
{
	struct calltap_file_map row = map_row(target, map, timing_now(instance->session).ticks);

	/* Errors are kept by the writer. */
	if (trace_writer_chunk(instance->writer, CALLTAP_CHUNK_MAP, &row, sizeof(row)))
		return;
}

int instance_take(struct share **out, struct instance *instance, struct target *target)
{
	struct share *share = calloc(1, sizeof(*share));
	int ret;

	*out = share;
	if (!share)
		return -ENOMEM;
	share->instance = instance;
	share->target = target;
	share->untraced_before = rings_counted(target, instance->set);
	share->next = instance->shares;
	instance->shares = share;
	instance->process_count++;
	target->shares[instance->set] = share;
	ret = target_write(target, instance->writer);
	for (uint32_t i = 0; i < target->map_count && !ret; i++)
		if (target->maps[i].mapped && !target->maps[i].stubs && target->maps[i].image &&
		    target->maps[i].image->announced)
			instance_write_map(instance, target, &target->maps[i]);
	return ret;
}

int instance_clear(struct instance *instance)
{
	int error;

	while (instance->shares) {
		struct share *share = instance->shares;

		instance->shares = share->next;
		for (uint32_t i = 0; i < share->arena_count; i++)
			arena_destroy(instance, &share->arenas[i], false);
		free(share);
	}
	error = instance->writer ? trace_writer_close(instance->writer) : 0;
	instance->writer = NULL;
	record_encoder_destroy(instance->encoder);
	tables_destroy(instance);
	buffers_destroy(instance, error != 0);
	profile_sums_clear(&instance->profile_ended);
	filter_set_destroy(instance->own_filters);
	pthread_mutex_destroy(&instance->snapshot_lock);
	free(instance->marks);
	peek_destroy(&instance->peek);
	free(instance->threads);
	return error;
}
