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
#include <calltap/abi/file.h>
#include <calltap/abi/program.h>
#include <host/elf/filter.h>
#include <host/sealed.h>
#include <host/session/session.h>
#include <host/trace/writer.h>

#include "code.h"
#include "condition.h"
#include "fetch.h"
#include "spec.h"
#include "values.h"

#define X86_REGISTERS 6 /* integer arguments in registers */
#define CHOICES_MAX   4096
#define TYPE_TEXT     16 /* bytes of a type's name, with its NUL */

struct entry {
	struct filter_set *filters;
	char *function;
	struct spec spec;
	struct fetch fetch;
	bool result;
	uint32_t type; /* of its events */
};

/* A condition for a function's calls. */
struct choice {
	struct filter_set *filters;
	char *text, *function; /* function: NULL until values_begin() */
	struct condition condition;
	enum calltap_verdict otherwise;
};

struct values {
	struct entry *list;
	uint16_t count;
	struct choice *choices;
	uint16_t choice_count;
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
	if (values->memory)
		munmap(values->memory, CALLTAP_PROGRAMS_SIZE);
	if (values->fd >= 0)
		close(values->fd);
	free(values);
}

static int fill_entry(struct entry *entry, const char *text, bool result, struct calltap_diag *diag)
{
	size_t length;
	int ret;

	*entry = (struct entry){.result = result};
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
	return values && values->count;
}

