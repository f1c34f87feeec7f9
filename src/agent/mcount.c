/*
 * mcount() on CPUs where the agent does not stand in front of it: those whose functions hand libc their caller's
 * address.  In a traced function that is a stub's, and libc drops the arc.  Context: control.
 */
#include <agent/agent.h>

void agent_mcount_init(void)
{
}
