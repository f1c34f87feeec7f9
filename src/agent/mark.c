/*
 * Marks of the program's own: libcalltap.so calls this file (src/lib/mark.c).
 *
 * Called on the program's threads, at any time.  Context: probe; the initialization: control, in the constructor.
 */
#include <agent/agent.h>
#include <agent/libc.h>
#include <probe/mark.h>

void calltap_agent_mark(const char *text)
{
	probe_mark(text);
}

/*
 * The value to which the library's word is restored at the end: it held nothing, or a function that the loader had
 * found.
 */
static void no_mark(const char *text)
{
	(void)text;
}

void agent_marks_init(void)
{
	AGENT_FRONT(CALLTAP_POINTER_MARK, calltap_agent_mark, no_mark);
}
