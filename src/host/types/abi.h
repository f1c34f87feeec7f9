/*
 * Where arguments and results lie by the calling convention of a CPU, and DWARF's numbers of its registers.
 *
 * Callers: classify.c, place.c, function.c, tests.  Context: host.  Pure.
 */
#ifndef HOST_TYPES_ABI_H
#define HOST_TYPES_ABI_H

#include <stdbool.h>
#include <stdint.h>

#define ABI_LEAVES 4u

enum abi_class {
	ABI_NOTHING, /* no argument at all */
	ABI_INTEGER,
	ABI_VECTOR,
	ABI_MEMORY,
	ABI_UNKNOWN /* not classified here: where it and what comes behind it lies is not known */
};

/* A number within a type. */
struct abi_leaf {
	uint8_t class; /* ABI_INTEGER or ABI_VECTOR */
	uint8_t size;
	uint32_t offset;
};

/* A type as the convention sees it. */
struct abi_type {
	/*
	 * enum abi_class.  x86-64: of each 8 bytes; AArch64: the first one is that of all; RISC-V: of each register.
	 * ABI_MEMORY and ABI_UNKNOWN are of the whole.
	 */
	uint8_t halves[2];
	uint64_t size;
	uint32_t align;
	bool by_address; /* ABI_INTEGER: its address goes in its place; of a result it is a hidden argument */
	bool x87;	 /* ABI_MEMORY: a long double and nothing else, which as a result is in st0 */
	bool aggregate, has_union, has_bits, has_empty; /* the type, or some part of it */
	bool realigned;					/* a part of it is aligned by more than 8, as its source says */
	uint8_t leaf_count;				/* ABI_LEAVES + 1: there are more */
	struct abi_leaf leaves[ABI_LEAVES];		/* those at different places, in order */
};

/* ABI_AT_ADDRESS: of a result, the first register of results has its address. */
enum abi_at { ABI_AT_UNKNOWN, ABI_AT_REGISTERS, ABI_AT_STACK, ABI_AT_NOTHING, ABI_AT_ADDRESS };

#define ABI_IN_VECTOR	    0x80u
#define ABI_PIECES	    4u
#define abi_vector(number)  ((uint8_t)(ABI_IN_VECTOR | (number)))
#define abi_integer(number) ((uint8_t)(number))

struct abi_place {
	uint8_t at;		    /* enum abi_at */
	uint8_t count;		    /* ABI_AT_REGISTERS: of registers that it is in */
	uint8_t pieces[ABI_PIECES]; /* their numbers from 0 on, those of vector registers with ABI_IN_VECTOR */
	uint8_t step;		    /* bytes from one piece to the next */
	bool split;		    /* what comes behind the only register is in the first word of the stack */
	uint32_t offset;	    /* ABI_AT_STACK: bytes behind the first word of arguments */
};

struct abi_walk {
	uint32_t integers, vectors; /* registers that are taken */
	uint64_t stack;
	bool lost; /* a type that is not known was met */
};

struct abi {
	uint16_t machine;	   /* e_machine */
	uint32_t frame, stack;	   /* DWARF's numbers of the frame pointer and the stack pointer */
	uint32_t first;		   /* bytes at the function's entry from there to the first argument on the stack */
	uint8_t integers, vectors; /* registers of arguments */
	/* From the parts of a type to `halves` and by_address; the size is known. */
	void (*settle)(struct abi_type *type);
	/* Begin with the first argument of a function with this result; NULL = none. */
	void (*begin)(struct abi_walk *walk, const struct abi_type *result);
	struct abi_place (*next)(struct abi_walk *walk, const struct abi_type *type);
	/* Where a result of this type is at the return: never on the stack. */
	struct abi_place (*result)(const struct abi_type *type);
	/* DWARF's numbers of the registers of arguments: of each for integers, and of the first one of the others. */
	uint8_t integer_numbers[8], first_vector;
};

extern const struct abi abi_x86_64, abi_aarch64, abi_riscv64;

const struct abi *abi_find(uint16_t machine); /* NULL: none is known */
/* Which register of arguments, from 0 on, DWARF gives this number; -1: none. */
int abi_integer_of(const struct abi *abi, uint64_t dwarf_number);
int abi_vector_of(const struct abi *abi, uint64_t dwarf_number);

/* What lies on the stack behind all that do so far, at a multiple of `align`.  Used by the conventions. */
struct abi_place abi_on_stack(struct abi_walk *walk, const struct abi_type *type, uint64_t align);
/* How many registers of that class the type's halves take. */
uint32_t abi_count(const struct abi_type *type, enum abi_class class);
/* The registers from these on, by the halves' classes. */
struct abi_place abi_by_halves(const struct abi_type *type, uint32_t integer, uint32_t vector);
/* The type goes by the address of a copy. */
void abi_make_address(struct abi_type *type);

#endif
