/*
 * The machine that a program runs on: its context, helpers and maps.
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

/* The kind of an argument that a helper takes in a register. */
enum bpf_argument {
	BPF_ARGUMENT_NONE,    /* the helper has no such argument */
	BPF_ARGUMENT_VALUE,   /* any number */
	BPF_ARGUMENT_CONTEXT, /* the context's address, as the program has got it */
	BPF_ARGUMENT_MAP,     /* a map's number */
	BPF_ARGUMENT_KEY,     /* the address of a key of the map that an earlier argument names */
	BPF_ARGUMENT_ENTRY,   /* the address of a value of that map */
	BPF_ARGUMENT_READ,    /* the address of memory that the helper reads; the next argument is its size */
	BPF_ARGUMENT_WRITE,   /* the address of memory that the helper writes, all of it; its size is next */
	BPF_ARGUMENT_SIZE,    /* a size of memory, 1 at least */
	BPF_ARGUMENT_SIZE0,   /* a size of memory, which may be 0 */
};

enum bpf_result {
	BPF_RESULT_NUMBER,
	BPF_RESULT_ENTRY, /* the address of a value of the map that an argument names, or 0 */
};

struct bpf_helper {
	const char *name;
	uint8_t arguments[BPF_ARGUMENTS]; /* enum bpf_argument */
	uint8_t result;			  /* enum bpf_result */
	/* The interpreter calls this with the `data` of struct bpf_run. */
	uint64_t (*run)(void *data, const uint64_t arguments[BPF_ARGUMENTS]);
};

struct bpf_map {
	uint32_t key_size, value_size;
};

struct bpf_machine {
	uint32_t context_size; /* bytes of the context; programs may only read it, in aligned words of 1 to 8 bytes */
	const struct bpf_helper *helpers;
	uint32_t helper_count; /* helper 0 counts, but no program may call it */
	const struct bpf_map *maps;
	uint32_t map_count; /* `map N` gives a program the number N to hand to helpers */
};

#endif
