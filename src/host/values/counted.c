/*
 * Values by which calls are counted, and nothing is recorded (values.h).  Context: host.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <calltap/abi/maps.h>
#include <host/sealed.h>
#include <host/target/target.h>

#include "bucket.h"
#include "counts.h"
#include "formats.h"
#include "values_impl.h"

/* Does a PATH begin at the result?  No argument's name is taken for that. */
static bool names_result(const struct spec *spec)
{
	for (uint32_t i = 0; i < spec->count; i++) {
		const char *path = spec->fields[i].path;

		if (path && !strncmp(path, "ret", 3) && (!path[3] || strchr("-.[", path[3])))
			return true;
	}
	return false;
}

/* Read what is known of a call, or else of its return.  "ret" alone is as its type says: -1 is no large number. */
static int parse(struct spec *spec, size_t *length, const char *text, bool *result, struct calltap_diag *diag)
{
	int ret = spec_parse(spec, length, text, false, diag);
	const char *what;

	*result = false;
	if (!ret && !names_result(spec))
		return 0;
	if (!ret)
		spec_clear(spec);
	if (spec_parse(spec, length, text, true, ret ? NULL : diag))
		return ret ? ret : -EINVAL;
	*result = true;
	what = text + *length + strspn(text + *length, ": ");
	if (strcmp(what, "ret") != 0 || spec->fields[0].path)
		return 0;
	spec->fields[0].path = strdup(what);
	return spec->fields[0].path ? 0 : calltap_diag_set(diag, -ENOMEM, "not enough memory");
}

int values_take_counted(struct entry *entry, const char *text, size_t *length, struct calltap_diag *diag)
{
	return parse(&entry->spec, length, text, &entry->result, diag);
}

enum fetch_part values_part(const struct values *values, const struct spec *spec, bool result)
{
	if (values_span(values)) /* at a call without a span of its own a return is waited for */
		return !spec->span ? FETCH_AWAIT : result ? FETCH_COUNT_RESULT : FETCH_COUNT;
	if (values->list[0].result)
		return result ? FETCH_COUNT_RESULT : FETCH_AWAIT;
	if (values->sum_is_result)
		return result ? FETCH_SUM_RESULT : FETCH_KEEP_KEY;
	return FETCH_COUNT;
}

static int make(struct values *values, enum fetch_part part, const struct spec *spec, uint16_t number,
		struct calltap_diag *diag)
{
	struct fetch *fetch = malloc(sizeof(*fetch));
	int ret;

	if (!fetch)
		return calltap_diag_set(diag, -ENOMEM, "not enough memory");
	fetch_compile_count(fetch, part, spec, values->code.cpu->registers, NULL, &values->buckets);
	ret = code_put(&values->code, number, 0, fetch, diag);
	free(fetch);
	return ret;
}

int values_make_summing(struct values *values, const struct spec *spec, uint16_t number, struct calltap_diag *diag)
{
	int ret = values_refuse_numbers(values, spec, diag);

	return ret ? ret : make(values, FETCH_SUM_RESULT, spec, number, diag);
}

int values_make_others(struct values *values, struct calltap_diag *diag)
{
	const struct entry *entry = &values->list[0];
	const struct spec none = {.count = 0};

	if (values_count_returns(values) && !values->sum_is_result) {
		values->awaiting = values->next++;
		return make(values, FETCH_AWAIT, &none, values->awaiting, diag);
	}
	if (!values->sum_is_result || !entry->number)
		return 0;
	values->summing = values->next++;
	return values_make_summing(values, &entry->spec, values->summing, diag);
}

void values_choose_other(const struct values *values, struct values_choice *choice)
{
	if (values->awaiting && choice->exit && !choice->entry)
		choice->entry = values->awaiting;
}

int values_join_sum(struct spec *spec, struct spec *sum)
{
	if (spec->count == SPEC_ROWS)
		return -E2BIG;
	spec->fields[spec->count] = sum->fields[0];
	spec->sums = true;
	*sum = (struct spec){.count = 0};
	return 0;
}

