/*
 * The list of export formats; see export.h.  Context: host.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <host/text.h>

#include "../view/names.h"
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

bool export_first_use(bool **used, uint32_t *room, uint32_t index, int *error)
{
	uint64_t want = *room ? *room : 64;
	bool *grown;

	while (want <= index)
		want *= 2;
	if (index >= *room) {
		grown = realloc(*used, want * sizeof(*grown));
		if (!grown) {
			*error = -ENOMEM;
			return false;
		}
		memset(grown + *room, 0, (want - *room) * sizeof(*grown));
		*used = grown;
		*room = (uint32_t)want;
	}
	if ((*used)[index])
		return false;
	(*used)[index] = true;
	return true;
}

void export_stack_name(char name[EXPORT_STACK_NAME], const struct trace_thread *thread, uint32_t stack)
{
	char clean[sizeof(thread->name)];

	text_clean(clean, sizeof(clean), thread ? thread->name : "");
	snprintf(name, EXPORT_STACK_NAME, "%s, stack %llu", clean, (unsigned long long)stack + 1);
}
