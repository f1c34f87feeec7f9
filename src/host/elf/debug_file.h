/*
 * Debug files: the symbols and source lines of a stripped object, in a file of their own.
 *
 * A file is taken only if it belongs to the object: its build id is the object's, or, where one of the two has none,
 * its sum is that of the object's debug link.  Nothing here waits for a network: a file of debuginfod's is one that
 * lies in its cache already.  Callers: symbols and source lines of objects, `calltap functions`.  Context: host; the
 * object and all candidates are untrusted.
 */
#ifndef HOST_ELF_DEBUG_FILE_H
#define HOST_ELF_DEBUG_FILE_H

#include <libelf.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Where to look, best first. */
enum debug_place {
	DEBUG_BUILD_ID, /* /usr/lib/debug/.build-id/xx/yyyy.debug */
	DEBUG_LINK,	/* the name in .gnu_debuglink: beside the object, in .debug/ there, in /usr/lib/debug/FOLDER */
	DEBUG_FETCHED,	/* debuginfod's cache, if DEBUGINFOD_URLS is set */
	DEBUG_PLACES
};

/* Whose debug file is wanted. */
struct debug_owner {
	Elf *elf;
	const char *path; /* of the object's file, now or once */
	const uint8_t *id;
	size_t id_size; /* of the build id, 0 = it has none */
};

/* The debug file at a place, open to be read; -1: there is none that belongs to the object. */
int debug_file_open(const struct debug_owner *owner, enum debug_place place);
/* The file of this name, if its build id is this one; else -1. */
int debug_file_open_named(const char *path, const uint8_t *id, size_t id_size);
/* True if the user has named servers of debug files (DEBUGINFOD_URLS). */
bool debug_file_has_servers(void);

#endif
