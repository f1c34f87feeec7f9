/*
 * Settings as words (settings.h): one table of keys, each with how its value
 * is read and written.
 *
 * Callers: the commands' options, and the answers to `calltap set`.
 * Context: host.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include <calltap/abi/profile.h>
#include <host/elf/filter.h>
#include <tracers/tracer.h>

#include "settings.h"

static int refuse_value(struct calltap_diag *diag, const char *what, const char *value, const char *remedy)
{
	return calltap_diag_set(diag, -EINVAL, "%s '%.100s' is not valid; %s", what, value, remedy);
}

static int take_tracing(struct settings *settings, const char *value, struct calltap_diag *diag)
{
	bool on = !strcmp(value, "on");

	if (!on && strcmp(value, "off") != 0)
		return refuse_value(diag, "tracing", value, "it is on or off");
	settings->tracing = on;
	return 0;
}

static int take_tracer(struct settings *settings, const char *value, struct calltap_diag *diag)
{
	const struct tracer *tracer = tracer_find(value);
	char names[128] = "";

	/* A tracer that counts belongs to a verb, and cannot be chosen. */
	for (size_t i = 0, at = 0; !tracer && tracer_at(i) && at < sizeof(names); i++)
		if (!tracer_at(i)->counts)
			at += (size_t)snprintf(names + at, sizeof(names) - at, "%s%s", at ? ", " : "",
					       tracer_at(i)->name);
	if (!tracer)
		return calltap_diag_set(diag, -EINVAL, "tracer '%.100s' is not valid; it is one of %s", value, names);
	settings->options.tracer = tracer;
	return 0;
}

const char *record_mode_name(unsigned mode)
{
	static const char *const names[] = {
		[CALLTAP_MODE_BLOCK] = "block",
		[CALLTAP_MODE_DROP] = "drop",
		[CALLTAP_MODE_OVERWRITE] = "overwrite",
		[CALLTAP_MODE_PROFILE] = "profile",
	};

	return mode < sizeof(names) / sizeof(names[0]) ? names[mode] : NULL;
}

static int take_mode(struct settings *settings, const char *value, struct calltap_diag *diag)
{
	for (unsigned i = 0; i <= CALLTAP_MODE_OVERWRITE; i++)
		if (!strcmp(value, record_mode_name(i))) {
			settings->options.mode = (enum calltap_mode)i;
			return 0;
		}
	return refuse_value(diag, "mode", value, "it is block, drop or overwrite");
}

static int take_buffer(struct settings *settings, const char *value, struct calltap_diag *diag)
{
	return setting_parse_size(value, &settings->options.buffer_bytes)
		       ? 0
		       : refuse_value(diag, "buffer size", value, "give 8K to 1G, such as 4M");
}

static int take_depth(struct settings *settings, const char *value, struct calltap_diag *diag)
{
	return setting_parse_count(value, &settings->options.depth_max)
		       ? 0
		       : refuse_value(diag, "depth", value, "give a number from 1");
}

static int take_threshold(struct settings *settings, const char *value, struct calltap_diag *diag)
{
	return setting_parse_time(value, &settings->options.threshold_ns)
		       ? 0
		       : refuse_value(diag, "threshold", value, "give a time such as 10us or 1ms");
}

static int take_time(struct settings *settings, const char *value, struct calltap_diag *diag)
{
	bool adaptive = !strcmp(value, "adaptive");

	if (!adaptive && strcmp(value, "exact") != 0)
		return refuse_value(diag, "time", value, "it is exact or adaptive");
	settings->options.adaptive = adaptive;
	return 0;
}

static int take_short(struct settings *settings, const char *value, struct calltap_diag *diag)
{
	return setting_parse_time(value, &settings->options.short_ns) && settings->options.short_ns
		       ? 0
		       : refuse_value(diag, "time-short", value, "give a time such as 1us or 500ns");
}

static int take_sample(struct settings *settings, const char *value, struct calltap_diag *diag)
{
	uint32_t every;

	if (!setting_parse_count(value, &every) || !every || every > RECORD_EVERY_MAX)
		return refuse_value(diag, "time-sample", value, "give a number from 1 to 65535");
	settings->options.every = every;
	return 0;
}

static void print_tracing(const struct settings *settings, FILE *stream)
{
	fputs(settings->tracing ? "on" : "off", stream);
}

static void print_tracer(const struct settings *settings, FILE *stream)
{
	fputs(settings->options.tracer->name, stream);
}

static void print_mode(const struct settings *settings, FILE *stream)
{
	fputs(record_mode_name(settings->options.mode), stream);
}

