/*
 * The objects of `calltap functions`; see listed.h.
 *
 * Of a process each file is opened as the process has it: through its root, and through the mapping where the file was
 * replaced since.  Context: host; a process chooses the contents.
 */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <host/files.h>
#include <host/proc.h>
#include <host/space.h>

#include "fetch.h"
#include "host/elf/filter.h"
#include "host/elf/libraries.h"
#include "host/elf/object.h"
#include "host/elf/program.h"
#include "listed.h"

/* What no compiler has prepared, and the calls into shared libraries where a recording has them without being asked. */
static int find_led(struct object *object)
{
	bool prepared = object_traceable(object);
	int error = object_find_stock(object);
	bool calls = !prepared && object_is_own(object) && object_traceable(object);

	return !error && calls ? object_find_libcalls(object) : error;
}

static int add_object(struct listed *listed, struct object *object)
{
	struct object **objects = reallocarray(listed->objects, listed->count + 1, sizeof(struct object *));

	if (!objects) {
		object_close(object);
		return -ENOMEM;
	}
	listed->objects = objects;
	objects[listed->count++] = object;
	return find_led(object);
}

/* The program's own object; with its debug file fetched first, if that is asked for and there is one. */
static int add_program(struct listed *listed, int fd, const char *path, bool fetch, struct calltap_diag *diag)
{
	struct object *object = NULL;
	bool fetched = false;
	int error = object_open(&object, fd, path, diag);

	if (!error && fetch)
		error = fetch_debug_file(&fetched, object, diag);
	if (!error && fetched) {
		object_close(object);
		object = NULL;
		error = object_open(&object, fd, path, diag);
	}
	if (error) {
		object_close(object);
		return error;
	}
	error = add_object(listed, object);
	if (!error)
		object_be_own(object);
	return error;
}

/* A library if a filter names it; one that cannot be read is passed over. */
static int add_if_named(struct listed *listed, const struct filter_set *filters, int fd, const char *path)
{
	struct object *object;

	return filter_set_names_file(filters, path, fd) && !object_open(&object, fd, path, NULL)
		       ? add_object(listed, object)
		       : 0;
}

struct search {
	struct listed *listed;
	const struct filter_set *filters;
};

static int take_library(void *ctx, const char *path)
{
	const struct search *search = ctx;
	int fd = files_open(path), error = 0;

	if (fd < 0)
		return 0;
	error = add_if_named(search->listed, search->filters, fd, path);
	close(fd);
	return error;
}

static int open_file(struct listed *listed, const char *name, const struct filter_set *filters, bool fetch,
		     struct calltap_diag *diag)
{
	struct search search = {listed, filters};
	const char *loader;
	char *path;
	int error = program_find(&path, name, true, diag), fd;

	if (error)
		return error;
	fd = files_open(path);
	if (fd < 0)
		error = calltap_diag_set(diag, fd, "%.300s cannot be opened: %s", path, strerror(-fd));
	else
		error = add_program(listed, fd, path, fetch, diag);
	if (fd >= 0)
		close(fd);
	free(path);
	loader = error ? NULL : object_interpreter(listed->objects[0]);
	if (loader && filter_set_chooses_objects(filters))
		error = libraries_list_safely(loader, object_path(listed->objects[0]), take_library, &search);
	return error;
}

/* The first mapping of a file with code; NULL = this mapping is none, or not the first one. */
static const struct map *first_of_file(const struct space *space, const struct map *map)
{
	if (!(map->bits & MAP_EXEC) || map->path[0] != '/' || !map->inode)
		return NULL;
	for (const struct map *other = space->maps; other < map; other++)
		if (other->bits & MAP_EXEC && space_same_file(map, other))
			return NULL;
	return map;
}

/* The mapping with the program's code; NULL = it has been unmapped. */
static const struct map *map_of_program(const struct space *space, pid_t pid)
{
	char path[32];
	struct stat st;

	snprintf(path, sizeof(path), "/proc/%d/exe", (int)pid);
	if (stat(path, &st))
		return NULL;
	for (size_t i = 0; i < space->count; i++)
		if (space->maps[i].bits & MAP_EXEC && space->maps[i].inode == st.st_ino)
			return &space->maps[i];
	return NULL;
}

