/*
 * Folders that get their names when they are whole (output_folder.h).  Context: host.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "output_folder.h"

static int cannot_create(const char *path, int err, struct calltap_diag *diag)
{
	return calltap_diag_set(diag, err, "cannot create '%s': %s", path, strerror(-err));
}

/* True if nothing of that name is there, or an empty folder, which rename() replaces. */
static bool is_free(const char *path)
{
	bool empty = true;
	struct dirent *entry;
	DIR *dir = opendir(path);

	if (!dir)
		return errno == ENOENT;
	while (empty && (entry = readdir(dir)))
		empty = strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0;
	closedir(dir);
	return empty;
}

static int make(struct output_folder *folder)
{
	mode_t mask = umask(0);

	umask(mask);
	if (!mkdtemp(folder->temporary)) {
		folder->temporary[0] = '\0';
		return -errno;
	}
	folder->fd = open(folder->temporary, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return folder->fd < 0 || fchmod(folder->fd, 0777 & ~mask) ? -errno : 0;
}

int output_folder_open(struct output_folder *folder, const char *path, struct calltap_diag *diag)
{
	size_t length = strlen(path);
	int err;

	while (length > 1 && path[length - 1] == '/')
		length--;
	folder->fd = -1;
	folder->temporary[0] = '\0';
	if (length + sizeof(".XXXXXX") > sizeof(folder->temporary))
		return cannot_create(path, -ENAMETOOLONG, diag);
	snprintf(folder->path, sizeof(folder->path), "%.*s", (int)length, path);
	if (!is_free(folder->path))
		return calltap_diag_set(diag, -EEXIST, "'%s' is there already: give -o the name of a new folder", path);
	snprintf(folder->temporary, sizeof(folder->temporary), "%.*s.XXXXXX", (int)length, path);
	err = make(folder);
	return err ? output_folder_finish(folder, cannot_create(path, err, diag), diag) : 0;
}

static void remove_all(struct output_folder *folder)
{
	struct dirent *entry;
	DIR *dir = opendir(folder->temporary);

	while (dir && (entry = readdir(dir)))
		unlinkat(dirfd(dir), entry->d_name, 0); /* "." and ".." are folders, which stay */
	if (dir)
		closedir(dir);
	rmdir(folder->temporary);
}

int output_folder_finish(struct output_folder *folder, int err, struct calltap_diag *diag)
{
	if (folder->fd >= 0)
		close(folder->fd);
	folder->fd = -1;
	if (!folder->temporary[0])
		return err;
	if (!err && rename(folder->temporary, folder->path))
		err = cannot_create(folder->path, -errno, diag);
	if (err)
		remove_all(folder);
	return err;
}
