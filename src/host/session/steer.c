/*
 * Changing a session while it records: what `calltap set`, `status`,
 * `snapshot` and `detach` ask for (host/remote/remote.h).
 *
 * Called in the thread of the session's remote side; apply.c carries out what
 * is asked for.  Context: host.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <host/brief/brief.h>
#include <host/core/history.h>
#include <host/counted.h>
#include <host/hook/handlers.h>
#include <host/hook/watch.h>
#include <host/instance/instances.h>
#include <host/instance/snapshot.h>
#include <host/remote/remote.h>
#include <host/text.h>
#include <host/values/values.h>
#include <tracers/tracer.h>

#include "returns.h"
#include "revalue.h"
#include "session.h"

static bool is_timed_alike(const struct record_options *old, const struct record_options *new)
{
	return old->adaptive == new->adaptive && old->short_ns == new->short_ns && old->every == new->every;
}

/*
 * Recorders that know of records without times are chosen at the start: others must not come upon such a record, and
 * frames that are open leave by theirs (doc/design/clock.md).
 */
static int check_times(const struct session *session, const struct record_options *old,
		       const struct record_options *new, struct calltap_diag *diag)
{
	if (session->images.brief && !new->tracer->has_exit)
		return calltap_diag_set(diag, -EOPNOTSUPP,
					"a recording that began with --time adaptive keeps the tracer function_graph; "
					"detach and attach again to change it");
	if (is_timed_alike(old, new))
		return 0;
	if (old->tracer->counts)
		return calltap_diag_set(diag, -EOPNOTSUPP,
					"with the tracer %s time is a setting of the start; detach and attach again to "
					"change it",
					old->tracer->name);
	if (!session->images.brief)
		return calltap_diag_set(
			diag, -EOPNOTSUPP,
			"this recording began with --time exact, and its recorders know no other; one that begins with "
			"--time adaptive can be changed to time=exact and back");
	return 0;
}

static int check_fixed(const struct session *session, const struct settings *next, struct calltap_diag *diag)
{
	const struct record_options *old = &session_first(session)->settings.options, *new = &next->options;

	if (old->mode != new->mode)
		return calltap_diag_set(diag, -EOPNOTSUPP,
					"mode is a setting of the start; detach and attach again to change it");
	if (old->buffer_bytes != new->buffer_bytes && old->mode != CALLTAP_MODE_BLOCK && old->mode != CALLTAP_MODE_DROP)
		return calltap_diag_set(diag, -EOPNOTSUPP,
					"in mode overwrite buffer is a setting of the start: what is in the buffers "
					"is the history; detach and attach again to change it");
	if (old->tracer->counts != new->tracer->counts)
		return calltap_diag_set(
			diag, -EOPNOTSUPP,
			"the tracer %s keeps counters in place of records; detach and attach again to change "
			"to it or from it",
			old->tracer->counts ? old->tracer->name : new->tracer->name);
	if (check_times(session, old, new, diag) || returns_check(session, new->tracer->has_exit, diag))
		return diag->code;
	if (session->options->serves && old->tracer != new->tracer)
		return calltap_diag_set(diag, -EOPNOTSUPP,
					"this session serves the handlers of the program itself (libcalltap) and keeps "
					"no trace; to have both start the program by `calltap record`");
	return 0;
}

/* From one size of the rings to another; all or nothing, but: -ETIMEDOUT of the rest. */
static int change_all(struct instance *first, struct settings *next, struct calltap_diag *diag)
{
	uint64_t before = (uint64_t)first->sub_size * first->sub_count;
	bool resized = next->options.buffer_bytes != first->settings.options.buffer_bytes;
	int ret = resized ? resize_rings(first, &next->options.buffer_bytes) : 0;

	if (ret == -ENOSPC)
		return calltap_diag_set(diag, ret,
					"this session has had too many sizes of buffers; go back to one of them, or "
					"start another session");
	if (ret)
		return calltap_diag_set(diag, ret, "cannot make the buffers: %s", strerror(-ret));
	ret = apply_settings(first->session, next, diag);
	if (ret && ret != -ETIMEDOUT && resized && resize_rings(first, &before))
		instance_diagnose(first, "the size of the buffers could not be put back");
	return ret;
}

