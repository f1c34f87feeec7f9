/*
 * From types to what is to be fetched (typed.h).  Context: host.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <host/session/session.h>
#include <host/types/types.h>

#include "fetch.h"
#include "prototypes.h"
#include "typed.h"

/* An object that was asked for. */
struct row {
	const struct object *object;
	struct types *types;	       /* NULL: it has none */
	uint16_t (*numbers)[TYPED_OF]; /* by the function's place */
};

struct typed {
	struct row *rows;
	uint32_t count;
	char *agent_path;
	bool looked;		       /* for the prototypes, when the first function was asked for */
	struct prototypes *prototypes; /* of the C library; NULL: there are none */
	uint16_t (*numbers)[TYPED_OF]; /* by the prototype's place, as a row's */
};

/* A function's place in its object's types, or among the prototypes. */
struct found {
	struct row *row;
	int64_t place; /* -1 = it has none */
	bool prototype;
};

/* Numbers that nobody has asked for. */
static uint16_t (*unset_numbers(uint32_t count))[TYPED_OF]
{
	uint16_t(*numbers)[TYPED_OF] = calloc(count ? count : 1, sizeof(*numbers));

	if (numbers)
		memset(numbers, 0xff, count * sizeof(*numbers));
	_Static_assert(TYPED_UNSET == 0xffff, "all bits");
	return numbers;
}

int typed_create(struct typed **out, const char *agent_path)
{
	*out = calloc(1, sizeof(**out));
	if (!*out)
		return -ENOMEM;
	(*out)->agent_path = strdup(agent_path);
	return (*out)->agent_path ? 0 : -ENOMEM;
}

static struct prototypes *prototypes_of(struct typed *typed)
{
	if (typed->looked)
		return typed->prototypes;
	typed->looked = true;
	typed->prototypes = prototypes_open(typed->agent_path);
	if (typed->prototypes)
		typed->numbers = unset_numbers(prototypes_count(typed->prototypes));
	if (!typed->numbers) {
		prototypes_close(typed->prototypes);
		typed->prototypes = NULL;
	}
	return typed->prototypes;
}

void typed_destroy(struct typed *typed)
{
	for (uint32_t i = 0; typed && i < typed->count; i++) {
		types_close(typed->rows[i].types);
		free(typed->rows[i].numbers);
	}
	if (typed) {
		prototypes_close(typed->prototypes);
		free(typed->numbers);
		free(typed->agent_path);
		free(typed->rows);
	}
	free(typed);
}

/* True if the file is the one that was read: what was written over it since may be another program's. */
static bool is_unchanged(const struct image *image)
{
	struct stat st;

	return image->fd >= 0 && !fstat(image->fd, &st) && st.st_mtim.tv_sec == image->mtime.tv_sec &&
	       st.st_mtim.tv_nsec == image->mtime.tv_nsec;
}

static void fill(struct row *row, const struct image *image)
{
	*row = (struct row){.object = image->object};
	if (!is_unchanged(image) || types_open(&row->types, image->object, image->fd))
		return;
	row->numbers = unset_numbers(types_count(row->types));
	if (!row->numbers) {
		types_close(row->types);
		row->types = NULL;
	}
}

/* NULL: no memory. */
static struct row *row_of(struct typed *typed, const struct image *image)
{
	struct row *rows;

	for (uint32_t i = typed->count; i-- > 0;)
		if (typed->rows[i].object == image->object)
			return &typed->rows[i];
	rows = reallocarray(typed->rows, typed->count + 1u, sizeof(*rows));
	if (!rows)
		return NULL;
	typed->rows = rows;
	fill(&rows[typed->count], image);
	return &rows[typed->count++];
}

/* Headers say more of the C library's functions than its own DWARF: names for flags. */
static struct found find(struct typed *typed, const struct image *image, const struct object_site *source)
{
	struct prototypes *prototypes = prototypes_of(typed);
	struct found found = {.place = prototypes_find(prototypes, image, source), .prototype = true};
	struct row *row;

	if (found.place >= 0)
		return found;
	row = row_of(typed, image);
	if (row && row->types && source->kind != SITE_LIBCALL)
		found = (struct found){.row = row, .place = types_find(row->types, source->function)};
	if (found.place < 0)
		found = (struct found){.place = prototypes_find_own(prototypes, image, source), .prototype = true};
	return found;
}

