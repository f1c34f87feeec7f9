/*
 * A session's watch (watch.h).  Context: host, under the session's lock.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <calltap/abi/control.h>
#include <host/counted.h>
#include <host/elf/filter.h>
#include <host/elf/object.h>
#include <host/instance/snapshot.h>
#include <host/sealed.h>
#include <host/session/session.h>
#include <host/target/attached.h>

#include "actor.h"
#include "triggers_impl.h"
#include "watch.h"

#define TOLD_GAP_NS 1000000u /* between events of a function that are told at all */
#define AGE_MAX_NS  10000000000u

/* All that triggers want to know of a function. */
struct question {
	uint64_t ticks, window;
	uint32_t often, kinds;
	const struct trigger *refused; /* counts the calls in another way than one before it, or NULL */
};

int watch_create(struct watch **out, struct session *session, double ticks_per_ns)
{
	struct watch *watch = calloc(1, sizeof(*watch));
	void *memory;
	int ret;

	*out = NULL;
	if (!watch)
		return -ENOMEM;
	*watch = (struct watch){.session = session, .ticks_per_ns = ticks_per_ns, .actor_end = -1};
	watch->size = calltap_triggers_at_event(WATCH_FUNCTIONS, WATCH_SLOTS);
	ret = sealed_create("calltap-triggers", watch->size, &watch->fd, &memory);
	if (ret) {
		free(watch);
		return ret;
	}
	watch->memory = memory;
	watch->memory->magic = CALLTAP_TRIGGERS_MAGIC;
	watch->memory->functions = WATCH_FUNCTIONS;
	watch->memory->slots = WATCH_SLOTS;
	*out = watch;
	return 0;
}

void watch_destroy(struct watch *watch)
{
	if (!watch)
		return;
	munmap(watch->memory, watch->size);
	close(watch->fd);
	free(watch);
}

struct triggers *watch_of(const struct watch *watch, uint32_t set)
{
	return watch ? watch->of[set] : NULL;
}

bool watch_waits(const struct watch *watch, uint32_t set, struct object *object, const struct object_site *site,
		 bool tracing)
{
	const struct triggers *triggers = watch_of(watch, set);

	for (size_t i = 0; triggers && i < triggers->count; i++)
		if ((tracing || triggers->list[i].action != TRIGGER_STOP) &&
		    trigger_names(&triggers->list[i], object, site))
			return true;
	return false;
}

uint16_t watch_flags(const struct watch *watch, struct object *object, const struct object_site *site)
{
	const struct triggers *triggers = watch_of(watch, 0);
	uint16_t flags = 0;

	for (size_t i = 0; triggers && i < triggers->count; i++) {
		if (!trigger_names(&triggers->list[i], object, site))
			continue;
		flags |= CALLTAP_SITE_TRIGGER | CALLTAP_SITE_TIMED;
		/* The rest is asked by the recorders in C, which keep the depth together. */
		if (triggers->list[i].kind &
		    (CALLTAP_EVENT_ENTERED | CALLTAP_EVENT_OFTEN | CALLTAP_EVENT_LEFT | CALLTAP_EVENT_CHOSEN))
			flags |= CALLTAP_SITE_FULL_ENTRY | CALLTAP_SITE_FULL_EXIT;
	}
	return flags;
}

static uint64_t ticks_of(const struct watch *watch, uint64_t ns)
{
	uint64_t ticks = (uint64_t)((double)ns * watch->ticks_per_ns);

	return ticks || !ns ? ticks : 1; /* 0 is none */
}

static struct calltap_limit *limit_of(const struct watch *watch, uint32_t id)
{
	return (void *)((char *)watch->memory + calltap_triggers_at_limit(id));
}

/* Does the target count the function's calls as this trigger, which is of kind OFTEN, wants it? */
static bool is_counted(const struct watch *watch, const struct trigger *trigger, uint32_t id)
{
	const struct calltap_limit *limit = limit_of(watch, id);

	return limit->often == trigger->often && limit->window == ticks_of(watch, trigger->window_ns);
}

