/*
 * The late ticks of a flight recorder, which may run for weeks: as many as there is room for.
 *
 * When the list is full, each two of its rows become one, from the first one's begin to the second one's end.  Less is
 * known then of records from before, and what is known stays true.  Callers: brief.c.  Context: host.
 */
#ifndef HOST_BRIEF_LATE_H
#define HOST_BRIEF_LATE_H

#include <stddef.h>
#include <stdint.h>

#include <calltap/abi/file.h>

#define LATE_MAX 8192u

struct late {
	struct calltap_file_late rows[LATE_MAX];
	uint32_t count;
	uint32_t written; /* rows that the session's file has */
};

void late_add(struct late *late, const struct calltap_file_late *row);

#endif
