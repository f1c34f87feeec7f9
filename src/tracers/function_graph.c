/*
 * Tracer function_graph: entry, exit, duration and depth of each call.
 *
 * Plain stubs take the fast recorders; whatever has to know the depth or the
 * duration takes the full ones, and whatever may be switched off by a tree
 * tests the thread's gate first.  Context: host.
 */
#include <calltap/abi/control.h>
#include <tracers/tracer.h>

uint16_t tracer_graph_flags(const struct tracer_needs *needs, bool root, bool notree)
{
	uint16_t flags = 0;

	if (needs->threshold)
		flags |= CALLTAP_SITE_FULL_EXIT;
	if (needs->depth)
		flags |= CALLTAP_SITE_FULL_ENTRY | CALLTAP_SITE_FULL_EXIT;
	if (root)
		return flags | CALLTAP_SITE_ROOT; /* a root's own recorder lets it in */
	if (notree)
		flags |= CALLTAP_SITE_NOTREE;
	if (notree && needs->tree_filter)
		return flags; /* outside all trees, --no-graph hides trees that would begin below */
	if (needs->tree_filter || needs->notree || needs->depth)
		flags |= CALLTAP_SITE_GATED;
	return flags;
}

const struct tracer tracer_function_graph = {
	.name = "function_graph",
	.summary = "record entry and exit of each call: durations and the call graph (default)",
	.patches = true,
	.has_exit = true,
	.site_flags = tracer_graph_flags,
};
