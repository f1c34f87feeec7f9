/*
 * Further instances of a session, as they are asked for (instances.h).
 *
 * Which functions one wants is a bit of its own in the rows of handled
 * functions (handlers.h): sites that an instance wants lead to the agent's
 * dispatcher, all others stay what they are.  Called in the thread of the
 * session's remote side, and by the server thread when a process comes in.
 * Context: host.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <host/brief/brief.h>
#include <host/counted.h>
#include <host/hook/handlers.h>
#include <host/hook/triggers_impl.h>
#include <host/hook/watch.h>
#include <host/session/returns.h>
#include <host/text.h>

#include "instances.h"

static int check_session(const struct session *session, struct calltap_diag *diag)
{
	if (session->ending.letting_go)
		return calltap_diag_set(diag, -EPIPE, "the session is about to end");
	return 0;
}

static bool is_name(const char *name)
{
	size_t size = strlen(name);

	return size && size < sizeof(((struct instance_wish *)0)->name) &&
	       strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.") == size;
}

static int take_word(struct instance_wish *wish, const struct setting_change *word, struct calltap_diag *diag)
{
	if (!strcmp(word->key, "name")) {
		if (!is_name(word->value))
			return calltap_diag_set(
				diag, -EINVAL,
				"'%.40s' is no name for an instance: up to 31 letters, digits, '_', '-' "
				"and '.'",
				word->value);
		snprintf(wish->name, sizeof(wish->name), "%s", word->value);
	} else if (!strcmp(word->key, "output")) {
		snprintf(wish->output, sizeof(wish->output), "%s", word->value);
	} else if (!strcmp(word->key, "buffer-dir")) {
		if (strlen(word->value) >= sizeof(wish->buffer_dir))
			return calltap_diag_set(diag, -ENAMETOOLONG, "the name of the folder for buffers is too long");
		snprintf(wish->buffer_dir, sizeof(wish->buffer_dir), "%s", word->value);
	} else if (!strcmp(word->key, "options")) {
		wish->options = word->value;
	} else if (!strcmp(word->key, "allow-no-match")) {
		wish->allow_no_match = !strcmp(word->value, "1");
	} else if (!strcmp(word->key, "frames")) {
		wish->frames = !strcmp(word->value, "1");
	} else if (!strcmp(word->key, "follow")) {
		wish->follow = !strcmp(word->value, "1");
	} else if (triggers_has_key(word->key)) {
		return triggers_take(&wish->triggers, word->key, word->value, diag);
	} else {
		return setting_take(&wish->settings, word->key, word->value, diag);
	}
	return 0;
}

static int take_words(struct instance_wish *wish, const struct setting_change *words, size_t count,
		      struct calltap_diag *diag)
{
	int ret = filter_set_create(&wish->settings.options.filters);

	if (ret)
		return calltap_diag_set(diag, ret, "not enough memory");
	wish->settings.tracing = true;
	wish->settings.options.tracer = tracer_at(0);
	wish->settings.options.mode = CALLTAP_MODE_DROP;
	wish->settings.options.buffer_bytes = 4u << 20;
	wish->options = "";
	for (size_t i = 0; i < count && !ret; i++)
		ret = take_word(wish, &words[i], diag);
	if (triggers_have(wish->triggers, TRIGGER_START))
		wish->settings.tracing = false;
	wish->settings.options.triggers = wish->triggers;
	wish->settings.options.buffer_dir = wish->buffer_dir[0] ? wish->buffer_dir : NULL;
	return ret;
}

static struct instance *find_instance(const struct session *session, const char *name)
{
	for (uint32_t i = 0; i < CALLTAP_INSTANCES; i++)
		if (session->instances[i] && !strcmp(name, session->instances[i]->name))
			return session->instances[i];
	return NULL;
}

struct instance *instances_find(struct session *session, const char *name, struct calltap_diag *diag)
{
	struct instance *found;

	session_lock(session);
	found = find_instance(session, name);
	session_unlock(session);
	if (!found)
		calltap_diag_set(diag, -ENOENT,
				 "there is no instance '%.40s' in this session; `calltap status` lists them", name);
	return found;
}

void instances_names(const struct session *session, char *text, size_t size)
{
	size_t at = 0;

	text[0] = 0;
	for (uint32_t i = 1; i < CALLTAP_INSTANCES; i++)
		if (session->instances[i] && at < size)
			at += (size_t)snprintf(text + at, size - at, "%s%s", at ? " " : "",
					       session->instances[i]->name);
}

/* A set of rings that nobody has, and a name; 0 = there is none. */
static uint32_t find_place(struct session *session, struct instance_wish *wish, struct calltap_diag *diag)
{
	uint32_t set = 0;

	/* Calls may be open that an instance that has ended has seen begin: its place is taken again as late as can be.
	 */
	for (uint32_t i = 0; i < CALLTAP_INSTANCES - 1 && !set; i++) {
		set = 1 + (session->last_set + i) % (CALLTAP_INSTANCES - 1);
		if (session->instances[set])
			set = 0;
	}
	if (!set) {
		calltap_diag_set(diag, -EBUSY,
				 "this process has %u instances already, and there are no more at a time; end one "
				 "(`calltap status` names them)",
				 CALLTAP_INSTANCES);
		return 0;
	}
	for (uint32_t i = 1; !wish->name[0]; i++) {
		snprintf(wish->name, sizeof(wish->name), "%u", i);
		if (find_instance(session, wish->name))
			wish->name[0] = 0;
	}
	if (!find_instance(session, wish->name))
		return set;
	calltap_diag_set(diag, -EEXIST, "there is an instance '%s' already; choose another name (--instance)",
			 wish->name);
	return 0;
}

