/*
 * The functions that the page names (used.h).  Context: host.
 */
#include <errno.h>
#include <stdlib.h>

#include "used.h"

int used_create(struct used *used, const struct trace *trace)
{
	size_t all;

	*used = (struct used){.functions = trace_function_count(trace), .untraced = trace_untraced_count(trace)};
	all = (size_t)used->functions + used->untraced + 1;
	used->numbers = calloc(all, sizeof(*used->numbers));
	used->ids = calloc(all, sizeof(*used->ids));
	return used->numbers && used->ids ? 0 : -ENOMEM;
}

uint32_t used_number(struct used *used, uint32_t function)
{
	uint32_t at = used->functions + used->untraced;

	if (function < used->functions)
		at = function;
	else if (function >= TRACE_UNTRACED && function - TRACE_UNTRACED < used->untraced)
		at = used->functions + function - TRACE_UNTRACED;
	else
		function = TRACE_NONE;
	if (!used->numbers[at]) {
		used->ids[used->count++] = function;
		used->numbers[at] = used->count;
	}
	return used->numbers[at];
}

void used_clear(struct used *used)
{
	free(used->numbers);
	free(used->ids);
	*used = (struct used){0};
}
