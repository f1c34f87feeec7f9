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
#include <calltap/abi/program.h>
#include <host/elf/filter.h>
#include <host/sealed.h>
#include <host/session/session.h>

#include "code.h"
#include "condition.h"
#include "fetch.h"
#include "formats.h"
#include "spec.h"
#include "typed.h"
#include "values.h"

#define CHOICES_MAX 4096

struct entry {
	struct filter_set *filters;
	char *function;
	struct spec spec; /* of no fields: what the function's types tell */
	bool result;
	uint16_t number; /* of its program, if it has a SPEC */
	bool known;	 /* without SPEC: a function that it names has types */
	/* Without SPEC: the first function that it names and that has none, and its file; "" = there is none. */
	char unknown[128], object[128];
	char split[128]; /* a file beside it that has its debug information, and is not read; "" = there is none */
};

/* A condition for a function's calls. */
struct choice {
	struct filter_set *filters;
	char *text, *function;	    /* function: NULL until values_begin() */
	struct condition condition; /* waits: it is read again for each function */
	enum calltap_verdict otherwise;
	bool known;	/* waits: types of a function have told it */
	uint16_t never; /* waits: the number of the program that records no call; 0 = it is not made yet */
	bool told;	/* and that those of another have not was said */
	char why[768];	/* waits: why types of the first such function have not; "" = there is none */
};

/* What a program was made of, besides a function's types. */
struct made {
	uint16_t condition, entry;
};

struct values {
	struct entry *list;
	uint16_t count;
	struct choice *choices;
	uint16_t choice_count;
	struct entry all[2]; /* for functions that none of these names: what types tell of calls, of returns */
	bool has_all;
	struct format *programs; /* by their number - 1 */
	uint16_t program_count;
	struct made *made; /* programs of conditions that types tell, by their number less `first` */
	uint32_t made_count;
	uint16_t first;
	uint16_t next;	    /* number of a program that what types tell needs */
	uint16_t described; /* of these, in the trace */
	bool full;	    /* a program had no room */
	bool told_full;	    /* and that was said */
	struct typed *typed;
	int fd;	      /* for targets: read only; -1 = values_begin() has not made it */
	char *memory; /* CALLTAP_PROGRAMS_SIZE bytes */
	struct code code;
};

int values_create(struct values **out)
{
	*out = calloc(1, sizeof(**out));
	if (!*out)
		return -ENOMEM;
	(*out)->fd = -1;
	return 0;
}

static void clear_entry(struct entry *entry)
{
	filter_set_destroy(entry->filters);
	free(entry->function);
	spec_clear(&entry->spec);
}

static void clear_choice(struct choice *choice)
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
		clear_entry(&values->list[i]);
	for (uint16_t i = 0; i < values->choice_count; i++)
		clear_choice(&values->choices[i]);
	free(values->list);
	free(values->choices);
	for (uint16_t i = 0; i < values->program_count; i++)
		spec_clear(&values->programs[i].spec);
	free(values->programs);
	free(values->made);
	typed_destroy(values->typed);
	if (values->memory)
		munmap(values->memory, CALLTAP_PROGRAMS_SIZE);
	if (values->fd >= 0)
		close(values->fd);
	free(values);
}

static int fill_entry(struct entry *entry, const char *text, bool result, struct calltap_diag *diag)
{
	size_t length = strlen(text);
	int ret = 0;

	*entry = (struct entry){.result = result};
	if (!spec_is_function(text))
		ret = spec_parse(&entry->spec, &length, text, result, diag);
	if (ret)
		return ret;
	entry->function = strndup(text, length);
	if (!entry->function || filter_set_create(&entry->filters))
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
	ret = fill_entry(&list[values->count], text, result, diag);
	if (ret)
		clear_entry(&list[values->count]);
	else
		values->count++;
	return ret;
}

int values_choose_by(struct values *values, const char *text, bool hides, struct calltap_diag *diag)
{
	struct choice *list = reallocarray(values->choices, values->choice_count + 1u, sizeof(*list));
	struct choice *choice;

	if (list)
		values->choices = list;
	if (!list || values->choice_count == CHOICES_MAX)
		return calltap_diag_set(diag, -ENOMEM, "there are too many conditions");
	choice = &list[values->choice_count];
	*choice = (struct choice){.otherwise = hides ? CALLTAP_VERDICT_HIDE : CALLTAP_VERDICT_LEAVE_OUT};
	choice->text = strdup(text);
	if (!choice->text)
		return calltap_diag_set(diag, -ENOMEM, "not enough memory");
	values->choice_count++;
	return 0;
}

bool values_hide(const struct values *values)
{
	for (uint16_t i = 0; values && i < values->choice_count; i++)
		if (values->choices[i].otherwise == CALLTAP_VERDICT_HIDE)
			return true;
	return false;
}

