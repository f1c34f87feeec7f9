/*
 * Files that get their names when they are whole (output.h).  Context: host.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
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

static int cannot_create(const char *path, int err, struct calltap_diag *diag)
{
	return calltap_diag_set(diag, err, "cannot create '%s': %s", path, strerror(-err));
}

int output_open_public(struct output *output, const char *path, struct calltap_diag *diag)
{
	mode_t mask;
	int err;

	*output = (struct output){.path = path, .fd = STDOUT_FILENO};
	if (strcmp(path, "-") == 0)
		return 0;
	err = output_open(output, path);
	if (err)
		return cannot_create(path, err, diag);
	mask = umask(0);
	umask(mask);
	if (output->temporary[0] && fchmod(output->fd, 0666 & ~mask)) {
		err = -errno;
		return cannot_create(path, output_finish(output, err), diag);
	}
	return 0;
}

int output_finish_public(struct output *output, int err, struct calltap_diag *diag)
{
	int finished = output->fd > STDERR_FILENO ? output_finish(output, err) : err;

	return finished == err ? err : cannot_create(output->path, finished, diag);
}
