/*
 * A trace as one page of HTML: time line, flame graph and table, with nothing outside of it.
 *
 * Caller: the command `html`.  Context: host.  doc/design/html.md describes the page and its data.
 */
#ifndef HOST_HTML_HTML_H
#define HOST_HTML_HTML_H

#include "../diff/diff.h"
#include "../view/out.h"
#include "../view/walk.h"

/* Write the page; *walk tells of damage in the trace.  With diff, a comparison of the trace with another one, the page
 * has its table and its tree, too. */
int html_write(const struct trace *trace, const struct view_filter *filter, const struct diff *diff, struct out *out,
	       struct walk *walk, struct calltap_diag *diag) __attribute__((warn_unused_result));

#endif
