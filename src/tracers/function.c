/*
 * Tracer function: each call, with where it was called from; no exits.
 * Context: host.
 */
#include <calltap/abi/control.h>
#include <tracers/tracer.h>

static uint16_t site_flags(const struct tracer_needs *needs, bool root, bool notree)
{
	return CALLTAP_SITE_CALL;
}

const struct tracer tracer_function = {
	.name = "function",
	.summary = "record each call and its caller",
	.patches = true,
	.site_flags = site_flags,
};
