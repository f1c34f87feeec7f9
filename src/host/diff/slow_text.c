/*
 * Printing why calls are slow, on one screen; see slow.h.  Context: host.
 */
#include <ctype.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include <host/counted.h>
#include <host/text.h>

#include "../view/json.h"
#include "../view/shorten.h"
#include "../view/term.h"
#include "change.h"
#include "slow.h"
#include "twin_text.h"

#define NAME_WIDTH  40u
#define VALUES_MAX  3u /* lines of values; JSON has VALUES_JSON of them */
#define VALUES_JSON 100u

static void print_class(const struct slow_class *of, const char *name, struct out *out)
{
	char text[TIMETEXT_MAX];

	out_format(out, "  %-8s", name);
	out_u64_width(out, of->calls, 11);
	out_column(out, timetext(of->total_ns, text), 12, true);
	out_column(out, timetext(of->min_ns, text), 12, true);
	out_column(out, timetext(slow_median_ns(of), text), 12, true);
	out_column(out, timetext(of->max_ns, text), 12, true);
	out_char(out, '\n');
}

static void print_head(const struct slow *slow, const struct slow_options *options, struct out *out)
{
	const struct slow_class *others = &slow->classes[SLOW_OTHERS], *slows = &slow->classes[SLOW_SLOW];
	char text[TIMETEXT_MAX], name[SHORTEN_MAX];

	if (options->color)
		out_text(out, TERM_BOLD);
	out_text(out, shorten(names_function(slow->names, slow->function).text, NAME_WIDTH, name));
	if (slow->functions > 1)
		out_format(out, " and %u more", slow->functions - 1);
	if (options->color)
		out_text(out, TERM_RESET);
	out_format(out, ": slow is %s or more, %.3g%% of its calls\n", timetext(slow->floor_ns, text),
		   100 * (double)slows->calls / (double)(slows->calls + others->calls));
	out_text(out, "                Calls       Total         Min         p50         Max\n");
	print_class(slows, "slow", out);
	print_class(others, "others", out);
}

static void print_values(struct slow *slow, struct out *out)
{
	uint32_t worth = met_sort(&slow->met);

	for (uint32_t i = 0; i < worth && i < VALUES_MAX; i++) {
		const struct met_value *value = slow->met.values[i];

		out_format(out, "with %s: %llu of %llu slow calls, %llu of %llu others\n", value->text,
			   (unsigned long long)value->calls[SLOW_SLOW], (unsigned long long)slow->met.events[SLOW_SLOW],
			   (unsigned long long)value->calls[SLOW_OTHERS],
			   (unsigned long long)slow->met.events[SLOW_OTHERS]);
	}
	if (slow->met.beyond)
		out_format(out, "values that were not counted, for there are too many: %llu\n",
			   (unsigned long long)slow->met.beyond);
}

/* A word for a shell. */
static void print_word(struct out *out, const char *word)
{
	bool plain = *word && *word != '-';

	for (const char *at = word; *at; at++)
		plain &= isalnum((unsigned char)*at) || strchr("_./-+:,@%", *at);
	if (plain) {
		out_text(out, word);
		return;
	}
	out_char(out, '\'');
	for (; *word; word++) {
		if (*word == '\'')
			out_text(out, "'\\''");
		else
			out_char(out, *word);
	}
	out_char(out, '\'');
}

static void print_seconds(struct out *out, uint64_t ns)
{
	out_u64(out, ns / 1000000000);
	out_char(out, '.');
	out_digits(out, ns % 1000000000, 9);
}

/* A call's range is wider by a tick and the rounding, so that its first and its last record are in it. */
static uint64_t rounding_ns(const struct slow *slow)
{
	return 1 + (uint64_t)ceil(1 / trace_ticks_per_ns(slow->trace));
}

static uint64_t range_from(const struct slow *slow, const struct slow_example *example)
{
	return example->from_ns > rounding_ns(slow) ? example->from_ns - rounding_ns(slow) : 0;
}

static uint64_t range_to(const struct slow *slow, const struct slow_example *example)
{
	return example->from_ns + example->ns + rounding_ns(slow);
}

static void print_example(const struct slow *slow, const struct slow_options *options,
			  const struct slow_example *example, const char *name, struct out *out)
{
	const struct trace_thread *thread = trace_thread(slow->trace, example->thread);
	char text[TIMETEXT_MAX], shorter[SHORTEN_MAX], path[PATH_MAX];
	size_t used = out->used;

	out_format(out, "%s: %s at ", name, timetext(example->ns, text));
	print_seconds(out, example->from_ns);
	out_format(out, " s in %s", names_thread(slow->names, example->thread).text);
	used = out->used > used ? out->used - used : 0;
	if (example->told[0])
		out_format(out, " (%s)",
			   shorten(example->told, options->width > used + 12 ? options->width - (unsigned)used - 4 : 60,
				   shorter));
	out_text(out, "\n  calltap replay -i ");
	text_clean(path, sizeof(path), trace_path(slow->trace));
	print_word(out, path);
	if (thread && thread->tid)
		out_format(out, " --tid %u", thread->tid);
	out_text(out, " --time ");
	print_seconds(out, range_from(slow, example));
	out_text(out, "..");
	print_seconds(out, range_to(slow, example));
	out_char(out, '\n');
}

static bool is_same(const struct slow_example *a, const struct slow_example *b)
{
	return a->from_ns == b->from_ns && a->thread == b->thread && a->ns == b->ns;
}

