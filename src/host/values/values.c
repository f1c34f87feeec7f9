/*
 * The list of values, and the memory with their programs (values.h).  Context: host.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <calltap/abi/control.h>
#include <calltap/abi/maps.h>
#include <calltap/abi/program.h>
#include <host/elf/filter.h>
#include <host/sealed.h>
#include <host/session/session.h>

#include "bucket.h"
#include "code.h"
#include "condition.h"
#include "fetch.h"
#include "formats.h"
#include "spec.h"
#include "typed.h"
#include "values.h"
#include "values_impl.h"

#define CHOICES_MAX 4096

int values_create(struct values **out)
{
	*out = calloc(1, sizeof(**out));
	if (!*out)
		return -ENOMEM;
	(*out)->fd = (*out)->counts_fd = -1;
	return 0;
}

void values_clear_entry(struct entry *entry)
{
	filter_set_destroy(entry->filters);
	free(entry->text);
	free(entry->function);
	spec_clear(&entry->spec);
}

void values_clear_choice(struct choice *choice)
{
	filter_set_destroy(choice->filters);
	free(choice->function);
	free(choice->text);
}

void values_destroy(struct values *values)
{
	if (!values)
		return;
	for (uint16_t i = 0; i < values->count; i++)
		values_clear_entry(&values->list[i]);
	for (uint16_t i = 0; i < values->choice_count; i++)
		values_clear_choice(&values->choices[i]);
	for (uint32_t i = 0; i < values->ask_count; i++)
		values_clear_choice(&values->asks[i]);
	free(values->list);
	free(values->choices);
	for (uint16_t i = 0; i < values->program_count; i++)
		spec_clear(&values->programs[i].spec);
	free(values->programs);
	free(values->made);
	spec_clear(&values->sum);
	typed_destroy(values->typed);
	if (values->memory)
		munmap(values->memory, CALLTAP_PROGRAMS_SIZE);
	if (values->counts)
		munmap(values->counts, sizeof(*values->counts));
	if (values->fd >= 0)
		close(values->fd);
	if (values->counts_fd >= 0)
		close(values->counts_fd);
	free(values);
}

static int fill_entry(struct entry *entry, const char *text, bool result, bool counts, struct calltap_diag *diag)
{
	size_t length = strlen(text);
	int ret = 0;

	*entry = (struct entry){.result = result};
	if (!spec_is_function(text))
		ret = counts ? values_take_counted(entry, text, &length, diag)
			     : spec_parse(&entry->spec, &length, text, result, diag);
	for (uint32_t i = 0; !ret && !counts && i < entry->spec.count; i++)
		if (entry->spec.fields[i].caller == SPEC_STACK)
			ret = calltap_diag_set(
				diag, -EINVAL,
				"'%s': calls are counted by their stacks, and not shown with them; as in "
				"calltap count 'malloc: $stack'",
				text);
	if (ret)
		return ret;
	entry->plain = counts && !entry->spec.count;
	entry->follows = spec_has_path(&entry->spec);
	entry->function = strndup(text, length);
	entry->text = strdup(text);
	if (!entry->function || !entry->text || filter_set_create(&entry->filters))
		return calltap_diag_set(diag, -ENOMEM, "not enough memory");
	return filter_set_add(entry->filters, FILTER_TRACE, entry->function, diag);
}

int values_add(struct values *values, const char *text, bool result, struct calltap_diag *diag)
{
	struct entry *list = reallocarray(values->list, values->count + 1u, sizeof(*list));
	int ret;

	if (list)
		values->list = list;
	if (!list || values->count == UINT16_MAX - CALLTAP_EVENT_VALUES)
		return calltap_diag_set(diag, -ENOMEM, "not enough memory");
	ret = fill_entry(&list[values->count], text, result, values->counts != NULL, diag);
	if (ret)
		values_clear_entry(&list[values->count]);
	else
		values->count++;
	return ret;
}

int values_choose_by(struct values *values, const char *text, enum values_way way, struct calltap_diag *diag)
{
	static const struct choice by_way[] = {
		[VALUES_IF] = {.otherwise = {CALLTAP_VERDICT_LEAVE_OUT, CALLTAP_VERDICT_LEAVE_OUT}},
		[VALUES_ONLY_IF] = {.otherwise = {CALLTAP_VERDICT_HIDE, CALLTAP_VERDICT_HIDE}},
		[VALUES_TREE] = {.otherwise = {CALLTAP_VERDICT_LEAVE_OUT, CALLTAP_VERDICT_HIDE}},
	};
	struct choice *list = reallocarray(values->choices, values->choice_count + 1u, sizeof(*list));
	struct choice *choice;

	if (list)
		values->choices = list;
	if (!list || values->choice_count == CHOICES_MAX)
		return calltap_diag_set(diag, -ENOMEM, "there are too many conditions");
	choice = &list[values->choice_count];
	*choice = by_way[way];
	choice->text = strdup(text);
	if (!choice->text)
		return calltap_diag_set(diag, -ENOMEM, "not enough memory");
	values->choice_count++;
	return 0;
}

int values_ask(struct values *values, const char *text, uint32_t number, struct calltap_diag *diag)
{
	struct choice *ask = &values->asks[values->ask_count];

	if (values->ask_count == VALUES_ASKS || number >= VALUES_ASKS)
		return calltap_diag_set(diag, -E2BIG, "there are more than %u triggers with values", VALUES_ASKS);
	*ask = (struct choice){.number = number};
	ask->text = strdup(text);
	if (!ask->text)
		return calltap_diag_set(diag, -ENOMEM, "not enough memory");
	values->ask_count++;
	return 0;
}

bool values_hide(const struct values *values)
{
	for (uint16_t i = 0; values && i < values->choice_count; i++)
		if (values->choices[i].otherwise[0] == CALLTAP_VERDICT_HIDE)
			return true;
	return false;
}

bool values_tell(const struct values *values)
{
	return values && (values->count || values->has_all || values->registers);
}

bool values_any(const struct values *values)
{
	return values_tell(values) || (values && (values->choice_count || values->ask_count));
}

/* Does the spec name a value of the function's own, and not just who calls? */
static bool names_some(const struct spec *spec)
{
	for (uint32_t i = 0; i < spec->count; i++)
		if (!spec->fields[i].caller)
			return true;
	return false;
}

