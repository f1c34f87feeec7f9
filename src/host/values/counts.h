/*
 * Reading a map in which programs count (abi/maps.h).
 *
 * Callers: values.c, tests.  Context: host; what the map holds is untrusted, and may change meanwhile.
 */
#ifndef HOST_VALUES_COUNTS_H
#define HOST_VALUES_COUNTS_H

#include <host/tallied.h>

enum counts_kind {
	COUNTS_FIRST,  /* keys that came first */
	COUNTS_NEWEST, /* of a map that was counted in so */
	COUNTS_SUMS,   /* numbers are added up */
};
/*
 * All keys, each once, in the order of their counts, largest first; their types are 0; and all frames of stacks.
 * -ENOMEM.
 */
int counts_read(struct tallies *out, const struct calltap_map *map, enum counts_kind kind)
	__attribute__((warn_unused_result));

/* What is said of spans. */
void counts_read_spans(struct tallied_spans *out, const struct calltap_map *map);
/* Take away the spans of a process (calltap_map_process()) that has ended; returns how many there were. */
uint64_t counts_end_spans(struct calltap_map *map, uint64_t process);

#endif
