/* The inside of struct handlers, for handlers.c and handlers_ask.c (handlers.h). */
#ifndef HOST_HOOK_HANDLERS_IMPL_H
#define HOST_HOOK_HANDLERS_IMPL_H

#include <calltap/abi/control.h>
#include <calltap/abi/ring.h>

#include "handlers.h"

/* The functions whose calls a further instance wants (instances.c). */
struct handlers_instance {
	bool wants;		    /* any calls; false: also, there is no instance */
	struct filter_set *filters; /* the instance's own; NULL = only what its triggers name */
	bool exits;		    /* the ends of calls, too */
};

struct handlers {
	struct handlers_slot slots[CALLTAP_HANDLERS_MAX];
	struct handlers_instance instances[CALLTAP_INSTANCES]; /* by set; that of set 0 is not used */
	int fd;
	struct calltap_handled *rows; /* shared with the targets */
	uint64_t *roles;	      /* struct calltap_roles, shared with the targets */
	struct target *owner;	      /* whose handlers they are, NULL = nobody's so far */
};

static inline uint64_t handlers_bit(uint32_t slot)
{
	return 1ull << (CALLTAP_HANDLED_FIRST + slot);
}

/* Ask the agent whether a thread is in a handler that it was in before. */
int handlers_send_wait(struct target *target) __attribute__((warn_unused_result));

#endif