/* The values of calls, or of returns, that an entry names for just this text. */
static const struct spec *names_of(const void *arg, const char *function, size_t length, bool result)
{
	const struct values *values = arg;

	for (uint16_t i = 0; i < values->count; i++) {
		const struct entry *entry = &values->list[i];

		if (entry->result == result && strlen(entry->function) == length &&
		    !strncmp(entry->function, function, length))
			return names_some(&entry->spec) && !entry->follows ? &entry->spec : &condition_later;
	}
	return &condition_later;
}

static int read_text(const struct values *values, struct choice *choice, struct calltap_diag *diag)
{
	size_t length;
	int ret = condition_parse(&choice->condition, &length, choice->text, names_of, values, diag);

	if (ret)
		return ret;
	if (values->counts && condition_uses(&choice->condition) & CONDITION_AT_RETURN &&
	    !values_counted_at_return(values, choice->text, length))
		return calltap_diag_set(diag, -EINVAL,
					"condition '%.200s': calls are counted when they begin, and nobody knows the "
					"result then; count by results, as in '%.*s: ret'",
					choice->text, (int)length, choice->text);
	choice->function = strndup(choice->text, length);
	if (!choice->function || filter_set_create(&choice->filters))
		return calltap_diag_set(diag, -ENOMEM, "not enough memory");
	return filter_set_add(choice->filters, FILTER_TRACE, choice->function, diag);
}

static int read_choice(const struct values *values, struct choice *choice, struct calltap_diag *diag)
{
	int ret = read_text(values, choice, diag);

	for (const struct choice *other = values->choices; other != choice && !ret; other++)
		if (!strcmp(other->function, choice->function))
			ret = calltap_diag_set(diag, -EINVAL, "'%s' has two conditions; join them by && or || in one",
					       choice->function);
	return ret;
}

/* What is known at the call is gone at the return, and a call keeps arguments for its own condition alone. */
static const char *refusal_of(const struct condition *condition)
{
	return condition_uses(condition) == (CONDITION_AT_CALL | CONDITION_AT_RETURN)
		       ? "what a trigger waits for is about arguments or about the result, and not about both"
		       : NULL;
}

static int read_ask(const struct values *values, struct choice *ask, struct calltap_diag *diag)
{
	int ret = read_text(values, ask, diag);
	/* What waits is looked at when types tell what its names are. */
	const char *why = ret || ask->condition.waits ? NULL : refusal_of(&ask->condition);

	return why ? calltap_diag_set(diag, -EINVAL, "condition '%.200s': %s", ask->text, why) : ret;
}

/*
 * Programs with a condition have numbers behind the others: for each condition the program of a call without values,
 * then with those of each entry, at the call or at the return, as it says; then that of a return without values.
 * entry: 1 + its place in the list, or 0.
 */
