/*
 * The list of an instance's triggers: their conditions, as text and as words between processes (triggers.h).
 *
 * Context: host.  The words come from a process of the same user, or of root.
 */
#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include <host/elf/filter.h>
#include <host/setting.h>

#include "triggers_impl.h"

#define GAP_NS	  1000000000u
#define WORD_WHEN "when"	/* value: the action's name, a blank, the condition */
#define WORD_GAP  "trigger-gap" /* ns */
#define WORD_MOST "trigger-max"

static const char *const action_names[TRIGGER_ACTIONS] = {
	[TRIGGER_SNAPSHOT] = "snapshot", [TRIGGER_START] = "start", [TRIGGER_STOP] = "stop",
	[TRIGGER_STACK] = "stack",	 [TRIGGER_RUN] = "run",
};

int triggers_create(struct triggers **out)
{
	*out = calloc(1, sizeof(**out));
	if (!*out)
		return -ENOMEM;
	(*out)->deeds = -1;
	(*out)->gap_ns = GAP_NS;
	pthread_mutex_init(&(*out)->lock, NULL);
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
	pthread_mutex_destroy(&triggers->lock);
	free(triggers);
}

static int refuse_condition(struct calltap_diag *diag, const char *text, const char *at, const char *why)
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
		return refuse_condition(diag, trigger->text, at, "say how often in what time, such as '100 in 1s'");
	in = skip_blanks(in + 2);
	if (!setting_parse_time(in, &trigger->window_ns) || !trigger->window_ns)
		return refuse_condition(diag, trigger->text, in, "this is no time such as 10ms or 1s");
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
			return refuse_condition(diag, trigger->text, at, "this is no time such as 10ms or 1s");
		trigger->kind = CALLTAP_EVENT_LONGER;
	} else if (isdigit((unsigned char)*at)) {
		return parse_often(trigger, at, diag);
	} else {
		return refuse_condition(diag, trigger->text, at,
					"after the function comes 'entered', 'left', 'threw', '> TIME', 'COUNT in "
					"TIME', or ': EXPR' of its values");
	}
	return 0;
}

/* The colon in front of an expression of values, NULL = there is none.  Other conditions have no colon and blank. */
static const char *find_expression(const char *begin)
{
	const char *colon = *begin == '/' ? strstr(begin, "/: ") : strstr(begin, ": ");

	return colon && *begin == '/' ? colon + 1 : colon;
}

/*
 * Read a trigger's condition, from its function on.  Of "FUNCTION: EXPR" the values room reads EXPR, when it knows the
 * functions' types.
 */
static int parse_condition(struct trigger *trigger, struct calltap_diag *diag)
{
	const char *begin = skip_blanks(trigger->text), *colon = find_expression(begin);
	const char *end = colon ? colon : begin + strcspn(begin, " \t>");
	char *function = strndup(begin, (size_t)(end - begin));
	int ret = function ? 0 : -ENOMEM;

	if (!ret && begin == end)
		ret = refuse_condition(diag, trigger->text, begin, "it begins with the name of a function");
	if (!ret)
		ret = filter_set_add(trigger->functions, FILTER_TRACE, function, diag);
	free(function);
	if (colon)
		trigger->kind = CALLTAP_EVENT_CHOSEN;
	return ret || colon ? ret : parse_rest(trigger, skip_blanks(end), diag);
}

/* Cut "CONDITION => COMMAND" in two. */
static int split_command(struct trigger *trigger, struct calltap_diag *diag)
{
	char *arrow = strstr(trigger->text, "=>"), *end = arrow;

	if (!arrow || !*skip_blanks(arrow + 2))
		return refuse_condition(diag, trigger->text, trigger->text + strlen(trigger->text),
					"behind the condition comes '=> COMMAND'");
	trigger->command = strdup(skip_blanks(arrow + 2));
	while (end > trigger->text && isspace((unsigned char)end[-1]))
		end--;
	*end = 0;
	return trigger->command ? 0 : calltap_diag_set(diag, -ENOMEM, "not enough memory");
}

/* Add a trigger; its text is "CONDITION => COMMAND" if with_command. */
static int add_trigger(struct triggers *triggers, enum trigger_action action, const char *text, bool with_command,
		       struct calltap_diag *diag)
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
	for (const struct trigger *other = list; other != trigger; other++)
		trigger->number += other->kind == CALLTAP_EVENT_CHOSEN;
	if (with_command)
		ret = split_command(trigger, diag);
	return ret ? ret : parse_condition(trigger, diag);
}

int triggers_add(struct triggers *triggers, enum trigger_action action, const char *text, struct calltap_diag *diag)
{
	return add_trigger(triggers, action, text, action == TRIGGER_RUN, diag);
}

const char *triggers_question(const struct triggers *triggers, uint32_t *number)
{
	const struct trigger *last = &triggers->list[triggers->count - 1];

	*number = last->number;
	return last->kind == CALLTAP_EVENT_CHOSEN ? last->text : NULL;
}

void triggers_print(const struct triggers *triggers, FILE *stream)
{
	for (size_t i = 0; i < triggers->count; i++) {
		fprintf(stream, WORD_WHEN "=%s ", action_names[triggers->list[i].action]);
		for (const char *c = triggers->list[i].text; *c; c++)
			fputc(*c == '\n' ? ' ' : *c, stream);
		fputc('\n', stream);
	}
	fprintf(stream, WORD_GAP "=%" PRIu64 "\n" WORD_MOST "=%" PRIu32 "\n", triggers->gap_ns, triggers->most);
}

bool triggers_has_key(const char *key)
{
	return !strcmp(key, WORD_WHEN) || !strcmp(key, WORD_GAP) || !strcmp(key, WORD_MOST);
}

static int take_condition(struct triggers *triggers, const char *value, struct calltap_diag *diag)
{
	size_t size = strcspn(value, " ");

	for (unsigned i = 0; i < TRIGGER_ACTIONS; i++)
		if (strlen(action_names[i]) == size && !strncmp(value, action_names[i], size) && value[size])
			return add_trigger(triggers, (enum trigger_action)i, value + size + 1, false, diag);
	return calltap_diag_set(diag, -EINVAL, "'%.100s' is no trigger: it begins with what is to be done", value);
}

int triggers_take(struct triggers **triggers, const char *key, const char *value, struct calltap_diag *diag)
{
	if (!*triggers && triggers_create(triggers))
		return calltap_diag_set(diag, -ENOMEM, "not enough memory");
	if (!strcmp(key, WORD_WHEN))
		return take_condition(*triggers, value, diag);
	if (!strcmp(key, WORD_GAP))
		(*triggers)->gap_ns = strtoull(value, NULL, 10);
	else
		(*triggers)->most = (uint32_t)strtoul(value, NULL, 10);
	return 0;
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

const char *triggers_unmatched(const struct triggers *triggers)
{
	const char *text = NULL;

	for (size_t i = 0; triggers && i < triggers->count && !text; i++)
		text = filter_set_unmatched(triggers->list[i].functions);
	return text;
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
