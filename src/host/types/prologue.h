/*
 * What a function does with its arguments before its first jump or call: which register or word of the stack holds, or
 * which word of the frame was given, the bytes of which argument.  x86-64.
 *
 * This is no guess about a convention: the instructions are followed, and what they leave unclear is told as such.
 *
 * Callers: rust.c, tests.  Context: host.  Pure; the code is untrusted.
 */
#ifndef HOST_TYPES_PROLOGUE_H
#define HOST_TYPES_PROLOGUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PROLOGUE_CODE	512u /* bytes of code that are looked at */
#define PROLOGUE_STORES 96u

enum origin_of {
	ORIGIN_UNKNOWN,
	ORIGIN_INTEGER, /* the register of integer arguments with that number, from 0 on */
	ORIGIN_VECTOR,	/* %xmm with that number */
	ORIGIN_STACK,	/* arguments on the stack, so many bytes behind the first word */
	ORIGIN_FRAME,	/* an address: so many bytes behind the return address's */
};

/* Where the low bytes of a register, or those of a piece of memory, came from. */
struct origin {
	uint8_t of; /* enum origin_of */
	uint8_t number;
	uint8_t width; /* so many bytes are those */
	bool is_bit;   /* of which all but the lowest bit were cleared */
	int64_t offset;
};

struct prologue_store {
	int64_t at; /* bytes behind the return address's place */
	uint8_t size;
	struct origin value;
};

struct prologue {
	struct origin registers[16], vectors[16]; /* by the CPU's numbers */
	struct prologue_store stores[PROLOGUE_STORES];
	uint32_t count;
	bool has_frame; /* the stack pointer is where it stays: */
	int64_t frame;	/* bytes behind the return address's place, below 0 */
	uint64_t end;	/* the first instruction that was not followed */
};

/* Follow the code at this address up to `until`, if that comes before the first jump or call. */
void prologue_follow(struct prologue *out, const uint8_t *code, size_t size, uint64_t address, uint64_t until);
/* Where the first bytes that were put there came from; bytes of arguments that nobody has written to are their own. */
struct origin prologue_first(const struct prologue *prologue, int64_t at, uint32_t size);
/* The register that DWARF gives this number. */
struct origin prologue_register(const struct prologue *prologue, uint64_t dwarf_number);

#endif
