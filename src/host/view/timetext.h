/*
 * Durations as people read them.  Context: host; tables and messages.
 */
#ifndef HOST_VIEW_TIMETEXT_H
#define HOST_VIEW_TIMETEXT_H

#include <stdint.h>

#define TIMETEXT_MAX 32

/* Four significant digits and a unit, "12.34 us", into text; returns text. */
const char *timetext(uint64_t ns, char text[TIMETEXT_MAX]);
/* Bytes the same way: "512 B", "1.50 MiB". */
const char *sizetext(uint64_t bytes, char text[TIMETEXT_MAX]);
/* The kernel's mark for a duration: '+' over 10 us ... '$' over 1 s, ' ' below. */
char time_mark(uint64_t ns);

#endif
