/*
 * Thread names: the agent stands in front of the functions by which threads
 * get theirs, so that the shortest thread has its own name in the trace.
 *
 * Called on the program's threads in place of libc's functions, which do all
 * the work.  A name that is set some other way is seen by the tool while the
 * thread lives.  Context: control, on the program's thread.
 */
#include <linux/prctl.h>

#include <agent/agent.h>
#include <agent/libc.h>
#include <base/mem.h>
#include <base/sys.h>

/* The calling thread's kernel name goes where its sub-buffers take it from. */
static void refresh_name(void)
{
	struct probe_wiped *wiped = probe_context.wiped;
	struct ring_writer *writer = probe_thread.writer;

	if (wiped && wiped->alive && writer->ring)
		ring_rename(writer);
}

int pthread_setname_np(uint64_t thread, const char *name)
{
	int ret = agent.next_setname ? agent.next_setname(thread, name) : 38 /* ENOSYS */;

	refresh_name();
	return ret;
}

int prctl(int option, unsigned long a, unsigned long b, unsigned long c, unsigned long d)
{
	int ret = agent.next_prctl ? agent.next_prctl(option, a, b, c, d) : -1;

	if (option == PR_SET_NAME)
		refresh_name();
	return ret;
}

void agent_names_init(void)
{
	if (!&dlsym)
		return;
	agent.next_setname = (int (*)(uint64_t, const char *))dlsym(RTLD_NEXT, "pthread_setname_np");
	agent.next_prctl =
		(int (*)(int, unsigned long, unsigned long, unsigned long, unsigned long))dlsym(RTLD_NEXT, "prctl");
}
