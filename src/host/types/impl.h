/*
 * What the files of this room share (types.h).  Context: host.
 */
#ifndef HOST_TYPES_IMPL_H
#define HOST_TYPES_IMPL_H

#include <elfutils/libdw.h>
#include <stdbool.h>
#include <stdint.h>

#include "abi.h"
#include "prologue.h"
#include "types.h"

#define TYPE_DEPTH 32u /* types within types */

/* What dwarf_formstring() and dwarf_diename() tell, if it has an end (text.c). */
const char *type_text(Dwarf_Attribute *attribute);
const char *type_name(Dwarf_Die *die);

/* The type that a DIE's DW_AT_type names, also by way of what it was made from; false: none. */
bool type_of(Dwarf_Die *out, Dwarf_Die *die);
/* The same less its typedefs and qualifiers. */
bool type_peeled(Dwarf_Die *out, Dwarf_Die *die);

/* Call `see` for each function of the unit, until it returns an error (walk.c). */
int functions_each(Dwarf_Die *unit, int (*see)(Dwarf_Die *die, void *ctx), void *ctx)
	__attribute__((warn_unused_result));

/*
 * For who goes from entry to entry, into those within, too: false, if the entry is one that was come by before, as only
 * damaged files have it.  *last: of the entry before, 0 at first (walk.c).
 */
bool type_is_behind(Dwarf_Off *last, Dwarf_Die *die);

/* A number that the DIE has under this name, also by way of what it was made from; false: none. */
bool type_number(uint64_t *number, Dwarf_Die *die, unsigned name);

/* True for the type `char`: an address of it is taken for a text's. */
bool type_is_char(Dwarf_Die *type);
/* Where the bits of a field begin, from its structure's first one on; size: of its type.  False: nobody says. */
bool type_bits_at(uint64_t *at, Dwarf_Die *member, uint64_t bits, uint64_t size);

/* How values of a class of C++ go (passes.c). */
enum type_pass { TYPE_PASS_UNKNOWN, TYPE_PASS_VALUE, TYPE_PASS_ADDRESS };
enum type_pass type_passes(Dwarf_Die *class);

/* How the calling convention sees the type of a parameter or a result (classify.c). */
struct abi_type type_classify(Dwarf_Die *type, bool cxx, const struct abi *abi);

/* How values of a type are shown (show.c); -ENOMEM.  For type_look_clear(), whatever is returned. */
void type_look_clear(struct type_look *look);
int type_look(struct type_look *out, Dwarf_Die *type) __attribute__((warn_unused_result));

/* A class, as a text or a list if it stands for one; else nothing is changed.  symbol: as above, NULL = not known. */
int type_look_at_view(struct type_look *look, Dwarf_Die *type, const char *symbol) __attribute__((warn_unused_result));
/* What may still be within a list: each structure that is an element may have lists of others. */
struct type_nest {
	uint32_t depth; /* structures around */
	uint32_t rows;	/* members that have room */
};
/*
 * How elements of a list, which are of that type, are shown: look->element; NULL: nobody knows how large one is.
 * Nothing is read from where an element's addresses lead to.
 */
int type_look_at_element(struct type_look *look, Dwarf_Die *type, struct type_nest *nest)
	__attribute__((warn_unused_result));
/* An array of what can be shown, of which the first elements count; of others nothing is changed (show.c). */
int type_look_at_array(struct type_look *look, Dwarf_Die *type, struct type_nest *nest)
	__attribute__((warn_unused_result));

/*
 * What is shown of a type that is a structure, a union or a class (members.c); of others, nothing.  -ENOMEM.  For
 * type_members_clear(), whatever is returned.
 */
int type_members_read(struct type_members *out, Dwarf_Die *type) __attribute__((warn_unused_result));
/* The same of an element of a list. */
int type_members_of_element(struct type_members *out, Dwarf_Die *type, struct type_nest *nest)
	__attribute__((warn_unused_result));
void type_members_clear(struct type_members *members);
bool type_is_aggregate(Dwarf_Die *type); /* a union, too */
bool type_is_class(Dwarf_Die *type);
/*
 * An array of char is a text that ends with it, or before; of a long one the beginning counts.  unsized: the bytes of
 * one whose size nobody tells, which is a structure's end; 0: it is none.
 */