static void set_times(const struct instance *first, const struct record_options *next)
{
	struct brief *brief = first->session->images.brief;

	if (is_timed_alike(&first->settings.options, next))
		return;
	brief_set_short(brief, next->short_ns ? next->short_ns : RECORD_SHORT_NS);
	brief_set_every(brief, next->every ? next->every : RECORD_EVERY);
	brief_set_exact(brief, !next->adaptive);
}

static int set_first(struct instance *first, struct settings *next, struct calltap_diag *diag)
{
	int ret = check_fixed(first->session, next, diag);

	if (!ret)
		ret = change_all(first, next, diag);
	if (!ret || ret == -ETIMEDOUT)
		set_times(first, &next->options);
	return ret;
}

/* Words about values first, then the others. */
static size_t sort_words(struct setting_change *out, const struct setting_change *list, size_t count)
{
	size_t values = 0, at = 0;

	for (size_t i = 0; i < count; i++)
		values += values_is_key(list[i].key);
	at = values;
	values = 0;
	for (size_t i = 0; i < count; i++)
		out[values_is_key(list[i].key) ? values++ : at++] = list[i];
	return values;
}

/* The tracer that a list of words has; NULL: it has none that there is. */
static const struct tracer *tracer_in(const struct setting_change *list, size_t count)
{
	const struct tracer *tracer = NULL;

	for (size_t i = 0; i < count; i++)
		if (!strcmp(list[i].key, "tracer"))
			tracer = tracer_find(list[i].value);
	return tracer;
}

static int change_settings(struct instance *instance, const struct setting_change *list, size_t count, size_t values,
			   struct calltap_diag *diag)
{
	struct settings next, now = instance->settings;
	struct values_before *before = NULL;
	int ret = values ? revalue_begin(instance, &now, list, values, tracer_in(list + values, count - values),
					 &before, diag)
			 : 0;

	if (ret)
		return ret;
	ret = settings_change(&next, &now, list + values, count - values, diag);
	if (!ret) {
		ret = instance->set ? instances_set(instance, &next, diag) : set_first(instance, &next, diag);
		next.new_values = false;
		if (!ret || ret == -ETIMEDOUT) {
			filter_set_destroy(instance->own_filters);
			instance->own_filters = next.options.filters;
			instance->settings = next;
		} else {
			filter_set_destroy(next.options.filters);
		}
	}
	revalue_end(instance, before, !ret || ret == -ETIMEDOUT);
	return ret;
}

/* No process that does not know of the session needs to hear of this change alone. */
static bool turns_off(const struct setting_change *list, size_t count)
{
	return count == 1 && !strcmp(list->key, "tracing") && !strcmp(list->value, "off");
}

static int op_set(void *context, const struct setting_change *list, size_t count, struct calltap_diag *diag)
{
	struct instance *instance = context;
	struct session *session = instance->session;
	struct setting_change *sorted = calloc(count + 1, sizeof(*sorted));
	size_t values = sorted ? sort_words(sorted, list, count) : 0;
	int ret;

	if (!sorted)
		return calltap_diag_set(diag, -ENOMEM, "not enough memory");
	session_lock(session);
	if (!turns_off(list, count))
		strays_call(session);
	ret = live_turn_begin(session);
	if (ret) {
		session_unlock(session);
		free(sorted);
		return calltap_diag_set(
			diag, ret, "the attach is not complete yet (is the process stopped?); nothing was changed");
	}
	ret = change_settings(instance, sorted, count, values, diag);
	live_turn_end(session);
	if ((!ret || ret == -ETIMEDOUT) && !turns_off(list, count))
		strays_call(session);
	session_unlock(session);
	free(sorted);
	return ret;
}

