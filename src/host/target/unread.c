/*
 * Objects of a target whose files were deleted or replaced, and that cannot be
 * read in another way (space_open()): nothing of them is traced, which is to be
 * said.  Called by the server thread with the session's lock held, or before
 * it runs.  Context: host.
 */
#include <elf.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>

#include <host/session/session.h>
#include <host/space.h>

struct unread {
	struct unread *next;
	unsigned long inode;
	unsigned major, minor;
};

static bool is_same(const struct unread *unread, const struct map *map)
{
	return unread->inode == map->inode && unread->major == map->major && unread->minor == map->minor;
}

/* Code of another kind lies in files, too: what compilers within programs make. */
static bool is_object(pid_t pid, const struct space *space, const struct map *map)
{
	for (size_t i = 0; i < space->count; i++) {
		const struct map *first = &space->maps[i];
		char magic[SELFMAG] = "";
		const struct iovec to = {magic, SELFMAG}, from = {(void *)(uintptr_t)first->lo, SELFMAG};

		if (first->inode == map->inode && first->major == map->major && first->minor == map->minor &&
		    !first->offset)
			return process_vm_readv(pid, &to, 1, &from, 1, 0) == SELFMAG && !memcmp(magic, ELFMAG, SELFMAG);
	}
	return false;
}

bool unread_note(struct session *session, pid_t pid, const struct space *space, const struct map *map, int error)
{
	struct unread *unread = session->unread;

	if (error != -ESTALE && error != -ENOENT)
		return false;
	if (map->path[0] != '/' || !map->inode || strstr(map->path, "/memfd:") || !is_object(pid, space, map))
		return false;
	while (unread && !is_same(unread, map))
		unread = unread->next;
	if (unread)
		return true;
	unread = malloc(sizeof(*unread));
	if (!unread)
		return true;
	*unread = (struct unread){session->unread, map->inode, map->major, map->minor};
	session->unread = unread;
	if (!session->result->unread++)
		snprintf(session->result->unread_path, sizeof(session->result->unread_path), "%s", map->path);
	return true;
}

void unread_clear(struct session *session)
{
	while (session->unread) {
		struct unread *unread = session->unread;

		session->unread = unread->next;
		free(unread);
	}
}
