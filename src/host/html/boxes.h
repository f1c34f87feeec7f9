/*
 * The second pass over the trace: the boxes of the time line.
 *
 * Caller: write.c.  Context: host.  A long call is a box of its own; the small calls between two long ones, with all
 * that was called in them, are one box, a sum.  No two boxes of a stack and depth overlap.
 */
#ifndef HOST_HTML_BOXES_H
#define HOST_HTML_BOXES_H

#include "../export/told.h"
#include "../view/report.h"
#include "columns.h"
#include "levels.h"
#include "texts.h"
#include "used.h"

/* Bits of a box's flags; below them the call's enum call_end. */
#define BOX_TAIL   8u  /* entered by a tail call */
#define BOX_BEFORE 16u /* open when the trace began */
#define BOX_CALL   32u /* a call without a duration */
#define BOX_ABOUT  64u /* its duration is an estimate */

struct box {
	uint64_t from_ns, to_ns; /* since the trace's start */
	uint64_t self_ns;
	uint64_t away_ns; /* of its time: that in which the thread ran on another stack */
	uint64_t calls;	 /* of a sum: the small calls at this depth; 0: a call of its own, or a sum of deeper ones alone
			  */
	uint64_t deeper; /* of a sum: calls in them */
	uint64_t total_ns; /* of a sum: the time of the small calls at this depth */
	uint32_t track, depth;
	uint32_t function; /* number of a used function; 0: the box is a sum */
	uint32_t flags;
	uint32_t arguments, result; /* numbers of texts, 0 = none */
};

/* A loss, a wait or a mark. */
enum moment_kind { MOMENT_LOST, MOMENT_WAIT, MOMENT_MARK, MOMENT_KINDS };
struct moment {
	uint64_t ns;	/* since the trace's start */
	uint64_t value; /* records lost, nanoseconds waited, a mark's text by its number */
	uint32_t track;
	enum moment_kind kind;
};

/* A stack of a thread. */
struct track {
	uint32_t thread;
	uint32_t stack; /* number within the thread, from 0 on */
	bool used;
	struct box *sums; /* per depth: small calls that are not in a box yet */
	uint32_t room;
};

struct boxes {
	struct box *list;
	uint32_t count, room;
	struct track *tracks; /* the threads' first stacks, then others */
	uint32_t track_count, track_room;
	struct moment *moments;
	uint32_t moment_count, moment_room;
	uint64_t moments_by_kind[MOMENT_KINDS], moments_left;
	uint64_t strays;  /* calls whose entry is not in the trace: they have no place */
	uint64_t crowded; /* calls of stacks beyond LEVELS_TRACKS */
	uint64_t kept, sums, small;
	struct texts texts;
};

int boxes_collect(struct boxes *boxes, const struct levels *levels, const struct report *report,
		  const struct view_filter *filter, struct used *used, struct walk *walk, struct calltap_diag *diag)
	__attribute__((warn_unused_result));
void boxes_put(const struct boxes *boxes, struct columns *columns);
void boxes_clear(struct boxes *boxes);

#endif
