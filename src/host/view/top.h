/*
 * The live table of functions: which rows are shown, in which order, and how they are drawn or printed.
 *
 * Caller: the command `top`, which reads the rows (host/profile_rows.h) and acts on keys.  Context: host.  top.c keeps
 * the state, top_screen.c draws the table on a terminal, top_text.c prints it as text or JSON.
 */
#ifndef HOST_VIEW_TOP_H
#define HOST_VIEW_TOP_H

#include <host/profile_rows.h>
#include <host/text.h>
#include "out.h"
#include "host/terminal/list.h"
#include "host/terminal/terminal.h"

enum top_column {
	TOP_RATE, /* calls a second */
	TOP_CALLS,
	TOP_TOTAL,
	TOP_SELF,
	TOP_AVG,
	TOP_P50,
	TOP_P99,
	TOP_MAX,
	TOP_NAME,
	TOP_COLUMNS
};

#define TOP_TEXT_MAX 128 /* bytes of a filter or a message */

struct top {
	enum top_column sort;
	bool reverse;
	char filter[TOP_TEXT_MAX]; /* glob; a text without *, ? and [ is a part of the name; "" = all */
	/* The state on a terminal: */
	bool paused, help;
	bool editing;		   /* the user is typing a filter */
	char edited[TOP_TEXT_MAX]; /* the filter as it is typed */
	struct list list;
	uint32_t selected; /* function under the bar, PROFILE_NONE = none yet */
	uint32_t watched;  /* the function whose callers are shown, PROFILE_NONE = all functions are shown */
	char watched_name[TOP_TEXT_MAX];
	char message[TOP_TEXT_MAX * 2]; /* text of the line below the table, "" = none */
};

/* The rows of a reading after filter and order. */
struct top_rows {
	struct profile_row *rows;
	size_t count;
	size_t calls; /* rows before the filter */
};

void top_init(struct top *top);
/* Parse a column's name; -EINVAL, with the columns' names in diag. */
int top_parse_column(enum top_column *column, const char *text, struct calltap_diag *diag)
	__attribute__((warn_unused_result));
const char *top_column_title(enum top_column column);
/* True if percentiles decide the order: the caller has to measure them before top_arrange(). */
bool top_sorts_by_percentile(const struct top *top);
/* Keep the rows that the filter lets pass, and put them in order. */
void top_arrange(const struct top *top, struct top_rows *rows);

/* The caller's next step after a key. */
enum top_action {
	TOP_NOTHING,
	TOP_REDRAW,
	TOP_ARRANGE, /* show other rows, or another order, of the last reading */
	TOP_READ,
	TOP_RESET,
	TOP_WATCH, /* show the callers of `watched` */
	TOP_QUIT
};
enum top_action top_key(struct top *top, int key, const struct top_rows *rows);
/* The mouse was pressed on this row of the window. */
enum top_action top_click(struct top *top, size_t row, const struct top_rows *rows);
#define TOP_HEAD_ROWS 3u /* rows of the screen above the window */

/* The lines above the table. */
struct top_heading {
	const char *what; /* "PID 123 (name)", or the command */
	struct profile_totals totals;
	uint64_t elapsed_ns;
	bool ended;
};

/*
 * Keep the bar in the table, and the window around the bar.  The rows in the window are *first .. *first + *count - 1.
 */
void top_place(struct top *top, const struct terminal *screen, const struct top_rows *rows, size_t *first,
	       size_t *count);
/* Draw the whole screen; the rows in the window have their percentiles. */
void top_draw(const struct top *top, struct terminal *screen, const struct top_heading *heading,
	      const struct top_rows *rows);

/* One reading as text: a heading, and `limit` rows (0 = all). */
void top_print(const struct top *top, const struct top_heading *heading, const struct top_rows *rows, size_t limit,
	       struct out *out);
/* One reading as a JSON object in one line. */
void top_print_json(const struct top *top, const struct top_heading *heading, const struct top_rows *rows, size_t limit,
		    struct out *out);

/* A number in at most six columns: "123456", "1234k", "12.3M". */
#define TOP_COUNT_MAX 24
const char *top_count_text(double value, char text[TOP_COUNT_MAX]);
/*
 * A time of the row, which has measured ones: "12.3 ms", "~12.3 ms" for an estimate, "<300 us" for one of which no more
 * is known, "-" without calls.
 */
#define TOP_TIME_MAX (TIMETEXT_MAX + 1)
const char *top_time_text(const struct profile_row *row, enum top_column column, char text[TOP_TIME_MAX]);

#endif
