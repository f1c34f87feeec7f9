/*
 * Walking in a trace: what there is to see in which view, and what keys do.
 *
 * Callers: the command `tui` by run.c.  Context: host.  tui.c holds the views' lines, keys.c changes them, cells.c puts
 * one line into words; none of them needs a terminal.  draw.c shows them, run.c waits for keys.
 *
 * All figures are those of `report` and `graph`, by their own readers.  Memory: the merged tree, the table, and what
 * calls.h and source.h bound.
 */
#ifndef HOST_TUI_TUI_H
#define HOST_TUI_TUI_H

#include <host/terminal/list.h>
#include <host/terminal/terminal.h>
#include <host/text.h>

#include "../view/report.h"
#include "calls.h"
#include "folding.h"
#include "source.h"

enum tui_view { TUI_TREE, TUI_FUNCTIONS, TUI_AROUND, TUI_CALLS, TUI_CALL, TUI_SOURCE, TUI_VIEWS };
enum tui_edit { TUI_EDIT_NOTHING, TUI_EDIT_SEARCH, TUI_EDIT_FILTER };

#define TUI_TEXT_MAX 128 /* bytes of what is searched */
#define TUI_BACK_MAX 32	 /* steps back */

struct tui_place {
	enum tui_view view;
	uint32_t function;
	struct list list;
};

struct tui {
	const struct trace *trace;
	const struct view_filter *view_filter;
	struct walk *walk; /* of the last pass over the whole trace */
	struct calltap_diag *diag;
	struct progress progress;
	struct report report;
	struct tree tree;
	struct folding whole;
	/* The table: rows of the report that the filter lets pass, in the report's order or from behind. */
	uint32_t *rows;
	size_t row_count;
	enum report_column sort;
	bool reverse;
	/* The function that the views below are of, TRACE_NONE = none was chosen. */
	uint32_t function;
	uint32_t around_of, calls_of, source_of; /* what they were made for, TRACE_NONE = nothing */
	struct tree callers, callees;
	struct folding above, below;
	struct calls calls;
	struct inside inside;
	size_t call; /* the one of `calls` that `inside` is of */
	struct source source;
	uint32_t *entries; /* per source line: the report's row + 1 of a function that begins there; 0 = none */
	enum tui_view view;
	struct list lists[TUI_VIEWS];
	struct tui_place back[TUI_BACK_MAX];
	size_t back_count;
	char search[TUI_TEXT_MAX], filter[TUI_TEXT_MAX]; /* globs; without *, ? and [ parts of names; "" = none */
	enum tui_edit editing;
	char edited[TUI_TEXT_MAX];
	bool help;
	char message[256]; /* about the last key, "" = none */
};

/*
 * Read the trace, twice; tell (may be NULL) is called in between with what is done, in percent, and may cancel this and
 * each later pass.  *walk is of the last one, for damage.  Release with tui_close() even after an error.
 */
int tui_open(struct tui *tui, const struct trace *trace, const struct view_filter *filter, struct walk *walk,
	     int (*tell)(void *ctx, unsigned percent), void *ctx, struct calltap_diag *diag)
	__attribute__((warn_unused_result));
void tui_close(struct tui *tui);

/* Lines of the view that is shown. */
size_t tui_count(const struct tui *tui);
/* The function of a line, TRACE_NONE = it is of none. */
uint32_t tui_function_at(const struct tui *tui, size_t line);
/* The tree and node of a line of a view that is a tree; NULL: it is none. */
struct folding *tui_folding_at(struct tui *tui, size_t line, uint32_t *node, uint32_t *depth);
/* Lines in front of those of the tree of callees in TUI_AROUND, which has two headings. */
size_t tui_below_first(const struct tui *tui);
/* Show a view, of tui->function where it is of one; the place is kept for going back. */
int tui_show(struct tui *tui, enum tui_view view, uint32_t function) __attribute__((warn_unused_result));
/* Go back to where the view was chosen. */
int tui_return(struct tui *tui) __attribute__((warn_unused_result));
/* Read the calls of tui->function in the order that is set. */
int tui_read_calls(struct tui *tui) __attribute__((warn_unused_result));
/* Read the call number `at` of tui->calls. */
int tui_read_call(struct tui *tui, size_t at) __attribute__((warn_unused_result));
/* Sort and filter the table; filter the tree. */
int tui_arrange(struct tui *tui) __attribute__((warn_unused_result));
int tui_filter(struct tui *tui) __attribute__((warn_unused_result));
/* Move the bar to the next line that the search finds. */
int tui_find(struct tui *tui, bool back) __attribute__((warn_unused_result));
/* The report's row of a function, NULL = it has none. */
const struct report_row *tui_row_of(const struct tui *tui, uint32_t function);

/* Do what the key is for; 0, or -errno. */
int tui_key(struct tui *tui, int key, bool *quit) __attribute__((warn_unused_result));
/* The mouse was pressed on a row of the window. */
int tui_click(struct tui *tui, size_t row) __attribute__((warn_unused_result));

#define TUI_COLUMNS_MAX 8
#define TUI_INDENT_MAX	40u /* levels that are indented */

struct tui_column {
	const char *title;
	unsigned width;
	unsigned rank; /* on a narrow screen the columns with the greatest ranks are left out */
};
/* The view's columns of numbers; their number is returned.  *name: title of what stands behind them. */
size_t tui_columns(const struct tui *tui, const struct tui_column **columns, const char **name);

struct tui_cells {
	char numbers[TUI_COLUMNS_MAX][TIMETEXT_MAX];
	unsigned indent;
	char mark; /* '+': folded, '-': unfolded */
	const char *name;
	bool is_function; /* the name may be shortened as one of a function */
	char more[128];	  /* behind the name */
	enum terminal_style style;
};
/* One line of the view; name is valid until the next change. */
void tui_cells(const struct tui *tui, size_t line, struct tui_cells *cells);
/* The line above the table: what is shown. */
void tui_heading(const struct tui *tui, char *text, size_t size);
/* The line below the table. */
void tui_help_line(const struct tui *tui, char *text, size_t size);

#endif
