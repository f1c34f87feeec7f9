/*
 * Processes whose calls may be recorded, and whose returns may not: something in them looks for return addresses on
 * stacks, or moves them.
 *
 * Callers: found.c before anything runs; the plans of what comes later; who changes the tracer.  Context: host, with
 * the session's lock held.
 */
#ifndef HOST_SESSION_RETURNS_H
#define HOST_SESSION_RETURNS_H

#include <stdbool.h>

#include <calltap/diag.h>

struct object;
struct session;
struct target;

/* Why, as calltap_mover() says it of a library; NULL: the program does nothing of the kind. */
const char *returns_refused(const struct object *program);
/*
 * The target has told of the object.  False: it is the target's program, and the session records returns; so the target
 * runs untraced, and the user is told.
 */
bool returns_take(struct session *session, struct target *target, const struct object *object);
/* -EOPNOTSUPP: a process of the session has such an object, and a tracer that records returns is asked for. */
int returns_check(const struct session *session, bool exits, struct calltap_diag *diag);

#endif
