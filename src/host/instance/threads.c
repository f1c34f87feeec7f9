/*
 * The threads of the targets, as the trace has them: their indices and names.
 * Called by the drainer and by snapshots, with the session's lock.  Context: host.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <host/session/session.h>

#define COMM_MAX 15 /* bytes of a thread's name that the kernel keeps */

int threads_add(struct instance *instance, const struct target *target, uint32_t tid, uint64_t ticks, uint32_t *index)
{
	struct target_thread *thread;

	if (instance->thread_count == instance->thread_room) {
		uint32_t room = instance->thread_room ? instance->thread_room * 2 : 64;
		struct target_thread *threads = reallocarray(instance->threads, room, sizeof(*threads));

		if (!threads)
			return -ENOMEM;
		instance->threads = threads;
		instance->thread_room = room;
	}
	thread = &instance->threads[instance->thread_count];
	memset(thread, 0, sizeof(*thread));
	thread->row.thread = instance->thread_count++;
	thread->row.process = target->index;
	thread->row.tid = tid;
	thread->row.start_ticks = ticks;
	thread->dirty = true;
	*index = thread->row.thread;
	return 0;
}

static const char *base_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

/* An emulator's threads are called like it: then the program's name is meant. */
static const char *true_name(const struct session *session, const struct target *target, const char *name)
{
	const char *usual = session->machine->emulator;

	if (!session->emulated || !target->exe)
		return name;
	if (strncmp(name, base_name(session->emulator.path), COMM_MAX) != 0 && strncmp(name, usual, strlen(usual)) != 0)
		return name;
	return base_name(target->exe);
}

bool threads_name_row(const struct session *session, const struct target *target, struct calltap_file_thread *row,
		      const char *kernel_name)
{
	char name[sizeof(row->name)] = "";

	strncpy(name, true_name(session, target, kernel_name), sizeof(name) - 1);
	if (!name[0] || !memcmp(name, row->name, sizeof(name)))
		return false; /* a thread in a sandbox does not know it */
	memcpy(row->name, name, sizeof(name));
	return true;
}

void threads_name(const struct session *session, const struct target *target, struct target_thread *thread,
		  const char *kernel_name)
{
	thread->dirty |= threads_name_row(session, target, &thread->row, kernel_name);
}

int threads_kernel_name(const struct target *target, uint32_t tid, char *name, size_t size)
{
	char path[64];
	FILE *file;
	bool got;

	snprintf(path, sizeof(path), "/proc/%d/task/%u/comm", (int)target->pid, tid);
	file = fopen(path, "re");
	if (!file)
		return -errno;
	got = fgets(name, (int)size, file) != NULL;
	fclose(file);
	if (!got)
		return -ESRCH;
	name[strcspn(name, "\n")] = 0;
	return 0;
}

void threads_refresh(const struct session *session, const struct target *target, struct target_thread *thread)
{
	char name[sizeof(thread->row.name)];

	if (!threads_kernel_name(target, thread->row.tid, name, sizeof(name)))
		threads_name(session, target, thread, name);
}

int threads_write(struct instance *instance, struct target_thread *thread)
{
	thread->dirty = false;
	return trace_writer_chunk(instance->writer, CALLTAP_CHUNK_THREAD, &thread->row, sizeof(thread->row));
}
