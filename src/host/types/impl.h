/*
 * What the files of this room share (types.h).  Context: host.
 */
#ifndef HOST_TYPES_IMPL_H
#define HOST_TYPES_IMPL_H

#include <elfutils/libdw.h>
#include <stdbool.h>
#include <stdint.h>

#include "abi_x86_64.h"
#include "types.h"

#define TYPE_DEPTH 32u /* types within types */

/* The type that a DIE's DW_AT_type names, also by way of what it was made from; false: none. */
bool type_of(Dwarf_Die *out, Dwarf_Die *die);
/* The same less its typedefs and qualifiers. */
bool type_peeled(Dwarf_Die *out, Dwarf_Die *die);

/* A number that the DIE has under this name, also by way of what it was made from; false: none. */
bool type_number(uint64_t *number, Dwarf_Die *die, unsigned name);

/* True for the type `char`: an address of it is taken for a text's. */
bool type_is_char(Dwarf_Die *type);
/* Where the bits of a field begin, from its structure's first one on; size: of its type.  False: nobody says. */
bool type_bits_at(uint64_t *at, Dwarf_Die *member, uint64_t bits, uint64_t size);

/* How the calling convention sees the type of a parameter or a result (classify.c). */
struct abi_type type_classify(Dwarf_Die *type, bool cxx);

/* How values of a type are shown (show.c); -ENOMEM.  names are for free(), whatever is returned. */
int type_look(struct type_look *out, Dwarf_Die *type) __attribute__((warn_unused_result));

/*
 * What is shown of a type that is a structure, a union or a class (members.c); of others, nothing.  -ENOMEM.  For
 * type_members_clear(), whatever is returned.
 */
int type_members_read(struct type_members *out, Dwarf_Die *type) __attribute__((warn_unused_result));
void type_members_clear(struct type_members *members);
/* What an address or a reference leads to; false: the type is no such, or it leads to anything. */
bool type_pointee(Dwarf_Die *out, Dwarf_Die *type);

/* Where the compiler says that a parameter is, at the function's first instruction (place.c). */
enum place_at {
	PLACE_NONE,	/* it says nothing: there is no parameter any more */
	PLACE_REGISTER, /* an integer register of arguments */
	PLACE_VECTOR,	/* a vector register of arguments */
	PLACE_STACK,	/* a word of arguments on the stack */
	PLACE_HOME,	/* where the function will store it: nothing about where it comes from */
	PLACE_OTHER	/* elsewhere, or in pieces, or a number that is known */
};
struct place {
	uint8_t at;	/* enum place_at */
	uint8_t number; /* of the register, from 0 on */
	uint32_t offset;
	/* In two registers: the second one; else PLACE_NONE. */
	uint8_t second_at, second_number;
};
/* by_address: of the address that goes in the value's place. */
struct place place_find(Dwarf_Die *function, Dwarf_Die *parameter, uint64_t address, bool by_address);

/* What is known of a function besides its DIE. */
struct function_about {
	uint64_t address, code; /* of the first instruction, of the first one of its own */
	const char *symbol;
	bool is_global; /* others may call it, so no compiler changes how it is called */
};
int function_read(struct type_function *out, Dwarf_Die *function, const struct function_about *about)
	__attribute__((warn_unused_result));

#endif
