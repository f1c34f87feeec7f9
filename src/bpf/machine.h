/*
 * What a program finds in the machine that it runs on: its context, helpers and maps.
 *
 * A program begins with the context's address in r1 and ends with a number in r0.  The verifier judges a program for
 * one machine; the interpreter runs it there.
 *
 * Callers: this room, and whoever has programs.  Context: host.
 */
#ifndef BPF_MACHINE_H
#define BPF_MACHINE_H

#include <stdint.h>

#include "isa.h"

/* What a helper takes in a register. */
enum bpf_argument {
	BPF_ARGUMENT_NONE,    /* the helper has no such argument */
	BPF_ARGUMENT_VALUE,   /* any number */
	BPF_ARGUMENT_CONTEXT, /* the context's address, as the program has got it */
	BPF_ARGUMENT_MAP,     /* of a map */
	BPF_ARGUMENT_KEY,     /* memory with a key of the map in front of it */
	BPF_ARGUMENT_ENTRY,   /* memory with a value of that map */
	BPF_ARGUMENT_READ,    /* memory that is read, of as many bytes as the next argument says */
	BPF_ARGUMENT_WRITE,   /* memory that is written, all of it */
	BPF_ARGUMENT_SIZE,    /* of the memory in front of it: 1 at least */
	BPF_ARGUMENT_SIZE0,   /* the same, and 0 */
};

enum bpf_result {
	BPF_RESULT_NUMBER,
	BPF_RESULT_ENTRY, /* the address of a value of the map, or 0 */
};

struct bpf_helper {
	const char *name;
	uint8_t arguments[BPF_ARGUMENTS]; /* enum bpf_argument */
	uint8_t result;			  /* enum bpf_result */
	/* What the interpreter calls; machine's `data` comes along. */
	uint64_t (*run)(void *data, const uint64_t arguments[BPF_ARGUMENTS]);
};

struct bpf_map {
	uint32_t key_size, value_size;
};

struct bpf_machine {
	uint32_t context_size; /* bytes, which are read only, in aligned words of 1, 2, 4 and 8 bytes */
	const struct bpf_helper *helpers;
	uint32_t helper_count; /* helper 0 is none: no program may call it */
	const struct bpf_map *maps;
	uint32_t map_count; /* `map N` gives a program the number N to hand to helpers */
};

#endif
