/*
 * Conditions of triggers, and the memory in which targets are told of them
 * and answer (triggers.h).  What is done then is in trigger_actions.c.
 * Context: host.
 */
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <calltap/abi/control.h>
#include <calltap/abi/profile.h>
#include <host/elf/filter.h>
#include <host/sealed.h>
#include <host/session/session.h>

#include "triggers_impl.h"

#define GAP_NS	    1000000000u
#define TOLD_GAP_NS 1000000u /* between events of a function that are told at all */

int triggers_create(struct triggers **out)
{
	*out = calloc(1, sizeof(**out));
	if (!*out)
		return -ENOMEM;
	(*out)->fd = -1;
	(*out)->gap_ns = GAP_NS;
	pthread_mutex_init(&(*out)->lock, NULL);
	pthread_cond_init(&(*out)->wake, NULL);
	return 0;
}

void triggers_destroy(struct triggers *triggers)
{
	if (!triggers)
		return;
	for (size_t i = 0; i < triggers->count; i++) {
		filter_set_destroy(triggers->list[i].functions);
		free(triggers->list[i].text);
		free(triggers->list[i].command);
	}
	free(triggers->list);
	if (triggers->memory)
		munmap(triggers->memory, triggers->size);
	if (triggers->fd >= 0)
		close(triggers->fd);
	pthread_cond_destroy(&triggers->wake);
	pthread_mutex_destroy(&triggers->lock);
	free(triggers);
}

static int wrong(struct calltap_diag *diag, const char *text, const char *at, const char *why)
{
	calltap_diag_set(diag, -EINVAL, "trigger '%.200s': %s", text, why);
	if (strlen(text) < sizeof(diag->input)) {
		memcpy(diag->input, text, strlen(text) + 1);
		diag->column = (int)(at - text);
	}
	return -EINVAL;
}

static const char *skip_blanks(const char *text)
{
	return text + strspn(text, " \t");
}

/* COUNT in TIME */
static int parse_often(struct trigger *trigger, const char *at, struct calltap_diag *diag)
{
	char *end;
	unsigned long count = strtoul(at, &end, 10);
	const char *in = skip_blanks(end);

	if (!count || count > UINT32_MAX || strncmp(in, "in", 2) != 0 || !isspace((unsigned char)in[2]))
		return wrong(diag, trigger->text, at, "say how often in what time, such as '100 in 1s'");
	in = skip_blanks(in + 2);
	if (!setting_parse_time(in, &trigger->window_ns) || !trigger->window_ns)
		return wrong(diag, trigger->text, in, "this is no time such as 10ms or 1s");
	trigger->kind = CALLTAP_EVENT_OFTEN;
	trigger->often = (uint32_t)count;
	return 0;
}

static int parse_rest(struct trigger *trigger, const char *at, struct calltap_diag *diag)
{
	if (!*at || !strcmp(at, "entered")) {
		trigger->kind = CALLTAP_EVENT_ENTERED;
	} else if (!strcmp(at, "left")) {
		trigger->kind = CALLTAP_EVENT_LEFT;
	} else if (!strcmp(at, "threw")) {
		trigger->kind = CALLTAP_EVENT_THREW;
	} else if (*at == '>') {
		at = skip_blanks(at + 1);
		if (!setting_parse_time(at, &trigger->longer_ns) || !trigger->longer_ns)
			return wrong(diag, trigger->text, at, "this is no time such as 10ms or 1s");
		trigger->kind = CALLTAP_EVENT_LONGER;
	} else if (isdigit((unsigned char)*at)) {
		return parse_often(trigger, at, diag);
	} else {
		return wrong(diag, trigger->text, at,
			     "after the function comes 'entered', 'left', 'threw', '> TIME' or 'COUNT in TIME'");
	}
	return 0;
}

static int parse(struct trigger *trigger, struct calltap_diag *diag)
{
	const char *begin = skip_blanks(trigger->text), *end = begin + strcspn(begin, " \t>");
	char *function = strndup(begin, (size_t)(end - begin));
	int ret = function ? 0 : -ENOMEM;

	if (!ret && begin == end)
		ret = wrong(diag, trigger->text, begin, "it begins with the name of a function");
	if (!ret)
		ret = filter_set_add(trigger->functions, FILTER_TRACE, function, diag);
	free(function);
	return ret ? ret : parse_rest(trigger, skip_blanks(end), diag);
}