static uint16_t number_of(const struct values *values, uint16_t choice, uint16_t entry)
{
	return (uint16_t)(values->base + 1u + values->count + choice * (values->count + 2u) + entry);
}

/* 1 + the place of the entry whose own program has the number; 0 = there is none. */
static uint16_t entry_of(const struct values *values, uint16_t number)
{
	return number > values->base && number <= values->base + values->count ? (uint16_t)(number - values->base) : 0;
}

void values_add_all(struct values *values)
{
	values->has_all = true;
	values->all[1].result = true;
}

/* choice NULL: there is no condition in front. */
static void compile(const struct values *values, struct fetch *fetch, const struct spec *spec,
		    const struct choice *choice, bool result, const struct fetch_ask *asks, uint32_t ask_count)
{
	uint32_t registers = values->code.cpu->registers;

	if (values->counts)
		fetch_compile_count(fetch, values_part(values, spec, result), spec, registers,
				    choice ? &choice->condition : NULL, &values->buckets);
	else
		fetch_compile_asking(fetch, spec->count ? spec : NULL, registers, choice ? &choice->condition : NULL,
				     choice ? choice->otherwise[result] : CALLTAP_VERDICT_RECORD, result, asks,
				     ask_count);
}

/*
 * Compile a program for the spec, which is the program's from then on; choice: in front of it, a condition that is
 * false where it says otherwise, NULL = none.
 */
static int make_program_asking(struct values *values, const struct spec *spec, bool result, uint16_t number,
			       const struct choice *choice, const struct fetch_ask *asks, uint32_t ask_count,
			       struct calltap_diag *diag)
{
	struct format *programs = reallocarray(values->programs, values->program_count + 1u, sizeof(*programs));
	struct fetch *fetch = malloc(sizeof(*fetch));
	uint32_t type = spec->count ? CALLTAP_EVENT_VALUES + number - 1u : 0;
	int ret = -ENOMEM;

	if (programs)
		values->programs = programs;
	if (programs && fetch && number <= UINT16_MAX - CALLTAP_EVENT_VALUES) {
		ret = values_refuse_numbers(values, spec, diag);
		if (!ret)
			compile(values, fetch, spec, choice, result, asks, ask_count);
		if (!ret)
			ret = values_refuse_key(values, spec, fetch, diag);
		if (!ret)
			ret = code_put(&values->code, number, type, fetch, diag);
	}
	if (!ret && spec->count) {
		struct format *format = &programs[values->program_count++];

		*format = (struct format){.spec = *spec,
					  .faults = fetch->faults,
					  .result = result,
					  .number = number,
					  .type = type,
					  .chosen = choice || ask_count};
		memcpy(format->places, fetch->places, sizeof(format->places));
		if (values->buckets.kind)
			bucket_change(&format->spec, &values->buckets);
	}
	free(fetch);
	return ret;
}

static int make_program_if(struct values *values, const struct spec *spec, bool result, uint16_t number,
			   const struct choice *choice, struct calltap_diag *diag)
{
	return make_program_asking(values, spec, result, number, choice, NULL, 0, diag);
}

static int make_program(struct values *values, const struct spec *spec, bool result, uint16_t number,
			struct calltap_diag *diag)
{
	return make_program_if(values, spec, result, number, NULL, diag);
}

/* Compile a condition, alone and in front of the values of each entry. */
static int make_choice(struct values *values, uint16_t number, struct fetch *fetch, struct calltap_diag *diag)
{
	const struct choice *choice = &values->choices[number];
	const struct spec none = {.count = 0};
	int ret = 0;

	for (uint16_t i = 0; i <= values->count + 1 && !ret; i++) {
		const struct entry *entry = i && i <= values->count ? &values->list[i - 1] : NULL;
		bool result = entry ? entry->result : i != 0;

		if ((entry && !entry->number) || !values_decides(&choice->condition, result))
			continue;
		compile(values, fetch, entry ? &entry->spec : &none, choice, result, NULL, 0);
		ret = code_put(&values->code, number_of(values, number, i),
			       entry && entry->spec.count ? CALLTAP_EVENT_VALUES + values->base + i - 1u : 0, fetch,
			       diag);
	}
	if (ret == -E2BIG && diag)
		(void)calltap_diag_set(diag, ret, "condition '%.200s': it is too complex", choice->text);
	return ret;
}

