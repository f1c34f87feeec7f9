/*
 * A terminal as a grid of characters: a new picture is compared with the one that is shown, and only differences are
 * written.
 *
 * Callers: top_screen.c and the command `top`.  Context: host.  The room writes ANSI sequences that every terminal of
 * today knows, and uses the alternate screen, so that the terminal's text is there again at the end.
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
/* Give the terminal back as it was, and free the screen. */
void screen_close(struct screen *screen);
/* Give the terminal back as it was; may be called in a signal handler. */
void screen_give_back(const struct screen *screen);
/*
 * Ask for the size again, as after SIGWINCH, and take the terminal again, as after SIGCONT; the next screen_show()
 * draws the whole grid.
 */
int screen_refresh(struct screen *screen) __attribute__((warn_unused_result));
unsigned screen_rows(const struct screen *screen);
unsigned screen_columns(const struct screen *screen);

/* Begin a picture of blanks. */
void screen_clear(struct screen *screen);
/* Text (UTF-8) at a place, cut or filled up to width columns; returns the column behind it. */
unsigned screen_put(struct screen *screen, unsigned row, unsigned column, const char *text, unsigned width, bool right,
		    enum screen_style style);
/* Write the cells that differ; returns the terminal's first error. */
int screen_show(struct screen *screen) __attribute__((warn_unused_result));

/* The next key that was pressed, without waiting; SCREEN_KEY_NONE = none, -errno when the terminal is gone. */
int screen_key(struct screen *screen) __attribute__((warn_unused_result));

#endif
