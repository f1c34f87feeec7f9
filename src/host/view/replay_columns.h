/*
 * The columns before the calls of a replay: which there are, in which order, and how they look.
 *
 * Callers: replay_text.c for each line, cmd/replay.c for the list.  Context: host.
 */
#ifndef HOST_VIEW_REPLAY_COLUMNS_H
#define HOST_VIEW_REPLAY_COLUMNS_H

#include <stdbool.h>
#include <stdint.h>

#include <calltap/diag.h>

#include "out.h"

struct names;
struct replay_item;
struct walk;

enum replay_column {
	COLUMN_TIME,
	COLUMN_DELTA,
	COLUMN_THREAD,
	COLUMN_TID,
	COLUMN_PROCESS,
	COLUMN_PID,
	COLUMN_DURATION,
	COLUMN_SELF,
	COLUMN_DEPTH,
	COLUMN_OBJECT,
	COLUMN_COUNT
};

struct replay_columns {
	bool chosen; /* false: those that a replay has by itself */
	unsigned count;
	uint8_t list[COLUMN_COUNT];
};

/* Take "time,thread,..."; "+object" adds to the usual columns, "none" leaves the calls alone.  -EINVAL with diag. */
int replay_columns_parse(struct replay_columns *columns, const char *text, struct calltap_diag *diag)
	__attribute__((warn_unused_result));
bool replay_columns_have(const struct replay_columns *columns, enum replay_column column);
/* Make the list of a replay that has not chosen its columns. */
void replay_columns_usual(struct replay_columns *columns, bool time, bool process);
/* Write the names of the columns, and what they are, one a line. */
void replay_columns_help(struct out *out);
/* The i-th column's name, NULL past the end. */
const char *replay_columns_name(unsigned i);

/* What the columns of one replay need. */
struct replay_columns_state {
	struct replay_columns columns;
	struct names *names;
	struct out *out;
	unsigned thread_width;
	bool color;
	bool has_last;
	uint64_t last_ticks; /* of the line before */
};

/* Write the two lines of the heading, without the calls' part; the first byte of a line is "#". */
void replay_columns_title(struct replay_columns_state *state, bool second);
void replay_columns_print(struct replay_columns_state *state, const struct walk *walk, const struct replay_item *item);

#endif
