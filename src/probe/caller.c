/*
 * Helpers that tell who calls (caller.h).  Context: probe, slow path.
 *
 * libc notes each thread's id beside its thread pointer, and in a child that its fork() makes, the child's.  That is
 * right but in two cases: a child that the program makes by a system call of its own, and the child of a vfork(), which
 * runs in its parent's memory.  So a thread that asks first looks whether the kernel says what libc has noted.  If so,
 * all threads of the process take libc's notes from then on, and the process' id from `known`, which the kernel clears
 * in each forked child.  Else nothing is noted, and who asks next looks again.
 */
#include <asm/errno.h>

#include <base/mem.h>
#include <base/sys.h>
#include <probe/caller.h>
#include <probe/match.h>
#include <probe/program.h>

#define GET_NAME 16 /* PR_GET_NAME */

/* libc's note of the thread's id; 0: nobody knows where it is. */
static uint32_t noted_id(void)
{
	const char *pointer = __builtin_thread_pointer();

	return probe_context.tid_offset ? *(const uint32_t *)(pointer + probe_context.tid_offset) : 0;
}

/* Ask the kernel: the thread's id, and *pid.  False: no system call may be made. */
static bool look(uint32_t *pid, uint32_t *tid)
{
	uint64_t signals;

	if (!probe_calls_begin(&signals))
		return false;
	*pid = (uint32_t)sys_getpid();
	*tid = (uint32_t)sys_gettid();
	if (*tid == noted_id())
		__atomic_store_n(&probe_context.wiped->known, *pid, __ATOMIC_RELAXED);
	probe_calls_end(&signals);
	return true;
}

uint64_t probe_help_time(void)
{
	return arch_clock();
}

uint64_t probe_help_pid(void)
{
	uint32_t known = __atomic_load_n(&probe_context.wiped->known, __ATOMIC_RELAXED), pid = 0, tid;

	if (known)
		return known;
	if (look(&pid, &tid))
		return pid;
	return probe_context.wiped->alive ? probe_context.wiped->pid : 0;
}

uint64_t probe_help_tid(void)
{
	uint32_t pid, tid = 0;

	if (__atomic_load_n(&probe_context.wiped->known, __ATOMIC_RELAXED))
		return noted_id();
	if (look(&pid, &tid))
		return tid;
	return probe_context.wiped->alive ? noted_id() : 0;
}

/* The name may change at any time, by any thread: so it is asked for each time.  False: no system call may be made. */
static bool take_name(unsigned char name[CALLTAP_PROGRAM_COMM])
{
	uint64_t signals;
	bool done;

	if (!probe_calls_begin(&signals))
		return false;
	done = !sys_failed(SYS(prctl, GET_NAME, name, 0, 0, 0, 0));
	probe_calls_end(&signals);
	name[CALLTAP_PROGRAM_COMM - 1] = 0;
	return done;
}

static uint32_t length_of(const unsigned char *name)
{
	uint32_t length = 0;

	while (name[length])
		length++;
	return length;
}

/* `context` is the first member of a run. */
uint64_t probe_help_comm(struct calltap_program_context *context)
{
	struct probe_run *run = (struct probe_run *)context;
	uint64_t at = run->used, room = CALLTAP_PROGRAM_BYTES - at, length;
	unsigned char name[CALLTAP_PROGRAM_COMM];

	if (!take_name(name))
		return at | (uint64_t)CALLTAP_PLACE_FAULT << 16;
	length = length_of(name);
	if (length > room)
		return at | (uint64_t)CALLTAP_PLACE_CUT << 16;
	memcpy(run->bytes + at, name, length);
	run->used = (uint32_t)(at + length);
	return at | length << 16;
}

uint64_t probe_help_match_comm(const unsigned char *pattern, uint64_t size)
{
	unsigned char name[CALLTAP_PROGRAM_COMM];

	if (!take_name(name))
		return (uint64_t)-EFAULT;
	return match_follows(name, length_of(name), pattern, size);
}
