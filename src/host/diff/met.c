/*
 * Values of slow calls and of others; see met.h.  Context: host.
 */
#include <errno.h>
#include <search.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <host/text.h>

#include "met.h"

#define WORTH_CALLS 2	/* slow calls with the value, or all of them */
#define WORTH_TIMES 2.0 /* so much more frequent in slow calls */

struct telling {
	struct met *met;
	unsigned side;
	int error;
};

static int compare_values(const void *left, const void *right)
{
	return strcmp(((const struct met_value *)left)->text, ((const struct met_value *)right)->text);
}

static void take_value(void *ctx, const struct trace_value *value)
{
	struct telling *telling = ctx;
	struct met *met = telling->met;
	struct met_value like = {{0}, ""}, *made, **there;
	char clean[MET_TEXT];

	if (value->kind == TRACE_VALUE_NONE || telling->error)
		return;
	text_clean(clean, sizeof(clean), value->text);
	snprintf(like.text, sizeof(like.text), value->kind == TRACE_VALUE_TEXT ? "%.30s=\"%.44s\"" : "%.30s=%.46s",
		 value->name, clean);
	there = tfind(&like, &met->tree, compare_values);
	if (there) {
		(*there)->calls[telling->side]++;
		return;
	}
	if (met->count == MET_MAX) {
		met->beyond++;
		return;
	}
	if (!met->values)
		met->values = calloc(MET_MAX, sizeof(*met->values));
	made = malloc(sizeof(*made));
	if (!met->values || !made) {
		free(made);
		telling->error = -ENOMEM;
		return;
	}
	*made = like;
	made->calls[telling->side] = 1;
	met->values[met->count++] = made;
	if (!tsearch(made, &met->tree, compare_values))
		telling->error = -ENOMEM;
}

int met_add(struct met *met, unsigned side, const struct trace *trace, const struct trace_event *event)
{
	struct telling telling = {met, side, 0};

	met->events[side]++;
	trace_event_each_value(trace, event, take_value, &telling);
	return telling.error;
}

/* How much more often a slow call has the value than another call. */
static double lead_of(const struct met *met, const struct met_value *value)
{
	double of_slow = met->events[SIDE_B] ? (double)value->calls[SIDE_B] / (double)met->events[SIDE_B] : 0;
	double of_others = met->events[SIDE_A] ? (double)value->calls[SIDE_A] / (double)met->events[SIDE_A] : 0;

	return of_slow - of_others;
}

static bool is_worth(const struct met *met, const struct met_value *value)
{
	double of_slow = met->events[SIDE_B] ? (double)value->calls[SIDE_B] / (double)met->events[SIDE_B] : 0;

	return (value->calls[SIDE_B] >= WORTH_CALLS || value->calls[SIDE_B] == met->events[SIDE_B]) &&
	       value->calls[SIDE_B] && lead_of(met, value) > 0 &&
	       of_slow >= WORTH_TIMES * (of_slow - lead_of(met, value));
}

static int compare_leads(const void *left, const void *right, void *ctx)
{
	const struct met_value *a = *(struct met_value *const *)left, *b = *(struct met_value *const *)right;
	double x = lead_of(ctx, a), y = lead_of(ctx, b);

	return x > y ? -1 : x < y ? 1 : strcmp(a->text, b->text);
}

uint32_t met_sort(struct met *met)
{
	uint32_t worth = 0;

	for (uint32_t i = 0; i < met->count; i++) {
		struct met_value *value = met->values[i];

		if (!is_worth(met, value))
			continue;
		met->values[i] = met->values[worth];
		met->values[worth++] = value;
	}
	if (worth)
		qsort_r(met->values, worth, sizeof(struct met_value *), compare_leads, met);
	return worth;
}

static void keep(void *value)
{
	(void)value;
}

void met_clear(struct met *met)
{
	tdestroy(met->tree, keep);
	for (uint32_t i = 0; i < met->count; i++)
		free(met->values[i]);
	free(met->values);
	memset(met, 0, sizeof(*met));
}
