/*
 * _Unwind_GetCFA(): the agent stands in front of the unwinder's, and gives the CFA that the program would get untraced.
 *
 * In the stubs' table for libgcc the CFA is odd where the caller's address is in the mirror, as libgcc tells frames
 * apart by their CFAs (arch/<cpu>/runtime/unwind.c).  A personality routine is told the CFA of the frame that its own
 * frame has called, which may be a stub's.  LuaJIT's finds its interpreter's frame by that.  The unwinder itself asks
 * by the same function, and is to have what the table says.
 *
 * Called on the program's threads, while an exception is thrown: no locks.  agent_cfa_look() is called by the control
 * thread, too.  Context: control, on the program's thread.
 */
#include <agent/agent.h>
#include <agent/libc.h>

#define ODD 1u

typedef uint64_t get_cfa_fn(void *context);

/* The function behind, and where its object lies in memory; lo and hi are stored before next. */
static struct {
	get_cfa_fn *next;
	uint64_t lo, hi;
} unwinder;

void agent_cfa_look(void)
{
	uint64_t lo, hi;
	void *next;

	/* In a static program the unwinder's functions call each other without a word that could be told apart. */
	if (agent.placed || __atomic_load_n(&unwinder.next, __ATOMIC_RELAXED))
		return;
	next = agent_next_object("_Unwind_GetCFA", &lo, &hi);
	if (!next)
		return;
	__atomic_store_n(&unwinder.lo, lo, __ATOMIC_RELAXED);
	__atomic_store_n(&unwinder.hi, hi, __ATOMIC_RELAXED);
	__atomic_store_n(&unwinder.next, (get_cfa_fn *)next, __ATOMIC_RELEASE); /* pairs with _Unwind_GetCFA() */
	AGENT_FRONT(CALLTAP_POINTER_UNWIND_GETCFA, _Unwind_GetCFA, next);
}

uint64_t _Unwind_GetCFA(void *context)
{
	uint64_t caller = (uint64_t)__builtin_return_address(0), cfa;
	get_cfa_fn *next = __atomic_load_n(&unwinder.next, __ATOMIC_ACQUIRE);

	if (!next) { /* the unwinder was loaded behind the agent's beginning */
		agent_cfa_look();
		next = __atomic_load_n(&unwinder.next, __ATOMIC_ACQUIRE);
	}
	if (!next)
		return 0;
	cfa = next(context);
	return caller - unwinder.lo < unwinder.hi - unwinder.lo ? cfa : cfa & ~(uint64_t)ODD;
}
