/*
 * Levels of detail: how much of a trace the page holds, whatever the trace's length.
 *
 * Callers: boxes.c, paths.c, write.c.  Context: host.  doc/design/html.md tells what is lost by it.
 */
#ifndef HOST_HTML_LEVELS_H
#define HOST_HTML_LEVELS_H

#include "../view/histogram.h"

/* All calls that are as long as the threshold are boxes of their own; the threshold lets so many pass. */
#define LEVELS_KEPT 250000u
/* The longest calls of a function, LEVELS_EACH at most, have boxes of their own; LEVELS_LONGEST bounds those of all
 * functions. */
#define LEVELS_EACH    8u
#define LEVELS_LONGEST 50000u
/* A box of small calls is cut in two where it gets long or where nothing ran for long; so often at most. */
#define LEVELS_CUTS   100000u
#define LEVELS_EVENTS 20000u  /* losses, waits and marks, each */
#define LEVELS_BEFORE 20000u  /* frames that were open when the trace began */
#define LEVELS_PATHS  60000u  /* nodes of a call tree */
#define LEVELS_PAIRS  200000u /* callers with callees */
#define LEVELS_TRACKS 20000u  /* stacks with a place of their own on the time line */

/* The first pass's result, for the second. */
struct levels {
	uint64_t threshold_ns; /* shorter calls are summed up; 0: none is */
	uint64_t cut_ns;       /* a box of small calls covers no longer time; 0 = any */
};

#endif
