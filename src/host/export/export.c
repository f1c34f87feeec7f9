/*
 * The list of export formats; see export.h.  Context: host.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "export.h"

const struct export_format *export_at(size_t i)
{
	static const struct export_format *const formats[] = {
		&export_perfetto, &export_chrome,   &export_speedscope, &export_folded, &export_callgrind,
		&export_pprof,	  &export_graphviz, &export_mermaid,	&export_ctf,	&export_trace_dat,
		&export_json,	  &export_calls,    &export_events};

	return i < sizeof(formats) / sizeof(formats[0]) ? formats[i] : NULL;
}

const char *export_list(char text[EXPORT_LIST], bool only_min)
{
	const struct export_format *format, *last = NULL;
	size_t used = 0;

	for (size_t i = 0; (format = export_at(i)); i++)
		last = only_min && !format->takes_min ? last : format;
	text[0] = '\0';
	for (size_t i = 0; (format = export_at(i)) && used < EXPORT_LIST; i++) {
		if (only_min && !format->takes_min)
			continue;
		used += (size_t)snprintf(text + used, EXPORT_LIST - used, "%s%s",
					 !used		  ? ""
					 : format == last ? " or "
							  : ", ",
					 format->name);
	}
	return text;
}

int export_find(const struct export_format **format, const char *name, struct calltap_diag *diag)
{
	for (size_t i = 0; (*format = export_at(i)); i++) {
		if (strcmp((*format)->name, name) == 0)
			return 0;
	}
	return calltap_diag_set(diag, -EINVAL, "'%s' is no format: give %s", name,
				export_list((char[EXPORT_LIST]){0}, false));
}