/* Do all processes that run have no agent's thread any more, which could be told? */
static bool all_are_alone(const struct session *session)
{
	uint32_t alone = 0;

	for (const struct target *target = session->targets; target; target = target->next) {
		if (live_can_be_told(target))
			return false;
		alone += target->alone && !target->ended && !target->executed;
	}
	return alone;
}

/* All processes get to know the rows, if they do not. */
static int tell_rows(struct session *session, struct calltap_diag *diag)
{
	struct handlers *handlers = session->images.handlers;
	int ret = handlers ? 0 : handlers_create(&handlers);

	if (ret)
		return calltap_diag_set(diag, ret, "cannot make memory for instances: %s", strerror(-ret));
	session->images.handlers = handlers;
	for (struct target *target = session->targets; target; target = target->next) {
		if (!live_can_be_told(target) || target->handled.told)
			continue;
		target->handled.error = 0;
		if (handlers_tell(handlers, target, 0))
			continue; /* its end is seen elsewhere */
	}
	if (live_wait(session))
		return calltap_diag_set(diag, -ETIMEDOUT, "the process does not answer (is it stopped?)");
	for (struct target *target = session->targets; target && !ret; target = target->next)
		if (live_can_be_told(target))
			ret = target->handled.error;
	if (ret == -EPERM || all_are_alone(session))
		return calltap_diag_set(diag, -EPERM,
					"a process has shut itself into a sandbox (seccomp) that forbids system calls "
					"which further instances take; attach with other filters once this session has "
					"ended");
	return ret ? calltap_diag_set(diag, ret, "the agent cannot have instances: %s", strerror(-ret)) : 0;
}

/* A filter that chooses nothing is told, and is an error; so is a trigger's. */
static int check_matches(const struct filter_set *filters, const struct triggers *triggers, struct calltap_diag *diag)
{
	const char *text = filters ? filter_set_unmatched(filters) : NULL;

	if (!text)
		text = triggers_unmatched(triggers);
	return text ? calltap_diag_set(diag, -EINVAL,
				       "no function that can be traced matches '%s' (`calltap functions PROGRAM` lists "
				       "what there is)",
				       text)
		    : 0;
}

/* The filters by which an instance with these settings wants functions; NULL = it wants none. */
static struct filter_set *choice_of(const struct settings *settings)
{
	return settings->tracing && settings->options.tracer->patches ? settings->options.filters : NULL;
}

/* The instance's wishes to the rows and sites; filters NULL = it wants nothing. */
static int apply_wishes(struct session *session, uint32_t set, struct filter_set *filters, bool exits, bool match,
			struct calltap_diag *diag)
{
	int ret = handlers_instance(&session->images, set, filters, exits);

	if (!ret && filters)
		ret = additions_decide(session);
	if (ret)
		return calltap_diag_set(diag, ret, "not enough memory");
	ret = match ? check_matches(filters, watch_of(session->images.watch, set), diag) : 0;
	return ret ? ret : apply_all(session, diag);
}

static void take_away(struct session *session, uint32_t set)
{
	struct calltap_diag diag;
	int ret;

	watch_part(session->images.watch, set);
	ret = apply_wishes(session, set, NULL, false, false, &diag);

	if (ret && ret != -ETIMEDOUT)
		handlers_silence(session, handlers_instance_bit(set));
}