int steer_tracing(struct session *session, bool on, struct calltap_diag *diag)
{
	const struct setting_change change = {.key = "tracing", .value = on ? "on" : "off"};

	return op_set(session_first(session), &change, 1, diag);
}

static int op_settings(void *context, FILE *answer, struct calltap_diag *diag)
{
	struct instance *instance = context;

	(void)diag;
	session_lock(instance->session);
	settings_print(&instance->settings, answer);
	if (!instance->set)
		values_print(instance->session->images.values, answer);
	session_unlock(instance->session);
	return 0;
}

/* Sites that are written: those of a process that is being attached to are planned before. */
static void count_sites(const struct target *target, struct remote_status *status)
{
	if (attached_is_open(target))
		return;
	for (uint32_t i = 0; i < target->map_count; i++) {
		const struct target_map *map = &target->maps[i];

		if (!map->mapped || !map->region || map->stubs)
			continue;
		status->sites += map->image->site_count;
		for (uint32_t k = 0; k < map->image->site_count; k++)
			status->sites_on += !map->image->off[k];
	}
}

/* Functions that an instance wants, where the session's sites are. */
static uint64_t count_wanted(const struct instance *instance)
{
	const struct target *target = instance->session->targets;
	uint64_t on = 0;

	for (; target; target = target->next)
		if (live_can_be_told(target))
			on += handlers_functions(target, handlers_instance_bit(instance->set));
	return on;
}

static void count_share(const struct share *share, struct remote_status *status)
{
	status->processes += live_can_be_told(share->target);
	if (share->arena_count)
		status->untraced += rings_untraced(share);
	for (uint32_t i = 0; i < share->arena_count; i++)
		for (uint32_t k = 0; k < share->arenas[i].ring_count; k++)
			status->threads +=
				ring_is_claimed(__atomic_load_n(&share->arenas[i].arena->state[k], __ATOMIC_RELAXED));
	if (live_can_be_told(share->target))
		count_sites(share->target, status);
	status->records += pending_records(share);
}

static void count_handlers(const struct session *session, struct remote_status *status)
{
	status->serves = session->options->serves;
	status->handlers = handlers_count(session->images.handlers);
	if (status->handlers)
		status->handled = handlers_handled(session->images.handlers);
}

/* The processes that were attached to and live, with blanks between; "" = there is one at the most. */
static void list_pids(const struct session *session, char *text, size_t size)
{
	uint32_t count = 0;
	size_t at = 0;

	text[0] = 0;
	for (uint32_t i = 0; i < session->attachees.count; i++) {
		const struct attachee *attachee = &session->attachees.list[i];

		if (attachee->forgotten || !attachee->told->attached || at >= size)
			continue;
		at += (size_t)snprintf(text + at, size - at, "%s%d", count++ ? " " : "", (int)attachee->told->pid);
	}
	if (at >= size) /* the last one that is whole */
		*strrchr(text, ' ') = 0;
	if (count < 2)
		text[0] = 0;
}

/* The process that the session is called by; where a command has ended, a process that it has left behind; 0 = none. */
static pid_t living_pid(const struct session *session)
{
	pid_t pid = session_pid(session);

	for (const struct target *target = session->targets; target && !pid; target = target->next)
		if (target->greeted && !target->ended)
			pid = target->pid;
	return pid;
}

static int op_status(void *context, struct remote_status *status, struct calltap_diag *diag)
{
	struct instance *instance = context;
	struct session *session = instance->session;
	const struct record_options *options = &instance->settings.options;

	(void)diag;
	session_lock(session);
	snprintf(status->program, sizeof(status->program), "%s", session->program ? session->program : "");
	snprintf(status->output, sizeof(status->output), "%s",
		 instance->options->output ? instance->options->output : "");
	snprintf(status->tracer, sizeof(status->tracer), "%s", options->tracer->name);
	snprintf(status->mode, sizeof(status->mode), "%s", record_mode_name(options->mode));
	status->pid = (uint64_t)living_pid(session);
	status->attached = session->options->pid_count != 0;
	list_pids(session, status->pids, sizeof(status->pids));
	status->tracing = instance->settings.tracing;
	for (const struct share *share = instance->shares; share; share = share->next)
		count_share(share, status);
	if (instance->set) {
		status->sites_on = count_wanted(instance);
	} else {
		instances_names(session, status->instances, sizeof(status->instances));
		count_handlers(session, status);
	}
	snprintf(status->instance, sizeof(status->instance), "%s", instance->name);
	status->records += instance->result->records;
	status->counted_ns = clock_now_ns();
	status->lost = instance->result->lost;
	status->file_bytes = trace_writer_bytes(instance->writer);
	status->longest_stop_ns = session->result->longest_stop_ns;
	status->began_ns = instance->began_real_ns;
	session_unlock(session);
	return 0;
}

