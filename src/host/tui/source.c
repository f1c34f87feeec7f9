/* A source file's lines; see source.h.  Context: host. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "source.h"

void source_clear(struct source *source)
{
	free(source->text);
	free(source->lines);
	memset(source, 0, sizeof(*source));
}

static int split_lines(struct source *source, size_t size)
{
	size_t count = 1, used = 0;

	for (size_t i = 0; i < size; i++)
		count += source->text[i] == '\n';
	source->lines = calloc(count, sizeof(*source->lines));
	if (!source->lines)
		return -ENOMEM;
	for (size_t i = 0; i < size;) {
		char *end = memchr(source->text + i, '\n', size - i);

		source->lines[used++] = source->text + i;
		if (!end)
			break;
		*end = '\0'; /* a NUL within a line ends it before */
		i = (size_t)(end - source->text) + 1;
	}
	source->count = used;
	return 0;
}

/* Read all of the file; returns its size, or -errno. */
static ssize_t read_all(struct source *source, int fd, size_t size)
{
	size_t used = 0;

	source->text = malloc(size + 1);
	if (!source->text)
		return -ENOMEM;
	while (used < size) {
		ssize_t got = read(fd, source->text + used, size - used);

		if (got < 0 && errno != EINTR)
			return -errno;
		if (!got)
			break;
		used += got > 0 ? (size_t)got : 0;
	}
	source->text[used] = '\0';
	return (ssize_t)used;
}

int source_read(struct source *source, const char *path)
{
	struct stat about;
	ssize_t size;
	int fd, err = 0;

	source_clear(source);
	if (!path) {
		snprintf(source->error, sizeof(source->error),
			 "The trace does not tell the function's source line: its object has no DWARF (-g).");
		return 0;
	}
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	if (fd < 0 || fstat(fd, &about)) {
		snprintf(source->error, sizeof(source->error), "%.300s cannot be read here: %s", path, strerror(errno));
	} else if (!S_ISREG(about.st_mode) || about.st_size > (off_t)SOURCE_BYTES_MAX) {
		snprintf(source->error, sizeof(source->error), "%.300s is no source file: it is not shown", path);
	} else {
		size = read_all(source, fd, (size_t)about.st_size);
		if (size < 0 && size != -ENOMEM)
			snprintf(source->error, sizeof(source->error), "%.300s cannot be read here: %s", path,
				 strerror((int)-size));
		else
			err = size < 0 ? (int)size : split_lines(source, (size_t)size);
	}
	if (fd >= 0)
		close(fd);
	return err;
}
