/*
 * Tracer profile: how often each function ran, and how long, summed up in the
 * target; no records, so neither a file nor a reader that has to keep pace.
 *
 * Filters work as for function_graph.  Context: host.
 */
#include <calltap/abi/control.h>
#include <tracers/tracer.h>

static uint16_t site_flags(const struct tracer_needs *needs, bool root, bool notree)
{
	return tracer_graph_flags(needs, root, notree) | CALLTAP_SITE_TIMED | CALLTAP_SITE_PROFILE;
}

const struct tracer tracer_profile = {
	.name = "profile",
	.summary = "sum up calls and times of each function, without records",
	.patches = true,
	.has_exit = true,
	.counts = true,
	.site_flags = site_flags,
};
