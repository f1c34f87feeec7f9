/*
 * The lists of values and conditions, changed while targets run (values.h).
 *
 * Programs of new lists have numbers of their own, behind those of all lists before: so calls that are open run the
 * programs that were there, and nothing that targets may be running is written over.  Context: host, under the
 * session's lock.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <calltap/abi/program.h>
#include <host/setting.h>

#include "values.h"
#include "values_impl.h"

/* Lists as they were. */
struct values_before {
	struct entry *list;
	struct choice *choices;
	struct made *made;
	uint32_t made_count;
	uint16_t count, choice_count, base, first;
	bool has_all;
	uint8_t registers;
};

static const char *const keys[] = {"args", "result", "if", "only-if", "auto-args", "registers"};

#define LISTS 4u /* of these, the first ones, are of entries and conditions */

bool values_is_key(const char *key)
{
	for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++)
		if (!strcmp(keys[i], key))
			return true;
	return false;
}

static enum values_way way_of(const struct choice *choice)
{
	if (choice->otherwise[0] == CALLTAP_VERDICT_HIDE)
		return VALUES_ONLY_IF;
	return choice->otherwise[1] == CALLTAP_VERDICT_HIDE ? VALUES_TREE : VALUES_IF;
}

/* The key that adds an entry, or a condition; NULL: -g does. */
static const char *key_of_entry(const struct entry *entry)
{
	return entry->result ? "result" : "args";
}

static const char *key_of_choice(const struct choice *choice)
{
	static const char *const of_way[] = {[VALUES_IF] = "if", [VALUES_ONLY_IF] = "only-if", [VALUES_TREE] = NULL};

	return of_way[way_of(choice)];
}

/* Is what the key has added to be gone? */
static bool is_removed(const struct setting_change *changes, size_t count, const char *key)
{
	for (size_t i = 0; i < count && key; i++)
		if (!changes[i].append && !strcmp(changes[i].key, key))
			return true;
	return false;
}

static int keep_old(struct values *values, const struct values_before *before, const struct setting_change *changes,
		    size_t count, struct calltap_diag *diag)
{
	int ret = 0;

	for (uint16_t i = 0; i < before->count && !ret; i++)
		if (!is_removed(changes, count, key_of_entry(&before->list[i])))
			ret = values_add(values, before->list[i].text, before->list[i].result, diag);
	for (uint16_t i = 0; i < before->choice_count && !ret; i++)
		if (!is_removed(changes, count, key_of_choice(&before->choices[i])))
			ret = values_choose_by(values, before->choices[i].text, way_of(&before->choices[i]), diag);
	return ret;
}

static int take_one(struct values *values, const struct setting_change *change, struct calltap_diag *diag)
{
	const char *key = change->key, *value = change->value + strspn(change->value, " ");
	bool on = !strcmp(value, "on");

	if (!strcmp(key, "auto-args")) {
		if (change->append || (!on && strcmp(value, "off") != 0))
			return calltap_diag_set(diag, -EINVAL, "auto-args '%.100s' is not valid; it is on or off",
						value);
		values->has_all = false;
		if (on)
			values_add_all(values);
		return 0;
	}
	if (!strcmp(key, "registers"))
		return values_take_registers(values, value, change->append, diag);
	/* A list with nothing in it. */
	if (!*value && !change->append)
		return 0;
	if (!strcmp(key, "args") || !strcmp(key, "result"))
		return values_add(values, value, !strcmp(key, "result"), diag);
	return values_choose_by(values, value, !strcmp(key, "if") ? VALUES_IF : VALUES_ONLY_IF, diag);
}

static void clear_lists(struct entry *list, uint16_t count, struct choice *choices, uint16_t choice_count)
{
	for (uint16_t i = 0; i < count; i++)
		values_clear_entry(&list[i]);
	for (uint16_t i = 0; i < choice_count; i++)
		values_clear_choice(&choices[i]);
	free(list);
	free(choices);
}

int values_change(struct values *values, struct values_before **out, const struct setting_change *changes, size_t count,
		  struct calltap_diag *diag)
{
	struct values_before *before = malloc(sizeof(*before));
	int ret;

	*out = NULL;
	if (!before)
		return calltap_diag_set(diag, -ENOMEM, "not enough memory");
	*before = (struct values_before){values->list,	  values->choices,	values->made, values->made_count,
					 values->count,	  values->choice_count, values->base, values->first,
					 values->has_all, values->registers};
	values->list = NULL;
	values->choices = NULL;
	values->made = NULL;
	values->made_count = 0;
	values->count = values->choice_count = 0;
	values->base = values->next ? (uint16_t)(values->next - 1) : 0;
	ret = keep_old(values, before, changes, count, diag);
	for (size_t i = 0; i < count && !ret; i++)
		ret = take_one(values, &changes[i], diag);
	/* Each number is of 16 bits, and is not given again. */
	if (!ret && values->base > CALLTAP_PROGRAMS_MAX / 2)
		ret = calltap_diag_set(diag, -E2BIG, "this session has had too many values; start another one");
	if (!ret)
		ret = values_compile(values, diag);
	if (ret) {
		values_change_end(values, before, true);
		return ret;
	}
	*out = before;
	return 0;
}

void values_change_end(struct values *values, struct values_before *before, bool back)
{
	if (!before)
		return;
	if (back) {
		clear_lists(values->list, values->count, values->choices, values->choice_count);
		free(values->made);
		values->list = before->list;
		values->choices = before->choices;
		values->made = before->made;
		values->made_count = before->made_count;
		values->count = before->count;
		values->choice_count = before->choice_count;
		values->base = before->base;
		values->first = before->first;
		values->has_all = before->has_all;
		values->registers = before->registers;
	} else {
		clear_lists(before->list, before->count, before->choices, before->choice_count);
		free(before->made);
	}
	free(before);
}

bool values_counting(const struct values *values)
{
	return values->counts != NULL;
}

void values_come_late(struct values *values)
{
	values->late = true;
}

/* Each value is a line. */
static void print_line(const char *key, bool more, const char *text, FILE *stream)
{
	fprintf(stream, "%s%s=", key, more ? "+" : "");
	for (; *text; text++)
		fputc(*text == '\n' ? ' ' : *text, stream);
	fputc('\n', stream);
}

void values_print(const struct values *values, FILE *stream)
{
	for (size_t k = 0; k < LISTS; k++) {
		bool more = false;

		for (uint16_t i = 0; values && i < values->count; i++) {
			if (strcmp(key_of_entry(&values->list[i]), keys[k]) != 0)
				continue;
			print_line(keys[k], more, values->list[i].text, stream);
			more = true;
		}
		for (uint16_t i = 0; values && i < values->choice_count; i++) {
			const char *key = key_of_choice(&values->choices[i]);

			if (!key || strcmp(key, keys[k]) != 0)
				continue;
			print_line(keys[k], more, values->choices[i].text, stream);
			more = true;
		}
		if (!more)
			fprintf(stream, "%s=\n", keys[k]);
	}
	fprintf(stream, "auto-args=%s\n", values && values->has_all ? "on" : "off");
	values_print_registers(values, stream);
}