static int make_choices(struct values *values, struct calltap_diag *diag)
{
	struct fetch *fetch = malloc(sizeof(*fetch));
	int ret = 0;

	if (!fetch)
		return calltap_diag_set(diag, -ENOMEM, "not enough memory");
	if (values->base + values->choice_count * (values->count + 2u) + values->count > CALLTAP_PROGRAMS_MAX - 1)
		ret = calltap_diag_set(diag, -E2BIG,
				       "there are more values and conditions than programs have room for");
	for (uint16_t i = 0; i < values->choice_count && !ret; i++) {
		ret = read_choice(values, &values->choices[i], diag);
		if (!ret && !values->choices[i].condition.waits)
			ret = make_choice(values, i, fetch, diag);
	}
	free(fetch);
	return ret;
}

/* Targets get a descriptor that cannot write. */
static int make_memory(struct values *values)
{
	char path[32];
	void *memory;
	int fd, ret = sealed_create("calltap-programs", CALLTAP_PROGRAMS_SIZE, &fd, &memory);

	if (ret)
		return ret;
	values->memory = memory;
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	values->fd = open(path, O_RDONLY | O_CLOEXEC);
	ret = values->fd < 0 ? -errno : 0;
	close(fd);
	return ret;
}

/* What the SPEC says has to be what the program's CPU has. */
static int check_cpu(const struct spec *spec, const struct code_cpu *cpu, struct calltap_diag *diag)
{
	for (uint32_t i = 0; i < spec->count; i++) {
		const struct spec_field *field = &spec->fields[i];

		if (field->vectors && strcmp(field->vectors, cpu->vectors) != 0)
			return calltap_diag_set(diag, -EINVAL,
						"%%%s%u: the program's CPU has no such register; its floating-point "
						"arguments are %%%s0 to %%%s7",
						field->vectors, field->vector - 1u, cpu->vectors, cpu->vectors);
		if (field->type == SPEC_FLOAT && !field->offset_count && field->argument &&
		    field->argument <= cpu->registers)
			return calltap_diag_set(diag, -EINVAL,
						"arg%u is an integer on the program's CPU; its floating-point "
						"arguments are %%%s0 to %%%s7",
						field->argument, cpu->vectors, cpu->vectors);
	}
	return 0;
}

int values_begin(struct values *values, uint16_t machine, const char *agent_path, struct calltap_diag *diag)
{
	const struct code_cpu *cpu = code_cpu_find(machine);
	int ret = cpu ? make_memory(values) : -ENOTSUP;

	if (!ret)
		ret = typed_create(&values->typed, agent_path, cpu->registers);
	if (ret)
		return calltap_diag_set(diag, ret, "there is no memory for values: %s", strerror(-ret));
	code_begin(&values->code, values->memory, cpu);
	ret = values_compile(values, diag);
	for (uint32_t i = 0; i < values->ask_count && !ret; i++)
		ret = read_ask(values, &values->asks[i], diag);
	return ret;
}

int values_compile(struct values *values, struct calltap_diag *diag)
{
	int ret = 0;

	for (uint16_t i = 0; i < values->count && !ret; i++) {
		struct entry *entry = &values->list[i];

		entry->number =
			(entry->spec.count || entry->plain) && !entry->follows ? (uint16_t)(values->base + i + 1) : 0;
		ret = check_cpu(&entry->spec, values->code.cpu, diag);
		if (entry->number && !ret)
			ret = make_program(values, &entry->spec, entry->result, entry->number, diag);
	}
	values->first = values->next = number_of(values, values->choice_count, 0);
	if (values->counts && !ret)
		ret = values_make_others(values, diag);
	return ret ? ret : make_choices(values, diag);
}

/* The program that fetches the same, 0 = there is none. */
static uint16_t find_program(const struct values *values, const struct spec *spec, bool result)
{
	for (uint16_t i = values->program_count; i > 0; i--)
		if (values->programs[i - 1].result == result && !values->programs[i - 1].chosen &&
		    spec_equal(&values->programs[i - 1].spec, spec))
			return values->programs[i - 1].number;
	return 0;
}

/* As make_program(), and behind it the one of returns that adds up. */
static int make_programs(struct values *values, const struct spec *spec, bool result, uint16_t number,
			 struct calltap_diag *diag)
{
	int ret = values->sum_is_result ? values_make_summing(values, spec, (uint16_t)(number + 1), diag) : 0;

	return ret ? ret : make_program(values, spec, result, number, diag);
}

uint16_t values_program(struct values *values, struct spec *spec, bool result)
{
	uint16_t number = spec->count ? find_program(values, spec, result) : TYPED_NONE;
	int ret;

	if (number || !spec->count)
		return number;
	ret = make_program(values, spec, result, values->next, NULL);
	values->full |= ret == -E2BIG || ret == -ENOMEM;
	if (ret)
		return TYPED_NONE;
	*spec = (struct spec){0}; /* it is the format's */
	return values->next++;
}