bool type_look_at_chars(struct type_look *look, Dwarf_Die *type, uint64_t unsized);
/*
 * How many elements each dimension of an array has, 0: nobody says; returns how many dimensions there are, more than
 * TYPES_DIMENSIONS: too many (show.c).
 */
uint32_t type_dimensions(uint64_t counts[TYPES_DIMENSIONS], Dwarf_Die *array);
/* int[2][3] is no array of one dimension. */
bool type_has_one_dimension(Dwarf_Die *array);
/*
 * Does the class stand for a text, or for a list?  (view.c)  element: the type of what it is a list of, which is
 * *is_list; NULL: nobody asks.
 */
bool type_view_find(struct type_view *out, Dwarf_Die *type, Dwarf_Die *element, bool *is_list);
/*
 * Does the class have nothing to show but the address that its first bytes are?  std::unique_ptr, std::shared_ptr.
 * pointer: that address' type; NULL: nobody asks.
 */
bool type_is_owner(Dwarf_Die *type, Dwarf_Die *pointer);
/* The same of a class of which the unit has its name alone; symbol: of a function that takes or returns one. */
bool type_view_declared(struct type_view *out, Dwarf_Die *type, const char *symbol);

/* A class whose objects have a value or none (optional.c). */
struct type_optional {
	uint64_t guard_at; /* where a number lies that says it, */
	uint8_t guard_size;
	uint64_t absent;  /* which is this one where there is no value: */
	const char *none; /* what is shown then */
	uint64_t value_at;
	Dwarf_Die value; /* its type */
};
bool type_optional_find(struct type_optional *out, Dwarf_Die *type);

#define TYPES_VARIANTS 64u /* of an enumeration; with more it is not known */

/* One of the structures that a value of Rust's enumeration may have. */
struct type_variant {
	const char *name;
	Dwarf_Die type;
	uint64_t at, number;
	bool has_number; /* else it has each number that no other has: at most one of the variants */
};
struct type_variants {
	uint64_t at;	 /* where a number lies that tells which, */
	uint8_t size;	 /* of so many bytes */
	bool has_number; /* else there is one variant, and no number */
	struct type_variant list[TYPES_VARIANTS];
	uint32_t count;
	uint64_t first, span; /* where one has no number: those of the others, up to first + span */
};
bool type_variants_find(struct type_variants *out, Dwarf_Die *type);

/* The bits of a number of 1 to 8 bytes. */
static inline uint64_t type_all_bits(uint32_t size)
{
	return size < 8 ? (UINT64_C(1) << 8 * size) - 1 : UINT64_MAX;
}

/*
 * A member's type less typedefs and qualifiers; *offset grows by the member's place in its class.  False: DWARF does
 * not say, or it is a field of bits (view.c).
 */
bool type_place(Dwarf_Die *type, uint64_t *offset, Dwarf_Die *member);
/* What an address or a reference leads to; false: the type is no such, or it leads to anything. */
bool type_pointee(Dwarf_Die *out, Dwarf_Die *type);

/* Where the compiler says that a parameter is, at the function's first instruction (place.c). */
enum place_at {
	PLACE_NONE,	 /* it says nothing: there is no parameter any more */
	PLACE_REGISTERS, /* registers of arguments */
	PLACE_STACK,	 /* a word of arguments on the stack */
	PLACE_HOME,	 /* where the function will store it: nothing about where it comes from */
	PLACE_OTHER	 /* elsewhere, or in pieces, or a number that is known */
};
struct place {
	uint8_t at;    /* enum place_at */
	uint8_t count; /* PLACE_REGISTERS: as struct abi_place */
	uint8_t pieces[ABI_PIECES], step;
	uint32_t offset;
};
/* by_address: of the address that goes in the value's place. */
struct place place_find(const struct abi *abi, Dwarf_Die *function, Dwarf_Die *parameter, uint64_t address,
			bool by_address);

/* Where a parameter that goes by a hidden address is at first, which is behind the function's first instruction: at
 * home if that address is in a register of arguments then, or has been stored; else nowhere. */
struct place place_find_first(const struct abi *abi, Dwarf_Die *parameter, uint64_t address);