static void print_buffer(const struct settings *settings, FILE *stream)
{
	uint64_t bytes = settings->options.buffer_bytes;

	if (bytes % (1u << 20) == 0)
		fprintf(stream, "%" PRIu64 "M", bytes >> 20);
	else if (bytes % (1u << 10) == 0)
		fprintf(stream, "%" PRIu64 "K", bytes >> 10);
	else
		fprintf(stream, "%" PRIu64, bytes);
}

static void print_depth(const struct settings *settings, FILE *stream)
{
	if (settings->options.depth_max)
		fprintf(stream, "%" PRIu32, settings->options.depth_max);
}

static void print_ns(uint64_t ns, FILE *stream)
{
	if (ns % 1000000 == 0)
		fprintf(stream, "%" PRIu64 "ms", ns / 1000000);
	else if (ns % 1000 == 0)
		fprintf(stream, "%" PRIu64 "us", ns / 1000);
	else
		fprintf(stream, "%" PRIu64 "ns", ns);
}

static void print_threshold(const struct settings *settings, FILE *stream)
{
	if (settings->options.threshold_ns)
		print_ns(settings->options.threshold_ns, stream);
}

static void print_time(const struct settings *settings, FILE *stream)
{
	fputs(settings->options.adaptive ? "adaptive" : "exact", stream);
}

/* What says how to be adaptive has no value where nothing is and nobody has set it. */
static void print_short(const struct settings *settings, FILE *stream)
{
	const struct record_options *options = &settings->options;

	if (options->adaptive || options->short_ns)
		print_ns(options->short_ns ? options->short_ns : RECORD_SHORT_NS, stream);
}

static void print_sample(const struct settings *settings, FILE *stream)
{
	const struct record_options *options = &settings->options;

	if (options->adaptive || options->every)
		fprintf(stream, "%" PRIu32, options->every ? options->every : RECORD_EVERY);
}

/* A key with a `take` has one value; the others are filters of a kind. */
struct setting {
	const char *key;
	int (*take)(struct settings *settings, const char *value, struct calltap_diag *diag);
	void (*print)(const struct settings *settings, FILE *stream);
	enum filter_kind kind;
	bool limit; /* may be taken away */
};

static const struct setting table[] = {
	{"tracing", take_tracing, print_tracing, 0, false},  {"tracer", take_tracer, print_tracer, 0, false},
	{"mode", take_mode, print_mode, 0, false},	     {"buffer", take_buffer, print_buffer, 0, false},
	{"max-depth", take_depth, print_depth, 0, true},     {"threshold", take_threshold, print_threshold, 0, true},
	{"time", take_time, print_time, 0, false},	     {"time-short", take_short, print_short, 0, true},
	{"time-sample", take_sample, print_sample, 0, true}, {"trace", NULL, NULL, FILTER_TRACE, true},
	{"notrace", NULL, NULL, FILTER_NOTRACE, true},	     {"graph", NULL, NULL, FILTER_GRAPH, true},
	{"no-graph", NULL, NULL, FILTER_NOGRAPH, true},
};

#define SETTINGS (sizeof(table) / sizeof(table[0]))

static const struct setting *find_setting(const char *key)
{
	for (size_t i = 0; i < SETTINGS; i++)
		if (!strcmp(table[i].key, key))
			return &table[i];
	return NULL;
}

static int refuse_key(struct calltap_diag *diag, const char *key)
{
	char keys[200] = "";
	size_t at = 0;

	for (size_t i = 0; i < SETTINGS && at < sizeof(keys); i++)
		at += (size_t)snprintf(keys + at, sizeof(keys) - at, "%s%s",
				       !i		   ? ""
				       : i + 1 == SETTINGS ? " and "
							   : ", ",
				       table[i].key);
	return calltap_diag_set(diag, -EINVAL,
				"'%.60s' is no setting; there are %s, and of a session that runs args, result, if, "
				"only-if, auto-args and registers",
				key, keys);
}

int setting_take(struct settings *settings, const char *key, const char *value, struct calltap_diag *diag)
{
	const struct setting *setting = find_setting(key);

	if (!setting)
		return refuse_key(diag, key);
	if (setting->take)
		return setting->take(settings, value, diag);
	return filter_set_add(settings->options.filters, setting->kind, value, diag);
}

/* The filters of the other kinds, and of this one when it is appended to. */
static int copy_filters(struct filter_set **out, const struct filter_set *from, bool with_kind, enum filter_kind kind)
{
	enum filter_kind its_kind;
	unsigned long matches;
	const char *text;
	int ret = filter_set_create(out);

	for (size_t i = 0, at = 0; !ret && from && filter_set_item(from, i, &text, &its_kind, &matches); i++) {
		if (!with_kind && its_kind == kind)
			continue;
		ret = filter_set_add(*out, its_kind, text, NULL);
		if (!ret && filter_set_waits(from, i))
			filter_set_let_wait(*out, at);
		at++;
	}
	if (ret) {
		filter_set_destroy(*out);
		*out = NULL;
	}
	return ret;
}

