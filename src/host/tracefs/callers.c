/*
 * Threads that open a file to write to it (tree.h): those of forked children that the session has not heard of.
 *
 * Such a child is to call in before it writes (doc/design/control.md, "fork").  Only a process that was forked from one
 * of a session has the session's board in its memory, and what it has there stays so: each process is looked at once a
 * second at the most.  Context: host.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <host/now.h>
#include <host/remote/remote.h>
#include <host/space.h>

#include "tree.h"

#define LOOKED_NS 1000000000u

/* The thread's process has the board of a session: it is one of its processes, or was forked from one. */
static bool has_board(pid_t tid)
{
	return space_inode_of(tid, SPACE_BOARD) != 0;
}

bool open_changes(const struct tree_open *open)
{
	const struct tree_row *row = open->row;

	return open_writes(open) && (!row || (row->read && row->write && row->stream == STREAM_NONE));
}

/* A session of another build that does not know the question is as good as one that catches nobody. */
static enum remote_catch ask(struct tree *tree, pid_t tid)
{
	enum remote_catch catch = REMOTE_CATCH_NOT;
	struct calltap_diag diag = {.column = -1};
	char word[32], *answer;
	const char *const words[] = {word};

	snprintf(word, sizeof(word), "tid=%d", (int)tid);
	if (!ask_session(tree->instances, "catch", words, 1, -1, &answer, &diag))
		catch = !strcmp(answer, "caught\n")   ? REMOTE_CATCH_CAUGHT
			: !strcmp(answer, "coming\n") ? REMOTE_CATCH_COMING
						      : REMOTE_CATCH_NOT;
	free(answer);
	return catch;
}

enum remote_catch callers_catch_one(struct tree *tree, pid_t tid)
{
	struct tree_caller *place = tree->callers;
	const uint64_t now = now_ns();

	if (tid <= 0 || !tree->pid || tree->over)
		return REMOTE_CATCH_NOT;
	for (size_t i = 0; i < TREE_CALLERS; i++) {
		struct tree_caller *caller = &tree->callers[i];

		if (caller->tid == tid && !caller->comes && now - caller->looked_ns < LOOKED_NS)
			return REMOTE_CATCH_NOT;
		if (caller->tid == tid || (place->tid != tid && caller->looked_ns < place->looked_ns))
			place = caller;
	}
	*place = (struct tree_caller){.tid = tid, .looked_ns = now};
	if (has_board(tid)) {
		const enum remote_catch catch = ask(tree, tid);

		place->comes = catch != REMOTE_CATCH_NOT;
		return catch;
	}
	return REMOTE_CATCH_NOT;
}
