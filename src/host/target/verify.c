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

#include <host/proc.h>
#include <host/session/session.h>
#include <host/space.h>

#define CHUNK (64u << 10)
#define TRIES 5u /* of a comparison */

struct verifier {
	struct session *session;
	const struct target *target;
	pid_t alive;
	int mem;
	uint8_t *there, *file; /* CHUNK each */
};

/* Only files of which something was patched. */
static bool was_patched(const struct verifier *verifier, int fd)
{
	struct stat st;

	if (fstat(fd, &st))
		return false;
	for (uint32_t i = 0; i < verifier->target->map_count; i++) {
		const struct image *image = verifier->target->maps[i].image;

		if (image->site_count && image->dev == st.st_dev && image->ino == st.st_ino)
			return true;
	}
	return false;
}

struct compared {
	uint64_t verified, differing; /* bytes */
};

static struct compared compare(const struct verifier *verifier, int fd, const struct map *map)
{
	struct compared compared = {0};

	for (uint64_t at = map->lo; at < map->hi; at += CHUNK) {
		size_t size = map->hi - at < CHUNK ? map->hi - at : CHUNK;
		ssize_t got = pread(verifier->mem, verifier->there, size, (off_t)at);
		ssize_t had = pread(fd, verifier->file, size, (off_t)(map->offset + (at - map->lo)));

		if (got < 0 || had < 0)
			break;
		got = got < had ? got : had; /* the last page ends behind the file */
		for (ssize_t i = 0; i < got; i++)
			compared.differing += verifier->there[i] != verifier->file[i];
		compared.verified += (uint64_t)got;
	}
	return compared;
}

static bool is_mapped(pid_t alive, const struct map *map)
{
	const struct map *now;
	struct space space;
	bool mapped = false;

	if (!space_read(&space, alive)) {
		now = space_find(&space, map->lo);
		mapped = now && now->lo == map->lo && now->hi == map->hi && now->inode == map->inode &&
			 now->major == map->major && now->minor == map->minor;
	}
	space_free(&space);
	return mapped;
}

/* The program runs: while it is looked at, another object may be at the place of one that comes and goes. */
static void verify_map(struct verifier *verifier, const struct map *map)
{
	int fd = map->bits & MAP_EXEC ? space_open(verifier->alive, map) : -ENOENT;
	struct compared compared = {0};

	if (fd < 0)
		return;
	for (unsigned i = 0; i < TRIES && was_patched(verifier, fd); i++) {
		compared = compare(verifier, fd, map);
		if (!compared.differing)
			break;
		if (!is_mapped(verifier->alive, map)) {
			compared = (struct compared){0};
			break;
		}
	}
	close(fd);
	verifier->target->attachee->told->verified += compared.verified;
	verifier->target->attachee->told->differing += compared.differing;
}

void verify_text(struct session *session, const struct target *target)
{
	struct verifier verifier = {.session = session, .target = target, .alive = proc_alive(target->pid), .mem = -1};
	struct space space;
	char path[64];
	bool known = !space_read(&space, verifier.alive);

	snprintf(path, sizeof(path), "/proc/%d/mem", (int)verifier.alive);
	verifier.mem = open(path, O_RDONLY | O_CLOEXEC);
	verifier.there = malloc(CHUNK);
	verifier.file = malloc(CHUNK);
	known = known && verifier.mem >= 0 && verifier.there && verifier.file;
	for (size_t i = 0; known && i < space.count; i++)
		verify_map(&verifier, &space.maps[i]);
	space_free(&space);
	free(verifier.there);
	free(verifier.file);
	if (verifier.mem >= 0)
		close(verifier.mem);
}
