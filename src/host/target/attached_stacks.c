/*
 * The calls that were open when a process was attached to: threads' stacks,
 * copied while they were stopped, unwound while the program runs on, and
 * written to the file (abi/file.h, struct calltap_file_stack).
 *
 * A thread of its own does it, which takes the session's lock to look
 * functions up and to write.  Context: host.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "attached.h"

#define NAME_SIZE 32 /* of a thread, with room */

struct telling {
	struct session *session;
	const struct target *target;
	struct attach_stacks *stacks;
	uint64_t ticks;
};

/* The traced function that an address lies in. */
static uint32_t function_of(const struct target *target, uint64_t address)
{
	for (uint32_t i = 0; i < target->map_count; i++) {
		const struct target_map *map = &target->maps[i];
		uint32_t at;

		if (!map->stubs && map->mapped && address >= map->base &&
		    image_function_before(map->image, address - map->base, &at) &&
		    address - map->base - map->image->sources[at]->function < map->image->sources[at]->size)
			return map->image->sites[at].id;
	}
	return UINT32_MAX;
}

/* A return address is the instruction behind its call, which may be another function's. */
static uint64_t place_of(const struct attach_unwound *thread, size_t frame)
{
	return thread->pcs[frame] - (frame ? 1 : 0);
}

/* Read a thread's name from the kernel; "" when the thread has ended. */
static void read_name(const struct telling *telling, pid_t tid, char name[NAME_SIZE])
{
	char path[64];
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/task/%d/comm", (int)telling->target->pid, (int)tid);
	file = fopen(path, "re");
	name[0] = 0;
	if (file && fgets(name, NAME_SIZE, file))
		name[strcspn(name, "\n")] = 0;
	if (file)
		fclose(file);
}

static size_t text_size(const struct telling *telling, const struct attach_unwound *thread)
{
	size_t size = NAME_SIZE + 1;

	for (size_t i = 0; i < thread->count; i++) {
		const char *name = attach_symbol(telling->stacks, place_of(thread, i));

		size += name ? strlen(name) + 1 : 0;
	}
	return size;
}

static int tell_thread(void *context, const struct attach_unwound *thread)
{
	const struct telling *telling = context;
	struct session *session = telling->session;
	size_t array = thread->count * sizeof(struct calltap_file_frame), text = text_size(telling, thread);
	struct calltap_file_stack *head = calloc(1, sizeof(*head) + array + text);
	struct calltap_file_frame *frames = (void *)(head + 1);
	char *strings = (char *)frames + array;
	uint32_t none;
	int ret = 0;

	if (!head)
		return -ENOMEM;
	*head = (struct calltap_file_stack){
		.process = telling->target->index,
		.tid = (uint32_t)thread->own_tid, /* as its records have it */
		.ticks = telling->ticks,
		.count = (uint32_t)thread->count,
		.lo = thread->stack.lo,
		.hi = thread->stack.hi,
	};
	read_name(telling, thread->tid, strings);
	head->strings_size = (uint32_t)strlen(strings) + 1;
	none = head->strings_size++; /* an empty one */
	for (size_t i = 0; i < thread->count; i++) {
		const char *name = attach_symbol(telling->stacks, place_of(thread, i));

		frames[i].address = thread->pcs[i];
		frames[i].slot = thread->slots[i];
		frames[i].name = none;
		if (!name)
			continue;
		frames[i].name = head->strings_size;
		memcpy(strings + head->strings_size, name, strlen(name) + 1);
		head->strings_size += (uint32_t)strlen(name) + 1;
	}
	session_lock(session);
	for (size_t i = 0; i < thread->count; i++)
		frames[i].function = function_of(telling->target, place_of(thread, i));
	ret = trace_writer_chunk(session_first(session)->writer, CALLTAP_CHUNK_STACK, head,
				 sizeof(*head) + array + head->strings_size);
	session_unlock(session);
	free(head);
	return ret;
}

static void *tell_all(void *arg)
{
	struct telling *telling = arg;

	if (attach_unwind(telling->stacks, tell_thread, telling)) {
		session_lock(telling->session);
		session_diagnose(telling->session, "the calls that were open at the attach are not all in the trace");
		session_unlock(telling->session);
	}
	attach_stacks_free(telling->stacks);
	free(telling);
	return NULL;
}

void attached_tell_stacks(struct session *session, const struct target *target, struct attach_stacks *stacks,
			  uint64_t ticks)
{
	struct attachee *attachee = target->attachee;
	struct telling *telling = attachee->teller_runs ? NULL : malloc(sizeof(*telling));

	if (telling) {
		*telling = (struct telling){session, target, stacks, ticks};
		if (!pthread_create(&attachee->teller, NULL, tell_all, telling)) {
			attachee->teller_runs = true;
			return; /* the teller frees both */
		}
	}
	attach_stacks_free(stacks);
	free(telling);
}

void attached_stacks_wait(struct session *session)
{
	for (uint32_t i = 0; i < session->attachees.count; i++) {
		struct attachee *attachee = &session->attachees.list[i];

		if (attachee->teller_runs)
			pthread_join(attachee->teller, NULL);
		attachee->teller_runs = false;
	}
}
