/*
 * How long functions take from one record to the next, for the places of records without times.
 *
 * Caller: cursor.c, which reads a trace once for this, at its first cursor.  Context: host.  doc/design/estimates.md
 * has the argument.
 */
#ifndef HOST_TRACE_WEIGHTS_H
#define HOST_TRACE_WEIGHTS_H

#include "decode.h"
#include "trace.h"

struct weights {
	bool ready;
	struct record_weights table;
	double *ticks, *rare; /* of the table; for free() */
	double surplus;	      /* ticks that a piece between two times is longer than one between brief records */
	double surplus_off;   /* and by so many ticks functions show that it differs between them */
	uint64_t rare_pieces; /* so many pieces are in `rare` */
};

/* The first pass over a trace notes all its events here; the weights are made of that. */
struct weighing;
/* Begin for a trace with so many functions and threads.  Pieces that are longer than longest_ticks are passed over. */
int weighing_create(struct weighing **out, uint32_t functions, uint32_t threads, uint64_t longest_ticks)
	__attribute__((warn_unused_result));
/* An event that has a time; in order.  0 or -ENOMEM. */
int weighing_note(struct weighing *weighing, const struct trace_event *event) __attribute__((warn_unused_result));
/*
 * Brief records of a thread that come next, by their heads (4 bytes each).  Events of other threads that are older may
 * be noted behind them.  0 or -ENOMEM.
 */
int weighing_note_brief(struct weighing *weighing, uint32_t thread, const unsigned char *heads, uint32_t count)
	__attribute__((warn_unused_result));
/* All events were noted: fill in *weights, whose arrays are the caller's then.  0 or -ENOMEM. */
int weighing_settle(struct weighing *weighing, struct weights *weights) __attribute__((warn_unused_result));
void weighing_destroy(struct weighing *weighing);

#endif