/* The values of calls that an entry names for just this text. */
static const struct spec *names_of(const void *arg, const char *function, size_t length)
{
	const struct values *values = arg;

	for (uint16_t i = 0; i < values->count; i++) {
		const struct entry *entry = &values->list[i];

		if (!entry->result && strlen(entry->function) == length && !strncmp(entry->function, function, length))
			return &entry->spec;
	}
	return NULL;
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

static int make_program(struct values *values, struct entry *entry, uint16_t number, struct calltap_diag *diag)
{
	entry->type = CALLTAP_EVENT_VALUES + number - 1u;
	fetch_compile(&entry->fetch, &entry->spec, X86_REGISTERS);
	return code_put(&values->code, number, entry->type, &entry->fetch, diag);
}

/* Compile a condition, alone and in front of the values of each entry for calls. */
static int make_choice(struct values *values, uint16_t number, struct fetch *fetch, struct calltap_diag *diag)
{
	const struct choice *choice = &values->choices[number];
	int ret = 0;

	for (uint16_t i = 0; i <= values->count && !ret; i++) {
		const struct entry *entry = i ? &values->list[i - 1] : NULL;

		if (entry && entry->result)
			continue;
		fetch_compile_if(fetch, entry ? &entry->spec : NULL, X86_REGISTERS, &choice->condition,
				 choice->otherwise);
		ret = code_put(&values->code, number_of(values, number, i), entry ? entry->type : 0, fetch, diag);
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
		if (!ret)
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

int values_begin(struct values *values, struct calltap_diag *diag)
{
	int ret = make_memory(values);

	if (ret)
		return calltap_diag_set(diag, ret, "there is no memory for values: %s", strerror(-ret));
	code_begin(&values->code, values->memory);
	for (uint16_t i = 0; i < values->count && !ret; i++)
		ret = make_program(values, &values->list[i], (uint16_t)(i + 1), diag);
	return ret ? ret : make_choices(values, diag);
}

struct values_choice values_choose(const struct values *values, const struct image *image,
				   const struct object_site *source)
{
	struct values_choice choice = {0};
	uint16_t condition = CHOICES_MAX;

	for (uint16_t i = 0; values && i < values->count; i++) {
		const struct entry *entry = &values->list[i];
		uint16_t *number = entry->result ? &choice.exit : &choice.entry;

		/* Asked in any case: a filter that matches is not one that has matched nothing. */
		if (filter_set_names_site(entry->filters, image->object, source) && !*number)
			*number = (uint16_t)(i + 1);
	}
	for (uint16_t i = 0; values && i < values->choice_count; i++)
		if (filter_set_names_site(values->choices[i].filters, image->object, source) &&
		    condition == CHOICES_MAX)
			condition = i;
	if (condition != CHOICES_MAX)
		choice.entry = number_of(values, condition, choice.entry);
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

/* The rows and strings of a FORMATS chunk that are being made. */
struct rows {
	struct calltap_file_field *list;
	uint32_t count;
	char *strings;
	uint32_t used;
};

static uint32_t put_string(struct rows *rows, const char *text)
{
	uint32_t at = rows->used;

	memcpy(rows->strings + at, text, strlen(text) + 1);
	rows->used += (uint32_t)strlen(text) + 1;
	return at;
}

static uint32_t flags_of(const struct spec_field *field)
{
	static const uint32_t flags[] = {
		[SPEC_SIGNED] = CALLTAP_FIELD_SIGNED,
		[SPEC_HEX] = CALLTAP_FIELD_HEX,
		[SPEC_STRING] = CALLTAP_FIELD_TEXT | CALLTAP_FIELD_PLACED,
	};

	return flags[field->type];
}

/* A field's type, as the user would write it. */
static void name_type(char text[TYPE_TEXT], const struct spec_field *field)
{
	static const char letters[] = {'u', 's', 'x'};

	if (field->type == SPEC_STRING)
		snprintf(text, TYPE_TEXT, "string[%u]", field->size);
	else
		snprintf(text, TYPE_TEXT, "%c%u", letters[field->type], field->size * 8u);
}

static void put_row(struct rows *rows, const struct entry *entry, uint32_t name, struct calltap_file_field row)
{
	row.type = entry->type;
	row.name = name;
	row.flags |= entry->result ? CALLTAP_FIELD_RESULT : CALLTAP_FIELD_ARGUMENT;
	rows->list[rows->count++] = row;
}

static void put_entry(struct rows *rows, const struct entry *entry)
{
	uint32_t name = put_string(rows, entry->result ? "result" : "arguments"), number = put_string(rows, "u32");

	put_row(rows, entry, name,
		(struct calltap_file_field){.field = put_string(rows, "function"),
					    .c_type = number,
					    .size = 4,
					    .flags = CALLTAP_FIELD_FUNCTION});
	put_row(rows, entry, name,
		(struct calltap_file_field){.field = put_string(rows, "faults"),
					    .c_type = number,
					    .offset = FETCH_FAULTS,
					    .size = 4,
					    .flags = CALLTAP_FIELD_FAULTS});
	for (uint32_t i = 0; i < entry->spec.count; i++) {
		const struct spec_field *field = &entry->spec.fields[i];
		char type[TYPE_TEXT];

		name_type(type, field);
		put_row(rows, entry, name,
			(struct calltap_file_field){.field = put_string(rows, field->name),
						    .c_type = put_string(rows, type),
						    .offset = entry->fetch.places[i],
						    .size = field->type == SPEC_STRING ? 4 : field->size,
						    .flags = flags_of(field)});
	}
}

static int write_rows(const struct rows *rows, struct trace_writer *writer)
{
	struct calltap_file_formats head = {rows->count, rows->used};
	size_t list = rows->count * sizeof(*rows->list), size = sizeof(head) + list + rows->used;
	char *chunk = malloc(size);
	int ret;

	if (!chunk)
		return -ENOMEM;
	memcpy(chunk, &head, sizeof(head));
	memcpy(chunk + sizeof(head), rows->list, list);
	memcpy(chunk + sizeof(head) + list, rows->strings, rows->used);
	ret = trace_writer_chunk(writer, CALLTAP_CHUNK_FORMATS, chunk, size);
	free(chunk);
	return ret;
}

int values_describe(const struct values *values, struct trace_writer *writer)
{
	const size_t fields = SPEC_FIELDS + 2;
	struct rows rows = {0};
	int ret = -ENOMEM;

	if (!values || !values->count)
		return 0;
	rows.list = calloc(values->count * fields, sizeof(*rows.list));
	rows.strings = malloc(values->count * (fields + 1) * (SPEC_NAME + TYPE_TEXT));
	for (uint16_t i = 0; rows.list && rows.strings && i < values->count; i++)
		put_entry(&rows, &values->list[i]);
	if (rows.list && rows.strings)
		ret = write_rows(&rows, writer);
	free(rows.list);
	free(rows.strings);
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