static bool tells(const struct spec *spec)
{
	return spec->count || spec->sums;
}

/* Make the program of what a function's types tell, or find it: its number, or TYPED_NONE. */
static uint16_t program_by_types(struct values *values, struct entry *entry, const struct image *image,
				 const struct object_site *source)
{
	struct calltap_diag diag = {0};
	struct spec spec;
	uint16_t number = TYPED_NONE;
	int ret = values_told(&spec, values, entry, image, source);

	if (!ret && spec.count)
		number = find_program(values, &spec, entry->result);
	if (!ret && tells(&spec) && !number)
		ret = make_programs(values, &spec, entry->result, values->next, &diag);
	if (!ret && tells(&spec) && !number) {
		if (spec.count) /* it is the format's */
			spec = (struct spec){0};
		number = values->next;
		values->next = (uint16_t)(values->next + 1 + values->sum_is_result);
	}
	values->full |= ret == -E2BIG || ret == -ENOMEM;
	if (ret && diag.text[0] && !values->refused[0])
		snprintf(values->refused, sizeof(values->refused), "%s", diag.text);
	spec_clear(&spec);
	return number;
}

static void note_unknown(struct values *values, struct entry *entry, const struct image *image,
			 const struct object_site *source)
{
	const char *slash = strrchr(image->path, '/'), *split = typed_split(values->typed, image);

	if (entry->unknown[0])
		return;
	snprintf(entry->unknown, sizeof(entry->unknown), "%s", object_site_short_name(image->object, source));
	snprintf(entry->object, sizeof(entry->object), "%s", slash ? slash + 1 : image->path);
	snprintf(entry->split, sizeof(entry->split), "%s", split ? split : "");
}

static uint16_t number_by_types(struct values *values, struct entry *entry, const struct image *image,
				const struct object_site *source)
{
	uint16_t *number = typed_number(values->typed, image, source, entry->result ? TYPED_RETURN : TYPED_CALL);

	if (!number) {
		note_unknown(values, entry, image, source);
		return 0;
	}
	entry->known = true;
	/* What is kept for the function is what all that its types tell takes. */
	if (entry->follows)
		return program_by_types(values, entry, image, source);
	if (*number == TYPED_UNSET)
		*number = program_by_types(values, entry, image, source);
	return *number;
}

/* The program for functions of which nobody knows whether the condition is true: no call is recorded. */
static uint16_t program_never(struct values *values, struct choice *choice)
{
	const struct choice never = {.otherwise = {choice->otherwise[0]},
				     .condition = {.node_count = 1}}; /* the number 0 */
	const struct spec none = {.count = 0};

	if (!choice->never && !make_program_if(values, &none, false, values->next, &never, NULL))
		choice->never = values->next++;
	return choice->never;
}

static void choose(struct values *values, struct values_choice *choice, struct entry *entry, const struct image *image,
		   const struct object_site *source)
{
	uint16_t *number = entry->result ? &choice->exit : &choice->entry;

	/* A function begins spans or ends them, as the first entry says that names it. */
	if (values_span(values) && (choice->entry || choice->exit))
		return;
	if (!*number)
		*number = entry->number ? entry->number : number_by_types(values, entry, image, source);
	/* Without a program its calls would be recorded. */
	if (!*number && values->counts)
		choice->entry = program_never(values, &values->uncounted);
	else if (values->sum_is_result)
		choice->exit = entry_of(values, *number) ? values->summing : (uint16_t)(*number + 1);
}

/* What a function's types tell, for conditions. */
struct told {
	const struct values *values;
	struct spec specs[2]; /* of calls, of returns */
};

/* Names that entries give to values of this text's functions are all that there are. */
static const struct spec *names_told(const void *arg, const char *function, size_t length, bool result)
{
	const struct told *told = arg;
	const struct spec *names = names_of(told->values, function, length, result);

	return names == &condition_later ? &told->specs[result] : names;
}

