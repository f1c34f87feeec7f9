/*
 * The members of structures, unions and classes: what is read of one, and how it is shown (types.h).
 *
 * What lies within another aggregate is a member of its own, "position.x"; what a base class or an aggregate without a
 * name has is the outer one's.  Nothing is followed from here: a member that is an address is shown as one, or as the
 * text there.
 *
 * Callers: function.c.  Context: host.  DWARF is untrusted.
 */
#include <dwarf.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "impl.h"

struct reader {
	struct type_members *out;
	uint32_t seen; /* members, those that had no room among them */
	/* Of what is read (struct type_member). */
	uint8_t guard;
	struct type_presence presence;
	int error;
	struct type_nest *nest; /* NULL: what is read is no element of a list */
};

#define VARIANT_NAMES 4096u /* bytes of the names of variants; the others are shown as numbers */
#define SEEN_MAX      4096u /* then the rest is left out unseen */

static void add_aggregate(struct reader *reader, Dwarf_Die *type, const char *prefix, uint64_t offset, uint32_t depth);
static void add_structure(struct reader *reader, Dwarf_Die *type, const char *prefix, uint64_t offset, uint32_t depth);

bool type_is_aggregate(Dwarf_Die *type)
{
	int tag = dwarf_tag(type);

	return tag == DW_TAG_structure_type || tag == DW_TAG_union_type || tag == DW_TAG_class_type;
}

/* What a std::string of which there is no more than its name has room for is what it is. */
static const char *symbol_by_bytes(uint64_t bytes)
{
	return bytes >= 24 && bytes < 32 ? "" : bytes >= 32 && bytes < 40 ? "cxx11" : NULL;
}

static bool is_view(Dwarf_Die *type, uint64_t bytes)
{
	const char *symbol = symbol_by_bytes(bytes);
	struct type_view view;

	return type_view_find(&view, type, NULL, NULL) || (symbol && type_view_declared(&view, type, symbol));
}

static void leave_out(struct reader *reader)
{
	reader->out->cut = true;
}

bool type_look_at_chars(struct type_look *look, Dwarf_Die *type, uint64_t unsized)
{
	Dwarf_Die element, peeled;
	Dwarf_Word size;

	if (dwarf_tag(type) != DW_TAG_array_type || !type_has_one_dimension(type) || !type_of(&element, type) ||
	    !type_peeled(&peeled, &element) || !type_is_char(&peeled))
		return false;
	if (dwarf_aggregate_size(type, &size) || !size)
		size = unsized;
	if (!size)
		return false;
	look->kind = TYPE_CHARS;
	look->why = NULL;
	look->cut = size > TYPES_BYTES;
	look->size = (uint8_t)(look->cut ? TYPES_BYTES : size);
	return true;
}

/* Of an array that goes on behind the bytes that are read, what lies before their end. */
static void cut_array(struct type_member *member)
{
	uint32_t unit = member->look.kind == TYPE_ARRAY ? member->look.element->stride : 1, room;

	if ((member->look.kind != TYPE_CHARS && member->look.kind != TYPE_ARRAY) || member->offset >= TYPES_BYTES ||
	    member->offset + member->look.size <= TYPES_BYTES)
		return;
	room = (TYPES_BYTES - member->offset) / unit * unit;
	if (!room)
		return;
	member->look.size = (uint8_t)room;
	member->look.cut = true;
}

/* Where the member's bits lie: in a number of its type's size that is aligned as such; false: in none. */
static bool place_bits(struct type_member *member, uint64_t first, uint64_t bits)
{
	uint64_t all = 8ull * member->look.size, at = first / all * all;

	if (!bits || first + bits > at + all || at / 8 > UINT32_MAX)
		return false;
	member->offset = (uint32_t)(at / 8);
	member->bit = (uint8_t)(first - at);
	member->bits = (uint8_t)(bits == all ? 0 : bits);
	return true;
}

