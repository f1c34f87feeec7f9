/*
 * A view of what tracer `profile` has counted; see profile.h.
 *
 * A reading sums the tables of all threads by function; what is shown are
 * differences between readings, because the tables only ever grow.  Names are
 * made when a function is first called, and kept: objects go with the session.
 * Context: host, any thread but the session's.
 */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <calltap/abi/profile.h>
#include <host/brief/brief.h>
#include <host/target/clock.h>
#include <host/text.h>

#include "profile_tables.h"

#define RATE_NS	    200000000u /* rates are of so long at least */
#define CALLERS_MAX 65536u

struct function_name {
	char *name, *object; /* NULL = not looked up yet */
};

struct caller {
	uint64_t address; /* of one call, to tell functions without a name apart */
	uint32_t function;
	char *name, *object;
	uint64_t calls, before, next; /* now; what rates begin at, and will begin at */
	uint64_t total;
};

struct profile {
	struct profile_sums now, base; /* base: since when is counted */
	/* Sums that rates are counted from, and those that take their place once the former are RATE_NS old. */
	struct profile_sums before, next;
	uint64_t now_ns, before_ns, next_ns;
	bool steps;		   /* the last reading moved these on */
	double ticks_per_ns;	   /* 0 = not known yet */
	struct ticker_stays stays; /* with `--time adaptive`; else 0 */
	uint32_t targets, functions;
	struct function_name *names;
	uint32_t name_count;
	struct profile_row *rows, *caller_rows;
	uint32_t watched;
	struct caller *callers;
	uint32_t caller_count, caller_room;
};

int profile_create(struct profile **out)
{
	*out = calloc(1, sizeof(**out));
	if (!*out)
		return -ENOMEM;
	(*out)->watched = PROFILE_NONE;
	return 0;
}

static void clear_callers(struct profile *profile)
{
	for (uint32_t i = 0; i < profile->caller_count; i++) {
		free(profile->callers[i].name);
		free(profile->callers[i].object);
	}
	profile->caller_count = 0;
}

void profile_destroy(struct profile *profile)
{
	if (!profile)
		return;
	for (uint32_t i = 0; i < profile->name_count; i++) {
		free(profile->names[i].name);
		free(profile->names[i].object);
	}
	clear_callers(profile);
	profile_sums_clear(&profile->now);
	profile_sums_clear(&profile->before);
	profile_sums_clear(&profile->next);
	profile_sums_clear(&profile->base);
	free(profile->callers);
	free(profile->caller_rows);
	free(profile->names);
	free(profile->rows);
	free(profile);
}

static char *clean_copy(const char *text)
{
	size_t size = strlen(text) + 1;
	char *copy = malloc(size);

	if (copy)
		text_clean(copy, size, text);
	return copy;
}

static int look_up(struct function_name *name, const struct session *session, uint32_t id)
{
	uint32_t site;
	struct image *image = images_of(&session->images, id, &site);

	if (!image)
		return 0;
	name->name = clean_copy(object_site_name(image->object, image->sources[site]));
	name->object = clean_copy(text_base(image->path));
	return name->name && name->object ? 0 : -ENOMEM;
}

/* Names of what is called: while the session, which has the objects, is at hand. */
static int name_called(struct profile *profile, const struct session *session)
{
	struct function_name *names;
	int ret = 0;

	if (profile->now.count > profile->name_count) {
		names = reallocarray(profile->names, profile->now.count, sizeof(*names));
		if (!names)
			return -ENOMEM;
		memset(names + profile->name_count, 0, (profile->now.count - profile->name_count) * sizeof(*names));
		profile->names = names;
		profile->name_count = profile->now.count;
	}
	for (uint32_t id = 0; id < profile->now.count && !ret; id++) {
		const struct profile_sum *sum = &profile->now.items[id];

		if ((sum->calls || sum->running) && !profile->names[id].name)
			ret = look_up(&profile->names[id], session, id);
	}
	return ret;
}

