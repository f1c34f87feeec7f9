/*
 * Copies of stopped threads' stacks, and their frames (attach.h).  Context: host.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>

#include "impl.h"

#define COPY_MAX  (64u << 10)
#define BATCH_MAX 512u /* stacks read at a time */

struct attach_stacks {
	pid_t pid;
	struct space space;
	struct unwinder *unwinder;
	struct spare memory; /* of the copies */
	size_t count;
	struct stack_copy copies[];
};

struct regions {
	struct attach_range *list;
	size_t count;
};

/* Fill in a copy's registers, and where the thread's live stack is. */
static void prepare_copy(const struct attach_stop *stop, size_t index, struct stack_copy *copy)
{
	const struct attach_thread *thread = &stop->threads[index];
	struct attach_range live;

	copy->tid = thread->tid;
	memcpy(copy->values, thread->registers, sizeof(thread->registers));
	copy->values[NATIVE_DWARF_REGISTERS - 1] = thread->pc;
	if (!scan_live(&stop->space, thread->sp, COPY_MAX, &live))
		return;
	copy->lo = live.lo;
	copy->hi = live.hi;
}

/* Give all copies memory in one piece: what was made ready before the stop, if it is enough. */
static int give_memory(struct attach_stop *stop, struct attach_stacks *stacks)
{
	size_t size = 0;
	int ret = 0;

	for (size_t i = 0; i < stacks->count; i++)
		size += stacks->copies[i].hi - stacks->copies[i].lo;
	if (size <= stop->to_copy.size) {
		stacks->memory = stop->to_copy;
		stop->to_copy = (struct spare){NULL, 0};
	} else {
		ret = spare_get(&stacks->memory, size, size);
	}
	size = 0;
	for (size_t i = 0; !ret && i < stacks->count; i++) {
		stacks->copies[i].bytes = stacks->memory.bytes + size;
		size += stacks->copies[i].hi - stacks->copies[i].lo;
	}
	return ret;
}

/* Read a stack that could not be read with the others. */
static void read_alone(pid_t alive, struct stack_copy *copy)
{
	if (!memory_read(alive, copy->lo, (void *)copy->bytes, copy->hi - copy->lo))
		return;
	copy->lo = copy->hi = 0;
}

static void read_batch(pid_t alive, struct stack_copy *copies, size_t count)
{
	struct iovec to[BATCH_MAX], from[BATCH_MAX];
	ssize_t want = 0;

	for (size_t i = 0; i < count; i++) {
		size_t size = copies[i].hi - copies[i].lo;

		to[i] = (struct iovec){(void *)copies[i].bytes, size};
		from[i] = (struct iovec){(void *)(uintptr_t)copies[i].lo, size};
		want += (ssize_t)size;
	}
	if (process_vm_readv(alive, to, count, from, count, 0) == want)
		return;
	for (size_t i = 0; i < count; i++)
		read_alone(alive, &copies[i]);
}

static int copy_all(struct attach_stop *stop, struct attach_stacks *stacks)
{
	struct regions regions = {NULL, 0};
	int ret = stubs_find(stop->alive, &stacks->space, &regions.list, &regions.count);

	for (size_t i = 0; !ret && i < stop->thread_count; i++)
		/* For a thread that sleeps in the kernel, only pc and sp are known. */
		if (!stop->threads[i].asleep)
			prepare_copy(stop, i, &stacks->copies[stacks->count++]);
	if (!ret)
		ret = give_memory(stop, stacks);
	for (size_t i = 0; !ret && i < stacks->count; i += BATCH_MAX)
		read_batch(stop->alive, &stacks->copies[i],
			   stacks->count - i < BATCH_MAX ? stacks->count - i : BATCH_MAX);
	for (size_t i = 0; !ret && regions.count && i < stacks->count; i++) {
		uint64_t *sp = &stacks->copies[i].values[NATIVE_DWARF_SP];

		*sp = stubs_sp(stop->alive, regions.list, regions.count, *sp);
		stubs_replace(stop->alive, regions.list, regions.count, stacks->copies[i].lo,
			      (void *)stacks->copies[i].bytes, stacks->copies[i].hi - stacks->copies[i].lo);
	}
	free(regions.list);
	return ret;
}

int attach_copy(struct attach_stop *stop, struct attach_stacks **out, struct calltap_diag *diag)
{
	struct attach_stacks *stacks = calloc(1, sizeof(*stacks) + stop->thread_count * sizeof(stacks->copies[0]));
	/* The mappings are as they were read: all threads are stopped but the agent's, which maps no stacks. */
	int ret = stacks ? space_copy(&stacks->space, &stop->space) : -ENOMEM;

	if (!ret)
		ret = copy_all(stop, stacks);
	if (ret) {
		attach_stacks_free(stacks);
		return calltap_diag_set(diag, ret, "the stacks of process %d cannot be copied: %s", (int)stop->pid,
					strerror(-ret));
	}
	stacks->pid = stop->pid;
	*out = stacks;
	return 0;
}

/* Not called during the stop: it opens files. */
static int open_unwinder(struct attach_stacks *stacks)
{
	pid_t alive = proc_alive(stacks->pid);

	if (stacks->unwinder)
		return 0;
	return unwinder_open(&stacks->unwinder, stacks->pid, alive ? alive : stacks->pid, &stacks->space);
}

/*
 * How many frames are sure.  Behind a function without tables they are a guess by the frame pointer: right if complete.
 */
static size_t count_sure(struct attach_stacks *stacks, const struct frame *frames, const struct attach_unwound *unwound)
{
	for (size_t i = 0; i < unwound->count && !unwound->complete; i++)
		if (!unwinder_has_rules(stacks->unwinder, frames[i].exact ? frames[i].pc : frames[i].pc - 1))
			return i + 1;
	return unwound->count;
}

int attach_unwind(struct attach_stacks *stacks, int (*visit)(void *context, const struct attach_unwound *thread),
		  void *context)
{
	struct frame frames[ATTACH_FRAMES_MAX];
	uint64_t pcs[ATTACH_FRAMES_MAX], slots[ATTACH_FRAMES_MAX];
	int ret = open_unwinder(stacks);

	for (size_t i = 0; !ret && i < stacks->count; i++) {
		struct attach_unwound unwound = {.tid = stacks->copies[i].tid,
						 .own_tid = proc_inner_id(stacks->copies[i].tid),
						 .pcs = pcs,
						 .slots = slots};
		const struct map *map = space_find(&stacks->space, stacks->copies[i].lo);

		if (map)
			unwound.stack = (struct attach_range){map->lo, map->hi};

		unwound.count = unwinder_frames(stacks->unwinder, &stacks->copies[i], frames, ATTACH_FRAMES_MAX,
						&unwound.complete);
		unwound.count = count_sure(stacks, frames, &unwound);
		for (size_t k = 0; k < unwound.count; k++) {
			pcs[k] = frames[k].pc;
			slots[k] = frames[k].slot;
		}
		ret = visit(context, &unwound);
	}
	return ret;
}

const char *attach_symbol(struct attach_stacks *stacks, uint64_t pc)
{
	return open_unwinder(stacks) ? NULL : unwinder_symbol(stacks->unwinder, pc);
}

void attach_stacks_free(struct attach_stacks *stacks)
{
	if (!stacks)
		return;
	unwinder_close(stacks->unwinder);
	spare_free(&stacks->memory);
	space_free(&stacks->space);
	free(stacks);
}
