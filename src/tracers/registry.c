/*
 * The list of tracers.  Context: host.
 */
#include <string.h>

#include <tracers/tracer.h>

static const struct tracer *const tracers[] = {&tracer_function_graph, &tracer_function, &tracer_profile, &tracer_nop};

const struct tracer *tracer_at(size_t i)
{
	return i < sizeof(tracers) / sizeof(tracers[0]) ? tracers[i] : NULL;
}

const struct tracer *tracer_find(const char *name)
{
	for (size_t i = 0; tracer_at(i); i++)
		if (!strcmp(tracer_at(i)->name, name))
			return tracer_at(i);
	return NULL;
}