uint16_t *typed_number(struct typed *typed, const struct image *image, const struct object_site *source,
		       enum typed_of of)
{
	struct found found = find(typed, image, source);

	if (found.place < 0)
		return NULL;
	return found.prototype ? &typed->numbers[found.place][of] : &found.row->numbers[found.place][of];
}

const char *typed_split(struct typed *typed, const struct image *image)
{
	const struct row *row = row_of(typed, image);

	return row && row->types ? types_split(row->types) : NULL;
}

static int put_missing(struct spec_field *field, const char *why)
{
	field->type = SPEC_MISSING;
	field->size = 1;
	free(field->more);
	field->more = strdup(why);
	return field->more ? 0 : -ENOMEM;
}

static const uint8_t spec_types[] = {
	[TYPE_UNSIGNED] = SPEC_UNSIGNED, [TYPE_SIGNED] = SPEC_SIGNED, [TYPE_BOOL] = SPEC_BOOL,
	[TYPE_CHAR] = SPEC_CHAR,	 [TYPE_ENUM] = SPEC_ENUM,     [TYPE_POINTER] = SPEC_POINTER,
	[TYPE_TEXT] = SPEC_STRING,	 [TYPE_FLOAT] = SPEC_FLOAT,   [TYPE_CHARS] = SPEC_CHARS,
	[TYPE_OTHER] = SPEC_MISSING,
};

/* How a value of the type is shown. */
static int put_look(struct spec_field *field, const struct type_look *look)
{
	field->type = spec_types[look->kind];
	field->size = look->kind == TYPE_TEXT ? SPEC_TEXT : look->size;
	field->is_signed = look->is_signed;
	field->cut = look->cut;
	if (look->kind != TYPE_ENUM)
		return 0;
	field->more = strdup(look->names);
	return field->more ? 0 : -ENOMEM;
}

/* The number of an argument by its register or its word of the stack. */
static uint64_t argument_of(const struct type_value *value, uint32_t registers)
{
	if (value->in_vector)
		return 0;
	return value->in_register ? value->in_register : registers + 1u + value->on_stack / 8;
}

static int put_field(struct spec_field *field, const struct type_value *value, uint32_t registers)
{
	uint64_t argument = argument_of(value, registers);

	field->c_type = strdup(value->look.type);
	if (!field->c_type)
		return -ENOMEM;
	if (value->missing)
		return put_missing(field, value->missing);
	if (argument >= SPEC_SECOND || (!value->in_vector && value->on_stack % 8))
		return put_missing(field, "far");
	field->argument = (uint8_t)argument;
	field->vector = value->in_vector;
	return put_look(field, &value->look);
}

/* A result's registers are called otherwise than an argument's. */
static void place_result(struct spec_field *field, const struct type_value *value)
{
	field->argument = value->in_register == 2 ? SPEC_SECOND : 0;
	field->vector = value->in_vector;
	field->second_argument = value->second_register == 2 ? SPEC_SECOND : 0;
	field->second_vector = value->second_vector;
}

/* What is left for structures. */
struct room {
	uint32_t rows, bytes;
};

/* Bytes that have the first members. */
static uint32_t bytes_of(const struct type_members *members, uint32_t count)
{
	uint32_t bytes = 0;

	for (uint32_t i = 0; i < count; i++)
		if (members->list[i].offset + members->list[i].look.size > bytes)
			bytes = members->list[i].offset + members->list[i].look.size;
	return bytes;
}

/* How many of the members have room. */
static uint32_t fitting(const struct type_members *members, const struct room *room)
{
	uint32_t count = members->count < room->rows ? members->count : room->rows;

	while (count && (bytes_of(members, count) + 7) / 8 * 8 > room->bytes)
		count--;
	return bytes_of(members, count) ? count : 0;
}

