/*
 * The words behind a number in a message: "1 record was lost", "2 records
 * were lost".
 *
 * Callers: all messages and views that count something.  Context: host.
 */
#ifndef HOST_COUNTED_H
#define HOST_COUNTED_H

#include <stdint.h>

static inline const char *counted(uint64_t count, const char *one, const char *many)
{
	return count == 1 ? one : many;
}

#endif