bool values_tell(const struct values *values)
{
	return values && (values->count || values->has_all);
}

/* The values of calls that an entry names for just this text. */
static const struct spec *names_of(const void *arg, const char *function, size_t length)
{
	const struct values *values = arg;

	for (uint16_t i = 0; i < values->count; i++) {
		const struct entry *entry = &values->list[i];

		if (!entry->result && strlen(entry->function) == length && !strncmp(entry->function, function, length))
			return entry->spec.count ? &entry->spec : &condition_later;
	}
	return &condition_later;
}

static int read_choice(const struct values *values, struct choice *choice, struct calltap_diag *diag)
{
	size_t length;
	int ret = condition_parse(&choice->condition, &length, choice->text, names_of, values, diag);

	if (ret)
		return ret;
	choice->function = strndup(choice->text, length);
	if (!choice->function || filter_set_create(&choice->filters))
		return calltap_diag_set(diag, -ENOMEM, "not enough memory");
	for (const struct choice *other = values->choices; other != choice; other++)
		if (!strcmp(other->function, choice->function))
			return calltap_diag_set(diag, -EINVAL, "'%s' has two conditions; join them by && or || in one",
						choice->function);
	return filter_set_add(choice->filters, FILTER_TRACE, choice->function, diag);
}

/* Programs with a condition have numbers behind the others: for each one the program without values, then with each. */
static uint16_t number_of(const struct values *values, uint16_t choice, uint16_t entry)
{
	return (uint16_t)(1u + values->count + choice * (values->count + 1u) + entry);
}

void values_add_all(struct values *values)
{
	values->has_all = true;
	values->all[1].result = true;
}

/*
 * Compile a program for the spec, which is the program's from then on; choice: in front of it, a condition that is
 * false where it says otherwise, NULL = none.
 */
static int make_program_if(struct values *values, const struct spec *spec, bool result, uint16_t number,
			   const struct choice *choice, struct calltap_diag *diag)
{
	struct format *programs = reallocarray(values->programs, values->program_count + 1u, sizeof(*programs));
	struct fetch *fetch = malloc(sizeof(*fetch));
	uint32_t type = spec->count ? CALLTAP_EVENT_VALUES + number - 1u : 0;
	int ret = -ENOMEM;

	if (programs)
		values->programs = programs;
	if (programs && fetch && number <= UINT16_MAX - CALLTAP_EVENT_VALUES) {
		fetch_compile_if(fetch, spec->count ? spec : NULL, FETCH_REGISTERS_X86_64,
				 choice ? &choice->condition : NULL,
				 choice ? choice->otherwise : CALLTAP_VERDICT_RECORD);
		ret = code_put(&values->code, number, type, fetch, diag);
	}
	if (!ret && spec->count) {
		struct format *format = &programs[values->program_count++];

		*format = (struct format){
			.spec = *spec, .result = result, .number = number, .type = type, .chosen = choice != NULL};
		memcpy(format->places, fetch->places, sizeof(format->places));
	}
	free(fetch);
	return ret;
}

static int make_program(struct values *values, const struct spec *spec, bool result, uint16_t number,
			struct calltap_diag *diag)
{
	return make_program_if(values, spec, result, number, NULL, diag);
}

