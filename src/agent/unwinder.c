/*
 * The unwinder's functions that the agent stands in front of, so that the program sees what it sees untraced.
 *
 * _Unwind_GetCFA(): in the stubs' table for libgcc the CFA is odd where the caller's address is in the mirror, as
 * libgcc tells frames apart by their CFAs (arch/<cpu>/runtime/unwind.c).  A personality routine is told the CFA of the
 * frame that its own frame has called, which may be a stub's.  LuaJIT's finds its interpreter's frame by that.  The
 * unwinder itself asks by the same function, and is to have what the table says.
 *
 * _Unwind_Backtrace(): stubs, and the agent's own frame, are left out.  Rust and gccgo count frames by it.  What a
 * signal has interrupted stays in it: its handler may look for that, to know where the program's own frames begin.
 *
 * Called on the program's threads, from signal handlers and personality routines, too: no locks but the loader's, which
 * unwinders take there as well.  agent_unwinder_look() is called in the constructor, and by the control thread while a
 * thread is held in a dlopen: nobody changes the loader's list then.  Context: control, on the program's thread.
 */
#include <agent/agent.h>
#include <agent/libc.h>

#define ODD	     1u
#define END_OF_STACK 5 /* _URC_END_OF_STACK */

typedef uint64_t get_fn(void *context);
typedef uint64_t get_info_fn(void *context, int *before);
typedef int walk_fn(agent_visit_fn *visit, void *argument);

/* The functions behind, all of one object, and where it lies in memory; get_cfa is stored last. */
static struct {
	get_fn *get_cfa;
	get_info_fn *get_ip;
	walk_fn *walk;
	uint64_t lo, hi;
} unwinder;

/* Whom a walk is for. */
struct passing {
	agent_visit_fn *visit;
	void *argument;
};

static int find_it(struct dl_phdr_info *info, size_t size, void *data)
{
	(void)size;
	*(bool *)data |= info->dlpi_addr == unwinder.lo;
	return *(bool *)data;
}

/* A library that brought the unwinder may be unloaded, and it may come again, to another place. */
static bool is_there(get_fn *get_cfa)
{
	struct dl_find_object found;
	bool there = false;

	if (!get_cfa || agent.musl) /* which unloads nothing */
		return get_cfa;
	if (agent.next_find_object)
		return !agent.next_find_object((void *)get_cfa, &found) && found.dlfo_link_map->l_addr == unwinder.lo &&
		       (uint64_t)found.dlfo_link_map->l_ld == unwinder.hi;
	if (agent.next_iterate)
		(void)agent.next_iterate(find_it, &there);
	return there;
}

/* Two threads that do this at once store the same. */
void agent_unwinder_look(void)
{
	uint64_t lo, hi, other_lo, other_hi;
	void *cfa, *ip, *walk;

	/* In a static program the unwinder's functions call each other without a word that could be told apart. */
	if (agent.placed || is_there(__atomic_load_n(&unwinder.get_cfa, __ATOMIC_ACQUIRE)))
		return;
	cfa = agent_next_object("_Unwind_GetCFA", &lo, &hi);
	if (!cfa)
		return;
	ip = agent_next_object("_Unwind_GetIPInfo", &other_lo, &other_hi);
	walk = ip && other_lo == lo ? agent_next_object("_Unwind_Backtrace", &other_lo, &other_hi) : NULL;
	if (other_lo != lo)
		walk = NULL;
	__atomic_store_n(&unwinder.lo, lo, __ATOMIC_RELAXED);
	__atomic_store_n(&unwinder.hi, hi, __ATOMIC_RELAXED);
	__atomic_store_n(&unwinder.get_ip, (get_info_fn *)ip, __ATOMIC_RELAXED);
	__atomic_store_n(&unwinder.walk, (walk_fn *)walk, __ATOMIC_RELAXED);
	__atomic_store_n(&unwinder.get_cfa, (get_fn *)cfa, __ATOMIC_RELEASE); /* pairs with is_known() */
	AGENT_FRONT(CALLTAP_POINTER_UNWIND_GETCFA, _Unwind_GetCFA, cfa);
	AGENT_FRONT(CALLTAP_POINTER_UNWIND_BACKTRACE, _Unwind_Backtrace, walk);
}

/* Once, while dl_iterate_phdr() keeps the loader's list as it is, and other threads out. */
static int look_within(struct dl_phdr_info *info, size_t size, void *data)
{
	(void)info;
	(void)size;
	(void)data;
	agent_unwinder_look();
	return 1;
}

/* Is there an unwinder?  It may have been loaded behind the agent's beginning.  Nobody unloads one that calls us. */
static bool is_known(void)
{
	if (is_there(__atomic_load_n(&unwinder.get_cfa, __ATOMIC_ACQUIRE)))
		return true;
	if (agent.next_iterate)
		(void)agent.next_iterate(look_within, NULL);
	return is_there(__atomic_load_n(&unwinder.get_cfa, __ATOMIC_ACQUIRE));
}

/* Does the address lie in the unwinder's object? */
static bool is_inside(uint64_t address)
{
	return address - unwinder.lo < unwinder.hi - unwinder.lo;
}

uint64_t _Unwind_GetCFA(void *context)
{
	uint64_t caller = (uint64_t)__builtin_return_address(0), cfa;

	if (!is_known())
		return 0;
	cfa = unwinder.get_cfa(context);
	return is_inside(caller) || !is_inside((uint64_t)unwinder.get_cfa) ? cfa : cfa & ~(uint64_t)ODD;
}

static int pass(void *context, void *data)
{
	const struct passing *passing = data;
	int interrupted = 0;
	uint64_t ip = unwinder.get_ip(context, &interrupted);

	if (!interrupted && agent_is_ours((const void *)ip))
		return 0;
	return passing->visit(context, passing->argument);
}

int _Unwind_Backtrace(agent_visit_fn *visit, void *argument)
{
	struct passing passing = {visit, argument};

	return is_known() && unwinder.walk ? unwinder.walk(pass, &passing) : END_OF_STACK;
}