static int put_member(struct spec *out, const struct spec_field *group, uint32_t within,
		      const struct type_member *member)
{
	struct spec_field *field = &out->fields[out->count++];
	char prefix[SPEC_NAME];
	int length;

	memcpy(prefix, group->name, sizeof(prefix)); /* so nobody takes it for a part of what is written */
	length = snprintf(field->name, sizeof(field->name), "%s.%s", prefix, member->name);
	field->within = (uint8_t)(within + 1);
	field->at = (uint16_t)member->offset;
	field->bit = member->bit;
	field->bits = member->bits;
	field->c_type = strdup(member->look.type);
	if (!field->c_type)
		return -ENOMEM;
	if (member->look.kind == TYPE_OTHER || length < 0 || (size_t)length >= sizeof(field->name))
		return put_missing(field, member->look.why ? member->look.why : "name");
	return put_look(field, &member->look);
}

/* A field of a structure's address, or of a structure, is to have the members behind it. */
static int put_members(struct spec *out, const struct type_value *value, struct room *room)
{
	const struct type_members *members = &value->members;
	uint32_t within = out->count - 1, count = fitting(members, room), bytes = bytes_of(members, count);
	struct spec_field *group = &out->fields[within];
	int ret = 0;

	if (group->more)
		return 0; /* where it lies is not known */
	if (!count)
		return group->type == SPEC_MISSING ? put_missing(group, value->look.why) : 0;
	group->type = SPEC_GROUP;
	group->size = (uint16_t)bytes;
	group->at_address = value->at_address;
	group->cut = members->cut || count < members->count;
	room->rows -= count;
	room->bytes -= (bytes + 7) / 8 * 8;
	for (uint32_t i = 0; i < count && !ret; i++)
		ret = put_member(out, group, within, &members->list[i]);
	return ret;
}

/* The last field, if not all of them have room. */
static int put_rest(struct spec *out, uint32_t rest)
{
	struct spec_field *field = &out->fields[out->count++];
	char why[32];

	snprintf(field->name, sizeof(field->name), "more");
	snprintf(why, sizeof(why), "%u", rest);
	return put_missing(field, why);
}

static int put_result(struct spec *out, const struct type_value *value)
{
	struct room room = {SPEC_ROWS - 1, SPEC_BYTES};
	struct spec_field *field = &out->fields[out->count++];
	int ret;

	memcpy(field->name, "ret", sizeof("ret"));
	ret = put_field(field, value, 0);
	place_result(field, value);
	return ret ? ret : put_members(out, value, &room);
}

static int put_argument(struct spec *out, const struct type_value *value, uint32_t number, uint32_t registers,
			struct room *room)
{
	struct spec_field *field = &out->fields[out->count++];
	int ret;

	if (value->name[0])
		snprintf(field->name, sizeof(field->name), "%s", value->name);
	else
		snprintf(field->name, sizeof(field->name), "arg%u", number);
	ret = put_field(field, value, registers);
	field->second_argument = value->second_register;
	field->second_vector = value->second_vector;
	return ret ? ret : put_members(out, value, room);
}

int typed_translate(struct spec *out, const struct type_function *function, bool result, uint32_t registers)
{
	uint32_t all = function->count + function->more;
	uint32_t shown = all > SPEC_FIELDS ? SPEC_FIELDS - 1 : all;
	struct room room = {SPEC_ROWS - (shown < all ? shown + 1 : shown), SPEC_BYTES};
	int ret = 0;

	*out = (struct spec){0};
	if (result)
		return function->has_result ? put_result(out, &function->result) : 0;
	for (uint32_t i = 0; i < shown && !ret; i++)
		ret = put_argument(out, &function->arguments[i], i + 1, registers, &room);
	return !ret && shown < all ? put_rest(out, all - shown) : ret;
}

/* The first instruction that is the function's own: no-ops and a call of the profiler's are not. */
static uint64_t code_of(const struct object_site *source)
{
	return site_has_block(source) ? source->function : source->address + source->code_off;
}

int typed_spec(struct spec *out, struct typed *typed, const struct image *image, const struct object_site *source,
	       bool result)
{
	struct type_function function;
	struct found found = find(typed, image, source);
	int ret;

	*out = (struct spec){0};
	if (found.place < 0)
		return -ENOENT;
	ret = found.prototype
		      ? prototypes_read(&function, typed->prototypes, (uint32_t)found.place)
		      : types_read(&function, found.row->types, (uint32_t)found.place, source->symbol, code_of(source));
	if (!ret)
		ret = typed_translate(out, &function, result, FETCH_REGISTERS_X86_64);
	type_function_clear(&function);
	return ret;
}