/* Compile a condition, alone and in front of the values of each entry for calls. */
static int make_choice(struct values *values, uint16_t number, struct fetch *fetch, struct calltap_diag *diag)
{
	const struct choice *choice = &values->choices[number];
	int ret = 0;

	for (uint16_t i = 0; i <= values->count && !ret; i++) {
		const struct entry *entry = i ? &values->list[i - 1] : NULL;

		if (entry && (entry->result || !entry->number))
			continue;
		fetch_compile_if(fetch, entry ? &entry->spec : NULL, FETCH_REGISTERS_X86_64, &choice->condition,
				 choice->otherwise);
		ret = code_put(&values->code, number_of(values, number, i), entry ? CALLTAP_EVENT_VALUES + i - 1u : 0,
			       fetch, diag);
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
	if (values->choice_count * (values->count + 1u) + values->count > CALLTAP_PROGRAMS_MAX - 1)
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

int values_begin(struct values *values, const char *agent_path, struct calltap_diag *diag)
{
	int ret = make_memory(values);

	if (!ret)
		ret = typed_create(&values->typed, agent_path);
	if (ret)
		return calltap_diag_set(diag, ret, "there is no memory for values: %s", strerror(-ret));
	code_begin(&values->code, values->memory);
	for (uint16_t i = 0; i < values->count && !ret; i++) {
		struct entry *entry = &values->list[i];

		entry->number = entry->spec.count ? (uint16_t)(i + 1) : 0;
		if (entry->number)
			ret = make_program(values, &entry->spec, entry->result, entry->number, diag);
	}
	values->first = values->next = number_of(values, values->choice_count, 0);
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

/* Make the program of what a function's types tell, or find it: its number, or TYPED_NONE. */
static uint16_t program_by_types(struct values *values, const struct image *image, const struct object_site *source,
				 bool result)
{
	struct spec spec;
	uint16_t number = TYPED_NONE;
	int ret = typed_spec(&spec, values->typed, image, source, result);

	if (!ret && spec.count)
		number = find_program(values, &spec, result);
	if (!ret && spec.count && !number)
		ret = make_program(values, &spec, result, values->next, NULL);
	if (!ret && spec.count && !number) {
		spec = (struct spec){0};
		number = values->next++;
	}
	values->full |= ret == -E2BIG || ret == -ENOMEM;
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
	if (*number == TYPED_UNSET)
		*number = program_by_types(values, image, source, entry->result);
	return *number;
}

static void choose(struct values *values, struct values_choice *choice, struct entry *entry, const struct image *image,
		   const struct object_site *source)
{
	uint16_t *number = entry->result ? &choice->exit : &choice->entry;

	if (!*number)
		*number = entry->number ? entry->number : number_by_types(values, entry, image, source);
}

static const struct spec *names_told(const void *arg, const char *function, size_t length)
{
	(void)function;
	(void)length;
	return arg;
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
			 "condition '%.200s': it names arguments, and debug information that tells them is in files of "
			 "its own "
			 "(-gsplit-dwarf), as %.100s, which are not read; build without that, or give them names by "
			 "--args",
			 choice->text, split);
	else
		snprintf(choice->why, sizeof(choice->why),
			 "condition '%.200s': it names arguments, and %.100s has no debug information of '%.100s' that "
			 "would tell them; build with -g, or give them names by --args",
			 choice->text, slash ? slash + 1 : image->path, object_site_short_name(image->object, source));
}

/* The condition as the function's types have it; false: they do not tell all that it names. */
static bool read_told(struct values *values, struct choice *read, struct choice *choice, const struct image *image,
		      const struct object_site *source)
{
	struct calltap_diag diag = {0};
	struct spec names;
	size_t length;
	int ret;

	*read = (struct choice){.otherwise = choice->otherwise};
	ret = typed_spec(&names, values->typed, image, source, false);
	if (!ret)
		ret = condition_parse(&read->condition, &length, choice->text, names_told, &names, &diag);
	spec_clear(&names);
	if (ret)
		note_unread(values, choice, image, source, diag.text[0] ? diag.text : NULL);
	return !ret;
}

/* The program for functions of which nobody knows whether the condition is true: no call is recorded. */
static uint16_t program_never(struct values *values, struct choice *choice)
{
	const struct choice never = {.otherwise = choice->otherwise, .condition = {.node_count = 1}}; /* the number 0 */
	const struct spec none = {.count = 0};

	if (!choice->never && !make_program_if(values, &none, false, values->next, &never, NULL))
		choice->never = values->next++;
	return choice->never;
}

/* What is shown of the function's calls, as a copy. */
static int spec_of_entry(struct spec *out, struct values *values, uint16_t entry, const struct image *image,
			 const struct object_site *source)
{
	if (entry && entry <= values->count)
		return spec_copy(out, &values->list[entry - 1].spec);
	*out = (struct spec){0};
	return entry ? typed_spec(out, values->typed, image, source, false) : 0;
}

/* Make the program of a condition with what is shown of the function's calls, of which types tell either. */
static uint16_t program_if(struct values *values, struct choice *choice, uint16_t entry, const struct image *image,
			   const struct object_site *source)
{
	struct choice read = {.otherwise = choice->otherwise, .condition = choice->condition};
	uint16_t number = values->next;
	struct spec spec;
	int ret;

	if (choice->condition.waits && !read_told(values, &read, choice, image, source))
		return program_never(values, choice);
	choice->known = true;
	ret = spec_of_entry(&spec, values, entry, image, source);
	if (!ret)
		ret = make_program_if(values, &spec, false, number, &read, NULL);
	if (!ret) {
		values->next++;
		return number;
	}
	spec_clear(&spec);
	values->full |= ret == -E2BIG || ret == -ENOMEM;
	return program_never(values, choice);
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

/* The program of a function's calls with a condition; entry: the one without. */
static uint16_t number_if(struct values *values, uint16_t condition, uint16_t entry, const struct image *image,
			  const struct object_site *source)
{
	struct choice *choice = &values->choices[condition];
	uint16_t *number;

	if (!choice->condition.waits && entry <= values->count)
		return number_of(values, condition, entry);
	number = typed_number(values->typed, image, source, TYPED_CONDITION);
	if (!number) {
		note_unread(values, choice, image, source, NULL);
		return program_never(values, choice);
	}
	if (!is_made_of(values, *number, condition, entry)) {
		*number = program_if(values, choice, entry, image, source);
		note_made(values, *number, condition, entry);
	}
	return *number;
}

struct values_choice values_choose(struct values *values, const struct image *image, const struct object_site *source)
{
	struct values_choice choice = {0};
	uint16_t condition = CHOICES_MAX;

	/* Each filter is asked in any case: one that matches is not one that has matched nothing. */
	for (uint16_t i = 0; values && i < values->count; i++)
		if (filter_set_names_site(values->list[i].filters, image->object, source))
			choose(values, &choice, &values->list[i], image, source);
	for (unsigned i = 0; values && values->has_all && i < 2; i++)
		choose(values, &choice, &values->all[i], image, source);
	for (uint16_t i = 0; values && i < values->choice_count; i++)
		if (filter_set_names_site(values->choices[i].filters, image->object, source) &&
		    condition == CHOICES_MAX)
			condition = i;
	if (condition != CHOICES_MAX)
		choice.entry = number_if(values, condition, choice.entry, image, source);
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

static bool is_unknown(const struct entry *entry)
{
	return !entry->number && !entry->known && entry->unknown[0];
}

static int refuse_split(const struct entry *entry, const char *option, struct calltap_diag *diag)
{
	return calltap_diag_set(
		diag, -ENODATA,
		"%sdebug information of %s in %s is in files of its own (-gsplit-dwarf), as %s, which are not "
		"read; build without that, or say what to show by --args; --allow-no-match goes on without",
		option, entry->unknown, entry->object, entry->split);
}

int values_check(const struct values *values, struct calltap_diag *diag)
{
	for (uint16_t i = 0; values && i < values->count; i++) {
		const struct entry *entry = &values->list[i];

		if (is_unknown(entry) && entry->split[0])
			return refuse_split(entry, "", diag);
		if (is_unknown(entry))
			return calltap_diag_set(diag, -ENODATA,
						"%s has no debug information of '%s', so it says not what to show; "
						"build with -g, or say it, as in '%s:%s'; --allow-no-match goes on "
						"without",
						entry->object, entry->unknown, entry->function,
						entry->result ? "ret" : "arg1");
	}
	for (uint16_t i = 0; values && i < values->choice_count; i++)
		if (values->choices[i].why[0] && !values->choices[i].known)
			return calltap_diag_set(diag, -ENODATA, "%s", values->choices[i].why);
	if (values && is_unknown(&values->all[0]) && values->all[0].split[0])
		return refuse_split(&values->all[0], "--auto-args: ", diag);
	if (values && is_unknown(&values->all[0]))
		return calltap_diag_set(diag, -ENODATA,
					"--auto-args: none of the functions that are traced has debug information, "
					"as %s of %s; build with -g, or say what to show by --args; --allow-no-match "
					"goes on without",
					values->all[0].unknown, values->all[0].object);
	return 0;
}

/* A condition that some functions' types tell, and others' do not. */
static void tell_unread(struct choice *choice, struct session *session)
{
	if (!choice->why[0] || !choice->known || choice->told)
		return;
	choice->told = true;
	session_diagnose(session, "calls of some functions are left out: %s", choice->why);
}

int values_describe(struct values *values, struct session *session)
{
	struct instance *first = session_first(session);
	int ret;

	if (!values || !first)
		return 0;
	if (values->full && !values->told_full) {
		values->told_full = true;
		session_diagnose(session, "there are more kinds of values than programs have room for: some functions "
					  "show none");
	}
	for (uint16_t i = 0; i < values->choice_count; i++)
		tell_unread(&values->choices[i], session);
	if (values->described == values->program_count)
		return 0;
	ret = formats_write(first->writer, values->programs + values->described,
			    values->program_count - values->described);
	if (!ret)
		values->described = values->program_count;
	return ret;
}

int values_welcome(const struct values *values, struct target *target)
{
	struct calltap_msg_programs message = {.head = {CALLTAP_MSG_PROGRAMS, sizeof(message)},
					       .size = CALLTAP_PROGRAMS_SIZE};

	if (!values || target->row.start == CALLTAP_START_FORK)
		return 0;
	target->owed.programs = true;
	return channel_send(target->socket, &message, sizeof(message), &values->fd, 1);
}

int values_answer(struct session *session, struct target *target, const struct calltap_msg_programs_done *done)
{
	if (!target->owed.programs || done->error > 0)
		return -EPROTO;
	target->owed.programs = false;
	if (done->error)
		session_diagnose(session, "no values were fetched in process %d: %s", (int)target->pid,
				 strerror(-done->error));
	return 0;
}