static void print_notes(const struct slow *slow, struct out *out)
{
	char text[TIMETEXT_MAX];
	const char *between = "left out: ";

	if (slow->unfinished) {
		out_format(out, "%s%llu unfinished %s", between, (unsigned long long)slow->unfinished,
			   counted(slow->unfinished, "call", "calls"));
		between = "; ";
	}
	if (slow->unsure) {
		out_format(out, "%s%llu %s whose duration is an estimate, too near to the limit", between,
			   (unsigned long long)slow->unsure, counted(slow->unsure, "call", "calls"));
		between = "; ";
	}
	if (slow->lost) {
		out_format(out, "%s%llu lost %s", between, (unsigned long long)slow->lost,
			   counted(slow->lost, "record", "records"));
		between = "; ";
	}
	if (slow->absorbed) {
		out_format(out, "%s%llu %s for which the tree has no room", between, (unsigned long long)slow->absorbed,
			   counted(slow->absorbed, "call", "calls"));
		between = "; ";
	}
	if (*between == ';')
		out_char(out, '\n');
	if (slow->estimated)
		out_format(out, "calls whose duration is an estimate, in the times above: %llu of %llu\n",
			   (unsigned long long)slow->estimated,
			   (unsigned long long)slow->classes[0].calls + slow->classes[1].calls);
	if (slow->wait_ns)
		out_format(out, "waiting for the tool, in the times above: %s (--mode block)\n",
			   timetext(slow->wait_ns, text));
}

static void class_json(const struct slow_class *of, struct json *json)
{
	json_object(json);
	json_key_u64(json, "calls", of->calls);
	json_key_u64(json, "total_ns", of->total_ns);
	json_key_u64(json, "min_ns", of->min_ns);
	json_key_u64(json, "p50_ns", slow_median_ns(of));
	json_key_u64(json, "max_ns", of->max_ns);
	json_object_end(json);
}

static void example_json(const struct slow *slow, const struct slow_example *example, struct json *json)
{
	const struct trace_thread *thread = trace_thread(slow->trace, example->thread);

	json_object(json);
	json_key_u64(json, "from_ns", example->from_ns);
	json_key_u64(json, "duration_ns", example->ns);
	json_key_u64(json, "tid", thread ? thread->tid : 0);
	json_key_string(json, "thread", names_thread(slow->names, example->thread).text);
	json_key_string(json, "arguments", example->told[0] ? example->told : NULL);
	json_key_u64(json, "range_from_ns", range_from(slow, example));
	json_key_u64(json, "range_to_ns", range_to(slow, example));
	json_object_end(json);
}

static void values_json(struct slow *slow, struct json *json)
{
	uint32_t worth = met_sort(&slow->met);

	json_array(json);
	for (uint32_t i = 0; i < worth && i < VALUES_JSON; i++) {
		json_object(json);
		json_key_string(json, "value", slow->met.values[i]->text);
		json_key_u64(json, "slow_calls", slow->met.values[i]->calls[SLOW_SLOW]);
		json_key_u64(json, "other_calls", slow->met.values[i]->calls[SLOW_OTHERS]);
		json_object_end(json);
	}
	json_array_end(json);
}

static void print_json(struct slow *slow, const struct slow_options *options, const struct twin_view *view,
		       struct out *out)
{
	struct json json;

	json_begin(&json, out);
	json_object(&json);
	json_key_string(&json, "function", options->function);
	json_key_u64(&json, "functions", slow->functions);
	json_key_u64(&json, "slow_from_ns", slow->floor_ns);
	json_key(&json, "slow");
	class_json(&slow->classes[SLOW_SLOW], &json);
	json_key(&json, "others");
	class_json(&slow->classes[SLOW_OTHERS], &json);
	json_key_u64(&json, "unfinished", slow->unfinished);
	if (slow->estimated + slow->unsure) {
		json_key_u64(&json, "estimated", slow->estimated);
		json_key_u64(&json, "unsure", slow->unsure);
	}
	json_key_u64(&json, "lost", slow->lost);
	json_key_u64(&json, "untraced", trace_calls_missed(slow->trace));
	json_key_u64(&json, "wait_ns", slow->wait_ns);
	json_key_u64(&json, "absorbed", slow->absorbed);
	json_key(&json, "slowest");
	example_json(slow, &slow->slowest, &json);
	json_key(&json, "median");
	example_json(slow, &slow->median, &json);
	json_key(&json, "values");
	values_json(slow, &json);
	json_key_u64(&json, "values_beyond", slow->met.beyond);
	json_key(&json, "tree"); /* a: the others, b: the slow ones */
	twin_json(&slow->twin, slow->pair, view, &json);
	json_object_end(&json);
	out_char(out, '\n');
}

int slow_print(struct slow *slow, const struct slow_options *options, struct out *out)
{
	const struct twin_titles titles = {"Slow-other", "Other", "Slow", "n other", "n slow"};
	double least = slow->twin.weights[TREE_ROOT] * options->min_percent / 100;
	struct twin_view view;
	int err = twin_view(&view, &slow->twin, least, options->json ? 0 : (uint32_t)options->limit);

	if (!err && options->json) {
		print_json(slow, options, &view, out);
	} else if (!err) {
		print_head(slow, options, out);
		twin_print(&slow->twin, slow->pair, &view, &titles, options->width, options->color, out);
		print_values(slow, out);
		print_example(slow, options, &slow->slowest, "slowest", out);
		if (!is_same(&slow->slowest, &slow->median))
			print_example(slow, options, &slow->median, "median slow one", out);
		print_notes(slow, out);
	}
	twin_view_clear(&view);
	return err;
}