/* Where the member lies in the outermost aggregate, `offset` being the place of the one that has it. */
static bool place_member(struct type_member *member, Dwarf_Die *die, Dwarf_Die *type, uint64_t offset)
{
	uint64_t bits, first, at = 0;
	Dwarf_Word size;

	if (type_number(&bits, die, DW_AT_bit_size)) {
		if (!member->look.size || dwarf_aggregate_size(type, &size) || !type_bits_at(&first, die, bits, size))
			return false;
		return place_bits(member, 8 * offset + first, bits);
	}
	if (dwarf_hasattr_integrate(die, DW_AT_data_member_location) &&
	    !type_number(&at, die, DW_AT_data_member_location))
		return false; /* an expression, as virtual base classes have */
	member->offset = (uint32_t)(offset + at);
	return offset + at < TYPES_BYTES;
}

/* die NULL: it lies right at `offset`. */
static bool place_at(struct type_member *member, Dwarf_Die *die, Dwarf_Die *type, uint64_t offset)
{
	if (die)
		return place_member(member, die, type, offset);
	member->offset = (uint32_t)offset;
	return offset < TYPES_BYTES;
}

static bool has_room(struct reader *reader, struct type_member *member)
{
	const struct type_members *out = reader->out;
	uint32_t end;

	cut_array(member);
	end = member->offset + member->look.size;

	return out->count < TYPES_MEMBERS && end <= TYPES_BYTES && (!reader->nest || reader->nest->rows);
}

/* The member has room (has_room()), or is a name without a value. */
static void put_member(struct reader *reader, const struct type_member *member)
{
	struct type_members *out = reader->out;

	if (member->offset + member->look.size > out->size)
		out->size = member->offset + member->look.size;
	out->list[out->count++] = *member;
	if (reader->nest && reader->nest->rows)
		reader->nest->rows--;
}

/* Bytes from the member's first one up to the next member's, or to the end; 0: nobody says. */
static uint64_t bytes_up_to_next(Dwarf_Die *die, Dwarf_Die *outer)
{
	Dwarf_Die next = *die;
	Dwarf_Word end;
	uint64_t at;

	if (!type_number(&at, die, DW_AT_data_member_location))
		return 0;
	while (!dwarf_siblingof(&next, &next))
		if (dwarf_tag(&next) == DW_TAG_member && type_number(&end, &next, DW_AT_data_member_location))
			return end > at ? end - at : 0;
	return !dwarf_aggregate_size(outer, &end) && end > at ? end - at : 0;
}

/* What is not shown by itself: an array, and a class that stands for a text. */
static int look_at_other(struct reader *reader, struct type_look *look, Dwarf_Die *type, uint64_t bytes)
{
	struct type_nest nest = {0, TYPES_ROWS};

	if (type_look_at_chars(look, type, 0))
		return 0;
	if (dwarf_tag(type) == DW_TAG_array_type)
		return type_look_at_array(look, type, reader->nest ? reader->nest : &nest);
	return type_look_at_view(look, type, symbol_by_bytes(bytes));
}

/* An element of a list is its bytes: what its addresses lead to is not read. */
static void make_near(struct type_look *look)
{
	bool is_list = look->element;

	if (look->kind == TYPE_TEXT)
		look->kind = TYPE_POINTER;
	if (look->kind != TYPE_VIEW)
		return;
	type_look_clear(look);
	look->kind = TYPE_OTHER;
	look->why = is_list ? "list" : "text";
}