static int op_handlers(void *context, pid_t asker, const struct setting_change *words, size_t count, FILE *answer,
		       struct calltap_diag *diag)
{
	return handlers_ask(((struct instance *)context)->session, asker, words, count, answer, diag);
}

static int op_functions(void *context, const struct setting_change *words, size_t count, FILE *out,
			struct calltap_diag *diag)
{
	return catalog_write(context, words, count, out, diag);
}

static void *op_find(void *context, const char *name, struct calltap_diag *diag)
{
	return instances_find(((struct instance *)context)->session, name, diag);
}

static int op_instance(void *context, const struct setting_change *words, size_t count, const int fds[REMOTE_FDS],
		       FILE *answer, void **instance, struct calltap_diag *diag)
{
	struct session *session = ((struct instance *)context)->session;
	struct instance *made = NULL;
	int ret;

	session_lock(session);
	strays_call(session);
	session_unlock(session);
	ret = instances_begin(session, words, count, fds, answer, &made, diag);
	*instance = made;
	if (ret)
		return ret;
	session_lock(session);
	strays_call(session);
	session_unlock(session);
	return 0;
}

static int op_end(void *instance, FILE *answer, struct calltap_diag *diag)
{
	return instances_end(instance, answer, diag);
}

/* Into the trace of the instance that was named, else of all: who names none has the first one for context. */
static int op_mark(void *context, const char *text, struct calltap_diag *diag)
{
	struct instance *instance = context;
	struct session *session = instance->session;
	int ret;

	session_lock(session);
	ret = marks_write(instance, text, diag);
	for (size_t i = 1; !instance->set && !ret && i < CALLTAP_INSTANCES; i++)
		if (session->instances[i])
			ret = marks_write(session->instances[i], text, diag);
	session_unlock(session);
	return ret;
}

static enum remote_catch op_catch(void *context, pid_t tid)
{
	return callers_catch(((struct instance *)context)->session, tid);
}

static int op_detach(void *context, struct calltap_diag *diag)
{
	struct instance *instance = context;

	(void)diag;
	session_let_go(instance->session);
	return 0;
}

static int op_snapshot(void *context, const struct remote_snapshot *wish, FILE *answer, struct calltap_diag *diag)
{
	struct history_call call;
	const struct snapshot_options options = {
		.size = sizeof(options),
		.fd = wish->fd,
		.reason = wish->reason,
		.call = history_call_parse(&call, wish->call) ? &call : NULL,
		.history_ns = wish->history_ns,
	};
	struct snapshot_result result;
	char size[TIMETEXT_MAX];
	int ret = snapshot_write(context, &options, &result, diag);

	if (!ret)
		fprintf(answer, "%llu %s of %u %s, %s\n", (unsigned long long)result.records,
			counted(result.records, "record", "records"), result.threads,
			counted(result.threads, "thread", "threads"), sizetext(result.file_bytes, size));
	return ret;
}

static const struct remote_ops ops = {
	.status = op_status,
	.settings = op_settings,
	.set = op_set,
	.snapshot = op_snapshot,
	.mark = op_mark,
	.handlers = op_handlers,
	.functions = op_functions,
	.catches = op_catch,
	.detach = op_detach,
	.find = op_find,
	.instance = op_instance,
	.end = op_end,
};

