/*
 * The agent's constructor: the loader has brought the agent in, at a program's start or by dlopen.
 *
 * It runs before every other object's (the agent is linked with -z initfirst), so that their constructors are traced
 * too.  Context: control, on the program's thread.
 */
#include <stddef.h>

#include <agent/agent.h>
#include <agent/libc.h>

/*
 * A program that names _r_debug may have a copy of it, as the loader had it before the program began: the symbol is the
 * copy's then.  Where the loader's own is, the program's dynamic section says.
 */
static struct r_debug *loaders_own(struct r_debug *named)
{
	const ElfW(Dyn) *entry = named && named->r_map ? named->r_map->l_ld : NULL;

	for (; entry && entry->d_tag != DT_NULL; entry++)
		if (entry->d_tag == DT_DEBUG && entry->d_un.d_ptr)
			return (struct r_debug *)entry->d_un.d_ptr;
	return named;
}

static void find_loader(void)
{
	agent.musl = !&_r_debug && &_dl_debug_addr;
	agent.loader = loaders_own(agent.musl ? _dl_debug_addr : &_r_debug);
}

/* musl calls constructors without arguments: the registers may hold anything. */
static char *const *environment_of(char *const *told)
{
	char *const *const *kept = agent.musl ? agent_next("__environ") : &told;

	return kept ? *kept : NULL;
}

static void __attribute__((constructor)) agent_constructor(int argc, char **argv, char **environment)
{
	(void)argc;
	(void)argv;
	find_loader();
	agent.no_blocks = !arch_block_init(agent.musl);
	agent.late = agent_is_last();
	agent_fronts_init();
	/* By dlopen: the program runs, and whatever the environment says was said to another image (attach.c). */
	if (agent.late)
		return;
	if (agent.no_blocks)
		exec_environment_clean((char **)environment_of(environment), false);
	else
		agent_image_begin(environment_of(environment));
}
