/*
 * Signals of a tool that has a terminal: the terminal is given back however the tool ends.
 *
 * Callers: the commands `top`, `tui` and `live`.  Context: host.  There is one terminal.
 */
#ifndef HOST_TERMINAL_SIGNALS_H
#define HOST_TERMINAL_SIGNALS_H

#include "terminal.h"

enum {
	TERMINAL_NEWS_RESIZED = 1,   /* SIGWINCH */
	TERMINAL_NEWS_CONTINUED = 2, /* SIGCONT */
	TERMINAL_NEWS_STOP = 4,	     /* SIGTSTP: for terminal_signals_stop() */
	TERMINAL_NEWS_END = 8	     /* SIGINT, SIGTERM, SIGHUP, SIGQUIT */
};

/* Take the signals; *fd becomes readable when there is news.  0 or -errno. */
int terminal_signals_take(int *fd) __attribute__((warn_unused_result));
/* The terminal to give back when the tool crashes; NULL = none. */
void terminal_signals_of(const struct terminal *terminal);
/* The signals that came since the last call: TERMINAL_NEWS_* bits. */
unsigned terminal_signals_news(void);
/* Stop this process, take the terminal again, or its new size, as the news say; returns the news. */
unsigned terminal_signals_act(struct terminal *terminal);
/* Give the terminal back, stop this process as ^Z does, and take the terminal again once it goes on. */
void terminal_signals_stop(struct terminal *terminal);
/* End as by the signal that asked for it, if one did; the terminal is closed by now. */
void terminal_signals_end(void);

#endif
