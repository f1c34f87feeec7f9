/*
 * The file by which the tool decides whose calls have times in the trace (`--time adaptive`).
 *
 * A memfd that the tool makes and writes, and that all processes of a session read (TIMES, control.h).  Functions whose
 * sites have CALLTAP_SITE_BRIEF look at it: a call of one that is brief leaves brief records (record.h), but for one in
 * about `every`, which has times, and for those that see a new `tick`.  The dispatcher of handled functions looks at
 * `further` for instances with CALLTAP_INSTANCE_BRIEF.  doc/design/clock.md has the argument.
 *
 * All zeros: each call has its times.  The tick is never 0 while it moves.  A flight recorder's agent puts zeros in the
 * file's place when the tool is gone.
 *
 * Included by both halves of Calltap (target and host), and by no other program.
 */
#ifndef CALLTAP_ABI_TIMES_H
#define CALLTAP_ABI_TIMES_H

#include <stdint.h>

#define CALLTAP_TIMES_FUNCTIONS (1u << 20) /* functions with a higher id have no place, and are never brief */

struct calltap_times {
	uint64_t tick;	/* another value each time that some time has passed */
	uint32_t every; /* of the calls of brief functions, one in about so many has its times; at most 65535 */
	uint32_t reserved[1021];
	uint8_t brief[CALLTAP_TIMES_FUNCTIONS];	   /* by function id, 1: its calls are brief */
	uint32_t further[CALLTAP_TIMES_FUNCTIONS]; /* likewise, bit N - 1: they are for further instance N */
};

_Static_assert(sizeof(struct calltap_times) == 4096 + 5 * CALLTAP_TIMES_FUNCTIONS, "ABI");

#endif