int steer_begin(struct session *session, pid_t pid, struct calltap_diag *diag)
{
	int ret = remote_open(&session->remote, pid, &ops, session_first(session), diag);

	if (ret)
		return ret;
	ret = remote_start(session->remote);
	if (!ret)
		return 0;
	remote_close(session->remote, 0, "");
	session->remote = NULL;
	return calltap_diag_set(diag, ret, "cannot start a thread: %s", strerror(-ret));
}

void steer_try(struct session *session, pid_t pid)
{
	struct calltap_diag diag = {0};
	int ret = session->remote ? remote_name(session->remote, pid, &diag) : steer_begin(session, pid, &diag);

	if (ret && session->options->verbose)
		fprintf(stderr, "calltap: `calltap set` and its like cannot reach this recording: %s\n", diag.text);
}

void steer_follow(struct session *session, pid_t pid)
{
	struct calltap_diag diag = {0};

	/*
	 * The session's other names lead to it, too.  Handlers are one process' own: a child of it that opens a session
	 * has one of its own, also where it has executed a program and the old one's end was not seen yet.
	 */
	if (session->remote && !session->options->serves)
		(void)!remote_name(session->remote, pid, &diag);
}

void steer_forget(struct session *session, pid_t pid)
{
	remote_unname(session->remote, pid);
}

/* Sums over the processes that were let go of. */
struct let_go {
	uint32_t count;
	pid_t pid; /* of one */
	uint64_t verified, differing, stop_ns;
};

static struct let_go count_let_go(const struct session *session)
{
	struct let_go all = {0};

	for (uint32_t i = 0; i < session->attachees.count; i++) {
		const struct record_attached *told = session->attachees.list[i].told;

		if (!told->let_go)
			continue;
		all.count++;
		all.pid = told->pid;
		all.verified += told->text.verified;
		all.differing += told->text.differing;
		if (told->detach_stop_ns > all.stop_ns)
			all.stop_ns = told->detach_stop_ns;
	}
	return all;
}

static void tell_let_go(const struct let_go *all, uint64_t longest_stop_ns, char *text, size_t size)
{
	char which[64];

	snprintf(which, sizeof(which), all->count > 1 ? "%d processes: the text of each" : "process %d: its text",
		 all->count > 1 ? (int)all->count : (int)all->pid); // NOLINT(clang-diagnostic-format-nonliteral)
	snprintf(text, size,
		 "detached from %s %s (%llu bytes of text compared, %llu differ); %s stopped for %.2f ms%s now, and "
		 "since the attach never for longer than %.2f ms at a time",
		 which,
		 all->differing	 ? "DIFFERS from its files"
		 : all->verified ? "is what its files say"
				 : "was not compared with its files: nothing in it was patched, or it cannot be read",
		 (unsigned long long)all->verified, (unsigned long long)all->differing,
		 all->count > 1 ? "threads were" : "its threads were", (double)all->stop_ns / 1e6,
		 all->count > 1 ? " at the most" : "", (double)longest_stop_ns / 1e6);
}

/* Tell the client that asked for the end what became of the processes. */
void steer_end(struct session *session)
{
	const struct let_go all = count_let_go(session);
	bool failed = session->options->pid_count && !all.count && session_diagnosis(session)[0];
	char text[1024] = "";

	if (all.count)
		tell_let_go(&all, session->result->longest_stop_ns, text, sizeof(text));
	else
		snprintf(text, sizeof(text), "%s", failed ? session_diagnosis(session) : "the recording has ended");
	if (all.count && session_diagnosis(session)[0])
		snprintf(text + strlen(text), sizeof(text) - strlen(text), "; %s", session_diagnosis(session));
	if (session->instances_ended)
		snprintf(text + strlen(text), sizeof(text) - strlen(text), "; %u further %s ended with it",
			 session->instances_ended, counted(session->instances_ended, "instance", "instances"));
	remote_close(session->remote, failed ? -EIO : 0, text);
	session->remote = NULL;
}