/* Several triggers of one function: the target tells what the least of them wants to know. */
static void add_to_question(const struct watch *watch, struct question *question, const struct trigger *trigger)
{
	uint64_t window = ticks_of(watch, trigger->window_ns), ticks = ticks_of(watch, trigger->longer_ns);

	if (trigger->kind == CALLTAP_EVENT_LONGER) {
		question->ticks = question->ticks && question->ticks < ticks ? question->ticks : ticks;
		return;
	}
	if (trigger->kind == CALLTAP_EVENT_OFTEN && question->often &&
	    (question->often != trigger->often || question->window != window)) {
		question->refused = question->refused ? question->refused : trigger;
		return;
	}
	if (trigger->kind == CALLTAP_EVENT_OFTEN) {
		question->window = window;
		question->often = trigger->often;
	}
	question->kinds |= trigger->kind;
}

static struct question ask_about(const struct watch *watch, struct object *object, const struct object_site *site)
{
	struct question question = {0};

	for (uint32_t set = 0; set < CALLTAP_INSTANCES; set++) {
		const struct triggers *triggers = watch->of[set];

		for (size_t i = 0; triggers && i < triggers->count; i++)
			if (trigger_names(&triggers->list[i], object, site))
				add_to_question(watch, &question, &triggers->list[i]);
	}
	return question;
}

/* Threads may look at the limit meanwhile; what a mixture of old and new makes them tell, the watch passes over. */
static void write_question(const struct watch *watch, uint32_t id, const struct question *question)
{
	struct calltap_limit *limit = limit_of(watch, id);

	/* Memory is taken for functions that have, or had, a question. */
	if (!question->ticks && !question->kinds && !__atomic_load_n(&limit->ticks, __ATOMIC_RELAXED) &&
	    !__atomic_load_n(&limit->kinds, __ATOMIC_RELAXED))
		return;
	__atomic_store_n(&limit->window, question->window, __ATOMIC_RELAXED);
	__atomic_store_n(&limit->often, question->often, __ATOMIC_RELAXED);
	__atomic_store_n(&limit->ticks, question->ticks, __ATOMIC_RELAXED);
	__atomic_store_n(&limit->kinds, question->kinds, __ATOMIC_RELAXED);
}

static void tell_conflict(const struct question *question, struct object *object, const struct object_site *site,
			  char *text, size_t size)
{
	snprintf(text, size, "trigger '%.200s' is not for %.200s, whose calls another one counts otherwise",
		 question->refused->text, object_site_short_name(object, site));
}

void watch_add_function(const struct watch *watch, uint32_t id, struct object *object, const struct object_site *site)
{
	struct question question;
	char conflict[512];

	if (!watch || id >= WATCH_FUNCTIONS)
		return;
	question = ask_about(watch, object, site);
	if (question.refused) {
		tell_conflict(&question, object, site, conflict, sizeof(conflict));
		fprintf(stderr, "calltap: %s\n", conflict);
	}
	write_question(watch, id, &question);
}

/* Write the questions about all functions there are, and about the first that has a conflict a sentence. */
static void write_all(const struct watch *watch, char *conflict, size_t size)
{
	for (struct image *image = watch->session->images.first; image; image = image->next)
		for (uint32_t i = 0; i < image->site_count && image->sites[i].id < WATCH_FUNCTIONS; i++) {
			struct question question = ask_about(watch, image->object, image->sources[i]);

			if (question.refused && size && !conflict[0])
				tell_conflict(&question, image->object, image->sources[i], conflict, size);
			write_question(watch, image->sites[i].id, &question);
		}
}

/* Keep calls of a function that come all the time from flooding the ring; is_due() keeps the rate of deeds. */
static void set_gap(const struct watch *watch)
{
	uint64_t gap_ns = TOLD_GAP_NS;

	for (uint32_t set = 0; set < CALLTAP_INSTANCES; set++)
		if (watch->of[set] && watch->of[set]->gap_ns < gap_ns)
			gap_ns = watch->of[set]->gap_ns;
	__atomic_store_n(&watch->memory->min_gap, ticks_of(watch, gap_ns), __ATOMIC_RELAXED);
}

