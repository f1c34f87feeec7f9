/*
 * How far a long reading is, on a terminal's line that is gone afterwards.
 *
 * Callers: cmd/reading.c makes it; walk.c and others step it.  Context: host.  Nothing is shown before the reading has
 * taken a second ($CALLTAP_PROGRESS_DELAY, in seconds), nor unless standard error is a terminal.  NULL is a headway
 * that nobody wants to see.
 */
#ifndef HOST_VIEW_HEADWAY_H
#define HOST_VIEW_HEADWAY_H

#include <stdbool.h>
#include <stdint.h>

struct headway {
	bool on;
	bool shown;		    /* the line has a text */
	unsigned held;		    /* the stretch is a part of a longer one, which counts on */
	uint64_t start_ns;	    /* of the whole reading */
	uint64_t delay_ns;	    /* nothing is shown before */
	uint64_t begun_ns, told_ns; /* of this stretch; of the last text */
	uint64_t done, total;	    /* steps; total 0: nobody knows */
	uint64_t look_at;	    /* the clock, when so much is done */
	unsigned pass, passes;	    /* the stretch is one of so many that are alike */
	const char *what;
};

void headway_start(struct headway *headway);
/* A stretch of the work begins, of so many steps. */
void headway_begin(struct headway *headway, const char *what, uint64_t total);
/*
 * As headway_begin(), where the stretch is pass number `pass`, from 0, of `passes` that take about as long as each
 * other: the line shows how far all of them together are.
 */
void headway_begin_pass(struct headway *headway, const char *what, uint64_t total, unsigned pass, unsigned passes);
void headway_look(struct headway *headway);
static inline void headway_add(struct headway *headway, uint64_t steps)
{
	if (headway && headway->on && (headway->done += steps) >= headway->look_at)
		headway_look(headway);
}
/* Stretches that begin from here on are parts of the one that has begun, until they are let go. */
void headway_hold(struct headway *headway);
void headway_release(struct headway *headway);
/* Take the text away, for other output comes, and show no more. */
void headway_end(struct headway *headway);

#endif