/* No types tell what the condition is about: no call is recorded. */
static void note_unread(struct values *values, struct choice *choice, const struct image *image,
			const struct object_site *source, const char *why)
{
	const char *slash = strrchr(image->path, '/'), *split = typed_split(values->typed, image);

	if (choice->why[0])
		return;
	if (why)
		snprintf(choice->why, sizeof(choice->why), "%s", why);
	else if (split)
		snprintf(choice->why, sizeof(choice->why),
			 "condition '%.200s': it names values, and debug information that tells them is in files of "
			 "its own "
			 "(-gsplit-dwarf), as %.100s, which are not read; build without that, or say them, as arg1:s32 "
			 "and ret:s32",
			 choice->text, split);
	else
		snprintf(choice->why, sizeof(choice->why),
			 "condition '%.200s': it names values, and %.100s has no debug information of '%.100s' that "
			 "would tell them; build with -g, or say them, as arg1:s32 and ret:s32",
			 choice->text, slash ? slash + 1 : image->path, object_site_short_name(image->object, source));
}

/* The condition as the function's types have it; false: they do not tell all that it names. */
static bool read_told(struct values *values, struct choice *read, struct choice *choice, const struct image *image,
		      const struct object_site *source)
{
	struct told told = {.values = values};
	struct calltap_diag diag = {0};
	char why[TYPED_WHY];
	size_t length;
	int ret;

	*read = (struct choice){.otherwise = {choice->otherwise[0], choice->otherwise[1]}};
	ret = values_tell_condition(told.specs, values, choice->text, image, source, why);
	if (!ret)
		ret = condition_parse(&read->condition, &length, choice->text, names_told, &told, &diag);
	spec_clear(&told.specs[0]);
	spec_clear(&told.specs[1]);
	if (ret == -EINVAL && why[0])
		(void)calltap_diag_set(&diag, ret, "condition '%.200s': %s", choice->text, why);
	if (ret)
		note_unread(values, choice, image, source, diag.text[0] ? diag.text : NULL);
	return !ret;
}

/* What is shown of the function's calls, or of its returns, by the program with that number, as a copy. */
static int spec_of_entry(struct spec *out, struct values *values, uint16_t entry, const struct image *image,
			 const struct object_site *source)
{
	const struct spec *spec = NULL;

	*out = (struct spec){0};
	if (entry_of(values, entry))
		return spec_copy(out, &values->list[entry_of(values, entry) - 1].spec);
	for (uint16_t i = 0; entry && i < values->program_count && !spec; i++)
		if (values->programs[i].number == entry)
			spec = &values->programs[i].spec;
	/* A program that counts in buckets has another format. */
	if (entry && values->counts)
		return values_told(out, values, &values->list[spec && spec->span == SPEC_ENDS], image, source);
	return spec ? spec_copy(out, spec) : 0;
}

#define NO_PROGRAM UINT16_MAX

/*
 * Make the program of a condition with what is shown of the function's calls, or of its returns (entry: the program
 * without the condition), of which types tell either.  NO_PROGRAM: that cannot be.
 */
static uint16_t program_if(struct values *values, struct choice *choice, uint16_t entry, const struct image *image,
			   const struct object_site *source, bool result)
{
	struct choice read = {.otherwise = {choice->otherwise[0], choice->otherwise[1]},
			      .condition = choice->condition};
	uint16_t number = values->next;
	struct spec spec;
	int ret;

	if (choice->condition.waits && !read_told(values, &read, choice, image, source))
		return NO_PROGRAM;
	choice->known = true;
	if (!values_decides(&read.condition, result))
		return entry;
	ret = spec_of_entry(&spec, values, entry, image, source);
	if (!ret)
		ret = make_program_if(values, &spec, result, number, &read, NULL);
	if (ret || !spec.count) /* else it is the format's */
		spec_clear(&spec);
	if (!ret) {
		values->next++;
		return number;
	}
	values->full |= ret == -E2BIG || ret == -ENOMEM;
	return NO_PROGRAM;
}

/*
 * A number that is kept for a function is of the condition and the entry that named it last: several may name what has
 * one prototype, by the objects that call it.
 */
static bool is_made_of(const struct values *values, uint16_t number, uint16_t condition, uint16_t entry)
{
	uint32_t i = (uint32_t)number - values->first;

	return number != TYPED_UNSET && number >= values->first && i < values->made_count &&
	       values->made[i].condition == condition && values->made[i].entry == entry;
}

/* Without memory nothing is noted, and the program made again. */
static void note_made(struct values *values, uint16_t number, uint16_t condition, uint16_t entry)
{
	uint32_t i = (uint32_t)number - values->first;
	struct made *made;

	if (number < values->first)
		return;
	if (i >= values->made_count) {
		made = reallocarray(values->made, i + 1, sizeof(*made));
		if (!made)
			return;
		/* Of a program that was made without a condition no function asks here. */
		memset(made + values->made_count, 0xff, (i + 1 - values->made_count) * sizeof(*made));
		values->made = made;
		values->made_count = i + 1;
	}
	values->made[i] = (struct made){condition, entry};
}