/* To all processes, until they have answered. */
static int send_all(struct session *session, const struct calltap_msg_instance *message)
{
	for (struct target *target = session->targets; target; target = target->next)
		if (live_can_be_told(target))
			target->owed.instances += !channel_send(target->socket, message, sizeof(*message), NULL, 0);
	return live_wait(session);
}

/* Tell all targets that the instance ends: no thread begins another record of its. */
static void send_end(struct session *session, uint32_t set)
{
	const struct calltap_msg_instance message = {
		.head = {CALLTAP_MSG_INSTANCE, sizeof(message)}, .set = set, .what = CALLTAP_INSTANCE_END};

	if (send_all(session, &message))
		return; /* what it still records goes nowhere */
}

static void send_limits(struct session *session, const struct instance *instance, const struct settings *settings)
{
	const struct calltap_msg_instance message = {.head = {CALLTAP_MSG_INSTANCE, sizeof(message)},
						     .set = instance->set,
						     .what = CALLTAP_INSTANCE_LIMITS,
						     .flags = further_flags(instance, settings),
						     .depth_max = settings->options.depth_max,
						     .threshold_ticks = instance->threshold_ticks};

	if (send_all(session, &message))
		return; /* they have them when they go on */
}

static void add_all(struct session *session, struct instance *instance)
{
	for (struct target *target = session->targets; target; target = target->next)
		if (live_can_be_told(target) && target->shares[0] && further_add(instance, target))
			instance_diagnose(instance, "process %d could not be told of it", (int)target->pid);
	if (live_wait(session))
		return; /* it begins when they go on */
}

/* Has it a process, or may it come to have one? */
static int check_begun(const struct instance *instance, struct calltap_diag *diag)
{
	for (const struct share *share = instance->shares; share; share = share->next)
		if (!share_is_over(share))
			return 0;
	if (instance->refused == -EBUSY)
		return calltap_diag_set(diag, -EBUSY,
					"a thread of the program is in a signal handler that came in the middle of a "
					"record, or has left it by a jump, so that nothing of earlier instances can be "
					"given back, and there were too many of them; wait until it has returned, or "
					"end the session (`calltap detach`) and begin another one");
	return instance->refused ? calltap_diag_set(diag, instance->refused, "the agent cannot have the instance: %s",
						    strerror(-instance->refused))
				 : 0;
}

/* Refuse a file that an instance writes: the client would take it for an older one, and give it another name. */
static int check_file(const struct session *session, const struct instance_wish *wish, struct calltap_diag *diag)
{
	struct stat there, own;

	if (!wish->output[0] || stat(wish->output, &there))
		return 0;
	for (uint32_t i = 0; i < CALLTAP_INSTANCES; i++)
		if (session->instances[i] && !fstat(trace_writer_fd(session->instances[i]->writer), &own) &&
		    S_ISREG(own.st_mode) && own.st_dev == there.st_dev && own.st_ino == there.st_ino)
			return calltap_diag_set(diag, -EEXIST,
						"instance '%s' writes to that file; name another one with -o",
						session->instances[i]->name);
	return 0;
}

/* Have the targets asked for the instance's triggers. */
static int ask_for(struct session *session, struct instance *instance, struct calltap_diag *diag)
{
	struct triggers *triggers = further_triggers(instance);
	char conflict[512];
	int ret = 0;

	if (!triggers)
		return 0;
	if (!session->images.watch)
		ret = watch_create(&session->images.watch, session, (double)timing_ticks(session, 1000000000u) / 1e9);
	if (ret)
		return calltap_diag_set(diag, ret, "cannot make memory for triggers: %s", strerror(-ret));
	if (!watch_join(session->images.watch, instance->set, triggers, conflict, sizeof(conflict)))
		instance_diagnose(instance, "%s", conflict);
	return 0;
}

/* Where an instance has trees, its records are made by calls, which give all of them their times. */
static int check_times(const struct record_options *options, struct calltap_diag *diag)
{
	if (options->adaptive &&
	    (filter_set_has(options->filters, FILTER_GRAPH) || filter_set_has(options->filters, FILTER_NOGRAPH)))
		return calltap_diag_set(
			diag, -EINVAL,
			"in a further instance graph and no-graph have all calls timed, so --time adaptive "
			"would have no effect: leave one of them out");
	return 0;
}

