/*
 * A terminal as a grid of characters: what is put on it is compared with what
 * is there, and only differences are written.
 *
 * Caller: the command `top`.  Context: host.  ANSI sequences that every
 * terminal of today knows; the alternate screen, so that what was there before
 * is there again after.
 */
#ifndef HOST_VIEW_SCREEN_H
#define HOST_VIEW_SCREEN_H

#include <stdbool.h>
#include <stdint.h>

#include <calltap/diag.h>

enum screen_style { SCREEN_PLAIN, SCREEN_BOLD, SCREEN_REVERSE, SCREEN_DIM, SCREEN_STYLES };

/* Keys that are no characters; characters are themselves, ^C is 3. */
enum screen_key {
	SCREEN_KEY_NONE = 0,
	SCREEN_KEY_TAB = 9,
	SCREEN_KEY_ENTER = 13,
	SCREEN_KEY_ESCAPE = 27,
	SCREEN_KEY_BACKSPACE = 127,
	SCREEN_KEY_UP = 256,
	SCREEN_KEY_DOWN,
	SCREEN_KEY_LEFT,
	SCREEN_KEY_RIGHT,
	SCREEN_KEY_PAGE_UP,
	SCREEN_KEY_PAGE_DOWN,
	SCREEN_KEY_HOME,
	SCREEN_KEY_END,
	SCREEN_KEY_OTHER,
};

struct screen;

/* Take the terminal that is read at `in` and written at `out`, until screen_close(); both stay the caller's. */
int screen_open(struct screen **out_screen, int in, int out, struct calltap_diag *diag)
	__attribute__((warn_unused_result));
/* Give the terminal back as it was. */
void screen_close(struct screen *screen);
/* The same from a signal handler, with no more than calls that are safe there. */
void screen_give_back(const struct screen *screen);
/* Ask for the size again, as after SIGWINCH, and take the terminal again, as after SIGCONT; all is drawn anew. */
int screen_refresh(struct screen *screen) __attribute__((warn_unused_result));
unsigned screen_rows(const struct screen *screen);
unsigned screen_columns(const struct screen *screen);

/* Begin a picture of blanks. */
void screen_clear(struct screen *screen);
/* Text (UTF-8) at a place, cut or filled up to width columns; returns the column behind it. */
unsigned screen_put(struct screen *screen, unsigned row, unsigned column, const char *text, unsigned width, bool right,
		    enum screen_style style);
/* Write what differs; the first error of the terminal there was. */
int screen_show(struct screen *screen) __attribute__((warn_unused_result));

/* One key of what can be read now, SCREEN_KEY_NONE = none; -errno when the terminal is gone. */
int screen_key(struct screen *screen) __attribute__((warn_unused_result));

#endif
