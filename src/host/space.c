/*
 * Reading /proc/PID/maps, and opening what it names (space.h).  Context: host.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <host/files.h>

#include "space.h"

/* Read all of a file of /proc. *length counts the NUL behind it. */
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

static bool take_character(const char **at, char what)
{
	if (**at != what)
		return false;
	(*at)++;
	return true;
}

/* The kernel puts this behind the name of a file that was deleted. */
#define DELETED " (deleted)"

bool space_cut_deleted(char *path)
{
	size_t length = strlen(path), cut = strlen(DELETED);

	if (path[0] != '/' || length <= cut || strcmp(path + length - cut, DELETED) != 0)
		return false;
	path[length - cut] = 0;
	return true;
}

/* By hand: a thousand threads have thousands of mappings, and may be stopped meanwhile. */
static bool parse_map(struct map *map, const char *at)
{
	const char *rights;

	map->lo = take_hex(&at);
	if (!take_character(&at, '-'))
		return false;
	map->hi = take_hex(&at);
	if (!take_character(&at, ' ') || strnlen(at, 5) < 5)
		return false;
	rights = at;
	at += 4;
	if (!take_character(&at, ' '))
		return false;
	map->offset = take_hex(&at);
	if (!take_character(&at, ' '))
		return false;
	map->major = (unsigned)take_hex(&at);
	if (!take_character(&at, ':'))
		return false;
	map->minor = (unsigned)take_hex(&at);
	if (!take_character(&at, ' ') || *at < '0' || *at > '9')
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
	struct map *map;

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
		if (!parse_map(&space->maps[space->count], line))
			continue;
		map = &space->maps[space->count++];
		if (space_cut_deleted(line + (map->path - line)))
			map->bits |= MAP_DELETED;
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
	if (!ret)
		ret = space_parse(space, text, size);
	space->alive = alive;
	return ret;
}

int space_copy(struct space *to, const struct space *from)
{
	*to = (struct space){.count = from->count, .size = from->size, .alive = from->alive};
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

bool space_has_path(const struct space *space, const char *part)
{
	for (size_t i = 0; i < space->count; i++)
		if (strstr(space->maps[i].path, part))
			return true;
	return false;
}

unsigned long space_inode_of(pid_t alive, const char *part)
{
	unsigned long inode = 0;
	struct space space;

	if (space_read(&space, alive))
		return 0;
	for (size_t i = 0; i < space.count && !inode; i++)
		inode = strstr(space.maps[i].path, part) ? space.maps[i].inode : 0;
	space_free(&space);
	return inode;
}

bool space_same_file(const struct map *map, const struct map *other)
{
	return map->inode == other->inode && map->major == other->major && map->minor == other->minor;
}

bool space_is_file(const struct map *map, const struct stat *file)
{
	return file->st_ino == map->inode && major(file->st_dev) == map->major && minor(file->st_dev) == map->minor;
}

static int open_same(const char *path, const struct map *map)
{
	int fd = files_open(path);
	struct stat st;

	if (fd < 0 || (!fstat(fd, &st) && space_is_file(map, &st)))
		return fd;
	close(fd);
	return -ESTALE;
}

/* A file's own name may end in DELETED, too. */
static int open_named(const char *root, const struct map *map)
{
	char path[4400];
	int fd, odd;

	snprintf(path, sizeof(path), "%s%s", root, map->path);
	fd = open_same(path, map);
	if (fd >= 0 || !(map->bits & MAP_DELETED))
		return fd;
	snprintf(path, sizeof(path), "%s%s" DELETED, root, map->path);
	odd = open_same(path, map);
	return odd >= 0 ? odd : fd;
}

/*
 * Open a file that no name leads to: map_files takes the right to look through a mapping; a program's own file is open
 * to its owner.
 */
static int open_nameless(pid_t alive, const struct map *map)
{
	char path[80];
	struct stat st;
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/map_files/%llx-%llx", (int)alive, (unsigned long long)map->lo,
		 (unsigned long long)map->hi);
	fd = files_open(path);
	if (fd >= 0 && !fstat(fd, &st) && st.st_ino == map->inode)
		return fd;
	if (fd >= 0)
		close(fd); /* another file has been mapped there meanwhile */
	snprintf(path, sizeof(path), "/proc/%d/exe", (int)alive);
	return open_same(path, map);
}

int space_open(pid_t alive, const struct map *map)
{
	int inside, outside, nameless;
	char root[32];

	if (map->path[0] != '/')
		return -ENOENT;
	snprintf(root, sizeof(root), "/proc/%d/root", (int)alive);
	inside = open_named(root, map);
	if (inside >= 0)
		return inside;
	outside = open_named("", map); /* the process may have ended */
	if (outside >= 0)
		return outside;
	nameless = open_nameless(alive, map);
	if (nameless >= 0)
		return nameless;
	return inside == -ESTALE ? inside : outside;
}

bool space_is_named(pid_t alive, const char *name, int fd)
{
	const struct open_how how = {.flags = O_PATH | O_CLOEXEC, .resolve = RESOLVE_IN_ROOT};
	struct stat named, open_one;
	bool same = true;
	char root[32];
	int root_fd, named_fd;

	if (name[0] != '/')
		return true;
	snprintf(root, sizeof(root), "/proc/%d/root", (int)alive);
	root_fd = open(root, O_PATH | O_DIRECTORY | O_CLOEXEC);
	named_fd = root_fd < 0 ? -1 : (int)syscall(SYS_openat2, root_fd, name, &how, sizeof(how));
	if (named_fd >= 0 && !fstat(named_fd, &named) && !fstat(fd, &open_one))
		same = named.st_ino == open_one.st_ino && named.st_dev == open_one.st_dev;
	if (named_fd >= 0)
		close(named_fd);
	if (root_fd >= 0)
		close(root_fd);
	return same;
}
