/*
 * Words of an object that the loader fills in with the address of a function
 * of another object, by that function's name.
 *
 * Caller: the record room, for a process that runs already: the agent came too
 * late to be found by the loader, so these words are led to it.
 * Context: host; the file is untrusted.
 */
#ifndef HOST_ELF_IMPORTS_H
#define HOST_ELF_IMPORTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct import_pointer {
	uint64_t address; /* ELF address of the word, a multiple of 8 in a segment that may be written */
	uint64_t symbol;  /* ELF address of the symbol (Elf64_Sym) by which the loader looks for the function */
	uint32_t name;	  /* index of the function's name */
	bool lazy;    /* the loader may fill it in at the first call only: until then it leads to the object's PLT */
	bool defined; /* the object has a function of that name itself, which others may come before */
};

/* The functions that the agent stands in front of, in the order of enum calltap_pointer_to; as many as that has. */
const char *const *imports_names(void);

/*
 * Find those words in fd, which the caller keeps.  *out is for free(), sorted
 * by address, each address once; NULL when there are none.  Damaged parts of
 * the file are left out.  name_count: IMPORTS_NAMES_MAX or less.
 * 0, -ENOEXEC: not an ELF file of a CPU that can be traced, or -ENOMEM.
 */
#define IMPORTS_NAMES_MAX 255u
int imports_read(struct import_pointer **out, size_t *count, int fd, const char *const *names, size_t name_count)
	__attribute__((warn_unused_result));

#endif
