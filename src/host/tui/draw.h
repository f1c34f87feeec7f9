/*
 * Drawing the views of tui.h on a terminal.
 *
 * Caller: run.c.  Context: host.
 */
#ifndef HOST_TUI_DRAW_H
#define HOST_TUI_DRAW_H

#include "tui.h"

#define DRAW_HEAD_ROWS 3u /* rows of the screen above the window */

/* Draw the whole screen. */
void draw_tui(struct tui *tui, struct terminal *terminal);
/* Draw how far a pass is. */
void draw_progress(struct terminal *terminal, unsigned percent, bool opening);

#endif
