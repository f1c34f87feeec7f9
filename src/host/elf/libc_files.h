/*
 * The names of glibc's files: DT_SONAME in these, DT_NEEDED in programs that use them.  Context: host.
 */
#ifndef HOST_ELF_LIBC_FILES_H
#define HOST_ELF_LIBC_FILES_H

#include <stdbool.h>
#include <string.h>

/* name: DT_SONAME or DT_NEEDED; NULL: it has none. */
static inline bool libc_has_file(const char *name)
{
	static const char *const names[] = {"libc.so.6",      "libm.so.6",   "libpthread.so.0",
					    "libdl.so.2",     "librt.so.1",  "libutil.so.1",
					    "libresolv.so.2", "libanl.so.1", "libcrypt.so.1"};

	for (unsigned i = 0; name && i < sizeof(names) / sizeof(names[0]); i++)
		if (!strcmp(name, names[i]))
			return true;
	return false;
}

#endif