/* With the turn. */
static int begin_instance(struct session *session, struct instance_wish *wish, struct instance **out,
			  struct calltap_diag *diag)
{
	const struct record_options *options = &wish->settings.options;
	bool exits = options->tracer->has_exit;
	struct filter_set *filters = choice_of(&wish->settings);
	struct instance *instance;
	uint32_t set;
	int ret = check_session(session, diag);

	if (!ret)
		ret = returns_check(session, exits, diag);
	if (!ret)
		ret = settings_refuse(options, session->emulated, diag);
	if (!ret)
		ret = check_times(options, diag);
	if (!ret)
		ret = check_file(session, wish, diag);
	if (!ret)
		ret = tell_rows(session, diag);
	if (ret)
		return ret;
	set = find_place(session, wish, diag);
	if (!set)
		return diag->code;
	ret = further_create(&instance, session, set, wish, diag);
	if (ret)
		return ret;
	session->instances[set] = instance;
	ret = ask_for(session, instance, diag);
	if (!ret) {
		add_all(session, instance);
		ret = check_begun(instance, diag);
	}
	if (!ret)
		ret = apply_wishes(session, set, filters, exits, !wish->allow_no_match, diag);
	if (ret && ret != -ETIMEDOUT) {
		take_away(session, set);
		send_end(session, set);
		further_take_out(instance);
		further_destroy(instance);
		return ret;
	}
	session->last_set = set;
	*out = instance;
	return 0;
}

int instances_begin(struct session *session, const struct setting_change *words, size_t count, const int *fds,
		    FILE *answer, struct instance **out, struct calltap_diag *diag)
{
	struct instance_wish wish = {.fds = fds};
	int ret = take_words(&wish, words, count, diag);

	if (!ret) {
		if (!session->emulated) /* which takes a while */
			wish.threshold_ticks = timing_ticks(session, wish.settings.options.threshold_ns);
		session_lock(session);
		if (session->emulated)
			wish.threshold_ticks = timing_ticks(session, wish.settings.options.threshold_ns);
		ret = live_turn_begin(session);
		if (ret) {
			ret = calltap_diag_set(diag, ret, "the attach is not complete yet; nothing was changed");
		} else {
			ret = begin_instance(session, &wish, out, diag);
			live_turn_end(session);
		}
		session_unlock(session);
	}
	filter_set_destroy(wish.settings.options.filters); /* NULL, if the instance has them */
	triggers_destroy(wish.triggers);		   /* likewise */
	if (!ret)
		fprintf(answer, "%s\n", (*out)->name);
	return ret;
}

static void print_end(const struct instance *instance, FILE *answer)
{
	const struct record_result *result = instance->result;
	char size[TIMETEXT_MAX];

	fprintf(answer, "%llu %s of %u %s in %u %s, %s\n", (unsigned long long)result->records,
		counted(result->records, "record", "records"), instance->thread_count,
		counted(instance->thread_count, "thread", "threads"), instance->process_count,
		counted(instance->process_count, "process", "processes"), sizetext(result->file_bytes, size));
	if (result->lost)
		fprintf(answer, "%llu %s lost; a larger buffer (-b) or fewer functions (-l, -n) help\n",
			(unsigned long long)result->lost, counted(result->lost, "record was", "records were"));
	if (result->untraced)
		fprintf(answer, "%llu %s, or no memory beside the stack\n", (unsigned long long)result->untraced,
			counted(result->untraced, "call was not recorded: there was no buffer yet for its thread",
				"calls were not recorded: there was no buffer yet for their threads"));
	if (further_triggers(instance) && further_triggers(instance)->dropped)
		fprintf(answer, "%llu %s not taken in time: there were too many at once\n",
			(unsigned long long)further_triggers(instance)->dropped,
			counted(further_triggers(instance)->dropped, "action was", "actions were"));
	if (instance->diagnosis[0])
		fprintf(answer, "%s\n", instance->diagnosis);
}

int instances_end(struct instance *instance, FILE *answer, struct calltap_diag *diag)
{
	struct session *session = instance->session;
	int ret;

	session_lock(session);
	while (live_turn_begin(session) == -EAGAIN)
		; /* a process that is being attached to; each time it waits for seconds */
	take_away(session, instance->set);
	send_end(session, instance->set);
	further_take_out(instance);
	live_turn_end(session);
	session_unlock(session);
	ret = further_finish(instance);
	if (!ret)
		print_end(instance, answer);
	else
		ret = calltap_diag_set(diag, ret,
				       "the trace of instance %s is incomplete: %s; the program was not "
				       "affected",
				       instance->name, strerror(-ret));
	further_destroy(instance);
	return ret;
}