/* The object that a process has at an address, as far as it was read; NULL = none. */
static const struct target_map *map_at(const struct target *target, uint64_t address)
{
	for (uint32_t i = 0; i < target->map_count; i++) {
		const struct target_map *map = &target->maps[i];
		uint64_t lo, hi;

		if (!map->mapped || !map->image || !map->image->object)
			continue;
		object_extent(map->image->object, &lo, &hi);
		if (address >= map->base + lo && address < map->base + hi)
			return map;
	}
	return NULL;
}

/* Name a caller by the address that its call returns to. */
static int name_caller(struct caller *caller, const struct target *target, uint64_t address)
{
	const struct target_map *map = map_at(target, address);
	const struct object_symbol *symbol;
	char place[32];

	caller->address = address;
	caller->function = PROFILE_NONE;
	snprintf(place, sizeof(place), "0x%llx", (unsigned long long)address);
	if (!map) {
		caller->name = strdup(place);
		caller->object = strdup("?");
		return caller->name && caller->object ? 0 : -ENOMEM;
	}
	symbol = object_symbol_around(map->image->object, address - 1 - map->base);
	snprintf(place, sizeof(place), "0x%llx", (unsigned long long)(address - map->base));
	caller->name = clean_copy(symbol ? object_symbol_name(map->image->object, symbol) : place);
	caller->object = clean_copy(text_base(map->image->path));
	for (uint32_t i = 0; symbol && i < map->image->site_count; i++)
		if (map->image->sources[i]->function == symbol->address)
			caller->function = map->image->first_id + i;
	return caller->name && caller->object ? 0 : -ENOMEM;
}

static bool is_same(const struct caller *a, const struct caller *b)
{
	if (a->function != PROFILE_NONE || b->function != PROFILE_NONE)
		return a->function == b->function;
	return strcmp(a->name, b->name) == 0 && strcmp(a->object, b->object) == 0;
}

static int take_caller(void *ctx, const struct target *target, uint64_t address, uint64_t calls, uint64_t total)
{
	struct profile *profile = ctx;
	struct caller caller = {0}, *callers;
	int ret = name_caller(&caller, target, address);

	for (uint32_t i = 0; !ret && i < profile->caller_count; i++) {
		if (!is_same(&caller, &profile->callers[i]))
			continue;
		profile->callers[i].calls += calls;
		profile->callers[i].total += total;
		free(caller.name);
		free(caller.object);
		return 0;
	}
	if (!ret && profile->caller_count == profile->caller_room) {
		callers = reallocarray(profile->callers, profile->caller_room * 2 + 16, sizeof(*callers));
		if (callers) {
			profile->callers = callers;
			profile->caller_room = profile->caller_room * 2 + 16;
		}
		ret = callers && profile->caller_count < CALLERS_MAX ? 0 : -ENOMEM;
	}
	if (ret) {
		free(caller.name);
		free(caller.object);
		return ret;
	}
	caller.calls = calls;
	caller.total = total;
	profile->callers[profile->caller_count++] = caller;
	return 0;
}

static int read_callers(struct profile *profile, const struct session *session)
{
	int ret = 0;

	for (uint32_t i = 0; i < profile->caller_count; i++) {
		profile->callers[i].calls = profile->callers[i].total = 0;
	}
	for (const struct share *share = session_first(session)->shares; share && !ret; share = share->next) {
		profile_watch_in(share, profile->watched);
		if (profile->watched != PROFILE_NONE)
			ret = profile_each_caller(share, profile->watched, take_caller, profile);
	}
	for (uint32_t i = 0; i < profile->caller_count && profile->steps; i++) {
		profile->callers[i].before = profile->callers[i].next;
		profile->callers[i].next = profile->callers[i].calls;
	}
	return ret;
}

