/*
 * The filters of the reading verbs (chosen.h).  Context: host.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../elf/pattern.h"
#include "../trace/callstack.h"
#include "chosen.h"

struct chosen {
	struct filter_set *filters;
	bool filtered; /* there is a filter of functions */
	struct pattern *patterns;
	char **texts; /* the options */
	size_t text_count;
	size_t pattern_count;
	uint8_t *judged; /* CALL_* bits per function, untraced ones last */
	uint32_t functions, untraced;
	bool any_function;
	bool *threads; /* NULL = all */
	uint32_t thread_count;
};

static int make_chosen(struct chosen **chosen, struct calltap_diag *diag)
{
	if (*chosen)
		return 0;
	*chosen = calloc(1, sizeof(**chosen));
	if (!*chosen || filter_set_create(&(*chosen)->filters)) {
		free(*chosen);
		*chosen = NULL;
		(void)calltap_diag_set(diag, -ENOMEM, "not enough memory for the filters");
		return -ENOMEM;
	}
	return 0;
}

/* Keep an option for whoever tells what was chosen. */
static int keep_text(struct chosen *chosen, const char *option, const char *text, struct calltap_diag *diag)
{
	char **grown = reallocarray(chosen->texts, chosen->text_count + 1, sizeof(*grown));

	if (grown)
		chosen->texts = grown;
	if (!grown || asprintf(&grown[chosen->text_count], "%s %s", option, text) < 0)
		return calltap_diag_set(diag, -ENOMEM, "not enough memory for the filters");
	chosen->text_count++;
	return 0;
}

int chosen_add(struct chosen **chosen, enum filter_kind kind, const char *text, struct calltap_diag *diag)
{
	static const char *const options[] = {[FILTER_TRACE] = "--trace",
					      [FILTER_NOTRACE] = "--notrace",
					      [FILTER_GRAPH] = "--graph",
					      [FILTER_NOGRAPH] = "--no-graph"};
	int err = make_chosen(chosen, diag);

	if (!err)
		err = keep_text(*chosen, options[kind], text, diag);
	if (!err)
		err = filter_set_add((*chosen)->filters, kind, text, diag);
	if (!err)
		(*chosen)->filtered = true;
	return err;
}

int chosen_add_thread(struct chosen **chosen, const char *text, struct calltap_diag *diag)
{
	struct pattern_fault fault = {0};
	struct pattern *grown;
	int err = make_chosen(chosen, diag);

	if (!err)
		err = keep_text(*chosen, "--thread", text, diag);
	if (err)
		return err;
	grown = reallocarray((*chosen)->patterns, (*chosen)->pattern_count + 1, sizeof(*grown));
	if (!grown)
		return calltap_diag_set(diag, -ENOMEM, "not enough memory for the filters");
	(*chosen)->patterns = grown;
	err = pattern_compile(&grown[(*chosen)->pattern_count], text, &fault);
	if (err)
		return calltap_diag_set(diag, err, "--thread \"%.100s\": %s", text,
					err == -ENOMEM ? "not enough memory" : fault.text);
	(*chosen)->pattern_count++;
	return 0;
}

void chosen_destroy(struct chosen *chosen)
{
	if (!chosen)
		return;
	filter_set_destroy(chosen->filters);
	for (size_t i = 0; i < chosen->pattern_count; i++)
		pattern_free(&chosen->patterns[i]);
	for (size_t i = 0; i < chosen->text_count; i++)
		free(chosen->texts[i]);
	free(chosen->texts);
	free(chosen->patterns);
	free(chosen->judged);
	free(chosen->threads);
	free(chosen);
}

