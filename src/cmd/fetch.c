/*
 * Fetching debug files, with what a person sees of it (fetch.h).  Context: host.
 */
#include <errno.h>
#include <stdio.h>
#include <unistd.h>

#include "fetch.h"
#include "host/elf/debug_file.h"
#include "host/elf/debuginfod.h"
#include "host/elf/object.h"

#define MEGABYTE 1000000.0

static int show_progress(struct debuginfod_client *client, long done, long all)
{
	if (all > 0)
		fprintf(stderr, "\rcalltap: fetched %.1f of %.1f MB ", (double)done / MEGABYTE, (double)all / MEGABYTE);
	else if (done > 0)
		fprintf(stderr, "\rcalltap: fetched %.1f MB ", (double)done / MEGABYTE);
	return 0;
}

static int show_nothing(struct debuginfod_client *client, long done, long all)
{
	return 0;
}

int fetch_debug_file(bool *fetched, const struct object *object, struct calltap_diag *diag)
{
	enum object_names names = object_names_from(object);
	const char *path = object_path(object);
	bool watched = isatty(STDERR_FILENO);
	uint8_t id[32];
	size_t id_size = object_build_id(object, id);
	int error;

	*fetched = false;
	if (names != OBJECT_NAMES_DYNAMIC && names != OBJECT_NAMES_PACKED) {
		fprintf(stderr, "calltap: the names of %s are here already\n", path);
		return 0;
	}
	if (!id_size)
		return calltap_diag_set(diag, -ENOTSUP, "%.300s has no build id, by which servers know debug files",
					path);
	if (debug_file_has_servers())
		fprintf(stderr, "calltap: fetching the debug file of %s\n", path);
	error = debuginfod_fetch(id, id_size, watched ? show_progress : show_nothing, diag);
	if (watched && error != -ENOTSUP)
		fputc('\n', stderr);
	if (error == -ENOENT) {
		fprintf(stderr, "calltap: no server of DEBUGINFOD_URLS has the debug file of %s\n", path);
		return 0;
	}
	*fetched = !error;
	return error;
}
