/*
 * Files that get their names when they are whole (output.h).  Context: host.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "output.h"

int output_open(struct output *output, const char *path)
{
	struct stat info;

	*output = (struct output){.path = path, .fd = -1};
	/* A device or pipe is written to as it is: renaming over it would replace it. */
	if (stat(path, &info) == 0 && !S_ISREG(info.st_mode)) {
		output->fd = open(path, O_WRONLY | O_CLOEXEC);
		return output->fd < 0 ? -errno : 0;
	}
	if (snprintf(output->temporary, sizeof(output->temporary), "%s.XXXXXX", path) >=
	    (int)sizeof(output->temporary)) {
		output->temporary[0] = '\0';
		return -ENAMETOOLONG;
	}
	output->fd = mkostemp(output->temporary, O_CLOEXEC);
	if (output->fd >= 0)
		return 0;
	output->temporary[0] = '\0';
	return -errno;
}

int output_name(const struct output *output)
{
	return output->temporary[0] && rename(output->temporary, output->path) ? -errno : 0;
}

void output_remove(const struct output *output)
{
	if (output->temporary[0])
		unlink(output->temporary);
}

int output_finish(struct output *output, int err)
{
	if (output->fd >= 0 && close(output->fd) && !err)
		err = -errno;
	output->fd = -1;
	if (!err)
		err = output_name(output);
	if (err)
		output_remove(output);
	return err;
}
