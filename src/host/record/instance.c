/*
 * One further instance of a session (instances.h): its processes, its file.
 * Called by instances.c and the drainer.  Context: host.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "instances.h"

#define FIRST_RINGS 16

struct instance {
	struct session session;
	struct record_options options;
	struct record_result result;
	char name[sizeof(((struct instance_wish *)0)->name)];
	char output[sizeof(((struct instance_wish *)0)->output)];
};

static void take_from_owner(struct instance *instance, struct session *owner)
{
	struct session *session = &instance->session;

	session->owner = owner;
	session->machine = owner->machine;
	session->program = owner->program;
	session->drained_fd = owner->drained_fd;
	session->board = owner->board;
	session->command = owner->command;
	session->clock_cost = owner->clock_cost;
	instance->options.command = owner->options->command;
	instance->options.pid = owner->options->pid ? owner->options->pid : owner->command;
	instance->options.wait_max_ms = owner->options->wait_max_ms;
}

/* The head of the session's file, made now. */
static int open_file(struct session *session, int fd)
{
	struct calltap_file_head head = *trace_writer_head(session->owner->writer);
	int own = fcntl(fd, F_DUPFD_CLOEXEC, 0);
	struct timespec now;

	if (own < 0)
		return -errno;
	clock_gettime(CLOCK_REALTIME, &now);
	head.created_ns = (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
	return trace_writer_open(&session->writer, own, &head);
}

static int describe(struct session *session)
{
	struct calltap_file_clock sample = clock_sample();
	int ret = tables_create(session);

	session->began_ns = sample.mono_ns;
	session->began_real_ns = sample.real_ns;
	if (!ret)
		ret = describe_start(session);
	if (!ret)
		ret = trace_writer_info(session->writer, "instance", "%s", session->instance_name);
	if (!ret)
		ret = trace_writer_flush(session->writer);
	if (!ret)
		ret = trace_writer_chunk(session->writer, CALLTAP_CHUNK_CLOCK, &sample, sizeof(sample));
	for (const struct image *image = session->owner->images.first; image && !ret; image = image->next)
		if (image->announced)
			ret = image_describe(image, session->writer);
	return ret;
}

int instance_create(struct session **out, struct session *owner, uint32_t set, struct instance_wish *wish)
{
	struct instance *instance = calloc(1, sizeof(*instance));
	struct session *session = &instance->session;
	int ret;

	*out = NULL;
	if (!instance)
		return -ENOMEM;
	instance->options = wish->settings.options;
	instance->options.options_text = wish->options;
	memcpy(instance->name, wish->name, sizeof(instance->name));
	memcpy(instance->output, wish->output, sizeof(instance->output));
	instance->options.output = instance->output;
	take_from_owner(instance, owner);
	pthread_mutex_init(&session->snapshot_lock, NULL);
	session->options = &instance->options;
	session->result = &instance->result;
	session->instance_name = instance->name;
	session->set = set;
	session->buffers = -1;
	session->settings = wish->settings;
	session->settings.options = instance->options;
	session->own_filters = wish->settings.options.filters;
	wish->settings.options.filters = NULL;
	session->threshold_ticks = wish->threshold_ticks;
	session_shape_rings(session);
	ret = open_file(session, wish->fd);
	if (!ret)
		ret = record_encoder_create(&session->encoder);
	if (!ret)
		ret = describe(session);
	instance->options.options_text = "";
	session->settings.options.options_text = "";
	if (ret)
		instance_destroy(session);
	else
		*out = session;
	return ret;
}

static int note_process(struct session *instance, struct process **out, struct process *of)
{
	struct process *process = calloc(1, sizeof(*process));
	int ret;

	if (!process)
		return -ENOMEM;
	process->of = of;
	process->socket = -1;
	process->pid = of->pid;
	process->index = of->index;
	process->row = of->row;
	process->other_ids = of->other_ids;
	process->greeted = process->welcome = process->began = true;
	process->exe = of->exe ? strdup(of->exe) : NULL;
	process->next = instance->processes;
	instance->processes = process;
	instance->process_count++;
	*out = process;
	ret = process_write(instance, process);
	for (uint32_t i = 0; i < of->map_count && !ret; i++)
		if (of->maps[i].mapped && !of->maps[i].stubs && of->maps[i].image && of->maps[i].image->announced)
			instance_write_map(instance, of, &of->maps[i]);
	return ret;
}

int instance_add(struct session *instance, struct process *of)
{
	struct calltap_msg_instance message = {.head = {CALLTAP_MSG_INSTANCE, sizeof(message)},
					       .set = instance->set,
					       .what = CALLTAP_INSTANCE_BEGIN,
					       .calls = !instance->settings.options.tracer->has_exit,
					       .depth_max = instance->settings.options.depth_max,
					       .threshold_ticks = instance->threshold_ticks};
	struct process *process;
	int fd, ret = note_process(instance, &process, of);

	if (!ret)
		ret = arena_add(instance, process, FIRST_RINGS, &fd);
	if (ret)
		return ret;
	process->untraced_before = rings_counted(of, instance->set);
	message.arena_size = process->arenas[0].size;
	ret = channel_send(of->socket, &message, sizeof(message), &fd, 1);
	close(fd);
	of->instances_open += !ret;
	process->socket = of->socket; /* as instance_follow() has it */
	return ret ? ret : rings_prepare(instance, process, rings_threads(of));
}

void instance_follow(const struct session *instance, struct process *process)
{
	const struct process *of = process->of;

	process->alone = of->alone || of->ended;
	process->socket = process->alone ? -1 : of->socket;
	process->row.end_ticks = of->row.end_ticks;
	process->ended = process->ended || of->ended || instance->ending;
}

static bool is_drained(const struct session *instance)
{
	for (const struct process *process = instance->processes; process; process = process->next)
		if (process->arena_count && !process->drained)
			return false;
	return true;
}

void instance_take_out(struct session *instance)
{
	struct session *owner = instance->owner;

	instance->ending = true;
	drain_wake(owner);
	while (!is_drained(instance) && owner->drainer_runs)
		pthread_cond_wait(&owner->answered, &owner->lock);
	owner->instances[instance->set - 1] = NULL;
	while (owner->draining == instance)
		pthread_cond_wait(&owner->answered, &owner->lock);
}

int instance_finish(struct session *instance)
{
	const struct session *owner = instance->owner;
	struct record_result *result = instance->result;
	int ret;

	result->ticks_per_ns = clock_ticks_per_ns(CALIBRATE_MS);
	result->wait_status = owner->result->wait_status;
	result->patched = owner->result->patched;
	result->failed = owner->result->failed;
	instance->command = owner->command;
	ret = describe_end(instance);
	result->file_bytes = trace_writer_bytes(instance->writer);
	return ret;
}

void instance_destroy(struct session *instance)
{
	while (instance->processes) {
		struct process *process = instance->processes;

		instance->processes = process->next;
		process->socket = -1; /* that of the entry that it follows */
		process_destroy(instance, process);
	}
	if (instance->writer && trace_writer_close(instance->writer))
		session_diagnose(instance, "its file could not be closed");
	record_encoder_destroy(instance->encoder);
	tables_destroy(instance);
	filter_set_destroy(instance->own_filters);
	pthread_mutex_destroy(&instance->snapshot_lock);
	free(instance->threads);
	free(instance); /* the whole struct instance, of which it is the first */
}

void instance_write_map(struct session *instance, const struct process *process, const struct target_map *map)
{
	struct calltap_file_map row = plan_map_row(process, map, clock_sample().ticks);

	/* Errors are kept by the writer. */
	if (trace_writer_chunk(instance->writer, CALLTAP_CHUNK_MAP, &row, sizeof(row)))
		return;
}
