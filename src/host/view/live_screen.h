/*
 * The screen of `calltap live --screen`: the newest lines, which can be held, walked in, searched and filtered.
 *
 * Caller: the command `live`, which has the lines come and acts on keys.  Context: host.
 */
#ifndef HOST_VIEW_LIVE_SCREEN_H
#define HOST_VIEW_LIVE_SCREEN_H

#include <stdbool.h>
#include <stdint.h>

#include <host/terminal/list.h>
#include <host/terminal/roll.h>
#include <host/terminal/terminal.h>

#define LIVE_TEXT_MAX 128

struct live_screen {
	struct roll *roll;
	struct list list;
	bool follows; /* the newest line is shown, and lines are taken; else they wait */
	bool help;
	enum { LIVE_EDITS_NOTHING, LIVE_EDITS_SEARCH, LIVE_EDITS_FILTER } editing;
	char edited[LIVE_TEXT_MAX]; /* as it is typed */
	char search[LIVE_TEXT_MAX], filter[LIVE_TEXT_MAX];
	unsigned shift;			 /* columns of the lines that are left of the screen */
	char message[LIVE_TEXT_MAX * 2]; /* text of the last line, "" = none */
};

/* The lines above the text. */
struct live_heading {
	const char *what; /* "PID 123 (name)", or the command */
	uint64_t elapsed_ns;
	uint64_t left_out; /* records that came too fast */
	bool ended;
};

/* -ENOMEM */
int live_screen_init(struct live_screen *screen) __attribute__((warn_unused_result));
void live_screen_clear(struct live_screen *screen);
void live_screen_key(struct live_screen *screen, int key, bool *quit);
/* The mouse was pressed on this row of the terminal. */
void live_screen_click(struct live_screen *screen, unsigned row);
void live_screen_draw(struct live_screen *screen, struct terminal *terminal, const struct live_heading *heading);

#endif