static int add_note(struct listed *listed, const char *path, int reason)
{
	struct listed_note *notes = reallocarray(listed->notes, listed->note_count + 1, sizeof(*notes));

	if (!notes)
		return -ENOMEM;
	listed->notes = notes;
	notes[listed->note_count] = (struct listed_note){strdup(path), reason};
	if (!notes[listed->note_count].path)
		return -ENOMEM;
	listed->note_count++;
	return 0;
}

static int add_library(struct listed *listed, const struct space *space, const struct map *map,
		       const struct filter_set *filters)
{
	int fd = space_open(space->alive, map), error = 0;
	size_t before = listed->count;

	if (fd < 0 && filter_set_names_file(filters, map->path, -1))
		return add_note(listed, map->path, fd);
	if (fd >= 0)
		error = add_if_named(listed, filters, fd, map->path);
	if (fd >= 0)
		close(fd);
	listed->others += listed->count == before;
	if (!error && listed->count > before && map->bits & MAP_DELETED)
		error = add_note(listed, map->path, 0);
	return error;
}

/* False for code that the program has made at run time, which lies in files without a name, and for the agent itself.
 */
static bool is_library(const struct map *map)
{
	return !strstr(map->path, "/memfd:") && !strstr(map->path, "libcalltap-agent");
}

static int add_libraries(struct listed *listed, const struct space *space, const struct map *program,
			 const struct filter_set *filters)
{
	int error = 0;

	for (size_t i = 0; i < space->count && !error; i++) {
		const struct map *map = first_of_file(space, &space->maps[i]);

		if (map && !space_same_file(map, program) && is_library(map))
			error = add_library(listed, space, map, filters);
	}
	return error;
}

static int open_process(struct listed *listed, pid_t pid, const struct filter_set *filters, bool fetch,
			struct calltap_diag *diag)
{
	struct space space;
	int error = space_read(&space, proc_alive(pid)), fd;
	const struct map *program = error ? NULL : map_of_program(&space, pid);

	if (error == -ESRCH || error == -ENOENT || (!error && !program)) {
		error = calltap_diag_set(diag, -ESRCH, "there is no process %d with a program", (int)pid);
	} else if (error) {
		error = calltap_diag_set(diag, error, "the memory of process %d cannot be read: %s%s", (int)pid,
					 strerror(-error), error == -EACCES ? "; run as its user or as root" : "");
	} else {
		fd = space_open(space.alive, program);
		error = fd < 0 ? calltap_diag_set(diag, fd, "%.300s cannot be opened: %s", program->path, strerror(-fd))
			       : add_program(listed, fd, program->path, fetch, diag);
		if (fd >= 0)
			close(fd);
	}
	if (!error && program && program->bits & MAP_DELETED)
		error = add_note(listed, program->path, 0);
	if (!error && program)
		error = add_libraries(listed, &space, program, filters);
	space_free(&space);
	return error;
}

/* The number of a process; 0 = the text is a name. */
static pid_t pid_of(const char *text)
{
	char *end;
	long pid = strtol(text, &end, 10);

	return text[0] >= '0' && text[0] <= '9' && !*end && pid <= INT_MAX ? (pid_t)pid : 0;
}

int listed_open(struct listed *listed, const char *program, const struct filter_set *filters, bool fetch,
		struct calltap_diag *diag)
{
	pid_t pid = pid_of(program);
	int error = pid ? open_process(listed, pid, filters, fetch, diag)
			: open_file(listed, program, filters, fetch, diag);

	if (error == -ENOMEM)
		return calltap_diag_set(diag, error, "not enough memory to look for functions");
	return listed->count ? 0 : error; /* libraries that cannot be found, or read, are passed over */
}

void listed_close(struct listed *listed)
{
	for (size_t i = 0; i < listed->count; i++)
		object_close(listed->objects[i]);
	free(listed->objects);
	for (size_t i = 0; i < listed->note_count; i++)
		free(listed->notes[i].path);
	free(listed->notes);
}
