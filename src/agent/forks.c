/*
 * Forks under an emulator, which may say that it wipes memory in the child
 * (MADV_WIPEONFORK) and not do it.  There the agent wipes it by itself, as the
 * first of libc's handlers in the child.  A child that does not come from
 * libc's fork() is missed: its first records go to its parent's rings.
 * Called by the constructor, on the program's thread.  Context: control.
 */
#include <sys/mman.h>

#include <agent/agent.h>
#include <agent/libc.h>
#include <base/sys.h>

typedef int register_fn(void (*prepare)(void), void (*parent)(void), void (*child)(void), void *object);

static void in_child(void)
{
	sys_mmap(probe_context.wiped, AGENT_WIPED_SIZE, PROT_READ | PROT_WRITE,
		 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
}

void agent_forks_watch(void)
{
	/* glibc's function knows the object that asks; musl's has one parameter less. */
	register_fn *known = agent_next("__register_atfork");

	if (!known)
		known = agent_next("pthread_atfork");
	if (!known || known(NULL, NULL, in_child, &agent))
		agent.no_children = 1;
}
