/*
 * Opening a test program's own file: the test programs of this folder are built with -fpatchable-function-entry=5, so
 * that each of their functions has a site.
 */
#ifndef TEST_UNIT_ELF_SELF_H
#define TEST_UNIT_ELF_SELF_H

#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "host/elf/object.h"

#define SELF "/proc/self/exe"

/* path is only what the object will be called. */
static inline struct object *open_self(const char *path)
{
	struct calltap_diag diag;
	struct object *object = NULL;
	int fd = open(SELF, O_RDONLY | O_CLOEXEC);

	if (object_open(&object, fd, path, &diag))
		calltap_diag_print(&diag, stderr);
	close(fd);
	return object;
}

static inline const struct object_site *site_of(struct object *object, const char *symbol)
{
	const struct object_site *sites;
	size_t count = object_sites(object, &sites);

	for (size_t i = 0; i < count; i++) {
		if (!strcmp(sites[i].symbol, symbol))
			return &sites[i];
	}
	return NULL;
}

#endif
