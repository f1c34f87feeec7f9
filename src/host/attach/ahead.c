/*
 * Facts read of a process before its threads are stopped, so that they are stopped for a shorter time (attach.h).
 *
 * The stop checks all of them: it reads a thread's status file again, and takes a segment's end only for the very
 * mapping that it was found for.  Context: host.
 */
#include <errno.h>
#include <gelf.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "impl.h"

static int compare_threads(const void *a, const void *b)
{
	const struct ahead_thread *left = a, *right = b;

	return left->tid < right->tid ? -1 : left->tid > right->tid;
}

/* The stop opens the rest: there may be more threads than the tool may have files. */
static int open_statuses(struct attach_ahead *ahead, pid_t pid)
{
	size_t count;
	pid_t *tids;
	int ret = proc_threads(pid, &tids, &count);

	if (ret)
		return ret;
	ahead->threads = calloc(count + 1, sizeof(*ahead->threads));
	for (size_t i = 0; ahead->threads && i < count; i++) {
		int fd = sandbox_open(tids[i]);

		if (fd == -EMFILE || fd == -ENFILE)
			break;
		if (fd >= 0)
			ahead->threads[ahead->thread_count++] = (struct ahead_thread){tids[i], fd};
	}
	free(tids);
	if (!ahead->threads)
		return -ENOMEM;
	qsort(ahead->threads, ahead->thread_count, sizeof(*ahead->threads), compare_threads);
	return 0;
}

static int find_ends(struct attach_ahead *ahead, pid_t alive)
{
	ahead->ends = calloc(ahead->space.count, sizeof(*ahead->ends));
	if (!ahead->ends)
		return -ENOMEM;
	elf_version(EV_CURRENT);
	for (size_t i = 0; i < ahead->space.count; i++)
		ahead->ends[i] = slack_segment_end(alive, &ahead->space.maps[i]);
	return 0;
}

int attach_ahead_read(struct attach_ahead **out, pid_t pid, unsigned what)
{
	struct attach_ahead *ahead = calloc(1, sizeof(*ahead));
	pid_t alive = proc_alive(pid);
	int ret = ahead ? space_read(&ahead->space, alive ? alive : pid) : -ENOMEM;

	if (!ret && what & ATTACH_AHEAD_THREADS)
		ret = open_statuses(ahead, pid);
	if (!ret && what & ATTACH_AHEAD_SEGMENTS)
		ret = find_ends(ahead, alive ? alive : pid);
	if (!ret && what & ATTACH_AHEAD_CONTEXTS)
		ret = elsewhere_find(ahead, alive ? alive : pid);
	if (ret) {
		attach_ahead_free(ahead);
		ahead = NULL;
	}
	*out = ahead;
	return ret;
}

void attach_ahead_free(struct attach_ahead *ahead)
{
	if (!ahead)
		return;
	for (size_t i = 0; i < ahead->thread_count; i++)
		close(ahead->threads[i].status);
	space_free(&ahead->space);
	free(ahead->threads);
	free(ahead->ends);
	free(ahead->areas.list);
	free(ahead->likely.list);
	free(ahead->seen.list);
	free(ahead);
}

void attach_use(struct attach_stop *stop, const struct attach_ahead *ahead)
{
	stop->ahead = ahead;
	stop->late = !(ahead && ahead->searched) && elsewhere_may_be(stop->alive);
}

bool attach_ahead_is_late(const struct attach_stop *stop)
{
	return stop->late;
}

bool ahead_segment_end(const struct attach_ahead *ahead, const struct map *map, uint64_t *end)
{
	const struct map *known = ahead && ahead->ends ? space_find(&ahead->space, map->lo) : NULL;

	if (!known || known->lo != map->lo || known->hi != map->hi || known->offset != map->offset ||
	    known->inode != map->inode || known->major != map->major || known->minor != map->minor ||
	    known->bits != map->bits)
		return false;
	*end = ahead->ends[known - ahead->space.maps];
	return true;
}

/*
 * An id that was given to another thread is no danger: the open file belongs to the old thread, and tells that it has
 * ended.
 */
static int look_at_thread(const struct attach_ahead *ahead, pid_t tid, struct sandbox *sandbox)
{
	const struct ahead_thread key = {tid, -1}, *known = NULL;
	int ret = -ESRCH;

	if (ahead)
		known = bsearch(&key, ahead->threads, ahead->thread_count, sizeof(key), compare_threads);
	if (known)
		ret = sandbox_read(known->status, sandbox);
	return ret == -ESRCH ? sandbox_of(tid, sandbox) : ret;
}

bool attach_is_sandboxed(const struct attach_stop *stop)
{
	struct sandbox ours, theirs;

	for (size_t i = 0; i < stop->thread_count; i++)
		if (stop->threads[i].dispatches)
			return true;
	if (sandbox_of(getpid(), &ours))
		return false;
	for (size_t i = 0; i < stop->thread_count; i++)
		if (!look_at_thread(stop->ahead, stop->threads[i].tid, &theirs) && sandbox_is_tighter(&theirs, &ours))
			return true;
	return false;
}