/* Read what is to be added up of the calls that the first entry names. */
static int take_sum(struct values *values, const char *sum, struct calltap_diag *diag)
{
	struct entry *entry = &values->list[0];
	char text[512];
	size_t length;
	bool result;
	int ret;

	if (values->buckets.kind)
		return calltap_diag_set(diag, -EINVAL, "a histogram has no sums; leave out --hist or --sum");
	if ((size_t)snprintf(text, sizeof(text), "%s: %s", entry->function, sum) >= sizeof(text))
		return calltap_diag_set(diag, -EINVAL, "'%s' is too long", sum);
	ret = parse(&values->sum, &length, text, &result, diag);
	if (ret)
		return ret;
	if (entry->result && !result) {
		spec_clear(&values->sum);
		return calltap_diag_set(diag, -EINVAL,
					"'%s' is known when a call begins, and '%s' when it returns: arguments are not "
					"added up by results",
					sum, entry->text);
	}
	values->sum_is_result = result && !entry->result;
	if (values->sum.count != 1 || entry->spec.count == SPEC_ROWS) {
		spec_clear(&values->sum);
		return calltap_diag_set(diag, -EINVAL, "'%s' is not one number; as in --sum size", sum);
	}
	/* All of it waits for what types tell of a part. */
	entry->follows |= spec_has_path(&values->sum);
	if (entry->follows)
		return 0;
	entry->spec.fields[entry->spec.count] = values->sum.fields[0]; /* a FETCH owns nothing */
	entry->spec.sums = true;
	return values_refuse_numbers(values, &entry->spec, diag);
}

/* Who refers to a slot by its number, in a stack or a sum, needs it to stay. */
static int keep_newest(struct values *values, struct calltap_diag *diag)
{
	const struct spec *spec = &values->list[0].spec;
	const char *what = values->sum.count ? "sums" : values->buckets.kind ? "a histogram" : NULL;

	for (uint32_t i = 0; i < spec->count && !what; i++)
		what = spec->fields[i].caller == SPEC_STACK ? "stacks" : NULL;
	if (what)
		return calltap_diag_set(diag, -EINVAL, "--keep newest is of counts alone, and not of %s; leave it out",
					what);
	values->newest = true;
	return 0;
}

bool values_count_returns(const struct values *values)
{
	bool some = values->sum_is_result;

	for (uint16_t i = 0; i < values->count; i++)
		some |= values->list[i].result;
	return some;
}

bool values_counted_at_return(const struct values *values, const char *function, size_t length)
{
	for (uint16_t i = 0; i < values->count; i++)
		if (strlen(values->list[i].function) == length && !memcmp(values->list[i].function, function, length))
			return values->list[i].result;
	for (uint16_t i = 0; i < values->count; i++)
		if (!values->list[i].result)
			return false;
	return true;
}

/* Measure from what the first entry names to what the text names. */
static int take_until(struct values *values, const struct values_counting *how, struct calltap_diag *diag)
{
	int ret = 0;

	if (how->sum || how->newest || values->buckets.kind)
		return calltap_diag_set(diag, -EINVAL,
					"times are measured with --until, and nothing else is counted; leave out %s",
					how->sum      ? "--sum"
					: how->newest ? "--keep"
						      : "--hist");
	ret = values_add(values, how->until, false, diag);
	values->buckets.kind = BUCKET_LOG2;
	for (uint16_t i = 0; !ret && i < values->count; i++) {
		struct entry *entry = &values->list[i];

		if (entry->spec.count != 1)
			return calltap_diag_set(diag, -EINVAL,
						"'%s' names no number, or several, by which a beginning finds its end; "
						"as in calltap count 'malloc: ret' --until 'free: ptr'",
						entry->text);
		entry->spec.span = i ? SPEC_ENDS : SPEC_BEGINS;
		if (!entry->follows)
			ret = values_refuse_numbers(values, &entry->spec, diag);
	}
	return ret;
}

int values_count(struct values *values, const struct values_counting *how, const char *functions[2],
		 struct calltap_diag *diag)
{
	void *memory;
	int ret = sealed_create("calltap-counts", sizeof(*values->counts), &values->counts_fd, &memory);

	if (ret)
		return calltap_diag_set(diag, ret, "there is no memory for counts: %s", strerror(-ret));
	values->counts = memory;
	values->buckets = how->buckets;
	functions[0] = functions[1] = NULL;
	ret = values_add(values, how->by, false, diag);
	if (!ret && how->until)
		ret = take_until(values, how, diag);
	if (!ret && values->buckets.kind && values->list[0].plain)
		ret = calltap_diag_set(diag, -EINVAL, "'%s' names no number for the histogram; as in 'malloc: size'",
				       how->by);
	if (!ret && how->sum)
		ret = take_sum(values, how->sum, diag);
	if (!ret && how->newest)
		ret = keep_newest(values, diag);
	for (uint16_t i = 0; !ret && i < values->count; i++)
		functions[i] = values->list[i].function;
	return ret;
}