bool watch_join(struct watch *watch, uint32_t set, struct triggers *triggers, char *conflict, size_t size)
{
	watch->of[set] = triggers;
	set_gap(watch);
	conflict[0] = 0;
	write_all(watch, conflict, size);
	return !conflict[0];
}

void watch_part(struct watch *watch, uint32_t set)
{
	if (!watch_of(watch, set))
		return;
	watch_poll(watch); /* what the drainer has not seen yet */
	watch->of[set] = NULL;
	write_all(watch, NULL, 0);
}

int watch_tell(const struct watch *watch, struct target *target)
{
	struct calltap_msg_triggers message = {.head = {CALLTAP_MSG_TRIGGERS, sizeof(message)}};
	int ret;

	if (!watch || target->watched)
		return 0;
	message.size = watch->size;
	ret = channel_send(target->socket, &message, sizeof(message), &watch->fd, 1);
	target->watched = !ret;
	return ret;
}

static uint64_t duration_of(const struct watch *watch, const struct calltap_event *event)
{
	if (!event->exit_ticks || event->exit_ticks < event->entry_ticks || !event->entry_ticks)
		return 0;
	return (uint64_t)((double)(event->exit_ticks - event->entry_ticks) / watch->ticks_per_ns);
}

static void say_what(struct deed *deed, const struct trigger *trigger)
{
	char how[80] = "";

	switch (trigger->kind) {
	case CALLTAP_EVENT_LONGER:
		snprintf(how, sizeof(how), "took %.3f ms", (double)deed->duration_ns / 1e6);
		break;
	case CALLTAP_EVENT_OFTEN:
		snprintf(how, sizeof(how), "was called %u %s in %g ms", trigger->often,
			 counted(trigger->often, "time", "times"), (double)trigger->window_ns / 1e6);
		break;
	case CALLTAP_EVENT_THREW:
		snprintf(how, sizeof(how), "was left by an exception");
		break;
	case CALLTAP_EVENT_LEFT:
		snprintf(how, sizeof(how), "returned");
		break;
	case CALLTAP_EVENT_CHOSEN:
		snprintf(how, sizeof(how), "is as in '%.60s'", trigger->text);
		break;
	default:
		snprintf(how, sizeof(how), "was entered");
	}
	snprintf(deed->text, sizeof(deed->text), "%s %s in thread %u", deed->function, how, deed->tid);
}

/* The target tells one event of a call's begin and one of its end: what took long has returned, too. */
static bool is_meant(const struct watch *watch, const struct trigger *trigger, const struct calltap_event *event,
		     uint64_t duration_ns)
{
	switch (event->kind) {
	case CALLTAP_EVENT_LONGER:
		return trigger->kind == CALLTAP_EVENT_LEFT ||
		       (trigger->kind == CALLTAP_EVENT_LONGER && duration_ns >= trigger->longer_ns);
	case CALLTAP_EVENT_OFTEN:
		return trigger->kind == CALLTAP_EVENT_ENTERED ||
		       (trigger->kind == CALLTAP_EVENT_OFTEN && is_counted(watch, trigger, event->function));
	case CALLTAP_EVENT_CHOSEN:
		return trigger->kind == CALLTAP_EVENT_CHOSEN && event->chosen >> (trigger->number & 31) & 1;
	default:
		return trigger->kind == event->kind;
	}
}

static bool is_due(const struct triggers *triggers, const struct trigger *trigger, uint64_t now_ns)
{
	return (!trigger->last_ns || now_ns - trigger->last_ns >= triggers->gap_ns) &&
	       (!triggers->most || triggers->sent < triggers->most);
}

/* The event says so in memory that the target may scribble on: it is not to lead us to other processes. */
static pid_t pid_of(const struct session *session, uint32_t pid)
{
	for (const struct target *target = session->targets; target; target = target->next)
		if (target->greeted && !target->ended && !target->other_ids && (uint32_t)target->pid == pid)
			return target->pid;
	return 0;
}

