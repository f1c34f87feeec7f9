/*
 * The functions of a static program that the agent stands in front of, as it does in others by the loader's symbols. In
 * a static program their heads are led to the agent's functions.
 *
 * Caller: the session's rooms.  Context: host; the file is untrusted.
 */
#ifndef HOST_ELF_FRONTS_H
#define HOST_ELF_FRONTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <calltap/abi/control.h>
#include <calltap/diag.h>

#define FRONTS_MAX 22u

/* enum calltap_pointer_to, and what is led in static programs alone: elsewhere the loader binds it. */
enum { FRONT_EXECVE = CALLTAP_POINTERS_TO, FRONT_NAMES };

/* A function's name; NULL: none of a static program. */
const char *front_name(uint32_t i);

struct front {
	const char *name;
	uint64_t head;	 /* ELF address of the bytes that a jump replaces */
	uint8_t length;	 /* whole instructions there */
	uint8_t old[16]; /* their bytes */
};

struct fronts {
	struct front list[FRONTS_MAX]; /* sorted by head; two may have the same */
	size_t count;
	bool libgcc;	  /* what unwinds stacks in the program is libgcc */
	bool glibc, musl; /* its libc; both false: neither */
	bool old_musl;	  /* before 1.1.22, and its setuid() waits for every thread that the kernel knows */
};

struct object;
/*
 * Find those of a static program.  -ENODATA: it cannot be traced, and diag says why and what helps; -ENOMEM.
 */
int fronts_find(struct fronts *out, const struct object *object, struct calltap_diag *diag)
	__attribute__((warn_unused_result));

#endif
