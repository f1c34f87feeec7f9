/*
 * Following a path such as "->argv[0]->ptr" from a parameter or a result, by the types on the way (types.h).
 *
 * What comes out is a list of offsets: each but the last one leads to an address in memory, the last one to the value.
 * A member is found in base classes and in aggregates without a name, too, as in the language.
 *
 * Callers: types.c.  Context: host.  DWARF is untrusted.
 */
#include <dwarf.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "impl.h"

#define PATH_DEPTH  8u	  /* of base classes and aggregates without a name */
#define SEEN_MAX    4096u /* members that one step looks at */
#define OFFSET_MOST (INT64_C(1) << 30)

/* Where the path has got to. */
struct walker {
	struct type_path *out;
	Dwarf_Die type; /* less typedefs and qualifiers */
	Dwarf_Die said; /* as it was declared */
	const char *at; /* what comes next in the text */
	uint32_t seen;
	uint32_t dimension; /* of an array: indices that have been taken */
};

/* Say why it ends here; false. */
__attribute__((format(printf, 2, 3))) static bool refuse(struct walker *walker, const char *format, ...)
{
	va_list values;

	va_start(values, format);
	(void)vsnprintf(walker->out->why, sizeof(walker->out->why), format, values);
	va_end(values);
	return false;
}

/* What the type that it has got to is called. */
static const char *its(struct walker *walker)
{
	const char *name = type_name(&walker->type);

	name = name ? name : type_name(&walker->said);
	switch (dwarf_tag(&walker->type)) {
	case DW_TAG_pointer_type:
		return "an address";
	case DW_TAG_array_type:
		return "an array";
	default:
		return name ? name : "what has no name";
	}
}

static bool is_reference(Dwarf_Die *type)
{
	int tag = dwarf_tag(type);

	return tag == DW_TAG_reference_type || tag == DW_TAG_rvalue_reference_type;
}

/* What lies there is an address: go where it leads. */
static bool load(struct walker *walker)
{
	if (walker->out->count == TYPES_STEPS)
		return refuse(walker, "%s: the path has too many steps", its(walker));
	walker->out->offsets[walker->out->count++] = 0;
	return true;
}

static bool move(struct walker *walker, int64_t bytes)
{
	int32_t *last;

	/* What goes by value is in registers. */
	if (!walker->out->count)
		return refuse(walker, "%s goes by value, and is not followed", its(walker));
	last = &walker->out->offsets[walker->out->count - 1];
	if (bytes < -OFFSET_MOST || bytes > OFFSET_MOST || *last + bytes < -OFFSET_MOST || *last + bytes > OFFSET_MOST)
		return refuse(walker, "%s: the path leads too far", its(walker));
	*last += (int32_t)bytes;
	return true;
}

/* Come to what is declared with this type.  A reference is what it leads to. */
static bool arrive(struct walker *walker, Dwarf_Die *said)
{
	Dwarf_Die inner;

	walker->said = *said;
	walker->dimension = 0;
	if (!type_peeled(&walker->type, said))
		return refuse(walker, "%s: nothing tells its type", its(walker));
	if (!is_reference(&walker->type))
		return true;
	if (!type_of(&inner, &walker->type) || !load(walker))
		return refuse(walker, "%s: nothing tells what this reference leads to", its(walker));
	walker->said = inner;
	return type_peeled(&walker->type, &inner) && !is_reference(&walker->type);
}

static bool is_address(Dwarf_Die *type)
{
	return dwarf_tag(type) == DW_TAG_pointer_type || type_is_owner(type, NULL);
}

/* Go to what an address, or a class that stands for one, leads to. */
static bool enter(struct walker *walker)
{
	Dwarf_Die pointer = walker->type, inner;

	if (dwarf_tag(&pointer) != DW_TAG_pointer_type && !type_is_owner(&walker->type, &pointer))
		return refuse(walker, "%s is no address, so nothing has '->' or '[]'", its(walker));
	if (!type_of(&inner, &pointer))
		return refuse(walker, "%s: it is the address of anything", its(walker));
	return load(walker) && arrive(walker, &inner);
}

/* A data member, a base class, or an aggregate without a name. */
static bool has_place(Dwarf_Die *die)
{
	int tag = dwarf_tag(die);

	return (tag == DW_TAG_member && !dwarf_hasattr_integrate(die, DW_AT_external) &&
		!dwarf_hasattr_integrate(die, DW_AT_declaration)) ||
	       tag == DW_TAG_inheritance;
}