/* How long ago it was: the drainer may have slept, or had much to do. */
static uint64_t age_of(const struct watch *watch, const struct calltap_event *event)
{
	uint64_t then = event->exit_ticks ? event->exit_ticks : event->entry_ticks;
	uint64_t now = timing_now(watch->session).ticks;
	uint64_t age = then && then < now ? (uint64_t)((double)(now - then) / watch->ticks_per_ns) : 0;

	return age < AGE_MAX_NS ? age : 0; /* else it is made up */
}

/* The index of the session's process whose rings hold the pid's records; false: there is none. */
static bool index_of(const struct session *session, uint32_t pid, uint32_t *index)
{
	bool found = false;

	for (const struct target *target = session->targets; target; target = target->next)
		if (target->greeted && target->hello.pid == pid && (!found || !target->ended)) {
			*index = target->index;
			found = true;
		}
	return found;
}

static struct history_call call_of(const struct watch *watch, const struct calltap_event *event)
{
	struct history_call call = {
		.tid = event->tid,
		.function = event->function,
		.entry_ticks = event->entry_ticks,
		.exit_ticks = event->exit_ticks,
		.threw = event->kind == CALLTAP_EVENT_THREW,
	};

	/* A time to come is made up. */
	if (!call.entry_ticks || call.exit_ticks < call.entry_ticks ||
	    call.exit_ticks > timing_now(watch->session).ticks || !index_of(watch->session, event->pid, &call.process))
		call.exit_ticks = 0;
	return call;
}

/* Send the deed to who does it; under the lock of the session, so nothing is waited for. */
static void send_deed(struct triggers *triggers, struct trigger *trigger, const struct deed *deed, uint64_t now_ns)
{
	if (send(triggers->deeds, deed, sizeof(*deed), MSG_DONTWAIT | MSG_NOSIGNAL) != sizeof(*deed)) {
		triggers->dropped++;
		return;
	}
	triggers->sent++;
	trigger->last_ns = now_ns;
	trigger->count++;
}

/* The function that an event is of. */
struct named {
	struct object *object;
	const struct object_site *site;
};

static void keep_call(struct triggers *triggers, const struct history_call *call)
{
	pthread_mutex_lock(&triggers->lock);
	triggers->calls[triggers->calls_seen++ % TRIGGER_CALLS] = *call;
	pthread_mutex_unlock(&triggers->lock);
}

/* Fire those triggers of an instance that are meant. */
static void fire_triggers(const struct watch *watch, struct triggers *triggers, const struct calltap_event *event,
			  const struct named *named, struct deed *deed, uint64_t now_ns)
{
	bool any = false;

	for (size_t i = 0; i < triggers->count; i++) {
		struct trigger *trigger = &triggers->list[i];

		if (!trigger_names(trigger, named->object, named->site))
			continue;
		any = true;
		if (!is_meant(watch, trigger, event, deed->duration_ns) || !is_due(triggers, trigger, now_ns))
			continue;
		deed->trigger = (uint32_t)i;
		say_what(deed, trigger);
		send_deed(triggers, trigger, deed, now_ns);
	}
	if (any && deed->call.exit_ticks)
		keep_call(triggers, &deed->call);
}

static void take_event(const struct watch *watch, const struct calltap_event *event)
{
	uint64_t now_ns = clock_now_ns();
	struct deed deed = {
		.size = sizeof(deed),
		.pid = pid_of(watch->session, event->pid),
		.tid = event->tid,
		.told_pid = event->pid,
		.happened_ns = now_ns - age_of(watch, event),
		.duration_ns = duration_of(watch, event),
		.call = call_of(watch, event),
	};
	uint32_t site;
	struct image *image = images_of(&watch->session->images, event->function, &site);
	struct named named;

	if (!image)
		return;
	named = (struct named){image->object, image->sources[site]};
	snprintf(deed.function, sizeof(deed.function), "%s", object_site_short_name(named.object, named.site));
	/* The first instance has filters of its own to refuse the call by. */
	for (uint32_t set = event->flags & CALLTAP_EVENT_RECORDED ? 0 : 1; set < CALLTAP_INSTANCES; set++)
		if (watch->of[set])
			fire_triggers(watch, watch->of[set], event, &named, &deed, now_ns);
}

