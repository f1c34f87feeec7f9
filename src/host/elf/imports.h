/*
 * Words of an object that the loader fills in with the address of a function of another object, by that function's
 * name.
 *
 * Caller: the session's rooms, for a process that runs already: the loader bound these words before the agent came, so
 * the tool leads them to the agent.  Context: host; the file is untrusted.
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
	bool lazy;	  /* the loader may fill it in at the first call only: until then it leads to the PLT */
	bool defined;	  /* the object defines a function of that name, too, but others may come before it */
};

/* The functions that the agent stands in front of, in the order of enum calltap_pointer_to; as many as that has. */
const char *const *imports_names(void);

/*
 * Find the words for these names in fd, which the caller keeps. *out is for free(), sorted by address, each address
 * once; NULL when there are none.  Damaged parts of the file are left out. name_count: IMPORTS_NAMES_MAX or less. 0,
 * -ENOEXEC: not an ELF file of a CPU that can be traced, or -ENOMEM.
 */
#define IMPORTS_NAMES_MAX 255u
int imports_read(struct import_pointer **out, size_t *count, int fd, const char *const *names, size_t name_count)
	__attribute__((warn_unused_result));

#endif
