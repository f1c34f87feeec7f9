/*
 * Reading /proc/PID/maps, and opening what it names (maps.h).  Context: host.
 */
#include <errno.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <host/elf/program.h>

#include "maps.h"

int maps_find(FILE *maps, uint64_t address, struct mapping *mapping)
{
	char line[4400];

	rewind(maps);
	while (fgets(line, sizeof(line), maps)) {
		unsigned long lo, hi;

		mapping->path[0] = 0;
		if (sscanf(line, "%lx-%lx %*s %*x %x:%x %lu %4095[^\n]", &lo, &hi, &mapping->major, &mapping->minor,
			   &mapping->inode, mapping->path) < 5)
			continue;
		mapping->lo = lo;
		mapping->hi = hi;
		if (address >= lo && address < hi)
			return mapping->path[0] == '/' ? 0 : -ENOENT;
	}
	return -ENOENT;
}

int maps_open(pid_t pid, const struct mapping *mapping)
{
	char path[sizeof(mapping->path) + 64];
	struct stat st;
	int fd;

	/* As the target sees it, which may be in another root. */
	snprintf(path, sizeof(path), "/proc/%d/root%s", (int)pid, mapping->path);
	fd = program_open(path);
	if (fd < 0)
		fd = program_open(mapping->path);
	if (fd < 0)
		return fd;
	if (!fstat(fd, &st) && st.st_ino == mapping->inode && major(st.st_dev) == mapping->major &&
	    minor(st.st_dev) == mapping->minor)
		return fd;
	close(fd);
	return -ESTALE;
}
