/*
 * A sysctl that the kernel does not have, in a mount namespace of the process' own (overlay.h).
 *
 * Nobody can make a file in /proc.  So a file system in memory covers /proc/sys/kernel, and each of the kernel's
 * entries is bound on its own name there: what is read or written there is still the kernel's.  Context: host.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "overlay.h"

#define FOLDER "/proc/sys/kernel"

/* An empty file, or folder, on which something can be mounted. */
static int make_place(const char *path, bool folder)
{
	int fd;

	if (folder)
		return mkdir(path, 0555) ? -errno : 0;
	fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0444);
	if (fd < 0)
		return -errno;
	close(fd);
	return 0;
}

/* below: the kernel's folder, which is covered; with what is mounted on its entries. */
static int bind_entry(int below, const char *name)
{
	char from[sizeof("/proc/self/fd//") + 12 + NAME_MAX], to[sizeof(FOLDER "/") + NAME_MAX];
	struct stat about;
	int ret = fstatat(below, name, &about, AT_SYMLINK_NOFOLLOW) ? -errno : 0;

	snprintf(from, sizeof(from), "/proc/self/fd/%d/%s", below, name);
	snprintf(to, sizeof(to), FOLDER "/%s", name);
	if (!ret)
		ret = make_place(to, S_ISDIR(about.st_mode));
	if (!ret && mount(from, to, NULL, MS_BIND | MS_REC, NULL))
		ret = -errno;
	return ret;
}

static int bind_entries(int below)
{
	int copy = openat(below, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC), ret = 0;
	DIR *folder = copy < 0 ? NULL : fdopendir(copy);
	const struct dirent *entry;

	if (!folder) {
		ret = -errno;
		if (copy >= 0)
			close(copy);
		return ret;
	}
	while (!ret && (entry = readdir(folder)))
		if (entry->d_name[0] != '.')
			ret = bind_entry(below, entry->d_name);
	closedir(folder);
	return ret;
}

int overlay_add_sysctl(const char *path)
{
	int below = open(FOLDER, O_PATH | O_DIRECTORY | O_CLOEXEC), ret = below < 0 ? -errno : 0;

	if (!ret && mount("calltap", FOLDER, "tmpfs", MS_NOSUID | MS_NODEV | MS_NOEXEC, "mode=0555,size=1m"))
		ret = -errno;
	if (!ret) {
		ret = bind_entries(below);
		if (!ret)
			ret = make_place(path, false);
		/* A name that is misspelt is an error as with the kernel, and no new file. */
		if (!ret && mount(NULL, FOLDER, NULL,
				  MS_REMOUNT | MS_BIND | MS_RDONLY | MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL))
			ret = -errno;
		if (ret)
			umount2(FOLDER, MNT_DETACH);
	}
	if (below >= 0)
		close(below);
	return ret;
}
