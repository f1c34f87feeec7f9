/*
 * --time-profile: an earlier trace tells which functions are short.  Caller: recording.c.  Context: host.
 */
#ifndef CMD_LEARNED_H
#define CMD_LEARNED_H

#include <stdint.h>

#include <calltap/diag.h>
#include <host/session/record.h>

/*
 * Read the trace: a function that it has enough calls of is short or is not, by how many took less than short_ns.
 * *known: an array in the order of symbols, for learned_free(), also after an error.
 */
int learned_read(struct record_known **known, size_t *count, const char *path, uint64_t short_ns,
		 struct calltap_diag *diag) __attribute__((warn_unused_result));
void learned_free(struct record_known *known, size_t count);

#endif