static int change_filter(struct settings *settings, const struct setting *setting, const struct setting_change *change,
			 struct calltap_diag *diag)
{
	struct filter_set *filters;
	int ret = copy_filters(&filters, settings->options.filters, change->append, setting->kind);

	if (ret)
		return calltap_diag_set(diag, ret, "not enough memory for the filters");
	filter_set_destroy(settings->options.filters);
	settings->options.filters = filters;
	return change->value[0] ? filter_set_add(filters, setting->kind, change->value, diag) : 0;
}

/* No limit, or what holds where nothing is said. */
static void take_away(struct settings *settings, const struct setting *setting)
{
	struct record_options *options = &settings->options;

	if (setting->take == take_depth)
		options->depth_max = 0;
	else if (setting->take == take_threshold)
		options->threshold_ns = 0;
	else if (setting->take == take_short)
		options->short_ns = 0;
	else
		options->every = 0;
}

static int change_one(struct settings *settings, const struct setting_change *change, struct calltap_diag *diag)
{
	const struct setting *setting = find_setting(change->key);

	if (!setting)
		return refuse_key(diag, change->key);
	if (!setting->take)
		return change_filter(settings, setting, change, diag);
	if (change->append)
		return calltap_diag_set(diag, -EINVAL, "%s has one value; write %s=%.100s", setting->key, setting->key,
					change->value);
	if (setting->limit && (!change->value[0] || (!strcmp(change->value, "0") && setting->take != take_short &&
						     setting->take != take_sample))) {
		take_away(settings, setting);
		return 0;
	}
	return setting->take(settings, change->value, diag);
}

/* The whole word, with the caret at the value, or where it was inside the value. */
static void show_word(struct calltap_diag *diag, const struct setting_change *change)
{
	int at = 0,
	    inside = diag->input[0] && !strcmp(diag->input, change->value) && diag->column > 0 ? diag->column : 0;

	if (diag->input[0] && strcmp(diag->input, change->value) != 0)
		return; /* a line of a list of filters */
	if (find_setting(change->key))
		at = (int)strlen(change->key) + (change->append ? 2 : 1) + inside;
	snprintf(diag->input, sizeof(diag->input), "%s%s=%s", change->key, change->append ? "+" : "", change->value);
	diag->column = at < (int)strlen(diag->input) ? at : -1;
}

/* The word by which filters may match nothing: whoever asks for the change knows that. */
static bool is_no_match(const struct setting_change *change)
{
	return !strcmp(change->key, "allow-no-match") && !strcmp(change->value, "1") && !change->append;
}

static void let_all_wait(struct filter_set *filters)
{
	enum filter_kind kind;
	unsigned long matches;
	const char *text;

	for (size_t i = 0; filter_set_item(filters, i, &text, &kind, &matches); i++)
		filter_set_let_wait(filters, i);
}

int settings_change(struct settings *out, const struct settings *now, const struct setting_change *changes,
		    size_t count, struct calltap_diag *diag)
{
	bool no_match = false;
	int ret;

	*out = *now;
	ret = copy_filters(&out->options.filters, now->options.filters, true, FILTER_KINDS);
	if (ret)
		return calltap_diag_set(diag, ret, "not enough memory for the filters");
	for (size_t i = 0; i < count && !ret; i++) {
		if (is_no_match(&changes[i])) {
			no_match = true;
			continue;
		}
		ret = change_one(out, &changes[i], diag);
		if (ret && diag)
			show_word(diag, &changes[i]);
	}
	if (!ret && no_match)
		let_all_wait(out->options.filters);
	if (!ret)
		ret = settings_refuse(&out->options, false, diag);
	if (ret) {
		filter_set_destroy(out->options.filters);
		out->options.filters = NULL;
	}
	return ret;
}

static void print_filters(const struct settings *settings, const struct setting *setting, FILE *stream)
{
	enum filter_kind kind;
	unsigned long matches;
	const char *text;
	bool more = false;

	for (size_t i = 0; filter_set_item(settings->options.filters, i, &text, &kind, &matches); i++)
		if (kind == setting->kind) {
			fprintf(stream, "%s%s=%s\n", setting->key, more ? "+" : "", text);
			more = true;
		}
	if (!more)
		fprintf(stream, "%s=\n", setting->key);
}

void settings_print(const struct settings *settings, FILE *stream)
{
	for (size_t i = 0; i < SETTINGS; i++) {
		if (!table[i].print) {
			print_filters(settings, &table[i], stream);
			continue;
		}
		fprintf(stream, "%s=", table[i].key);
		table[i].print(settings, stream);
		fputc('\n', stream);
	}
}
