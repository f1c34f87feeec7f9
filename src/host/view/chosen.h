/*
 * What the filters of the reading verbs choose of a trace: functions, trees and threads.
 *
 * Callers: cmd/reading.c makes it, walk.c asks it.  Context: host.  The grammar and the decision on a function are
 * those of the recording verbs (elf/filter.h); an object is known by the path that the trace has of it.
 */
#ifndef HOST_VIEW_CHOSEN_H
#define HOST_VIEW_CHOSEN_H

#include "../elf/filter.h"
#include "../trace/trace.h"

struct chosen;

/* Add one filter to *chosen, which is made if it is NULL; -EINVAL with diag. */
int chosen_add(struct chosen **chosen, enum filter_kind kind, const char *text, struct calltap_diag *diag)
	__attribute__((warn_unused_result));
/* Choose threads whose name matches one of the patterns that were added: globs, or "/regex/". */
int chosen_add_thread(struct chosen **chosen, const char *text, struct calltap_diag *diag)
	__attribute__((warn_unused_result));
void chosen_destroy(struct chosen *chosen);

/* Decide on all functions and threads of the trace, before anything else is asked. */
int chosen_settle(struct chosen *chosen, const struct trace *trace, struct calltap_diag *diag)
	__attribute__((warn_unused_result));
/* The text of the i-th filter of functions; *matches of the trace's functions match.  NULL past the end. */
const char *chosen_filter(const struct chosen *chosen, size_t i, unsigned long *matches);
/* The i-th filter as it was given, "--trace f".  NULL past the end. */
const char *chosen_text(const struct chosen *chosen, size_t i);
/* True if only trees are shown. */
bool chosen_has_trees(const struct chosen *chosen);
/* False: no function of the trace is ever shown. */
bool chosen_any_function(const struct chosen *chosen);
/* enum call_judgement of a function (trace/callstack.h). */
unsigned chosen_judge(const struct chosen *chosen, uint32_t function);
/* True if functions are chosen, not threads alone. */
bool chosen_judges(const struct chosen *chosen);
/* True if the thread is chosen; NULL chooses all. */
bool chosen_has_thread(const struct chosen *chosen, uint32_t thread);

#endif
