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
#include "fetch.h"
#include "spec.h"
#include "values.h"

#define X86_REGISTERS 6	 /* integer arguments in registers */
#define TYPE_TEXT     16 /* bytes of a type's name, with its NUL */

struct entry {
	struct filter_set *filters;
	char *function;
	struct spec spec;
	struct fetch fetch;
	bool result;
	uint32_t type; /* of its events */
};

struct values {
	struct entry *list;
	uint16_t count;
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

void values_destroy(struct values *values)
{
	if (!values)
		return;
	for (uint16_t i = 0; i < values->count; i++)
		clear_entry(&values->list[i]);
	free(values->list);
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

static int make_program(struct values *values, struct entry *entry, uint16_t number, struct calltap_diag *diag)
{
	entry->type = CALLTAP_EVENT_VALUES + number - 1u;
	fetch_compile(&entry->fetch, &entry->spec, X86_REGISTERS);
	return code_put(&values->code, number, entry->type, &entry->fetch, diag);
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
	return ret;
}

struct values_choice values_choose(const struct values *values, const struct image *image,
				   const struct object_site *source)
{
	struct values_choice choice = {0};

	for (uint16_t i = 0; values && i < values->count; i++) {
		const struct entry *entry = &values->list[i];
		uint16_t *number = entry->result ? &choice.exit : &choice.entry;

		/* Asked in any case: a filter that matches is not one that has matched nothing. */
		if (filter_set_names_site(entry->filters, image->object, source) && !*number)
			*number = (uint16_t)(i + 1);
	}
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
