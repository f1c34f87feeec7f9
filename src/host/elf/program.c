/*
 * Looking for programs along PATH (program.h).  Context: host.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "program.h"

#define DEFAULT_PATH "/usr/local/bin:/usr/bin:/bin"

/* 0, or the error of a file that cannot be used. */
static int usable(const char *path, int mode)
{
	struct stat status;

	if (stat(path, &status) < 0)
		return -errno;
	if (S_ISDIR(status.st_mode))
		return -EISDIR;
	if (!S_ISREG(status.st_mode))
		return -EINVAL;
	return access(path, mode) < 0 ? -errno : 0;
}

/* Try one directory; an empty name is the current one. *error keeps the most telling failure. */
static char *try_directory(const char *directory, size_t length, const char *name, int *error)
{
	char *path;
	int result;

	if (asprintf(&path, "%.*s%s%s", (int)length, directory, length ? "/" : "./", name) < 0) {
		*error = -ENOMEM;
		return NULL;
	}
	result = usable(path, X_OK);
	if (!result)
		return path;
	if (result == -EACCES)
		*error = -EACCES;
	free(path);
	return NULL;
}

static char *search(const char *name, int *error)
{
	const char *directory = getenv("PATH");

	*error = -ENOENT;
	if (!directory)
		directory = DEFAULT_PATH;
	for (;;) {
		size_t length = strcspn(directory, ":");
		char *path = try_directory(directory, length, name, error);

		if (path || *error == -ENOMEM || !directory[length])
			return path;
		directory += length + 1;
	}
}

static int not_found(struct calltap_diag *diag, int error, const char *name, bool searched)
{
	switch (error) {
	case -ENOENT:
		if (searched && strchr(name, ':'))
			return calltap_diag_set(
				diag, error,
				"%.200s: no such program in PATH; to trace functions of a library, write "
				"-l '%.200s' in front of the command",
				name, name);
		if (searched)
			return calltap_diag_set(diag, error,
						"%.200s: no such program in PATH; write ./%.200s for one here", name,
						name);
		return calltap_diag_set(diag, error, "%.300s: no such file", name);
	case -EACCES:
		return calltap_diag_set(diag, error, "%.300s: not permitted to run or read it; check its mode (chmod)",
					name);
	case -EISDIR:
		return calltap_diag_set(diag, error, "%.300s is a directory; name a program", name);
	case -EINVAL:
		return calltap_diag_set(diag, error, "%.300s is a pipe or a device; name a program", name);
	default:
		return calltap_diag_set(diag, error, "%.300s: %s", name, strerror(-error));
	}
}

int program_find(char **path, const char *name, bool libraries, struct calltap_diag *diag)
{
	bool searched = !strchr(name, '/') && name[0];
	int here = usable(name, libraries ? R_OK : X_OK);
	int error = here;

	*path = NULL;
	if (searched) {
		*path = search(name, &error);
		if (*path)
			return 0;
		if (libraries && here != -ENOENT)
			error = here;
	}
	if (error || (searched && !libraries))
		return not_found(diag, error, name, searched);
	*path = strdup(name);
	return *path ? 0 : not_found(diag, -ENOMEM, name, searched);
}
