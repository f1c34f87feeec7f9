/*
 * The page of a trace: written by `calltap html`, and by `record` and `attach` beside the trace that they have made.
 *
 * Callers: html.c, record.c, attach.c.  Context: host.
 */
#ifndef CMD_PAGE_H
#define CMD_PAGE_H

#include "reading.h"
#include "recording.h"

/* Write the page of an open trace, with what differs in `after` unless that is NULL; *named: it is a file now, with
 * this name, and not standard output. */
int page_write(struct reading *reading, struct reading *after, const char *path, bool *named)
	__attribute__((warn_unused_result));
/* Tell where the page is, or show it in a browser. */
void page_tell(const char *path, bool opens);
/* Refuse a page's file that is the trace; EXIT_USAGE after a message. */
int page_check(const struct recording *recording) __attribute__((warn_unused_result));
/* Write the page that --html or --open asks for; what goes wrong is told, and changes nothing else. */
void page_of_recording(const struct recording *recording);

#endif
