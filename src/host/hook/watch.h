/*
 * A session's watch: the memory in which its targets are asked about functions, and answer by events (struct
 * calltap_triggers, abi/profile.h), for the triggers of all its instances.
 *
 * A function's question is the sum of what the instances' triggers want to know of it; an answer goes to each instance
 * with a trigger that is meant, as a deed (actor.h).  Targets can scribble on the memory: what it says is checked.
 * Callers: images.c, the session, the instances, the drainer.  Context: host, under the session's lock.
 */
#ifndef HOST_HOOK_WATCH_H
#define HOST_HOOK_WATCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct actor;
struct calltap_triggers;
struct object;
struct object_site;
struct session;
struct target;
struct triggers;
struct watch;

/* *out: with questions about no function.  ticks_per_ns: of the targets' clock. */
int watch_create(struct watch **out, struct session *session, double ticks_per_ns) __attribute__((warn_unused_result));
void watch_destroy(struct watch *watch); /* NULL: nothing is done */

/*
 * Ask for the triggers (kept, not taken) of the instance with that set, from now on.  The target counts the calls of a
 * function within one time: a trigger that counts them in another way than one before it does not fire for that
 * function.  False: there is one, and `conflict` says so in a sentence.
 */
bool watch_join(struct watch *watch, uint32_t set, struct triggers *triggers, char *conflict, size_t size);
/* Ask for that instance's triggers no more. watch: may be NULL. */
void watch_part(struct watch *watch, uint32_t set);
/* The triggers of the instance with that set; NULL: it has none. watch: may be NULL. */
struct triggers *watch_of(const struct watch *watch, uint32_t set);
/*
 * Does a trigger of the instance wait for the function's calls?  While the instance records nothing (tracing false),
 * those that would stop that do not.  watch: may be NULL.
 */
bool watch_waits(const struct watch *watch, uint32_t set, struct object *object, const struct object_site *site,
		 bool tracing);
/* Flags (CALLTAP_SITE_*) that the function's stub needs for the first instance's triggers; 0: none names it. */
uint16_t watch_flags(const struct watch *watch, struct object *object, const struct object_site *site);
/* Write the questions about a function that has got an id. watch: may be NULL. */
void watch_add_function(const struct watch *watch, uint32_t id, struct object *object, const struct object_site *site);

/* Send the memory to a target that does not have it; behind SETUP. watch: may be NULL. */
int watch_tell(const struct watch *watch, struct target *target) __attribute__((warn_unused_result));
/* Take the answers that have come; by the drainer. */
void watch_poll(struct watch *watch);
/*
 * The first instance's deeds are the tool's own: start the thread that does them, and end it once those under way are
 * done, and tell the user what was missed.  watch: may be NULL.  Without the lock.
 */
int watch_start(struct watch *watch) __attribute__((warn_unused_result));
void watch_end(struct watch *watch);

#endif
