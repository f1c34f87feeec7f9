/*
 * What helps when no more files can be opened.
 *
 * Callers: all code that tells why something failed.  Context: host.
 */
#ifndef HOST_FILES_H
#define HOST_FILES_H

#include <errno.h>

/* The end of a sentence: "" for every error that has nothing to do with limits of open files. */
static inline const char *files_remedy(int error)
{
	switch (error) {
	case -EMFILE:
		return "; raise the limit of open files: ulimit -n 256";
	case -ENFILE:
		return "; raise the machine's limit of open files: sysctl fs.file-max";
	default:
		return "";
	}
}

#endif