static int check_fixed(const struct settings *now, const struct settings *next, bool has_brief,
		       struct calltap_diag *diag)
{
	const struct record_options *old = &now->options, *new = &next->options;

	if (old->every != new->every)
		return calltap_diag_set(diag, -EOPNOTSUPP, "time-sample is a setting of the first instance");
	if (!has_brief && (old->adaptive != new->adaptive || old->short_ns != new->short_ns))
		return calltap_diag_set(
			diag, -EOPNOTSUPP,
			"this instance began with --time exact; one that begins with --time adaptive can "
			"be changed to time=exact and back");
	if (check_times(new, diag))
		return diag->code;
	if (old->tracer != new->tracer || old->mode != new->mode || old->buffer_bytes != new->buffer_bytes)
		return calltap_diag_set(
			diag, -EOPNOTSUPP,
			"tracer, mode and buffer are settings of an instance's start; begin another one");
	return 0;
}

static void set_limits(struct session *session, struct instance *instance, const struct settings *now,
		       const struct settings *next)
{
	const struct record_options *old = &now->options, *new = &next->options;

	if (old->threshold_ns == new->threshold_ns &&
	    old->depth_max == new->depth_max &&further_flags(instance, now) == further_flags(instance, next))
		return;
	if (old->threshold_ns != new->threshold_ns)
		instance->threshold_ticks = timing_ticks(session, new->threshold_ns);
	send_limits(session, instance, next);
}

static void set_times(const struct instance *instance, const struct record_options *next)
{
	if (!instance->brief)
		return;
	brief_set_short(instance->brief, next->short_ns ? next->short_ns : RECORD_SHORT_NS);
	brief_set_exact(instance->brief, !next->adaptive);
}

int instances_set(struct instance *instance, const struct settings *next, struct calltap_diag *diag)
{
	struct session *session = instance->session;
	const struct settings *now = &instance->settings;
	bool exits = next->options.tracer->has_exit, trees = filter_set_has(next->options.filters, FILTER_GRAPH);
	int ret = check_fixed(now, next, instance->brief != NULL, diag);

	if (!ret)
		ret = returns_check(session, exits, diag);
	if (ret)
		return ret;
	/* Under -g all functions are wanted, and few are recorded: so the targets know of trees before the sites are
	 * on.
	 */
	if (trees)
		set_limits(session, instance, now, next);
	ret = apply_wishes(session, instance->set, choice_of(next), exits, !instance->options->allow_no_match, diag);
	if (!ret || ret == -ETIMEDOUT) {
		if (!trees)
			set_limits(session, instance, now, next);
		set_times(instance, &next->options);
		return ret;
	}
	if (trees)
		set_limits(session, instance, next, now);
	if (handlers_instance(&session->images, instance->set, choice_of(now), exits))
		instance_diagnose(instance, "its filters were lost: not enough memory");
	return ret;
}

int instances_welcome(struct session *session, struct target *target)
{
	int ret = 0;

	for (uint32_t i = 1; i < CALLTAP_INSTANCES && !ret; i++)
		if (session->instances[i] && !session->instances[i]->ending)
			ret = further_add(session->instances[i], target);
	return ret;
}

static void note_refusal(struct instance *instance, const struct target *target, int error)
{
	instance->refused = error;
	instance_diagnose(instance, "process %d is not in it: %s", (int)target->pid, strerror(-error));
	if (target->shares[instance->set])
		target->shares[instance->set]->refused = true;
}

int instances_answer(struct session *session, struct target *target, const struct calltap_msg_instance_done *done)
{
	struct instance *instance;

	if (!target->owed.instances || done->error > 0 || !done->set || done->set >= CALLTAP_INSTANCES)
		return -EPROTO;
	target->owed.instances--;
	target->silent = target->owed.instances && target->silent;
	instance = session->instances[done->set];
	if (done->error && instance)
		note_refusal(instance, target, done->error);
	pthread_cond_broadcast(&session->answered);
	return 0;
}

void instances_finish(struct session *session)
{
	for (uint32_t i = 1; i < CALLTAP_INSTANCES; i++) {
		struct instance *instance = session->instances[i];
		int ret;

		if (!instance)
			continue;
		further_detach(instance);
		session->instances_ended++;
		ret = further_finish(instance);
		if (ret)
			fprintf(stderr, "calltap: the trace of instance %s is incomplete: %s\n", instance->name,
				strerror(-ret));
		further_destroy(instance);
	}
}
