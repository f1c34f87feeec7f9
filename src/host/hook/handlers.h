/*
 * Handlers of a program's own (abi/handlers.h): who wants which function's
 * calls, and the table that tells the targets.
 *
 * A slot is what one registration of the program's is known by.  The choice of
 * functions is kept with the images (image.slots), what their rows say, too
 * (image.who).  handlers.c keeps slots and rows, handlers_ask.c answers the
 * program.  Context: host, under the session's lock.
 */
#ifndef HOST_HOOK_HANDLERS_H
#define HOST_HOOK_HANDLERS_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

#include <calltap/abi/handlers.h>
#include <calltap/diag.h>

struct calltap_msg_handlers_done;
struct filter_set;
struct handlers;
struct image;
struct images;
struct object;
struct object_site;
struct target;
struct session;
struct setting_change;

/* A handler's registration: which functions, and how. */
struct handlers_slot {
	bool used;
	bool exit;		    /* it waits for the calls' end */
	bool data;		    /* it has a word kept from a call's begin to its end */
	bool by_name;		    /* `named` chooses; else the ids alone do */
	struct filter_set *named;   /* which functions, and which not */
	struct filter_set *allowed; /* only: which not */
	uint32_t *ids;		    /* of functions that were named by address, sorted */
	size_t id_count;
};

/* With a table of rows that are all 0. */
int handlers_create(struct handlers **out) __attribute__((warn_unused_result));
void handlers_destroy(struct handlers *handlers);
void handlers_slot_clear(struct handlers_slot *slot);
/* Sort the slot's ids: they are looked up by bisection. */
void handlers_slot_sort(struct handlers_slot *slot);

/*
 * Further instances of the session want functions' calls, too: to the rows and
 * images they are one more bit each.  The instance wants what these filters (kept, not taken) choose, NULL = nothing,
 * and what its triggers name (watch_join() comes first).
 */
int handlers_instance(struct images *images, uint32_t set, struct filter_set *filters, bool exits)
	__attribute__((warn_unused_result));
uint64_t handlers_instance_bit(uint32_t set);
/* Clear these bits in all rows, whatever stubs there are. */
void handlers_silence(struct session *session, uint64_t bits);

/* Is any slot in use, or wanted by an instance?  Does any wait for exits?  NULL: no. */
bool handlers_any(const struct handlers *handlers);
bool handlers_any_exit(const struct handlers *handlers);
uint32_t handlers_count(const struct handlers *handlers);
/* True if the filters of a slot or of a further instance name the object, or the file; handlers NULL: there are none.
 */
bool handlers_name_object(const struct handlers *handlers, const struct object *object);
bool handlers_name_file(const struct handlers *handlers, const char *path, int fd);
/* How many functions of the process whose they are have handlers; or those of certain slots, in some process. */
uint64_t handlers_handled(const struct handlers *handlers);
uint64_t handlers_functions(const struct target *target, uint64_t slots);

/*
 * The slots that want a function's calls, as bits of struct calltap_handled
 * (its `start` is not among them).  Of two that want a word kept the first has it.
 */
uint64_t handlers_choose(const struct images *images, const struct image *image, const struct object_site *source,
			 uint32_t id);
/* Let all images know what the slot in this place chooses; -EBUSY: a function has two that want a word kept now. */
int handlers_mark(const struct images *images, uint32_t slot) __attribute__((warn_unused_result));
/* Memory for what is kept with an image of so many sites. */
int handlers_room(struct image *image, size_t sites) __attribute__((warn_unused_result));
/* The row of an image's site. */
void handlers_write(struct handlers *handlers, struct image *image, uint32_t site, uint64_t who);
/* The roles of an image's site in all instances; before its row. */
void handlers_write_roles(const struct images *images, struct image *image, uint32_t site);

/* Tell a process where the rows are; at: of its struct calltap_handlers, 0 = it has none. */
int handlers_tell(const struct handlers *handlers, struct target *target, uint64_t at)
	__attribute__((warn_unused_result));
/* A process that comes in, behind SETUP; what a forked child has is a copy of its parent's. */
int handlers_welcome(const struct session *session, struct target *target, const struct target *parent)
	__attribute__((warn_unused_result));
int handlers_answer(struct session *session, struct target *target, const struct calltap_msg_handlers_done *done)
	__attribute__((warn_unused_result));

/* Wait until all targets have done what they were sent before; with the turn (live_turn_begin()). */
void handlers_settle(struct session *session);

/* handlers_ask.c: the verb `handlers` (host/remote/remote.h), asked for by the process asker. */
int handlers_ask(struct session *session, pid_t asker, const struct setting_change *words, size_t count, FILE *answer,
		 struct calltap_diag *diag) __attribute__((warn_unused_result));
#endif