static bool is_called(Dwarf_Die *die, const char *name, size_t length)
{
	const char *its = dwarf_tag(die) == DW_TAG_member ? type_name(die) : NULL;

	return its && strlen(its) == length && !memcmp(its, name, length);
}

/* Bytes from the aggregate's beginning; false: only the running program knows, as of a virtual base class. */
static bool offset_of(uint64_t *offset, Dwarf_Die *die)
{
	*offset = 0;
	return !dwarf_hasattr_integrate(die, DW_AT_data_member_location) ||
	       type_number(offset, die, DW_AT_data_member_location);
}

/* Of a field of bits: the number that has them, of its type's size. */
static bool place_bits(struct type_path *out, Dwarf_Die *die, Dwarf_Die *type, uint64_t *offset)
{
	uint64_t bits, first, all;
	Dwarf_Word size;

	out->bit = out->bits = 0;
	if (!type_number(&bits, die, DW_AT_bit_size))
		return offset_of(offset, die);
	if (dwarf_aggregate_size(type, &size) || !size || size > 8 || !type_bits_at(&first, die, bits, size))
		return false;
	all = 8 * size;
	*offset = first / all * size;
	if (!bits || first % all + bits > all)
		return false;
	out->bit = (uint8_t)(first % all);
	out->bits = (uint8_t)(bits == all ? 0 : bits);
	return true;
}

/* Find the member, whose place in the aggregate is *offset. */
static bool find_member(struct walker *walker, Dwarf_Die *aggregate, const char *name, size_t length, uint64_t *offset,
			Dwarf_Die *said, uint32_t depth)
{
	Dwarf_Die child, type;

	if (depth == PATH_DEPTH || dwarf_child(aggregate, &child))
		return false;
	do {
		uint64_t within = 0;

		if (walker->seen++ >= SEEN_MAX)
			return false;
		if (!has_place(&child) || !type_of(said, &child) || !type_peeled(&type, said))
			continue;
		if (is_called(&child, name, length))
			return place_bits(walker->out, &child, &type, offset);
		if ((dwarf_tag(&child) == DW_TAG_member && type_name(&child)) || !type_is_aggregate(&type))
			continue;
		if (find_member(walker, &type, name, length, &within, said, depth + 1) && offset_of(offset, &child)) {
			*offset += within;
			return true;
		}
	} while (!dwarf_siblingof(&child, &child));
	return false;
}

static bool is_word(char letter)
{
	return (letter >= '0' && letter <= '9') || (letter >= 'a' && letter <= 'z') ||
	       (letter >= 'A' && letter <= 'Z') || letter == '_';
}

static bool take_member(struct walker *walker)
{
	char name[TYPES_MEMBER_NAME];
	uint64_t offset = 0;
	size_t length = 0;
	Dwarf_Die said;

	while (is_word(walker->at[length]))
		length++;
	(void)snprintf(name, sizeof(name), "%.*s", (int)length, walker->at);
	if (!length)
		return refuse(walker, "%s: a member's name is missing", its(walker));
	if (!type_is_aggregate(&walker->type))
		return refuse(walker, "%s has no members, so no '%s'", its(walker), name);
	if (dwarf_hasattr_integrate(&walker->type, DW_AT_declaration))
		return refuse(walker, "%s is declared alone where this function is, so nothing tells its '%s'",
			      its(walker), name);
	walker->seen = 0;
	if (!find_member(walker, &walker->type, walker->at, length, &offset, &said, 0))
		return refuse(walker, "%s has no member '%s'", its(walker), name);
	walker->at += length;
	return move(walker, (int64_t)(offset > INT32_MAX ? INT64_MAX : offset)) && arrive(walker, &said);
}

/* What an index of an array leads to. */
struct indexed {
	Dwarf_Die element; /* the type of what has all indices */
	uint64_t size;	   /* bytes from one to the next */
	uint64_t count;	   /* 0: nobody says, as of an array that is the end of something larger */
	bool last;	   /* there is no other dimension */
};

/* False: it is none, or not one whose dimensions are known. */
static bool index_of(struct indexed *out, const struct walker *walker)
{
	Dwarf_Die array = walker->type, peeled;
	uint64_t counts[TYPES_DIMENSIONS];
	uint32_t dimensions;
	Dwarf_Word bytes;

	if (dwarf_tag(&array) != DW_TAG_array_type || !type_of(&out->element, &array) ||
	    !type_peeled(&peeled, &out->element) || dwarf_aggregate_size(&peeled, &bytes) || bytes > INT32_MAX)
		return false;
	dimensions = type_dimensions(counts, &array);
	if (dimensions <= walker->dimension || dimensions > TYPES_DIMENSIONS)
		return false;
	out->size = bytes;
	for (uint32_t i = walker->dimension + 1; i < dimensions && out->size <= INT32_MAX; i++)
		out->size *= counts[i];
	out->count = counts[walker->dimension];
	out->last = walker->dimension + 1 == dimensions;
	return out->size <= INT32_MAX;
}