/* The program of a function's calls, or returns, with a condition; entry: the one without.  NO_PROGRAM as above. */
static uint16_t number_if(struct values *values, uint16_t condition, uint16_t entry, const struct image *image,
			  const struct object_site *source, bool result)
{
	struct choice *choice = &values->choices[condition];
	uint16_t *number =
		typed_number(values->typed, image, source, result ? TYPED_CONDITION_RETURN : TYPED_CONDITION);
	uint16_t made;

	if (!number) {
		note_unread(values, choice, image, source, NULL);
		return NO_PROGRAM;
	}
	if (is_made_of(values, *number, condition, entry))
		return *number;
	made = program_if(values, choice, entry, image, source, result);
	if (made == NO_PROGRAM)
		return made;
	number = typed_number(values->typed, image, source, result ? TYPED_CONDITION_RETURN : TYPED_CONDITION);
	if (number)
		*number = made;
	note_made(values, made, condition, entry);
	return made;
}

/* Put a condition in front of what the function's calls and returns tell. */
static void put_condition(struct values *values, struct values_choice *choice, uint16_t condition,
			  const struct image *image, const struct object_site *source)
{
	const struct condition *about = &values->choices[condition].condition;
	uint16_t entry = choice->entry, exit = choice->exit;
	uint16_t of_entry = entry_of(values, entry), of_exit = entry_of(values, exit);

	if (!about->waits && !entry == !of_entry && (!exit == !of_exit || exit == values->summing)) {
		if (values_decides(about, false))
			choice->entry = number_of(values, condition, of_entry);
		if (values_decides(about, true))
			choice->exit = number_of(values, condition, exit ? of_exit : values->count + 1);
		return;
	}
	choice->exit = number_if(values, condition, exit, image, source, true);
	choice->entry =
		choice->exit == NO_PROGRAM ? NO_PROGRAM : number_if(values, condition, entry, image, source, false);
	if (choice->entry != NO_PROGRAM)
		return;
	choice->entry = program_never(values, &values->choices[condition]);
	choice->exit = 0;
}

/* What is asked about a function, as its types have it. */
struct asked {
	struct choice condition; /* in front of what it tells; has_condition */
	bool has_condition;
	struct choice reads[VALUES_ASKS];
	uint32_t count;
};

static void copy_read(struct choice *read, const struct choice *choice)
{
	*read = (struct choice){.otherwise = {choice->otherwise[0], choice->otherwise[1]},
				.condition = choice->condition};
}

/* Read the condition and the questions; false: there is nothing to ask. */
static bool read_asked(struct values *values, struct asked *asked, uint16_t condition, const struct image *image,
		       const struct object_site *source)
{
	asked->has_condition = condition != CHOICES_MAX;
	if (asked->has_condition)
		copy_read(&asked->condition, &values->choices[condition]);
	if (asked->has_condition && asked->condition.condition.waits &&
	    !read_told(values, &asked->condition, &values->choices[condition], image, source))
		return false; /* no call is recorded */
	for (uint32_t i = 0; i < values->ask_count; i++) {
		struct choice *ask = &values->asks[i], *read = &asked->reads[asked->count];
		const char *why;

		if (!filter_set_names_site(ask->filters, image->object, source))
			continue;
		copy_read(read, ask);
		if (ask->condition.waits && !read_told(values, read, ask, image, source))
			continue;
		why = refusal_of(&read->condition);
		if (why && !ask->why[0])
			snprintf(ask->why, sizeof(ask->why), "condition '%.200s': %s", ask->text, why);
		if (why)
			continue;
		ask->known = true;
		read->number = ask->number;
		asked->count++;
	}
	return asked->count > 0;
}

/* Make the program of the function's call, or of its return, with what is asked then; plain: without that. */
static uint16_t program_asking(struct values *values, const struct asked *asked, struct values_choice plain,
			       uint16_t without, const struct image *image, const struct object_site *source,
			       bool result)
{
	const struct choice *condition =
		asked->has_condition && values_decides(&asked->condition.condition, result) ? &asked->condition : NULL;
	struct fetch_ask asks[VALUES_ASKS];
	uint32_t count = 0;
	struct spec spec;
	int ret;

	for (uint32_t i = 0; i < asked->count; i++)
		if (values_decides(&asked->reads[i].condition, result))
			asks[count++] = (struct fetch_ask){&asked->reads[i].condition, asked->reads[i].number};
	if (!count)
		return without;
	ret = spec_of_entry(&spec, values, result ? plain.exit : plain.entry, image, source);
	if (!ret)
		ret = make_program_asking(values, &spec, result, values->next, condition, asks, count, NULL);
	if (!ret)
		return values->next++;
	spec_clear(&spec);
	values->full |= ret == -E2BIG || ret == -ENOMEM;
	return without;
}

