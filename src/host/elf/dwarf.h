/*
 * The DWARF of an object: its own, or its debug file's (debug_file.h).
 *
 * Callers: the types room.  Context: host; the object and all candidates are untrusted.
 */
#ifndef HOST_ELF_DWARF_H
#define HOST_ELF_DWARF_H

#include <elfutils/libdw.h>

struct object;

struct object_dwarf {
	Dwarf *dwarf;
	Elf *elf;
	int fd; /* of the file that it is in */
};

/*
 * fd: the object's file, which stays its caller's.  -ENODATA: there is none.  For object_dwarf_close(), whatever is
 * returned.
 */
int object_dwarf_open(struct object_dwarf *out, const struct object *object, int fd)
	__attribute__((warn_unused_result));
void object_dwarf_close(struct object_dwarf *dwarf);

#endif
