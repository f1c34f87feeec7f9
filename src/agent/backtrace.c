/*
 * backtrace(): the agent stands in front of libc's and leaves out what the
 * program would not see untraced: stubs, and code of the agent's own.
 *
 * Called on the program's threads, from signal handlers too: no locks, and
 * memory only by raw system calls.  Context: control, on the program's thread.
 */
#include <sys/mman.h>

#include <agent/agent.h>
#include <agent/libc.h>
#include <base/sys.h>

#define FEW_FRAMES 128 /* frames that may lie on the caller's stack */
#define CUT	   (-1)
#define OWN_FRAMES 8 /* the agent's own, at most: this function's, and a recorder's below a signal handler */

static bool is_own(const void *address)
{
	return (uint64_t)address >= (uint64_t)own_begin && (uint64_t)address < (uint64_t)own_end;
}

bool agent_is_ours(const void *address)
{
	return is_own(address) || probe_region_of((uint64_t)address);
}

/*
 * Ask for up to max frames, of which the program gets up to size.  CUT: the unwinder came no further than to the
 * agent's own code.
 */
static int collect(void **frames, int size, void **all, int max)
{
	int found = agent.next_backtrace(all, max), kept = 0;

	if (found > 0 && found < max && is_own(all[found - 1]))
		return CUT;
	for (int i = 0; i < found && kept < size; i++)
		if (!agent_is_ours(all[i]))
			frames[kept++] = all[i];
	return kept;
}

static int collect_many(void **frames, int size)
{
	size_t max = 2 * (size_t)size + OWN_FRAMES, bytes = max * sizeof(*frames);
	void **all = sys_mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	int kept;

	if (sys_failed((long)all) || max > INT32_MAX)
		return collect(frames, size, frames, size);
	kept = collect(frames, size, all, (int)max);
	sys_munmap(all, bytes);
	return kept;
}

static __attribute__((noinline)) int collect_shown(void **frames, int size)
{
	void *all[FEW_FRAMES];

	if (2 * (int64_t)size + OWN_FRAMES <= FEW_FRAMES)
		return collect(frames, size, all, 2 * size + OWN_FRAMES);
	if (probe_context.shared.quiet) /* no system call: a few frames less */
		return collect(frames, size, frames, size);
	return collect_many(frames, size);
}

/*
 * In a static program the unwinder knows of the agent's code by the agent's answers alone (unwind.c).  A session may be
 * let go of while the thread is in libc's function below: from then on nobody asks the agent, and the unwinder ends at
 * the agent's frame.  The stack has no address of a stub by then.  So libc's function is called again without a frame
 * of the agent's, by a jump: nothing of this function's is on the stack, and its address is handed to nobody.
 */
int backtrace(void **frames, int size)
{
	int kept;

	if (!agent.next_backtrace || size <= 0)
		return 0;
	kept = collect_shown(frames, size);
	return kept == CUT ? agent.next_backtrace(frames, size) : kept;
}

void agent_backtrace_init(void)
{
	agent.next_backtrace = (int (*)(void **, int))agent_next("backtrace");
	AGENT_FRONT(CALLTAP_POINTER_BACKTRACE, backtrace, agent.next_backtrace);
}
