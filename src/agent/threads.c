/*
 * The threads of the process: the initial one's stack, how many there are (/proc/PID/stat), whether the control thread
 * is the last of them, and words of the blocks of threads that record.
 *
 * Called by the constructor and the control thread.  Context: control.
 */
#include <errno.h>
#include <fcntl.h>

#include <agent/agent.h>
#include <base/mem.h>
#include <base/sys.h>

#define STAT_BYTES 1024

/* The kernel keeps the space below the initial stack free, as far as the stack may grow, within these bounds. */
#define MAIN_SIZE_MIN ((uint64_t)128 << 20) /* Linux': MIN_GAP in mm/util.c */
#define MAIN_SIZE_MAX ((uint64_t)1 << 30)
#define EMULATED_SIZE ((uint64_t)8 << 20) /* the stack that QEMU maps; other mappings lie right below */

void agent_main_stack_note(bool emulated)
{
	uint64_t limit[2] = {0, 0}, size, least = emulated ? EMULATED_SIZE : MAIN_SIZE_MIN;

	size = sys_failed(SYS(prlimit64, 0, 3 /* RLIMIT_STACK */, 0, limit, 0, 0)) ? 0 : limit[0];
	if (emulated && size > MAIN_SIZE_MAX)
		size = least; /* the limit is "unlimited" */
	size = size > least ? size : least;
	probe_context.main_stack_size = size < MAIN_SIZE_MAX ? size : MAIN_SIZE_MAX;
}

/* The number in the n-th field (from 1) of the file; state: the text from its 3rd field on. */
static long stat_field(const char *state, unsigned n)
{
	return (long)agent_field(state, n - 3);
}

/* Read /proc/PID/stat into text; returns its part from the state on, NULL = it cannot be had. */
static const char *read_state(char text[STAT_BYTES])
{
	long fd = agent.stat_fd, got;
	const char *behind;

	if (fd < 0)
		fd = SYS(openat, AT_FDCWD, "/proc/self/stat", O_RDONLY | O_CLOEXEC, 0, 0, 0);
	if (sys_failed(fd))
		return NULL;
	got = SYS(pread64, fd, text, STAT_BYTES - 1, 0, 0, 0);
	if (fd != agent.stat_fd)
		sys_close((int)fd);
	if (got <= 0)
		return NULL;
	text[got] = 0;
	behind = agent_behind_name(text);
	return behind && *behind ? behind + 1 : NULL;
}

/*
 * Count the threads of an emulator, which are there from the start: all but the program's one and the control thread.
 */
void agent_threads_note(void)
{
	char text[STAT_BYTES];
	const char *state = read_state(text);
	long others = state ? stat_field(state, 20) - 2 : 0;

	/* A forked child may have more threads of its own by now, but no more of the emulator's than its parent. */
	if (others < 0 || (agent.forked && others > agent.alien_threads))
		return;
	agent.alien_threads = (uint32_t)others;
}

/*
 * A program may end by letting each thread call exit (not exit_group); then the control thread is the last one, and
 * must not keep the process, nor change its exit status.
 */
bool agent_threads_last(int *status)
{
	char text[STAT_BYTES];
	const char *state = read_state(text);

	if (!state || *state != 'Z')
		return false;
	*status = (int)(stat_field(state, 52) >> 8 & 0xff);
	return stat_field(state, 20) == 2 + (long)agent.alien_threads; /* the leader is still listed */
}

void agent_thread_read(uint32_t i, size_t offset, void *words, size_t size)
{
	/* Acquire: pairs with settle_in(). */
	uint64_t block = (uint64_t)__atomic_load_n(&probe_context.wiped->threads[i], __ATOMIC_ACQUIRE);
	uint64_t at = block + offset;

	memset(words, 0, size);
	if (!block || sys_copy_in(words, at, size))
		return;
	/* The block's memory is gone with the thread, or process_vm_readv is forbidden: then read it another way. */
	if (agent_can_read(at) && SYS(pread64, agent.poker.mem_fd, words, size, at, 0, 0) != (long)size)
		memset(words, 0xff, size);
}

bool agent_thread_has_ended(uint32_t i)
{
	const struct ring_writer *writer = &probe_context.wiped->sets[0].writers[i];

	return !writer->ring || SYS(tgkill, sys_getpid(), writer->tid, 0, 0, 0, 0) == -ESRCH;
}
