/*
 * Walking in a trace on a terminal, until the user has enough.
 *
 * Caller: the command `tui`.  Context: host.
 */
#ifndef HOST_TUI_RUN_H
#define HOST_TUI_RUN_H

#include "../view/walk.h"

#define TUI_INSTEAD "'calltap report' and 'calltap graph' print the same as text"

/* Standard input and output are the terminal.  *walk tells of damage in the trace. */
int tui_run(const struct trace *trace, const struct view_filter *filter, bool color, struct walk *walk,
	    struct calltap_diag *diag) __attribute__((warn_unused_result));

#endif