/* How many parameters a function with this symbol has, without the object that it is called for; -1: nobody says. */
int64_t symbol_parameters(const char *symbol);

/* Follow a path from what is declared with this type (path.c); as types_follow(). */
int path_follow(struct type_path *out, Dwarf_Die *declared, bool by_address, const char *symbol, const char *path)
	__attribute__((warn_unused_result));

/* What is known of a function besides its DIE. */
struct function_about {
	const struct abi *abi;
	uint64_t address, code; /* of the first instruction, of the first one of its own */
	const char *symbol;
	bool is_global;	      /* others may call it, so no compiler changes how it is called */
	const uint8_t *bytes; /* the code from `address` on, of a Rust function */
	size_t byte_count;    /* 0: it is not there, or not x86-64's */
	bool is_plain;	      /* the same: its crate was compiled without optimizing */
};

#define RUST_PIECES 4u

/* Where an argument of Rust comes from (rust.c). */
enum rust_at {
	RUST_NOWHERE,	/* there is none any more */
	RUST_ELSEWHERE, /* nobody knows */
	RUST_PARTS,	/* in registers, or on the stack */
	RUST_ADDRESS	/* its address is there */
};
struct rust_piece {
	uint8_t at; /* of the value's bytes, the first one */
	struct origin origin;
};
struct rust_place {
	uint8_t at; /* enum rust_at */
	bool others;
	uint32_t count;
	struct rust_piece pieces[RUST_PIECES];
};
struct rust_walk {
	uint32_t integers, vectors; /* registers that are taken */
	uint64_t stack;
	bool lost;
	bool either;	 /* the first argument is in the first or the second register of integers */
	bool has_second; /* an argument was in the second register of integers */
};
/* What DWARF and the function's first instructions say of the parameter, of so many bytes. */
void rust_place(struct rust_place *out, Dwarf_Die *function, Dwarf_Die *parameter, const struct function_about *about,
		uint64_t size);
/* Is that where the next argument is to be?  Else nothing is known of those behind it either. */
bool rust_next(struct rust_walk *walk, const struct rust_place *place, uint64_t size);
/* Bytes of a type's values; false: nobody says. */
bool rust_size(uint64_t *size, Dwarf_Die *type);
/* Where a result of Rust is (rust_result.c). */
struct rust_result {
	uint8_t at;    /* enum rust_at; RUST_PARTS: in one register, or two if second_at is not 0 */
	bool maybe;    /* RUST_ADDRESS: if the first register of arguments is taken by it */
	bool doubtful; /* functions of C's convention have it elsewhere */
	uint8_t second_at;
	bool is_float[2];
};
void rust_result(struct rust_result *out, Dwarf_Die *type, uint64_t size);
/* What is known of a crate: was it compiled without optimizing? (rust_plain.c) */
struct rust_crates;
void rust_crates_clear(struct rust_crates *crates);
/* False: it was not, or nobody knows.  *crates: NULL at first; what was found is kept there. */
bool rust_is_plain(struct rust_crates **crates, Dwarf *dwarf, Dwarf_Die *function);

/* As function_read(), of a function of Rust (rust_read.c). */
bool rust_is(Dwarf_Die *function);
int rust_read(struct type_function *out, Dwarf_Die *function, const struct function_about *about)
	__attribute__((warn_unused_result));

/* Read the members of the value's type, a structure, or of the structure that the value is the address of. */
int value_read_members(struct type_value *value, Dwarf_Die *type, bool by_address, Dwarf_Die *function,
		       const char *symbol) __attribute__((warn_unused_result));
/* The child of the function that has code which is this parameter of the function that it was made from; NULL: none. */
Dwarf_Die *function_made_from(Dwarf_Die *function, Dwarf_Die *declared, Dwarf_Die *found);
/* The bytes at an ELF address, as many as there are (code.c). */
size_t code_read(int fd, uint64_t address, uint8_t *out, size_t size);

int function_read(struct type_function *out, Dwarf_Die *function, const struct function_about *about)
	__attribute__((warn_unused_result));
int function_follow(struct type_path *out, Dwarf_Die *function, const struct function_about *about, const char *name,
		    const char *path) __attribute__((warn_unused_result));

#endif