static bool take_index(struct walker *walker)
{
	struct indexed indexed;
	Dwarf_Die peeled;
	Dwarf_Word bytes;
	char *end;
	long number = strtol(walker->at, &end, 0);

	if (end == walker->at || *end != ']' || number < -OFFSET_MOST || number > OFFSET_MOST)
		return refuse(walker, "%s: an index is a number, as in [0]", its(walker));
	walker->at = end + 1;
	if (index_of(&indexed, walker)) {
		if (number < 0 || (indexed.count && (uint64_t)number >= indexed.count))
			return refuse(walker, "%s: the index is outside of the array", its(walker));
		if (!move(walker, number * (int64_t)indexed.size))
			return false;
		walker->dimension++;
		return !indexed.last || arrive(walker, &indexed.element);
	}
	if (!enter(walker))
		return false;
	peeled = walker->type;
	if (dwarf_aggregate_size(&peeled, &bytes) || bytes > INT32_MAX)
		return refuse(walker, "%s: nothing tells its size, so there is none behind it", its(walker));
	return move(walker, number * (int64_t)bytes);
}

static bool take_step(struct walker *walker)
{
	if (!strncmp(walker->at, "->", 2)) {
		walker->at += 2;
		return enter(walker) && take_member(walker);
	}
	if (*walker->at == '.') {
		walker->at++;
		/* Of an address it is "->", as debuggers have it. */
		return (!is_address(&walker->type) || enter(walker)) && take_member(walker);
	}
	if (*walker->at == '[') {
		walker->at++;
		return take_index(walker);
	}
	return refuse(walker, "%s: a path goes on with '->', '.' or '['", its(walker));
}

/* How the value at the end is shown; what it leads to, as of an argument. */
static int look_at_end(struct walker *walker, const char *symbol)
{
	struct type_value *value = &walker->out->value;
	Dwarf_Die inner, peeled;
	int ret = type_look(&value->look, &walker->said);

	if (!ret && value->look.kind == TYPE_OTHER &&
	    (walker->dimension || !type_look_at_chars(&value->look, &walker->type, TYPES_BYTES)))
		ret = type_look_at_view(&value->look, &walker->type, symbol);
	if (ret)
		return ret;
	value->at_address = value->look.kind == TYPE_POINTER || value->look.kind == TYPE_VIEW;
	if (value->look.kind == TYPE_OTHER) {
		(void)refuse(walker, "%s %s", its(walker),
			     type_is_aggregate(&walker->type) ? "is a structure: name one of its members"
			     : dwarf_tag(&walker->type) == DW_TAG_array_type
				     ? "is not shown: name an element, as in [0]"
				     : "is a type whose values are not shown");
		return -EINVAL;
	}
	if (value->look.kind != TYPE_POINTER || dwarf_tag(&walker->type) != DW_TAG_pointer_type ||
	    !type_of(&inner, &walker->type) || !type_peeled(&peeled, &inner))
		return 0;
	ret = type_look_at_view(&value->look, &peeled, symbol);
	if (ret || value->look.kind == TYPE_VIEW) {
		if (!ret && !load(walker))
			ret = -EINVAL;
		return ret;
	}
	return type_members_read(&value->members, &peeled);
}

int path_follow(struct type_path *out, Dwarf_Die *declared, bool by_address, const char *symbol, const char *path)
{
	struct walker walker = {.out = out, .at = path};
	int ret;

	*out = (struct type_path){.value = {.look = {.kind = TYPE_OTHER}}};
	if (!type_peeled(&walker.type, declared))
		return -EINVAL;
	walker.said = *declared;
	if (is_reference(&walker.type) ? !arrive(&walker, declared) : by_address && !load(&walker))
		return -EINVAL;
	while (*walker.at)
		if (out->bits ? !refuse(&walker, "%s: a field of bits has no members", its(&walker))
			      : !take_step(&walker))
			return -EINVAL;
	ret = look_at_end(&walker, symbol);
	if (!ret && out->value.look.kind == TYPE_TEXT && out->count && !load(&walker))
		ret = -EINVAL;
	return ret;
}

void type_path_clear(struct type_path *path)
{
	type_look_clear(&path->value.look);
	type_members_clear(&path->value.members);
}
