/*
 * Finding the newest trace file; see newest.h.  Context: host.
 */
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "newest.h"

#define TRACE_PREFIX "calltap.data"

static int is_newer(const struct timespec *a, const struct timespec *b)
{
	return a->tv_sec != b->tv_sec ? a->tv_sec > b->tv_sec : a->tv_nsec > b->tv_nsec;
}

int newest_trace(char *path, size_t size, const char *directory, struct calltap_diag *diag)
{
	DIR *dir = opendir(directory);
	struct timespec best = {0, 0};
	const struct dirent *entry;
	struct stat info;

	path[0] = '\0';
	if (!dir)
		return calltap_diag_set(diag, -errno, "cannot list '%s': %s", directory, strerror(errno));
	while ((entry = readdir(dir))) {
		if (strncmp(entry->d_name, TRACE_PREFIX, strlen(TRACE_PREFIX)) != 0)
			continue;
		if (fstatat(dirfd(dir), entry->d_name, &info, 0) || !S_ISREG(info.st_mode))
			continue;
		if (path[0] && !is_newer(&info.st_mtim, &best))
			continue;
		best = info.st_mtim;
		if (strcmp(directory, ".") == 0)
			snprintf(path, size, "%s", entry->d_name);
		else
			snprintf(path, size, "%s/%s", directory, entry->d_name);
	}
	closedir(dir);
	if (!path[0])
		return calltap_diag_set(
			diag, -ENOENT,
			"no " TRACE_PREFIX
			" file here: make one with 'calltap record COMMAND' or name a trace with -i FILE");
	return 0;
}
