/*
 * What is recorded is decided anew, and all targets are made to do it.
 *
 * Nothing is stopped for a change: limits change, stubs of another kind are
 * made, sites are switched off, others are switched on or led to the new stubs,
 * one step after the agents' answers to the one before (doc/design/patching.md).
 *
 * Callers: steer.c, handlers_ask.c, instances.c, in the thread of the session's
 * remote side.  Context: host, under the session's lock and with the turn.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <host/hook/handlers.h>
#include <host/session/session.h>
#include <host/values/values.h>

/* The decision on an image's sites. */
struct change {
	struct image *image;
	bool *chosen;  /* by site */
	bool *moves;   /* by site: to be switched in the step that comes next */
	uint64_t *who; /* by site: what its row of handlers is to say */
	uint32_t variant;
};

struct changes {
	struct change *list;
	size_t count;
};

void apply_take(struct session *session, const struct settings *settings)
{
	const struct record_options *options = &settings->options;
	/* At the beginning they are not compiled yet. */
	const struct values *values = session->images.values ? session->images.values : session->options->values;

	session->images.tracing = settings->tracing;
	session->images.tracer = options->tracer;
	/* Sites are not asked again by the same filters (ask_once()). */
	if (session->images.filters && session->images.filters != options->filters)
		(void)filter_set_take_matches(options->filters, session->images.filters);
	session->images.filters = options->filters;
	session->images.needs = (struct tracer_needs){
		.tree_filter = filter_set_has(options->filters, FILTER_GRAPH),
		.notree = filter_set_has(options->filters, FILTER_NOGRAPH) || values_hide(values),
		.depth = options->depth_max != 0,
		.threshold = options->threshold_ns != 0,
	};
}

static int decide_image(struct session *session, struct change *change)
{
	struct image *image = change->image;
	int ret;

	change->chosen = calloc(image->site_count, sizeof(bool));
	change->moves = calloc(image->site_count, sizeof(bool));
	change->who = calloc(image->site_count, sizeof(uint64_t));
	if (!change->chosen || !change->moves || !change->who)
		return -ENOMEM;
	ret = image_decide_again(&session->images, image, change->chosen, change->who, &change->variant);
	for (uint32_t i = 0; i < image->site_count && !ret; i++)
		change->moves[i] = !image->off[i] && !change->chosen[i];
	return ret;
}

static int decide_all(struct session *session, struct changes *changes, struct calltap_diag *diag)
{
	int ret = additions_decide(session);

	for (struct image *image = session->images.first; image && !ret; image = image->next) {
		struct change *list;

		if (!image->site_count)
			continue;
		list = reallocarray(changes->list, changes->count + 1, sizeof(*list));
		if (!list)
			return calltap_diag_set(diag, -ENOMEM, "not enough memory");
		changes->list = list;
		list[changes->count] = (struct change){.image = image};
		ret = decide_image(session, &list[changes->count++]);
	}
	if (ret == -ENOSPC)
		return calltap_diag_set(diag, ret,
					"this session has had too many kinds of settings; start another one");
	if (ret == -EOVERFLOW)
		return calltap_diag_set(diag, ret, "this session has too many functions; start another one");
	return ret ? calltap_diag_set(diag, ret, "not enough memory") : 0;
}

static int check_matches(const struct session *session, struct calltap_diag *diag)
{
	const char *text = filter_set_unmatched(session->images.filters);

	return text ? calltap_diag_set(diag, -EINVAL,
				       "no function that can be traced matches '%s'; nothing was changed (`calltap "
				       "functions PROGRAM` lists what there is)",
				       text)
		    : 0;
}

/* New values name functions that are recorded, and whose types are known where these are to tell. */
static int check_values(const struct session *session, struct calltap_diag *diag)
{
	const char *text = values_unmatched(session->images.values);

	return text ? calltap_diag_set(diag, -EINVAL,
				       "no function that is recorded matches '%s'; nothing was changed (`calltap set` "
				       "shows which are)",
				       text)
		    : values_check(session->images.values, diag);
}

static void changes_clear(struct changes *changes)
{
	for (size_t i = 0; i < changes->count; i++) {
		free(changes->list[i].chosen);
		free(changes->list[i].moves);
		free(changes->list[i].who);
	}
	free(changes->list);
}

static bool has_map(const struct target *target, const struct target_map *place, uint32_t variant)
{
	for (uint32_t i = 0; i < target->map_count; i++)
		if (target->maps[i].base == place->base && target->maps[i].image == place->image &&
		    target->maps[i].variant == variant && target->maps[i].region)
			return true;
	return false;
}

/* The stubs that a process lacks. */
static int send_stubs(struct session *session, struct target *target, const struct change *change)
{
	uint32_t count = target->map_count;
	int ret = 0;

	for (uint32_t i = 0; i < count && !ret; i++) {
		const struct target_map *map = &target->maps[i];

		if (map->image == change->image && map->variant == change->image->variant && map->mapped &&
		    !has_map(target, map, change->variant))
			ret = plan_send_variant(session, target, i, change->variant);
	}
	return ret;
}

static int make_stubs(struct session *session, const struct changes *changes)
{
	for (size_t i = 0; i < changes->count; i++)
		for (struct target *target = session->targets; target; target = target->next)
			if (changes->list[i].variant != changes->list[i].image->variant && live_can_be_told(target) &&
			    send_stubs(session, target, &changes->list[i]) == -ENOMEM)
				return -ENOMEM; /* all other errors are its end */
	return live_wait(session);
}