void values_end(struct values *values, const struct target *target)
{
	if (values && values->counts && values_span(values))
		values->left_open += counts_end_spans(values->counts,
						      calltap_map_process(target->hello.pid, target->hello.image_id));
}

static uint32_t type_of_events(const struct values *values, uint32_t id)
{
	const struct calltap_program *list = (const struct calltap_program *)(values->memory + CALLTAP_PROGRAMS_AT);
	const struct calltap_program_row *rows = (const struct calltap_program_row *)values->memory;

	if (id >= CALLTAP_HANDLED_MAX)
		return 0;
	return list[values->list[0].result ? rows[id].exit : rows[id].entry].type;
}

/* Where events of the type have the number of a stack; 0: they have none. */
static uint32_t stack_place(const struct values *values, uint32_t type)
{
	for (uint16_t i = 0; type && i < values->program_count; i++) {
		const struct format *format = &values->programs[i];

		for (uint32_t k = 0; k < format->spec.count && format->type == type; k++)
			if (format->spec.fields[k].caller == SPEC_STACK)
				return format->places[k];
	}
	return 0;
}

static void take_stack(struct tallied *tallied, const struct values *values)
{
	uint32_t place = stack_place(values, tallied->type);

	if (!place || place + sizeof(tallied->stack) > tallied->size)
		return;
	tallied->has_stack = true;
	memcpy(&tallied->stack, (const char *)tallied->key + place, sizeof(tallied->stack));
}

int values_tallies(struct tallies *out, const struct values *values)
{
	int ret = counts_read(out, values->counts,
			      values->sum.count ? COUNTS_SUMS
			      : values->newest	? COUNTS_NEWEST
						: COUNTS_FIRST);

	if (values->buckets.kind)
		bucket_read(&out->ranges, values->counts, &values->buckets);
	if (values_span(values))
		counts_read_spans(&out->spans, values->counts);
	out->spans.open += values->left_open;
	for (size_t i = 0; i < out->count; i++) {
		out->list[i].type = type_of_events(values, (uint32_t)out->list[i].key[0]);
		take_stack(&out->list[i], values);
	}
	return ret;
}

/* Addresses are numbers, too, where nobody adds them up. */
static int refuse_span(const struct spec *spec, struct calltap_diag *diag)
{
	const struct spec_field *field = &spec->fields[0];

	if (bucket_suits(field) || field->type == SPEC_POINTER)
		return 0;
	return calltap_diag_set(diag, -EINVAL,
				"a beginning finds its end by a number, and '%s' is none; name one, or its place, as "
				"in 'strdup: ret:x64'",
				field->name);
}

int values_refuse_numbers(const struct values *values, const struct spec *spec, struct calltap_diag *diag)
{
	if (spec->sums && !bucket_suits(&spec->fields[spec->count]))
		return calltap_diag_set(diag, -EINVAL, "numbers are added up, and '%s' is none; leave out --sum",
					spec->fields[spec->count].name);
	if (spec->span)
		return refuse_span(spec, diag);
	if (!values->buckets.kind || !spec->count || (spec->count == 1 && bucket_suits(&spec->fields[0])))
		return 0;
	return calltap_diag_set(diag, -EINVAL, "a histogram is of one number, and '%s' is %s; leave out --hist",
				spec->fields[0].name, spec->count > 1 ? "not alone" : "none");
}

int values_refuse_key(const struct values *values, const struct spec *spec, const struct fetch *fetch,
		      struct calltap_diag *diag)
{
	uint32_t size = fetch->size - (fetch->faults ? 4 : 0), most = CALLTAP_MAP_KEY - 4;

	for (uint32_t i = 0; i < spec->count; i++)
		if (spec->fields[i].type == SPEC_STRING || spec->fields[i].type == SPEC_VIEW)
			size += spec->fields[i].size;
	if (!values->counts || size <= most)
		return 0;
	return calltap_diag_set(diag, -E2BIG,
				"calls are counted by %u bytes at the most, and these values take %u; give texts a "
				"bound, as in string[32]",
				most - FETCH_FIRST, size - FETCH_FIRST);
}
