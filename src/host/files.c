/*
 * Opening files that others have named (files.h).  Context: host.
 */
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "files.h"

int files_open(const char *path)
{
	struct stat status;
	int fd, error;

	/* To open a device may do anything. */
	if (stat(path, &status))
		return -errno;
	if (!S_ISREG(status.st_mode))
		return -EINVAL;
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	if (fd < 0)
		return -errno;
	/* Another file may be there by now. */
	error = fstat(fd, &status) ? -errno : S_ISREG(status.st_mode) ? 0 : -EINVAL;
	if (!error)
		return fd;
	close(fd);
	return error;
}
