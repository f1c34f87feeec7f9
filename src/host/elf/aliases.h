/*
 * The names that an object's file goes by beside the last part of its path: programs name libraries by links.
 *
 * Callers: objects, and filters that name a file before it is read.  Context: host; the file is untrusted.
 */
#ifndef HOST_ELF_ALIASES_H
#define HOST_ELF_ALIASES_H

#include <libelf.h>

struct aliases {
	char *file;   /* the file's own name, where the path is a link to it; NULL = none */
	char *soname; /* DT_SONAME; NULL = none */
	char *called; /* what a process calls the program, which it was executed as by a link; NULL = not known */
};

/* What cannot be found out stays NULL. */
void aliases_read(struct aliases *out, Elf *elf, int fd, const char *path);
void aliases_clear(struct aliases *aliases);

#endif