static int read_sums(struct profile *profile, struct session *session)
{
	struct profile_sums sums = {0};
	const struct instance *instance = session_first(session);
	int ret = profile_add_sums(&sums, &instance->profile_ended, false);

	profile->targets = 0;
	for (const struct share *share = instance->shares; share && !ret; share = share->next) {
		profile->targets += !share_is_over(share) && share->arena_count;
		ret = profile_add_share(&sums, share);
	}
	if (ret) {
		profile_sums_clear(&sums);
		return ret;
	}
	profile_sums_clear(&profile->now);
	profile->now = sums;
	profile->now_ns = clock_now_ns();
	profile->steps = profile->now_ns - profile->next_ns >= RATE_NS;
	if (profile->steps) {
		profile_sums_clear(&profile->before);
		profile->before = profile->next;
		profile->before_ns = profile->next_ns;
		profile->next = (struct profile_sums){0};
		profile->next_ns = profile->now_ns;
		ret = profile_add_sums(&profile->next, &profile->now, false);
	}
	profile->functions = session->images.next_id;
	return ret;
}

int profile_read(struct profile *profile, struct record_live *live)
{
	struct session *session = live_enter(live);
	int ret;

	if (!session)
		return -ESRCH;
	ret = session->options->mode == CALLTAP_MODE_PROFILE ? read_sums(profile, session) : -ESRCH;
	if (!ret)
		ret = name_called(profile, session);
	if (!ret)
		ret = read_callers(profile, session);
	if (session->images.brief)
		profile->stays = brief_stays(session->images.brief);
	if (session->emulated)
		/* The tool's own tick counts nanoseconds there. */
		profile->ticks_per_ns = profile->stays.span > 0 ? 1 : clock_line_rate(&session->timing.line);
	live_leave(live, session);
	/* To measure the rate takes a moment, so it is done without the session's lock. */
	if (!ret && profile->ticks_per_ns == 0 && !session->emulated)
		profile->ticks_per_ns = clock_ticks_per_ns(CALIBRATE_MS);
	return ret;
}

static uint64_t ns_of(const struct profile *profile, uint64_t ticks)
{
	double rate = profile->ticks_per_ns > 0 ? profile->ticks_per_ns : 1, ns = (double)ticks / rate;

	return ns < 0x1p63 ? (uint64_t)ns : INT64_MAX;
}

/* Words that a target may have set back: a difference is never negative. */
static uint64_t grown_since(uint64_t now, uint64_t before)
{
	return now > before ? now - before : 0;
}

/*
 * How far a sum of ticks is off in 95 of 100 cases: it is of so many looks at what runs, each of which stands for a
 * step. One look more is for what none has fallen upon.  The longest step so far may have fallen upon it, or beside it.
 * Late looks are not at random: they come when the tool gets a CPU, which may be whenever the program sleeps.  So what
 * they were late by may be another function's, for each thread.
 */
static uint64_t error_of(const struct profile *profile, double looks)
{
	double error = 1.96 * profile->stays.mean * sqrt(looks + 1) +
		       fmax(profile->stays.mean, profile->stays.longest) +
		       profile->stays.late * fmax(1, profile->now.threads);

	return error < 0x1p63 ? ns_of(profile, (uint64_t)error) : INT64_MAX;
}

/* The errors of what the row has by now. */
static void fill_errors(const struct profile *profile, struct profile_row *row, uint64_t total, uint64_t self)
{
	if (profile->stays.mean <= 0)
		return;
	row->estimated = true;
	row->span_ns = ns_of(profile, (uint64_t)profile->stays.span);
	row->max_error_ns = ns_of(profile, (uint64_t)fmax(profile->stays.span, profile->stays.longest));
	row->total_error_ns = error_of(profile, (double)total / profile->stays.mean);
	row->self_error_ns = error_of(profile, (double)self / profile->stays.mean);
}

static const struct profile_sum *sum_at(const struct profile_sums *sums, uint32_t id)
{
	static const struct profile_sum none;

	return id < sums->count ? &sums->items[id] : &none;
}

/* A call's longest time since the base, which is exact when it is longer than any before. */
static uint64_t longest_since(const struct profile_sum *now, const struct profile_sum *base)
{
	if (now->max > base->max || !base->calls)
		return now->max;
	for (uint32_t bucket = CALLTAP_PROFILE_BUCKETS; now->histogram && bucket-- > 0;) {
		uint64_t end = calltap_profile_bucket_start(bucket + 1);

		if (grown_since(now->histogram[bucket], base->histogram ? base->histogram[bucket] : 0))
			return end < now->max ? end : now->max;
	}
	return now->max;
}

