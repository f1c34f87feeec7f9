/*
 * Processes of the session that have not called in: a forked child does so at
 * its first traced call, which may come after the command's own end (a daemon's
 * always does).  And those that became another program without an agent.
 * Called by the server thread and the drainer, with the session's lock held.
 * Context: host.
 */
#include <ctype.h>
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <host/proc.h>
#include <host/space.h>

#include "session.h"

#define PATIENCE_NS 200000000u /* for a first call, after the last process that is followed has ended */
#define ENVIRON_MAX (256u << 10)

/* The environment that the process was started with: its own copy may have changed, ours is still there. */
static bool is_of_session(const struct session *session, const char *pid, char *environment)
{
	char path[300], wanted[sizeof(session->endpoint.name) + 32];
	ssize_t got;
	int fd;

	snprintf(path, sizeof(path), "/proc/%s/environ", pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return false; /* another user's, or gone */
	got = read(fd, environment, ENVIRON_MAX);
	close(fd);
	snprintf(wanted, sizeof(wanted), "%s=%s", CALLTAP_ENV_SESSION, session->endpoint.name);
	return got > 0 && memmem(environment, (size_t)got, wanted, strlen(wanted));
}

bool strays_has_board(const struct session *session, pid_t pid)
{
	struct space space;
	struct stat board;
	bool found = false;

	if (pid == getpid() || fstat(session->board_fd, &board) || space_read(&space, pid))
		return false;
	for (size_t i = 0; i < space.count; i++)
		found |= space.maps[i].inode == board.st_ino && strstr(space.maps[i].path, "/memfd:calltap-board");
	space_free(&space);
	return found;
}

static bool is_known(const struct session *session, pid_t pid)
{
	for (const struct target *target = session->targets; target; target = target->next)
		if (target->pid == pid && target->greeted)
			return true;
	return false;
}

static uint32_t count_strays(const struct session *session)
{
	char *environment = malloc(ENVIRON_MAX);
	DIR *folder = environment ? opendir("/proc") : NULL;
	const struct dirent *entry;
	uint32_t count = 0;

	while (folder && (entry = readdir(folder)))
		count += isdigit((unsigned char)entry->d_name[0]) &&
			 !is_known(session, (pid_t)strtol(entry->d_name, NULL, 10)) &&
			 (is_of_session(session, entry->d_name, environment) ||
			  (session->cleaned && strays_has_board(session, (pid_t)strtol(entry->d_name, NULL, 10))));
	if (folder)
		closedir(folder);
	free(environment);
	return count;
}

bool strays_may_come(struct session *session)
{
	uint64_t now = clock_now_ns();

	session->result->strays = count_strays(session);
	if (!session->result->strays)
		return false;
	if (!session->ending.strays_until_ns)
		session->ending.strays_until_ns = now + PATIENCE_NS;
	return now < session->ending.strays_until_ns;
}

/* A process whose agent is gone may run another program now, which is not traced. */
static void note_executed(struct session *session, struct target *target)
{
	struct space space;
	bool ours = false;

	/* No mapping: it is about to end. */
	if (!target->alone || target->executed || space_read(&space, proc_alive(target->pid)))
		return;
	/* Ours among them: it is not yet another program, or still the old one. */
	for (size_t i = 0; i < space.count; i++)
		ours |= strstr(space.maps[i].path, "/memfd:calltap-board") != NULL;
	space_free(&space);
	target->executed = !ours;
	session->result->executed += target->executed;
}

void strays_note_all(struct session *session)
{
	for (struct target *target = session->targets; target; target = target->next)
		if (!target->ended)
			note_executed(session, target);
}
