/*
 * Marks of the program's own: libcalltap.so leads here (src/lib/mark.c).
 *
 * Called on the program's threads, at any time.  Context: probe; the
 * initialization: control, in the constructor.
 */
#include <agent/agent.h>
#include <agent/libc.h>
#include <probe/mark.h>

void calltap_agent_mark(const char *text)
{
	probe_mark(text);
}

/* What the library's word is given back: it held nothing, or what the loader had found. */
static void no_mark(const char *text)
{
	(void)text;
}

void agent_marks_init(void)
{
	AGENT_FRONT(CALLTAP_POINTER_MARK, calltap_agent_mark, no_mark);
}
