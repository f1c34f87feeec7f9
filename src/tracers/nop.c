/*
 * Tracer nop: the session with nothing patched.  Context: host.
 */
#include <tracers/tracer.h>

static uint16_t site_flags(const struct tracer_needs *needs, bool root, bool notree)
{
	return 0;
}

const struct tracer tracer_nop = {
	.name = "nop",
	.summary = "record nothing; the program runs under the agent with no function patched",
	.site_flags = site_flags,
};
