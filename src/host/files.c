/*
 * Opening files that others have named (files.h).  Context: host.
 */
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "files.h"

int files_open(const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY), error;
	struct stat status;

	if (fd < 0)
		return -errno;
	error = fstat(fd, &status) ? -errno : S_ISREG(status.st_mode) ? 0 : -EINVAL;
	if (!error)
		return fd;
	close(fd);
	return error;
}
