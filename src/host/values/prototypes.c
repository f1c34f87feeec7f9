/*
 * The C library's functions by name (prototypes.h).  Context: host.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <host/elf/aliases.h>
#include <host/elf/libc_files.h>
#include <host/session/session.h>
#include <host/types/types.h>

#include "prototypes.h"

#define FILE_NAME "libcalltap-prototypes.so"

struct prototypes {
	struct object *object;
	struct types *types;
};

struct prototypes *prototypes_open(const char *agent_path)
{
	const char *slash = agent_path ? strrchr(agent_path, '/') : NULL;
	struct prototypes *made = calloc(1, sizeof(*made));
	char *path = NULL;
	int fd = -1;

	if (made && slash && asprintf(&path, "%.*s/" FILE_NAME, (int)(slash - agent_path), agent_path) >= 0)
		fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd >= 0 && !object_open(&made->object, fd, path, NULL) && types_open(&made->types, made->object, fd))
		made->types = NULL;
	if (fd >= 0)
		close(fd);
	free(path);
	if (made && made->types)
		return made;
	prototypes_close(made);
	return NULL;
}

void prototypes_close(struct prototypes *prototypes)
{
	if (!prototypes)
		return;
	types_close(prototypes->types);
	object_close(prototypes->object);
	free(prototypes);
}

/* Does the site lie in a file of the C library's, or call one? */
static bool is_libc(const struct image *image, const struct object_site *source)
{
	if (source->kind == SITE_LIBCALL)
		return source->calls_libc;
	return libc_has_file(object_aliases(image->object)->soname);
}

int64_t prototypes_find(struct prototypes *prototypes, const struct image *image, const struct object_site *source)
{
	if (!prototypes || !source->symbol || !is_libc(image, source))
		return -1;
	return types_find_symbol(prototypes->types, source->symbol);
}

/* __open64 and _IO_fclose take what open64 and fclose do. */
int64_t prototypes_find_own(struct prototypes *prototypes, const struct image *image, const struct object_site *source)
{
	static const char *const heads[] = {"__libc_", "__", "_IO_"};
	int64_t place = -1;

	if (!prototypes || !source->symbol || source->kind == SITE_LIBCALL || !is_libc(image, source))
		return -1;
	for (unsigned i = 0; i < sizeof(heads) / sizeof(heads[0]) && place < 0; i++)
		if (!strncmp(source->symbol, heads[i], strlen(heads[i])))
			place = types_find_symbol(prototypes->types, source->symbol + strlen(heads[i]));
	return place;
}

const struct types *prototypes_types(const struct prototypes *prototypes)
{
	return prototypes->types;
}

uint32_t prototypes_count(const struct prototypes *prototypes)
{
	return types_count(prototypes->types);
}

int prototypes_read(struct type_function *out, const struct prototypes *prototypes, uint32_t place)
{
	uint64_t address = types_address(prototypes->types, place);

	return types_read(out, prototypes->types, place, "", address, address);
}
