/*
 * The tick: a word that changes all the time, and a list of the times when it did not.
 *
 * A thread of its own, for nothing that the session does may hold it up.  Context: host.
 */
#ifndef HOST_BRIEF_TICKER_H
#define HOST_BRIEF_TICKER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <calltap/abi/file.h>

struct calltap_board;
struct ticker;

/*
 * Give *word another value each tick_ns.  by_ns: all times of the ticker's are nanoseconds of CLOCK_MONOTONIC; else
 * they are ticks of this CPU's counter.  sampling: the word's values are points in time at random, which come tick_ns
 * after each other on average, and half as much at the least; there are no rows.  board: where threads tell that they
 * have seen the value; when none has for a while the word stands still.  NULL: it never does.  -errno: there is no
 * memory, or no thread.
 */
int ticker_start(struct ticker **out, uint64_t *word, uint64_t tick_ns, bool by_ns, bool sampling,
		 struct calltap_board *board) __attribute__((warn_unused_result));
/* Go on if the word stands still, and a thread looks at it.  Called all the time, at least each 10 ms. */
void ticker_look(struct ticker *ticker);
/* NULL is fine. */
void ticker_stop(struct ticker *ticker);
/* How long the word keeps a value at the most, but for what rows tell. */
uint64_t ticker_span(const struct ticker *ticker);
/* How long the word has kept its values since the start, in the units of the values. */
struct ticker_stays {
	double span;	/* at the most, but for late ticks */
	double longest; /* at the most so far */
	double late;	/* the sum of what values were kept for longer than `span` */
	double mean; /* of the values that a point in time falls upon which knows nothing of them; 0: there was but one
		      */
};
struct ticker_stays ticker_stays(struct ticker *ticker);
/*
 * Take the rows of late ticks that are new, up to this moment; an array for free(), NULL: there are none, or there is
 * no memory (*error then).  *until: the clock right before the word got the value that it has now.
 */
struct calltap_file_late *ticker_take(struct ticker *ticker, size_t *count, uint64_t *until, int *error);

#endif