static void fill_row(const struct profile *profile, uint32_t id, struct profile_row *row)
{
	const struct profile_sum *now = sum_at(&profile->now, id), *before = sum_at(&profile->before, id),
				 *base = sum_at(&profile->base, id);
	const struct function_name *name = id < profile->name_count ? &profile->names[id] : NULL;
	double seconds = (double)(profile->now_ns - profile->before_ns) / 1e9;

	*row = (struct profile_row){
		.function = id,
		.name = name && name->name ? name->name : "?",
		.object = name && name->object ? name->object : "?",
		.running = now->running,
		.calls = grown_since(now->calls, base->calls),
		.total_ns = ns_of(profile, grown_since(now->total, base->total)),
		.self_ns = ns_of(profile, grown_since(now->self, base->self)),
		.max_ns = ns_of(profile, longest_since(now, base)),
	};
	row->avg_ns = row->calls ? row->total_ns / row->calls : 0;
	fill_errors(profile, row, grown_since(now->total, base->total), grown_since(now->self, base->self));
	if (profile->before_ns && seconds > 0) {
		row->calls_rate = (double)grown_since(now->calls, before->calls) / seconds;
		row->self_rate = (double)ns_of(profile, grown_since(now->self, before->self)) / 1e9 / seconds;
	}
}

struct profile_row *profile_rows(struct profile *profile, size_t *count)
{
	*count = 0;
	free(profile->rows);
	profile->rows = calloc(profile->now.count + 1, sizeof(*profile->rows));
	for (uint32_t id = 0; profile->rows && id < profile->now.count; id++) {
		const struct profile_sum *now = &profile->now.items[id];

		if (grown_since(now->calls, sum_at(&profile->base, id)->calls) || now->running)
			fill_row(profile, id, &profile->rows[(*count)++]);
	}
	return profile->rows;
}

/* Calls that have a bucket. */
static uint64_t placed_since(const uint64_t *now, const uint64_t *base)
{
	uint64_t total = 0;

	for (uint32_t i = 0; i < CALLTAP_PROFILE_BUCKETS; i++)
		total += grown_since(now[i], base ? base[i] : 0);
	return total;
}

/* The middle of the bucket that the permille-th of all calls is in; so many of them are of 0 ticks, and have none. */
static uint64_t percentile_since(const uint64_t *now, const uint64_t *base, uint64_t without, unsigned permille)
{
	uint64_t total = without + placed_since(now, base), seen = without, rank;

	if (!total)
		return 0;
	rank = total / 1000 * permille + (total % 1000 * permille + 999) / 1000;
	if (rank <= without)
		return 0;
	for (uint32_t i = 0; i < CALLTAP_PROFILE_BUCKETS; i++) {
		seen += grown_since(now[i], base ? base[i] : 0);
		if (seen >= rank)
			return calltap_profile_bucket_start(i) +
			       (calltap_profile_bucket_start(i + 1) - calltap_profile_bucket_start(i)) / 2;
	}
	return 0;
}

/* Read the function's histogram anew. */
static int read_histogram(struct profile *profile, const struct session *session, uint32_t id)
{
	const struct instance *instance = session_first(session);
	const struct profile_sum *ended = sum_at(&instance->profile_ended, id);
	struct profile_sum *sum = &profile->now.items[id];
	int ret = 0;

	if (sum->histogram)
		memset(sum->histogram, 0, CALLTAP_PROFILE_BUCKETS * sizeof(*sum->histogram));
	for (const struct share *share = instance->shares; share && !ret; share = share->next)
		ret = profile_add_histogram(&sum->histogram, share, id);
	if (!ret && ended->histogram && !sum->histogram) {
		sum->histogram = calloc(CALLTAP_PROFILE_BUCKETS, sizeof(*sum->histogram));
		ret = sum->histogram ? 0 : -ENOMEM;
	}
	for (uint32_t i = 0; i < CALLTAP_PROFILE_BUCKETS && !ret && ended->histogram; i++)
		sum->histogram[i] += ended->histogram[i];
	return ret;
}

