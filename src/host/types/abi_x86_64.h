/*
 * Where arguments lie by the calling convention of x86-64, and DWARF's numbers of its registers.
 * Source: System V Application Binary Interface, AMD64 Architecture Processor Supplement 1.0, 3.2.3 and 3.6.2.
 *
 * Callers: function.c, tests.  Context: host.  Pure.
 */
#ifndef HOST_TYPES_ABI_X86_64_H
#define HOST_TYPES_ABI_X86_64_H

#include <stdbool.h>
#include <stdint.h>

#define ABI_INTEGERS 6u /* registers of integer arguments */
#define ABI_VECTORS  8u

#define ABI_DWARF_FRAME 6u /* rbp */
#define ABI_DWARF_STACK 7u /* rsp */

enum abi_class {
	ABI_NOTHING, /* no argument at all */
	ABI_INTEGER,
	ABI_VECTOR,
	ABI_MEMORY,
	ABI_UNKNOWN /* not classified here: where it and what comes behind it lies is not known */
};

/* A type as the convention sees it. */
struct abi_type {
	uint8_t halves[2]; /* enum abi_class of each 8 bytes; ABI_MEMORY and ABI_UNKNOWN are of the whole */
	uint64_t size;
	uint32_t align;
	bool by_address; /* ABI_INTEGER: its address goes in its place; of a result it is a hidden argument */
	bool x87;	 /* ABI_MEMORY: a long double and nothing else, which as a result is in st0 */
};

enum abi_at { ABI_AT_UNKNOWN, ABI_AT_REGISTERS, ABI_AT_STACK, ABI_AT_NOTHING };

struct abi_place {
	uint8_t at;	  /* enum abi_at */
	uint8_t integer;  /* ABI_AT_REGISTERS: the first integer register, from 0 on */
	uint8_t integers; /* and how many */
	uint8_t vector;	  /* the same of vector registers */
	uint8_t vectors;
	uint32_t offset; /* ABI_AT_STACK: bytes behind the first word of arguments */
};

struct abi_walk {
	uint32_t integers, vectors; /* registers that are taken */
	uint64_t stack;
	bool lost; /* a type that is not known was met */
};

/* Begin with the first argument of a function with this result; NULL = none. */
void abi_begin(struct abi_walk *walk, const struct abi_type *result);
struct abi_place abi_next(struct abi_walk *walk, const struct abi_type *type);
/* True if the value is of 8 bytes at most, in an integer register. */
bool abi_is_integer(const struct abi_type *type);
/* True if the value is of 8 bytes at most, in a vector register. */
bool abi_is_vector(const struct abi_type *type);
/* Which register of integer arguments, from 0 on, DWARF gives this number; -1: none. */
int abi_integer_of(uint64_t dwarf_number);
/* Which register of floating-point arguments, from 0 on, DWARF gives this number; -1: none. */
int abi_vector_of(uint64_t dwarf_number);

#endif
