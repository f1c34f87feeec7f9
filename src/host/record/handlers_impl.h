/* What handlers.c and handlers_ask.c share (handlers.h). */
#ifndef HOST_RECORD_HANDLERS_IMPL_H
#define HOST_RECORD_HANDLERS_IMPL_H

#include "handlers.h"

struct handlers {
	struct handlers_slot slots[CALLTAP_HANDLERS_MAX];
	int fd;
	struct calltap_handled *rows; /* shared with the targets */
	struct process *owner;	      /* whose handlers they are, NULL = nobody's so far */
};

static inline uint32_t handlers_bit(uint32_t slot)
{
	return 1u << (CALLTAP_HANDLED_FIRST + slot);
}

#endif
