/*
 * Is the text of a process what its files say?  Asked when it has been let go
 * of (attached.c).  Context: host, under the session's lock.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "maps.h"
#include "session.h"

#define CHUNK (64u << 10)

struct verifier {
	struct session *session;
	const struct process *process;
	int mem;
	uint8_t *there, *file; /* CHUNK each */
};

/* Only files of which something was patched. */
static bool was_patched(const struct verifier *verifier, int fd)
{
	struct stat st;

	if (fstat(fd, &st))
		return false;
	for (uint32_t i = 0; i < verifier->process->map_count; i++) {
		const struct image *image = verifier->process->maps[i].image;

		if (image->site_count && image->dev == st.st_dev && image->ino == st.st_ino)
			return true;
	}
	return false;
}

static void compare(struct verifier *verifier, int fd, uint64_t lo, uint64_t hi, uint64_t offset)
{
	struct record_result *result = verifier->session->result;

	for (uint64_t at = lo; at < hi; at += CHUNK) {
		size_t size = hi - at < CHUNK ? hi - at : CHUNK;
		ssize_t got = pread(verifier->mem, verifier->there, size, (off_t)at);
		ssize_t had = pread(fd, verifier->file, size, (off_t)(offset + (at - lo)));

		if (got < 0 || had < 0)
			return;
		got = got < had ? got : had; /* the last page ends behind the file */
		for (ssize_t i = 0; i < got; i++)
			result->differing += verifier->there[i] != verifier->file[i];
		result->verified += (uint64_t)got;
	}
}

static void verify_line(struct verifier *verifier, const char *line)
{
	struct mapping mapping = {0};
	unsigned long lo, hi, offset;
	char permissions[8];
	int fd;

	if (sscanf(line, "%lx-%lx %7s %lx %x:%x %lu %4095[^\n]", &lo, &hi, permissions, &offset, &mapping.major,
		   &mapping.minor, &mapping.inode, mapping.path) < 8 ||
	    permissions[2] != 'x' || mapping.path[0] != '/')
		return;
	mapping.lo = lo;
	mapping.hi = hi;
	fd = maps_open(verifier->process->pid, &mapping);
	if (fd < 0)
		return;
	if (was_patched(verifier, fd))
		compare(verifier, fd, lo, hi, offset);
	close(fd);
}

void verify_text(struct session *session, const struct process *process)
{
	struct verifier verifier = {.session = session, .process = process, .mem = -1};
	char path[64], *line = NULL;
	size_t room = 0;
	FILE *maps;

	snprintf(path, sizeof(path), "/proc/%d/mem", (int)process->pid);
	verifier.mem = open(path, O_RDONLY | O_CLOEXEC);
	snprintf(path, sizeof(path), "/proc/%d/maps", (int)process->pid);
	maps = fopen(path, "re");
	verifier.there = malloc(CHUNK);
	verifier.file = malloc(CHUNK);
	while (maps && verifier.mem >= 0 && verifier.there && verifier.file && getline(&line, &room, maps) > 0)
		verify_line(&verifier, line);
	free(line);
	free(verifier.there);
	free(verifier.file);
	if (maps)
		fclose(maps);
	if (verifier.mem >= 0)
		close(verifier.mem);
}
