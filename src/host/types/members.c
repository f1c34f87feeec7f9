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
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "impl.h"

struct reader {
	struct type_members *out;
	uint32_t seen; /* members, those that had no room among them */
	int error;
};

#define SEEN_MAX 4096u /* then the rest is left out unseen */

static void add_aggregate(struct reader *reader, Dwarf_Die *type, const char *prefix, uint64_t offset, uint32_t depth);

static bool is_aggregate(Dwarf_Die *type)
{
	int tag = dwarf_tag(type);

	return tag == DW_TAG_structure_type || tag == DW_TAG_union_type || tag == DW_TAG_class_type;
}

static void leave_out(struct reader *reader)
{
	reader->out->cut = true;
}

/* An array of char is a text that ends with it, or before; of a long one the beginning counts. */
static bool look_at_array(struct type_look *look, Dwarf_Die *type)
{
	Dwarf_Die element, peeled;
	Dwarf_Word size;

	if (dwarf_tag(type) != DW_TAG_array_type || !type_of(&element, type) || !type_peeled(&peeled, &element) ||
	    !type_is_char(&peeled) || dwarf_aggregate_size(type, &size) || !size)
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
	if (member->look.kind != TYPE_CHARS || member->offset >= TYPES_BYTES ||
	    member->offset + member->look.size <= TYPES_BYTES)
		return;
	member->look.size = (uint8_t)(TYPES_BYTES - member->offset);
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

static bool has_room(struct reader *reader, struct type_member *member)
{
	const struct type_members *out = reader->out;
	uint32_t end;

	cut_array(member);
	end = member->offset + member->look.size;

	return out->count < TYPES_MEMBERS && end <= TYPES_BYTES;
}

static void add_simple(struct reader *reader, Dwarf_Die *die, Dwarf_Die *type, const char *name, uint64_t offset)
{
	struct type_members *out = reader->out;
	struct type_member member = {.offset = 0};
	Dwarf_Die peeled;

	if (!type_peeled(&peeled, type) || out->count == TYPES_MEMBERS) {
		leave_out(reader);
		return;
	}
	reader->error = type_look(&member.look, type);
	if (!reader->error && member.look.kind == TYPE_OTHER && !look_at_array(&member.look, &peeled)) {
		/* It has a name, and why it is not shown in place of a value. */
		member.look.size = 0;
	} else if (!reader->error && (!place_member(&member, die, &peeled, offset) || !has_room(reader, &member))) {
		leave_out(reader);
		free(member.look.names);
		return;
	}
	memcpy(member.name, name, sizeof(member.name));
	if (reader->error) {
		free(member.look.names);
		return;
	}
	if (member.offset + member.look.size > out->size)
		out->size = member.offset + member.look.size;
	out->list[out->count++] = member;
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

static void add_member(struct reader *reader, Dwarf_Die *die, const char *prefix, uint64_t offset, uint32_t depth)
{
	bool base = dwarf_tag(die) == DW_TAG_inheritance;
	char name[TYPES_MEMBER_NAME] = {0};
	struct type_member member = {.offset = 0};
	Dwarf_Die type, peeled;

	/* Static members lie elsewhere, and what the compiler has put in is nobody's business. */
	if (dwarf_hasattr_integrate(die, DW_AT_external) || dwarf_hasattr_integrate(die, DW_AT_declaration) ||
	    dwarf_hasattr_integrate(die, DW_AT_artificial))
		return;
	if (!type_of(&type, die) || !type_peeled(&peeled, &type) ||
	    !join(name, prefix, base ? NULL : dwarf_diename(die))) {
		leave_out(reader);
		return;
	}
	if (is_aggregate(&peeled)) {
		if (place_member(&member, die, &peeled, offset))
			add_aggregate(reader, &peeled, name, member.offset, depth + 1);
		else
			leave_out(reader);
		return;
	}
	/* Padding bits have no name. */
	if (name[0] && dwarf_diename(die))
		add_simple(reader, die, &type, name, offset);
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
		add_member(reader, &child, prefix, offset, depth);
	} while (!reader->error && !dwarf_siblingof(&child, &child));
}

int type_members_read(struct type_members *out, Dwarf_Die *type)
{
	struct reader reader = {.out = out};
	Dwarf_Die peeled;

	*out = (struct type_members){0};
	if (!type_peeled(&peeled, type) || !is_aggregate(&peeled) ||
	    dwarf_hasattr_integrate(&peeled, DW_AT_declaration))
		return 0;
	out->list = calloc(TYPES_MEMBERS, sizeof(*out->list));
	if (!out->list)
		return -ENOMEM;
	add_aggregate(&reader, &peeled, "", 0, 0);
	/* Nothing to read: all members are of kinds that cannot be shown, or there are none. */
	if (!out->size)
		type_members_clear(out);
	return reader.error;
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
		free(members->list[i].look.names);
	free(members->list);
	*members = (struct type_members){0};
}
