/*
 * Files that others have named, and what helps when no more can be opened.
 *
 * Callers: all code that opens files, and that tells why something failed.
 * Context: host.
 */
#ifndef HOST_FILES_H
#define HOST_FILES_H

#include <errno.h>

/* The end of a sentence about an error: "" unless a limit of open files was the cause. */
static inline const char *files_remedy(int error)
{
	switch (error) {
	case -EMFILE:
		return "; raise the limit of open files: ulimit -n 256";
	case -ENFILE:
		return "; raise the machine's limit of open files: sysctl fs.file-max";
	case -EFBIG:
		return "; raise the limit of files' sizes, which counts for buffers: ulimit -f unlimited";
	default:
		return "";
	}
}

/*
 * Open a file to read it as an object.  Only a regular file will do: one that
 * a target names could be a pipe that nobody writes to.  The descriptor, or
 * -errno (-EINVAL: not a regular file).
 */
int files_open(const char *path) __attribute__((warn_unused_result));

#endif
