/* The CPUs as a table, and vectors, for the tests of the instruction sets. */
#ifndef TEST_UNIT_ARCH_SUPPORT_H
#define TEST_UNIT_ARCH_SUPPORT_H

#include "arch/generic/isa/relocate.h"

struct isa_cpu {
	const char *name;
	unsigned no_scratch; /* the register number that stands for none */
	unsigned step;	     /* instructions begin at multiples of this */
	int (*decode)(struct isa_instruction *in, const uint8_t *code, size_t size, uint64_t address);
	int (*relocate)(struct isa_out *out, const uint8_t *code, size_t size, uint64_t from, unsigned scratch);
};

extern const struct isa_cpu isa_cpus[3];

/* NULL: no such name. */
const struct isa_cpu *isa_cpu_find(const char *name);

const char *isa_kind_name(unsigned kind);

/* Bytes from pairs of hexadecimal digits, up to something else; returns how many. */
size_t isa_bytes(const char *text, uint8_t *bytes, size_t max);

/* An error's number by its name as the vectors have it (EILSEQ); 0 = it is none. */
int isa_error(const char *name);

/*
 * Call check() for each line of a file of vectors that is no comment; path is
 * of the source tree.  Returns how many there were.
 */
unsigned isa_each_vector(const char *path, void (*check)(const char *line));

#endif
