/*
 * Facts about a trace: program, machine, clock, threads, sizes, losses.
 *
 * Caller: the command `info`.  Context: host.
 */
#ifndef HOST_VIEW_INFO_H
#define HOST_VIEW_INFO_H

#include "../trace/trace.h"
#include "out.h"
#include "headway.h"

/* Print to out, as text or JSON.  Where records have no times, all are read. */
int info_print(const struct trace *trace, struct headway *headway, bool json, bool color, struct out *out,
	       struct calltap_diag *diag) __attribute__((warn_unused_result));

#endif