/* Cut "CONDITION => COMMAND" in two. */
static int split_command(struct trigger *trigger, struct calltap_diag *diag)
{
	char *arrow = strstr(trigger->text, "=>"), *end = arrow;

	if (!arrow || !*skip_blanks(arrow + 2))
		return wrong(diag, trigger->text, trigger->text + strlen(trigger->text),
			     "behind the condition comes '=> COMMAND'");
	trigger->command = strdup(skip_blanks(arrow + 2));
	while (end > trigger->text && isspace((unsigned char)end[-1]))
		end--;
	*end = 0;
	return trigger->command ? 0 : calltap_diag_set(diag, -ENOMEM, "not enough memory");
}

int triggers_add(struct triggers *triggers, enum trigger_action action, const char *text, struct calltap_diag *diag)
{
	struct trigger *list = reallocarray(triggers->list, triggers->count + 1, sizeof(*list)), *trigger;
	int ret = 0;

	if (!list)
		return calltap_diag_set(diag, -ENOMEM, "not enough memory");
	triggers->list = list;
	trigger = &list[triggers->count];
	*trigger = (struct trigger){.action = action, .text = strdup(text)};
	if (filter_set_create(&trigger->functions) || !trigger->text) {
		free(trigger->text);
		filter_set_destroy(trigger->functions);
		return calltap_diag_set(diag, -ENOMEM, "not enough memory");
	}
	triggers->count++;
	if (action == TRIGGER_RUN)
		ret = split_command(trigger, diag);
	return ret ? ret : parse(trigger, diag);
}

bool triggers_have(const struct triggers *triggers, enum trigger_action action)
{
	for (size_t i = 0; triggers && i < triggers->count; i++)
		if (triggers->list[i].action == action)
			return true;
	return false;
}

void triggers_set_rate(struct triggers *triggers, uint64_t gap_ns, uint32_t most)
{
	triggers->gap_ns = gap_ns;
	triggers->most = most;
}

void triggers_set_window(struct triggers *triggers, uint64_t after_ns, uint64_t history_ns)
{
	triggers->after_ns = after_ns;
	triggers->history_ns = history_ns;
}

bool trigger_names(const struct trigger *trigger, struct object *object, const struct object_site *site)
{
	struct filter_decision decision;

	filter_set_decide(trigger->functions, object, site, &decision);
	return decision.trace;
}

uint16_t triggers_flags(struct triggers *triggers, struct object *object, const struct object_site *site)
{
	uint16_t flags = 0;

	for (size_t i = 0; i < triggers->count; i++) {
		if (!trigger_names(&triggers->list[i], object, site))
			continue;
		flags |= CALLTAP_SITE_TRIGGER | CALLTAP_SITE_TIMED;
		/* The rest is asked by the recorders in C, which keep the depth together. */
		if (triggers->list[i].kind & (CALLTAP_EVENT_ENTERED | CALLTAP_EVENT_OFTEN | CALLTAP_EVENT_LEFT))
			flags |= CALLTAP_SITE_FULL_ENTRY | CALLTAP_SITE_FULL_EXIT;
	}
	return flags;
}

static uint64_t ticks_of(const struct triggers *triggers, uint64_t ns)
{
	uint64_t ticks = (uint64_t)((double)ns * triggers->ticks_per_ns);

	return ticks || !ns ? ticks : 1; /* 0 is none */
}

static uint64_t smaller(uint64_t now, uint64_t other)
{
	return !now || other < now ? other : now;
}

static struct calltap_limit *limit_of(const struct triggers *triggers, uint32_t id)
{
	return (void *)((char *)triggers->memory + calltap_triggers_at_limit(id));
}

bool trigger_is_counted(const struct triggers *triggers, const struct trigger *trigger, uint32_t id)
{
	const struct calltap_limit *limit = limit_of(triggers, id);

	return limit->often == trigger->often && limit->window == ticks_of(triggers, trigger->window_ns);
}

