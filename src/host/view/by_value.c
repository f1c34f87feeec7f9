/*
 * Values of calls as rows of a report; see by_value.h.  Context: host.
 */
#include <errno.h>
#include <search.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "by_value.h"
#include "names.h"

bool by_value_is(const char *text)
{
	return strchr(text, '(') || strstr(text, ":=");
}

/* The parenthesis that the text's last character closes: a C++ function's name may have its parameters in front. */
static const char *last_open(const char *text)
{
	int depth = 0;

	for (size_t at = strlen(text); at-- > 0;) {
		depth += (text[at] == ')') - (text[at] == '(');
		if (!depth)
			return text[at] == '(' ? text + at : NULL;
	}
	return NULL;
}

int by_value_create(struct by_value **out, const char *text, struct calltap_diag *diag)
{
	const char *open = last_open(text), *equals = strstr(text, ":=");
	struct by_value *by = calloc(1, sizeof(*by));
	size_t length = strlen(text);

	*out = by;
	if (!by)
		return calltap_diag_set(diag, -ENOMEM, "not enough memory");
	by->result = equals && (!open || equals < open);
	if (by->result) {
		by->function = strndup(text, (size_t)(equals - text));
		by->name = strdup(equals[2] ? equals + 2 : "ret");
	} else if (open && open + 2 < text + length && text[length - 1] == ')') {
		by->function = strndup(text, (size_t)(open - text));
		by->name = strndup(open + 1, length - (size_t)(open - text) - 2);
	} else {
		return calltap_diag_set(diag, -EINVAL,
					"'%s' is no value for --by: give 'FUNCTION(ARGUMENT)' or 'FUNCTION:='", text);
	}
	if (!by->function || !by->name)
		return calltap_diag_set(diag, -ENOMEM, "not enough memory");
	return by->function[0] ? 0 : calltap_diag_set(diag, -EINVAL, "--by '%s' names no function", text);
}

static void keep(void *row)
{
	(void)row;
}

void by_value_destroy(struct by_value *by)
{
	if (!by)
		return;
	tdestroy(by->tree, keep);
	for (uint32_t i = 0; i < by->count; i++) {
		free(by->rows[i]->value);
		free(by->rows[i]->text);
		free(by->rows[i]);
	}
	free(by->rows);
	free(by->function);
	free(by->name);
	free(by);
}

static int compare_rows(const void *left, const void *right)
{
	const struct by_value_row *a = left, *b = right;

	return a->function != b->function ? (a->function > b->function) - (a->function < b->function)
					  : strcmp(a->value, b->value);
}

static char *text_of(const struct by_value *by, const char *function, const char *value)
{
	struct names_text all = {function, (uint32_t)strlen(function)};
	int length, bare = (int)names_without_parameters(all);
	char *text;

	if (!by->result)
		length = asprintf(&text, "%.*s(%s=%s)", bare, function, by->name, value);
	else if (strcmp(by->name, "ret") != 0)
		length = asprintf(&text, "%.*s() = (%s=%s)", bare, function, by->name, value);
	else
		length = asprintf(&text, "%.*s() = %s", bare, function, value);
	return length < 0 ? NULL : text;
}

static int add(struct by_value *by, const struct by_value_row *like, const char *function)
{
	struct by_value_row *row;

	if (by->count == by->room) {
		uint32_t room = by->room ? 2 * by->room : 64;
		struct by_value_row **rows = reallocarray(by->rows, room, sizeof(*rows));

		if (!rows)
			return -ENOMEM;
		by->rows = rows;
		by->room = room;
	}
	row = calloc(1, sizeof(*row));
	if (!row)
		return -ENOMEM;
	by->rows[by->count] = row;
	*row = (struct by_value_row){.function = like->function, .key = by->count++, .value = strdup(like->value)};
	row->text = text_of(by, function, like->value);
	return row->value && row->text && tsearch(row, &by->tree, compare_rows) ? 0 : -ENOMEM;
}

/* The row's key; it is made if there is none. */
static int find(uint32_t *key, struct by_value *by, uint32_t id, const char *value, const char *function)
{
	const struct by_value_row like = {.function = id, .value = (char *)value};
	struct by_value_row **there = tfind(&like, &by->tree, compare_rows);
	int ret = there ? 0 : add(by, &like, function);

	if (!ret)
		*key = there ? (*there)->key : by->count - 1;
	return ret;
}

int by_value_key(uint32_t *key, struct by_value *by, const struct trace *trace, const struct trace_event *event,
		 const char *function)
{
	enum trace_role wanted = by->result ? TRACE_RESULT : TRACE_ARGUMENTS;
	char text[TRACE_EVENT_TEXT];

	*key = BY_VALUE_NONE;
	if (trace_event_role(trace, event) != wanted || !trace_event_value(trace, event, by->name, text))
		return 0;
	by->told = true;
	return find(key, by, trace_event_function(trace, event), text, function);
}

int by_value_untold(uint32_t *key, struct by_value *by, uint32_t id, const char *function)
{
	return find(key, by, id, "?", function);
}
