/*
 * The file that an import is from: the dynamic symbol's version names it.
 *
 * Caller: plt.c.  Context: host; the sections are untrusted.
 */
#ifndef HOST_ELF_VERSIONS_H
#define HOST_ELF_VERSIONS_H

#include <stdint.h>

#include "object_impl.h"

/* The sections of versions, within an Elf's memory; NULL = there is none. */
struct versions {
	Elf_Data *symbols, *needs;
	Elf *elf;
	size_t strings; /* section of the names in `needs` */
};

void versions_find(struct versions *out, Elf *elf);
/* The file that the dynamic symbol with this number is from, as DT_NEEDED has it; NULL: it has no version. */
const char *versions_file_of(const struct versions *versions, uint32_t symbol);

#endif