/*
 * Long calls are known up to a step each, however many looks fall upon them.  What a function's traced callees take is
 * not known that well: so this holds for its own time only where there are none.
 */
static void narrow_errors(const struct profile *profile, struct profile_row *row, uint64_t placed)
{
	uint64_t error = error_of(profile, (double)placed);

	if (error < row->total_error_ns)
		row->total_error_ns = error;
	if (row->self_ns == row->total_ns && error < row->self_error_ns)
		row->self_error_ns = error;
}

static void fill_percentiles(const struct profile *profile, struct profile_row *row)
{
	const struct profile_sum *now = sum_at(&profile->now, row->function),
				 *base = sum_at(&profile->base, row->function);
	uint64_t placed = now->histogram ? placed_since(now->histogram, base->histogram) : 0,
		 without = row->estimated ? grown_since(row->calls, placed) : 0;

	row->measured = true;
	row->max_ns = ns_of(profile, longest_since(now, base));
	if (!now->histogram)
		return;
	row->p50_ns = ns_of(profile, percentile_since(now->histogram, base->histogram, without, 500));
	row->p99_ns = ns_of(profile, percentile_since(now->histogram, base->histogram, without, 990));
	if (row->p50_ns > row->max_ns)
		row->p50_ns = row->max_ns;
	if (row->p99_ns > row->max_ns)
		row->p99_ns = row->max_ns;
	if (row->estimated)
		narrow_errors(profile, row, placed);
}

int profile_measure(struct profile *profile, struct record_live *live, struct profile_row *rows, size_t count)
{
	struct session *session = live_enter(live);
	int ret = session ? 0 : -ESRCH;

	for (size_t i = 0; session && i < count && !ret; i++)
		if (!rows[i].measured && rows[i].function < profile->now.count)
			ret = read_histogram(profile, session, rows[i].function);
	if (session)
		live_leave(live, session);
	for (size_t i = 0; i < count; i++)
		if (!rows[i].measured)
			fill_percentiles(profile, &rows[i]);
	return ret;
}

int profile_reset(struct profile *profile, struct record_live *live)
{
	struct session *session = live_enter(live);
	int ret = 0;

	for (uint32_t id = 0; session && id < profile->now.count && !ret; id++)
		if (profile->now.items[id].calls)
			ret = read_histogram(profile, session, id);
	if (session)
		live_leave(live, session);
	profile_sums_clear(&profile->base);
	return ret ? ret : profile_add_sums(&profile->base, &profile->now, true);
}

void profile_watch(struct profile *profile, uint32_t function)
{
	clear_callers(profile);
	profile->watched = function;
}

struct profile_row *profile_callers(struct profile *profile, size_t *count)
{
	double seconds = (double)(profile->now_ns - profile->before_ns) / 1e9;

	*count = 0;
	free(profile->caller_rows);
	profile->caller_rows = calloc(profile->caller_count + 1, sizeof(*profile->caller_rows));
	for (uint32_t i = 0; profile->caller_rows && i < profile->caller_count; i++) {
		const struct caller *caller = &profile->callers[i];
		struct profile_row *row = &profile->caller_rows[*count];

		if (!caller->calls)
			continue;
		++*count;
		row->function = caller->function;
		row->name = caller->name;
		row->object = caller->object;
		row->calls = caller->calls;
		row->total_ns = ns_of(profile, caller->total);
		row->avg_ns = row->total_ns / row->calls;
		fill_errors(profile, row, caller->total, 0);
		if (profile->before_ns && seconds > 0)
			row->calls_rate = (double)grown_since(caller->calls, caller->before) / seconds;
	}
	return profile->caller_rows;
}

struct profile_totals profile_totals(const struct profile *profile)
{
	return (struct profile_totals){
		.processes = profile->targets,
		.threads = profile->now.threads,
		.functions = profile->functions,
		.beyond = profile->now.beyond,
		.vanished = profile->now.vanished,
		.estimated = profile->stays.mean > 0,
		.seconds = profile->before_ns ? (double)(profile->now_ns - profile->before_ns) / 1e9 : 0,
	};
}
