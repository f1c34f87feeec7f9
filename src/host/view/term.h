/*
 * Colours and the pager.
 *
 * Callers: the reading commands.  Context: host.  A pipe or a file gets plain text.
 */
#ifndef HOST_VIEW_TERM_H
#define HOST_VIEW_TERM_H

#include <stdbool.h>
#include <sys/types.h>

#include <calltap/diag.h>

enum term_color { TERM_COLOR_AUTO, TERM_COLOR_ALWAYS, TERM_COLOR_NEVER };

#define TERM_RESET  "\033[0m"
#define TERM_BOLD   "\033[1m"
#define TERM_DIM    "\033[2m"
#define TERM_RED    "\033[31m"
#define TERM_YELLOW "\033[33m"

int term_parse_color(enum term_color *color, const char *text, struct calltap_diag *diag)
	__attribute__((warn_unused_result));
/* True if output to fd is to be coloured. */
bool term_wants_color(enum term_color color, int fd);
/* Columns of the terminal fd; 0: fd is no terminal. */
unsigned term_width(int fd);

struct term_pager {
	pid_t pid; /* 0 = none */
	int fd;	   /* where to write */
};
/* Start $CALLTAP_PAGER, else $PAGER, else less -FRSX, when standard output is a terminal and allowed says so; else fd
 * is standard output. */
void term_pager_start(struct term_pager *pager, bool allowed);
/* Close the pager's input and wait for its end.  -ENOENT with diag: the shell could not start it; diag may be NULL. */
int term_pager_wait(struct term_pager *pager, struct calltap_diag *diag);

#endif
