/*
 * A terminal as a grid of characters, with keys, a mouse and colours, by ncurses.
 *
 * Callers: `calltap top`, `calltap tui`, and the screen of `calltap live`.  Context: host.  The terminal's text is
 * there again at the end.  Texts may come from a traced program: no byte of theirs reaches the terminal but as a
 * character that is to be seen.  All functions but terminal_give_back() are for one thread.
 */
#ifndef HOST_TERMINAL_TERMINAL_H
#define HOST_TERMINAL_TERMINAL_H

#include <stdbool.h>
#include <stdint.h>

#include <calltap/diag.h>

/* Without colours HOT is bold, and WARM and COOL are plain. */
enum terminal_style {
	TERMINAL_PLAIN,
	TERMINAL_BOLD,
	TERMINAL_REVERSE,
	TERMINAL_DIM,
	TERMINAL_HOT,
	TERMINAL_WARM,
	TERMINAL_COOL,
	TERMINAL_STYLES
};

/* Keys that are no characters; characters are themselves, byte by byte, ^C is 3. */
enum terminal_key {
	TERMINAL_KEY_NONE = 0,
	TERMINAL_KEY_TAB = 9,
	TERMINAL_KEY_ENTER = 13,
	TERMINAL_KEY_SUSPEND = 26, /* ^Z */
	TERMINAL_KEY_ESCAPE = 27,
	TERMINAL_KEY_BACKSPACE = 127,
	TERMINAL_KEY_UP = 256,
	TERMINAL_KEY_DOWN,
	TERMINAL_KEY_LEFT,
	TERMINAL_KEY_RIGHT,
	TERMINAL_KEY_PAGE_UP,
	TERMINAL_KEY_PAGE_DOWN,
	TERMINAL_KEY_HOME,
	TERMINAL_KEY_END,
	TERMINAL_KEY_CLICK, /* terminal_click() says where */
	TERMINAL_KEY_WHEEL_UP,
	TERMINAL_KEY_WHEEL_DOWN,
	TERMINAL_KEY_OTHER,
};

struct terminal;

struct terminal_options {
	size_t size;	     /* sizeof(struct terminal_options) */
	int in, out;	     /* the terminal's descriptors, which stay the caller's */
	bool color;	     /* use colours, if the terminal has some */
	bool mouse;	     /* take the mouse, if the terminal has one */
	const char *instead; /* what to use where there is no such terminal: the end of a sentence */
};

/* True if $TERM is missing, or tells of a terminal that cannot place text or is not known; diag has the sentence. */
bool terminal_is_dumb(const char *instead, struct calltap_diag *diag);
/* Take the terminal, until terminal_close(). */
int terminal_open(struct terminal **out_terminal, const struct terminal_options *options, struct calltap_diag *diag)
	__attribute__((warn_unused_result));
/* Give the terminal back as it was, and free it. */
void terminal_close(struct terminal *terminal);
/* Give the terminal back as it was; may be called in a signal handler. */
void terminal_give_back(const struct terminal *terminal);
/* Give the terminal back as it was, until terminal_retake(). */
void terminal_leave(struct terminal *terminal);
/* Ask for the size again, as after SIGWINCH. */
void terminal_resize(struct terminal *terminal);
/* Take the terminal again, as after SIGCONT; all of it is drawn with the next terminal_show(). */
void terminal_retake(struct terminal *terminal);
unsigned terminal_rows(const struct terminal *terminal);
unsigned terminal_columns(const struct terminal *terminal);

/* Begin a picture of blanks. */
void terminal_clear(struct terminal *terminal);
/* Text (UTF-8) at a place, cut or filled up to width columns; returns the column behind it. */
unsigned terminal_put(struct terminal *terminal, unsigned row, unsigned column, const char *text, unsigned width,
		      bool right, enum terminal_style style);
/* Lines of text below each other, from a row on, as many as there is room for. */
void terminal_put_lines(struct terminal *terminal, unsigned row, unsigned column, const char *const *texts,
			unsigned count);
/*
 * The last row: the text that is being typed behind its prompt, a NULL prompt = none is; else the message; "" = there
 * is none; else the keys.
 */
void terminal_put_last(struct terminal *terminal, const char *prompt, const char *typed, const char *message,
		       const char *keys);
/* Write what differs from what is shown. */
void terminal_show(struct terminal *terminal);

/* The next key that was pressed, without waiting; TERMINAL_KEY_NONE = none, -errno when the terminal is gone. */
int terminal_key(struct terminal *terminal) __attribute__((warn_unused_result));
/* Where the mouse was when TERMINAL_KEY_CLICK was read. */
void terminal_click(const struct terminal *terminal, unsigned *row, unsigned *column);

#endif
