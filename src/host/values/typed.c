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

#define REGISTERS_SHOWN 6u /* arguments that the kernel's tracers show, FTRACE_REGS_MAX_ARGS there */

/* An object that was asked for. */
struct row {
	const struct object *object;
	struct types *types;	       /* NULL: it has none */
	uint16_t (*numbers)[TYPED_OF]; /* by the function's place */
};

struct typed {
	struct row *rows;
	uint32_t count;
	uint32_t registers; /* that integer arguments have */
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

int typed_create(struct typed **out, const char *agent_path, uint32_t registers)
{
	*out = calloc(1, sizeof(**out));
	if (!*out)
		return -ENOMEM;
	(*out)->registers = registers;
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

/* The first instruction that is the function's own: no-ops and a call of the profiler's are not. */
static uint64_t code_of(const struct object_site *source)
{
	return site_has_block(source) ? source->function : source->address + source->code_off;
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
	/* GCC has functions of AArch64 and RISC-V begin behind the no-ops of -fpatchable-function-entry. */
	if (found.place < 0 && row && row->types && source->kind != SITE_LIBCALL)
		found = (struct found){.row = row, .place = types_find(row->types, code_of(source))};
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
	[TYPE_UNSIGNED] = SPEC_UNSIGNED,
	[TYPE_SIGNED] = SPEC_SIGNED,
	[TYPE_BOOL] = SPEC_BOOL,
	[TYPE_CHAR] = SPEC_CHAR,
	[TYPE_ENUM] = SPEC_ENUM,
	[TYPE_POINTER] = SPEC_POINTER,
	[TYPE_TEXT] = SPEC_STRING,
	[TYPE_FLOAT] = SPEC_FLOAT,
	[TYPE_CHARS] = SPEC_CHARS,
	[TYPE_ARRAY] = SPEC_ARRAY,
	[TYPE_VIEW] = SPEC_VIEW,
	[TYPE_GUARD] = SPEC_GUARD,
	[TYPE_LONG_DOUBLE] = SPEC_LONG_DOUBLE,
	[TYPE_STRUCT] = SPEC_GROUP,
	[TYPE_VARIANT] = SPEC_VARIANT,
	[TYPE_OTHER] = SPEC_MISSING,
};

static int put_elements(struct spec_field *field, const struct type_look *look, const char *name);

/* A member of an element of a list. */
static int put_within(struct spec_field *field, const struct type_member *member, const char *name)
{
	const struct type_look *look = &member->look;
	char whole[SPEC_NAME];
	struct spec_element element = {
		.type = spec_types[look->kind],
		.is_signed = look->is_signed,
		.cut = look->cut,
		.bit = member->bit,
		.bits = member->bits,
		.is_member = true,
		.size = look->kind == TYPE_OTHER ? 1 : look->size,
		.at = look->kind == TYPE_OTHER ? 0 : member->offset,
		.name = whole,
		.more = look->names,
	};
	char why[32];
	int ret;

	if (snprintf(whole, sizeof(whole), "%s%s%s", name, name[0] ? "." : "", member->name) >= (int)sizeof(whole))
		return 0;
	if (look->kind == TYPE_OTHER || look->kind == TYPE_LONG_DOUBLE) {
		snprintf(why, sizeof(why), "%s", look->why ? look->why : "long double");
		element.more = why;
	}
	ret = spec_add_element(field, &element);
	return ret || look->kind != TYPE_ARRAY ? ret : put_elements(field, look, whole);
}

/* What the list of that name has: "" is the field's own. */
static int put_elements(struct spec_field *field, const struct type_look *look, const char *name)
{
	const struct type_look *one = look->element;
	char whole[SPEC_NAME];
	struct spec_element element = {
		.type = one->kind == TYPE_STRUCT ? SPEC_GROUP : spec_types[one->kind],
		.is_signed = one->is_signed,
		.cut = one->kind == TYPE_STRUCT ? one->members->cut : one->cut,
		.size = one->stride,
		.name = whole,
		.more = one->names,
	};
	int ret;

	snprintf(whole, sizeof(whole), "%s", name);
	ret = spec_add_element(field, &element);
	if (!ret && one->kind == TYPE_ARRAY)
		return put_elements(field, one, name);
	for (uint32_t i = 0; !ret && one->kind == TYPE_STRUCT && i < one->members->count; i++)
		ret = put_within(field, &one->members->list[i], name);
	return ret;
}

/* Bytes of a list elsewhere that are taken. */
static uint16_t taken_of(const struct type_look *element)
{
	uint64_t all = (uint64_t)TYPES_ELEMENTS * element->stride;
	uint32_t most = element->kind == TYPE_STRUCT ? SPEC_LIST : SPEC_TEXT;

	if (element->kind == TYPE_OTHER)
		return 0;
	return (uint16_t)(all < most ? all : most);
}

static struct spec_view view_of(const struct type_view *view)
{
	return (struct spec_view){view->how,	 view->size,	   view->address_at,
				  view->size_at, view->size_bytes, view->element};
}

/* What a list has. */
static int put_element(struct spec_field *field, const struct type_look *look)
{
	if (!look->element)
		return 0;
	if (look->kind == TYPE_VIEW) {
		field->size = taken_of(look->element);
		field->text = view_of(&look->element->view);
	}
	return put_elements(field, look, "");
}

/* How a value of the type is shown. */
static int put_look(struct spec_field *field, const struct type_look *look)
{
	field->type = spec_types[look->kind];
	field->size = look->kind == TYPE_TEXT || look->kind == TYPE_VIEW ? SPEC_TEXT : look->size;
	field->is_signed = look->is_signed;
	field->cut = look->cut;
	field->view = view_of(&look->view);
	if (look->kind == TYPE_LONG_DOUBLE) {
		field->more = strdup("long double");
		return field->more ? 0 : -ENOMEM;
	}
	if (look->kind != TYPE_ENUM && look->kind != TYPE_GUARD && look->kind != TYPE_VARIANT)
		return put_element(field, look);
	if (look->kind == TYPE_GUARD)
		field->absent = strtoull(strchr(look->names, '=') + 1, NULL, 16);
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

/* False: a program does not get there. */
static bool put_place(struct spec_field *field, const struct type_value *value, uint32_t registers)
{
	uint64_t argument = argument_of(value, registers);

	if (argument >= SPEC_SECOND || (!value->in_vector && value->on_stack % 8))
		return false;
	field->argument = (uint8_t)argument;
	field->vector = value->in_vector;
	return true;
}

static int put_field(struct spec_field *field, const struct type_value *value, uint32_t registers)
{
	field->c_type = strdup(value->look.type);
	if (!field->c_type)
		return -ENOMEM;
	if (value->missing)
		return put_missing(field, value->missing);
	if (!put_place(field, value, registers))
		return put_missing(field, "far");
	field->at_address = value->look.kind == TYPE_VIEW && value->at_address;
	field->offset_count = value->indirect;
	return put_look(field, &value->look);
}

/* A result's registers are called otherwise than an argument's. */
static void place_result(struct spec_field *field, const struct type_value *value)
{
	field->argument = value->in_register == 2 ? SPEC_SECOND : 0;
	field->vector = value->in_vector;
	field->second_argument = value->second_register == 2 ? SPEC_SECOND : 0;
	field->second_vector = value->second_vector;
	field->step = value->step;
}

#define LONG_DOUBLE_ROOM 16u /* bytes beside those of any number */
#define TEXTS_ROOM	 (4 * SPEC_TEXTS)

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
	field->guard = member->guard ? (uint8_t)(within + 1 + member->guard) : 0;
	field->first = member->presence.first;
	field->span = member->presence.span;
	field->others = member->presence.others;
	field->c_type = strdup(member->look.type);
	if (!field->c_type)
		return -ENOMEM;
	if (member->look.kind == TYPE_OTHER || length < 0 || (size_t)length >= sizeof(field->name))
		return put_missing(field, member->look.why ? member->look.why : "name");
	return put_look(field, &member->look);
}

/* The texts of a list: without room for them its number is shown alone. */
static void take_texts(struct spec_field *field, struct room *room)
{
	if (field->text.size && room->bytes < TEXTS_ROOM)
		field->text.size = 0;
	if (field->text.size)
		room->bytes -= TEXTS_ROOM;
}

/* Some values take more room than numbers do. */
static int take_room(struct spec_field *field, struct room *room)
{
	take_texts(field, room);
	if (field->type != SPEC_LONG_DOUBLE)
		return 0;
	if (room->bytes < LONG_DOUBLE_ROOM)
		return put_missing(field, "long double");
	room->bytes -= LONG_DOUBLE_ROOM;
	return 0;
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
	for (uint32_t i = 0; i < count && !ret; i++) {
		ret = put_member(out, group, within, &members->list[i]);
		take_texts(&out->fields[out->count - 1], room);
	}
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

static int put_result(struct spec *out, const struct type_value *value, const char *name, struct room *room)
{
	struct spec_field *field = &out->fields[out->count++];
	int ret;

	snprintf(field->name, sizeof(field->name), "%s", name);
	ret = put_field(field, value, 0);
	place_result(field, value);
	if (!ret)
		ret = take_room(field, room);
	return ret ? ret : put_members(out, value, room);
}

static int put_argument(struct spec *out, const struct type_value *value, const char *name, uint32_t registers,
			struct room *room)
{
	struct spec_field *field = &out->fields[out->count++];
	int ret;

	snprintf(field->name, sizeof(field->name), "%s", name);
	ret = put_field(field, value, registers);
	field->second_argument = value->second_on_stack ? (uint8_t)(registers + 1) : value->second_register;
	field->second_vector = value->second_vector;
	field->step = value->step;
	if (!ret)
		ret = take_room(field, room);
	return ret ? ret : put_members(out, value, room);
}

int typed_translate(struct spec *out, const struct typed_function *of, bool result)
{
	const struct type_function *function = &of->function;
	uint32_t all = function->count + function->more;
	uint32_t shown = all > SPEC_FIELDS ? SPEC_FIELDS - 1 : all;
	struct room room = {SPEC_ROWS - (shown < all ? shown + 1 : shown), SPEC_BYTES};
	int ret = 0;

	*out = (struct spec){0};
	if (result) {
		room.rows = SPEC_ROWS - 1;
		return function->has_result ? put_result(out, &function->result, "ret", &room) : 0;
	}
	for (uint32_t i = 0; i < shown && !ret; i++) {
		const struct type_value *value = &function->arguments[i];
		char number[16];

		snprintf(number, sizeof(number), "arg%u", i + 1);
		ret = put_argument(out, value, value->name[0] ? value->name : number, of->registers, &room);
	}
	return !ret && shown < all ? put_rest(out, all - shown) : ret;
}

/* The value alone is left of the last field: not what it leads to. */
static int keep_number(struct spec *out, uint32_t first)
{
	struct spec_field *field = &out->fields[first], address;
	bool leads = field->type == SPEC_STRING || field->at_address;

	if (field->type == SPEC_VIEW && !leads)
		return put_missing(field, field->element_count ? "list" : "text");
	if (!leads)
		return 0;
	while (out->count > first + 1)
		spec_clear_field(&out->fields[--out->count]);
	address = (struct spec_field){.argument = field->argument,
				      .offset_count = field->offset_count,
				      .type = SPEC_POINTER,
				      .size = 8,
				      .c_type = field->c_type};
	memcpy(address.name, field->name, sizeof(address.name));
	field->c_type = NULL;
	spec_clear_field(field);
	*field = address;
	return 0;
}

int typed_registers(struct spec *out, const struct typed_function *of, bool result)
{
	const struct type_function *function = &of->function;
	struct room room = {SPEC_ROWS - REGISTERS_SHOWN - 2, SPEC_BYTES};
	int ret = 0;

	if (result && function->has_result) {
		uint32_t first = out->count;

		ret = put_result(out, &function->result, "ret", &room);
		return ret ? ret : keep_number(out, first);
	}
	for (uint32_t i = 0; !result && i < function->count && i < REGISTERS_SHOWN && !ret; i++) {
		const struct type_value *value = &function->arguments[i];
		uint32_t first = out->count;

		ret = put_argument(out, value, value->name, of->registers, &room);
		if (!ret)
			ret = keep_number(out, first);
	}
	if (!result && !ret && function->count + function->more > REGISTERS_SHOWN) {
		snprintf(out->fields[out->count++].name, SPEC_NAME, "...");
		ret = put_missing(&out->fields[out->count - 1], "more");
	}
	return ret;
}

int typed_read(struct typed_function *out, struct typed *typed, const struct image *image,
	       const struct object_site *source)
{
	struct found found = find(typed, image, source);

	*out = (struct typed_function){.place = (uint32_t)found.place, .registers = typed->registers};
	if (found.place < 0)
		return -ENOENT;
	if (found.prototype) {
		out->types = prototypes_types(typed->prototypes);
		out->symbol = "";
		return prototypes_read(&out->function, typed->prototypes, out->place);
	}
	out->types = found.row->types;
	out->symbol = source->symbol;
	return types_read(&out->function, found.row->types, out->place, source->symbol, source->function,
			  code_of(source));
}

void typed_function_clear(struct typed_function *function)
{
	type_function_clear(&function->function);
}

/* Paths that are being followed. */
struct follower {
	struct spec *out;
	const struct typed_function *of;
	struct room room;
	bool result;
	enum typed_for use;
	char *why; /* TYPED_WHY bytes */
};

/* The argument that a path begins with, or the result; NULL: there is none. */
static const struct type_value *base_of(const struct follower *follower, const char *name)
{
	const struct type_function *function = &follower->of->function;

	if (follower->result)
		return function->has_result ? &function->result : NULL;
	for (uint32_t i = 0; i < function->count; i++)
		if (!strcmp(function->arguments[i].name, name))
			return &function->arguments[i];
	return NULL;
}

/* Show what lies at the end, which is of the kind, as the user says; loads: addresses on the way there. */
static void put_own_type(struct spec_field *field, const struct spec_field *asked, enum type_kind kind, uint8_t loads)
{
	if (kind == TYPE_VIEW)
		return;
	field->type = asked->type;
	field->size = asked->size;
	/* The last offset leads to the text itself. */
	if (asked->type == SPEC_STRING && kind != TYPE_TEXT && kind != TYPE_CHARS && loads)
		field->offset_count++;
	if (asked->type != SPEC_STRING && kind == TYPE_TEXT && loads)
		field->offset_count--;
	free(field->c_type);
	field->c_type = NULL;
	free(field->more);
	field->more = NULL;
}

static int put_end(struct follower *follower, struct spec_field *field, const struct spec_field *asked,
		   const struct type_path *path)
{
	const struct type_value *value = &path->value;
	int ret = put_look(field, &value->look);

	field->c_type = strdup(value->look.type);
	if (ret || !field->c_type)
		return -ENOMEM;
	if (field->type == SPEC_CHARS) {
		field->type = SPEC_STRING;
		field->cut = false;
	}
	field->at_address = value->look.kind == TYPE_VIEW;
	field->offset_count = path->count;
	for (uint8_t i = 0; i < path->count; i++)
		field->offsets[i] = path->offsets[i];
	_Static_assert(SPEC_OFFSETS > TYPES_STEPS, "a text may be one farther");
	if (asked->has_type)
		put_own_type(field, asked, value->look.kind, path->count);
	else if (field->type == SPEC_LONG_DOUBLE || field->text.size)
		return take_room(field, &follower->room);
	else if (follower->use == TYPED_FOR_SHOW)
		return put_members(follower->out, value, &follower->room);
	return 0;
}

static int follow(struct follower *follower, struct spec_field *field, const struct spec_field *asked, const char *name,
		  size_t word)
{
	const struct typed_function *of = follower->of;
	struct type_path path;
	int ret = types_follow(&path, of->types, of->place, of->symbol, follower->result ? NULL : name,
			       asked->path + word);

	if (ret == -EINVAL || ret == -ENOENT)
		snprintf(follower->why, TYPED_WHY, "%s: %s", asked->path, path.why[0] ? path.why : "it leads nowhere");
	if (!ret && path.bits && follower->use != TYPED_FOR_COMPARE) {
		snprintf(follower->why, TYPED_WHY, "%s: a field of bits; its structure shows it", asked->path);
		ret = -EINVAL;
	}
	field->bit = path.bit;
	field->bits = path.bits;
	if (!ret)
		ret = put_end(follower, field, asked, &path);
	type_path_clear(&path);
	return ret == -ENOENT ? -EINVAL : ret;
}

/* Leave out what the last value leads to, from this field on. */
static int make_own(struct follower *follower, uint32_t first)
{
	struct spec *out = follower->out;
	struct spec_field *field = &out->fields[first];

	while (out->count > first + 1)
		spec_clear_field(&out->fields[--out->count]);
	if (field->type != SPEC_GROUP)
		return 0;
	if (!field->at_address) {
		snprintf(follower->why, TYPED_WHY, "%s is a structure: name one of its members", field->name);
		return -EINVAL;
	}
	field->type = SPEC_POINTER;
	field->size = 8;
	field->at_address = false;
	return 0;
}

/* The argument itself, or the result. */
static int put_whole(struct follower *follower, const struct spec_field *asked, const struct type_value *base)
{
	uint32_t first = follower->out->count;
	int ret = follower->result
			  ? put_result(follower->out, base, asked->name, &follower->room)
			  : put_argument(follower->out, base, asked->name, follower->of->registers, &follower->room);

	if (!ret && (follower->use != TYPED_FOR_SHOW || asked->has_type))
		ret = make_own(follower, first);
	if (!ret && asked->has_type && !base->missing)
		put_own_type(&follower->out->fields[first], asked, base->look.kind, 0);
	return ret;
}

/* Put what one path leads to behind the others. */
static int put_path(struct follower *follower, const struct spec_field *asked)
{
	char name[SPEC_NAME];
	size_t word = strcspn(asked->path, "-.[");
	const struct type_value *base;
	struct spec_field *field;

	snprintf(name, sizeof(name), "%.*s", (int)word, asked->path);
	base = base_of(follower, name);
	if (!base) {
		snprintf(follower->why, TYPED_WHY, follower->result ? "it has no result" : "it has no argument '%s'",
			 name);
		return -EINVAL;
	}
	if (!asked->path[word])
		return put_whole(follower, asked, base);
	field = &follower->out->fields[follower->out->count++];
	memcpy(field->name, asked->name, sizeof(field->name));
	/* Where it lies is not known: so nothing can be said of what it leads to. */
	if (base->nowhere || !put_place(field, base, follower->of->registers))
		return put_field(field, base, follower->of->registers);
	if (follower->result)
		place_result(field, base);
	return follow(follower, field, asked, name, word);
}

int typed_follow(struct spec *out, const struct typed_function *of, bool result, const struct spec *asked,
		 enum typed_for use, char why[TYPED_WHY])
{
	struct follower follower = {
		out, of, .room = {SPEC_ROWS - asked->count, SPEC_BYTES}, .result = result, .use = use, .why = why};
	int ret = 0;

	*out = (struct spec){0};
	why[0] = 0;
	for (uint32_t i = 0; i < asked->count && !ret; i++) {
		if (asked->fields[i].path)
			ret = put_path(&follower, &asked->fields[i]);
		else
			out->fields[out->count++] = asked->fields[i]; /* a FETCH owns nothing */
		if (!ret && use != TYPED_FOR_SHOW && asked->fields[i].path &&
		    (out->fields[i].type == SPEC_MISSING ||
		     (use == TYPED_FOR_COUNT && out->fields[i].type == SPEC_LONG_DOUBLE))) {
			snprintf(why, TYPED_WHY, "%s is not available (%s)", asked->fields[i].path,
				 out->fields[i].more);
			ret = -EINVAL;
		}
	}
	return ret;
}