/* The memory is the target's to scribble on: what it says is checked against what we know. */
static bool read_event(const struct watch *watch, uint64_t number, struct calltap_event *event)
{
	const struct calltap_event *at =
		(void *)((char *)watch->memory +
			 calltap_triggers_at_event(WATCH_FUNCTIONS, (uint32_t)(number & (WATCH_SLOTS - 1))));

	if (__atomic_load_n(&at->number, __ATOMIC_ACQUIRE) != number + 1) /* pairs with the store in tell() */
		return false;
	memcpy(event, at, sizeof(*event));
	return event->function < WATCH_FUNCTIONS;
}

void watch_poll(struct watch *watch)
{
	uint64_t taken = __atomic_load_n(&watch->memory->taken, __ATOMIC_ACQUIRE);

	if (taken - watch->read > WATCH_SLOTS)
		watch->read = taken; /* scribbled on */
	while (watch->read != taken) {
		struct calltap_event event;

		/* Not written yet: the next round has it, unless its writer has died meanwhile. */
		if (!read_event(watch, watch->read, &event)) {
			if (watch->stuck++ < WATCH_STUCK)
				break;
		} else {
			take_event(watch, &event);
		}
		watch->stuck = 0;
		watch->read++;
	}
	__atomic_store_n(&watch->memory->read, watch->read, __ATOMIC_RELEASE); /* pairs with take() */
}

static int own_snapshot(void *context, const struct deed *deed, const char *path, uint64_t history_ns,
			uint64_t *records, struct calltap_diag *diag)
{
	const struct watch *watch = context;
	const struct snapshot_options options = {
		.size = sizeof(options),
		.path = path,
		.fd = -1,
		.reason = deed->text,
		.call = deed->call.exit_ticks ? &deed->call : NULL,
		.history_ns = history_ns,
	};
	struct snapshot_result result = {0};
	int ret = snapshot_write(session_first(watch->session), &options, &result, diag);

	*records = result.records;
	return ret;
}

static int own_tracing(void *context, bool on, struct calltap_diag *diag)
{
	return steer_tracing(((const struct watch *)context)->session, on, diag);
}

static void own_stopped(void *context, const struct attach_times *times)
{
	struct session *session = ((const struct watch *)context)->session;

	session_lock(session);
	attached_note_times(session, times);
	session_unlock(session);
}

int watch_start(struct watch *watch)
{
	static const struct actor_ops ops = {own_snapshot, own_tracing, own_stopped};
	const struct record_options *recording = watch->session->options;
	struct actor_options options = {
		.ops = &ops,
		.context = watch,
		.triggers = watch->of[0],
		.output = recording->output,
		.tells = recording->progress || recording->verbose || recording->tells,
		.progress = recording->progress,
	};
	int ends[2];

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends))
		return -errno;
	watch->of[0]->deeds = ends[0];
	options.deeds = watch->actor_end = ends[1];
	return actor_start(&watch->actor, &options);
}

static void tell_missed(const struct watch *watch, uint64_t undone)
{
	uint64_t lost = __atomic_load_n(&watch->memory->lost, __ATOMIC_RELAXED);

	undone += watch_of(watch, 0) ? watch->of[0]->dropped : 0;
	if (lost + undone)
		fprintf(stderr,
			"calltap: %" PRIu64 " %s missed, there were too many at once; %" PRIu64
			" %s not taken in time\n",
			lost, counted(lost, "call that triggers wait for was", "calls that triggers wait for were"),
			undone, counted(undone, "action was", "actions were"));
}

void watch_end(struct watch *watch)
{
	uint64_t undone;

	if (!watch)
		return;
	/* The drainer may not have seen the last events. */
	session_lock(watch->session);
	watch_poll(watch);
	session_unlock(watch->session);
	if (watch->actor_end < 0)
		return;
	undone = actor_end(watch->actor);
	watch->actor = NULL;
	session_lock(watch->session);
	close(watch->of[0]->deeds);
	watch->of[0]->deeds = -1;
	session_unlock(watch->session);
	close(watch->actor_end);
	watch->actor_end = -1;
	tell_missed(watch, undone);
}
