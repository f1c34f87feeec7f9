/*
 * The list of export formats; see export.h.  Context: host.
 */
#include <errno.h>

#include "export.h"

const struct export_format *export_at(size_t i)
{
	static const struct export_format *const formats[] = {&export_perfetto, &export_chrome, &export_folded,
							      &export_json};

	return i < sizeof(formats) / sizeof(formats[0]) ? formats[i] : NULL;
}

int export_find(const struct export_format **format, const char *name, struct calltap_diag *diag)
{
	for (size_t i = 0; (*format = export_at(i)); i++) {
		if (strcmp((*format)->name, name) == 0)
			return 0;
	}
	return calltap_diag_set(diag, -EINVAL, "'%s' is no format: give perfetto, chrome, folded or json", name);
}

bool export_wants_thread(const struct trace *trace, const struct view_filter *filter, uint32_t thread)
{
	const struct trace_thread *known = trace_thread(trace, thread);
	const struct trace_process *process = known ? trace_process(trace, known->process) : NULL;

	if (!known || (filter->tid && known->tid != filter->tid))
		return false;
	return !filter->pid || (process && process->pid == filter->pid);
}