static void add_simple(struct reader *reader, Dwarf_Die *die, Dwarf_Die *type, const char *name, uint64_t offset,
		       uint64_t bytes)
{
	struct type_members *out = reader->out;
	struct type_member member = {.guard = reader->guard, .presence = reader->presence};
	Dwarf_Die peeled;

	if (!type_peeled(&peeled, type) || out->count == TYPES_MEMBERS) {
		leave_out(reader);
		return;
	}
	reader->error = type_look(&member.look, type);
	if (!reader->error && member.look.kind == TYPE_OTHER)
		reader->error = look_at_other(reader, &member.look, &peeled, bytes);
	if (!reader->error && reader->nest)
		make_near(&member.look);
	if (!reader->error && member.look.kind == TYPE_OTHER) {
		/* It has a name, and why it is not shown in place of a value. */
		member.look.size = 0;
	} else if (!reader->error && (!place_at(&member, die, &peeled, offset) || !has_room(reader, &member))) {
		leave_out(reader);
		type_look_clear(&member.look);
		return;
	}
	if (member.look.kind == TYPE_VIEW && member.offset % 8)
		member.look.kind = TYPE_OTHER, member.look.why = "packed", member.look.size = 0;
	memcpy(member.name, name, sizeof(member.name));
	if (reader->error) {
		type_look_clear(&member.look);
		return;
	}
	put_member(reader, &member);
}

/* name: the member's own, NULL or "" = it has none. */
static bool join(char out[TYPES_MEMBER_NAME], const char *prefix, const char *name)
{
	int length;

	if (!name || !name[0])
		length = snprintf(out, TYPES_MEMBER_NAME, "%s", prefix);
	else
		length = snprintf(out, TYPES_MEMBER_NAME, "%s%s%s", prefix, prefix[0] ? "." : "", name);
	return length >= 0 && (uint32_t)length < TYPES_MEMBER_NAME;
}

static bool is_simple(Dwarf_Die *type, uint64_t bytes)
{
	return is_view(type, bytes) || type_is_owner(type, NULL);
}

/* The number that says whether there is a value; false: it has no room. */
static bool add_guard(struct reader *reader, const struct type_optional *optional, const char *prefix, uint64_t offset)
{
	struct type_member member = {
		.guard = reader->guard,
		.presence = reader->presence,
		.offset = (uint32_t)(offset + optional->guard_at),
		.look = {.kind = TYPE_GUARD, .size = optional->guard_size, .type = "bool"},
	};

	if (offset + optional->guard_at >= TYPES_BYTES || !has_room(reader, &member) ||
	    !join(member.name, prefix, "has_value"))
		return false;
	if (asprintf(&member.look.names, "%s=%" PRIx64, optional->none, optional->absent) < 0) {
		reader->error = -ENOMEM;
		return false;
	}
	put_member(reader, &member);
	return true;
}

/* False: the type is none that has a value or not. */
static bool add_optional(struct reader *reader, Dwarf_Die *type, const char *prefix, uint64_t offset, uint32_t depth)
{
	char name[TYPES_MEMBER_NAME] = {0};
	struct type_optional optional;
	uint64_t at, bytes;
	struct type_presence presence = reader->presence;
	uint8_t guard = reader->guard;
	Dwarf_Word size = 0;
	Dwarf_Die value;

	if (!type_optional_find(&optional, type))
		return false;
	if (depth > TYPES_MEMBER_DEPTH || !type_peeled(&value, &optional.value) || !join(name, prefix, "value") ||
	    !add_guard(reader, &optional, prefix, offset)) {
		leave_out(reader);
		return true;
	}
	reader->guard = (uint8_t)reader->out->count;
	reader->presence = (struct type_presence){optional.absent, 0, true};
	at = offset + optional.value_at;
	/* A class of which there is no more than its name ends before the number at the latest. */
	if (!dwarf_aggregate_size(&value, &size))
		bytes = size;
	else
		bytes = optional.guard_at > optional.value_at ? optional.guard_at - optional.value_at : 0;
	if (!type_is_aggregate(&value) || is_simple(&value, bytes))
		add_simple(reader, NULL, &optional.value, name, at, bytes);
	else if (at >= TYPES_BYTES)
		leave_out(reader);
	else
		add_structure(reader, &value, name, at, depth + 1);
	reader->guard = guard;
	reader->presence = presence;
	return true;
}