static void send_limits(struct session *session, const struct settings *settings)
{
	struct calltap_msg_set set = {
		.head = {CALLTAP_MSG_SET, sizeof(set)},
		.depth_max = settings->options.depth_max,
		.tree_filter = session->images.needs.tree_filter,
		.threshold_ticks = session_first(session)->threshold_ticks,
	};

	for (struct target *target = session->targets; target; target = target->next)
		if (live_can_be_told(target) && channel_send(target->socket, &set, sizeof(set), NULL, 0))
			continue; /* its end is seen elsewhere */
}

static int switch_off(struct session *session, const struct changes *changes)
{
	int ret = 0;

	for (size_t i = 0; i < changes->count; i++) {
		struct change *change = &changes->list[i];

		ret |= live_switch_image(session, change->image, false, change->moves);
		for (uint32_t k = 0; k < change->image->site_count; k++)
			change->image->off[k] |= change->moves[k];
	}
	return ret;
}

/* alike: a site may stay where it is if the stub there does the same, as it does while no setting changes. */
static int switch_on(struct session *session, const struct changes *changes, bool alike)
{
	int ret = 0;

	for (size_t i = 0; i < changes->count; i++) {
		struct change *change = &changes->list[i];
		const struct calltap_site *from = change->image->variants[change->image->variant].sites;
		const struct calltap_site *to = change->image->variants[change->variant].sites;

		change->image->variant = change->variant;
		for (uint32_t k = 0; k < change->image->site_count; k++)
			change->moves[k] =
				change->chosen[k] &&
				(change->image->off[k] || (from != to && (!alike || from[k].flags != to[k].flags)));
		ret |= live_switch_image(session, change->image, true, change->moves);
		for (uint32_t k = 0; k < change->image->site_count; k++) {
			change->image->off[k] = !change->chosen[k];
			change->image->touched[k] |= change->chosen[k];
		}
	}
	return ret;
}

/*
 * Rows of handlers.  A site leads to a stub that reads its row only while that
 * has somebody in it: those come before the sites, and go after them.
 */
static void write_rows(struct session *session, const struct changes *changes, bool empty)
{
	for (size_t i = 0; i < changes->count; i++) {
		const struct change *change = &changes->list[i];

		for (uint32_t k = 0; change->image->who && k < change->image->site_count; k++)
			if (!change->who[k] == empty && change->who[k] != change->image->who[k])
				handlers_write(session->images.handlers, change->image, k, change->who[k]);
	}
}

static int carry_out(struct session *session, const struct changes *changes, bool alike)
{
	int ret = make_stubs(session, changes);

	if (!ret || ret == -ETIMEDOUT)
		ret = additions_carry_out(session);
	if (ret && ret != -ETIMEDOUT)
		return ret;
	write_rows(session, changes, false);
	ret |= switch_off(session, changes);
	ret |= switch_on(session, changes, alike);
	write_rows(session, changes, true);
	return ret;
}

int apply_all(struct session *session, struct calltap_diag *diag)
{
	struct changes changes = {0};
	int ret = decide_all(session, &changes, diag);

	if (!ret) {
		ret = carry_out(session, &changes, true);
		if (ret == -ENOMEM)
			ret = calltap_diag_set(diag, ret, "not enough memory");
	}
	changes_clear(&changes);
	return ret;
}

void apply_judge(struct session *session)
{
	struct changes changes = {0};
	struct calltap_diag diag = {0};

	/* What is decided is what is there. */
	(void)!decide_all(session, &changes, &diag);
	changes_clear(&changes);
}

static void set_limits(struct session *session, const struct settings *next)
{
	struct instance *first = session_first(session);

	/* Before the stubs: which of a thread's words they test is decided when their plan comes. */
	if (next->options.threshold_ns != first->settings.options.threshold_ns)
		first->threshold_ticks = timing_ticks(session, next->options.threshold_ns);
	send_limits(session, next);
	handlers_settle(session); /* rows are read at once */
}

/* Filters that were there before may have lost what they matched, which matters to nobody while nothing is recorded. */
static bool has_new_filters(const struct session *session, const struct settings *next)
{
	return filter_set_key(next->options.filters) !=
	       filter_set_key(session_first(session)->settings.options.filters);
}

int apply_settings(struct session *session, const struct settings *next, struct calltap_diag *diag)
{
	struct changes changes = {0};
	int ret;

	apply_take(session, next);
	ret = decide_all(session, &changes, diag);
	if (!ret && (next->tracing || has_new_filters(session, next)))
		ret = check_matches(session, diag);
	if (!ret && next->tracing && next->new_values)
		ret = check_values(session, diag);
	/* Functions that were not recorded before may have programs of kinds that no reader knows. */
	if (!ret && values_describe(session->images.values, session))
		ret = calltap_diag_set(diag, -EIO, "what values are called could not be written to the trace");
	if (!ret) {
		set_limits(session, next);
		ret = carry_out(session, &changes, false);
	}
	if (ret && ret != -ETIMEDOUT)
		apply_take(session, &session_first(session)->settings);
	changes_clear(&changes);
	if (ret == -ETIMEDOUT && session->steering.unpatched)
		return calltap_diag_set(diag, ret,
					"the change is made, but functions that it added could not be patched in a "
					"process: its threads were in the way, or may not be stopped; ask again");
	if (ret == -ETIMEDOUT)
		return calltap_diag_set(diag, ret,
					"not all processes have answered (stopped?); they change when they go on");
	return ret;
}