static uint8_t judge_function(struct chosen *chosen, const struct trace *trace, uint32_t id)
{
	const struct trace_function *function = trace_function(trace, id);
	const struct trace_object *object = function ? trace_object(trace, function->object) : NULL;
	struct filter_decision decision;
	struct filter_name name = {0};
	uint8_t shown;

	if (function)
		name = (struct filter_name){.object = object ? object->path : NULL,
					    .symbol = function->symbol,
					    .name = function->name,
					    .brief = trace_function_brief(trace, id)};
	filter_set_decide_name(chosen->filters, &name, &decision);
	if (decision.notree)
		return CALL_NOTREE;
	shown = decision.trace ? CALL_INSIDE : 0;
	if (decision.root)
		return CALL_ROOT | CALL_INSIDE;
	return filter_set_has(chosen->filters, FILTER_GRAPH) || !shown ? shown : CALL_INSIDE | CALL_OUTSIDE;
}

static int settle_functions(struct chosen *chosen, const struct trace *trace)
{
	bool trees = chosen_has_trees(chosen);

	chosen->functions = trace_function_count(trace);
	chosen->untraced = trace_untraced_count(trace);
	free(chosen->judged);
	chosen->judged = calloc((size_t)chosen->functions + chosen->untraced + 1, sizeof(*chosen->judged));
	if (!chosen->judged)
		return -ENOMEM;
	for (uint32_t i = 0; i < chosen->functions + chosen->untraced; i++) {
		chosen->judged[i] = judge_function(chosen, trace,
						   i < chosen->functions ? i : TRACE_UNTRACED + i - chosen->functions);
		chosen->any_function |= (chosen->judged[i] & (trees ? CALL_ROOT : CALL_OUTSIDE)) != 0;
	}
	return 0;
}

static bool name_is_chosen(const struct chosen *chosen, const char *name)
{
	for (size_t i = 0; i < chosen->pattern_count; i++)
		if (pattern_matches(&chosen->patterns[i], name))
			return true;
	return false;
}

static int settle_threads(struct chosen *chosen, const struct trace *trace, struct calltap_diag *diag)
{
	bool any = false;

	free(chosen->threads);
	chosen->threads = NULL;
	if (!chosen->pattern_count)
		return 0;
	chosen->thread_count = trace_thread_count(trace);
	chosen->threads = calloc((size_t)chosen->thread_count + 1, sizeof(*chosen->threads));
	if (!chosen->threads)
		return -ENOMEM;
	for (uint32_t i = 0; i < chosen->thread_count; i++) {
		const struct trace_thread *thread = trace_thread(trace, i);

		chosen->threads[i] = thread && name_is_chosen(chosen, thread->name);
		any |= chosen->threads[i];
	}
	if (!any)
		return calltap_diag_set(diag, -ENOENT,
					"no thread of the trace has a name that --thread matches: 'calltap report "
					"--by thread' lists them, and '*part*' matches a part of a name");
	return 0;
}

int chosen_settle(struct chosen *chosen, const struct trace *trace, struct calltap_diag *diag)
{
	int err = settle_functions(chosen, trace);

	if (!err)
		err = settle_threads(chosen, trace, diag);
	return err == -ENOMEM ? calltap_diag_set(diag, err, "not enough memory for the filters") : err;
}

const char *chosen_filter(const struct chosen *chosen, size_t i, unsigned long *matches)
{
	enum filter_kind kind;
	const char *text;

	return filter_set_item(chosen->filters, i, &text, &kind, matches) ? text : NULL;
}

const char *chosen_text(const struct chosen *chosen, size_t i)
{
	return chosen && i < chosen->text_count ? chosen->texts[i] : NULL;
}

bool chosen_has_trees(const struct chosen *chosen)
{
	return filter_set_has(chosen->filters, FILTER_GRAPH);
}

bool chosen_any_function(const struct chosen *chosen)
{
	return chosen->any_function;
}

unsigned chosen_judge(const struct chosen *chosen, uint32_t function)
{
	if (function >= TRACE_UNTRACED && function - TRACE_UNTRACED < chosen->untraced)
		return chosen->judged[chosen->functions + function - TRACE_UNTRACED];
	return function < chosen->functions ? chosen->judged[function] : 0;
}

bool chosen_judges(const struct chosen *chosen)
{
	return chosen && chosen->filtered;
}

bool chosen_has_thread(const struct chosen *chosen, uint32_t thread)
{
	return !chosen || !chosen->threads || (thread < chosen->thread_count && chosen->threads[thread]);
}
