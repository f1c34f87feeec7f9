/*
 * Reading /proc/PID/maps, and opening what it names (space.h).  Context: host.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <host/elf/program.h>

#include "space.h"

/* All of a file of /proc, with a NUL behind it, which *length counts. */
static int read_whole(const char *path, char **text, size_t *length)
{
	size_t size = 0, room = 16384;
	char *bytes = malloc(room);
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t got = fd < 0 ? -1 : 0;
	int error = errno;

	while (bytes && fd >= 0) {
		char *more = bytes;

		if (room - size < 8192)
			more = realloc(bytes, room *= 2);
		if (!more)
			break;
		bytes = more;
		got = read(fd, bytes + size, room - size - 1);
		error = errno;
		if (got <= 0)
			break;
		size += (size_t)got;
	}
	if (fd >= 0)
		close(fd);
	if (!bytes || got) {
		free(bytes);
		return bytes && got < 0 ? -error : -ENOMEM;
	}
	bytes[size] = 0;
	*length = size + 1;
	*text = bytes;
	return 0;
}

static uint64_t take_hex(const char **at)
{
	uint64_t value = 0;

	for (;; (*at)++) {
		unsigned digit = (unsigned char)**at;

		if (digit >= '0' && digit <= '9')
			value = value << 4 | (digit - '0');
		else if (digit >= 'a' && digit <= 'f')
			value = value << 4 | (digit - 'a' + 10);
		else
			return value;
	}
}

static bool take(const char **at, char what)
{
	if (**at != what)
		return false;
	(*at)++;
	return true;
}

/* By hand: a thousand threads have thousands of mappings, and may be stopped meanwhile. */
static bool parse_map(struct map *map, const char *at)
{
	const char *rights;

	map->lo = take_hex(&at);
	if (!take(&at, '-'))
		return false;
	map->hi = take_hex(&at);
	if (!take(&at, ' ') || strnlen(at, 5) < 5)
		return false;
	rights = at;
	at += 4;
	if (!take(&at, ' '))
		return false;
	map->offset = take_hex(&at);
	if (!take(&at, ' '))
		return false;
	map->major = (unsigned)take_hex(&at);
	if (!take(&at, ':'))
		return false;
	map->minor = (unsigned)take_hex(&at);
	if (!take(&at, ' ') || *at < '0' || *at > '9')
		return false;
	map->inode = 0;
	for (; *at >= '0' && *at <= '9'; at++)
		map->inode = map->inode * 10 + (unsigned long)(*at - '0');
	map->bits = (rights[0] == 'r' ? MAP_READ : 0) | (rights[1] == 'w' ? MAP_WRITE : 0) |
		    (rights[2] == 'x' ? MAP_EXEC : 0) | (rights[3] == 's' ? MAP_PUBLIC : 0);
	map->path = at + strspn(at, " ");
	return true;
}

int space_parse(struct space *space, char *text, size_t size)
{
	char *rest = NULL;
	size_t room = 0;

	*space = (struct space){.text = text, .size = size};
	for (char *line = strtok_r(space->text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
		if (space->count == room) {
			struct map *more = reallocarray(space->maps, room = room ? room * 2 : 256, sizeof(*more));

			if (!more) {
				space_free(space);
				return -ENOMEM;
			}
			space->maps = more;
		}
		if (parse_map(&space->maps[space->count], line))
			space->count++;
	}
	if (space->count)
		return 0;
	space_free(space);
	return -ESRCH;
}

int space_read(struct space *space, pid_t alive)
{
	char path[64], *text = NULL;
	size_t size = 0;
	int ret;

	*space = (struct space){0};
	snprintf(path, sizeof(path), "/proc/%d/maps", (int)alive);
	ret = read_whole(path, &text, &size);
	return ret ? ret : space_parse(space, text, size);
}

int space_copy(struct space *to, const struct space *from)
{
	*to = (struct space){.count = from->count, .size = from->size};
	to->maps = calloc(from->count + 1, sizeof(*to->maps));
	to->text = malloc(from->size);
	if (!to->maps || !to->text) {
		space_free(to);
		return -ENOMEM;
	}
	memcpy(to->text, from->text, from->size);
	for (size_t i = 0; i < from->count; i++) {
		const char *path = from->maps[i].path;

		to->maps[i] = from->maps[i];
		to->maps[i].path = path[0] ? to->text + (path - from->text) : "";
	}
	return 0;
}

void space_free(struct space *space)
{
	free(space->maps);
	free(space->text);
	memset(space, 0, sizeof(*space));
}

const struct map *space_find(const struct space *space, uint64_t address)
{
	size_t lo = 0, hi = space->count;

	while (lo < hi) {
		size_t middle = (lo + hi) / 2;

		if (space->maps[middle].hi <= address)
			lo = middle + 1;
		else
			hi = middle;
	}
	return lo < space->count && space->maps[lo].lo <= address ? &space->maps[lo] : NULL;
}

static int open_same(const char *path, const struct map *map)
{
	int fd = program_open(path);
	struct stat st;

	if (fd < 0 || (!fstat(fd, &st) && st.st_ino == map->inode && major(st.st_dev) == map->major &&
		       minor(st.st_dev) == map->minor))
		return fd;
	close(fd);
	return -ESTALE;
}

int space_open(pid_t alive, const struct map *map)
{
	char path[4400];
	int fd, as_we_see_it;

	if (map->path[0] != '/')
		return -ENOENT;
	snprintf(path, sizeof(path), "/proc/%d/root%s", (int)alive, map->path);
	fd = open_same(path, map);
	if (fd >= 0)
		return fd;
	as_we_see_it = open_same(map->path, map); /* the process may have ended */
	return as_we_see_it >= 0 || fd != -ESTALE ? as_we_see_it : fd;
}