/* Put what triggers ask about the function in front of all else. */
static void put_asks(struct values *values, struct values_choice *choice, struct values_choice plain,
		     uint16_t condition, const struct image *image, const struct object_site *source)
{
	struct asked *asked = calloc(1, sizeof(*asked));

	if (asked && read_asked(values, asked, condition, image, source)) {
		choice->entry = program_asking(values, asked, plain, choice->entry, image, source, false);
		choice->exit = program_asking(values, asked, plain, choice->exit, image, source, true);
	}
	values->full |= !asked;
	free(asked);
}

struct values_choice values_choose(struct values *values, const struct image *image, const struct object_site *source)
{
	struct values_choice choice = {0}, plain;
	uint16_t condition = CHOICES_MAX;

	/* Each filter is asked in any case: one that matches is not one that has matched nothing. */
	for (uint16_t i = 0; values && i < values->count; i++)
		if (filter_set_names_site(values->list[i].filters, image->object, source))
			choose(values, &choice, &values->list[i], image, source);
	for (unsigned i = 0; values && values->has_all && i < 2; i++)
		choose(values, &choice, &values->all[i], image, source);
	if (values && values->registers)
		values_choose_registers(values, &choice, image, source);
	for (uint16_t i = 0; values && i < values->choice_count; i++)
		if (filter_set_names_site(values->choices[i].filters, image->object, source) &&
		    condition == CHOICES_MAX)
			condition = i;
	plain = choice;
	if (condition != CHOICES_MAX)
		put_condition(values, &choice, condition, image, source);
	if (values && values->counts)
		values_choose_other(values, &choice);
	if (values && values->ask_count)
		put_asks(values, &choice, plain, condition, image, source);
	return choice;
}

void values_write(struct values *values, uint32_t id, struct values_choice choice)
{
	struct calltap_program_row *row;

	if (!values || id >= CALLTAP_HANDLED_MAX)
		return;
	row = (struct calltap_program_row *)values->memory + id;
	/* The programs are there: each number is stored as a whole, and pairs with the load in program_of(). */
	__atomic_store_n(&row->entry, choice.entry, __ATOMIC_RELEASE);
	__atomic_store_n(&row->exit, choice.exit, __ATOMIC_RELEASE);
}

const char *values_unmatched(const struct values *values)
{
	for (uint16_t i = 0; values && i < values->count; i++)
		if (filter_set_unmatched(values->list[i].filters))
			return values->list[i].function;
	for (uint16_t i = 0; values && i < values->choice_count; i++)
		if (filter_set_unmatched(values->choices[i].filters))
			return values->choices[i].function;
	return NULL;
}

int values_welcome(const struct values *values, struct target *target, bool one)
{
	struct calltap_msg_programs message = {.head = {CALLTAP_MSG_PROGRAMS, sizeof(message)},
					       .size = CALLTAP_PROGRAMS_SIZE};

	const struct calltap_msg_counts counts = {.head = {CALLTAP_MSG_COUNTS, sizeof(counts)},
						  .size = sizeof(*values->counts),
						  .flags = (one ? CALLTAP_COUNTS_ONE : 0) |
							   (values && values->newest ? CALLTAP_COUNTS_NEWEST : 0)};
	int ret = 0;

	/* Of a parent that gets the programs just now the child may have none, or have them. */
	if (!values || (target->row.start == CALLTAP_START_FORK && !values->late))
		return 0;
	if (values->counts)
		ret = channel_send(target->socket, &counts, sizeof(counts), &values->counts_fd, 1);
	if (ret)
		return ret;
	target->owed.programs = true;
	return channel_send(target->socket, &message, sizeof(message), &values->fd, 1);
}

int values_answer(struct session *session, struct target *target, const struct calltap_msg_programs_done *done)
{
	if (!target->owed.programs || done->error > 0)
		return -EPROTO;
	target->owed.programs = false;
	pthread_cond_broadcast(&session->answered);
	if (done->error && !(session->images.values->late && done->error == -EINVAL))
		session_diagnose(session, "no %s in process %d: %s",
				 session->images.values->counts ? "calls were counted" : "values were fetched",
				 (int)target->pid, strerror(-done->error));
	return 0;
}
