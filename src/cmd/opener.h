/*
 * Opening a file with the desktop's program for it.
 *
 * Callers: html.c, page.c.  Context: host.
 */
#ifndef CMD_OPENER_H
#define CMD_OPENER_H

#include <calltap/diag.h>

/*
 * Have a browser show the file: $BROWSER, or xdg-open.  The program that is started is no child of this process, and
 * has neither its terminal nor its descriptors.  -errno with diag, which says what to do instead.
 */
int opener_open(const char *path, struct calltap_diag *diag) __attribute__((warn_unused_result));

#endif
