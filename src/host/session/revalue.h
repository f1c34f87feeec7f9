/*
 * Other values and conditions while a session records (revalue.c).
 *
 * Callers: steer.c, under the session's lock and with the turn.  Context: host.
 */
#ifndef HOST_SESSION_REVALUE_H
#define HOST_SESSION_REVALUE_H

#include <stdbool.h>
#include <stddef.h>

#include <calltap/diag.h>

struct instance;
struct setting_change;
struct settings;
struct tracer;
struct values_before;

/*
 * Take the words about values; *now, a copy of the instance's settings, has the values then.  next: the tracer that
 * comes with the same change, NULL = it stays.  Whatever becomes of the change, revalue_end() follows.
 */
int revalue_begin(struct instance *instance, struct settings *now, const struct setting_change *list, size_t count,
		  const struct tracer *next, struct values_before **before, struct calltap_diag *diag)
	__attribute__((warn_unused_result));
/* before: NULL = nothing is done. */
void revalue_end(struct instance *instance, struct values_before *before, bool done);

#endif
