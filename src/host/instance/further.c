/*
 * One instance that was asked for while its session runs (further.h): from the
 * file that it begins with to the file that is complete.
 * Called by instances.c and the drainer.  Context: host.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <host/brief/brief.h>
#include <host/hook/triggers_impl.h>
#include <host/hook/watch.h>

#include "instances.h"

/* An instance and what it points to. */
struct further {
	struct instance instance;
	struct record_options options;
	struct record_result result;
	char name[sizeof(((struct instance_wish *)0)->name)];
	char output[sizeof(((struct instance_wish *)0)->output)];
	char buffer_dir[sizeof(((struct instance_wish *)0)->buffer_dir)];
};

/* The head of the instance's file, made now. */
static int open_file(struct instance *instance, int fd)
{
	struct calltap_file_head head = *trace_writer_head(session_first(instance->session)->writer);
	int own = fcntl(fd, F_DUPFD_CLOEXEC, 0);
	struct timespec now;

	if (own < 0)
		return -errno;
	clock_gettime(CLOCK_REALTIME, &now);
	head.created_ns = (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
	return trace_writer_open(&instance->writer, own, &head);
}

static int describe_all(struct instance *instance)
{
	struct calltap_file_clock sample = timing_now(instance->session);
	int ret = tables_create(instance);

	instance->began_real_ns = sample.real_ns;
	if (!ret)
		ret = describe_start(instance);
	if (!ret)
		ret = trace_writer_info(instance->writer, "instance", "%s", instance->name);
	if (!ret)
		ret = trace_writer_flush(instance->writer);
	if (!ret)
		ret = trace_writer_chunk(instance->writer, CALLTAP_CHUNK_CLOCK, &sample, sizeof(sample));
	for (struct image *image = instance->session->images.first; image && !ret; image = image->next) {
		image->lined &= ~(1u << instance->set); /* an instance that had the place before may have had them */
		if (image->announced)
			ret = image_describe(image, instance->writer);
	}
	return ret;
}

static int begin_times(struct instance *instance)
{
	struct session *session = instance->session;
	uint64_t short_ns = instance->options->short_ns;
	int ret = session_begin_times(session);

	return ret ? ret
		   : brief_create_further(&instance->brief, session->images.times, instance->set,
					  short_ns ? short_ns : RECORD_SHORT_NS);
}

int further_create(struct instance **out, struct session *session, uint32_t set, struct instance_wish *wish,
		   struct calltap_diag *diag)
{
	struct further *further = calloc(1, sizeof(*further));
	struct instance *instance;
	int ret;

	*out = NULL;
	if (!further)
		return calltap_diag_set(diag, -ENOMEM, "not enough memory");
	instance = &further->instance;
	memcpy(further->name, wish->name, sizeof(further->name));
	memcpy(further->output, wish->output, sizeof(further->output));
	memcpy(further->buffer_dir, wish->buffer_dir, sizeof(further->buffer_dir));
	further->options = wish->settings.options;
	further->options.options_text = wish->options;
	further->options.instance = further->name;
	further->options.output = further->output;
	further->options.buffer_dir = further->buffer_dir[0] ? further->buffer_dir : NULL;
	further->options.allow_no_match = wish->allow_no_match;
	further->options.frames = wish->frames;
	further->options.follow = wish->follow;
	further->options.command = session->options->command;
	further->options.wait_max_ms = session->options->wait_max_ms;
	instance_init(instance, session, set, &further->options, &further->result);
	instance->settings.tracing = wish->settings.tracing;
	instance->own_filters = wish->settings.options.filters;
	wish->settings.options.filters = NULL;
	wish->triggers = NULL; /* options.triggers are the instance's own now */
	instance->threshold_ticks = wish->threshold_ticks;
	diag->text[0] = 0;
	ret = buffers_create(instance, diag);
	if (!ret && further->options.adaptive)
		ret = begin_times(instance);
	if (!ret)
		ret = open_file(instance, wish->fds[0]);
	if (!ret && further->options.triggers && wish->fds[1] >= 0) {
		further->options.triggers->deeds = fcntl(wish->fds[1], F_DUPFD_CLOEXEC, 0);
		ret = further->options.triggers->deeds < 0 ? -errno : 0;
	}
	if (!ret)
		ret = record_encoder_create(&instance->encoder);
	if (!ret)
		ret = describe_all(instance);
	further->options.options_text = "";
	instance->settings.options.options_text = "";
	if (!ret)
		*out = instance;
	else
		further_destroy(instance);
	return ret && !diag->text[0] ? calltap_diag_set(diag, ret, "cannot begin the instance: %s", strerror(-ret))
				     : ret;
}

struct triggers *further_triggers(const struct instance *instance)
{
	return instance->options->triggers;
}

uint32_t further_flags(const struct instance *instance, const struct settings *settings)
{
	const struct filter_set *filters = settings->options.filters;

	return (settings->options.tracer->has_exit ? 0 : CALLTAP_INSTANCE_CALLS) |
	       (instance->options->frames ? CALLTAP_INSTANCE_FRAMES : 0) |
	       (filter_set_has(filters, FILTER_GRAPH) ? CALLTAP_INSTANCE_TREES : 0) |
	       (filter_set_has(filters, FILTER_NOGRAPH) ? CALLTAP_INSTANCE_HIDES : 0) |
	       (further_triggers(instance) ? CALLTAP_INSTANCE_TRIGGERS : 0) |
	       (instance->brief ? CALLTAP_INSTANCE_BRIEF : 0) | (instance->buffers.path ? CALLTAP_INSTANCE_FILES : 0);
}

int further_add(struct instance *instance, struct target *target)
{
	struct calltap_msg_instance message = {.head = {CALLTAP_MSG_INSTANCE, sizeof(message)},
					       .set = instance->set,
					       .what = CALLTAP_INSTANCE_BEGIN,
					       .flags = further_flags(instance, &instance->settings),
					       .depth_max = instance->settings.options.depth_max,
					       .threshold_ticks = instance->threshold_ticks};
	uint32_t rings = rings_room(instance, target, INSTANCE_FIRST_RINGS, 0);
	struct share *share;
	int fd, ret = instance_take(&share, instance, target);

	if (!ret && further_triggers(instance))
		ret = watch_tell(instance->session->images.watch, target);
	if (!ret)
		ret = arena_add(share, rings ? rings : 1, &fd);
	if (ret)
		return ret;
	message.arena_size = share->arenas[0].size;
	ret = channel_send(target->socket, &message, sizeof(message), &fd, 1);
	close(fd);
	target->owed.instances += !ret;
	return ret ? ret : rings_prepare(share, rings_threads(target));
}

static bool is_drained(const struct instance *instance)
{
	for (const struct share *share = instance->shares; share; share = share->next)
		if (share->arena_count)
			return false;
	return true;
}

void further_detach(struct instance *instance)
{
	instance->session->instances[instance->set] = NULL;
	for (struct share *share = instance->shares; share; share = share->next)
		share->target->shares[instance->set] = NULL;
}

void further_take_out(struct instance *instance)
{
	struct session *session = instance->session;

	instance->ending = true;
	session_wake_drainer(session);
	while (!is_drained(instance) && session->drainer.runs)
		pthread_cond_wait(&session->answered, &session->lock);
	further_detach(instance);
	while (session->drainer.at == instance)
		pthread_cond_wait(&session->answered, &session->lock);
}

int further_finish(struct instance *instance)
{
	struct record_result *result = instance->result;
	int ret;

	if (instance->brief)
		(void)!brief_write(instance->brief, instance->writer); /* an error of the file is told below */
	result->ticks_per_ns = timing_rate(instance->session);
	ret = describe_end(instance);
	result->file_bytes = trace_writer_bytes(instance->writer);
	return ret;
}

void further_destroy(struct instance *instance)
{
	struct further *further = (struct further *)instance;

	brief_destroy(instance->brief);
	instance->brief = NULL;
	if (instance_clear(instance))
		instance_diagnose(instance, "its file could not be closed");
	if (further->options.triggers && further->options.triggers->deeds >= 0)
		close(further->options.triggers->deeds);
	triggers_destroy(further->options.triggers);
	free(instance); /* the whole struct further, of which it is the first */
}
