/*
 * calltap_mark(): to the agent, if there is one.
 *
 * The word that holds the agent's function is written by the loader where the
 * agent was there first, and by the agent where it came later, as it does with
 * the program's words for longjmp() and others (abi/control.h, POINTERS).  So
 * there is no state here, and nothing that a signal handler could meet half
 * done.  Context: the program's threads.
 */
#include <calltap/abi/record.h>
#include <calltap/mark.h>

#include "lib.h"

_Static_assert(CALLTAP_MARK_MAX == CALLTAP_EVENT_MARK_BYTES, "what the agent takes");

LIB_PUBLIC void calltap_mark(const char *text)
{
	void (*mark)(const char *text) = calltap_agent_mark;

	/* Call the value that was tested: the word may change in between. */
	__asm__ volatile("" : "+r"(mark));
	if (mark && text)
		mark(text);
}
