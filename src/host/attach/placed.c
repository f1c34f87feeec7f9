/*
 * Facts of a static program that runs, for the agent to come into it: an agent that is there already, and where libc
 * notes a thread's id (attach.h, doc/design/loaderless.md).  Context: host; the target chooses what it has in memory.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <calltap/abi/start.h>

#include "impl.h"

#define NOTE_WORDS 256u /* of libc's block behind a thread's pointer, where the note is looked for */
#define MUSL_WORDS 32u	/* musl's is shorter, and behind the initial thread's are libc's variables */
#define TRIES	   5u

int attach_find_placed(pid_t alive, const struct space *space, uint64_t *at, struct calltap_start *start)
{
	int ret = -ENOENT;

	for (size_t i = 0; ret == -ENOENT && i < space->count; i++) {
		const struct map *map = &space->maps[i];

		if (!(map->bits & MAP_EXEC) || !strstr(map->path, "libcalltap-agent") ||
		    memory_read(alive, map->lo, start, sizeof(*start)) || start->magic != CALLTAP_START_MAGIC)
			continue;
		*at = map->lo;
		ret = start->version != CALLTAP_START_VERSION ? -EPROTO : 0;
	}
	return ret;
}

/* Words that may be the note: each is the id of every thread that was looked at. */
struct candidates {
	bool left[NOTE_WORDS];
	size_t threads;
};

/* Read what there is of libc's block. */
static void read_block(pid_t alive, uint64_t pointer, uint32_t words[NOTE_WORDS])
{
	const size_t size = NOTE_WORDS * sizeof(words[0]);
	size_t first = PAGE - pointer % PAGE;

	memset(words, 0, size);
	if (first >= size || memory_read(alive, pointer, words, size))
		(void)!memory_read(alive, pointer, words, first < size ? first : size);
}

/* The child of a vfork has its parent's pointer, and is no thread of the process. */
static void look_at_thread(struct candidates *candidates, const struct attach_stop *stop,
			   const struct attach_thread *thread)
{
	uint32_t words[NOTE_WORDS], id = (uint32_t)proc_inner_id(thread->tid);

	if (!thread->thread_pointer || proc_number(thread->tid, "Tgid") != stop->pid)
		return;
	read_block(stop->alive, thread->thread_pointer, words);
	for (size_t i = 0; i < NOTE_WORDS; i++)
		candidates->left[i] &= words[i] == id;
	candidates->threads++;
}

static int choose(const struct candidates *candidates, pid_t pid, int64_t *offset, struct calltap_diag *diag)
{
	size_t count = 0;

	for (size_t i = 0; i < NOTE_WORDS; i++) {
		if (candidates->left[i])
			*offset = (int64_t)(i * sizeof(uint32_t));
		count += candidates->left[i];
	}
	if (count == 1 && candidates->threads && *offset)
		return 0;
	return calltap_diag_set(
		diag, -ENOTSUP,
		"process %d is linked statically, and where its C library notes a thread's id %s; start "
		"it under 'calltap record'",
		(int)pid, count > 1 ? "is one of several places" : "cannot be seen in all of its threads");
}

static int look_once(struct candidates *candidates, pid_t pid, bool musl, uint32_t *cut_short,
		     struct calltap_diag *diag)
{
	const struct attach_thread *threads;
	struct attach_times times;
	struct attach_stop *stop;
	size_t count;
	int ret;

	*candidates = (struct candidates){.threads = 0};
	memset(candidates->left, true, (musl ? MUSL_WORDS : NOTE_WORDS) * sizeof(candidates->left[0]));
	attach_await_transfers(pid, now_ns() + ATTACH_TRANSFERS_NS);
	ret = attach_stop(&stop, pid, NULL, 0, diag);
	if (ret)
		return ret;
	threads = attach_threads(stop, &count);
	for (size_t i = 0; i < count; i++)
		look_at_thread(candidates, stop, &threads[i]);
	attach_resume_timed(stop, &times);
	*cut_short += times.cut_short;
	return 0;
}

int attach_find_note(pid_t pid, bool musl, int64_t *offset, uint32_t *cut_short, struct calltap_diag *diag)
{
	struct candidates candidates;
	int ret = 0;

	/* A thread that musl is about to end has no id noted any more: the next look does not meet it. */
	for (unsigned i = 0; i < TRIES; i++) {
		ret = look_once(&candidates, pid, musl, cut_short, diag);
		if (ret)
			return ret;
		*offset = 0;
		ret = choose(&candidates, pid, offset, diag);
		if (!ret) {
			if (diag)
				diag->code = 0;
			break;
		}
	}
	return ret;
}