/* The number that tells which variant there is; false: it has no room. */
static bool add_number(struct reader *reader, const struct type_variants *variants, const char *prefix, uint64_t offset)
{
	struct type_member member = {
		.guard = reader->guard,
		.presence = reader->presence,
		.offset = (uint32_t)(offset + variants->at),
		.look = {.kind = TYPE_VARIANT, .size = variants->size, .type = "enum"},
	};

	if (offset + variants->at >= TYPES_BYTES || !has_room(reader, &member) || !join(member.name, prefix, "variant"))
		return false;
	member.look.names = calloc(1, VARIANT_NAMES);
	if (!member.look.names) {
		reader->error = -ENOMEM;
		return false;
	}
	put_member(reader, &member);
	return true;
}

/* Put the variant's name behind the others'; a name that has no room is left out. */
static void put_name(char names[VARIANT_NAMES], const struct type_variant *variant, uint32_t members)
{
	size_t used = strlen(names);
	char number[20] = "*";
	int length;

	if (variant->has_number)
		snprintf(number, sizeof(number), "%" PRIx64, variant->number);
	length = snprintf(names + used, VARIANT_NAMES - used, "%s%s=%s:%x", used ? "," : "", variant->name, number,
			  members);
	if (length < 0 || (size_t)length >= VARIANT_NAMES - used)
		names[used] = 0;
}

static struct type_presence presence_of(const struct type_variants *variants, const struct type_variant *variant)
{
	if (!variants->has_number)
		return (struct type_presence){0, UINT64_MAX, false};
	return variant->has_number ? (struct type_presence){variant->number, 0, false}
				   : (struct type_presence){variants->first, variants->span, true};
}

/* Add the variant's members, and its name with how many there are. */
static void add_variant(struct reader *reader, const struct type_variants *variants, uint32_t i, const char *prefix,
			uint64_t offset, uint32_t depth)
{
	const struct type_variant *variant = &variants->list[i];
	struct type_members *out = reader->out;
	char name[TYPES_MEMBER_NAME] = {0};
	uint32_t before = out->count;
	bool cut = out->cut;
	Dwarf_Die type = variant->type;

	reader->presence = presence_of(variants, variant);
	out->cut = false;
	if (join(name, prefix, variant->name) && offset + variant->at <= UINT32_MAX)
		add_aggregate(reader, &type, name, offset + variant->at, depth);
	else
		leave_out(reader);
	put_name(out->list[reader->guard - 1].look.names, variant, out->count - before + out->cut);
	out->cut = cut; /* the name says it */
}

/* False: the type is none of Rust's enumerations with data, or none that is known. */
static bool add_variants(struct reader *reader, Dwarf_Die *type, const char *prefix, uint64_t offset, uint32_t depth)
{
	struct type_presence presence = reader->presence;
	uint8_t guard = reader->guard;
	struct type_variants variants;

	if (!type_variants_find(&variants, type))
		return false;
	if (depth > TYPES_MEMBER_DEPTH || !add_number(reader, &variants, prefix, offset)) {
		leave_out(reader);
		return true;
	}
	reader->guard = (uint8_t)reader->out->count;
	for (uint32_t i = 0; i < variants.count && !reader->error; i++)
		add_variant(reader, &variants, i, prefix, offset, depth + 1);
	reader->guard = guard;
	reader->presence = presence;
	return true;
}

