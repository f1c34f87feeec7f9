/*
 * What /proc tells of a process and its threads, and its memory (impl.h).
 * Context: host; a target chooses names and contents.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include <host/elf/program.h>

#include "impl.h"

uint64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

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

static bool parse_map(struct map *map, char *line)
{
	unsigned long lo, hi, offset;
	char perms[5] = "";
	int path = 0;

	if (sscanf(line, "%lx-%lx %4s %lx %x:%x %lu %n", &lo, &hi, perms, &offset, &map->major, &map->minor,
		   &map->inode, &path) < 7)
		return false;
	map->lo = lo;
	map->hi = hi;
	map->offset = offset;
	map->bits = (perms[0] == 'r' ? MAP_READ : 0) | (perms[1] == 'w' ? MAP_WRITE : 0) |
		    (perms[2] == 'x' ? MAP_EXEC : 0) | (perms[3] == 's' ? MAP_PUBLIC : 0);
	map->path = path ? line + path : "";
	return true;
}

int space_read(struct space *space, pid_t alive)
{
	char path[64], *rest = NULL;
	size_t room = 0;
	int ret;

	memset(space, 0, sizeof(*space));
	snprintf(path, sizeof(path), "/proc/%d/maps", (int)alive);
	ret = read_whole(path, &space->text, &space->size);
	if (ret)
		return ret;
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
	return space->count ? 0 : -ESRCH;
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

int proc_status(pid_t pid, const char *name, char *value, size_t size)
{
	char path[64], line[256];
	size_t length = strlen(name);
	int ret = -ENOENT;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/status", (int)pid);
	file = fopen(path, "re");
	if (!file)
		return -errno;
	while (ret && fgets(line, sizeof(line), file)) {
		if (strncmp(line, name, length) != 0 || line[length] != ':')
			continue;
		line[strcspn(line, "\n")] = 0;
		snprintf(value, size, "%s", line + length + 1 + strspn(line + length + 1, " \t"));
		ret = 0;
	}
	fclose(file);
	return ret;
}

long proc_number(pid_t pid, const char *name)
{
	char value[256];

	return proc_status(pid, name, value, sizeof(value)) ? 0 : strtol(value, NULL, 10);
}

bool proc_sandboxed(pid_t tid)
{
	long mode = proc_number(tid, "Seccomp");

	/* The count of filters is told since Linux 5.9. */
	return mode == 1 || (mode && !proc_number(getpid(), "Seccomp")) ||
	       proc_number(tid, "Seccomp_filters") > proc_number(getpid(), "Seccomp_filters");
}

char proc_state(pid_t tid, unsigned long *flags)
{
	char path[64], text[1024], *end, state = 0;
	unsigned long found = 0;
	ssize_t got;
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/stat", (int)tid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return 0;
	got = read(fd, text, sizeof(text) - 1);
	close(fd);
	text[got > 0 ? got : 0] = 0;
	end = strrchr(text, ')'); /* its name may hold anything */
	if (!end || sscanf(end + 1, " %c %*d %*d %*d %*d %*d %lu", &state, &found) < 1)
		return 0;
	if (flags)
		*flags = found;
	return state;
}

/* "NUMBER ARGUMENTS... SP PC", "-1 SP PC", or "running" */
int proc_asleep(pid_t tid, long *number, uint64_t *pc, uint64_t *sp)
{
	char path[64], text[256], *last[2] = {NULL, NULL}, *rest = NULL;
	ssize_t got;
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/syscall", (int)tid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	got = read(fd, text, sizeof(text) - 1);
	close(fd);
	text[got > 0 ? got : 0] = 0;
	if (text[0] != '-' && (text[0] < '0' || text[0] > '9'))
		return -EAGAIN;
	*number = strtol(text, NULL, 10);
	for (char *word = strtok_r(text, " \n", &rest); word; word = strtok_r(NULL, " \n", &rest)) {
		last[0] = last[1];
		last[1] = word;
	}
	if (!last[0])
		return -EAGAIN;
	*sp = strtoull(last[0], NULL, 16);
	*pc = strtoull(last[1], NULL, 16);
	return 0;
}

int proc_threads(pid_t pid, pid_t **tids, size_t *count)
{
	const struct dirent *entry;
	size_t room = 0;
	char path[64];
	DIR *dir;

	*tids = NULL;
	*count = 0;
	snprintf(path, sizeof(path), "/proc/%d/task", (int)pid);
	dir = opendir(path);
	if (!dir)
		return errno == ENOENT ? -ESRCH : -errno;
	while ((entry = readdir(dir))) {
		pid_t tid = (pid_t)strtol(entry->d_name, NULL, 10);

		if (tid <= 0)
			continue;
		if (*count == room) {
			pid_t *more = reallocarray(*tids, room = room ? room * 2 : 64, sizeof(*more));

			if (!more) {
				closedir(dir);
				free(*tids);
				*tids = NULL;
				return -ENOMEM;
			}
			*tids = more;
		}
		(*tids)[(*count)++] = tid;
	}
	closedir(dir);
	return *count ? 0 : -ESRCH;
}

static bool has_ended(pid_t tid)
{
	char state = proc_state(tid, NULL);

	return !state || state == 'Z' || state == 'X';
}

pid_t proc_alive(pid_t pid)
{
	pid_t *tids, found = 0;
	size_t count;

	if (!has_ended(pid))
		return pid;
	if (proc_threads(pid, &tids, &count))
		return 0;
	for (size_t i = 0; !found && i < count; i++)
		if (!has_ended(tids[i]))
			found = tids[i];
	free(tids);
	return found;
}

pid_t proc_inner_id(pid_t tid)
{
	char value[256];
	const char *last;

	if (proc_status(tid, "NSpid", value, sizeof(value)))
		return tid;
	last = strrchr(value, '\t');
	return (pid_t)strtol(last ? last + 1 : value, NULL, 10);
}

/* Only the very file that is mapped will do. */
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

int proc_open_map(pid_t alive, const struct map *map)
{
	char path[4400];
	int fd;

	if (map->path[0] != '/')
		return -ENOENT;
	snprintf(path, sizeof(path), "/proc/%d/root%s", (int)alive, map->path);
	fd = open_same(path, map);
	if (fd < 0) /* the process has ended */
		fd = open_same(map->path, map);
	if (fd >= 0)
		return fd;
	/* Deleted, or another has its name: root may open the very file. */
	snprintf(path, sizeof(path), "/proc/%d/map_files/%lx-%lx", (int)alive, (unsigned long)map->lo,
		 (unsigned long)map->hi);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	return fd < 0 ? -ENOENT : fd;
}

int memory_read(pid_t alive, uint64_t address, void *bytes, size_t size)
{
	const struct iovec to = {bytes, size}, from = {(void *)(uintptr_t)address, size};
	ssize_t got = process_vm_readv(alive, &to, 1, &from, 1, 0);

	if (got < 0)
		return -errno;
	return (size_t)got == size ? 0 : -EFAULT;
}

int memory_write(pid_t alive, uint64_t address, const void *bytes, size_t size)
{
	const struct iovec from = {(void *)(uintptr_t)bytes, size}, to = {(void *)(uintptr_t)address, size};
	ssize_t put = process_vm_writev(alive, &from, 1, &to, 1, 0);

	if (put < 0)
		return -errno;
	return (size_t)put == size ? 0 : -EFAULT;
}
