/*
 * Traces in other tools' formats; one file per format.
 *
 * Caller: the command `export`.  Context: host.
 */
#ifndef HOST_EXPORT_EXPORT_H
#define HOST_EXPORT_EXPORT_H

#include "../view/out.h"
#include "../view/walk.h"

struct export_options {
	size_t size;	  /* sizeof(struct export_options) */
	bool weigh_calls; /* folded: calls instead of nanoseconds */
};

struct export_format {
	const char *name;
	const char *summary;
	bool binary;	/* not to be written to a terminal */
	bool takes_min; /* --min works: calls are written when they end */
	/* Write all of trace to out; *walk tells of damage. */
	int (*run)(const struct trace *trace, const struct view_filter *filter, const struct export_options *options,
		   struct out *out, struct walk *walk, struct calltap_diag *diag);
};

extern const struct export_format export_perfetto;
extern const struct export_format export_chrome;
extern const struct export_format export_folded;
extern const struct export_format export_json;

/* The i-th format, NULL past the end. */
const struct export_format *export_at(size_t i);
int export_find(const struct export_format **format, const char *name, struct calltap_diag *diag)
	__attribute__((warn_unused_result));

/* True if the filter lets the thread pass: an exporter describes these threads only. */
bool export_wants_thread(const struct trace *trace, const struct view_filter *filter, uint32_t thread);

/* Mark the index in a table that grows; true if it was not marked before.  Out of memory: false, and *error is set. */
bool export_first_use(bool **used, uint32_t *room, uint32_t index, int *error);
/* Make a stack's name, such as "worker, stack 2"; stack: its number within the thread, from 0 on. */
#define EXPORT_STACK_NAME 64
void export_stack_name(char name[EXPORT_STACK_NAME], const struct trace_thread *thread, uint32_t stack);

#endif