static void add_member(struct reader *reader, Dwarf_Die *die, Dwarf_Die *outer, const char *prefix, uint64_t offset,
		       uint32_t depth)
{
	bool base = dwarf_tag(die) == DW_TAG_inheritance;
	char name[TYPES_MEMBER_NAME] = {0};
	struct type_member member = {.offset = 0};
	Dwarf_Die type, peeled;
	uint64_t bytes;

	/* Static members lie elsewhere, and what the compiler has put in is nobody's business. */
	if (dwarf_hasattr_integrate(die, DW_AT_external) || dwarf_hasattr_integrate(die, DW_AT_declaration) ||
	    dwarf_hasattr_integrate(die, DW_AT_artificial))
		return;
	if (!type_of(&type, die) || !type_peeled(&peeled, &type) || !join(name, prefix, base ? NULL : type_name(die))) {
		leave_out(reader);
		return;
	}
	bytes = bytes_up_to_next(die, outer);
	if (type_is_aggregate(&peeled) && (base || !is_simple(&peeled, bytes))) {
		if (!place_member(&member, die, &peeled, offset))
			leave_out(reader);
		else if (base)
			add_aggregate(reader, &peeled, name, member.offset, depth + 1);
		else
			add_structure(reader, &peeled, name, member.offset, depth + 1);
		return;
	}
	/* Padding bits have no name. */
	if (name[0] && type_name(die))
		add_simple(reader, die, &type, name, offset, bytes);
}

static void add_aggregate(struct reader *reader, Dwarf_Die *type, const char *prefix, uint64_t offset, uint32_t depth)
{
	Dwarf_Die child;

	if (depth > TYPES_MEMBER_DEPTH || dwarf_hasattr_integrate(type, DW_AT_declaration)) {
		leave_out(reader);
		return;
	}
	if (dwarf_child(type, &child))
		return;
	do {
		int tag = dwarf_tag(&child);

		if (tag != DW_TAG_member && tag != DW_TAG_inheritance)
			continue;
		if (reader->seen++ >= SEEN_MAX || reader->out->count == TYPES_MEMBERS) {
			leave_out(reader);
			return;
		}
		add_member(reader, &child, type, prefix, offset, depth);
	} while (!reader->error && !dwarf_siblingof(&child, &child));
}

/* What has a value or none, one of several, or all that it has. */
static void add_structure(struct reader *reader, Dwarf_Die *type, const char *prefix, uint64_t offset, uint32_t depth)
{
	if (!add_optional(reader, type, prefix, offset, depth) && !add_variants(reader, type, prefix, offset, depth))
		add_aggregate(reader, type, prefix, offset, depth);
}

static int read_members(struct type_members *out, Dwarf_Die *type, struct type_nest *nest)
{
	struct reader reader = {.out = out, .nest = nest};
	Dwarf_Die peeled;

	*out = (struct type_members){0};
	if (!type_peeled(&peeled, type) || !type_is_aggregate(&peeled) ||
	    dwarf_hasattr_integrate(&peeled, DW_AT_declaration))
		return 0;
	out->list = calloc(TYPES_MEMBERS, sizeof(*out->list));
	if (!out->list)
		return -ENOMEM;
	add_structure(&reader, &peeled, "", 0, 0);
	/* Nothing to read: all members are of kinds that cannot be shown, or there are none. */
	if (!out->size)
		type_members_clear(out);
	return reader.error;
}

int type_members_read(struct type_members *out, Dwarf_Die *type)
{
	return read_members(out, type, NULL);
}

int type_members_of_element(struct type_members *out, Dwarf_Die *type, struct type_nest *nest)
{
	int ret;

	nest->depth++;
	ret = read_members(out, type, nest);
	nest->depth--;
	return ret;
}

bool type_pointee(Dwarf_Die *out, Dwarf_Die *type)
{
	Dwarf_Die peeled;
	int tag;

	if (!type_peeled(&peeled, type))
		return false;
	tag = dwarf_tag(&peeled);
	return (tag == DW_TAG_pointer_type || tag == DW_TAG_reference_type || tag == DW_TAG_rvalue_reference_type) &&
	       type_of(out, &peeled);
}

void type_members_clear(struct type_members *members)
{
	for (uint32_t i = 0; i < members->count; i++)
		type_look_clear(&members->list[i].look);
	free(members->list);
	*members = (struct type_members){0};
}