/* Several triggers of one function: the target tells what the least of them wants to know.  False: it cannot. */
static bool add_limit(const struct triggers *triggers, uint32_t id, const struct trigger *trigger)
{
	struct calltap_limit *limit = limit_of(triggers, id);

	if (trigger->kind == CALLTAP_EVENT_LONGER) {
		limit->ticks = smaller(limit->ticks, ticks_of(triggers, trigger->longer_ns));
		return true;
	}
	if (trigger->kind == CALLTAP_EVENT_OFTEN && limit->often)
		return trigger_is_counted(triggers, trigger, id);
	if (trigger->kind == CALLTAP_EVENT_OFTEN) {
		limit->window = ticks_of(triggers, trigger->window_ns);
		limit->often = trigger->often;
	}
	limit->kinds |= trigger->kind;
	return true;
}

void triggers_set_limits(struct triggers *triggers, uint32_t id, struct object *object, const struct object_site *site)
{
	if (!triggers->memory || id >= triggers->functions)
		return;
	for (size_t i = 0; i < triggers->count; i++)
		if (trigger_names(&triggers->list[i], object, site) && !add_limit(triggers, id, &triggers->list[i]))
			fprintf(stderr,
				"calltap: trigger '%s' is not for %s, whose calls another one counts otherwise\n",
				triggers->list[i].text, object_site_short_name(object, site));
}

const char *triggers_unmatched(const struct triggers *triggers)
{
	const char *text = NULL;

	for (size_t i = 0; triggers && i < triggers->count && !text; i++)
		text = filter_set_unmatched(triggers->list[i].functions);
	return text;
}

int triggers_begin(struct triggers *triggers, struct session *session, double ticks_per_ns, uint32_t functions)
{
	void *memory;
	int ret;

	triggers->session = session;
	triggers->ticks_per_ns = ticks_per_ns;
	triggers->size = calltap_triggers_at_event(functions, TRIGGER_SLOTS);
	ret = sealed_create("calltap-triggers", triggers->size, &triggers->fd, &memory);
	if (ret)
		return ret;
	triggers->memory = memory;
	triggers->memory->magic = CALLTAP_TRIGGERS_MAGIC;
	triggers->memory->functions = functions;
	triggers->memory->slots = TRIGGER_SLOTS;
	triggers->functions = functions;
	/* Who calls a function all the time does not flood the ring; the actions' own rate is kept here. */
	triggers->memory->min_gap = ticks_of(triggers, triggers->gap_ns < TOLD_GAP_NS ? triggers->gap_ns : TOLD_GAP_NS);
	return 0;
}

int triggers_memory(const struct triggers *triggers, uint64_t *size)
{
	*size = triggers->size;
	return triggers->fd;
}

static int earlier_call(const void *left, const void *right)
{
	const struct history_call *a = left, *b = right;

	return a->entry_ticks != b->entry_ticks ? (a->entry_ticks < b->entry_ticks ? -1 : 1) : 0;
}

static bool is_same(const struct history_call *a, const struct history_call *b)
{
	return a->process == b->process && a->tid == b->tid && a->function == b->function &&
	       a->entry_ticks == b->entry_ticks && a->exit_ticks == b->exit_ticks;
}

int triggers_calls(struct triggers *triggers, const struct history_call *wanted, struct history_call **out,
		   size_t *count)
{
	struct history_call *list;
	size_t known = 0;

	*out = NULL;
	*count = 0;
	if (!triggers && !wanted)
		return 0;
	list = calloc(TRIGGER_CALLS + 1, sizeof(*list));
	if (!list)
		return -ENOMEM;
	if (triggers) {
		pthread_mutex_lock(&triggers->lock);
		known = triggers->calls_seen < TRIGGER_CALLS ? triggers->calls_seen : TRIGGER_CALLS;
		memcpy(list, triggers->calls, known * sizeof(*list));
		pthread_mutex_unlock(&triggers->lock);
	}
	for (size_t i = 0; i < known; i++)
		if (!wanted || !is_same(&list[i], wanted))
			list[(*count)++] = list[i];
	if (wanted) {
		list[*count] = *wanted;
		list[(*count)++].wanted = true;
	}
	qsort(list, *count, sizeof(*list), earlier_call);
	*out = list;
	return 0;
}
