/*
 * Processes that have the remains of a session that is over: forked children of one that has attached to processes, and
 * whose targets have all let go; and all that a tool had followed which was killed.
 *
 * A child has its parent's memory as of the fork: with sites that are on, heads that are led, buffers, or only the code
 * of a borrowed thread, as the attach had come so far.  It calls in by its first traced call; one that makes none, or
 * makes it when nobody listens any more, knows of no end.  So each process that began after the tool is looked at: for
 * the session's board; for the agent at its parent's address, which chance does not give it; or for a borrowed thread's
 * code in the parent's program.  What has another session's board is that session's.  doc/design/control.md, "Letting
 * go".  Of a killed tool's session nothing is known but the board, and that is enough.  Context: host, the thread of
 * the command, when the session is over.
 */
#include <ctype.h>
#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <host/attach/attach.h>
#include <host/proc.h>
#include <host/space.h>

#include "session.h"

#define ANCESTORS_MAX 64

/* A process that was attached to. */
struct record_parent {
	struct attach_program program;
	uint64_t agent; /* where the agent's code is mapped, 0 = it was not */
};

static void note_seen(struct record_silent *silent, pid_t pid)
{
	pid_t *list = reallocarray(silent->seen, silent->seen_count + 1, sizeof(*list));

	if (!list)
		return;
	silent->seen = list;
	list[silent->seen_count++] = pid;
}

void silent_note(struct session *session)
{
	struct record_silent *silent = &session->result->silent;
	struct stat board;

	if (session->options->clears || !session->attachees.count || fstat(session->board_fd, &board))
		return;
	silent->parents = calloc(session->attachees.count, sizeof(*silent->parents));
	if (!silent->parents)
		return;
	(void)!proc_began(getpid(), &silent->since);
	session_lock(session);
	for (uint32_t i = 0; i < session->attachees.count; i++) {
		const struct attachee *attachee = &session->attachees.list[i];

		note_seen(silent, attachee->told->pid);
		if (attachee->agent)
			silent->parents[silent->parent_count++] =
				(struct record_parent){attachee->program, attachee->agent};
	}
	for (const struct target *target = session->targets; target; target = target->next)
		/* A child whose threads were never stopped in time is not noted: a look finds it. */
		if (target->alone || target->attach.heads_are_own)
			note_seen(silent, target->pid);
	session_unlock(session);
	if (silent->parent_count)
		silent->board = board.st_ino;
}

void record_silent_of(struct record_silent *silent, pid_t pid, unsigned long long since)
{
	silent->since = since;
	silent->board = space_inode_of(pid, SPACE_BOARD);
	note_seen(silent, pid);
}

static bool is_seen(const struct record_silent *silent, pid_t pid)
{
	for (size_t i = 0; i < silent->seen_count; i++)
		if (silent->seen[i] == pid)
			return true;
	return false;
}

static bool runs_program_of(const struct record_silent *silent, pid_t pid)
{
	struct attach_program program;

	attach_program_of(&program, pid);
	for (size_t i = 0; program.known && i < silent->parent_count; i++)
		if (silent->parents[i].program.device == program.device &&
		    silent->parents[i].program.inode == program.inode)
			return true;
	return false;
}

static bool is_agent_of_parent(const struct record_silent *silent, const struct map *map)
{
	for (size_t i = 0; map->bits & MAP_EXEC && i < silent->parent_count; i++)
		if (silent->parents[i].agent == map->lo)
			return true;
	return false;
}

/*
 * A process of the same program to which another tool attaches just now has a borrowed thread's code, too, and no board
 * yet.  It is none of ours: it descends from no process of the session, and has not lost its parent.
 */
static bool may_descend(const struct record_silent *silent, pid_t parent)
{
	pid_t next = parent;

	for (int i = 0; i < ANCESTORS_MAX && next > 1; i++, next = proc_parent(next))
		if (is_seen(silent, next))
			return true;
	return parent <= 1 || next < 0; /* or one of them has ended meanwhile */
}

static bool has_remains(const struct record_silent *silent, pid_t pid, pid_t parent)
{
	bool ours = false, others = false, agent = false, buffers = false;
	struct space space;

	if (space_read(&space, pid))
		return false;
	for (size_t i = 0; i < space.count; i++) {
		const struct map *map = &space.maps[i];
		bool board = strstr(map->path, SPACE_BOARD) != NULL;

		ours |= board && map->inode == silent->board;
		others |= board && map->inode != silent->board;
		buffers |= strstr(map->path, "/memfd:calltap-arena") != NULL;
		agent |= strstr(map->path, "libcalltap-agent") && is_agent_of_parent(silent, map);
	}
	space_free(&space);
	return ours || (!others && ((agent && buffers) || (runs_program_of(silent, pid) &&
							   may_descend(silent, parent) && attach_slack_has(pid))));
}

static void note_found(struct record_silent *silent, pid_t pid)
{
	pid_t *list = reallocarray(silent->pids, silent->count + 1, sizeof(*list));

	if (!list)
		return;
	silent->pids = list;
	list[silent->count++] = pid;
	note_seen(silent, pid);
}

/* A child of vfork() has its parent's memory: it is no process to clear. */
static void look_at(struct record_silent *silent, pid_t pid)
{
	const pid_t parent = proc_parent(pid);
	unsigned long long began;

	if (is_seen(silent, pid) || !proc_began(pid, &began) || began < silent->since || parent < 0 ||
	    proc_share_memory(pid, parent) || !has_remains(silent, pid, parent))
		return;
	note_found(silent, pid);
}

void record_silent_look(struct record_silent *silent)
{
	DIR *folder = silent->board ? opendir("/proc") : NULL;
	const struct dirent *entry;

	silent->count = 0;
	while (folder && (entry = readdir(folder)))
		if (isdigit((unsigned char)entry->d_name[0]))
			look_at(silent, (pid_t)strtol(entry->d_name, NULL, 10));
	if (folder)
		closedir(folder);
}

void record_silent_clear(struct record_silent *silent)
{
	free(silent->pids);
	free(silent->parents);
	free(silent->seen);
	*silent = (struct record_silent){0};
}
